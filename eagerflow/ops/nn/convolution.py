"""Convolution and its two transposes: three bilinear ops, each the gradient of the others.

As usual in networks, convolution means cross-correlation: the window is not reversed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import BatchSite
from eagerflow.core.op_records.cost_formulas import Cost, CostRule, Types, bytes_of, size_of
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import Size, exact_quotient, may_equal
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.linalg.matrices import multilinear_jvp
from eagerflow.ops.nn.windows import Pairs, check_axes, joined, per_axis, positions
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.gradients import conjugate
from eagerflow.ops.rules.promotion import promote_floating
from eagerflow.ops.rules.sizes import surely_less
from eagerflow.ops.rules.type_rules import INEXACT, check_kind, check_same_dtype
from eagerflow.ops.shape.padding import pad
from eagerflow.types import Shape, TensorType

__all__ = ["convolution", "convolution_transpose", "convolution_weights"]


# --- type rules -----------------------------------------------------------------------------


def _check_operands(a: TensorType, b: TensorType) -> None:
    check_kind(a, INEXACT)
    check_same_dtype(a, b)
    if a.ndim != b.ndim or a.ndim < 3:
        raise ShapeError(
            f"one operand has {a.ndim} axes, the other {b.ndim}",
            expected="two axes and those that the window slides over, in both",
        )


def _check_equal(a: Size, b: Size, wrong: str, expected: str) -> None:
    if not may_equal(a, b):
        raise ShapeError(f"{wrong} ({a} and {b})", expected=expected)


def _check_groups(channels: Size, groups: int, whose: str) -> None:
    if not may_equal(channels % groups, 0):
        raise ShapeError(
            f"{channels} channels of {whose} are not in {groups} equal groups",
            expected=f"a multiple of groups={groups}",
        )


def _check_positions(counts: Shape, expected: Shape) -> None:
    for a, b in zip(counts, expected, strict=True):
        _check_equal(a, b, "the sizes do not belong together", f"{expected} after the channels")


def _convolution_type(x: TensorType, w: TensorType, *, groups: int, **sliding: Any) -> TensorType:
    _check_operands(x, w)
    _check_equal(
        x.shape[1],
        w.shape[1] * groups,
        "the channels of x are not those of the weights",
        f"x with w.shape[1] * groups = {w.shape[1] * groups} channels",
    )
    _check_groups(w.shape[0], groups, "the result")
    counts = positions(x.shape[2:], w.shape[2:], **sliding)
    return x.like(shape=(x.shape[0], w.shape[0], *counts))


def _transpose_type(
    y: TensorType, w: TensorType, *, size: Shape, groups: int, **sliding: Any
) -> TensorType:
    _check_operands(y, w)
    _check_equal(
        y.shape[1],
        w.shape[0],
        "the channels of y are not those of the weights",
        f"y with w.shape[0] = {w.shape[0]} channels",
    )
    _check_groups(w.shape[0], groups, "y")
    if any(surely_less(n, 1) for n in size):
        raise ShapeError(f"nothing is left of the result {size}", expected="less padding")
    _check_positions(y.shape[2:], positions(size, w.shape[2:], **sliding))
    return y.like(shape=(y.shape[0], w.shape[1] * groups, *size))


def _weights_type(
    x: TensorType, y: TensorType, *, size: Shape, groups: int, **sliding: Any
) -> TensorType:
    _check_operands(x, y)
    _check_equal(x.shape[0], y.shape[0], "the batches differ", "as many of x as of y")
    _check_groups(x.shape[1], groups, "x")
    _check_groups(y.shape[1], groups, "y")
    _check_positions(y.shape[2:], positions(x.shape[2:], size, **sliding))
    channels: Any = exact_quotient(x.shape[1], groups)
    return x.like(shape=(y.shape[1], channels, *size))


def _cost(y: int, w: int) -> CostRule:
    """The cost rule: for each position of the smaller array, a patch of the larger times weights.

    Args:
        y: the number of the smaller array: 0 and 1 are inputs, 2 is the output.
        w: the number of the array of weights.
    """

    def rule(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
        arrays = (*inputs, *outputs)
        sizes: Any = arrays[w].shape
        products = float(size_of(arrays[y]) * prod(sizes[1:]))
        copied = products / max(sizes[0], 1)  # patches are copied into a matrix
        return Cost(copied, bytes_of(arrays), 2 * products)

    return rule


# --- gradients ------------------------------------------------------------------------------
# y = convolution(x, w) is bilinear; from the cotangent of y, `_transpose` computes that of x and
# `_weights` that of w. Both are bilinear as well, and the three ops are each other's gradients.


def _sizes(x: Tensor) -> Shape:
    return x.shape[2:]


# --- many rows ------------------------------------------------------------------------------
# Rows with shared weights form a longer batch. Rows with weights of their own become groups.


def _side_by_side(at: BatchSite, x: Tensor) -> Tensor:
    """The channels of all rows side by side: ``[n, b, c, ...]`` as ``[b, n * c, ...]``."""
    moved: Tensor = at.call("moveaxis", x, 0, 1)
    return at.in_shape(moved, (x.shape[1], at.rows * x.shape[2], *x.shape[3:]))


def _one_below_another(at: BatchSite, x: Tensor) -> Tensor:
    """The first axes of all rows merged: ``[n, b, ...]`` as ``[n * b, ...]``."""
    return at.in_shape(x, (at.rows * x.shape[1], *x.shape[2:]))


def _grouped(at: BatchSite) -> dict[str, Any]:
    return {**at.attrs, "groups": at.rows * at.attrs["groups"]}


def _parted(at: BatchSite, y: Tensor) -> Tensor:
    """Groups of channels split into rows again."""
    apart = at.in_shape(y, (y.shape[0], at.rows, y.shape[1] // at.rows, *y.shape[2:]))
    result: Tensor = at.call("moveaxis", apart, 1, 0)
    return result


def _batched_convolution(at: BatchSite) -> Tensor:
    """The rule of the convolution, and of its transpose."""
    if not at.batched[1]:
        result: Tensor = at.bind(_one_below_another(at, at.inputs[0]), at.inputs[1], **at.attrs)
        return at.in_shape(result, (at.rows, at.shape(0)[0], *result.shape[1:]))
    x, w = at.all_whole()
    groups = _grouped(at)
    return _parted(at, at.bind(_side_by_side(at, x), _one_below_another(at, w), **groups))


def _batched_weights(at: BatchSite) -> Tensor:
    x, y = [_side_by_side(at, x) for x in at.all_whole()]
    weights: Tensor = at.bind(x, y, **_grouped(at))
    return at.in_shape(weights, (at.rows, weights.shape[0] // at.rows, *weights.shape[1:]))


_convolution: Op = define(
    "convolution",
    cost=_cost(2, 1),
    infer=_convolution_type,
    vjp=(
        lambda g, out, x, w, **attrs: bind(_transpose, g, conjugate(w), size=_sizes(x), **attrs),
        lambda g, out, x, w, **attrs: bind(_weights, conjugate(x), g, size=_sizes(w), **attrs),
    ),
    jvp=lambda t, out, *xs, **attrs: multilinear_jvp(_convolution, t, xs, attrs),
    saved="inputs",
    precision="accumulate",
    errors_as="convolution",
    batch=_batched_convolution,
)

_transpose: Op = define(
    "convolution_transpose",
    cost=_cost(0, 1),
    infer=_transpose_type,
    vjp=(
        lambda g, out, y, w, *, size, **attrs: bind(_convolution, g, conjugate(w), **attrs),
        lambda g, out, y, w, *, size, **attrs: bind(
            _weights, g, conjugate(y), size=_sizes(w), **attrs
        ),
    ),
    jvp=lambda t, out, *xs, **attrs: multilinear_jvp(_transpose, t, xs, attrs),
    saved="inputs",
    precision="accumulate",
    batch=_batched_convolution,
)

_weights: Op = define(
    "convolution_weights",
    cost=_cost(1, 2),
    infer=_weights_type,
    vjp=(
        lambda g, out, x, y, *, size, **attrs: bind(
            _transpose, conjugate(y), g, size=_sizes(x), **attrs
        ),
        lambda g, out, x, y, *, size, **attrs: bind(_convolution, conjugate(x), g, **attrs),
    ),
    jvp=lambda t, out, *xs, **attrs: multilinear_jvp(_weights, t, xs, attrs),
    saved="inputs",
    precision="accumulate",
    batch=_batched_weights,
)

# --- public ---------------------------------------------------------------------------------


def _given(
    name: str, a: Tensor, b: Tensor, window: Shape | None, stride: Any, padding: Any,
    dilation: Any, groups: Any,
) -> dict[str, Any]:  # fmt: skip
    """The attributes, from users' arguments."""
    axes = check_axes(name, a)
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{name}: one operand has {a.ndim} axes, the other {b.ndim}",
            given=f"{type_of(a)} and {type_of(b)}",
            expected="two axes and those that the window slides over, in both",
        )
    stride = per_axis(name, "stride", stride, axes)
    dilation = per_axis(name, "dilation", dilation, axes)
    groups = as_index(name, "groups", groups)
    if type(groups) is int and groups < 1:
        raise TensorValueError(f"{name}: there is no group", given=f"groups={groups}",
                               expected="at least 1")  # fmt: skip
    if isinstance(padding, str):
        padding = _named_padding(name, padding, window or _sizes(b), stride, dilation)
    else:
        padding = joined(name, padding, axes)
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _named_padding(name: str, padding: str, window: Shape, stride: Shape, dilation: Shape) -> Pairs:
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding != "same":
        raise TensorValueError(
            f"{name}: {padding!r} is not a padding", expected="'same', 'valid' or numbers"
        )
    if any(type(s) is not int or s != 1 for s in stride):
        raise TensorValueError(
            f"{name}: padding 'same' cannot be combined with strides",
            given=f"stride={stride}",
            hint="give the padding in numbers",
        )
    total = [d * (k - 1) for k, d in zip(window, dilation, strict=True)]
    return tuple((n // 2, n - n // 2) for n in total)


def convolution(
    x: TensorLike,
    w: TensorLike,
    /,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | Pairs | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over any number of axes: sums of products of ``x`` with a sliding window.

    As usual in networks it is cross-correlation: the window is not reversed.

    Args:
        x: floating or complex ``[n, channels, *sizes]``; integers count as float32.
        w: the weights, ``[outputs, channels/groups, *window]``; both promote to one dtype.
        stride: distance between positions of the window, for all axes or one per axis.
        padding: number of zeros around ``x``: a number for all axes, one per axis, or a pair per
            axis for before and after it. ``"valid"`` is none. ``"same"`` keeps the sizes; of an
            odd number of zeros, the additional zero is at the end.
        dilation: distance between elements of the window.
        groups: number of groups of channels, each with its own part of the outputs.

    Returns:
        ``[n, outputs, *positions]``.

    Raises:
        ShapeError: the channels do not fit, or the window is larger than the padded ``x``.
        TensorValueError: a setting is not valid.

    >>> x = ef.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    >>> ef.convolution(x, ef.tensor([[[1.0, 10.0]]]), stride=2)
    Tensor([[[21., 43.]]], f32[1,1,2]@cpu:0)
    >>> ef.convolution(ef.ones((2, 3, 8, 8)), ef.ones((16, 3, 3, 3)), padding="same").shape
    (2, 16, 8, 8)
    """
    a, b = promote_floating(x, w)
    attrs = _given("convolution", a, b, None, stride, padding, dilation, groups)
    return bind(_convolution, a, b, **attrs)


def convolution_transpose(
    y: TensorLike,
    w: TensorLike,
    /,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | Pairs = 0,
    output_padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `convolution`: each element of ``y`` adds a multiple of the window.

    Convolution of its result with the same weights and settings has the shape of ``y``. It is the
    gradient of convolution with respect to its input.

    Args:
        y: floating or complex ``[n, outputs, *positions]``; integers count as float32.
        w: the weights as in `convolution`, ``[outputs, channels/groups, *window]``.
        stride: distance between positions of the window.
        padding: number of elements cropped from the result at the ends of each axis, in numbers as
            in `convolution`.
        output_padding: number of elements added at the end of each axis. Several sizes lead to the
            same number of positions; without it, the result has the smallest.
        dilation: distance between elements of the window.
        groups: number of groups of channels.

    Returns:
        ``[n, channels, *sizes]``, where a size is
        ``(positions - 1)*stride + dilation*(window - 1) + 1 + output_padding`` less the padding.

    Raises:
        ShapeError: the channels do not fit, or the padding leaves nothing.
        TensorValueError: a setting is not valid, or an output padding is neither less than the
            stride nor than the dilation.

    >>> y = ef.tensor([[[1.0, 2.0]]])
    >>> ef.convolution_transpose(y, ef.tensor([[[1.0, 10.0, 100.0]]]), stride=2)
    Tensor([[[  1.,  10., 102.,  20., 200.]]], f32[1,1,5]@cpu:0)
    """
    name = "convolution_transpose"
    a, b = promote_floating(y, w)
    attrs = _given(name, a, b, None, stride, padding, dilation, groups)
    added = per_axis(name, "output_padding", output_padding, a.ndim - 2, 0)
    _check_output_padding(added, attrs["stride"], attrs["dilation"])
    # output padding of at least the stride would hold another position of the window: it replaces
    # padding, or is added as zeros
    excess = tuple(n if n >= s else 0 for n, s in zip(added, attrs["stride"], strict=True))
    ends = [after for _, after in attrs["padding"]]
    kept = [min(n, end) for n, end in zip(excess, ends, strict=True)]
    attrs["padding"] = tuple(
        (before, after - n) for (before, after), n in zip(attrs["padding"], kept, strict=True)
    )
    added = tuple(0 if more else n for n, more in zip(added, excess, strict=True))
    size = _transposed_sizes(a, b, added, attrs["stride"], attrs["padding"], attrs["dilation"])
    result = bind(_transpose, a, b, size=size, **attrs)
    widths = [n - k for n, k in zip(excess, kept, strict=True)]
    return pad(result, [(0, 0), (0, 0), *((0, n) for n in widths)]) if any(widths) else result


def _check_output_padding(added: Shape, stride: Shape, dilation: Shape) -> None:
    if not all(n < max(s, d) for n, s, d in zip(added, stride, dilation, strict=True)):
        raise TensorValueError(
            "convolution_transpose: the output padding is too large",
            given=f"output_padding={added}, stride={stride}, dilation={dilation}",
            expected="less than the stride or the dilation",
        )


def _transposed_sizes(
    y: Tensor, w: Tensor, added: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Shape:
    """The sizes that `convolution` maps to the sizes of ``y``, with ``added`` at the ends."""
    return tuple(
        (m - 1) * s + d * (k - 1) + 1 - before - after + n
        for m, k, n, s, (before, after), d in zip(
            _sizes(y), _sizes(w), added, stride, padding, dilation, strict=True
        )
    )


def convolution_weights(
    x: TensorLike,
    y: TensorLike,
    /,
    *,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | Pairs | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `convolution` with respect to its weights.

    Args:
        x: the input of the convolution, ``[n, channels, *sizes]``; integers count as float32.
        y: the cotangent of its result, ``[n, outputs, *positions]``; both promote to one dtype.
        kernel_size: sizes of the window, for all axes or one per axis.
        stride: as in the convolution, like all further settings.
        padding: numbers, pairs, ``"same"`` or ``"valid"``.
        dilation: distance between elements of the window.
        groups: number of groups of channels.

    Returns:
        ``[outputs, channels/groups, *kernel_size]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x, y = ef.tensor([[[1.0, 2.0, 3.0]]]), ef.tensor([[[1.0, 10.0]]])
    >>> ef.convolution_weights(x, y, kernel_size=2)
    Tensor([[[21., 32.]]], f32[1,1,2]@cpu:0)
    """
    name = "convolution_weights"
    a, b = promote_floating(x, y)
    window = per_axis(name, "kernel_size", kernel_size, check_axes(name, a))
    attrs = _given(name, a, b, window, stride, padding, dilation, groups)
    return bind(_weights, a, b, size=window, **attrs)
