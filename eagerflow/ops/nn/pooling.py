"""Pooling: reductions over windows that slide over the axes after batch and channels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import folded
from eagerflow.core.op_records.cost_formulas import (
    Cost,
    Types,
    bytes_of,
    per_input,
    picking,
    size_of,
)
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import may_equal, same
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.nn.windows import check_axes, per_axis, positions
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.promotion import floating
from eagerflow.ops.rules.sizes import surely_less
from eagerflow.ops.rules.type_rules import INEXACT, REAL, check_kind
from eagerflow.types import INT64, Shape, TensorType

__all__ = ["adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool"]

Sizes = int | tuple[int, ...]


def _windows(
    name: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
) -> dict[str, Any]:
    """The attributes of windows, from users' arguments."""
    axes = check_axes(name, x)
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    every = per_axis(name, "dilation", dilation, axes)
    around = per_axis(name, "padding", padding, axes, 0)
    for k, d, p in zip(kernel, every, around, strict=True):
        if surely_less(d * (k - 1) + 1, 2 * p):
            raise TensorValueError(
                f"{name}: some windows would see padding alone",
                given=f"kernel_size={kernel}, padding={around}, dilation={every}",
                expected="a padding of at most half the span of a window, dilation included",
            )
    steps = kernel if stride is None else per_axis(name, "stride", stride, axes)
    return {"kernel": kernel, "stride": steps, "padding": around, "dilation": every}


def _placed(size: Shape, *, kernel: Shape, padding: Shape, **sliding: Any) -> Shape:
    return positions(size, kernel, padding=tuple((p, p) for p in padding), **sliding)


