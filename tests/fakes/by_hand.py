"""Devices that work only when they are told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import eagerflow as ef
from eagerflow.hardware import registry
from eagerflow_kernels.asynchronous import AsyncBackend

_kinds = count()  # lanes remember the kernels of a kind, so each has a kind of its own


@contextmanager
def device_by_hand(*, threads: bool = False, answers: bool = True) -> Iterator[AsyncBackend]:
    """The backend of such a device, which has done all its work in the end.

    Args:
        threads: whether it works by itself after all, and is only one that nobody else knows.
        answers: whether it works for a step that waits for it.
    """
    made = AsyncBackend(f"byhand{next(_kinds)}", threads=threads)
    if not answers:
        when_ready = made.when_ready
        made.when_ready = lambda *given: when_ready(*given) and None
    ef.hardware.register_backend(made)
    try:
        yield made
    finally:
        while made.pump(100):
            pass
        registry._backends.pop(made.kind)
        registry._devices.pop(f"{made.kind}:0", None)
