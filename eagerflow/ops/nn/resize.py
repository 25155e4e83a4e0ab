"""`resize`: resampling of images, and of arrays with any number of axes."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import folded
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import may_equal, same
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.nn.windows import check_axes, per_axis
from eagerflow.ops.rules.arguments import as_number, check_choice
from eagerflow.ops.rules.promotion import floating
from eagerflow.ops.rules.type_rules import INEXACT, check_kind
from eagerflow.types import Shape, TensorType

__all__ = ["resize"]

_MODES: Final = ("nearest", "nearest-exact", "linear")


def _resize_type(
    x: TensorType, *, places: Shape, size: Shape, back: bool, **attrs: Any
) -> TensorType:
    check_kind(x, INEXACT)
    if any(same(n, 0) for n in (*places, *size)):
        raise ShapeError("there is nothing to resize", expected="at least one element on each axis")
    if not all(map(may_equal, x.shape[2:], places if back else size)):
        raise ShapeError(f"the sizes {x.shape[2:]} do not belong to {places}")
    return x.like(shape=(*x.shape[:2], *(size if back else places)))


_resize: Op = define(
    "resize",
    infer=_resize_type,
    vjp=(lambda g, out, x, *, back, **attrs: bind(_resize, g, back=not back, **attrs),),
    saved="none",
    precision="accumulate",
    batch=folded,
)


def resize(
    x: TensorLike,
    size: int | tuple[int, ...],
    /,
    *,
    mode: str = "nearest",
    align_corners: bool = False,
    scale: float | tuple[float, ...] | None = None,
) -> Tensor:
    """Resample ``x`` to other sizes, over any number of axes.

    Elements are treated as small areas: element ``i`` of ``n`` covers ``i/n`` to ``(i+1)/n`` of
    its axis, in ``x`` and in the result.

    Args:
        x: floating or complex ``[n, channels, *sizes]``; integers count as float32.
        size: the new sizes, for all axes or one per axis.
        mode: ``"nearest"`` takes the element in which the new area begins, ``"nearest-exact"`` the
            element that contains its centre, and ``"linear"`` interpolates between the two
            elements whose centres surround its centre (bilinear for two axes).
        align_corners: for ``"linear"``: whether elements are points, so that the first and the
            last element keep their positions.
        scale: the factor from old to new coordinates, if it is not that of the sizes.

    Returns:
        ``[n, channels, *size]``.

    Raises:
        ShapeError: an axis has no elements.
        TensorValueError: the mode is unknown, or a factor is not positive.

    >>> ef.resize(ef.tensor([[[1.0, 3.0]]]), 4)
    Tensor([[[1., 1., 3., 3.]]], f32[1,1,4]@cpu:0)
    >>> ef.resize(ef.tensor([[[1.0, 3.0]]]), 4, mode="linear")
    Tensor([[[1. , 1.5, 2.5, 3. ]]], f32[1,1,4]@cpu:0)
    """
    tensor = floating(x)
    axes = check_axes("resize", tensor)
    places = per_axis("resize", "size", size, axes)
    check_choice("resize", mode, _MODES, "a mode")
    return bind(
        _resize,
        tensor,
        places=places,
        size=tensor.shape[2:],
        mode=mode,
        corners=bool(align_corners),
        scale=_factors(scale, axes),
        back=False,
    )


def _factors(scale: Any, axes: int) -> tuple[float | None, ...]:
    given = scale if isinstance(scale, (list, tuple)) else (scale,) * axes
    factors = tuple(None if s is None else float(as_number(s)) for s in given)
    if len(factors) != axes or any(s is not None and s <= 0 for s in factors):
        raise TensorValueError(
            "resize: the scale does not fit",
            given=f"scale={scale!r}",
            expected=f"a positive factor, or {axes} of them",
        )
    return factors
