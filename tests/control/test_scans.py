"""`scan`, `map` and `TensorArray`: accepted and refused arguments, sizes, directions, no items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError, TraceError
from tests.messages import says

# mypy: disable-error-code="no-untyped-def"


def both(f: Any) -> list[Any]:
    return [f, ef.trace(f)]


def _step(c, x):
    return c + x, c * x


def test_against_numpy() -> None:
    xs = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    for reverse in (False, True):
        for f in both(lambda xs, reverse=reverse: ef.scan(_step, ef.zeros(3), xs, reverse=reverse)):
            carry, ys = f(ef.tensor(xs))
            order = xs[::-1] if reverse else xs
            total = np.zeros(3, "float32")
            rows = []
            for x in order:
                rows.append(total * x)
                total = total + x
            np.testing.assert_array_equal(carry.numpy(), total)
            np.testing.assert_array_equal(ys.numpy(), rows[::-1] if reverse else rows)


def test_trees_and_lengths() -> None:
    def f(xs, n):
        def iteration(c, x):
            return {"n": c["n"] + 1, "s": c["s"] + x["a"].sum()}, (x["b"] * 2, c["n"], True, None)

        return ef.scan(iteration, {"n": n, "s": 0.0}, {"a": xs, "b": ef.astype(xs, ef.int32)})

    for g in both(f):
        carry, (doubled, counts, flags, none) = g(ef.arange(6.0).reshape(3, 2), 4)
        assert (carry["n"], float(carry["s"]), none) == (7, 15.0, None)
        assert (doubled.type.dtype, counts.dtype, flags.dtype) == (ef.int32, ef.int64, ef.bool)
        assert list(map(int, counts)) == [4, 5, 6]
    for g in both(lambda x: ef.scan(lambda c, _: (c * 2, c), x, None, length=3)):
        last, powers = g(ef.tensor(1.0))
        assert (float(last), list(map(float, powers))) == (8.0, [1.0, 2.0, 4.0])


def test_no_elements() -> None:
    def f(xs):
        return ef.scan(lambda c, x: (c + x.sum(), (x * 2, c.astype(ef.int32))), ef.tensor(1.0), xs)

    for g in both(f):
        carry, (a, b) = g(ef.zeros((0, 3)))
        assert (float(carry), a.shape, b.shape, b.dtype) == (1.0, (0, 3), (0,), ef.int32)
    for g in both(lambda xs: ef.map(lambda x: x[:1], xs)):
        assert g(ef.zeros((0, 3))).shape == (0, 1)


def test_one_trace_for_all_lengths() -> None:
    w = ef.tensor([[0.5, -1.0], [0.25, 2.0]])

    @ef.trace
    def f(xs):
        return ef.value_and_grad(
            lambda w: ef.scan(lambda h, x: (ef.tanh(h @ w + x), h), ef.zeros(2), xs)[1].sum()
        )(w)

    for n in (3, 1, 4, 0, 7):
        xs = ef.sin(ef.arange(2.0 * n)).reshape(n, 2)
        total, slope = ef.tensor(0.0), ef.zeros((2, 2))
        if n:
            total, slope = ef.value_and_grad(lambda w, xs=xs: _unrolled(w, xs))(w)
        value, gradient = f(xs)
        np.testing.assert_allclose(float(value), float(total), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient.numpy(), slope.numpy(), rtol=1e-5, atol=1e-6)
    assert len(f.traces) == 2


def _unrolled(w: Any, xs: Any) -> Any:
    h, total = ef.zeros(2), 0.0
    for x in xs:
        total = total + h.sum()
        h = ef.tanh(h @ w + x)
    return total


def test_what_is_refused() -> None:
    one = ef.ones(3)
    for g in both(lambda x, y: ef.scan(lambda c, x: (c, x), 0, (x, y))):
        with pytest.raises(ShapeError, match="scan: the first axes differ"):
            g(one, ef.ones(4))
        with pytest.raises(ShapeError, match="there is no first axis"):
            g(one, ef.tensor(1.0))
    with pytest.raises(ShapeError, match="a list is a tree of tensors"):
        ef.scan(lambda c, x: (c, x), 0, [1.0, 2.0])
    for wrong in (-2, 2.5, True):
        with pytest.raises(TensorValueError, match="scan: length is not an int, or too small"):
            ef.scan(lambda c, _: (c, c), 0.0, None, length=wrong)
    with pytest.raises(ShapeError, match="the number of iterations is not known"):
        ef.scan(lambda c, x: (c, x), 0, None)
    for iteration, words in (
        (lambda c, x: c, "does not give a pair"),
        (lambda c, x: (c, "text"), "a value that cannot be stacked"),
        (lambda c, x: (c.astype(ef.float64), x), "changes the type of the carry"),
        (lambda c, x: ((c, c), x), "changes the structure of the carry"),
    ):
        for g in both(lambda x, iteration=iteration: ef.scan(iteration, x[0] * 1, x)):
            with pytest.raises(TraceError, check=says(words)):
                g(one)
    with pytest.raises(TraceError, match="a tensor whose size depends on data"):
        ef.trace(lambda x: ef.map(lambda x: x[x > 0], x))(ef.ones((2, 3)))


def test_sizes_are_compared_when_they_are_known() -> None:
    @ef.trace
    def f(x, y):
        return ef.scan(lambda c, p: (c + p[0] * p[1], None), 0.0, (x, y))[0]

    for n in (2, 3, 4):
        assert float(f(ef.ones(n), ef.ones(n))) == n
    with pytest.raises(ShapeError, match="scan: the first axes differ"):
        f(ef.ones(5), ef.ones(6))


# --- arrays of tensors ----------------------------------------------------------------------------


def test_an_array_is_a_value() -> None:
    def f(x):
        old = ef.TensorArray(3, x)
        new = old.write(0, x).write(2, x * 2)
        newer = new.write(0, x * 5)
        return old.stack(), new.stack(), newer.stack(), new.read(0), new.size()

    for g in both(f):
        old, new, newer, x, size = g(ef.tensor(1.0))
        assert list(map(float, old)) == [0, 0, 0]
        assert list(map(float, new)) == [1, 0, 2]
        assert list(map(float, newer)) == [5, 0, 2]
        assert (float(x), int(size)) == (1.0, 3)


def test_derivatives_of_an_array_that_a_scan_fills() -> None:
    def f(xs):
        def iteration(array, i):
            return array.write(i, ef.sin(xs[i])), array.read(i)

        array, _ = ef.scan(iteration, ef.TensorArray(xs.shape[0], xs[0]), ef.arange(xs.shape[0]))
        return (array.stack() ** 2).sum()

    xs = ef.tensor([0.5, 1.0, 2.0], dtype=ef.float64)
    slope = np.sin(2 * xs.numpy())
    for g in (ef.grad(f), ef.grad(ef.trace(f)), ef.trace(ef.grad(f))):
        np.testing.assert_allclose(g(xs).numpy(), slope, rtol=1e-12)
    for g in both(lambda xs: ef.jvp(f, (xs,), (xs,))[1]):
        np.testing.assert_allclose(float(g(xs)), (slope * xs.numpy()).sum(), rtol=1e-12)


def test_sizes_of_arrays() -> None:
    for g in both(lambda x, i: ef.TensorArray(2, x).write(i, x).stack()):
        with pytest.raises(TensorIndexError, match="index 2 is out of range for a list of size 2"):
            g(ef.tensor(1.0), ef.tensor(2))
    for g in both(lambda x, i: ef.TensorArray(0, x, dynamic=True).write(i, x).stack()):
        assert g(ef.tensor(1.0), ef.tensor(2)).shape == (3,)
        with pytest.raises(TensorIndexError, match="index 5 is out of range"):
            ef.TensorArray(0, ef.tensor(1.0), dynamic=True).read(5)
    array = ef.TensorArray(2, ef.types.TensorType(ef.float32, (3,)))
    assert repr(array) == "TensorArray(2 of f32[3]@cpu:0)"
    assert array.unstack(ef.ones((2, 3))).stack().shape == (2, 3)
    with pytest.raises(TensorValueError, match="the size is negative"):
        ef.TensorArray(-1, ef.tensor(0.0))


def test_of_nothing_the_function_is_traced() -> None:
    """Eagerly, too, for the types of its results: the note says why an `if` is refused."""

    def step(x):
        return x * 2.0 if x > 0 else x

    assert ef.map(step, ef.tensor([1.0, -1.0])).tolist() == [2.0, -1.0]
    assert ef.trace(lambda xs: ef.map(step, xs))(ef.zeros(0)).shape == (0,)
    assert ef.map(lambda x: x * 2.0, ef.zeros(0)).shape == (0,)
    with pytest.raises(TraceError, match="known only when the graph runs") as caught:
        ef.map(step, ef.zeros(0))
    assert caught.value.__notes__ == [
        "map of nothing traces the function for the types of its results"
    ]


def test_elements_of_one_type() -> None:
    array = ef.TensorArray(2, ef.zeros(3))
    with pytest.raises(DTypeError, match="the elements are of another dtype"):
        array.write(0, ef.zeros(3, dtype=ef.float64))
    with pytest.raises(ShapeError, match="the elements have another shape"):
        array.write(0, ef.zeros(4))
    with pytest.raises(ShapeError, match="the elements have another shape"):
        array.unstack(ef.zeros((3, 3)))
    with pytest.raises(ShapeError, match="there is no first axis"):
        array.unstack(ef.tensor(1.0))
    for index in (1.5, ef.tensor(1.0), ef.tensor([1])):
        with pytest.raises(DTypeError, match="the index is not an integer"):
            array.read(index)
    assert float(ef.TensorArray(1, ef.tensor(0.0)).write(0, 2).read(0)) == 2.0


def test_arrays_go_through_calls_branches_and_loops() -> None:
    @ef.trace
    def fill(array, n):
        def body(i, array):
            array = ef.cond(i % 2 == 0, lambda: array.write(i, 1.0 * i), lambda: array)
            return i + 1, array

        return ef.while_loop(lambda i, array: i < n, body, (0, array))[1]

    array = fill(ef.TensorArray(5, ef.tensor(0.0)), 5)
    assert list(map(float, array.stack())) == [0, 0, 2, 0, 4]
    again = fill(array.write(1, 9.0), 1)
    assert list(map(float, again.stack())) == [0, 9, 2, 0, 4]
    assert list(map(float, array.stack())) == [0, 0, 2, 0, 4]


def test_an_array_from_outside_of_a_trace() -> None:
    array = ef.TensorArray(2, ef.tensor(0.0)).write(0, ef.tensor(1.0)).write(1, ef.tensor(3.0))
    f = ef.trace(lambda x: array.stack() * x + array.read(1))
    with pytest.warns(ef.errors.TraceWarning, match="frozen"):
        assert f(ef.tensor(2.0)).tolist() == [5.0, 9.0]
    assert f(ef.tensor(3.0)).tolist() == [6.0, 12.0]
