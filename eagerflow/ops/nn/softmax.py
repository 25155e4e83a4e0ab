"""Softmax, cross-entropy of class indices, and standardisation to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any, Final, Literal

from eagerflow.core.infer import infer_specs
from eagerflow.core.op import bind, bind_several, define, functions
from eagerflow.core.op_records.batch_rules import BatchSite, aligned, each_row, shifted
from eagerflow.core.op_records.cost_formulas import per_input, per_output
from eagerflow.core.op_records.op_facts import OpFacts, of_family
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import may_equal
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.elementwise.powers_and_logarithms import exp, rsqrt, sqrt
from eagerflow.ops.reduction.totals import Axis, mean, sum
from eagerflow.ops.rules.arguments import as_index, as_number, axes_of, axis_of, check_choice
from eagerflow.ops.rules.gradients import count_of, where
from eagerflow.ops.rules.promotion import cast, floating, operands
from eagerflow.ops.rules.sizes import surely_less
from eagerflow.ops.rules.type_rules import FLOATING, INTEGER, check_kind, reduced_shape
from eagerflow.types import Shape, TensorType, may_be_same_shape

__all__ = ["check_labels", "log_softmax", "softmax", "softmax_cross_entropy", "standardize"]

# --- softmax --------------------------------------------------------------------------------


@of_family({
    "saved": "outputs", "precision": "accumulate", "cost": per_output(40), "storage": "fresh",
    "fails_on": "nothing",
})  # fmt: skip
def _same_type(x: TensorType, *, axis: int) -> TensorType:
    check_kind(x, FLOATING)
    return x


def _softmax_vjp(g: Tensor, out: Tensor, x: Tensor, *, axis: int) -> Tensor:
    weighted = g * out
    return weighted - out * sum(weighted, axis, keepdims=True)


_softmax = define("softmax", infer=_same_type, vjp=(_softmax_vjp,), batch=shifted("axis"))


def softmax(x: TensorLike, /, axis: int = -1) -> Tensor:
    """exp(x) over its sum along an axis: numbers from 0 to 1 that add up to 1.

    Args:
        x: floating, with at least one axis; integers count as float32. The result is 0 for -inf,
            and NaN if all elements are -inf.
        axis: the axis along which the results add up to 1.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.softmax(ef.tensor([[1000.0, 1000.0], [0.0, float("-inf")]]))
    Tensor([[0.5, 0.5],
            [1. , 0. ]], f32[2,2]@cpu:0)
    """
    tensor = floating(x)
    return bind(_softmax, tensor, axis=axis_of("softmax", tensor, axis))


_log_softmax = define(
    "log_softmax",
    infer=_same_type,
    vjp=(lambda g, out, x, *, axis: g - exp(out) * sum(g, axis, keepdims=True),),
    batch=shifted("axis"),
)


def log_softmax(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, precise also where that is next to 0 or 1.

    Args:
        x: floating, with at least one axis; integers count as float32.
        axis: the axis along which the exponentials of the results add up to 1.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.log_softmax(ef.tensor([0.0, -1000.0]))
    Tensor([    0., -1000.], f32[2]@cpu:0)
    """
    tensor = floating(x)
    return bind(_log_softmax, tensor, axis=axis_of("log_softmax", tensor, axis))


# --- cross-entropy of class indices ----------------------------------------------------------


def _labels_type(
    labels: TensorType, *, num_classes: int, ignore_index: int | None, of: str
) -> TensorType:
    check_kind(labels, INTEGER)
    return labels


_check_labels = define(
    "check_labels",
    infer=_labels_type,
    vjp=(None,),
    precision="exact",
    storage="view",
    errors_as="",
    batch=aligned,
)


def check_labels(
    labels: TensorLike,
    /,
    num_classes: int,
    *,
    ignore_index: int | None = None,
    of: Literal["classes", "rows"] = "classes",
) -> Tensor:
    """The labels, checked to be valid class indices.

    Use the result: in a traced function, labels are checked only if it is used. Labels on
    accelerators are not checked, since that would wait for them.

    Args:
        labels: integers.
        num_classes: the number of classes; labels are less than this.
        ignore_index: a further label that is allowed.
        of: the noun for classes in the error.

    Raises:
        TensorIndexError: a label is out of range.

    >>> ef.check_labels(ef.tensor([2, 0]), 3)
    Tensor([2, 0], i64[2]@cpu:0)
    >>> ef.check_labels(ef.tensor([2, 3]), 3)
    Traceback (most recent call last):
    eagerflow.errors.TensorIndexError: check_labels: label 3 is out of range for 3 classes
    ...
    """
    return bind(
        _check_labels,
        tensor_of(labels),
        num_classes=as_index("check_labels", "num_classes", num_classes),
        ignore_index=_ignored("check_labels", ignore_index),
        of=of,
    )


