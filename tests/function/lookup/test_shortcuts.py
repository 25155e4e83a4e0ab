"""Shortcuts: calls of a known form take a generated function, and other calls never do."""

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


def _sum(x: Any) -> Any:
    """Of all that a container holds, each weighed by its place in the function's own walk."""
    if isinstance(x, dict):
        return sum(len(key) * _sum(value) for key, value in x.items())
    if isinstance(x, (tuple, list)):
        return sum((i + 1) * _sum(value) for i, value in enumerate(x))
    return x * 1.0


def _copy(x: Any) -> Any:
    """A new container of new values."""
    if isinstance(x, dict):
        return {key: _copy(value) for key, value in x.items()}
    return type(x)(map(_copy, x)) if isinstance(x, (tuple, list)) else x * 1


def _tensors() -> tuple[ef.Tensor, ef.Tensor]:
    return ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda x, y: (x, y),
        lambda x, y: [x, [y, 2.0]],
        lambda x, y: {"weight": x, "b": 1.0, "a_": 2.0, "layers": [(y, 3), {}]},
        lambda x, y: ((), {"w": (x,), "v": y}, np.ones(2, "float32")),
    ],
    ids=["tuple", "list", "dict", "all"],
)
def test_containers_are_taken_apart(make: Any) -> None:
    f = _known(ef.trace(lambda tree, scale: _sum(tree) * scale), make(*_tensors()), 2.0)
    x, y = ef.tensor([5.0, -6.0]), ef.tensor([7.0, 8.0])
    got = _shortcut(f)((make(x, y), 3.0))
    np.testing.assert_array_equal(got, (_sum(make(x.numpy(), y.numpy())) * 3.0))


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("known", "other"),
    [
        ((X, Y), [X, Y]),
        ((X, Y), (X, Y, Y)),
        ((X, Y), (X, ef.ones(3))),
        ([X, Y], [X, X]),
        ([[X], [Y]], [_SHARED := [X], _SHARED]),
        ({"a": X, "b": Y}, {"b": Y, "a": X}),
        ({"a": X}, {"b": X}),
        ({"a": X}, {_Text("a"): X}),
        ({"a": X}, {}),
        (((X, 1),), ((X, 1.0),)),
    ],
    ids=[
        "kind", "size", "shape", "one tensor twice", "one list twice", "order", "keys",
        "class of keys", "fewer keys", "number",
    ],
)  # fmt: skip
def test_other_containers_are_missed(known: Any, other: Any) -> None:
    f = _known(ef.trace(_copy), known)
    assert _shortcut(f)((other,)) is MISSED
    got = f(other)
    assert type(got) is type(other)
    assert repr(got) == repr(other)


def test_nothing_in_place_of_a_tensor_has_a_shortcut() -> None:
    f = _known(ef.trace(lambda x, mask, y: x + y if mask is None else x), X, None, Y)
    np.testing.assert_array_equal(_shortcut(f)((X, None, X + 1)), [3, 5])
    assert _shortcut(f)((X, Y, Y)) is MISSED


def test_what_is_done_to_a_container_is_done_to_that_of_each_call() -> None:
    @ef.trace
    def f(x: ef.Tensor, seen: list[ef.Tensor]) -> ef.Tensor:
        seen.append(x + 1)
        return x

    for _ in range(3):
        seen = [Y]
        f(X, seen)
        np.testing.assert_array_equal(seen[1], [2, 3])


def test_containers_that_hold_themselves_have_no_form() -> None:
    endless: list[Any] = [X]
    endless.append(endless)
    assert form_of((endless,)) is None
    deep: Any = X
    for _ in range(600):
        deep = (deep,)
    assert form_of((deep,)) is None


def test_a_default_that_is_given_as_another_argument_is_seen() -> None:
    default = ef.tensor([1.0, 2.0])
    f = ef.trace(lambda x, y=default: x + 1 if x is y else x - 1)
    for _ in range(3):
        np.testing.assert_array_equal(f(ef.tensor([5.0, 6.0])), [4, 5])
    np.testing.assert_array_equal(f(default), [2, 3])
