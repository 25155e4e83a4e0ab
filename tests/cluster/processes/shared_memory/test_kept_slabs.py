"""Kept slabs: used again after the receiver has copied, and never before; limits; hostile ends."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from collections.abc import Iterator
from math import inf
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import pytest

from eagerflow.cluster.processes.listening import Doors, doors_in
from eagerflow.cluster.processes.shared_memory import kept_slabs
from eagerflow.cluster.processes.shared_memory.incoming_slabs import COPIED, NAME
from eagerflow.cluster.processes.shared_memory.kept_slabs import IDLE_SECONDS, MOST
from eagerflow.cluster.processes.shared_memory.memory_files import (
    ADD_SEALS,
    KEPT_SEALS,
    new_kept,
)
from eagerflow.cluster.processes.shared_memory.slabs import (
    BORROWED,
    LONG,
    Slabs,
    beside,
    framed,
    unframed,
)
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Done, SlabMessage
from eagerflow.errors import ProtocolError
from tests.cluster.processes.shared_memory.hostile_sender import Sender
from tests.cluster.processes.shared_memory.mappings import maps


def data(byte: int, size: int = LONG) -> bytes:
    return bytes([byte]) * size


def send(a: Slabs, byte: int, size: int = LONG) -> list[Any]:
    return framed(a, "b:0", Done(5, 4), [data(byte, size)])


def slab_of(wire: list[Any]) -> SlabMessage:
    message, _ = codec.read(wire)
    assert type(message) is SlabMessage
    return message


def received(b: Slabs, wire: list[Any]) -> bytes:
    return bytes(unframed(b, wire, LIMITS)[1][0])


def test_a_slab_is_used_again_and_values_stay(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    values, numbers, uses = [], set(), []
    for byte in range(5):
        wire = send(a, byte)
        numbers.add(slab_of(wire).slab)
        uses.append(slab_of(wire).use)
        values.append(unframed(b, wire, LIMITS)[1][0])
    assert len(numbers) == 1
    assert uses == [1, 2, 3, 4, 5]
    assert [bytes(x) for x in values] == [data(byte) for byte in range(5)]
    values[0][0] = 99  # memory of the receiver's own
    assert received(b, send(a, 6)) == data(6)


def test_what_is_not_copied_yet_is_not_written_into(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    wires = [send(a, byte) for byte in range(100)]
    kept = [slab_of(wire).slab for wire in wires if slab_of(wire).use]
    assert len(set(kept)) == len(kept) == MOST  # further messages have slabs of their own
    assert [received(b, wire)[0] for wire in wires] == list(range(100))
    assert slab_of(send(a, 1)).slab in kept


def test_a_repeated_message_is_refused(pair: tuple[Slabs, Slabs]) -> None:
    """Else its answer would free a slab that another message is waiting in."""
    a, b = pair
    wire = send(a, 1)
    assert received(b, wire) == data(1)
    with pytest.raises(ProtocolError, match="no such slab"):
        unframed(b, wire, LIMITS)
    later = send(a, 2)
    with pytest.raises(ProtocolError, match="no such slab"):
        unframed(b, wire, LIMITS)
    assert slab_of(send(a, 3)).slab != slab_of(later).slab
    assert received(b, later) == data(2)


def test_the_memory_is_limited(pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair
    monkeypatch.setattr(kept_slabs, "KEPT", 4 * LONG)
    monkeypatch.setattr(kept_slabs, "KEPT_BY_ALL", 8 * LONG)
    assert slab_of(send(a, 1, 4 * LONG + 1)).use == 0
    wires = [send(a, byte, 3 * LONG) for byte in range(4)]
    assert [slab_of(wire).use for wire in wires] == [1, 1, 0, 0]
    assert a._kept.held == 6 * LONG
    assert [received(b, wire)[0] for wire in wires] == [0, 1, 2, 3]
    a.settle(monotonic())
    assert slab_of(send(a, 7, 4 * LONG)).use == 0  # both were in use a moment ago
    monkeypatch.setattr(kept_slabs, "_STEADY_SECONDS", 0.0)
    assert slab_of(send(a, 7, 4 * LONG)).use == 1  # one makes room
    assert a._kept.held == 7 * LONG


def test_a_slab_that_makes_room_is_let_go_of_at_both_ends(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    monkeypatch.setattr(kept_slabs, "_STEADY_SECONDS", 0.0)
    monkeypatch.setattr(kept_slabs, "KEPT_BY_ALL", 8 * LONG)
    for size in (8, 3, 8, 3, 8):
        assert received(b, send(a, size, size * LONG)) == data(size, size * LONG)
    a.settle(monotonic())
    b.settle(monotonic())
    assert a._kept.held == 8 * LONG
    assert maps() == 2


def test_idle_slabs_are_dropped_by_both_ends(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    assert a.due == b.due == inf
    values = [received(b, send(a, byte)) for byte in range(3)]
    now = monotonic()
    assert now < a.due <= now + IDLE_SECONDS
    assert now < b.due <= now + IDLE_SECONDS
    a.settle(now)
    b.settle(now)
    assert maps() == 2
    assert a._kept.held == LONG
    a.settle(now + IDLE_SECONDS + 1)
    assert (a._kept.held, a.due) == (0, inf)
    assert maps() == 1
    b.settle(now + IDLE_SECONDS + 1)
    assert (maps(), b.due) == (0, inf)
    assert values == [data(0), data(1), data(2)]
    assert received(b, send(a, 9)) == data(9)


def test_what_is_borrowed_is_written_into_a_kept_slab(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    borrowed = bytearray(data(1, BORROWED))
    slab = a.write("b:0", memoryview(borrowed))
    assert slab is not None
    borrowed[:] = data(2, BORROWED)
    unsent = a.write("b:0", memoryview(borrowed))
    wire = framed(a, "b:0", Done(5, 4), [slab])
    del slab
    assert slab_of(wire).use == 1
    assert a.write("b:0", memoryview(borrowed)) is not None  # not the slab in flight
    assert received(b, wire) == data(1, BORROWED)
    both = framed(a, "b:0", Done(5, 4), [unsent, data(3)])  # type: ignore[list-item]  # one may
    assert [bytes(x)[0] for x in unframed(b, both, LIMITS)[1]] == [2, 3]
    del unsent
    a.settle(monotonic() + IDLE_SECONDS + 1)
    assert a._kept.held == 0


def test_what_was_written_for_a_process_that_has_gone_is_sent_to_the_next(
    pair: tuple[Slabs, Slabs], doors: Doors
) -> None:
    a, b = pair
    first = a.write("b:0", data(1, BORROWED))
    assert received(b, framed(a, "b:0", Done(5, 4), [first])) == data(1, BORROWED)  # type: ignore[list-item]
    second = a.write("b:0", data(2, BORROWED))
    late = a.write("b:0", data(3, BORROWED))
    a.connect("b:0", doors)  # it was started anew
    assert received(b, framed(a, "b:0", Done(5, 4), [second])) == data(2, BORROWED)  # type: ignore[list-item]
    a.forget("b:0")
    assert b"".join(framed(a, "b:0", Done(5, 4), [late])[1:]) == data(3, BORROWED)  # type: ignore[list-item]
    del first, second, late
    a.connect("b:0", doors)
    assert received(b, send(a, 4)) == data(4)


def test_a_receiver_that_dies_stops_nobody(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    value = received(b, send(a, 1))
    lost = [send(a, byte) for byte in range(3)]
    b.close()
    assert lost
    assert bytes(send(a, 7)[1]) == data(7)  # by sockets
    assert value == data(1)
    assert a._kept.held == 0  # nobody says any more that the bytes of the lost ones were copied


@pytest.mark.parametrize("in_flight", [0, 3])
def test_slabs_for_a_receiver_that_has_died_are_let_go_of_although_nothing_is_sent(
    pair: tuple[Slabs, Slabs], in_flight: int
) -> None:
    a, b = pair
    received(b, send(a, 1))
    for byte in range(in_flight):
        send(a, byte)
    assert a._kept.held > 0
    b.close()
    a.settle(monotonic())
    assert (a._kept.held, a.due) == (0, inf)
    assert maps() == 0


def test_a_connection_that_was_cut_is_made_again(pair: tuple[Slabs, Slabs], doors: Doors) -> None:
    a, b = pair
    for byte in range(3):
        assert received(b, send(a, byte)) == data(byte)
    unsent = a.write("b:0", data(3, BORROWED))
    assert unsent is not None
    b.close()
    assert bytes(send(a, 4)[1]) == data(4)  # finds the cut, and goes by sockets
    again = Slabs(doors, LIMITS, print)
    assert received(again, send(a, 5)) == data(5)
    assert received(again, framed(a, "b:0", Done(5, 4), [unsent])) == data(3, BORROWED)
    del unsent
    again.close()


def test_a_sender_that_dies_leaves_no_map(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    value = received(b, send(a, 1))
    a.close()
    assert maps() == 1
    b.settle(monotonic())
    assert maps() == 0
    assert value == data(1)


def test_threads_write_at_once(pair: tuple[Slabs, Slabs]) -> None:
    a, b = pair
    wires: list[list[Any]] = []

    def write(byte: int) -> None:
        for _ in range(10):
            slab = a.write("b:0", data(byte, BORROWED))
            wires.append([byte, slab])

    threads = [Thread(target=write, args=(byte,)) for byte in range(4)]
    for thread in threads:
        thread.start()
    sent = 0
    while sent < 40:
        if wires:
            byte, slab = wires.pop()
            assert received(b, framed(a, "b:0", Done(5, 4), [slab])) == data(byte, BORROWED)
            sent += 1
    for thread in threads:
        thread.join()


# --- hostile receivers ---


@pytest.fixture
def impostor(pair: tuple[Slabs, Slabs], tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a hostile process, to which `pair[0]` sends slabs under the name c:0."""
    doors = doors_in(tmp_path, "c:0")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(beside(doors)))
        listener.listen(1)
        pair[0].connect("c:0", doors)
        framed(pair[0], "c:0", Done(5, 4), [data(0)])
        there, _ = listener.accept()
        with there:
            yield there


