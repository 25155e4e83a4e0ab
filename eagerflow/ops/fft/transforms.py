"""Discrete Fourier transforms: the public functions of `eagerflow.fft`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import AxisError, DTypeError, ShapeError
from eagerflow.ops.fft.spectra import FFT, IRFFT, RFFT, SWAPPED
from eagerflow.ops.linalg.matrices import complex_dtype
from eagerflow.ops.rules.arguments import as_index, axes_of, axis_of, check_choice
from eagerflow.ops.rules.gradients import conjugate
from eagerflow.ops.rules.promotion import cast, floating
from eagerflow.ops.rules.sizes import surely_at_most
from eagerflow.ops.shape.padding import pad

Norm = Literal["backward", "ortho", "forward"]
Ints = Sequence[int] | None

# --- arguments ------------------------------------------------------------------------------


def _check_norm(name: str, norm: object) -> None:
    check_choice(name, norm, SWAPPED, "a way to scale")


def _resized(name: str, x: Tensor, axes: Sequence[int], sizes: Sequence[int | None]) -> Tensor:
    """``x`` cut, or padded with zeros at the end, to given sizes along some axes."""
    goal = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        if size is not None:
            goal[axis] = size
        if type(goal[axis]) is int and goal[axis] < 1:
            raise ShapeError(
                f"{name}: cannot transform {goal[axis]} points",
                given=f"x={type_of(x)}, axis={axis}",
                expected="at least one",
            )
    kept = tuple(map(surely_at_most, x.shape, goal))
    if not all(kept):
        x = x[tuple(slice(None if fits else k) for fits, k in zip(kept, goal, strict=True))]
    if not all(map(surely_at_most, goal, x.shape)):
        x = pad(x, tuple((0, k - d) for d, k in zip(x.shape, goal, strict=True)))
    return x


def _several(
    name: str, x: Tensor, s: Ints, axes: Ints, *, some: bool = False
) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes counted from the front, and the number of points along each, if given."""
    if axes is None and s is not None:
        axes = tuple(range(-len(s), 0))
    numbers = axes_of(name, x, axes)
    if some and not numbers:
        raise AxisError(f"{name}: there is no axis to transform", given=f"x={type_of(x)}")
    if s is None:
        return numbers, [None] * len(numbers)
    if len(s) != len(numbers):
        raise ShapeError(
            f"{name}: {len(s)} sizes for {len(numbers)} axes", given=f"s={s}, axes={axes}"
        )
    sizes = [as_index(name, "s", k) for k in s]
    return numbers, [None if type(k) is int and k == -1 else k for k in sizes]


def _points(name: str, n: int | None) -> int | None:
    return None if n is None else as_index(name, "n", n)


def _transform(
    name: str, x: Tensor, axes: Sequence[int], sizes: Sequence[int | None], norm: str, inverse: bool
) -> Tensor:
    _check_norm(name, norm)
    x = _resized(name, x, axes, sizes)
    return bind(FFT, x, axes=tuple(axes), norm=norm, inverse=inverse)


def _real_transform(name: str, x: TensorLike, axis: int, size: int | None, norm: str) -> Tensor:
    _check_norm(name, norm)
    tensor = floating(x)
    if tensor.dtype.is_complex:
        raise DTypeError(
            f"{name}: x is complex", given=f"x={type_of(tensor)}", expected="a real dtype"
        )
    axis = axis_of(name, tensor, axis)
    return bind(RFFT, _resized(name, tensor, (axis,), (size,)), axis=axis, norm=norm)


