"""`GradientTape`: watched values, gradients, and the release of tape records."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.autodiff.lines import line_of


def test_watched_tensors() -> None:
    x, y = ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        z = x * y
    gx, gy = tape.gradient(z, [x, y])
    np.testing.assert_array_equal(gx.numpy(), [3, 4])
    assert gy is None


def test_watch_takes_trees() -> None:
    tree = {"a": ef.tensor(2.0), "b": (ef.tensor(3.0), ef.Variable(4.0, trainable=False))}
    with ef.GradientTape() as tape:
        tape.watch(tree)
        y = tree["a"] * tree["b"][0] * tree["b"][1]
    gradient = tape.gradient(y, tree)
    assert float(gradient["a"]) == 12.0
    assert [float(g) for g in gradient["b"]] == [8.0, 6.0]


def test_a_target_that_is_no_scalar_is_summed() -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, 3 * x[0]
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [[2, 4], [6, 8]])
    np.testing.assert_array_equal(tape.gradient({"y": y, "z": z}, x).numpy(), [[5, 7], [6, 8]])
    np.testing.assert_array_equal(tape.gradient([y, y], x).numpy(), [[4, 8], [12, 16]])


def test_intermediate_values_are_sources() -> None:
    x = ef.tensor(2.0)
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y + y
    gy, gx, gz = tape.gradient(z, (y, x, z))
    assert (float(gy), float(gx), float(gz)) == (9.0, 36.0, 1.0)
    assert [float(g) for g in tape.gradient(z, (x, y))] == [36.0, 9.0]
    assert tape.gradient(y, z) is None


def test_within_the_block_and_after_it() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        inside = tape.gradient(y, x)
        z = y * x  # goes on recording
    assert float(inside) == 6.0
    assert float(tape.gradient(z, x)) == 27.0
    assert float(tape.gradient(y, x)) == 6.0


def test_a_tape_does_not_record_its_own_gradient() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        slope = tape.gradient(x * x, x)
    assert tape.gradient(slope, x) is None


def test_a_second_use_is_refused() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert float(tape.gradient(y, x)) == 6.0
        y = y * x  # not recorded any more
    for use in (lambda: tape.gradient(y, x), tape.__enter__):
        with pytest.raises(GradientError, match="used already") as caught:
            use()
        assert "persistent=True" in caught.value.hint


def test_a_failed_gradient_counts_as_use() -> None:
    x = ef.tensor([1.0, 2.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = ef.argmax(x).astype(ef.float32)
    with pytest.raises(GradientError, match="only through argmax"):
        tape.gradient(y, x)
    with pytest.raises(GradientError, match="used already"):
        tape.gradient(y, x)


def test_entering_again_goes_on() -> None:
    x = ef.tensor(2.0)
    tape = ef.GradientTape()
    with tape:
        tape.watch(x)
        y = x * x
    z = y * x  # between the blocks: a constant to the tape
    with tape:
        w = y * z
    assert float(tape.gradient(w, x)) == 32.0
    with ef.GradientTape() as busy, pytest.raises(GradientError, match="in use already"):
        busy.__enter__()


def test_stop_recording() -> None:
    x = ef.tensor(2.0)
    with ef.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            constant = x * x
        y = constant * x
    assert float(tape.gradient(y, x)) == 4.0


def test_tapes_nest() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape() as first:
        first.watch(x)
        with ef.GradientTape() as second:
            second.watch(x)
            with ef.GradientTape() as third:
                third.watch(x)
                y = x * x * x * x
            dy = third.gradient(y, x)
        d2y = second.gradient(dy, x)
    assert (float(dy), float(d2y), float(first.gradient(d2y, x))) == (108.0, 108.0, 72.0)


def test_the_gradient_of_an_outer_tape_within_an_inner_one() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape(persistent=True) as outer:
        outer.watch(x)
        y = x * x * x
        with ef.GradientTape() as inner:
            inner.watch(x)
            slope = outer.gradient(y, x)
        assert float(slope) == 27.0
        assert float(inner.gradient(slope, x)) == 12.0  # x * x was a constant to it
    assert outer.gradient(slope, x) is None


def test_watching_in_an_inner_tape_cuts_nothing_from_the_outer() -> None:
    x = ef.tensor(2.0)
    with ef.GradientTape(persistent=True) as outer:
        outer.watch(x)
        before = x * x
        with ef.GradientTape() as inner:
            inner.watch(x)
            within = x * x * x
        slope = inner.gradient(within, x)
        after = slope * before
    assert float(outer.gradient(before, x)) == 4.0
    assert float(outer.gradient(within, x)) == 12.0
    assert float(outer.gradient(after, x)) == 96.0  # 3x^2 * x^2


def test_two_tapes_one_after_the_other_on_one_tensor() -> None:
    x = ef.tensor(2.0)
    with ef.GradientTape() as first:
        first.watch(x)
        y = x * x
    with ef.GradientTape() as second:
        second.watch(x)
        z = x * x * x
    assert float(second.gradient(z, x)) == 12.0
    assert float(first.gradient(y, x)) == 4.0


def test_a_copy_is_the_same_value() -> None:
    x = ef.tensor(2.0)
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = copy.copy(x) * copy.deepcopy(x)
    assert float(tape.gradient(y, x)) == 4.0


def test_tensors_of_one_array_are_two_values() -> None:
    array = np.array([1.0, 2.0])
    x, y = ef.asarray(array), ef.asarray(array)
    with ef.GradientTape() as tape:
        tape.watch(x)
        z = x * y
    gx, gy = tape.gradient(z, (x, y))
    np.testing.assert_array_equal(gx.numpy(), array)
    assert gy is None


def test_what_cannot_be_watched() -> None:
    with ef.GradientTape() as tape:
        with pytest.raises(GradientError, match="the tensor has an integer dtype") as caught:
            tape.watch(ef.tensor([1, 2]))
        assert line_of(caught.value) == "tape.watch(ef.tensor([1, 2]))"
        with pytest.raises(GradientError, match="only tensors and variables") as caught:
            tape.watch(1.5)
        assert caught.value.given == "float"


def test_what_is_no_target_and_no_source() -> None:
    x = ef.tensor([1.0, 2.0])
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, n, z = x * x, ef.argmax(x), x * 1j
    with pytest.raises(GradientError, match="not a real tensor"):
        tape.gradient(n, x)
    with pytest.raises(GradientError, match="not a real tensor"):
        tape.gradient(z, x)
    with pytest.raises(GradientError, match="not a real tensor"):
        tape.gradient(3.0, x)
    with pytest.raises(GradientError, match="neither a tensor nor a variable"):
        tape.gradient(y, {"x": 1.0})
    with pytest.raises(GradientError, match="integer dtype"):
        tape.gradient(y, n)


def test_a_source_that_no_derivative_flows_into() -> None:
    x = ef.tensor([1.0, -2.0])
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        mask = (x > 0).astype(ef.float32)
        y = mask * x
    with pytest.raises(GradientError, match="no derivative flows into the source") as caught:
        tape.gradient(y, mask)
    assert "tape.watch" in caught.value.hint
    with ef.GradientTape() as tape:
        tape.watch(x)
        mask = (x > 0).astype(ef.float32)
        tape.watch(mask)
        y = mask * x
    gx, gm = tape.gradient(y, (x, mask))
    np.testing.assert_array_equal(gx.numpy(), [1, 0])
    np.testing.assert_array_equal(gm.numpy(), [1, -2])


def test_multiple_outputs() -> None:
    x = ef.tensor([3.0, 1.0, 2.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        values, places = ef.topk(x, 2)
        y = values[1] * 10 + places.astype(ef.float32).sum()
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [0, 0, 10])


def test_the_gradient_by_a_tensor_is_dense() -> None:
    x = ef.ones((3, 2))
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = ef.take(x, ef.tensor([1, 1]), axis=0)
    gradient = tape.gradient(y, x)
    assert isinstance(gradient, ef.Tensor)
    np.testing.assert_array_equal(gradient.numpy(), [[0, 0], [2, 2], [0, 0]])


def test_monitors_see_what_a_tape_records() -> None:
    x = ef.tensor([1.0, 0.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        x + x  # the operator's kernel is known from here on
        check = ef.config(check_nan=True)
        with check, np.errstate(over="ignore"), pytest.raises(ef.errors.NonFiniteError):
            ef.tensor([1e38, 1.0]) * ef.tensor([1e38, 1.0])


def test_operators_without_derivative_and_with_several_dtypes() -> None:
    n, x = ef.tensor([1, 2]), ef.tensor([3.0, 4.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        assert (n / n).dtype is ef.float32  # as without a tape
        assert (n + n).dtype is ef.int64
        assert (n < n).dtype is ef.bool
        y = x / n + n * x + (x > n) * x
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [3, 3.5])