def _ignored(name: str, index: int | None) -> int | None:
    return None if index is None else as_index(name, "ignore_index", as_number(index))


_LOSS: Final[OpFacts] = {
    "saved": "inputs", "precision": "accumulate", "cost": per_input(40),
    "errors_as": "cross_entropy",
}  # fmt: skip


@of_family(_LOSS)
def _loss_type(
    x: TensorType,
    labels: TensorType,
    *g: TensorType,
    axis: int,
    ignore_index: int,
    reduction: str,
) -> TensorType:
    check_kind(x, FLOATING)
    check_kind(labels, INTEGER)
    samples = x.shape[:axis] + x.shape[axis + 1 :]
    if not may_be_same_shape(labels.shape, samples):
        raise _misfit(labels, samples, axis)
    if g:
        return x
    return x.like(shape=samples if reduction == "none" else ())


def _misfit(labels: TensorType, samples: Shape, axis: int) -> ShapeError:
    """The error for labels that do not fit the samples."""
    hint = None
    if len(labels.shape) == len(samples) + 1:
        hint = f"if they are one-hot: labels.argmax(axis={axis})"
        if labels.shape[-1] == 1:
            hint = "take the last axis away: labels.squeeze(-1)"
    return ShapeError(
        "the labels do not fit",
        expected=f"labels of shape [{', '.join(map(str, samples))}], one for each sample",
        hint=hint,
    )


def _loss_vjp(
    i: int, g: Tensor, out: Tensor, x: Tensor, labels: Tensor, *above: Tensor, **attrs: Any
) -> Tensor | None:
    if i == 1:
        return None
    if not above:
        return bind(_loss, x, labels, g, **attrs)
    axis = attrs["axis"]
    if i == 2:  # the gradient is linear in the incoming cotangent
        unit = bind(_loss, x, labels, functions["ones_like"](above[0]), **attrs)
        return sum(g * unit, axis if attrs["reduction"] == "none" else None)
    p = softmax(x, axis)
    scale = functions["expand_dims"](_share(x, labels, above[0], **attrs), axis)
    weighted = g * scale * p
    return weighted - p * sum(weighted, axis, keepdims=True)


def _share(
    x: Tensor, labels: Tensor, g: Tensor, *, axis: int, ignore_index: int, reduction: str
) -> Tensor:
    """The weight of the loss of each sample, times ``g``."""
    counted = labels != ignore_index
    if reduction == "mean":
        g = g / sum(cast(counted, x.dtype))
    return where(counted, g, 0)


def _batched_loss(at: BatchSite) -> Tensor:
    """The batching rule: the losses of the samples of all rows, then ``reduction`` within rows."""
    attrs = {**at.attrs, "axis": at.attrs["axis"] + 1, "reduction": "none"}
    x, labels, *above = at.all_whole()
    if at.attrs["reduction"] == "none":
        losses: Tensor = at.bind(x, labels, *above, **attrs)
        return losses
    axes = tuple(range(1, len(labels.shape)))
    counted = labels != at.attrs["ignore_index"]
    count = sum(cast(counted, x.dtype), axes) if at.attrs["reduction"] == "mean" else None
    if above:
        (g,) = above
        g = g if count is None else g / count
        g = at.in_shape(g, (at.rows, *(1,) * len(axes)))
        share = functions["broadcast_to"](g, labels.shape)
        gradient: Tensor = at.bind(x, labels, share, **attrs)
        return gradient
    total = sum(at.bind(x, labels, **attrs), axes)
    return total if count is None else total / count


_loss = define(
    "softmax_cross_entropy",
    infer=_loss_type,
    vjp=_loss_vjp,
    with_gradient="softmax_cross_entropy_with_gradient",
    batch=_batched_loss,
)


@of_family(_LOSS)
def _both_types(
    x: TensorType, labels: TensorType, g: TensorType, **attrs: Any
) -> tuple[TensorType, TensorType]:
    return _loss_type(x, labels, **attrs), _loss_type(x, labels, g, **attrs)


def _both_vjp(
    i: int, g: tuple[Tensor, Tensor], out: Any, x: Tensor, labels: Tensor, above: Tensor,
    **attrs: Any,
) -> Tensor | None:  # fmt: skip
    cotangent = _loss_vjp(i, g[1], out[1], x, labels, above, **attrs)
    if i:
        return cotangent
    assert cotangent is not None
    first = _loss_vjp(0, g[0], out[0], x, labels, **attrs)
    assert first is not None
    return first + cotangent


# The pass `share` merges a loss and its gradient, which need the same softmax, into this op.
define(
    "softmax_cross_entropy_with_gradient",
    infer=_both_types,
    vjp=_both_vjp,
    outputs=2,
    batch=each_row,
)


