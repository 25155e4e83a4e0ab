"""Discrete Fourier transforms and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from eagerflow.core.convert import TensorLike, tensor_of
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import AxisError, DTypeError, ShapeError, TensorValueError
from eagerflow.hardware import Device
from eagerflow.ops.arguments import as_index, axes_of, axis_of
from eagerflow.ops.elementwise import divide
from eagerflow.ops.gradients import conjugate
from eagerflow.ops.joining import concat
from eagerflow.ops.matrices import complex_dtype
from eagerflow.ops.movement import roll
from eagerflow.ops.padding import pad
from eagerflow.ops.promotion import cast, floating
from eagerflow.ops.ranges import arange
from eagerflow.ops.rules import public
from eagerflow.ops.spectra import SWAPPED, transform, transform_hermitian, transform_real
from eagerflow.types import DType, as_dtype, default_dtype

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm = Literal["backward", "ortho", "forward"]

# --- arguments ------------------------------------------------------------------------------


def _check_norm(name: str, norm: object) -> None:
    if norm not in SWAPPED:
        raise TensorValueError(
            f"{name}: {norm!r} is not a way to scale",
            expected=", ".join(repr(k) for k in SWAPPED),
        )


def _resized(name: str, x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """``x`` cut, or padded with zeros at the end, to the sizes wanted along some axes."""
    wanted = dict(zip(axes, sizes, strict=True))
    if min(wanted.values(), default=1) < 1:
        raise ShapeError(
            f"{name}: cannot transform {min(wanted.values())} points",
            given=f"x={type_of(x)}",
            expected="at least one along each axis",
        )
    goal = [wanted.get(i, d) for i, d in enumerate(x.shape)]
    if any(d > k for d, k in zip(x.shape, goal, strict=True)):
        x = x[tuple(slice(k) for k in goal)]
    if any(d < k for d, k in zip(x.shape, goal, strict=True)):
        x = pad(x, tuple((0, k - d) for d, k in zip(x.shape, goal, strict=True)))
    return x


def _one(name: str, x: Tensor, n: int | None, axis: int) -> tuple[int, int]:
    """The axis counted from the front, and the number of points wanted along it."""
    place = axis_of(name, x, axis)
    return place, x.shape[place] if n is None else as_index(name, "n", n)


def _several(
    name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes counted from the front, and the number of points wanted along each, if given."""
    if axes is None and s is not None:
        places = axes_of(name, x, tuple(range(-len(s), 0)))
    else:
        places = axes_of(name, x, axes)
    if s is None:
        return places, [None] * len(places)
    if len(s) != len(places):
        raise ShapeError(
            f"{name}: {len(s)} sizes for {len(places)} axes", given=f"s={s}, axes={axes}"
        )
    sizes = [as_index(name, "s", k) for k in s]
    return places, [None if k == -1 else k for k in sizes]


def _real(name: str, x: TensorLike) -> Tensor:
    tensor = floating(x)
    if tensor.dtype.is_complex:
        raise DTypeError(
            f"{name}: x is complex", given=f"x={type_of(tensor)}", expected="a real dtype"
        )
    return tensor


def _complex(x: TensorLike) -> Tensor:
    tensor = floating(x)
    return cast(tensor, complex_dtype(tensor.dtype))


def _transform(
    name: str, x: TensorLike, n: int | None, axis: int, norm: str, inverse: bool
) -> Tensor:
    _check_norm(name, norm)
    tensor = floating(x)
    place, size = _one(name, tensor, n, axis)
    tensor = _resized(name, tensor, (place,), (size,))
    return transform(tensor, axes=(place,), norm=norm, inverse=inverse)


def _transform_n(
    name: str,
    x: TensorLike,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str,
    inverse: bool,
) -> Tensor:
    _check_norm(name, norm)
    tensor = floating(x)
    places, given = _several(name, tensor, s, axes)
    sizes = [tensor.shape[a] if k is None else k for a, k in zip(places, given, strict=True)]
    tensor = _resized(name, tensor, places, sizes)
    return transform(tensor, axes=places, norm=norm, inverse=inverse)


# --- complex data ---------------------------------------------------------------------------


