"""Sorting and searching, beyond the table of cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import eagerflow as ef
from eagerflow import errors
from eagerflow_kernels import table
from tests.messages import says

floats = npst.arrays(
    st.sampled_from(["float16", "float32", "float64"]),
    npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6),
    elements=st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, math.nan, math.inf, -math.inf]),
)


def _order(line, descending):
    """The indices in stable order, NaN as the largest value, by Python's sort."""
    signed = [(math.inf if v != v else v, v != v) for v in line.tolist()]
    key = (lambda i: tuple(-v for v in signed[i])) if descending else (lambda i: signed[i])
    return sorted(range(len(signed)), key=key)


@given(floats, st.data())
def test_sorting_is_stable(array, data) -> None:
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    descending = data.draw(st.booleans())
    x = ef.asarray(array)
    order = ef.argsort(x, axis=axis, descending=descending).numpy()
    values = ef.sort(x, axis=axis, descending=descending).numpy()
    lines = np.moveaxis(array, axis, -1)
    lines = lines.reshape(math.prod(lines.shape[:-1]), lines.shape[-1])
    for line, o, v in zip(
        lines,
        np.moveaxis(order, axis, -1).reshape(lines.shape),
        np.moveaxis(values, axis, -1).reshape(lines.shape),
        strict=True,
    ):
        want = _order(line, descending)
        assert o.tolist() == want
        np.testing.assert_array_equal(v, line[want])
        np.testing.assert_array_equal(np.signbit(v), np.signbit(line[want]))


@given(floats, st.data())
def test_topk_is_the_front_of_the_order(array, data) -> None:
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    largest = data.draw(st.booleans())
    k = data.draw(st.integers(0, array.shape[axis]))
    x = ef.asarray(array)
    values, indices = ef.topk(x, k, axis=axis, largest=largest)
    want = ef.argsort(x, axis=axis, descending=largest).numpy()
    want = np.take(want, range(k), axis=axis)
    np.testing.assert_array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, want, axis))


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("k", [1, 10, 499])
def test_topk_of_long_lines_with_many_ties(dtype, k) -> None:
    array = np.random.default_rng(0).integers(0, 50, (3, 2000)).astype(dtype)
    for largest in (True, False):
        values, indices = ef.topk(ef.asarray(array), k, largest=largest)
        want = np.argsort(-array if largest else array, axis=-1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices.numpy(), want)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, want, -1))


@given(floats, st.sampled_from(["left", "right"]))
def test_searchsorted_agrees_with_sort(array, side) -> None:
    line = ef.sort(ef.reshape(ef.asarray(array), (-1,)))
    x = ef.asarray(array)
    places = ef.searchsorted(line, x, side=side).numpy().ravel()
    for value, place in zip(array.ravel(), places, strict=True):
        grown = np.insert(line.numpy(), place, value)
        np.testing.assert_array_equal(grown, ef.sort(ef.asarray(grown)).numpy())


def test_searchsorted_through_a_sorter() -> None:
    x = ef.tensor([30.0, 10.0, 20.0])
    values = ef.tensor([[20.0, 5.0], [25.0, 99.0]])
    positions = ef.searchsorted(x, values, sorter=ef.argsort(x))
    assert positions.tolist() == [[1, 0], [2, 3]]
    assert ef.searchsorted(ef.tensor([1, 5]), 3.5).tolist() == 1


def test_topk_gives_names() -> None:
    x = ef.tensor([2.0, 1.0, 2.0])
    top = ef.topk(x, 1)
    assert (top.values.tolist(), top.indices.tolist()) == ([2.0], [0])


def test_gradients_follow_the_index() -> None:
    x = ef.tensor([3.0, 1.0, 2.0])
    weights = ef.tensor([1.0, 10.0, 100.0])
    assert ef.grad(lambda t: (ef.sort(t) * weights).sum())(x).tolist() == [100.0, 1.0, 10.0]
    assert ef.grad(lambda t: ef.topk(t, 2).values.sum())(x).tolist() == [1.0, 0.0, 1.0]
    ties = ef.tensor([1.0, 1.0, 0.0])
    assert ef.grad(lambda t: (ef.sort(t) * weights).sum())(ties).tolist() == [10.0, 100.0, 1.0]
    assert ef.grad(lambda t: ef.topk(t, 1).values.sum())(ties).tolist() == [1.0, 0.0, 0.0]


