"""Frames that are sent again unchanged: written and read once, held, and let go of."""

from __future__ import annotations

import weakref
from sys import getrefcount
from time import monotonic
from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.processes.shared_memory import kept_slabs, repeated_frames
from eagerflow.cluster.processes.shared_memory.kept_slabs import IDLE_SECONDS
from eagerflow.cluster.processes.shared_memory.repeated_frames import SlabContent
from eagerflow.cluster.processes.shared_memory.slabs import BORROWED, LONG, Slabs, framed, unframed
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Done
from tests.cluster.processes.shared_memory.mappings import maps

#: sends after which an unchanged frame is held
LEARNT = 3


def new(byte: int, size: int = LONG) -> Any:
    return np.full(size, byte, np.uint8)


def sent(pair: tuple[Slabs, Slabs], *values: Any) -> list[Any]:
    """Values that were sent as a message each, as they arrive."""
    a, b = pair
    wires = [framed(a, "b:0", Done(5, 4), [value.data]) for value in values]
    return [unframed(b, wire, LIMITS)[1][0] for wire in wires]


def is_held(pair: tuple[Slabs, Slabs], value: Any) -> bool:
    lines = pair[0]._kept._lines.values()
    slabs = [slab for line in lines for slab in (*line.free, *line.flying.values())]
    held = [x.ctypes.data for slab in slabs for x in slab.content._held]
    return value.ctypes.data in held


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each write into a slab, whether bytes were copied."""
    made: list[bool] = []
    write = SlabContent.write

    def counted(self: SlabContent, arrays: Any, places: Any, origin: Any) -> bool:
        held = bool(self._held)
        told = write(self, arrays, places, origin)
        made.append(not (held and self._held))
        return told

    monkeypatch.setattr(SlabContent, "write", counted)
    return made


def test_what_does_not_change_is_held_and_not_written_again(
    pair: tuple[Slabs, Slabs], writes: list[bool]
) -> None:
    value = new(1)
    for i in range(6):
        (arrived,) = sent(pair, value)
        assert bytes(arrived) == bytes(value)
        arrived[0] = 99  # memory of the receiver's own
        assert is_held(pair, value) == (i + 1 >= LEARNT)
    assert writes == [True, True, True, False, False, False]
    assert pair[0]._kept.held == LONG


def test_a_frame_that_is_not_held_yet_may_change_at_any_time(pair: tuple[Slabs, Slabs]) -> None:
    """Be the change where nobody looks."""
    for unchanged in range(LEARNT):
        value = new(1)
        for _ in range(unchanged):
            sent(pair, value)
        assert not is_held(pair, value)
        value[1] = 7
        (arrived,) = sent(pair, value)
        assert bytes(arrived) == bytes(value)


def test_what_changes_where_nobody_looks_is_compared_once(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    compare = repeated_frames._compare
    monkeypatch.setattr(
        repeated_frames, "_compare", lambda *where: compared.append(1) or compare(*where)
    )
    value = new(1)
    for i in range(8):
        value[1] = i
        (arrived,) = sent(pair, value)
        assert arrived[1] == i
    assert len(compared) == 1
    assert not is_held(pair, value)


def test_another_value_takes_the_place_of_what_is_held(pair: tuple[Slabs, Slabs]) -> None:
    """An assignment to a held variable makes a new array."""
    old = new(1)
    for _ in range(LEARNT):
        sent(pair, old)
    assert is_held(pair, old)
    alone = getrefcount(new(1))
    assert getrefcount(old) > alone + 1  # so an op that could write into it makes another array
    for byte in range(2, 8):
        (arrived,) = sent(pair, new(byte))
        assert bytes(arrived) == bytes(new(byte))
    assert pair[0]._kept.held == 2 * LONG  # of the old value, and of those that change
    pair[0].settle(monotonic() + IDLE_SECONDS + 1)
    assert pair[0]._kept.held == 0
    assert getrefcount(old) == alone + 1


def test_what_nothing_else_sees_any_more_makes_room(pair: tuple[Slabs, Slabs]) -> None:
    """No ten seconds pass until the memory of a variable that was assigned is free."""
    old = new(1)
    for _ in range(LEARNT):
        sent(pair, old)
    last = weakref.ref(old)
    del old
    assert last() is not None
    sent(pair, new(2))
    assert last() is None
    assert pair[0]._kept.held == LONG
    view = new(3)[::-1][::-1]  # as that of a variable
    for _ in range(2 * LEARNT):
        sent(pair, view)
    assert is_held(pair, view)
    owner = weakref.ref(view.base)
    kept = view.base
    del view
    sent(pair, new(4), new(5))
    assert owner() is not None  # somebody else has it
    del kept
    sent(pair, new(6), new(7), new(8))  # for the last there is no slab
    assert owner() is None


def test_a_variable_that_is_assigned_its_own_value_is_seldom_held(
    pair: tuple[Slabs, Slabs],
) -> None:
    """Each time it would cost a copy of the variable and a new slab."""
    value, holds = new(1), 0
    for _ in range(300):
        (arrived,) = sent(pair, value)
        assert bytes(arrived) == bytes(new(1))
        if is_held(pair, value):
            holds += 1
            value = value.copy()  # as an assignment does, which cannot write in place
        assert pair[0]._kept.held <= 2 * LONG
    assert 1 < holds <= 8  # after 3 sends, and then after 4, 6, 10, 18, ...


def test_several_values_have_slabs_of_their_own(
    pair: tuple[Slabs, Slabs], writes: list[bool]
) -> None:
    values = [new(byte) for byte in range(5)]
    for _ in range(LEARNT):
        for value in values:
            (arrived,) = sent(pair, value)
            assert bytes(arrived) == bytes(value)
    writes.clear()
    assert [x[0] for x in sent(pair, *values)] == list(range(5))
    assert not any(writes)
    assert pair[0]._kept.held == 5 * LONG


def test_what_is_held_makes_room(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_slabs, "KEPT_BY_ALL", 2 * LONG)
    values = [new(byte) for byte in range(4)]
    for _ in range(2 * LEARNT):
        for value in values:
            (arrived,) = sent(pair, value)
            assert bytes(arrived) == bytes(value)
    assert pair[0]._kept.held == 2 * LONG
    assert sum(is_held(pair, value) for value in values) <= 2


def test_a_slab_in_flight_is_not_named_again(pair: tuple[Slabs, Slabs]) -> None:
    value = new(1)
    for _ in range(LEARNT):
        sent(pair, value)
    assert [bytes(x) for x in sent(pair, value, value, new(2))] == [
        bytes(value), bytes(value), bytes(new(2)),
    ]  # fmt: skip


def test_a_borrowed_frame_takes_a_slab_from_what_is_held(
    pair: tuple[Slabs, Slabs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_slabs, "KEPT_BY_ALL", BORROWED)
    a, b = pair
    value = new(1, BORROWED)
    for _ in range(LEARNT):
        sent(pair, value)
    a.settle(monotonic())  # hears that the bytes were copied
    slab = a.write("b:0", new(2, BORROWED).data)
    assert slab is not None
    assert slab.kept is not None
    assert not is_held(pair, value)
    wire = framed(a, "b:0", Done(5, 4), [slab])
    assert bytes(unframed(b, wire, LIMITS)[1][0]) == bytes(new(2, BORROWED))
    assert bytes(sent(pair, value)[0]) == bytes(value)


def test_what_is_held_for_a_receiver_that_has_gone_is_let_go_of(
    pair: tuple[Slabs, Slabs],
) -> None:
    value = new(1)
    for _ in range(LEARNT):
        sent(pair, value)
    assert is_held(pair, value)
    pair[0].forget("b:0")
    assert not is_held(pair, value)
    assert maps() == 1  # the receiver's