def softmax_cross_entropy(
    x: TensorLike,
    labels: TensorLike,
    /,
    *,
    axis: int = -1,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Tensor:
    """The cross-entropy of class indices: minus `log_softmax` at the labels.

    Args:
        x: floating, the scores, with classes along one axis. Integers count as float32.
        labels: integers, the right classes, in the shape of ``x`` without the axis of classes.
        axis: the axis of the classes.
        ignore_index: samples with this label do not count, neither in sums nor in means.
        reduction: ``"none"`` returns the losses of all samples, ``"sum"`` their sum, ``"mean"`` the
            mean over samples that count, NaN if none does.

    Raises:
        TensorIndexError: a label is neither a class nor ignored. (On accelerators, where a check
            would wait, such a loss is NaN.)
        ShapeError: the labels have another shape.
        DTypeError: the labels are no integers.

    >>> x = ef.tensor([[2.0, 0.0, 0.0], [0.0, 1000.0, 0.0]])
    >>> ef.round(ef.softmax_cross_entropy(x, ef.tensor([0, 1]), reduction="none"), 3)
    Tensor([0.24, 0.  ], f32[2]@cpu:0)
    """
    check_choice("softmax_cross_entropy", reduction, ("mean", "sum", "none"), "a reduction")
    scores, classes = operands(x, labels)
    scores = floating(scores)
    if not classes.dtype.is_integer:
        raise DTypeError(
            "softmax_cross_entropy: the labels must be integers", given=str(type_of(classes))
        )
    axis = axis_of("softmax_cross_entropy", scores, axis)
    ignored = _ignored("softmax_cross_entropy", ignore_index)
    attrs = {"axis": axis, "ignore_index": ignored, "reduction": reduction}
    shape = scores.shape
    if not may_be_same_shape(classes.shape, shape[:axis] + shape[axis + 1 :]):
        # the kernel takes labels of any shape of the right size
        infer_specs(_loss, [type_of(scores), type_of(classes)], attrs)
    return bind(_loss, scores, classes, **attrs)


# --- mean 0 and variance 1 --------------------------------------------------------------------


def _standardized_type(
    x: TensorType, *, axis: tuple[int, ...], eps: float, least: int
) -> tuple[TensorType, ...]:
    check_kind(x, FLOATING)
    count = count_of(x, axis)
    if surely_less(count, least) and not may_equal(x.size, 0):
        raise TensorValueError(
            f"too few values for each mean and variance: {count}",
            expected=f"at least {least}",
            hint="take more samples at a time",
        )
    kept = x.like(shape=reduced_shape(x.shape, axis, True))
    return x, kept, kept


def _standardized_vjp(
    gs: tuple[Tensor, ...],
    outs: tuple[Tensor, ...],
    x: Tensor,
    *,
    axis: tuple[int, ...],
    eps: float,
    least: int,
) -> Tensor:
    """The rule of `standardize`: cotangents of mean and variance are added to small arrays."""
    (g, g_mean, g_var), (out, _, var) = gs, outs
    count = count_of(x, axis, 1)
    square = var + eps
    common = mean(g, axis, keepdims=True) - g_mean * sqrt(square) / count
    along = mean(g * out, axis, keepdims=True)
    along = along - g_var * square * 2 / count
    rest: Tensor = g - common - out * along
    return rest * rsqrt(square)


_standardize = define(
    "standardize",
    infer=_standardized_type,
    vjp=(_standardized_vjp,),
    saved="outputs",
    precision="accumulate",
    cost=per_input(4),
    outputs=None,
    errors_as="standardize",
    batch=shifted("axis"),
)


def standardize(
    x: TensorLike, /, axis: Axis = None, *, eps: float = 1e-5, least: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Standardise to mean 0 and variance 1: ``(x - mean) / sqrt(variance + eps)``.

    Args:
        x: floating; integers count as float32.
        axis: the axis or axes to take mean and variance over; all if None.
        eps: added to the variance, against division by 0.
        least: the least number of elements for each mean and variance.

    Returns:
        The result, the mean, and the (biased) variance, whose divisor is the number of elements;
        the last two with the axes kept at size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are fewer elements than ``least``.

    >>> out, mean, var = ef.standardize(ef.tensor([[1.0, 3.0], [0.0, 0.0]]), axis=1)
    >>> ef.round(out, 3)
    Tensor([[-1.,  1.],
            [ 0.,  0.]], f32[2,2]@cpu:0)
    >>> mean[:, 0], var[:, 0]
    (Tensor([2., 0.], f32[2]@cpu:0), Tensor([1., 0.], f32[2]@cpu:0))
    """
    tensor = floating(x)
    normal, centre, spread = bind_several(
        _standardize,
        tensor,
        axis=axes_of("standardize", tensor, axis),
        eps=float(as_number(eps)),
        least=as_index("standardize", "least", as_number(least)),
    )
    return normal, centre, spread