def _cost(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The cost of pooling: one operation per element of each window."""
    window = prod([size for size in attrs["kernel"] if type(size) is int])
    positions = min(size_of(inputs[0]), size_of(outputs[0]))
    return Cost(float(window * positions), bytes_of(inputs) + bytes_of(outputs))


def _check_shape(sizes: Shape, expected: Shape, what: str) -> None:
    if len(sizes) != len(expected) or not all(map(may_equal, sizes, expected)):
        raise ShapeError(f"the sizes of {what} do not fit ({sizes})", expected=f"{expected}")


# --- maxima ---------------------------------------------------------------------------------
# The gradient goes to the first of the largest elements. Two ops find its position in its plane,
# and `plane_pick` gathers elements from there, or scatters them back; it is linear in its operand.


def _max_pool_type(x: TensorType, **attrs: Any) -> TensorType:
    check_kind(x, REAL)
    counts = _placed(x.shape[2:], **attrs)
    for n, m, k, s, p, d in zip(
        x.shape[2:], counts, *(attrs[w] for w in ("kernel", "stride", "padding", "dilation")),
        strict=True,
    ):  # fmt: skip
        known = all(type(size) is int for size in (n, m, k, s, p, d))
        if known and d > 1 and not all(map(partial(_sees, n, k, s, p, d), range(m))):
            raise ShapeError(
                "some windows see padding alone, in the gaps between their elements",
                expected="less padding, or less dilation",
            )
    return x.like(shape=(*x.shape[:2], *counts))


def _sees(n: int, k: int, s: int, p: int, d: int, position: int) -> bool:
    """Whether the window at a position contains any of the ``n`` elements of an axis."""
    return any(0 <= position * s - p + tap * d < n for tap in range(k))


def _indices_type(x: TensorType, out: TensorType, **attrs: Any) -> TensorType:
    check_kind(x, REAL)
    _check_shape(out.shape[2:], _placed(x.shape[2:], **attrs), "the maxima")
    return out.like(dtype=INT64)


def _pick_type(x: TensorType, indices: TensorType, *, size: Shape, back: bool) -> TensorType:
    check_kind(x, REAL)
    _check_shape(x.shape[2:], indices.shape[2:] if back else size, "x")
    return x.like(shape=(*indices.shape[:2], *(size if back else indices.shape[2:])))


_plane_pick: Op = define(
    "plane_pick",
    infer=_pick_type,
    vjp=(lambda g, out, x, indices, *, size, back: _picked(g, indices, size, not back), None),
    saved="indices",
    precision="accumulate",
    cost=picking,
    batch=folded,
)

_max_pool_indices: Op = define(
    "max_pool_indices", cost=_cost, infer=_indices_type, vjp=(None, None), batch=folded
)


def _picked(x: Tensor, indices: Tensor, size: Shape, back: bool) -> Tensor:
    return bind(_plane_pick, x, indices, size=size, back=back)


def _indices(x: Tensor, out: Tensor, attrs: dict[str, Any]) -> Tensor:
    return bind(_max_pool_indices, x, out, **attrs)


_max_pool: Op = define(
    "max_pool",
    cost=_cost,
    infer=_max_pool_type,
    vjp=(lambda g, out, x, **attrs: _picked(g, _indices(x, out, attrs), x.shape[2:], back=True),),
    jvp=lambda t, out, x, **attrs: _picked(t[0], _indices(x, out, attrs), x.shape[2:], back=False),
    errors_as="max_pool",
    batch=folded,
)


def max_pool(
    x: TensorLike,
    kernel_size: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum pooling over any number of axes: the largest element of each window.

    Args:
        x: real ``[n, channels, *sizes]``. The result is NaN for a window with NaN. The gradient
            goes to the first of several largest elements.
        kernel_size: the sizes of the window, for all axes or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of positions that windows reach beyond both ends of each axis, at most half
            the window, dilation included.
        dilation: distance between elements of the window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, *positions]``; with ``return_indices`` also int64 of that shape: the
        positions of the elements in their plane, in row-major order.

    Raises:
        ShapeError: the window is larger than the padded ``x``.
        TensorValueError: a setting is not valid.

    >>> ef.max_pool(ef.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2)
    Tensor([[[5., 3.]]], f32[1,1,2]@cpu:0)
    >>> ef.max_pool(ef.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2, return_indices=True)[1]
    Tensor([[[1, 3]]], i64[1,1,2]@cpu:0)
    """
    tensor = tensor_of(x)
    attrs = _windows("max_pool", tensor, kernel_size, stride, padding, dilation)
    attrs["ceil"] = bool(ceil_mode)
    out = bind(_max_pool, tensor, **attrs)
    if not return_indices:
        return out
    indices = _indices(tensor, out, attrs)
    return _picked(tensor, indices, tensor.shape[2:], back=False), indices


# --- means ----------------------------------------------------------------------------------


def _avg_pool_type(
    x: TensorType, *, size: Shape, back: bool, divisor: int | None, inside: bool, **sliding: Any
) -> TensorType:
    check_kind(x, INEXACT)
    counts = _placed(size, dilation=(1,) * len(size), **sliding)
    _check_shape(x.shape[2:], counts if back else size, "x")
    return x.like(shape=(*x.shape[:2], *(size if back else counts)))


_avg_pool: Op = define(
    "avg_pool",
    cost=_cost,
    infer=_avg_pool_type,
    vjp=(lambda g, out, x, *, back, **attrs: bind(_avg_pool, g, back=not back, **attrs),),
    saved="none",
    precision="accumulate",
    errors_as="avg_pool",
    batch=folded,
)


def avg_pool(
    x: TensorLike,
    kernel_size: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Average pooling over any number of axes: the mean of each window.

    Args:
        x: floating or complex ``[n, channels, *sizes]``; integers count as float32.
        kernel_size: the sizes of the window, for all axes or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of zeros at both ends of each axis, at most half a window.
        ceil_mode: whether windows that start before the end may reach further beyond it; positions
            beyond the padding do not count.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums, in place of the number of elements.

    Returns:
        ``[n, channels, *positions]``.

    Raises:
        ShapeError: the window is larger than the padded ``x``.
        TensorValueError: a setting is not valid.

    >>> ef.avg_pool(ef.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2)
    Tensor([[[3. , 2.5]]], f32[1,1,2]@cpu:0)
    """
    tensor = floating(x)
    attrs = _windows("avg_pool", tensor, kernel_size, stride, padding)
    divisor = None
    if divisor_override is not None:
        divisor = as_index("avg_pool", "divisor_override", divisor_override)
        if same(divisor, 0):
            raise TensorValueError("avg_pool: the divisor is zero", given="divisor_override=0",
                                   expected="another integer, or None")  # fmt: skip
    del attrs["dilation"]
    return bind(_avg_pool, tensor, **attrs, ceil=bool(ceil_mode), divisor=divisor,
                          inside=not count_include_pad, size=tensor.shape[2:],
                          back=False)  # fmt: skip


# --- adaptive pooling -------------------------------------------------------------------------


def _check_shares(size: Shape, counts: Shape) -> None:
    if any(same(n, 0) for n in (*size, *counts)):
        raise ShapeError(
            "there are no elements to distribute", expected="at least one element and position"
        )


def _adaptive_avg_type(x: TensorType, *, places: Shape, size: Shape, back: bool) -> TensorType:
    check_kind(x, INEXACT)
    _check_shares(size, places)
    _check_shape(x.shape[2:], places if back else size, "x")
    return x.like(shape=(*x.shape[:2], *(size if back else places)))


_adaptive_avg_pool: Op = define(
    "adaptive_avg_pool",
    cost=per_input(4),
    infer=_adaptive_avg_type,
    vjp=(lambda g, out, x, *, back, **attrs: bind(_adaptive_avg_pool, g, back=not back, **attrs),),
    saved="none",
    precision="accumulate",
    batch=folded,
)


def _adaptive_max_type(x: TensorType, *, places: Shape) -> TensorType:
    check_kind(x, REAL)
    _check_shares(x.shape[2:], places)
    return x.like(shape=(*x.shape[:2], *places), dtype=INT64)


_adaptive_max_indices: Op = define(
    "adaptive_max_indices", cost=per_input(4), infer=_adaptive_max_type, vjp=(None,), batch=folded
)


def _wanted(name: str, x: Tensor, output_size: Any) -> Shape:
    """The sizes of the result; None keeps a size of ``x``."""
    axes = check_axes(name, x)
    sizes = x.shape[2:]
    given = output_size if isinstance(output_size, (list, tuple)) else (output_size,) * axes
    if len(given) != axes:
        raise TensorValueError(
            f"{name}: output_size does not fit",
            given=f"x={type_of(x)}, output_size={output_size!r}",
            expected=f"an integer, or {axes} of them, None to keep a size",
        )
    filled = tuple(n if m is None else m for n, m in zip(sizes, given, strict=True))
    return per_axis(name, "output_size", filled, axes)


def adaptive_avg_pool(x: TensorLike, output_size: Any, /) -> Tensor:
    """Average pooling to a given number of positions along each axis.

    Window ``i`` of ``m`` over ``n`` elements goes from ``floor(i*n/m)`` to ``ceil((i+1)*n/m)``;
    neighbours overlap if ``m`` does not divide ``n``.

    Args:
        x: floating or complex ``[n, channels, *sizes]``; integers count as float32.
        output_size: number of positions, for all axes or one per axis; None keeps a size.

    Returns:
        ``[n, channels, *output_size]``.

    Raises:
        ShapeError: an axis has no elements.

    >>> ef.adaptive_avg_pool(ef.tensor([[[1.0, 3.0, 8.0]]]), 2)
    Tensor([[[2. , 5.5]]], f32[1,1,2]@cpu:0)
    """
    tensor = floating(x)
    wanted = _wanted("adaptive_avg_pool", tensor, output_size)
    return bind(_adaptive_avg_pool, tensor, places=wanted, size=tensor.shape[2:], back=False)


def adaptive_max_pool(x: TensorLike, output_size: Any, /, *, return_indices: bool = False) -> Any:
    """Maximum pooling to a given number of positions, with windows as in `adaptive_avg_pool`.

    Args:
        x: real ``[n, channels, *sizes]``. The result is NaN for a window with NaN. The gradient
            goes to the first of several largest elements.
        output_size: number of positions, for all axes or one per axis; None keeps a size.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, *output_size]``; with ``return_indices`` also int64 of that shape: the
        positions of the elements in their plane, in row-major order.

    Raises:
        ShapeError: an axis has no elements.

    >>> ef.adaptive_max_pool(ef.tensor([[[1.0, 3.0, 8.0]]]), 2)
    Tensor([[[3., 8.]]], f32[1,1,2]@cpu:0)
    """
    tensor = tensor_of(x)
    wanted = _wanted("adaptive_max_pool", tensor, output_size)
    indices = bind(_adaptive_max_indices, tensor, places=wanted)
    out = _picked(tensor, indices, tensor.shape[2:], back=False)
    return (out, indices) if return_indices else out
