"""Homes: variables that are sent again and again, and change, live in the slabs that they go in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Thread
from time import monotonic
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.shared_memory import kept_slabs
from eagerflow.cluster.processes.shared_memory.kept_slabs import IDLE_SECONDS, MOST
from eagerflow.cluster.processes.shared_memory.repeated_frames import SlabContent
from eagerflow.cluster.processes.shared_memory.slabs import LONG, Slabs, framed, unframed
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Done
from eagerflow.hardware import homes
from eagerflow.hardware.homes import Home
from eagerflow.resources.variable import VariableState
from tests.cluster.processes.shared_memory.mappings import maps

Pair = tuple[Slabs, Slabs]
#: the number of elements of a variable
SIZE = LONG // 4
#: the number of times that a variable is sent and changes before it moves
LEARNT = 3


@pytest.fixture(autouse=True)
def moves_variables() -> Iterator[bool]:
    yield True
    assert not homes._wanted


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of frames of each write into a slab."""
    made: list[int] = []
    write = SlabContent.write

    def noted(self: SlabContent, arrays: Any, *rest: Any) -> bool:
        made.append(len(arrays))
        return write(self, arrays, *rest)

    monkeypatch.setattr(SlabContent, "write", noted)
    return made


def variable(first: float = 0.0) -> ef.Variable:
    return ef.Variable(np.full(SIZE, first, "f4"))


def state_of(v: ef.Variable) -> VariableState:
    state = v.resource
    assert type(state) is VariableState
    return state


def wire_of(a: Slabs, v: ef.Variable) -> list[Any]:
    """A message with the value of a variable, sent as by a step: nothing keeps it afterwards."""
    value = state_of(v).read()
    return framed(a, "b:0", Done(5, 4), [value.reshape(-1).view(np.uint8).data])


def arrived(b: Slabs, wire: list[Any]) -> Any:
    return unframed(b, wire, LIMITS)[1][0].view("f4")


def sent(pair: Pair, v: ef.Variable) -> Any:
    return arrived(pair[1], wire_of(pair[0], v))


def lives_in_slab(v: ef.Variable) -> bool:
    return type(state_of(v)._data.base) is Home


def moved(pair: Pair, first: float = 0.0) -> ef.Variable:
    """A variable that has moved, and was sent from its home; its value is `LEARNT` + 1."""
    v = variable(first)
    for _ in range(LEARNT + 1):
        sent(pair, v)
        v.assign_add(1.0)
    sent(pair, v)
    assert lives_in_slab(v)
    return v


def test_a_variable_that_changes_moves_and_is_not_copied(pair: Pair, writes: list[int]) -> None:
    v, values = variable(), []
    for i in range(8):
        values.append(sent(pair, v))
        assert lives_in_slab(v) == (i >= LEARNT)
        v.assign_add(1.0)
    assert len(writes) == LEARNT
    assert [set(x.tolist()) for x in values] == [{float(i)} for i in range(8)]  # they stay
    assert pair[0]._kept.held == LONG
    values[0][0] = 99.0  # memory of the receiver's own
    assert set(sent(pair, v).tolist()) == {8.0}


@pytest.mark.parametrize("update", ["assign_add", "assign_sub", "scatter_add", "traced"])
def test_each_assignment_in_place_keeps_the_home(pair: Pair, update: str) -> None:
    v = moved(pair)
    want = np.full(SIZE, v.numpy()[0])
    traced = ef.trace(lambda x: v.assign(v * 0.5 + x))
    for i in range(4):
        if update == "scatter_add":
            v.scatter_add([0, 3], [1.0, 2.0])
            want[[0, 3]] += [1.0, 2.0]
        elif update == "traced":
            traced(ef.tensor(float(i)))
            want = want * 0.5 + i
        else:
            getattr(v, update)(float(i))
            want = want + i if update == "assign_add" else want - i
        assert sent(pair, v).tolist() == want.tolist()
    assert lives_in_slab(v) or update == "traced"  # a fused kernel may be missing


def test_what_was_read_stays(pair: Pair) -> None:
    v = moved(pair)
    before = v.value
    old = before.numpy().copy()
    v.assign_add(1.0)
    assert not lives_in_slab(v)
    assert before.numpy().tolist() == old.tolist()
    assert sent(pair, v).tolist() == (old + 1).tolist()


def test_what_is_not_copied_yet_is_not_written_into(pair: Pair) -> None:
    a, b = pair
    v = moved(pair)
    v.assign_add(1.0)
    wires = []
    for _ in range(3):
        wires.append(wire_of(a, v))
        v.assign_add(1.0)
    first = LEARNT + 2.0
    assert [arrived(b, wire)[0] for wire in wires] == [first, first + 1, first + 2]


def test_a_value_in_flight_is_sent_again_by_a_copy(pair: Pair) -> None:
    a, b = pair
    v = moved(pair)
    v.assign_add(1.0)
    wires = [wire_of(a, v) for _ in range(3)]
    assert lives_in_slab(v)
    assert [arrived(b, wire)[0] for wire in wires] == 3 * [LEARNT + 2.0]
    v.assign_add(1.0)
    assert lives_in_slab(v)
    assert sent(pair, v)[0] == LEARNT + 3.0


