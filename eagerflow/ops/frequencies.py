"""The frequencies that the points of a spectrum stand for, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow.core.convert import TensorLike, tensor_of
from eagerflow.core.tensor import Tensor
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device
from eagerflow.ops.arguments import as_index, axes_of
from eagerflow.ops.elementwise import divide
from eagerflow.ops.joining import concat
from eagerflow.ops.movement import roll
from eagerflow.ops.ranges import arange
from eagerflow.ops.rules import public
from eagerflow.types import as_dtype, default_dtype

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _count(name: str, n: Any) -> int:
    count = as_index(name, "n", n)
    if count < 1:
        raise ShapeError(f"{name}: there are no {count} points", expected="at least one")
    return count


def _frequencies(
    name: str, parts: Sequence[tuple[int, int]], length: float, dtype: Any, device: Any
) -> Tensor:
    chosen = default_dtype("real floating") if dtype is None else as_dtype(dtype)
    if not chosen.is_floating:
        raise DTypeError(f"{name}: {chosen.name} is not a real floating dtype")
    numbers = [arange(start, stop, dtype=chosen, device=device) for start, stop in parts]
    return divide(concat(numbers), length)


@public
def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: Any = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies that the points of `fft` stand for.

    Args:
        n: how many points are transformed.
        d: the distance between samples.
        dtype: a real floating dtype, float32 by default.
        device: of the result.

    Raises:
        ShapeError: less than one point.

    >>> ef.fft.fftfreq(4)
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], f32[4]@cpu:0)
    """
    count = _count("fftfreq", n)
    parts = ((0, (count + 1) // 2), (-(count // 2), 0))
    return _frequencies("fftfreq", parts, count * d, dtype, device)


@public
def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: Any = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies that the points of `rfft` stand for.

    Args:
        n: how many points are transformed.
        d: the distance between samples.
        dtype: a real floating dtype, float32 by default.
        device: of the result.

    Raises:
        ShapeError: less than one point.

    >>> ef.fft.rfftfreq(4)
    Tensor([0.  , 0.25, 0.5 ], f32[3]@cpu:0)
    """
    count = _count("rfftfreq", n)
    return _frequencies("rfftfreq", ((0, count // 2 + 1),), count * d, dtype, device)


@public
def fftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 moved to the middle.

    Args:
        x: floating or complex; any other dtype as well.
        axes: along which axes; all by default.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.fft.fftshift(ef.fft.fftfreq(4))
    Tensor([-0.5 , -0.25,  0.  ,  0.25], f32[4]@cpu:0)
    """
    tensor = tensor_of(x)
    places = axes_of("fftshift", tensor, axes)
    return roll(tensor, tuple(tensor.shape[a] // 2 for a in places), axis=places)


@public
def ifftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`: the frequency 0 moved from the middle to the front.

    Args:
        x: floating or complex; any other dtype as well.
        axes: along which axes; all by default.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.fft.ifftshift(ef.tensor([-0.5, -0.25, 0.0, 0.25]))
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], f32[4]@cpu:0)
    """
    tensor = tensor_of(x)
    places = axes_of("ifftshift", tensor, axes)
    return roll(tensor, tuple(-(tensor.shape[a] // 2) for a in places), axis=places)
