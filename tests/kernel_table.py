"""Tests that register kernels leave the table as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eagerflow_kernels import table


@contextmanager
def restored_kernels() -> Iterator[None]:
    """Put back what is registered, removed or replaced within, and whose each kernel is.

    A kernel of the package that is registered anew by a test would count as one of a user from
    then on, for which no native one may compute. Families of ops that are loaded within stay.
    """
    portable, special, own = dict(table._portable), dict(table._special), set(table._own)
    try:
        yield
    finally:
        own |= {key for key in table._own if key not in special}  # loaded within
        for key in [key for key in table._special if key not in special and key not in own]:
            table.remove(*key)
        table._own.clear()
        table._own.update(own)
        for key, kernel in special.items():
            if table._special.get(key) is not kernel:
                table._store(table._special, key, kernel, key[0])
        for name, kernel in list(table._portable.items()):
            if name in portable and portable[name] is not kernel:
                table._store(table._portable, name, portable[name], name)
            elif name not in portable and not _is_of_package(kernel):
                table.remove(name)


def _is_of_package(kernel: Any) -> bool:
    return isinstance(kernel, str) or kernel.__module__.startswith("eagerflow_kernels")


@contextmanager
def replaced_kernel(name: str, kind: str, kernel: Callable[..., Any]) -> Iterator[None]:
    """A user's kernel computes an op on one kind of device, for all dtypes."""
    with restored_kernels():
        for key in [key for key in table._special if key[:2] == (name, kind)]:
            table.remove(*key)
        table.special(name, kind)(kernel)
        yield
