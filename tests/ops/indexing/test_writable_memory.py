"""Whether memory may be reused: only if no other array or view of it is alive."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.interpreter import AbstractInterpreter, installed
from eagerflow.ops.indexing.writable_memory import may_reuse


class Holder:
    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        self.data = data


def reusable(holder: object, slot: str = "data") -> bool:
    """`may_reuse` outside of an assert statement, which keeps references to its operands."""
    return may_reuse(getattr(holder, slot))


class Bystander(AbstractInterpreter):
    def bind(self, op, inputs, attrs):
        return self.below.bind(op, inputs, attrs)


def test_an_array_that_one_slot_holds_may_be_reused() -> None:
    holder = Holder(np.zeros(3))
    assert reusable(holder)
    x = ef.tensor([1.0, 2.0]) + 1.0
    assert reusable(x, "_data")


def test_a_second_reference_forbids_it() -> None:
    holder = Holder(np.zeros(3))
    other = holder.data
    assert not reusable(holder)
    del other
    assert reusable(holder)


@pytest.mark.parametrize(
    "look",
    [
        lambda data: data[1:],
        lambda data: data.reshape(3, 1),
        lambda data: memoryview(data),
        lambda data: weakref.ref(data),
        lambda data: np.from_dlpack(data),
        lambda data: Holder(data),
    ],
    ids=["slice", "reshape", "memoryview", "weakref", "dlpack", "holder"],
)
def test_whatever_can_see_the_memory_forbids_it(look) -> None:
    holder = Holder(np.zeros(3))
    seen = look(holder.data)
    assert not reusable(holder)
    del seen
    assert reusable(holder)


def test_memory_of_others_is_left_alone() -> None:
    base = np.zeros(4)
    assert not reusable(Holder(base[1:]))
    assert not reusable(Holder(np.frombuffer(b"12345678")))
    holder = Holder(np.zeros(3))
    holder.data.flags.writeable = False
    assert not reusable(holder)
    assert not reusable(Holder([1, 2]))


def test_an_interpreter_forbids_it() -> None:
    holder = Holder(np.zeros(3))
    with installed(Bystander()):
        assert not reusable(holder)
    assert reusable(holder)
