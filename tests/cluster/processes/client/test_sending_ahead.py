"""Copies of pieces on their way: their number is limited, and their memory is used again."""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.processes.client import sending_ahead
from eagerflow.cluster.processes.client.sending_ahead import SendingAhead
from eagerflow.cluster.protocol.long_frames import PIECE
from tests.ctrl_c import ctrl_c_raises, interrupted, places


def never() -> bool:
    return False


def test_copies_are_of_the_moment() -> None:
    data = np.zeros(PIECE + 5, np.uint8)
    copies = []
    for start, piece in SendingAhead().copies(data, never):
        copies.append((start, piece))
        data[:] = 7  # by the owner, after the call; here amid it
    assert [(start, len(piece), int(piece[0])) for start, piece in copies] == [
        (0, PIECE, 0), (PIECE, 5, 7),
    ]  # fmt: skip


def test_memory_of_sent_pieces_is_used_again() -> None:
    places = set()
    ahead = SendingAhead()
    for _, piece in ahead.copies(bytes(10 * PIECE), never):
        places.add(piece.ctypes.data)
        del piece  # it is sent
    assert len(places) == 1
    assert not ahead._blocks  # afterwards none is kept


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_ahead, "_AHEAD", 3)
    monkeypatch.setattr(sending_ahead, "_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("few")
def test_it_waits_until_pieces_are_sent() -> None:
    waiting: list[Any] = []
    stopped, waits = Event(), Event()
    ahead = SendingAhead()

    def looks() -> bool:
        waits.set()
        return False

    def send() -> None:
        for _, piece in ahead.copies(bytes(5 * PIECE), looks):
            waiting.append(piece)
            del piece
        stopped.set()

    thread = Thread(target=send)
    thread.start()
    assert waits.wait(10)
    assert len(waiting) == 3
    waiting.pop(0)
    waiting.pop(0)
    assert stopped.wait(10)
    thread.join()
    assert len(waiting) == 3


@pytest.mark.usefixtures("few")
def test_tasks_share_one_limit_and_one_that_reads_late_stops_no_other() -> None:
    every: list[SendingAhead] = []
    every += (SendingAhead(every) for _ in range(3))
    late = list(every[0].copies(bytes(5 * PIECE), lambda: True))
    assert len(late) == 3  # all that the limit allows
    others = [list(one.copies(bytes(5 * PIECE), lambda: True)) for one in every[1:]]
    assert [len(pieces) for pieces in others] == [2, 2]
    assert len(list(every[1].copies(bytes(5 * PIECE), lambda: True))) == 0
    del late
    assert len(list(every[1].copies(bytes(5 * PIECE), lambda: True))) == 0  # four are under way
    others.clear()
    for _, piece in every[1].copies(bytes(9 * PIECE), never):
        del piece  # it is sent


@pytest.mark.usefixtures("few")
def test_it_gives_up_with_the_receiver() -> None:
    ahead = SendingAhead()
    kept = list(ahead.copies(bytes(5 * PIECE), lambda: True))
    assert len(kept) == 3
    del kept
    assert len(list(ahead.copies(bytes(2 * PIECE), never))) == 2


def test_ctrl_c_at_any_instant_takes_no_room_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)  # it may come in a finaliser
    ahead = SendingAhead()

    def send() -> None:
        for _ in ahead.copies(bytes(2 * PIECE), never):
            pass

    with ctrl_c_raises():
        for after in range(1, places(send) + 1):
            with suppress(KeyboardInterrupt):
                interrupted(send, after)
            assert ahead._count() == 0
            assert not ahead._lock.locked()