def test_answers_that_fit_no_slab_free_none(
    pair: tuple[Slabs, Slabs], impostor: socket.socket
) -> None:
    a, _ = pair
    first = slab_of(framed(a, "c:0", Done(5, 4), [data(1)]))
    for number, use in ((first.slab, 0), (first.slab, 2), (first.slab + 1, 1), (2**63, 2**63)):
        impostor.send(COPIED.pack(number, use))
        assert slab_of(framed(a, "c:0", Done(5, 4), [data(2)])).slab > first.slab
    impostor.send(COPIED.pack(first.slab, 1))
    assert slab_of(framed(a, "c:0", Done(5, 4), [data(3)])).slab == first.slab
    impostor.send(b"noise")
    assert bytes(framed(a, "c:0", Done(5, 4), [data(4)])[1]) == data(4)  # by sockets
    assert a._kept.held == 0


def test_a_receiver_that_answers_without_end_is_cut_off(
    pair: tuple[Slabs, Slabs], impostor: socket.socket
) -> None:
    a, _ = pair
    for _ in range(2 * MOST):
        impostor.send(COPIED.pack(7, 7))
    assert bytes(framed(a, "c:0", Done(5, 4), [data(4)])[1]) == data(4)  # by sockets
    assert a._kept.held == 0


def test_a_receiver_cannot_write_into_a_kept_slab(
    pair: tuple[Slabs, Slabs], impostor: socket.socket
) -> None:
    _, (file, *_), *_ = socket.recv_fds(impostor, 100, 1)
    try:
        for write in (
            lambda: os.pwrite(file, b"x", 0),
            lambda: os.ftruncate(file, 0),
            lambda: mmap.mmap(file, LONG, mmap.MAP_SHARED, mmap.PROT_WRITE),
            lambda: fcntl.fcntl(file, ADD_SEALS, 0x8),
        ):
            with pytest.raises(PermissionError):
                write()
        with mmap.mmap(file, LONG, mmap.MAP_SHARED, mmap.PROT_READ) as held:
            assert held[:3] == b"\0\0\0"
    finally:
        os.close(file)