def _long(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(70_001).astype("float32")
    if kind == "ties":
        x = np.round(x)
    elif kind == "few":
        x[:] = 0
        x[[5, 69_999]] = 1, -1
    elif kind == "nan":
        x[70_000] = np.nan
    elif kind == "ascending":
        x.sort()
    return x


@pytest.mark.parametrize("kind", ["random", "ties", "few", "nan", "ascending"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_topk_of_long_lines(kind, largest, k) -> None:
    x = _long(kind)
    order = np.argsort(x[::-1], kind="stable")  # NaN last, so first from the end
    want = (x.size - 1 - order)[::-1] if largest else np.argsort(x, kind="stable")
    assert ef.topk(ef.asarray(x), k, largest=largest).indices.tolist() == want[:k].tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 6, 1001, 1002])
@pytest.mark.parametrize("q", [0, 0.1, 0.5, 0.97, 1])
def test_quantiles_of_a_number_are_those_of_a_tensor(size, q) -> None:
    x = np.random.default_rng(size).integers(0, 50, (3, size)).astype("float64")
    want = np.quantile(x, q, axis=1)
    np.testing.assert_allclose(ef.quantile(ef.asarray(x), q, axis=1).numpy(), want, atol=1e-12)
    line = ef.quantile(ef.asarray(x), ef.tensor([q], dtype="float64"), axis=1)[0]
    np.testing.assert_allclose(line.numpy(), want, atol=1e-12)


def test_a_quantile_sorts_nothing() -> None:
    with ef.profile() as profile:
        ef.median(ef.tensor([3.0, 1.0, 2.0]))
    names = {event.name for event in profile.events}
    assert "order_statistics" in names
    assert not {"sort", "argsort"} & names


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("order_statistics", {"q": 0.0123}),
        ("topk_indices", {"k": 7, "axis": 1, "largest": True}),
        ("tril", {"k": 1}),
        ("triu", {"k": -1}),
        ("broadcast_to", {"shape": (2, 3, 300)}),
        ("sigmoid", {}),
    ],
)
def test_portable_kernels_do_the_same(op, attrs) -> None:
    x = np.random.default_rng(0).standard_normal((3, 300))
    kernel = table.portable_kernel(op)  # or the name of a function of NumPy
    portable = (
        getattr(np, kernel)(x, **attrs) if isinstance(kernel, str) else kernel(np, x, **attrs)
    )
    special = table.find(op, "cpu", ("float64",), np)(x, **attrs)
    np.testing.assert_allclose(portable, special, rtol=1e-15)


def test_gradient_of_a_median_goes_to_the_elements_in_the_middle() -> None:
    even, odd = ef.tensor([4.0, 1.0, 3.0, 9.0]), ef.tensor([4.0, 1.0, 3.0])
    assert ef.grad(ef.median)(even).tolist() == [0.5, 0.0, 0.5, 0.0]
    assert ef.grad(ef.median)(odd).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda x: ef.sort(x, axis=1), errors.AxisError, "axis 1 is out of range"),
        (lambda x: ef.sort(ef.tensor(1.0)), errors.AxisError, "out of range"),
        (lambda x: ef.topk(x, 4), errors.ShapeError, "4 elements of 3"),
        (lambda x: ef.topk(x, 1.5), errors.DTypeError, "k must be an integer"),
        (lambda x: ef.searchsorted(x, x, side="up"), errors.TensorValueError, "'up'"),
        (lambda x: ef.searchsorted(x[None], x), errors.ShapeError, "one axis"),
        (lambda x: ef.searchsorted(x, x, sorter=[0]), errors.ShapeError, "sorter"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0, 3.0]))
