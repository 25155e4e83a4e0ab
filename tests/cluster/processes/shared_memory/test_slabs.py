"""Slabs of shared memory: round trips, and refusal of malformed ones before they are mapped."""

from __future__ import annotations

import fcntl
import os
import socket
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from eagerflow.cluster.processes.listening import Doors, doors_in
from eagerflow.cluster.processes.shared_memory import incoming_slabs, kept_slabs
from eagerflow.cluster.processes.shared_memory.incoming_slabs import NAME
from eagerflow.cluster.processes.shared_memory.kept_slabs import IDLE_SECONDS
from eagerflow.cluster.processes.shared_memory.memory_files import ADD_SEALS
from eagerflow.cluster.processes.shared_memory.slabs import (
    BORROWED,
    LONG,
    Slabs,
    beside,
    framed,
    unframed,
)
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Done, SlabMessage
from eagerflow.errors import ProtocolError

LARGE = bytes(range(256)) * (LONG // 256 + 3)


@pytest.fixture(autouse=True)
def _no_file_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.iterdir())


@pytest.fixture
def keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message has a slab of its own."""
    monkeypatch.setattr(kept_slabs, "KEPT", 0)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.usefixtures("keeps_none")
def test_long_frames_lie_in_one_slab(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    frames: list[Any] = [b"short", LARGE, b"", memoryview(LARGE[:-7])]
    wire = framed(a, "b:0", Done(5, 4), frames)
    assert [len(frame) for frame in wire[2:]] == [5, 0, 0, 0]
    before = fds()
    message, taken = unframed(b, wire, LIMITS)
    assert (message, [bytes(x) for x in taken]) == (Done(5, 4), [bytes(x) for x in frames])
    assert fds() == before + 1  # for the connection; none for a slab
    taken[1][0] = 9  # the memory is ours
    assert taken[3][0] == 0
    with pytest.raises(ProtocolError, match="no such slab"):
        unframed(b, wire, LIMITS)


@pytest.mark.usefixtures("keeps_none")
def test_what_is_borrowed_is_written_into_a_slab_at_once(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    borrowed = bytearray(LARGE * (BORROWED // len(LARGE) + 1))
    before = fds()
    slab = a.write("b:0", memoryview(borrowed))
    assert slab is not None
    want, borrowed[:] = bytes(borrowed), bytes(len(borrowed))
    wire = framed(a, "b:0", Done(5, 4), [slab])
    assert [len(frame) for frame in wire[2:]] == [0]
    assert unframed(b, wire, LIMITS)[1][0].tobytes() == want
    assert unframed(b, framed(a, "b:0", Done(6, 4), [slab, LARGE]), LIMITS)[1][0].tobytes() == want
    assert b"".join(framed(a, "c:0", Done(7, 4), [slab])[1:]) == want  # by sockets
    del slab
    assert fds() == before + 2  # both ends of the connection


@pytest.mark.usefixtures("keeps_none")
def test_slabs_that_were_not_sent_are_bounded(pair: tuple[Slabs, Slabs]) -> None:
    a, _ = pair
    frame = bytes(BORROWED)
    before = fds()
    held = [a.write("b:0", frame) for _ in range(100)]
    assert sum(slab is not None for slab in held) == fds() - before == 64
    assert a.write("c:0", frame) is None  # no connection to that process
    held.clear()
    assert fds() == before
    assert a.write("b:0", frame) is not None
    assert a.write("b:0", frame[1:]) is None


def test_what_is_short_goes_by_sockets(pair: tuple[Slabs, Slabs], tmp_path: Path) -> None:
    a, _ = pair
    assert len(framed(a, "b:0", Done(5, 4), [b"short"])) == 2
    assert framed(a, "c:0", Done(5, 4), [LARGE])[1] == LARGE
    a.connect("c:0", doors_in(tmp_path, "c:0"))  # no process listens there
    assert framed(a, "c:0", Done(5, 4), [LARGE])[1] == LARGE
    a.connect("d:0", Doors("", "tcp://127.0.0.1:7"))
    assert framed(a, "d:0", Done(5, 4), [LARGE])[1] == LARGE


@pytest.mark.usefixtures("keeps_none")
def test_who_takes_none_gets_them_by_sockets(pair: tuple[Slabs, Slabs]) -> None:
    """The socket bounds descriptors in flight; more frames go by sockets; no descriptor is left."""
    a, b = pair
    before = fds()
    wires = [framed(a, "b:0", Done(i, 4), [LARGE]) for i in range(400)]
    plain = [wire for wire in wires if len(wire) == 2 and len(wire[1])]
    assert 0 < len(plain) < 400
    assert fds() <= before + 1
    first = next(wire for wire in wires if len(wire) == 3)
    assert unframed(b, first, LIMITS)[1][0].tobytes() == LARGE
    last = [wire for wire in wires if len(wire) == 3][-1]
    assert unframed(b, last, LIMITS)[1][0].tobytes() == LARGE
    assert fds() <= before + incoming_slabs._PENDING + 2


def hostile(
    doors: Doors, make: Callable[[], int], number: int = 1, *, copies: int = 1, use: int = 0
) -> SlabMessage:
    """Send a descriptor; gives a message that names it."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(str(beside(doors)))
    slab = make()
    rights = array("i", [slab] * copies)
    token = b"t" * 16
    one.sendmsg([NAME.pack(token, number)],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])  # fmt: skip
    os.close(slab)
    one.close()
    return SlabMessage(0, token.hex(), number, 4096, ((0, 0, 4096),), use)


