"""Functions under NumPy's names, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

NAN = float("nan")


def test_synonyms_are_the_functions() -> None:
    assert ef.array is ef.tensor
    assert ef.around is ef.round
    assert ef.invert is ef.bitwise_invert


def test_gradients_pass_by_nan() -> None:
    x = ef.tensor([1.0, NAN, 3.0])
    assert ef.grad(ef.nanvar)(x).tolist() == [-1.0, 0.0, 1.0]
    assert ef.grad(ef.nanstd)(x).tolist() == [-0.5, 0.0, 0.5]
    assert ef.grad(ef.nanstd)(ef.tensor([2.0, NAN, 2.0])).tolist() == [0.0, 0.0, 0.0]


def test_variance_of_too_few_is_nan() -> None:
    x = ef.tensor([[NAN, NAN], [1.0, NAN], [1.0, 2.0]])
    got = ef.nanvar(x, 1, correction=1)
    np.testing.assert_array_equal(got.numpy(), [NAN, NAN, 0.5])


def test_ends_of_a_geometric_range_are_exact() -> None:
    got = ef.geomspace(3.3, 777.7, 50, dtype="float64")
    assert (got[0].item(), got[-1].item()) == (3.3, 777.7)
    assert ef.geomspace(1, 1000, 4, dtype="int64").tolist() == [1, 10, 100, 1000]
    assert ef.geomspace(2, 8, 1).tolist() == [2.0]


@pytest.mark.parametrize("asked", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1)])
def test_unique_gives_what_is_asked_for(asked) -> None:
    x = np.array([[3, 1], [3, 2]])
    got, want = ef.unique(ef.asarray(x), *map(bool, asked)), np.unique(x, *map(bool, asked))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(6, 2), (4, 2, 3), (3, 0), (0, 3)])
def test_unique_slices(shape, axis) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    if 0 in shape and shape[axis] == 0:
        assert ef.unique(ef.asarray(x), axis=axis).shape == shape
        return
    got = ef.unique(ef.asarray(x), True, True, True, axis=axis)
    want = np.unique(x, True, True, True, axis=axis)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_array_equal(ef.unique(ef.asarray(x), axis=axis).numpy(), want[0])


def test_the_gradient_of_unique_slices_goes_to_the_first() -> None:
    x = ef.tensor([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0]])
    slope = ef.grad(lambda x: (ef.unique(x, axis=0) * 3).sum())(x)
    assert slope.tolist() == [[3.0, 3.0], [3.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda x: ef.geomspace(0, 1), errors.TensorValueError, "not 0, and of one sign"),
        (lambda x: ef.geomspace(-1, 1), errors.TensorValueError, "of one sign"),
        (lambda x: ef.percentile(x, 101), errors.TensorValueError, "percentile: q is out of"),
        (lambda x: ef.cov(x[None, None]), errors.ShapeError, "a matrix or a vector"),
        (lambda x: ef.dstack([]), errors.ShapeError, "at least one array"),
        (lambda x: ef.transpose(x, (1,)), errors.AxisError, "axis 1 is out of range"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0]))


_X = np.arange(24, dtype="f4").reshape(2, 3, 4)
_CALLS = {
    "stack": lambda m, x: m.stack([x, x], 1),
    "concat": lambda m, x: m.concat([x, x], 1),
    "flip": lambda m, x: m.flip(x, 0),
    "sort": lambda m, x: m.sort(-x, 0),
    "argsort": lambda m, x: m.argsort(-x, 0),
    "roll": lambda m, x: m.roll(x, 1, 0),
    "tril": lambda m, x: m.tril(x, 1),
    "triu": lambda m, x: m.triu(x, 1),
    "repeat": lambda m, x: m.repeat(x, 2, 1),
    "repeat by name": lambda m, x: m.repeat(x, repeats=2),
    "take": lambda m, x: m.take(x, m.asarray([1, 0]), 1),
    "take_along_axis": lambda m, x: m.take_along_axis(x, m.argsort(-x, 2), 2),
    "tensordot": lambda m, x: m.tensordot(x[0], x[0].T, 1),
    "diff": lambda m, x: m.diff(x, 2, 1),
    "fft": lambda m, x: m.fft.fft(x, 8, 1),
    "rfftn": lambda m, x: m.fft.rfftn(x, None, (0, 2)),
    "fftshift": lambda m, x: m.fft.fftshift(x, 1),
    "zeros": lambda m, x: m.zeros((2, 3), "int32"),
    "full_like": lambda m, x: m.full_like(x, 3, "float64"),
    "eye": lambda m, x: m.eye(3, 4, 1),
    "sum": lambda m, x: m.sum(x, 1, "float64"),
    "mean": lambda m, x: m.mean(x, 1, "float64"),
    "var": lambda m, x: m.var(x, 1, "float64", ddof=1),
    "std": lambda m, x: m.std(x, ddof=1),
    "nanvar": lambda m, x: m.nanvar(x, 1, ddof=1),
    "nanstd": lambda m, x: m.nanstd(x, 1, "float64"),
    "nanmean": lambda m, x: m.nanmean(x, 1, "float64"),
    "nansum": lambda m, x: m.nansum(x, 1, "float64"),
    "take_along_axis by name": lambda m, x: m.take_along_axis(x, indices=m.argsort(x), axis=-1),
    "diff of scalars": lambda m, x: m.diff(x, axis=1, prepend=0.5, append=m.asarray(2.0)),
    "round of a list": lambda m, x: m.round([1.26, 2.53], decimals=1),
    "x.mean": lambda m, x: x.mean(1, "float64"),
    "x.var": lambda m, x: x.var(1, "float64", ddof=1),
    "x.cumsum": lambda m, x: x.cumsum(1, "float64"),
    "searchsorted": lambda m, x: m.searchsorted(x[0, 0], x[0, 0], "right"),
    "allclose": lambda m, x: m.array_equal(x, x, True),
    "average": lambda m, x: m.average(x, 2, m.asarray([1.0, 2.0, 3.0, 4.0])),
}


@pytest.mark.parametrize("name", _CALLS)
def test_a_call_as_numpy_takes_it(name: str) -> None:
    call = _CALLS[name]
    expected, got = np.asarray(call(np, _X)), call(ef, ef.tensor(_X)).numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "shape"), [((), (24,)), ((1,), (2, 12)), ((0, 1), (6, 4)), ((-2, -1), (2, 12))]
)
def test_axes_are_made_one(axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert ef.tensor(_X).flatten(*axes).shape == shape
    assert ef.tensor(1.0).flatten().shape == (1,)


def test_a_shape_in_several_arguments_is_told_of() -> None:
    with pytest.raises(errors.DTypeError, check=says(r"one argument, a tuple: zeros\(\(3, 4\)\)")):
        ef.zeros(3, 4)
