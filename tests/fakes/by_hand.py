"""Devices that work only when a test tells them to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import eagerflow as ef
from eagerflow.hardware import registry
from eagerflow_kernels.asynchronous import AsyncBackend

_kinds = count()  # lanes cache the kernels of a kind, so each device is of a kind of its own


def registered(backend: AsyncBackend) -> Iterator[AsyncBackend]:
    """For fixtures: a backend of asynchronous devices, which exist until the generator goes on."""
    ef.hardware.register_backend(backend)
    yield backend
    registry._backends.pop(backend.kind)
    for index in range(backend.count()):
        registry._devices.pop(f"{backend.kind}:{index}", None)


@contextmanager
def device_by_hand(*, threads: bool = False, answers: bool = True) -> Iterator[AsyncBackend]:
    """The backend of a device that works by hand; at the end, it does all pending work.

    Args:
        threads: whether it works by itself after all, as a device of an unknown kind.
        answers: whether it calls back a step that waits for a value.
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