# --- hostile senders ---


def test_what_a_sender_writes_afterwards_is_not_seen(
    pair: tuple[Slabs, Slabs], sender: Sender
) -> None:
    memory = sender.offer(1)
    memory[:8] = 1
    (value,) = pair[1].take(sender.names(1, 1), [b""])
    memory[:8] = 2
    assert bytes(value) == b"\1" * 8
    assert COPIED.unpack(sender.socket.recv(100)) == (1, 1)


def test_kept_slabs_of_a_sender_are_limited(pair: tuple[Slabs, Slabs], sender: Sender) -> None:
    for number in range(MOST):
        sender.offer(number)
        pair[1].take(sender.names(number, 1), [b""])
    sender.offer(MOST)
    with pytest.raises(ProtocolError, match="too many kept slabs"):
        pair[1].take(sender.names(MOST, 1), [b""])


def test_a_kept_slab_has_one_size(pair: tuple[Slabs, Slabs], sender: Sender) -> None:
    sender.offer(1)
    pair[1].take(sender.names(1, 1), [b""])
    with pytest.raises(ProtocolError, match="another size"):
        pair[1].take(sender.names(1, 2, size=LONG + 1, nbytes=LONG + 1), [b""])
    with pytest.raises(ProtocolError, match="do not fit"):
        pair[1].take(sender.names(1, 2, nbytes=LONG + 1), [b""])
    with pytest.raises(ProtocolError, match="no such slab"):
        pair[1].take(sender.names(1, 0), [b""])  # not as the slab of a single message