def test_an_assignment_in_another_thread_hears_the_receiver(pair: Pair) -> None:
    v = moved(pair)

    def assign() -> None:
        v.assign_add(1.0)

    for i in range(5):
        thread = Thread(target=assign)
        thread.start()
        thread.join()
        assert lives_in_slab(v)
        assert sent(pair, v)[0] == LEARNT + 2.0 + i


@pytest.mark.parametrize("reads_in_place", [True])
def test_what_stops_changing_is_read_in_place(pair: Pair, writes: list[int]) -> None:
    v = moved(pair)
    old = v.numpy()[0]
    values = [sent(pair, v) for _ in range(6)]
    assert not values[-1].flags.writeable
    v.assign_add(1.0)
    assert not lives_in_slab(v)
    assert sent(pair, v)[0] == old + 1
    assert [x[-1] for x in values] == 6 * [old]


def test_a_variable_that_is_deleted_leaves_its_slab(pair: Pair, writes: list[int]) -> None:
    a, _ = pair
    v = moved(pair)
    del v
    gc.collect()
    w = variable(50.0)
    assert sent(pair, w)[0] == 50.0
    assert a._kept.held == LONG
    a.settle(monotonic() + IDLE_SECONDS + 1)
    assert a._kept.held == 0


def test_a_home_is_not_dropped_while_it_is_idle(pair: Pair) -> None:
    v = moved(pair)
    pair[0].settle(monotonic() + IDLE_SECONDS + 1)
    v.assign_add(1.0)
    assert lives_in_slab(v)
    assert sent(pair, v)[0] == LEARNT + 2.0


def test_nothing_else_is_written_into_a_home(pair: Pair) -> None:
    v = moved(pair)
    old = v.numpy().copy()
    for byte in range(2 * MOST):
        other = np.full(LONG, byte, np.uint8)
        assert bytes(unframed(pair[1], framed(pair[0], "b:0", Done(5, 4), [other.data]), LIMITS)[1][0]) == bytes(other)  # fmt: skip  # noqa: E501
    assert v.numpy().tolist() == old.tolist()


def test_a_receiver_that_is_gone_leaves_the_variable_alone(pair: Pair, doors: Doors) -> None:
    a, b = pair
    v = moved(pair)
    v.assign_add(1.0)
    wire = wire_of(a, v)  # in flight for good
    a.connect("b:0", doors)
    assert a._kept.held == 0
    v.assign_add(1.0)
    assert not lives_in_slab(v)
    assert arrived(b, wire)[0] == LEARNT + 2.0  # b may still read it
    assert sent(pair, v)[0] == LEARNT + 3.0


def test_a_home_that_nobody_reads_any_more_is_memory_like_any_other(
    pair: Pair, doors: Doors
) -> None:
    a, _ = pair
    v = moved(pair)
    v.assign_add(1.0)  # hears that all was copied
    assert lives_in_slab(v)
    a.connect("b:0", doors)
    for i in range(LEARNT + 3):
        assert sent(pair, v)[0] == LEARNT + 2.0 + i
        v.assign_add(1.0)
    assert a._kept.held == LONG
    assert lives_in_slab(v)  # for the new connection
    del v
    gc.collect()
    a.forget("b:0")
    pair[1].settle(monotonic())
    assert maps() == 0


def test_homes_leave_room_for_other_values(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_slabs, "LASTING_BY_ALL", 3 * LONG)
    variables = [variable(10.0 * i) for i in range(6)]
    for step in range(2 * LEARNT):
        for i, v in enumerate(variables):
            assert sent(pair, v)[0] == 10.0 * i + step
        for v in variables:
            v.assign_add(1.0)
    assert sum(map(lives_in_slab, variables)) == 3


def test_an_own_value_assigned_thousands_of_times_fills_no_memory(pair: Pair) -> None:
    a, _ = pair
    v = moved(pair)
    for _ in range(3_000):
        v.assign_add(0.0)
        sent(pair, v)
    assert a._kept.held <= 2 * LONG
    assert maps() <= 2 * 2


def test_a_home_of_before_a_fork_is_not_written_into(pair: Pair) -> None:
    """Its memory is shared with the process that was forked."""
    v = moved(pair)
    where = np.asarray(state_of(v)._data.base._memory)
    before = where.copy()
    homes.note_fork()  # as `os.fork` calls it
    v.assign_add(1.0)
    assert not lives_in_slab(v)
    for i in range(LEARNT + 2):
        assert sent(pair, v)[0] == LEARNT + 2.0 + i
        v.assign_add(1.0)
    assert lives_in_slab(v)  # in another slab
    assert (where == before).all()


def test_only_what_transports_want_moves_and_that_is_limited() -> None:
    owner, arrays = object(), [np.zeros(4, "f4") for _ in range(homes._MOST + 1)]

    def make(like: Any) -> Any:
        return np.ones_like(like)

    for x in arrays:
        homes.want(x.ctypes.data, owner, make)
    assert len(homes._wanted) == homes._MOST
    assert homes.moved(arrays[0]) is arrays[0]  # the oldest
    made = homes.moved(arrays[1])
    assert made is not arrays[1]
    assert made.tolist() == arrays[1].tolist()
    assert homes.moved(arrays[1]) is arrays[1]
    homes.want(arrays[0].ctypes.data, owner, lambda like: None)
    assert homes.moved(arrays[0]) is arrays[0]  # there is no room
    homes.give_up(owner)
    assert homes.moved(arrays[2]) is arrays[2]
