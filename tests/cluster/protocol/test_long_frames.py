"""Long frames in pieces: they come back whole; what is malformed costs no memory and no message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerflow.cluster.protocol import long_frames
from eagerflow.cluster.protocol.long_frames import PIECE, FrameAhead, LongFrames, split
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import PiecedHead, PieceHead
from tests.exploring import examples

encode = long_frames._encode
LARGE = bytes(range(256)) * (3 * PIECE // 256) + b"rest"


def through(received: LongFrames, frames: list[Any], peer: str = "p") -> list[bytes] | None:
    """Send the frames of a message in pieces; gives what comes."""
    *pieces, last = split(frames)
    for message in pieces:
        assert received.take(peer, message) is None
    whole = received.take(peer, last)
    return None if whole is None else [bytes(frame) for frame in whole]


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 1])
def test_frames_come_back(size: int) -> None:
    frames = [b"header", LARGE[:size], b"", memoryview(LARGE), np.arange(7, dtype=np.uint8)]
    received = LongFrames()
    assert through(received, frames) == [bytes(frame) for frame in frames]
    assert received.held == 0


def test_pieces_have_one_size_and_are_not_copied() -> None:
    whole = np.zeros(2 * PIECE + 5, np.uint8)
    *pieces, last = split([b"header", whole])
    assert [len(piece[2]) for piece in pieces] == [PIECE, PIECE, 5]
    whole[:] = 1
    assert all(piece[2][0] == 1 for piece in pieces)
    assert [len(frame) for frame in last[2:]] == [6, 0]


def test_a_long_header_stays_in_its_message() -> None:
    header = bytes(PIECE + 1)
    assert through(LongFrames(), [header, LARGE]) == [header, LARGE]


def test_what_comes_is_memory_of_its_own() -> None:
    *pieces, last = split([b"header", LARGE])
    received = LongFrames()
    for message in pieces:
        reused = bytearray(message[2])
        received.take("p", [*message[:2], reused])
        reused[:] = bytes(len(reused))
    _, whole = received.take("p", last) or ()
    assert bytes(whole) == LARGE
    assert isinstance(whole, np.ndarray)
    assert whole.flags.owndata
    assert whole.flags.writeable


def test_frames_sent_ahead_take_their_places() -> None:
    first, second = FrameAhead(len(LARGE)), FrameAhead(2 * PIECE)
    received = LongFrames()
    for start in range(0, len(LARGE), PIECE):  # interleaved, as two threads send
        received.take("p", first.piece(LARGE[start : start + PIECE], start))
        if start < 2 * PIECE:
            received.take("p", second.piece(LARGE[start : start + PIECE], start))
    assert received.held == 2
    (message,) = split([b"header", second, b"x", first])
    whole = received.take("p", message) or []
    assert [bytes(x) for x in whole] == [b"header", LARGE[: 2 * PIECE], b"x", LARGE]


def test_a_frame_that_is_not_completed_is_dropped() -> None:
    ahead, received = FrameAhead(len(LARGE)), LongFrames()
    received.take("p", ahead.piece(LARGE[:PIECE], 0))
    assert received.held == 1
    received.take("p", ahead.dropped())
    assert received.held == 0
    assert received.take("p", next(split([b"header", ahead]))) == []


def test_a_whole_frame_that_no_message_names_is_dropped() -> None:
    ahead, other, received = FrameAhead(PIECE), FrameAhead(PIECE), LongFrames()
    for frame in (ahead, other):
        received.take("p", frame.piece(LARGE[:PIECE], 0))
    received.take("p", ahead.dropped())
    assert received.held == 1
    assert received.take("p", [b"", encode(PiecedHead(((1, ahead.number),))), b"header", b""]) == []
    received.take("p", ahead.dropped())  # once more, and it does nothing
    named = [b"", encode(PiecedHead(((1, other.number),))), b"header", b""]
    assert len(received.take("p", named) or ()) == 2


def test_a_frame_that_no_message_names_tells_its_receiver_once() -> None:
    told: list[Any] = []
    unnamed, dropped, named = (FrameAhead(2 * PIECE, told.append) for _ in range(3))
    messages = [one.dropped() for one in (unnamed, dropped)]
    list(split([b"header", named]))
    named.drop()
    dropped.drop()
    del unnamed, dropped, named
    assert told == messages[::-1]


def test_connections_are_kept_apart() -> None:
    received = LongFrames()
    *pieces, last = split([b"header", LARGE])
    for message in pieces:
        received.take("p", message)
    assert received.take("q", last) == []
    assert received.held == 1
    received.forget("q")
    assert received.held == 1
    received.forget("p")
    assert received.held == 0
    assert received.take("p", last) == []


@pytest.mark.parametrize("lost", range(4))
def test_a_message_without_all_pieces_becomes_an_empty_one(lost: int) -> None:
    *pieces, last = split([b"header", LARGE])
    received = LongFrames()
    for message in pieces[:lost] + pieces[lost + 1 :]:
        assert received.take("p", message) is None
    assert received.take("p", last) == []


def test_a_connection_that_begins_amid_a_frame() -> None:
    """The rest of a frame whose first pieces were lost with another connection takes no memory."""
    *pieces, last = split([b"header", LARGE])
    received = LongFrames()
    for message in pieces[1:]:
        received.take("p", message)
    assert received.held == 0
    assert received.take("p", last) == []


def piece(frame: int, size: int, start: int, data: bytes) -> list[bytes]:
    return [b"", encode(PieceHead(frame, size, start)), data]


@pytest.mark.parametrize(
    "wrong",
    [
        [b""], [b"", b""], [b"", b"\xc1"], [b"", encode([1, 2])], [b"", encode(["slab", 1])],
        [b"", encode(["pieced", [[1, -1]]])], [b"", b"\x91" * 100_000],
        [b"", encode(PiecedHead(((1, 1),))), b"header"],
        [b"", encode(PiecedHead(((0, 1),))), b"header", b""],
        [b"", encode(PiecedHead(((1, 1),))), b"header", b"not empty"],
        [b"", encode(PiecedHead(((1, 1), (1, 1)))), b"header", b""],
        [b"", encode(PiecedHead(((2**62, 1),))), b"header", b""],
    ],
)  # fmt: skip
def test_malformed_messages_become_empty_ones(wrong: list[bytes]) -> None:
    received = LongFrames()
    received.take("p", piece(1, 4, 0, b"data"))
    assert received.take("p", wrong) == []


@pytest.mark.parametrize(
    "wrong",
    [
        piece(1, 8, 4, b"data"), piece(1, 2, 0, b"data"), piece(1, 2**48, 0, b"data"),
        piece(1, 0, 0, b"data"), piece(1, 8, 0, b""), piece(1, 8, 0, b"data")[:2],
        [*piece(1, 8, 0, b"data"), b"more"],
    ],
)  # fmt: skip
def test_malformed_pieces_take_no_memory(wrong: list[bytes]) -> None:
    received = LongFrames()
    assert received.take("p", wrong) is None
    assert received.held == 0


def test_a_piece_that_does_not_follow_drops_its_frame() -> None:
    received = LongFrames()
    received.take("p", piece(1, 12, 0, b"data"))
    received.take("p", piece(1, 12, 8, b"data"))
    received.take("p", piece(1, 12, 4, b"data"))
    received.take("p", piece(2, 12, 0, b"data"))
    received.take("p", piece(2, 16, 4, b"data"))
    assert received.held == 0


def test_what_is_whole_is_not_overwritten() -> None:
    received = LongFrames()
    received.take("p", piece(1, 4, 0, b"data"))
    received.take("p", piece(1, 4, 0, b"DATA"))
    named = [b"", encode(PiecedHead(((1, 1),))), b"header", b""]
    assert [bytes(x) for x in received.take("p", named) or ()] == [b"header", b"data"]


def test_limits() -> None:
    received = LongFrames(Limits(frame=100, frames=70))
    received.take("p", piece(1, 101, 0, b"data"))
    assert received.held == 0
    for number in range(100):
        received.take("p", piece(number, 8, 0, b"data"))
    assert received.held == long_frames._UNFINISHED
    for number in range(200):
        received.take("q", piece(number, 4, 0, b"data"))
    assert received.held == long_frames._UNFINISHED + 70


WORDS = st.one_of(st.integers(-1, 5), st.sampled_from([2**48, 2**62, None, "x", [], [[1, 1]]]))
ANY = st.one_of(
    st.builds(lambda *x: encode(["piece", *x]), *[WORDS] * 3),
    st.builds(lambda x: encode(["pieced", x]), st.lists(st.lists(WORDS, max_size=3), max_size=3)),
    st.builds(lambda x: encode(["pieced", x]), WORDS),
    st.binary(max_size=8),
)


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(ANY, st.lists(st.binary(max_size=5), max_size=3)), max_size=20))
def test_anything_may_come(messages: list[tuple[bytes, list[bytes]]]) -> None:
    received = LongFrames(Limits(frame=1_000, frames=10))
    for head, rest in messages:
        received.take("p", [b"", head, *rest])
        assert received.held <= 10
    received.forget("p")
    assert received.held == 0


def test_frames_of_a_message_that_misses_a_piece_are_let_go() -> None:
    received = LongFrames()
    *pieces, last = split([b"header", LARGE, LARGE, LARGE])
    for message in [*pieces[:3], *pieces[4:]]:  # without the last piece of the first frame
        assert received.take("p", message) is None
    assert received.take("p", last) == []
    assert received.held == 0
