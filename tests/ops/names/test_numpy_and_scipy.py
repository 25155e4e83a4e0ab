"""Functions under NumPy's and SciPy's names against these: values, traces, rows, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

_NAN = float("nan")
_RNG = np.random.default_rng(0)
_V, _W = _RNG.standard_normal(7), _RNG.standard_normal(4)
_M = _RNG.standard_normal((3, 4))
_C = _RNG.standard_normal((2, 3, 4))
_HOLES = np.where(_RNG.random((3, 5)) < 0.3, _NAN, _RNG.standard_normal((3, 5)))
_HOLES[1] = _NAN
_S = _RNG.standard_normal((3, 3)) + 3 * np.eye(3)
_T = np.array([0.0, 0.5, 2.0, 2.5, 4.0, 7.0, 7.5])

#: a function of eagerflow's, NumPy's, and the arguments of both
_SAME: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x, y: ef.append(x, y), np.append, (_V, _W)),
    (lambda x, y: ef.append(x, y, 1), lambda x, y: np.append(x, y, 1), (_M, _M)),
    (lambda x, y: ef.column_stack([x, y]), lambda x, y: np.column_stack([x, y]), (_V, _V + 1)),
    (lambda x: ef.column_stack([x, x[:, 0]]), lambda x: np.column_stack([x, x[:, 0]]), (_M,)),
    (ef.fliplr, np.fliplr, (_M,)),
    (ef.flipud, np.flipud, (_M,)),
    (lambda x: ef.hsplit(x, 2)[1], lambda x: np.hsplit(x, 2)[1], (_M,)),
    (lambda x: ef.hsplit(x, [2])[1], lambda x: np.hsplit(x, [2])[1], (_V,)),
    (lambda x: ef.vsplit(x, [1])[1], lambda x: np.vsplit(x, [1])[1], (_M,)),
    (lambda x: ef.dsplit(x, 2)[1], lambda x: np.dsplit(x, 2)[1], (_C,)),
    (lambda x: ef.delete(x, 2), lambda x: np.delete(x, 2), (_M,)),
    (lambda x: ef.delete(x, [0, -1], 1), lambda x: np.delete(x, [0, -1], 1), (_M,)),
    (lambda x: ef.delete(x, slice(1, None, 2), 0), lambda x: np.delete(x, slice(1, None, 2), 0),
     (_M,)),
    (lambda x: ef.delete(x, [True, False, True], 0),
     lambda x: np.delete(x, [True, False, True], 0), (_M,)),
    (lambda x: ef.insert(x, 1, 9.0), lambda x: np.insert(x, 1, 9.0), (_M,)),
    (lambda x, y: ef.insert(x, 1, y), lambda x, y: np.insert(x, 1, y), (_V, _W)),
    (lambda x, y: ef.insert(x, -1, y, 0), lambda x, y: np.insert(x, -1, y, 0), (_M, _W)),
    (lambda x: ef.insert(x, 4, [1.0, 2.0, 3.0], 1), lambda x: np.insert(x, 4, [1.0, 2.0, 3.0], 1),
     (_M,)),
    (lambda x, y: ef.insert(x, [3, 0, 3, 7], y), lambda x, y: np.insert(x, [3, 0, 3, 7], y),
     (_V, _W)),
    (lambda x: ef.insert(x, np.array([0, 2]), [8.0, 9.0]),
     lambda x: np.insert(x, np.array([0, 2]), [8.0, 9.0]), (_V,)),
    (lambda x: ef.insert(x, range(2), [8.0, 9.0]), lambda x: np.insert(x, range(2), [8.0, 9.0]),
     (_V,)),
    (lambda x: ef.insert(x, [1], [7.0, 8.0, 9.0]), lambda x: np.insert(x, [1], [7.0, 8.0, 9.0]),
     (_V,)),
    (lambda x: ef.insert(x, [0, 2], 5.0, 1), lambda x: np.insert(x, [0, 2], 5.0, 1), (_M,)),
    (lambda x: ef.insert(x, slice(0, 3), 5.0, 0), lambda x: np.insert(x, slice(0, 3), 5.0, 0),
     (_M,)),
    (ef.gradient, np.gradient, (_V,)),
    (lambda x: ef.gradient(x, 0.5, edge_order=2), lambda x: np.gradient(x, 0.5, edge_order=2),
     (_V,)),
    (ef.gradient, np.gradient, (_V, _T)),
    (lambda x, t: ef.gradient(x, t, edge_order=2), lambda x, t: np.gradient(x, t, edge_order=2),
     (_V, _T)),
    (lambda x: ef.gradient(x, 2.0, 3.0)[1], lambda x: np.gradient(x, 2.0, 3.0)[1], (_M,)),
    (lambda x: ef.gradient(x, axis=1), lambda x: np.gradient(x, axis=1), (_C,)),
    (lambda x: ef.gradient(x[:2]), lambda x: np.gradient(x[:2]), (_V,)),
    *((lambda x, y, m=m: ef.convolve(x, y, m), lambda x, y, m=m: np.convolve(x, y, m), (a, b))
      for m in ("full", "same", "valid") for a, b in ((_V, _W), (_W, _V), (_V, _V), (_V, _W[:3]))),
    *((lambda x, y, m=m: ef.correlate(x, y, m), lambda x, y, m=m: np.correlate(x, y, m), (a, b))
      for m in ("full", "same", "valid") for a, b in ((_V, _W), (_W, _V), (_V, _W[:3]))),
    (ef.corrcoef, np.corrcoef, (_M,)),
    (ef.corrcoef, np.corrcoef, (_V, _V**2)),
    (lambda x: ef.corrcoef(x, rowvar=False), lambda x: np.corrcoef(x, rowvar=False), (_M,)),
    (lambda x: ef.fft.fft2(x).real, lambda x: np.fft.fft2(x).real, (_C,)),
    (lambda x: ef.fft.ifft2(x, (4, 4)).imag, lambda x: np.fft.ifft2(x, (4, 4)).imag, (_C,)),
    (lambda x: ef.fft.rfft2(x, axes=(0, 1)).imag, lambda x: np.fft.rfft2(x, axes=(0, 1)).imag,
     (_C,)),
    (lambda x: ef.fft.irfft2(ef.fft.rfft2(x)), lambda x: x, (_C,)),
    (lambda x, y: ef.linalg.block_diag(x, y, 2.0), lambda x, y: scipy.linalg.block_diag(x, y, 2.0),
     (_M, _W)),
    (ef.linalg.cond, np.linalg.cond, (_S,)),
    *((lambda x, p=p: ef.linalg.cond(x, p), lambda x, p=p: np.linalg.cond(x, p), (_S,))
      for p in (1, -2, "fro", np.inf)),
    (lambda x, b: ef.linalg.cho_solve((ef.linalg.cholesky(x @ x.T), True), b),
     lambda x, b: np.linalg.solve(x @ x.T, b), (_S, _M)),
    (lambda x, b: ef.linalg.cho_solve((ef.linalg.cholesky(x @ x.T, upper=True), False), b),
     lambda x, b: np.linalg.solve(x @ x.T, b), (_S, _V[:3])),
    (lambda x, b: ef.logsumexp(x, 1, b=b), lambda x, b: scipy.special.logsumexp(x, 1, b=b),
     (_M, _W**2)),
    (lambda x, b: ef.logsumexp(x, b=b, keepdims=True),
     lambda x, b: scipy.special.logsumexp(x, b=b, keepdims=True), (_V + 800, _V**2)),
]  # fmt: skip

_SAME += [
    (lambda x, q=q, m=m: ef.quantile(x, q, 1, method=m),
     lambda x, q=q, m=m: np.quantile(x, q, 1, method=m), (_C,))
    for m in ("linear", "lower", "higher", "midpoint", "nearest")
    for q in (0.3, [0.0, 0.25, 0.5, 0.75, 1.0])
]  # fmt: skip
_SAME += [
    (lambda x: ef.percentile(x, 40, method="higher"),
     lambda x: np.percentile(x, 40, method="higher"), (_M,)),
    (lambda x: ef.percentile(x, q=40), lambda x: np.percentile(x, q=40), (_M,)),
    (lambda x: ef.quantile(x, q=0.3, axis=1), lambda x: np.quantile(x, q=0.3, axis=1), (_M,)),
]  # fmt: skip

#: functions whose gradients by numeric differences would be NaN
_MISSING: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
    (ef.fmax, np.fmax, (_HOLES, _HOLES[::-1])),
    (ef.fmin, np.fmin, (_HOLES, _HOLES[::-1])),
    (ef.nanprod, np.nanprod, (_HOLES,)),
    (lambda x: ef.nanprod(x, 1, keepdims=True), lambda x: np.nanprod(x, 1, keepdims=True),
     (_HOLES,)),
    (ef.nancumsum, np.nancumsum, (_HOLES,)),
    (lambda x: ef.nancumprod(x, 1), lambda x: np.nancumprod(x, 1), (_HOLES,)),
    *((lambda x, a=a, k=k: ef.nanmedian(x, a, keepdims=k),
       lambda x, a=a, k=k: np.nanmedian(x, a, keepdims=k), (_HOLES,))
      for a, k in ((None, False), (0, True), (1, False), ((0, 1), True))),
    (lambda x: ef.nanquantile(x, [[0.0, 0.3], [0.9, 1.0]], 1),
     lambda x: np.nanquantile(x, [[0.0, 0.3], [0.9, 1.0]], 1), (_HOLES,)),
    *((lambda x, m=m: ef.nanquantile(x, 0.3, 1, method=m),
       lambda x, m=m: np.nanquantile(x, 0.3, 1, method=m), (_HOLES,))
      for m in ("lower", "higher", "midpoint", "nearest")),
    (lambda x: ef.nanpercentile(x, 40, 1, method="higher"),
     lambda x: np.nanpercentile(x, 40, 1, method="higher"), (_HOLES,)),
    (lambda x: ef.nanpercentile(x, 30, 0), lambda x: np.nanpercentile(x, 30, 0), (_HOLES,)),
    (lambda x: ef.nanpercentile(x, q=30), lambda x: np.nanpercentile(x, q=30), (_HOLES,)),
    # xarray calls it by these names
    (lambda x: ef.nanquantile(x, q=[0.3], axis=0), lambda x: np.nanquantile(x, q=[0.3], axis=0),
     (_HOLES,)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*NaN slice:RuntimeWarning")
@pytest.mark.parametrize(("ours", "theirs", "arrays"), [*_SAME, *_MISSING])
def test_values(ours: Any, theirs: Any, arrays: Any) -> None:
    xs = [ef.asarray(x) for x in arrays]
    want = theirs(*arrays)
    for run in (ours, ef.trace(ours)):
        got = run(*xs).numpy()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    rows = ef.vmap(ours)(*[ef.stack([x, x]) for x in xs])
    np.testing.assert_allclose(rows.numpy(), np.stack([want, want]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("ours", "theirs", "arrays"), _SAME)
def test_gradients(ours: Any, theirs: Any, arrays: Any) -> None:
    ef.check_grads(ours, [ef.asarray(x) for x in arrays], order=1)


def test_gradients_pass_by_what_is_missing() -> None:
    x = ef.tensor([1.0, _NAN, 3.0, 2.0])
    assert ef.grad(ef.nanmedian)(x).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert ef.grad(lambda x: ef.fmax(x, 2.5).sum())(x).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert ef.grad(lambda x: ef.nancumsum(x).sum())(x).tolist() == [4.0, 0.0, 2.0, 1.0]
    assert ef.grad(lambda x: ef.logsumexp(x, b=ef.tensor([1.0, 0.0])))(
        ef.tensor([2.0, _NAN])
    ).tolist() == [1.0, 0.0]


def test_slopes_pass_by_a_middle_that_is_missing() -> None:
    positions = np.arange(5.0)
    for x in ([1.0, _NAN, 3.0, 5.0, 8.0], [1.0, 2.0, np.inf, 5.0, 8.0]):
        got = ef.gradient(ef.tensor(x, "float64"), ef.asarray(positions))
        np.testing.assert_allclose(got.numpy(), np.gradient(np.array(x), positions))


def test_of_integers() -> None:
    x = ef.tensor([1, 2, 3])
    assert ef.convolve(x, x).tolist() == np.convolve([1, 2, 3], [1, 2, 3]).tolist()
    assert ef.convolve(x, x).dtype == ef.int64
    assert ef.nanprod(x).item() == 6
    assert [i.tolist() for i in ef.unravel_index(x, (2, 2))] == [[0, 1, 1], [1, 0, 1]]
    assert ef.insert(x, 0, 2.7).tolist() == [2, 1, 2, 3]
    z = ef.tensor([1 + 2j, 3 - 1j])
    np.testing.assert_allclose(
        ef.correlate(z, z, "full").numpy(), np.correlate(z.numpy(), z.numpy(), "full")
    )


@pytest.mark.parametrize(
    "function", [ef.nanmedian, lambda *of: ef.nanquantile(of[0], 0.3, *of[1:])]
)
def test_without_elements_there_is_no_median(function: Callable[..., ef.Tensor]) -> None:
    assert np.isnan(function(ef.zeros(0)).item())
    assert np.isnan(function(ef.zeros((0, 2)), 0).numpy()).tolist() == [True, True]
    assert function(ef.zeros((0, 2)), 1).shape == (0,)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ef.gradient(ef.ones(1)), errors.ShapeError, "too few samples"),
        (lambda: ef.gradient(ef.ones(3), ef.ones(2)), errors.ShapeError, "one position"),
        (lambda: ef.gradient(ef.ones((3, 3, 3)), 1, 2), errors.TensorValueError, "neither one"),
        (lambda: ef.gradient(ef.ones(3), edge_order=3), errors.TensorValueError, "1 or 2"),
        (lambda: ef.convolve(ef.ones((2, 2)), ef.ones(2)), errors.ShapeError, "takes vectors"),
        (lambda: ef.convolve(ef.ones(2), ef.ones(2), "all"), errors.TensorValueError, "no mode"),
        (lambda: ef.delete(ef.ones(2), 2), errors.TensorIndexError, "-2 to 1"),
        (lambda: ef.delete(ef.ones(2), [True]), errors.ShapeError, "mask does not fit"),
        (lambda: ef.insert(ef.ones(2), 3, 0), errors.TensorIndexError, "-2 to 2"),
        (lambda: ef.vsplit(ef.ones(2), 2), errors.ShapeError, "too few axes"),
        (lambda: ef.unravel_index(ef.tensor(6), (2, 3)), errors.TensorValueError, "0 to 5"),
        (lambda: ef.unravel_index(ef.tensor(1.0), (2, 3)), errors.DTypeError, "are integers"),
        (lambda: ef.nanquantile(ef.ones(2), 2.0), errors.TensorValueError, "out of range"),
        (lambda: ef.nanquantile(ef.ones(2), 0.5, method="hazen"), errors.TensorValueError, "hazen"),
        (lambda: ef.quantile(ef.ones(2), 0.5, method="hazen"), errors.TensorValueError, "hazen"),
        (lambda: ef.linalg.block_diag(), errors.ShapeError, "no blocks"),
        (lambda: ef.linalg.block_diag(ef.ones((1, 1, 1))), errors.ShapeError, "is not a matrix"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, check=says(text)):
        call()
