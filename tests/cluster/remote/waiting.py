"""Calls in threads of their own that wait at a task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import eagerflow as ef
from tests.resources.queues import modes

_watched: list[ef.cluster.Cluster] = []


@contextmanager
def watching(cluster: ef.cluster.Cluster) -> Iterator[None]:
    """Within the block `open_steps` asks this cluster."""
    _watched.append(cluster)
    try:
        yield
    finally:
        _watched.remove(cluster)


def open_steps(task: str = "ps:0") -> int:
    """How many steps have not ended at a task: one for each call that waits there."""
    return _watched[-1].tasks[task].steps


class Waiting(modes.Waiting):
    """A call that waits for a queue of a task; its device scope is that of the caller.

    Args:
        call: what to call.
        on: the resource that it waits for.
        line: not used: a task does not say which attempts wait.
    """

    def __init__(self, call: Callable[[], Any], on: Any, line: int = 1) -> None:
        device = on.resource.device

        def scoped() -> Any:
            with ef.device(device):
                return call()

        self._call = scoped
        self._found: list[Any] = []
        self._error: list[BaseException] = []
        before = open_steps(device.task)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        modes.until(lambda: open_steps(device.task) > before or not self._thread.is_alive())
