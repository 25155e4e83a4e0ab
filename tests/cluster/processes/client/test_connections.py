"""The threads of a client: who ends open requests, and long frames that are sent ahead."""

from __future__ import annotations

from collections import deque
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from eagerflow.cluster.processes.client import sending_ahead
from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.protocol.long_frames import PIECE, FrameAhead, LongFrames, split
from tests.ctrl_c import ctrl_c_raises, interrupted, places


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
    connections._pending, connections._now = {}, 0.0
    connections._machine = SimpleNamespace(handle=lambda event, now: [(kind, 1, None)])  # type: ignore[assignment]  # all that is asked of it
    connections._handle(("tick",))


# --- long frames -------------------------------------------------------------------------------


@pytest.fixture
def sender(connections: Connections) -> Connections:
    """Its events stay in the inbox."""
    connections._inbox, connections._ahead = deque(), {}  # type: ignore[misc]  # as `__init__`
    connections._over = connections._sleeping = False
    return connections


def never() -> bool:
    return False


def receive(sender: Connections, received: LongFrames) -> None:
    """Send all pieces in the inbox to a receiver."""
    while sender._inbox:
        kind, task, message = sender._inbox.popleft()
        assert (kind, task) == ("piece", "ps:0")
        assert received.take("p", message) is None


@pytest.mark.parametrize("size", [PIECE + 1, 3 * PIECE])
def test_a_frame_whose_message_does_not_follow_is_dropped(sender: Connections, size: int) -> None:
    """Ctrl-C has come, or the task was lost, when all pieces were on their way."""
    received = LongFrames()
    ahead = sender.send_ahead("ps:0", bytes(size), never)
    receive(sender, received)
    assert received.held == 1
    del ahead
    receive(sender, received)
    assert received.held == 0


def test_a_frame_that_is_given_up_is_dropped(
    sender: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending_ahead, "_AHEAD", 2)
    monkeypatch.setattr(sending_ahead, "_LOOK_SECONDS", 0.0)
    assert sender.send_ahead("ps:0", bytes(3 * PIECE), lambda: True) is None
    received = LongFrames()
    receive(sender, received)
    assert received.held == 0


def test_ctrl_c_at_any_instant_leaves_no_frame_at_the_receiver(sender: Connections) -> None:
    data, received = bytes(2 * PIECE), LongFrames()

    def send() -> FrameAhead | None:
        return sender.send_ahead("ps:0", data, never)

    with ctrl_c_raises():
        for after in range(1, places(send) + 1):
            try:
                ahead = interrupted(send, after)
            except KeyboardInterrupt:
                ahead = None
            receive(sender, received)
            if ahead is not None:
                (message,) = split([b"header", ahead])
                assert [len(frame) for frame in received.take("p", message) or ()] == [6, 2 * PIECE]
            assert received.held == 0


def test_a_task_that_reads_late_delays_no_other(
    sender: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending_ahead, "_AHEAD", 3)
    monkeypatch.setattr(sending_ahead, "_LOOK_SECONDS", 0.01)
    waits, ended = Event(), Event()

    def looks() -> bool:
        waits.set()
        return ended.is_set()

    def send_here() -> None:
        sender.send_ahead("ps:0", bytes(5 * PIECE), looks)

    def send_there() -> None:
        assert sender.send_ahead("ps:1", bytes(2 * PIECE), never)
        sent.set()

    sent = Event()
    threads = [Thread(target=send_here), Thread(target=send_there)]
    threads[0].start()
    assert waits.wait(10)
    threads[1].start()
    came = sent.wait(10)
    ended.set()
    for thread in threads:
        thread.join()
    assert came
