"""Temporary kernels: context managers that restore the kernel table when they exit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eagerflow_kernels import table


@contextmanager
def restored_kernels() -> Iterator[None]:
    """Restores kernels registered, removed or replaced in the block, and the owner of each.

    A package's own kernel that a test registers anew would count as a user's kernel from then on,
    which no native kernel may replace. Op families that are loaded within the block stay.
    """
    portable, special, own = dict(table._portable), dict(table._special), set(table._own)
    try:
        yield
    finally:
        own |= {key for key in table._own if key not in special}  # of a family loaded within
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
