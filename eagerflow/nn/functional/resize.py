"""Resampling of images and sequences to other sizes, and pixel shuffles."""

from __future__ import annotations

import math
from typing import Any, Final

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import TensorLike, one_of, require

__all__ = ["interpolate", "pixel_shuffle", "pixel_unshuffle"]

#: by mode, the mode of `ef.resize` and the number of axes that it is for
_MODES: Final[dict[str, tuple[str, int | None]]] = {
    "nearest": ("nearest", None),
    "nearest-exact": ("nearest-exact", None),
    "linear": ("linear", 1),
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "area": ("area", None),
}
_MODE: Final = one_of(*_MODES)


def _checked_mode(x: ef.Tensor, mode: str, align_corners: bool | None) -> str:
    require("interpolate", _MODE, mode=mode)
    kind, axes = _MODES[mode]
    if x.ndim < 3 or (axes is not None and x.ndim != axes + 2):
        raise ShapeError(
            f"interpolate: mode {mode!r} is not for {x.ndim} axes",
            given=f"input={x.type}",
            expected=f"{'at least 3' if axes is None else axes + 2}: [n, channels, *sizes]",
            hint="linear is for one size, bilinear for two, trilinear for three",
        )
    if align_corners is not None and kind != "linear":
        raise TensorValueError(
            f"interpolate: mode {mode!r} has no corners to align",
            given=f"align_corners={align_corners}",
            hint="leave align_corners out",
        )
    return kind


def interpolate(
    input: TensorLike,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> ef.Tensor:
    """Resample images or sequences to other sizes.

    Args:
        input: floating, ``[n, channels, *sizes]``.
        size: the new sizes, a number or one per axis; exclusive with ``scale_factor``.
        scale_factor: factor of the sizes; results are rounded down. Coordinates follow the
            factor, not the rounded sizes, except that linear interpolation does not change an
            axis that keeps its size.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"`` (means, as in adaptive pooling), or
            linear interpolation: ``"linear"``, ``"bilinear"``, ``"trilinear"`` for one, two and
            three axes.
        align_corners: for linear interpolation: whether the first and the last element keep
            their values.

    Returns:
        ``[n, channels, *size]``. The values are those of PyTorch, with two exceptions. Where a
        position of the nearest modes falls exactly on an element, PyTorch's quotients in float32
        may fall short of it and take the element before. And for images, PyTorch's mode
        ``"nearest"`` ignores the factor along an axis that keeps its size or just doubles it.

    Raises:
        ShapeError: the mode is for another number of axes.
        TensorValueError: the mode is unknown, or not exactly one of ``size`` and
            ``scale_factor`` is given.

    >>> x = ef.tensor([[[[1.0, 3.0]]]])
    >>> ef.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    Tensor([[[[1. , 1.5, 2.5, 3. ],
              [1. , 1.5, 2.5, 3. ]]]], f32[1,1,2,4]@cpu:0)
    """
    tensor = ef.asarray(input)
    kind = _checked_mode(tensor, mode, align_corners)
    if (size is None) == (scale_factor is None):
        raise TensorValueError(
            "interpolate: either size or scale_factor must be given",
            given=f"size={size}, scale_factor={scale_factor}",
            expected="one of the two",
        )
    scale: Any = None
    if scale_factor is not None:
        factors = _factors(tensor, scale_factor)
        size = tuple(_scaled(n, f) for n, f in zip(tensor.shape[2:], factors, strict=True))
        axes = zip(tensor.shape[2:], size, factors, strict=True)
        scale = tuple(None if _by_sizes(n, new, f, kind) else f for n, new, f in axes)
    if kind == "area":
        return ef.adaptive_avg_pool(tensor, size)
    assert size is not None
    return ef.resize(tensor, size, mode=kind, align_corners=bool(align_corners), scale=scale)


def _factors(x: ef.Tensor, scale_factor: float | tuple[float, ...]) -> list[float]:
    """The factor of each axis."""
    axes = x.ndim - 2
    factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * axes
    if len(factors) != axes:
        raise TensorValueError(
            "interpolate: there is not one factor per axis",
            given=f"input={x.type}, scale_factor={scale_factor}",
            expected=f"one number, or {axes}",
        )
    return [float(f) for f in factors]


def _by_sizes(old: int, new: int, factor: float, kind: str) -> bool:
    """Whether coordinates follow the sizes although a factor is given; as in PyTorch.

    They do if the factor is whole, and in linear modes also along an axis that keeps its size.
    """
    if factor.is_integer():
        return True
    return kind == "linear" and type(new) is int and new == old  # a symbolic one is a fraction


def _scaled(size: int, factor: float) -> int:
    """The scaled size; a symbolic size stays symbolic for whole factors and divisors."""
    if factor.is_integer():
        return size * int(factor)
    if factor > 0 and (1 / factor).is_integer():
        return size // int(1 / factor)
    return math.floor(int(size) * factor)


def _picture(name: str, input: TensorLike, factor: int) -> ef.Tensor:
    tensor = ef.asarray(input)
    if isinstance(factor, int) and factor < 1:
        raise TensorValueError(
            f"{name}: the factor is not positive", given=f"factor={factor}", expected="at least 1"
        )
    if tensor.ndim < 3:
        raise ShapeError(
            f"{name}: the input is not a picture",
            given=f"input={tensor.type}",
            expected="[..., channels, height, width]",
        )
    return tensor


def pixel_shuffle(input: TensorLike, upscale_factor: int) -> ef.Tensor:
    """Rearrange groups of channels into blocks of pixels (Shi et al., 2016).

    Args:
        input: any dtype, ``[..., channels * upscale_factor**2, height, width]``.
        upscale_factor: width and height of a block, in pixels.

    Returns:
        ``[..., channels, height * upscale_factor, width * upscale_factor]``.

    Raises:
        ShapeError: the number of channels is not divisible by ``upscale_factor**2``.

    >>> ef.nn.functional.pixel_shuffle(ef.tensor([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), 2)
    Tensor([[[1., 2.],
             [3., 4.]]], f32[1,2,2]@cpu:0)
    """
    tensor = _picture("pixel_shuffle", input, upscale_factor)
    *lead, channels, height, width = tensor.shape
    r, groups = upscale_factor, channels // (upscale_factor * upscale_factor)
    parts = ef.reshape(tensor, (*lead, groups, r, r, height, width))
    moved = ef.moveaxis(parts, (-2, -3), (-4, -1))
    return ef.reshape(moved, (*lead, groups, height * r, width * r))


def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> ef.Tensor:
    """Rearrange blocks of pixels into groups of channels: the inverse of `pixel_shuffle`.

    Args:
        input: any dtype, ``[..., channels, height, width]``.
        downscale_factor: width and height of a block, in pixels.

    Returns:
        ``[..., channels * downscale_factor**2, height / downscale_factor,
        width / downscale_factor]``.

    Raises:
        ShapeError: height or width is not divisible by ``downscale_factor``.

    >>> ef.nn.functional.pixel_unshuffle(ef.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2).shape
    (4, 1, 1)
    """
    tensor = _picture("pixel_unshuffle", input, downscale_factor)
    *lead, channels, height, width = tensor.shape
    r = downscale_factor
    parts = ef.reshape(tensor, (*lead, channels, height // r, r, width // r, r))
    moved = ef.moveaxis(parts, (-3, -1), (-4, -3))
    return ef.reshape(moved, (*lead, channels * r * r, height // r, width // r))
