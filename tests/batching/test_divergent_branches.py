"""Branches and loops whose rows go different ways: values, gradients, and no NaN of idle rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import TensorIndexError, VmapError
from tests.messages import says

SIGNS = ef.tensor([4.0, -1.0, 9.0, 0.0], dtype="float64")
STARTS = ef.tensor([0.0, 1.5, 2.0, 5.0], dtype="float64")


def _closure(x: Any) -> Any:
    return ef.cond(x > 0, lambda: ef.log(x), lambda: x * 2)


def _operand(x: Any) -> Any:
    return ef.cond(x > 0, ef.log, lambda x: x * 2, x)


def _switched(x: Any) -> Any:
    index = (ef.sign(x) + 1).astype(int)
    return ef.switch(index, [ef.sin, lambda x: x * 3, lambda x: ef.log(x)], x)


def _until_three(x: Any) -> Any:
    """A loop whose next iteration would give NaN, and a gradient of NaN."""
    return ef.while_loop(lambda x, y: x < 3, lambda x, y: (x + 1, y + ef.sqrt(3 - x)), (x, x * 0))[
        1
    ]


def _counted(x: Any) -> Any:
    return ef.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * x / 2), (0, x))[1]


def _scanned(x: Any) -> Any:
    steps = x * ef.tensor([1.0, 2.0, 3.0], dtype="float64")
    carry, rows = ef.scan(lambda c, t: (c * t + x, c * x), x, steps)
    return carry + rows.sum()


def _mapped(x: Any) -> Any:
    return ef.map(lambda t: t * x, ef.tensor([1.0, 2.0], dtype="float64")).sum()


CASES = [
    (_closure, SIGNS),
    (_operand, SIGNS),
    (_switched, SIGNS),
    (_until_three, STARTS),
    (_counted, STARTS),
    (_scanned, STARTS),
    (_mapped, STARTS),
]
IDS = [f.__name__ for f, _ in CASES]


@pytest.mark.parametrize(("f", "xs"), CASES, ids=IDS)
def test_values(f: Any, xs: ef.Tensor) -> None:
    want = [f(x).item() for x in xs]
    for mapped in (ef.vmap(f), ef.trace(ef.vmap(f)), ef.vmap(ef.trace(f))):
        np.testing.assert_allclose(mapped(xs).numpy(), want, rtol=1e-12)
    twice = ef.vmap(ef.vmap(f))(ef.stack([xs, xs[::-1]]))
    np.testing.assert_allclose(twice.numpy(), [want, want[::-1]], rtol=1e-12)


@pytest.mark.parametrize(("f", "xs"), CASES, ids=IDS)
def test_gradients(f: Any, xs: ef.Tensor) -> None:
    want = [ef.grad(f)(x).item() for x in xs]
    assert np.isfinite(want).all()

    def total(x: ef.Tensor) -> ef.Tensor:
        return ef.vmap(f)(x).sum()

    def along(x: ef.Tensor) -> ef.Tensor:
        return ef.jvp(ef.vmap(f), (x,), (ef.ones_like(x),))[1]

    ways = [
        ef.vmap(ef.grad(f)),
        ef.grad(total),
        ef.trace(ef.grad(total)),
        ef.grad(lambda x: ef.trace(ef.vmap(f))(x).sum()),
        along,
        ef.trace(along),
    ]
    if f is not _until_three:  # refused, below
        ways += [ef.trace(ef.vmap(ef.grad(f))), ef.vmap(ef.trace(ef.grad(f)))]
    for way in ways:
        np.testing.assert_allclose(way(xs).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize(("f", "xs"), CASES[:5], ids=IDS[:5])
def test_gradients_of_order_two(f: Any, xs: ef.Tensor) -> None:
    want = [ef.grad(ef.grad(f))(x).item() for x in xs]
    np.testing.assert_allclose(ef.vmap(ef.grad(ef.grad(f)))(xs).numpy(), want, rtol=1e-12)


def test_no_row_takes_a_branch() -> None:
    for xs in (-ef.abs(SIGNS) - 1, ef.abs(SIGNS) + 1):
        want = [ef.grad(_operand)(x).item() for x in xs]
        total = ef.trace(ef.grad(lambda x: ef.vmap(_operand)(x).sum()))
        np.testing.assert_allclose(total(xs).numpy(), want)
        np.testing.assert_allclose(ef.vmap(ef.grad(_operand))(xs).numpy(), want)


def test_each_way_runs_once_for_all_rows() -> None:
    ran = []

    def first(x: Any) -> Any:
        ran.append("first")
        return x

    def second(x: Any) -> Any:
        ran.append("second")
        return -x

    ef.vmap(lambda x: ef.cond(x > 0, first, second, x))(SIGNS)
    assert ran == ["first", "second"]
    ef.vmap(lambda x: ef.cond(x > -9, first, second, x))(SIGNS)
    assert ran == ["first", "second", "first"]


def test_numbers_of_a_carry_count_for_each_row() -> None:
    def halved(x: Any) -> Any:
        return ef.while_loop(lambda x, n: x > 1, lambda x, n: (x / 2, n + 1), (x, 0))

    xs = ef.tensor([100.0, 3.0, 0.5, 7.0])
    values, counts = ef.vmap(halved)(xs)
    assert values.tolist() == [halved(x)[0].item() for x in xs]
    assert counts.tolist() == [7, 2, 0, 3]


def test_a_loop_stops_after_the_iterations_it_may_have() -> None:
    def f(x: Any) -> Any:
        return ef.while_loop(lambda x: x < 9, lambda x: x + 1, x, max_iterations=2)

    for mapped in (ef.vmap(f), ef.trace(ef.vmap(f))):
        assert mapped(ef.tensor([0, 8, 9])).tolist() == [2, 9, 9]


def test_updates_in_a_branch_are_of_the_rows_that_take_it() -> None:
    def f(x: Any) -> Any:
        y = x * 1

        def update() -> Any:
            y[0] = 100.0
            return y.sum()

        return ef.cond(x[0] > 1, update, lambda: y.sum()), y

    totals, ys = ef.vmap(f)(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert totals.tolist() == [3.0, 104.0]
    assert ys.tolist() == [[1.0, 2.0], [100.0, 4.0]]


def test_what_rows_cannot_choose() -> None:
    with pytest.raises(TensorIndexError, check=says("index 3 in one row")):
        ef.vmap(lambda i: ef.switch(i, [lambda: 1, lambda: 2]))(ef.tensor([0, 3]))
    with pytest.raises(VmapError, check=says("tensors of different types")):
        ef.vmap(lambda x: ef.cond(x > 0, lambda: ef.zeros(2), lambda: ef.zeros(3)))(SIGNS)
    with pytest.raises(VmapError, check=says("different structures")):
        ef.vmap(lambda x: ef.cond(x > 0, lambda: (x, x), lambda: x))(SIGNS)
    with pytest.raises(VmapError, check=says("choose between objects")):
        ef.vmap(lambda x: ef.cond(x > 0, lambda: "a", lambda: "b"))(SIGNS)
    for way in (ef.trace(ef.vmap(ef.grad(_until_three))), ef.vmap(ef.trace(ef.grad(_until_three)))):
        with pytest.raises(VmapError, check=says("fill lists of different lengths")):
            way(STARTS)


def test_python_s_own_words_in_a_trace() -> None:
    def f(x: Any) -> Any:
        while x > 1:
            x = x / 2
        return x * 2 if x > 0 else -x

    xs = ef.tensor([10.0, 3.0, -4.0])
    assert ef.vmap(ef.trace(f))(xs).tolist() == [f(x).item() for x in xs]


def test_lists_of_tensors_have_rows() -> None:
    def f(x: Any) -> Any:
        array = ef.TensorArray(3, ef.tensor(0.0))
        for i in range(3):
            array = array.write(i, x * i if i else ef.zeros(()))
        return array.stack()

    assert ef.vmap(f)(ef.tensor([1.0, 2.0])).tolist() == [[0.0, 1.0, 2.0], [0.0, 2.0, 4.0]]


def _in_loops(x: Any) -> Any:
    """A branch in a loop: the gradient keeps the predicates in lists."""
    rows = ef.map(lambda row: ef.cond(row.sum() > 0.5, lambda: row * row, lambda: row * 3.0), x)
    return (rows * rows).sum()


def _in_while_loops(x: Any) -> Any:
    def iteration(i: Any, y: Any) -> Any:
        return i + 1, ef.cond(y.sum() > -0.2, lambda: y * y, lambda: y * 3.0)

    return ef.while_loop(lambda i, y: i < 3, iteration, (ef.tensor(0), x))[1].sum()


@pytest.mark.parametrize("f", [_in_loops, _in_while_loops])
def test_lists_from_outside_are_read(f: Any) -> None:
    """A Hessian takes the pullback for many rows, whose lists are those of one forward pass."""
    x = ef.tensor([[0.5, 0.25], [0.125, -1.0]], dtype=ef.float64)
    expected = ef.hessian(f)(x).numpy()
    assert np.count_nonzero(expected) > 0
    for way in (ef.trace(ef.hessian(f)), ef.hessian(ef.trace(f))):
        np.testing.assert_array_equal(way(x).numpy(), expected)


def test_a_list_from_outside_stays_one() -> None:
    def replaced(array: Any, x: Any) -> Any:
        def iteration(row: Any, array: Any) -> Any:
            new = ef.TensorArray(1, ef.tensor(0.0)).write(0, x)
            return row, ef.cond(row > 0.0, lambda: new, lambda: array)

        rows = ef.tensor([1.0, -1.0])
        return ef.scan(lambda c, row: iteration(row, c)[::-1], array, rows)[0].stack()

    array = ef.TensorArray(1, ef.tensor(0.0)).write(0, ef.tensor(1.0))
    with pytest.raises(VmapError, check=says("a list from outside has no rows")):
        ef.trace(ef.vmap(replaced, in_axes=(None, 0)))(array, ef.tensor([1.0, 2.0]))


def counted(x: Any) -> Any:
    n = 0
    while n < 5 and x.sum() < 100.0:
        x = x * 2
        n += 1
    return x, n


def counted_and_used(x: Any, limit: Any) -> Any:
    n = 0
    while x.sum() < 100.0 and n < limit:
        x = x * 2 + n
        n = n + 1
    if n > 3 and x.sum() > 20:
        x = x * n
    return x


def counted_in_a_branch(x: Any) -> Any:
    n = 0
    if x.sum() > 10:
        n = n + 1
    return x * n


def broken_off(x: Any) -> Any:
    n = 0
    while x.sum() < 100.0:
        x = x * 2
        n += 1
        if n > 4:
            break
    return x


@pytest.mark.parametrize("function", [counted, counted_and_used, counted_in_a_branch, broken_off])
def test_counters_of_python_in_traced_functions_may_differ_from_row_to_row(function: Any) -> None:
    rows = ef.tensor([[1.0, 1.0], [0.01, 0.02], [30.0, 30.0], [4.0, 4.0]])
    rest = (10,) if function is counted_and_used else ()
    traced = ef.trace(function)
    results = ef.vmap(traced, in_axes=(0, *[None for _ in rest]))(rows, *rest)
    each = [function(row, *rest) for row in rows]
    if function is counted:
        assert results[1].tolist() == [n for _, n in each]
        results, each = results[0], [x for x, _ in each]
    assert results.tolist() == [x.tolist() for x in each]


def test_other_numbers_that_differ_from_row_to_row_are_refused_with_the_remedy() -> None:
    @ef.trace
    def total(x: Any) -> Any:
        size = 0.1
        while size < 1.0 and x.sum() < 100.0:
            x = x * 2
            size += 0.1
        return x * size

    with pytest.raises(VmapError, match="a Python number differs from row to row") as caught:
        ef.vmap(total)(ef.tensor([[1.0], [60.0]]))
    assert "total = ef.tensor(0.0) in place of total = 0.0" in str(caught.value)
    assert ": size += 0.1" in str(caught.value)
