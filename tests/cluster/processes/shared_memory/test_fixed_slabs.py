"""Fixed slabs: values that are sent again unchanged lie where nobody can change them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from time import monotonic
from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.processes.shared_memory import kept_slabs
from eagerflow.cluster.processes.shared_memory.kept_slabs import IDLE_SECONDS, MOST
from eagerflow.cluster.processes.shared_memory.memory_files import (
    ADD_SEALS,
    FIXED,
    KEPT_SEALS,
    new_file,
    new_fixed,
    seal,
)
from eagerflow.cluster.processes.shared_memory.slabs import LONG, Slabs
from tests.cluster.processes.shared_memory.hostile_sender import Sender
from tests.cluster.processes.shared_memory.mappings import maps
from tests.cluster.processes.shared_memory.test_repeated_frames import LEARNT, is_held, new, sent


@pytest.fixture(autouse=True)
def reads_in_place() -> bool:
    return True


def address(x: Any) -> int:
    return int(x.ctypes.data)


def fixed(a: Slabs) -> list[int]:
    """The sizes of the fixed slabs of a sender."""
    return [size for line in a._kept._lines.values() for size in line.lasting()]


def test_what_does_not_change_is_read_in_place(pair: tuple[Slabs, Slabs]) -> None:
    value = new(1)
    for i in range(6):
        first, second = sent(pair, value)[0], sent(pair, new(10 + i))[0]
        assert (bytes(first), bytes(second)) == (bytes(value), bytes(new(10 + i)))
        assert first.flags.writeable == (i + 1 < LEARNT)
        assert second.flags.writeable  # memory of the receiver's own
    assert address(sent(pair, value)[0]) == address(sent(pair, value)[0])
    assert fixed(pair[0]) == [LONG]
    pair[0].settle(monotonic())
    pair[1].settle(monotonic())
    assert maps() == 2 + 1  # that of the others at both ends, the fixed one at the receiver


def test_what_was_read_in_place_stays(pair: tuple[Slabs, Slabs]) -> None:
    """The sender has let go of it, and writes into all that it has."""
    a, b = pair
    old = new(1)
    before = [sent(pair, old)[0] for _ in range(LEARNT + 1)]
    new_values = [new(byte) for byte in range(2, 12)]
    assert [x[0] for x in sent(pair, *new_values)] == list(range(2, 12))
    a.settle(monotonic() + IDLE_SECONDS + 1)
    b.settle(monotonic())
    assert (a._kept.held, b._incoming.keeps) == (0, False)
    assert not is_held(pair, old)
    assert all(bytes(x) == bytes(old) for x in before)
    assert maps() == 1
    del before
    assert maps() == 0


def test_the_sender_can_write_again_once_it_has_let_go(pair: tuple[Slabs, Slabs]) -> None:
    value = new(1)
    for _ in range(LEARNT):
        arrived = sent(pair, value)[0]
    pair[0].settle(monotonic() + IDLE_SECONDS + 1)
    value[:] = 2
    assert bytes(arrived) == bytes(new(1))
    assert bytes(sent(pair, value)[0]) == bytes(value)


def test_room_is_left_for_values_that_change(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_slabs, "LASTING_BY_ALL", 3 * LONG)
    values = [new(byte) for byte in range(6)]
    for _ in range(2 * LEARNT):
        assert [x[0] for x in sent(pair, *values)] == list(range(6))
        assert bytes(sent(pair, new(9))[0]) == bytes(new(9))
    assert fixed(pair[0]) == 3 * [LONG]
    assert all(is_held(pair, value) for value in values)  # the others are copied


def test_half_of_the_slabs_for_a_receiver_can_be_written_into(pair: tuple[Slabs, Slabs]) -> None:
    values = [new(byte) for byte in range(MOST)]
    for _ in range(2 * LEARNT):
        for value in values:
            assert bytes(sent(pair, value)[0]) == bytes(value)
    assert len(fixed(pair[0])) == MOST // 2
    assert bytes(sent(pair, new(99))[0]) == bytes(new(99))


def test_without_memory_for_a_fixed_slab_the_value_is_copied(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> int:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(kept_slabs, "new_fixed", fails)
    value = new(1)
    for _ in range(2 * LEARNT):
        (arrived,) = sent(pair, value)
        assert bytes(arrived) == bytes(value)
        assert arrived.flags.writeable
    assert is_held(pair, value)


def test_nobody_can_write_into_a_fixed_slab() -> None:
    size = LONG + 5_000
    file = new_fixed(size, [(64, np.full(100, 7, np.uint8))])
    try:
        assert os.pread(file, 300, 0) == bytes(64) + b"\7" * 100 + bytes(136)
        assert os.fstat(file).st_size == size
        with pytest.raises(PermissionError):
            os.pwrite(file, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(file, 10)
        with pytest.raises(PermissionError):
            mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with pytest.raises(PermissionError):
            fcntl.fcntl(file, ADD_SEALS, 0)
    finally:
        os.close(file)


@pytest.mark.parametrize("seals", [KEPT_SEALS, FIXED | KEPT_SEALS])
def test_only_what_is_sealed_against_writing_is_read_in_place(
    pair: tuple[Slabs, Slabs], sender: Sender, seals: int
) -> None:
    """Whatever the sender does: what is not a copy cannot change."""
    file = new_file()
    os.ftruncate(file, LONG)
    memory = None
    if seals == KEPT_SEALS:
        memory = mmap.mmap(file, LONG)
    seal(file, seals)
    sender.offer_file(1, file)
    (value,) = pair[1].take(sender.names(1, 1), [b""])
    assert isinstance(value, np.ndarray)
    assert value.flags.writeable == (seals == KEPT_SEALS)
    if not value.flags.writeable:
        with pytest.raises(ValueError, match="WRITEABLE"):  # a write would end the process
            value.flags.writeable = True
    if memory is not None:
        memory[:8] = b"changed!"
    assert bytes(value) == bytes(8)
