"""The end of a session: open requests are ended once, by whichever thread comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eagerflow.cluster.processes.client import Connections


class TakenMeanwhile(dict[int, Any]):
    """A dict that another thread empties right after a check of whether it has items."""

    def __len__(self) -> int:
        count = super().__len__()
        self.clear()
        return count


@pytest.fixture
def connections() -> Connections:
    return object.__new__(Connections)  # no thread, no sockets


def test_two_threads_end_what_is_open(connections: Connections) -> None:
    heard: list[Any] = []
    connections._pending = TakenMeanwhile({1: SimpleNamespace(failed=heard.append)})
    connections._end_pending()
    assert not dict.copy(connections._pending)
    assert len(heard) <= 1


@pytest.mark.parametrize("kind", ["done", "failed"])
def test_an_answer_that_comes_after_the_end(connections: Connections, kind: str) -> None:
    connections._pending = {}
    connections._machine = SimpleNamespace(handle=lambda event, now: [(kind, 1, None)])  # type: ignore[assignment]  # all that is asked of it
    connections._handle(("tick",))