def _hermitian_transform(
    name: str, x: TensorLike, axis: int, size: int | None, norm: str
) -> Tensor:
    _check_norm(name, norm)
    tensor = floating(x)
    tensor = cast(tensor, complex_dtype(tensor.dtype))
    axis = axis_of(name, tensor, axis)
    count = 2 * (tensor.shape[axis] - 1) if size is None else size
    if type(count) is int and count < 1:
        raise ShapeError(
            f"{name}: cannot transform to {count} points",
            given=f"x={type_of(tensor)}, n={size}",
            expected="at least one",
            hint="half a spectrum has n // 2 + 1 points; by default n is taken to be even",
        )
    tensor = _resized(name, tensor, (axis,), (count // 2 + 1,))
    return bind(IRFFT, tensor, axis=axis, n=count, norm=norm)


# --- complex data ---------------------------------------------------------------------------


def fft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform along one axis.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        n: number of points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: ``"backward"`` scales the inverse by ``1/n``, ``"forward"`` this direction, and
            ``"ortho"`` both by ``1/sqrt(n)``.

    Raises:
        ShapeError: there is no point to transform.

    >>> ef.fft.fft(ef.tensor([1.0, 2.0, 3.0, 4.0]))
    Tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], c64[4]@cpu:0)
    """
    tensor = floating(x)
    one = (axis_of("fft", tensor, axis),), [_points("fft", n)]
    return _transform("fft", tensor, *one, norm, inverse=False)


def ifft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `fft`.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        n: number of points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform.

    >>> ef.fft.ifft(ef.tensor([4.0, 0.0, 0.0, 0.0]))
    Tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], c64[4]@cpu:0)
    """
    tensor = floating(x)
    one = (axis_of("ifft", tensor, axis),), [_points("ifft", n)]
    return _transform("ifft", tensor, *one, norm, inverse=True)


def fftn(x: TensorLike, /, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform along several axes.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        s: number of points to transform along each axis, -1 for all points.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform, or sizes and axes differ in number.

    >>> ef.fft.fftn(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2,2]@cpu:0)
    """
    tensor = floating(x)
    return _transform("fftn", tensor, *_several("fftn", tensor, s, axes), norm, inverse=False)


def ifftn(x: TensorLike, /, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """The inverse of `fftn`.

    Args:
        x: floating or complex; integers count as float32. The result is complex.
        s: number of points to transform along each axis, -1 for all points.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform, or sizes and axes differ in number.

    >>> ef.fft.ifftn(ef.tensor([[4.0, 0.0], [0.0, 0.0]]))
    Tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], c64[2,2]@cpu:0)
    """
    tensor = floating(x)
    return _transform("ifftn", tensor, *_several("ifftn", tensor, s, axes), norm, inverse=True)


# --- real data ------------------------------------------------------------------------------


def rfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The Fourier transform of real data along one axis: the first ``n // 2 + 1`` points.

    Args:
        x: floating; integers count as float32. The result is complex.
        n: number of points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        DTypeError: ``x`` is complex.
        ShapeError: there is no point to transform.

    >>> ef.fft.rfft(ef.tensor([1.0, 2.0, 3.0, 4.0]))
    Tensor([10.+0.j, -2.+2.j, -2.+0.j], c64[3]@cpu:0)
    """
    return _real_transform("rfft", x, axis, _points("rfft", n), norm)


def irfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft`: real data from the first half of a spectrum.

    Args:
        x: complex, half of a spectrum; cut or padded with zeros to ``n // 2 + 1`` points.
        n: number of points of the result; by default the even number that fits ``x``.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform.

    >>> ef.fft.irfft(ef.tensor([10.0, -2.0 + 2.0j, -2.0]))
    Tensor([1., 2., 3., 4.], f32[4]@cpu:0)
    """
    return _hermitian_transform("irfft", x, axis, _points("irfft", n), norm)


def rfftn(x: TensorLike, /, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """The Fourier transform of real data along several axes, with the last axis halved.

    Args:
        x: floating; integers count as float32. The result is complex.
        s: number of points to transform along each axis, -1 for all points.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        DTypeError: ``x`` is complex.
        ShapeError: there is no point to transform, or sizes and axes differ in number.

    >>> ef.fft.rfftn(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    axes, sizes = _several("rfftn", tensor, s, axes, some=True)
    tensor = _real_transform("rfftn", tensor, axes[-1], sizes[-1], norm)
    return _transform("rfftn", tensor, axes[:-1], sizes[:-1], norm, inverse=False)


def irfftn(x: TensorLike, /, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfftn`: real data from a spectrum whose last axis is halved.

    Args:
        x: complex.
        s: number of points of the result along each axis, -1 for all points; along the last axis,
            by default the even number that fits ``x``.
        axes: the axes; by default all, or with ``s`` the last ones.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform, or sizes and axes differ in number.

    >>> ef.fft.irfftn(ef.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    Tensor([[1., 2.],
            [3., 4.]], f32[2,2]@cpu:0)
    """
    tensor = floating(x)
    axes, sizes = _several("irfftn", tensor, s, axes, some=True)
    tensor = _transform("irfftn", tensor, axes[:-1], sizes[:-1], norm, inverse=True)
    return _hermitian_transform("irfftn", tensor, axes[-1], sizes[-1], norm)


def hfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The real Fourier transform of Hermitian data, of which the first half is given.

    Args:
        x: complex; cut or padded with zeros to ``n // 2 + 1`` points.
        n: number of points of the result; by default the even number that fits ``x``.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        ShapeError: there is no point to transform.

    >>> ef.fft.hfft(ef.tensor([1.0, 1j, 1.0]))
    Tensor([ 2.,  2.,  2., -2.], f32[4]@cpu:0)
    """
    _check_norm("hfft", norm)
    conjugated = conjugate(floating(x))
    return _hermitian_transform("hfft", conjugated, axis, _points("hfft", n), SWAPPED[norm])


def ihfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: its first ``n // 2 + 1`` points.

    Args:
        x: floating; integers count as float32. The result is complex.
        n: number of points to transform: ``x`` is cut or padded with zeros to it.
        axis: the axis.
        norm: as for `fft`.

    Raises:
        DTypeError: ``x`` is complex.
        ShapeError: there is no point to transform.

    >>> ef.fft.hfft(ef.fft.ihfft(ef.tensor([1.0, 2.0, 3.0, 4.0])))
    Tensor([1., 2., 3., 4.], f32[4]@cpu:0)
    """
    _check_norm("ihfft", norm)
    return conjugate(_real_transform("ihfft", x, axis, _points("ihfft", n), SWAPPED[norm]))


def fft2(
    x: TensorLike, /, s: Ints = None, axes: Ints = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The discrete Fourier transform along two axes, by default the last two: `fftn`.

    Args:
        x: as for `fftn`.
        s: as for `fftn`.
        axes: two axes.
        norm: as for `fftn`.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.fft.fft2(ef.ones((2, 2))).real
    Tensor([[4., 0.],
            [0., 0.]], f32[2,2]@cpu:0)
    """
    return fftn(x, s, axes, norm)


def ifft2(
    x: TensorLike, /, s: Ints = None, axes: Ints = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft2`: `ifftn` along two axes.

    Args:
        x: as for `ifftn`.
        s: as for `ifftn`.
        axes: two axes.
        norm: as for `ifftn`.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.fft.ifft2(ef.fft.fft2(ef.ones((2, 2)))).real
    Tensor([[1., 1.],
            [1., 1.]], f32[2,2]@cpu:0)
    """
    return ifftn(x, s, axes, norm)


def rfft2(
    x: TensorLike, /, s: Ints = None, axes: Ints = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The half of `fft2` of real input that determines the rest: `rfftn` along two axes.

    Args:
        x: as for `rfftn`.
        s: as for `rfftn`.
        axes: two axes.
        norm: as for `rfftn`.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.fft.rfft2(ef.ones((4, 4))).shape
    (4, 3)
    """
    return rfftn(x, s, axes, norm)


def irfft2(
    x: TensorLike, /, s: Ints = None, axes: Ints = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft2`: `irfftn` along two axes.

    Args:
        x: as for `irfftn`.
        s: as for `irfftn`.
        axes: two axes.
        norm: as for `irfftn`.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.fft.irfft2(ef.fft.rfft2(ef.ones((4, 4)))).shape
    (4, 4)
    """
    return irfftn(x, s, axes, norm)
