"""Stores of branches and loops beside dicts and lists: in slots, classes, functions, arrays."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined"

from __future__ import annotations

import array
import collections
import dataclasses
import types
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from tests.autograph.checks import check_error, check_same


class Private:
    __slots__ = ("__part", "__weakref__", "whole")

    def __init__(self, x: Any) -> None:
        self.whole = self.__part = x

    def add(self, x):
        if x > 0:
            self.__part = self.__part + x
        return self.__part


class WithBoth(Private):
    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.own = x


@dataclasses.dataclass(slots=True)
class Total:
    value: Any
    count: int = 0


class Table(dict[str, Any]):
    pass


class Rows(list[Any]):
    __slots__ = ("last",)


def private_slots(x):
    one = Private(x)
    if x > 0:
        one.whole = one.whole * 2
    return one.whole, one.add(x), one.add(x + 10)


def slots_and_a_dict(x):
    one = WithBoth(x)
    for _ in range(4):
        if one.whole < 4:
            one.whole = one.whole + 1
            one.own = one.own * 2
        else:
            one.add(x)
    return one.whole, one.own, one.add(x)


def slots_in_a_loop(xs):
    total = Total(xs[0] * 0)
    for x in xs:
        if x > 0:
            total.value = total.value + x
            total.count += 1
    while total.value < 9:
        total.value += 2
    return total.value, total.count


def slots_that_are_not_set_before(x):
    one = Private.__new__(Private)
    if x > 0:
        one.whole = x
    else:
        one.whole = -x
    return one.whole


def a_list_in_a_slot(xs):
    total = Total([])
    for x in xs:
        if x > 0:
            total.value.append(x)
    return ef.stack(total.value)


def of_a_class(x):
    class Counter:
        total = x * 0

        @classmethod
        def add(cls, y):
            if y > 0:
                cls.total = cls.total + y
            return cls.total

    class Other(Counter):
        pass

    Counter.add(x)
    Other.add(x + 5)
    return Counter.total, Other.total, Other().total


def of_a_function(x):
    def f():
        f.calls += 1
        f.last = x * f.calls

    f.calls, f.last = 0, x
    f()
    if x > 0:
        f()
    return f.calls, f.last


def of_namespaces(x):
    space, wrapped = types.SimpleNamespace(h=x), collections.UserList([x, x])
    chain: Any = collections.ChainMap({}, {"a": x})
    if x > 0:
        space.h = x * 2
        wrapped[1] = x * 3
    chain["a"] = space.h if x > 1 else x
    return space.h, wrapped[1], chain["a"]


def of_containers(x):
    table, rows = Table(a=x), Rows([x])
    table.h, rows.last = x, x
    if x > 0:
        table.h, rows.last = x * 2, x * 3
        table["a"] = rows[0] = x * 4
    return table.h, rows.last, table["a"], rows[0]


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (private_slots, [(3.0,), (-3.0,)]),
        (slots_and_a_dict, [(3.0,), (-3.0,)]),
        (slots_in_a_loop, [([1.0, -2.0, 3.0],), ([-1.0, -2.0],)]),
        (slots_that_are_not_set_before, [(3.0,), (-3.0,)]),
        (a_list_in_a_slot, [([1.0, -2.0, 3.0],)]),
        (of_a_class, [(3.0,), (-3.0,), (-9.0,)]),
        (of_a_function, [(3.0,), (-3.0,)]),
        (of_namespaces, [(3.0,), (1.0,), (-3.0,)]),
        (of_containers, [(3.0,), (-3.0,)]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_traced_is_eager(function, calls) -> None:
    check_same(function, calls)


outside = Total(0.0)


def sets_what_is_outside(x):
    if x > 0:
        outside.value = x
    else:
        outside.value = x * 2
    return x


def test_slots_of_an_object_outside_are_set_in_each_run() -> None:
    traced = ef.trace(sets_what_is_outside)
    for value in (1.0, -1.0, 3.0, -3.0):
        sets_what_is_outside(ef.tensor(value))
        want = outside.value
        traced(ef.tensor(value))
        assert str(outside.value) == str(want)


@pytest.mark.parametrize(
    "memory",
    [np.zeros(2), np.zeros((2, 2))[:, 0], np.zeros(2, np.int8), array.array("d", [0.0, 0.0]),
     bytearray(2)],
    ids=["array", "view", "bytes", "array of Python", "bytearray"],
)  # fmt: skip
def test_memory_that_python_writes_to_is_refused(memory) -> None:
    def writes(x):
        held = memory.copy() if hasattr(memory, "copy") else memory[:]
        if x > 0:  # the culprit
            held[0] = 1
        return x + held[0]

    check_error(writes, (1.0,), ["held is changed under a condition", "# the culprit"])


def test_memory_outside_is_as_it_was_after_a_refusal() -> None:
    log = bytearray(b"ab")

    def writes(x):
        if x > 0:
            log[0] = 0
        return x

    with pytest.raises(ef.errors.TraceError):
        ef.trace(writes)(ef.tensor(1.0))
    assert log == b"ab"


def test_memory_that_is_read_is_left_alone() -> None:
    held, large = np.arange(3.0), np.zeros(1 << 18)

    def reads(x):
        scratch = np.zeros(3)
        scratch[:] = 2.0  # under no condition
        if x > 0:
            return x + scratch[0] + held[1] + large[0]
        return x * scratch[1]

    check_same(reads, [(1.0,), (-1.0,)])
