"""The three ops of discrete Fourier transforms: for complex, real and Hermitian data.

They transform all points of their input; cutting and padding to a size happens before.
"""

from __future__ import annotations

from typing import Final

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import fourier
from eagerflow.core.op_records.op_facts import OpFacts
from eagerflow.core.tensor import Tensor
from eagerflow.dims import may_equal, same
from eagerflow.errors import ShapeError
from eagerflow.ops.creation.arrays import full
from eagerflow.ops.elementwise.signs_and_rounding import real
from eagerflow.ops.linalg.matrices import complex_dtype
from eagerflow.ops.rules.extents import with_size
from eagerflow.ops.rules.type_rules import COMPLEX, FLOATING, INEXACT, check_kind, real_dtype
from eagerflow.ops.shape.joining import concat
from eagerflow.ops.shape.reshape_and_transpose import reshape
from eagerflow.types import TensorType

#: norm of the adjoint: the opposite transform, scaled where this one is not
SWAPPED: Final[dict[str, str]] = {
    "backward": "forward",
    "ortho": "ortho",
    "forward": "backward",
}

_FACTS: Final[OpFacts] = {
    "batch": shifted("axis", "axes"),
    "saved": "none",
    "precision": "accumulate",
    "cost": fourier,
}


def _check_points(count: int) -> None:
    if type(count) is int and count < 1:
        raise ShapeError(f"cannot transform {count} points", expected="at least one")


def _fft_type(x: TensorType, *, axes: tuple[int, ...], norm: str, inverse: bool) -> TensorType:
    check_kind(x, INEXACT)
    for axis in axes:
        _check_points(x.shape[axis])
    return x.like(dtype=complex_dtype(x.dtype))


def _fft_vjp(
    g: Tensor, out: Tensor, x: Tensor, *, axes: tuple[int, ...], norm: str, inverse: bool
) -> Tensor:
    result = bind(FFT, g, axes=axes, norm=SWAPPED[norm], inverse=not inverse)
    return result if x.dtype.is_complex else real(result)


FFT: Final = define("fft", infer=_fft_type, vjp=(_fft_vjp,), **_FACTS)


def _rfft_type(x: TensorType, *, axis: int, norm: str) -> TensorType:
    check_kind(x, FLOATING)
    _check_points(x.shape[axis])
    shape = with_size(x.shape, axis, x.shape[axis] // 2 + 1)
    return x.like(shape=shape, dtype=complex_dtype(x.dtype))


def _weighted(x: Tensor, weight: float, n: int, axis: int) -> Tensor:
    """Half a spectrum with points that stand for two points of the whole times ``weight``."""
    dtype, device = real_dtype(x.dtype), x.device
    single = 1 - n % 2
    sizes = ((1, 1), (n // 2 - single, weight), (single, 1))
    weights = concat(
        [full((k,), w, dtype=dtype, device=device) for k, w in sizes if not same(k, 0)]
    )
    return x * reshape(weights, (n // 2 + 1,) + (1,) * (x.ndim - axis - 1))


def _rfft_vjp(g: Tensor, out: Tensor, x: Tensor, *, axis: int, norm: str) -> Tensor:
    n = x.shape[axis]
    return bind(IRFFT, _weighted(g, 0.5, n, axis), axis=axis, n=n, norm=SWAPPED[norm])


RFFT: Final = define("rfft", infer=_rfft_type, vjp=(_rfft_vjp,), **_FACTS)


def _irfft_type(x: TensorType, *, axis: int, n: int, norm: str) -> TensorType:
    check_kind(x, COMPLEX)
    _check_points(n)
    if not may_equal(x.shape[axis], n // 2 + 1):
        raise ShapeError(
            f"{x.shape[axis]} points are not half of a spectrum of {n}",
            expected=f"{n // 2 + 1} points",
        )
    return x.like(shape=with_size(x.shape, axis, n), dtype=real_dtype(x.dtype))


def _irfft_vjp(g: Tensor, out: Tensor, x: Tensor, *, axis: int, n: int, norm: str) -> Tensor:
    return _weighted(bind(RFFT, g, axis=axis, norm=SWAPPED[norm]), 2.0, n, axis)


IRFFT: Final = define("irfft", infer=_irfft_type, vjp=(_irfft_vjp,), **_FACTS)
