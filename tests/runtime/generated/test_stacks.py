"""Python lists in generated code, used only where they cannot be told from list values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.ops.state.lists import list_new, list_pop, list_push, list_size, list_stack

# mypy: disable-error-code="no-untyped-def"

X = ef.sin(ef.arange(5.0) + 1)


def text(f: Callable[..., Any], *args: Any) -> str:
    """The generated code, after a run whose results equal those of eager code."""
    traced = ef.trace(f)
    results, expected = traced(*args), f(*args)
    for a, b in zip(tree.leaves(results), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
    source: str = traced.ir("python")
    return source


def pushed(values, xs):
    return ef.scan(lambda c, x: (list_push(c, x, x * 2), None), values, xs)[0]


def popped(values, xs):
    def iteration(c, x):
        rest, a, b = list_pop(c[0], [(), ()], [ef.float32, ef.float32])
        return (rest, c[1] * x + a - b), None

    return ef.scan(iteration, (values, ef.tensor(0.0)), xs, reverse=True)[0]


def test_what_a_derivative_needs_is_on_a_stack() -> None:
    def f(xs):
        c = ef.tensor(0.5)
        for x in xs:
            c = ef.tanh(c * x)
        return c

    source = text(ef.grad(f), X)
    assert " = []" in source
    assert "list_push" not in source
    assert "list_pop" not in source


def test_of_a_loop_whose_length_depends_on_data() -> None:
    def f(x):
        while ef.sum(x) < 100:
            x = x * x + 1
        return ef.sum(x)

    assert "list_pop" not in text(ef.grad(f), ef.abs(X))


def test_of_a_loop_in_a_loop() -> None:
    def f(xs):
        c = ef.tensor(0.5)
        for x in xs:
            for y in xs:
                c = ef.sin(c * x + y)
        return c

    source = text(ef.grad(f), X)
    assert " = []" in source  # of the outer loop
    assert "list_push" in source  # the list of the inner loop is an element of that


def test_pushed_by_one_loop_and_popped_by_another() -> None:
    source = text(lambda xs: popped(pushed(list_new(), xs), xs)[1], X)
    assert " = []" in source


def test_two_loops_that_begin_with_one_empty_list() -> None:
    """Equal nodes are merged, so there is one list; yet each loop has a list of its own."""

    def f(xs):
        c = ef.tensor(0.5)
        for x in xs:
            c = ef.tanh(c * x)
        for x in xs:
            c = ef.sin(c + x)
        return c

    source = text(ef.grad(f), X)
    assert "list_push" not in source
    assert "list_pop" not in source

    def one_is_given_out(xs):
        start = list_new()
        a, b = pushed(start, xs), pushed(start, -xs)
        return popped(a, xs)[1], list_stack(b, xs[0])

    source = text(one_is_given_out, X)
    assert " = []" in source
    assert "list_push" in source


def old_version(xs):
    values = pushed(list_new(), xs)
    first, last, _ = list_pop(values, [(), ()], [ef.float32, ef.float32])
    return list_stack(values, xs[0]), list_stack(first, xs[0]), last


def two_carries(xs):
    start = list_new()

    def iteration(c, x):
        return (list_push(c[0], x), list_push(c[1], -x)), None

    a, b = ef.scan(iteration, (start, start), xs)[0]
    return list_stack(a, xs[0]), list_stack(b, xs[0])


def pushed_to_one_that_is_empty(xs):
    start = list_new()

    def iteration(c, x):
        (one, _), y = c
        one, a = list_pop(list_push(one, x), [()], [ef.float32])
        _, b, d = list_pop(list_push(list_push(start, y), x * 3), [(), ()], [ef.float32] * 2)
        return ((one, start), y * a + b - d), a

    (lists, y), rows = ef.scan(iteration, ((start, start), xs[0]), xs)
    return y, rows, list_size(lists[1])


def from_around_the_loop(xs):
    start = list_push(list_new(), xs[0])
    return ef.scan(lambda c, x: (list_size(list_push(start, x)) + c, None), ef.tensor(0), xs)[0]


def in_a_branch(xs):
    values = list_push(list_new(), xs[0])
    values = ef.cond(xs[1] > 0, lambda: list_push(values, xs[1]), lambda: values)
    return popped_once(list_push(values, xs[2]))


def made_in_a_branch(xs):
    values = ef.cond(
        xs[1] > 0, lambda: list_push(list_new(), xs[0], xs[1]), lambda: list_push(list_new(), xs[2])
    )
    return popped_once(values)


def popped_once(values):
    return list_pop(values, [()], [ef.float32])[1]


def with_absent_elements(xs):
    return popped_once(list_new(size=3)) + xs


@pytest.mark.parametrize(
    "program",
    [
        old_version, two_carries, pushed_to_one_that_is_empty, from_around_the_loop, in_a_branch,
        made_in_a_branch, with_absent_elements,
    ],
)  # fmt: skip
def test_values_stay_values(program: Callable[..., Any]) -> None:
    source = text(program, X)
    assert "list_new" in source or "list_p" in source


def test_a_list_whose_size_only_a_run_tells() -> None:
    def f(xs):
        array = ef.TensorArray(xs.shape[0], xs[0])
        for i in range(xs.shape[0]):
            array = array.write(i, xs[i] * 2)
        return array.stack()

    traced = ef.trace(f)
    for size in (5, 4, 3, 2):  # the sizes are symbolic from the second one on
        np.testing.assert_array_equal(np.asarray(traced(X[:size])), 2 * np.asarray(X[:size]))


def test_a_list_that_is_given_out_is_a_value() -> None:
    f = ef.trace(lambda xs: pushed(list_new(), xs))
    first, second = f(X), f(X)
    assert np.asarray(list_size(list_push(first, X))) == 11
    assert np.asarray(list_size(second)) == 10
    assert np.asarray(list_size(first)) == 10


def test_a_profile_sees_the_kernels() -> None:
    f = ef.trace(lambda xs: popped(pushed(list_new(), xs), xs)[1])
    plain = f(X)
    with ef.profile() as profile:
        assert float(f(X)) == float(plain)
    assert "list_push" in str(profile)


@pytest.mark.filterwarnings("ignore:.*is unrolled:eagerflow.errors.TraceWarning")
def test_a_long_program() -> None:
    def f(xs):
        values = pushed(list_new(), xs)
        y = xs
        for i in range(600):
            y = ef.tanh(y) + i
        return popped(values, xs)[1] + y

    source = text(f, X)
    assert " = []" in source