@public
def fft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform along one axis.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        n: how many points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: ``"backward"`` scales by ``1/n`` in the inverse, ``"forward"`` in this direction,
            ``"ortho"`` by its root in both.

    Raises:
        ShapeError: no point to transform.

    >>> ef.fft.fft(ef.tensor([1.0, 2.0, 3.0, 4.0]))
    Tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], c64[4]@cpu:0)
    """
    return _transform("fft", x, n, axis, norm, inverse=False)


@public
def ifft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft`.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        n: how many points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        ShapeError: no point to transform.

    >>> ef.fft.ifft(ef.tensor([4.0, 0.0, 0.0, 0.0]))
    Tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], c64[4]@cpu:0)
    """
    return _transform("ifft", x, n, axis, norm, inverse=True)


@public
def fftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        s: how many points to transform along each axis, -1 for all there are.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        ShapeError: no point to transform, or sizes and axes that differ in number.

    >>> ef.fft.fftn(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2,2]@cpu:0)
    """
    return _transform_n("fftn", x, s, axes, norm, inverse=False)


@public
def ifftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `fftn`.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        s: how many points to transform along each axis, -1 for all there are.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        ShapeError: no point to transform, or sizes and axes that differ in number.

    >>> ef.fft.ifftn(ef.tensor([[4.0, 0.0], [0.0, 0.0]]))
    Tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], c64[2,2]@cpu:0)
    """
    return _transform_n("ifftn", x, s, axes, norm, inverse=True)


# --- real data ------------------------------------------------------------------------------


def _rfft(name: str, x: TensorLike, n: int | None, axis: int, norm: str) -> Tensor:
    tensor = _real(name, x)
    place, size = _one(name, tensor, n, axis)
    return transform_real(_resized(name, tensor, (place,), (size,)), axis=place, norm=norm)


def _half(name: str, x: Tensor, axis: int, n: int | None) -> int:
    """The number of real points that half a spectrum along ``axis`` is transformed to."""
    n = 2 * (x.shape[axis] - 1) if n is None else n
    if n < 1:
        raise ShapeError(
            f"{name}: cannot transform to {n} points",
            given=f"x={type_of(x)}",
            expected="at least two points of a spectrum, or n=1",
        )
    return n


def _irfft(name: str, x: TensorLike, n: int | None, axis: int, norm: str) -> Tensor:
    tensor = _complex(x)
    place = axis_of(name, tensor, axis)
    count = _half(name, tensor, place, None if n is None else as_index(name, "n", n))
    tensor = _resized(name, tensor, (place,), (count // 2 + 1,))
    return transform_hermitian(tensor, axis=place, n=count, norm=norm)


@public
def rfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The Fourier transform of real data along one axis: the first ``n // 2 + 1`` points.

    Args:
        x: floating; integers count as float32. The result is complex.
        n: how many points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        DTypeError: complex data.
        ShapeError: no point to transform.

    >>> ef.fft.rfft(ef.tensor([1.0, 2.0, 3.0, 4.0]))
    Tensor([10.+0.j, -2.+2.j, -2.+0.j], c64[3]@cpu:0)
    """
    _check_norm("rfft", norm)
    return _rfft("rfft", x, n, axis, norm)


@public
def irfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft`: real data from the first half of a spectrum.

    Args:
        x: complex; its half of a spectrum is cut or padded with zeros to ``n // 2 + 1`` points.
        n: how many points the result has; by default the even number that fits ``x``.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        ShapeError: no point to transform.

    >>> ef.fft.irfft(ef.tensor([10.0, -2.0 + 2.0j, -2.0]))
    Tensor([1., 2., 3., 4.], f32[4]@cpu:0)
    """
    _check_norm("irfft", norm)
    return _irfft("irfft", x, n, axis, norm)


@public
def rfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The Fourier transform of real data along several axes, of which the last is halved.

    Args:
        x: floating; integers count as float32. The result is complex.
        s: how many points to transform along each axis, -1 for all there are.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        DTypeError: complex data.
        ShapeError: no point to transform, or sizes and axes that differ in number.

    >>> ef.fft.rfftn(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2,2]@cpu:0)
    """
    _check_norm("rfftn", norm)
    tensor = _real("rfftn", x)
    *places, last, sizes = _some("rfftn", tensor, s, axes)
    tensor = _rfft("rfftn", tensor, sizes[-1], last, norm)
    return _transform_n("rfftn", tensor, sizes[:-1], places, norm, inverse=False)
