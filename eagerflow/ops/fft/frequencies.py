"""The frequencies of the points of a spectrum, and shifts of their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import bind, define
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device, as_device
from eagerflow.ops.rules.arguments import DeviceLike, as_index, axes_of
from eagerflow.ops.shape.flip_roll_repeat import roll
from eagerflow.types import DType, DTypeLike, TensorType, default_dtype, number_dtype


def _numbers_type(*, n: int, half: bool, dtype: DType, device: Device) -> TensorType:
    if type(n) is int and n < 1:
        raise ShapeError(f"there are no {n} points", expected="at least one")
    return TensorType(dtype, (n // 2 + 1 if half else n,))


_numbers = define(
    "frequency_numbers", infer=_numbers_type, nondifferentiable=True, precision="exact"
)


def _frequencies(name: str, n: Any, half: bool, d: float, dtype: DTypeLike, device: Any) -> Tensor:
    count = as_index(name, "n", n)
    if type(count) is int and count < 1:
        raise ShapeError(f"{name}: there are no {count} points", expected="at least one")
    chosen = default_dtype("real floating") if dtype is None else number_dtype(dtype)
    if not chosen.is_floating:
        raise DTypeError(f"{name}: {chosen.name} is not a real floating dtype")
    numbers = bind(_numbers, n=count, half=half, dtype=chosen, device=as_device(device))
    return numbers / (count * d)


@device_wins
def fftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None
) -> Tensor:
    """The frequencies of the points of `fft`.

    Args:
        n: number of points transformed.
        d: the distance between samples.
        dtype: a real floating dtype, float32 by default.
        device: device of the result; by default the current device.

    Raises:
        ShapeError: ``n`` is less than 1.

    >>> ef.fft.fftfreq(4)
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], f32[4]@cpu:0)
    """
    return _frequencies("fftfreq", n, False, d, dtype, device)


@device_wins
def rfftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None
) -> Tensor:
    """The frequencies of the points of `rfft`.

    Args:
        n: number of points transformed.
        d: the distance between samples.
        dtype: a real floating dtype, float32 by default.
        device: device of the result; by default the current device.

    Raises:
        ShapeError: ``n`` is less than 1.

    >>> ef.fft.rfftfreq(4)
    Tensor([0.  , 0.25, 0.5 ], f32[3]@cpu:0)
    """
    return _frequencies("rfftfreq", n, True, d, dtype, device)


def fftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Move the frequency 0 to the middle of each axis.

    Args:
        x: any dtype.
        axes: the axis or axes; all by default.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.fft.fftshift(ef.fft.fftfreq(4))
    Tensor([-0.5 , -0.25,  0.  ,  0.25], f32[4]@cpu:0)
    """
    tensor = tensor_of(x)
    axes = axes_of("fftshift", tensor, axes)
    return roll(tensor, tuple(tensor.shape[a] // 2 for a in axes), axis=axes)


def ifftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`: move the frequency 0 from the middle to the front.

    Args:
        x: any dtype.
        axes: the axis or axes; all by default.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.fft.ifftshift(ef.tensor([-0.5, -0.25, 0.0, 0.25]))
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], f32[4]@cpu:0)
    """
    tensor = tensor_of(x)
    axes = axes_of("ifftshift", tensor, axes)
    return roll(tensor, tuple(-(tensor.shape[a] // 2) for a in axes), axis=axes)