def memfd(size: int, seals: int) -> int:
    slab = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(slab, size)
    fcntl.fcntl(slab, ADD_SEALS, seals)
    return slab


def pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


#: for the slab of a single message, and for one that stays
SEALED = {0: 0xF, 1: 0x17}
HOSTILE: dict[str, tuple[Callable[[int], int], str]] = {
    "no seals": (lambda seals: memfd(4096, 0), "not sealed"),
    "may shrink": (lambda seals: memfd(4096, seals & ~0x2), "not sealed"),
    "may grow": (lambda seals: memfd(4096, seals & ~0x4), "not sealed"),
    "may be written": (lambda seals: memfd(4096, seals & ~0x18), "not sealed"),
    "sealed as the other kind": (lambda seals: memfd(4096, seals ^ 0x18), "not sealed"),
    "too short": (lambda seals: memfd(100, seals), "another size"),
    "too long": (lambda seals: memfd(1 << 40, seals), "another size"),
    "empty": (lambda seals: memfd(0, seals), "another size"),
    "a file": (lambda seals: os.open(__file__, os.O_RDONLY), "not sealed"),
    "a directory": (lambda seals: os.open("/", os.O_RDONLY), "not sealed"),
    "a pipe": (lambda seals: pipe(), "not sealed"),
    "a device": (lambda seals: os.open("/dev/zero", os.O_RDONLY), "not sealed"),
}


@pytest.mark.parametrize("use", SEALED)
@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_sealed_slab_is_not_mapped(
    pair: tuple[Slabs, Slabs], doors: Doors, case: str, use: int
) -> None:
    make, wrong = HOSTILE[case]
    before = fds()
    message = hostile(doors, lambda: make(SEALED[use]), use=use)
    with pytest.raises(ProtocolError) as caught:
        pair[1].take(message, [b""])
    assert wrong in str(caught.value).splitlines()[0]
    assert fds() == before + 1  # for the connection


@pytest.mark.parametrize(
    "places",
    [
        ((1, 0, 10),), ((0, 0, 5000),), ((0, 4000, 100),), ((0, 0, 10), (0, 64, 10)),
        ((0, 0, 10), (1, 5, 10)), ((1, 0, 10), (0, 64, 10)),
    ],
)  # fmt: skip
def test_places_that_do_not_fit(pair: tuple[Slabs, Slabs], doors: Doors, places: Any) -> None:
    message = hostile(doors, lambda: memfd(4096, 0xF))
    wrong = SlabMessage(0, message.token, 1, 4096, places)
    frames = [b"", b""] if len(places) > 1 else [b""]
    with pytest.raises(ProtocolError, match="do not fit"):
        pair[1].take(wrong, frames)


def test_what_comes_and_is_not_asked_for_is_closed(pair: tuple[Slabs, Slabs], doors: Doors) -> None:
    _, b = pair
    before = fds()
    for number in range(20):
        hostile(doors, lambda: memfd(4096, 0xF), number)
    with pytest.raises(ProtocolError, match="no such slab"):
        b.take(SlabMessage(0, "00" * 16, 1, 4096, ()), [b""])
    assert fds() <= before + 2  # that token's connection, and the first descriptor on it
    b._incoming._from.popitem()[1].close()
    several = hostile(doors, lambda: memfd(4096, 0xF), 1_000, copies=2)
    with pytest.raises(ProtocolError, match="no such slab"):
        b.take(several, [b""])
    with pytest.raises(ProtocolError, match="a malformed token"):
        b.take(SlabMessage(0, "no hex", 1, 4096, ()), [b""])


@pytest.mark.parametrize("accepted", [False, True])
def test_what_a_sender_has_left_that_died_before_its_message_is_closed(
    pair: tuple[Slabs, Slabs], doors: Doors, accepted: bool
) -> None:
    """The sockets hold its descriptors, so the memory stays until they are closed."""
    _, b = pair
    before = fds()
    hostile(doors, lambda: memfd(4096, 0xF))
    if accepted:
        b._incoming._accept(b"")
        assert fds() > before
    b.forget("a:0")
    now = monotonic()
    assert b.due <= now + IDLE_SECONDS
    b.settle(now + IDLE_SECONDS)
    assert fds() == before
    assert not b._incoming._new
    listener = b._incoming._listener
    assert listener is not None
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_another_user_is_not_let_in(
    pair: tuple[Slabs, Slabs], doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = hostile(doors, lambda: memfd(4096, 0xF))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ProtocolError, match="no such slab"):
        pair[1].take(message, [b""])
    assert framed(pair[0], "b:0", Done(5, 4), [LARGE])[1] == LARGE
    assert framed(pair[0], "b:0", Done(5, 4), [LARGE])[1] == LARGE


def test_a_slab_in_a_slab_is_refused(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    wire = framed(a, "b:0", Done(5, 4), [LARGE])
    for wrong in ([wire[0]], [wire[0], wire[0], b""]):
        with pytest.raises(ProtocolError, match="a slab with"):
            unframed(b, wrong, LIMITS)
