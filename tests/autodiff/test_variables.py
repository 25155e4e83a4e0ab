"""Gradients by variables: sums over reads, sparse for gathers, nothing through assignments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError


@pytest.fixture
def w():
    return ef.Variable([1.0, 2.0, 3.0], name="w")


def test_wrt_gives_the_structure_of_its_tree(w) -> None:
    b = ef.Variable(0.5)
    tree = {"layer": [w, {"bias": b}]}
    loss = ef.value_and_grad(lambda x, *, scale: ((w * x + b) * scale).sum(), wrt=tree)
    value, gradient = loss(2.0, scale=10.0)
    assert float(value) == 135.0
    np.testing.assert_array_equal(gradient["layer"][0].numpy(), [20, 20, 20])
    assert float(gradient["layer"][1]["bias"]) == 30.0


def test_the_derivative_sums_over_the_reads(w) -> None:
    gradient = ef.grad(lambda: (w * w + w.value * 3).sum(), wrt=w)()
    np.testing.assert_array_equal(gradient.numpy(), [5, 7, 9])


def test_unread_variables_have_gradient_zero(w) -> None:
    other = ef.Variable([[1.0, 2.0]])
    gradient = ef.grad(lambda: w.sum(), wrt=(w, other))()
    np.testing.assert_array_equal(gradient[1].numpy(), [[0, 0]])


def test_wrt_is_by_just_these(w) -> None:
    other = ef.Variable(2.0, trainable=False)
    assert float(ef.grad(lambda: w.sum() * other * other, wrt=other)()) == 24.0


def test_wrt_refuses_what_is_no_variable(w) -> None:
    with pytest.raises(GradientError, match="wrt takes variables") as caught:
        ef.grad(lambda: w.sum(), wrt=[w, ef.tensor(1.0)])()
    assert caught.value.given == "Tensor in wrt[1]"
    with pytest.raises(GradientError, match="integer dtype"):
        ef.grad(lambda: w.sum(), wrt=ef.Variable(1))()
    with pytest.raises(GradientError, match=r"wrt\['n'\] reaches the result only through greater"):
        ef.grad(lambda: (w > 0).astype(ef.float32).sum(), wrt={"n": w})()


def test_a_variable_as_an_argument(w) -> None:
    gradient = ef.grad(lambda x: (x * x).sum())(w)
    assert isinstance(gradient, ef.Tensor)
    np.testing.assert_array_equal(gradient.numpy(), [2, 4, 6])


def test_the_result_may_be_a_variable() -> None:
    v = ef.Variable(3.0)
    assert float(ef.grad(lambda: v, wrt=v)()) == 1.0


def test_orders_by_variables(w) -> None:
    second = ef.grad(lambda: ef.grad(lambda: (w * w * w).sum(), wrt=w)().sum(), wrt=w)()
    np.testing.assert_array_equal(second.numpy(), [6, 12, 18])


# --- the tape ----------------------------------------------------------------------------------


def test_a_tape_watches_trainable_variables_when_they_are_read(w) -> None:
    fixed = ef.Variable([1.0, 1.0, 1.0], trainable=False)
    with ef.GradientTape() as tape:
        y = (w * w * fixed).sum()
    gw, gf = tape.gradient(y, (w, fixed))
    np.testing.assert_array_equal(gw.numpy(), [2, 4, 6])
    assert gf is None


def test_a_tape_watches_others_when_told() -> None:
    fixed = ef.Variable([1.0, 2.0], trainable=False)
    with ef.GradientTape() as tape:
        tape.watch(fixed)
        y = (fixed * fixed).sum()
    np.testing.assert_array_equal(tape.gradient(y, fixed).numpy(), [2, 4])


def test_unread_variables_have_no_gradient(w) -> None:
    with ef.GradientTape() as tape:
        y = ef.tensor(1.0) * 2
    assert tape.gradient(y, [w]) == [None]


def test_a_read_value_is_a_source_of_its_own(w) -> None:
    with ef.GradientTape() as tape:
        first, second = w.value, w.value
        y = (first * first * second).sum()
    a, b, whole = tape.gradient(y, (first, second, w))
    np.testing.assert_array_equal(a.numpy(), [2, 8, 18])
    np.testing.assert_array_equal(b.numpy(), [1, 4, 9])
    np.testing.assert_array_equal(whole.numpy(), [3, 12, 27])


def test_nested_tapes_share_a_variable(w) -> None:
    with ef.GradientTape() as outer:
        with ef.GradientTape() as inner:
            y = (w * w * w).sum()
        slope = inner.gradient(y, w)
    np.testing.assert_array_equal(outer.gradient(slope, w).numpy(), [6, 12, 18])


# --- sparse gradients --------------------------------------------------------------------------


@pytest.fixture
def table():
    return ef.Variable(np.arange(8.0).reshape(4, 2))


def test_only_gathered_is_sparse(table) -> None:
    rows = ef.tensor([2, 0, 2])
    gradient = ef.grad(lambda: (ef.take(table, rows, axis=0) * 3).sum(), wrt=table)()
    assert isinstance(gradient, ef.IndexedSlices)
    assert gradient.shape == (4, 2)
    np.testing.assert_array_equal(gradient.indices.numpy(), [2, 0, 2])
    np.testing.assert_array_equal(gradient.numpy(), [[3, 3], [0, 0], [6, 6], [0, 0]])


def test_two_gathers_stay_sparse_and_anything_else_is_dense(table) -> None:
    def gathered():
        return ef.take(table, ef.tensor([1]), axis=0).sum() * 2 + table[ef.tensor([1, 3])].sum()

    sparse = ef.grad(gathered, wrt=table)()
    assert isinstance(sparse, ef.IndexedSlices)
    want = np.array([[0, 0], [3, 3], [0, 0], [1, 1]])
    np.testing.assert_array_equal(sparse.numpy(), want)
    dense = ef.grad(lambda: gathered() + table.sum(), wrt=table)()
    assert isinstance(dense, ef.Tensor)
    np.testing.assert_array_equal(dense.numpy(), want + 1)


def test_a_gather_after_a_cast_is_sparse(table) -> None:
    with ef.GradientTape() as tape:
        y = ef.take(-table.value.astype(ef.float32), ef.tensor([3]), axis=0).sum()
    gradient = tape.gradient(y, table)
    assert isinstance(gradient, ef.IndexedSlices)
    assert gradient.dtype is ef.float64
    np.testing.assert_array_equal(gradient.values.numpy(), [[-1, -1]])


def test_a_gather_of_a_tensor_is_dense() -> None:
    gradient = ef.grad(lambda x: ef.take(x, ef.tensor([1, 1]), axis=0).sum())(ef.ones((3, 2)))
    assert isinstance(gradient, ef.Tensor)
    np.testing.assert_array_equal(gradient.numpy(), [[0, 0], [2, 2], [0, 0]])


def test_sparse_under_an_outer_tape(table) -> None:
    def penalty():
        g = ef.grad(lambda: (ef.take(table, ef.tensor([1, 1]), axis=0) ** 2).sum(), wrt=table)()
        assert isinstance(g, ef.IndexedSlices)
        return (g.to_dense() * g.to_dense()).sum()

    gradient = ef.grad(penalty, wrt=table)()  # of (4 x)^2 by each element of row 1
    np.testing.assert_array_equal(np.asarray(gradient), [[0, 0], [64, 96], [0, 0], [0, 0]])


def test_a_sparse_step_changes_only_its_rows(table) -> None:
    before = table.numpy()
    table.assign_sub(ef.grad(lambda: ef.take(table, ef.tensor([2]), axis=0).sum(), wrt=table)() * 2)
    np.testing.assert_array_equal(table.numpy() - before, [[0, 0], [0, 0], [-2, -2], [0, 0]])


# --- assignments ---------------------------------------------------------------------------------


def test_assignments_are_not_differentiated_through() -> None:
    v, x = ef.Variable(2.0), ef.tensor(3.0)
    with ef.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * x)
    assert tape.gradient(x * 1.0, x) is None
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = v.assign(x * x) * x
    assert float(tape.gradient(y, x)) == 9.0


def test_a_read_after_an_assignment_warns_with_both_lines() -> None:
    v = ef.Variable(2.0)
    with ef.GradientTape() as tape:
        y = v * v
        v.assign_add(1.0)
        with pytest.warns(RuntimeWarning, match="read after it was assigned") as caught:
            z = v * 5
        total = y + z
    text = str(caught[0].message)
    assert "assigned at: " in text
    assert "v.assign_add(1.0)" in text
    assert "read at: " in text
    assert "z = v * 5" in text
    assert caught[0].filename == __file__
    assert float(tape.gradient(total, v)) == 9.0  # 2 * 2 at the first value, and 5


def test_reads_without_an_assignment_between_do_not_warn() -> None:
    v, other = ef.Variable(2.0), ef.Variable(1.0, trainable=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        v.assign(3.0)
        with ef.GradientTape() as tape:
            y = v * v
            other.assign(2.0)
            y = y * other  # not watched
        tape.gradient(y, v)
        v.assign(4.0)
        ef.grad(lambda: v * v, wrt=v)()
        with ef.GradientTape():
            v.assign(5.0)
            v.assign(6.0)


def test_a_value_read_before_an_assignment_keeps_its_gradient() -> None:
    v = ef.Variable([2.0, 3.0])
    with ef.GradientTape() as tape:
        before = v.value
        y = before * before
        v.assign([100.0, 100.0])
    np.testing.assert_array_equal(tape.gradient(y, v).numpy(), [4, 6])


@pytest.mark.parametrize("transform", [ef.grad, ef.value_and_grad])
def test_a_loss_that_was_computed_before_is_told(transform: Any) -> None:
    v = ef.Variable([1.0, 2.0])
    loss = (v * v).sum()
    with pytest.warns(
        ef.errors.GradientWarning, match="reads none of the variables of wrt"
    ) as told:
        transform(lambda: loss * 2, wrt=[v])()
    assert "compute all of the loss in the function" in str(told[0].message)
    assert told[0].filename == __file__


def test_gradients_that_are_zero_on_purpose_are_not_told() -> None:
    v = ef.Variable([1.0, 2.0])
    for f in (lambda: ef.stop_gradient(v).sum(), lambda: (v * 0.0).sum()):
        assert ef.grad(f, wrt=v)().tolist() == [0.0, 0.0]
    assert ef.grad(lambda: ef.tensor(1.0), wrt={})() == {}
