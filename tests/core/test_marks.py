"""The marks that handles carry: one note per owner, kept with the value."""

from __future__ import annotations

import copy
import pickle
from weakref import ref

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.interpreter import attach_note, find_note, strip_notes

X = ef.tensor([1.0, 2.0, 3.0])

MADE = {
    "tensor": lambda: ef.tensor([1.0]),
    "operator": lambda: X + X,
    "number": lambda: X * 2.0,
    "comparison": lambda: X < X,
    "function": lambda: ef.exp(X),
    "several": lambda: ef.topk(X, 2)[1],
    "item": lambda: X[0],
    "items": lambda: X[1:],
    "gather": lambda: X[ef.tensor([0, 1])],
    "shared": lambda: ef.asarray(np.ones(2)),
    "copy": lambda: copy.copy(X),
    "deep copy": lambda: copy.deepcopy(X),
    "pickle": lambda: pickle.loads(pickle.dumps(X)),
    "variable": lambda: ef.Variable(1.0).value,
    "assigned": lambda: ef.Variable(1.0).assign(2.0),
    "random": lambda: ef.random.uniform((2,)),
    "null": lambda: ef.zeros(2, device="null:0") + ef.zeros(2, device="null:0"),
    "gradient": lambda: ef.grad(lambda x: (x * x).sum())(X),
    "tangent": lambda: ef.jvp(ef.exp, (X,), (X,))[1],
    "value": lambda: ef.jvp(ef.exp, (X,), (X,))[0],
    "block": lambda: ef.remat(ef.exp)(X),
}


@pytest.mark.parametrize("name", MADE)
def test_a_new_tensor_carries_none(name: str) -> None:
    assert MADE[name]()._mark is None


class Owner:
    """A stand-in for an interpreter that notes marks."""


def test_notes_of_several_owners() -> None:
    a, b = Owner(), Owner()
    x = ef.tensor(1.0)
    attach_note(x, ref(a), 1)
    attach_note(x, ref(b), 2)
    attach_note(x, ref(a), 3)
    assert (find_note(x._mark, ref(a)), find_note(x._mark, ref(b))) == (3, 2)
    y = copy.copy(x)
    strip_notes(x, ref(a))
    assert (find_note(x._mark, ref(a)), find_note(x._mark, ref(b))) == (None, 2)
    assert find_note(y._mark, ref(a)) == 3


def test_notes_of_owners_that_are_gone_are_dropped() -> None:
    x, a = ef.tensor(1.0), Owner()
    attach_note(x, ref(a), 1)
    del a
    b = Owner()
    attach_note(x, ref(b), 2)
    assert x._mark == (ref(b), 2, None)


def test_notes_go_with_the_value() -> None:
    x, v = ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0])
    with ef.GradientTape(persistent=True) as tape:
        tape.watch((x, v))
        y = x * 1.0
        mark = y._mark
        y[...] = v
        assert y._mark is not mark
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [0, 0])
    np.testing.assert_array_equal(tape.gradient(y, v).numpy(), [1, 1])
