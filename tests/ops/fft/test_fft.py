"""Fourier transforms beyond the table: types, round trips, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.infer import infer
from eagerflow.core.op import get_op
from eagerflow.errors import AxisError, DTypeError, EagerflowError, ShapeError, TensorValueError
from eagerflow.types import TensorType
from tests.messages import says

fft = ef.fft


def test_namespace_has_its_names_and_no_others() -> None:
    assert sorted(dir(fft)) == sorted(fft.__all__)


@pytest.mark.parametrize(
    ("dtype", "complex_dtype"),
    [
        ("int8", "complex64"),
        ("float16", "complex64"),
        ("bfloat16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
    ],
)
def test_dtypes(dtype: str, complex_dtype: str) -> None:
    x = ef.ones(4, dtype=dtype)
    for function in (fft.fft, fft.ifft, fft.rfft, fft.ihfft, fft.fftn):
        assert function(x).dtype.name == complex_dtype
    real = "float64" if dtype == "float64" else "float32"
    assert fft.irfft(x).dtype.name == real
    assert fft.hfft(x.astype(complex_dtype)).dtype.name == real


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_round_trips(n: int, norm: Any) -> None:
    x = ef.tensor(np.random.default_rng(n).standard_normal((2, n)))
    np.testing.assert_allclose(fft.irfft(fft.rfft(x, norm=norm), n=n, norm=norm).numpy(), x.numpy())
    np.testing.assert_allclose(fft.hfft(fft.ihfft(x, norm=norm), n=n, norm=norm).numpy(), x.numpy())
    back = fft.ifftn(fft.fftn(x, norm=norm), norm=norm)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)
    back = fft.irfftn(fft.rfftn(x, norm=norm), s=x.shape, axes=(0, 1), norm=norm)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_array_equal(fft.ifftshift(fft.fftshift(x)).numpy(), x.numpy())


def test_last_sizes_without_axes_are_of_the_last_axes() -> None:
    x = ef.ones((2, 3, 4))
    assert fft.fftn(x, s=(5, 6)).shape == (2, 5, 6)
    assert fft.irfftn(x, s=(-1, 6)).shape == (2, 3, 6)


def test_frequencies_take_dtype_and_device() -> None:
    got = fft.fftfreq(3, d=0.5, dtype=ef.float64, device="null:0")
    assert str(got.type) == "f64[3]@null:0"
    assert fft.rfftfreq(4).dtype is ef.float32


_X = ef.ones(4)
REFUSALS: list[tuple[Callable[[], Any], type[EagerflowError], str]] = [
    (lambda: fft.fft(ef.ones(0)), ShapeError, "fft: cannot transform 0 points"),
    (lambda: fft.ifft(_X, n=0), ShapeError, "ifft: cannot transform 0 points"),
    (lambda: fft.fft(_X, axis=1), AxisError, "fft: axis 1 is out of range"),
    (lambda: fft.fft(_X, norm="other"), TensorValueError, "fft: 'other' is not a way to scale"),
    (lambda: fft.fft(_X, n=2.5), DTypeError, "fft: n must be an integer"),
    (lambda: fft.fft(ef.tensor(1.0)), AxisError, "fft: axis -1 is out of range"),
    (lambda: fft.rfft(_X + 1j), DTypeError, "rfft: x is complex"),
    (lambda: fft.ihfft(_X + 1j), DTypeError, "ihfft: x is complex"),
    (lambda: fft.irfft(ef.ones(1)), ShapeError, "irfft: cannot transform to 0 points"),
    (lambda: fft.hfft(_X, n=-1), ShapeError, "hfft: cannot transform to -1 points"),
    (lambda: fft.fftn(_X, s=(1, 2), axes=(0,)), ShapeError, "fftn: 2 sizes for 1 axes"),
    (lambda: fft.fftn(ef.ones((2, 2)), axes=(0, 0)), AxisError, "names an axis twice"),
    (lambda: fft.rfftn(ef.tensor(1.0)), AxisError, "rfftn: there is no axis"),
    (lambda: fft.irfftn(_X, axes=()), AxisError, "irfftn: there is no axis"),
    (lambda: fft.fftfreq(0), ShapeError, "fftfreq: there are no 0 points"),
    (lambda: fft.rfftfreq(2, dtype=ef.int32), DTypeError, "int32 is not a real floating dtype"),
    (lambda: fft.fftshift(_X, axes=2), AxisError, "fftshift: axis 2"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS)
def test_refusals(call: Callable[[], Any], error: type[EagerflowError], text: str) -> None:
    with pytest.raises(error, check=says(text)):
        call()


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "text"),
    [
        ("fft", (0,), {"axes": (0,), "inverse": False}, "fft: cannot transform 0 points"),
        ("rfft", (0,), {"axis": 0}, "rfft: cannot transform 0 points"),
        ("irfft", (4,), {"axis": 0, "n": 4}, "irfft: 4 points are not half of a spectrum of 4"),
    ],
)
def test_rules_refuse_what_public_functions_never_bind(
    name: str, shape: tuple[int, ...], attrs: dict[str, Any], text: str
) -> None:
    dtype = ef.float32 if name == "rfft" else ef.complex64
    with pytest.raises(ShapeError, match=text):
        infer(get_op(name), (TensorType(dtype, shape),), {**attrs, "norm": "ortho"})
