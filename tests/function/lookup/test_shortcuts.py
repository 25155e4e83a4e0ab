"""Calls of a known form go by a generated function, and other calls never do."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.function.lookup.shortcuts import MISSED, form_of


def _shortcut(f: Any) -> Any:
    """What answers the last form of a call of a traced function."""
    return f._lookup.shortcuts.last


def _known(f: Any, *args: Any) -> Any:
    """The function, called so often with these arguments that their form is known."""
    for _ in range(3):
        f(*args)
    assert _shortcut(f)(args) is not MISSED
    return f


X, Y = ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0])
_OBJECT = object()


@pytest.mark.parametrize(
    "other",
    [
        (X,),
        (X, X),
        (X, ef.ones(1)),
        (X, ef.ones(2, dtype=ef.float64)),
        (X, np.ones(2, "float32")),
        (X, 2.0),
        (X, None),
    ],
    ids=["fewer", "one twice", "shape", "dtype", "array", "number", "nothing"],
)
def test_arguments_of_another_form_are_missed(other: tuple[Any, ...]) -> None:
    f = _known(ef.trace(lambda x, y=None: x * 2 if y is None else x * y), X, Y)
    first = _shortcut(f)
    assert first(other) is MISSED
    f(*other)
    np.testing.assert_array_equal(f(X, Y).numpy(), [3, 8])


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (1, (1.5, True, "1")),
        (1.5, (1, None)),
        (True, (False, 1)),
        ("up", ("down", 1)),
        (_OBJECT, (object(), 1)),
    ],
)
def test_values_of_other_types_and_other_static_values_are_missed(
    value: Any, others: tuple[Any, ...]
) -> None:
    f = _known(ef.trace(lambda x, y: (x + 1, y is None)), X, value)
    for other in others:
        assert _shortcut(f)((X, other)) is MISSED


def test_arrays_of_numpy_are_taken() -> None:
    x = np.asarray([1.0, 2.0], "float32")
    f = _known(ef.trace(lambda x, y: x + y), x, Y)
    np.testing.assert_array_equal(_shortcut(f)((x, Y)), [4, 6])
    swapped = x.astype(x.dtype.newbyteorder())
    assert _shortcut(f)((swapped, Y)) is MISSED
    assert form_of((swapped, Y)) is None
    assert form_of((x, x)) is None


def test_numbers_that_a_condition_is_about_choose_the_trace() -> None:
    f = ef.trace(lambda x, n: x * 2 if n > 3 else x - 1)
    for n, want in [(1, 0.0), (5, 2.0)] * 3 + [(2, 0.0), (4, 2.0)]:
        assert f(ef.tensor(1.0), n).item() == want
    assert len(f.traces) == 2


def test_what_is_read_from_outside_is_looked_at() -> None:
    scale = {"by": 2.0}
    f = _known(ef.trace(lambda x: x * scale["by"]), X)
    scale["by"] = 3.0
    np.testing.assert_array_equal(f(X).numpy(), [3, 6])


def test_a_device_scope_has_shortcuts_of_its_own() -> None:
    f = _known(ef.trace(lambda x: x + ef.ones(2)), X)
    outside = _shortcut(f)
    with ef.device("cpu:0"):
        assert outside((X,)) is MISSED
        _known(f, X)
        assert _shortcut(f) is not outside
    assert _shortcut(f)((X,)) is MISSED
    np.testing.assert_array_equal(f(X).numpy(), [2, 3])


def test_under_a_tape_there_is_no_shortcut() -> None:
    f = _known(ef.trace(lambda x: (x * x).sum()), X)
    np.testing.assert_array_equal(ef.grad(f)(X).numpy(), [2, 4])


def test_an_argument_that_counts_by_identity_is_not_kept_alive() -> None:
    class Switch:
        pass

    switch = Switch()
    f = _known(ef.trace(lambda x, s: x + 1), X, switch)
    gone = weakref.ref(switch)
    del switch
    gc.collect()
    assert gone() is None
    assert len(f._lookup.shortcuts) == 0


def test_a_function_whose_traces_are_dropped_has_no_shortcut() -> None:
    f = _known(ef.trace(lambda x: x + 1), X)
    f._lookup.clear()
    assert _shortcut(f)((X,)) is MISSED
    np.testing.assert_array_equal(f(X).numpy(), [2, 3])