@pytest.mark.parametrize("first", [True, False])
def test_a_slab_that_is_not_there_cannot_be_dropped(
    pair: tuple[Slabs, Slabs], sender: Sender, first: bool
) -> None:
    if not first:
        sender.offer(1)
        pair[1].take(sender.names(1, 1), [b""])
    sender.socket.send(NAME.pack(sender.token, 7))
    sender.offer(8)
    with pytest.raises(ProtocolError, match="no such slab"):
        pair[1].take(sender.names(8, 1), [b""])


def test_a_number_stands_for_one_slab(pair: tuple[Slabs, Slabs], sender: Sender) -> None:
    sender.offer(1)
    pair[1].take(sender.names(1, 1), [b""])
    sender.offer(1)
    sender.offer(2)
    with pytest.raises(ProtocolError, match="no such slab"):
        pair[1].take(sender.names(2, 1), [b""])


def test_a_receiver_needs_the_seals_of_a_kept_slab() -> None:
    file, _ = new_kept(LONG)
    try:
        assert fcntl.fcntl(file, 1034) & KEPT_SEALS == KEPT_SEALS == 0x16
    finally:
        os.close(file)


def test_a_sender_that_has_connected_and_not_sent_yet_stays(tmp_path: Path) -> None:
    """It copies its first frames, while others send."""
    log: list[str] = []
    worker, first, second = (
        Slabs(doors_in(tmp_path, name), LIMITS, log.append) for name in ("w:0", "a:0", "b:0")
    )
    for sender in (first, second):
        sender.connect("w:0", doors_in(tmp_path, "w:0"))
    first._connection("w:0")
    for sender in (second, first, first):
        sent = sender.put("w:0", [bytes(LONG)])
        assert sent is not None
        assert [len(frame) for frame in worker.take(*sent)] == [LONG]
    for one in (first, second, worker):
        one.close()
    assert log == []
