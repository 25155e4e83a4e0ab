"""Losses of classification: cross-entropy in its forms, none of which overflows."""

from __future__ import annotations

from typing import Any, Literal

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.extending import TensorLike, may_equal
from eagerflow.hardware import home_of
from eagerflow.nn.functional.losses import Reduction, paired, reduced
from eagerflow.nn.functional.op_errors import speaks_for_parts

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "nll_loss",
    "sampled_softmax",
]


@speaks_for_parts
def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> ef.Tensor:
    """Minus the logarithm of the probability that `softmax` gives to the right classes.

    Args:
        input: floating, the scores of the classes: ``[C]``, ``[N, C]``, or ``[N, C, ...]`` with
            any number of further axes.
        target: integers, the right classes, in the shape of ``input`` without ``C``; or floating,
            the probability of each class, in the shape of ``input``.
        weight: weight of each class, ``[C]``; all equal by default.
        ignore_index: samples with this label do not count. Only for class indices.
        reduction: ``"mean"`` (for class indices weighted by ``weight``; NaN if no sample counts),
            ``"sum"``, or ``"none"``.
        label_smoothing: the part of the probability of the right class that is spread over all
            classes (Szegedy et al., 2016), from 0 to 1.

    Raises:
        TensorIndexError: a class index is out of range.
        ShapeError: the shapes do not fit.
        TensorValueError: the reduction is unknown, or the smoothing out of range.

    >>> scores = ef.tensor([[2.0, 0.0, 0.0], [0.0, 1000.0, 0.0]])
    >>> ef.round(ef.nn.functional.cross_entropy(scores, ef.tensor([0, 1])), 3)
    Tensor(0.12, f32[]@cpu:0)
    """
    scores, classes = ef.asarray(input), ef.asarray(target)
    if not 0 <= label_smoothing <= 1:
        raise TensorValueError(
            "cross_entropy: the smoothing is out of range",
            given=f"label_smoothing={label_smoothing}",
            expected="0 to 1",
        )
    axis = _class_axis("cross_entropy", scores)
    if classes.dtype.is_floating:
        _check_probabilities(scores, classes)
    elif weight is None and label_smoothing == 0:
        return ef.softmax_cross_entropy(
            scores, classes, axis=axis, ignore_index=ignore_index, reduction=reduction
        )
    logs = ef.log_softmax(scores, axis=axis)
    weights = _class_weights("cross_entropy", weight, logs, axis)
    if classes.dtype.is_floating:
        if label_smoothing != 0:
            classes = classes * (1 - label_smoothing) + label_smoothing / logs.shape[axis]
        losses = -ef.sum(logs * (classes if weights is None else classes * weights), axis=axis)
        return reduced(losses, reduction)
    losses, shares = _picked(logs, classes, weights, axis, ignore_index)
    if label_smoothing != 0:
        spread = ef.mean(logs if weights is None else logs * weights, axis=axis)
        counted = classes != ignore_index
        even = ef.where(counted, -spread, 0)
        losses = losses * (1 - label_smoothing) + even * label_smoothing
    return _weighted(losses, shares, reduction)


@speaks_for_parts
def nll_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> ef.Tensor:
    """The negative log likelihood: minus the elements of ``input`` at the right classes.

    Args:
        input: floating, logarithms of probabilities: ``[C]``, ``[N, C]``, or ``[N, C, ...]``.
        target: integers, the right classes, in the shape of ``input`` without ``C``.
        weight: weight of each class, ``[C]``; all equal by default.
        ignore_index: samples with this label do not count.
        reduction: ``"mean"`` (weighted by ``weight``; NaN if no sample counts), ``"sum"``, or
            ``"none"``.

    Raises:
        TensorIndexError: a class index is out of range.
        ShapeError: the shapes do not fit.

    >>> ef.nn.functional.nll_loss(ef.tensor([[-0.5, -1.0], [-2.0, -0.25]]), ef.tensor([0, 1]))
    Tensor(0.375, f32[]@cpu:0)
    """
    logs, classes = ef.asarray(input), ef.asarray(target)
    axis = _class_axis("nll_loss", logs)
    weights = _class_weights("nll_loss", weight, logs, axis)
    losses, shares = _picked(logs, classes, weights, axis, ignore_index)
    return _weighted(losses, shares, reduction)


def _check_probabilities(scores: ef.Tensor, target: ef.Tensor) -> None:
    """Refuse floating labels unless they have the shape of the scores: then, probabilities."""
    if len(target.shape) != len(scores.shape) or not all(
        map(may_equal, target.shape, scores.shape)
    ):
        hint = None
        if _is_column(target) and len(target.shape) == len(scores.shape):
            hint = "if these are class indices: target.squeeze(-1).astype(ef.int64)"
        elif len(target.shape) == len(scores.shape) - 1:
            hint = "if these are class indices: target.astype(ef.int64)"
        raise ShapeError(
            "cross_entropy: a floating target must have the probability of each class",
            given=f"input={scores.type}, target={target.type}",
            expected="integers, or a target of the shape of the input",
            hint=hint,
        )


def _class_axis(name: str, x: ef.Tensor) -> int:
    if not x.shape:
        raise ShapeError(
            f"{name}: the input has no axis of classes",
            given=f"input={x.type}",
            expected="[C], [N, C], or [N, C, ...]",
        )
    return min(1, len(x.shape) - 1)


def _class_weights(
    name: str, weight: TensorLike | None, x: ef.Tensor, axis: int
) -> ef.Tensor | None:
    """The weights in a shape that broadcasts along the axis of classes."""
    if weight is None:
        return None
    weights = ef.asarray(weight)
    if len(weights.shape) != 1 or not may_equal(weights.shape[0], x.shape[axis]):
        raise ShapeError(
            f"{name}: expected a weight for each class",
            given=f"input={x.type}, weight={weights.type}",
            expected=f"weights of shape [{x.shape[axis]}]",
        )
    return weights.reshape((-1, *(1,) * (len(x.shape) - 1 - axis)))


def _picked(
    logs: ef.Tensor, target: ef.Tensor, weights: ef.Tensor | None, axis: int, ignore_index: int
) -> tuple[ef.Tensor, ef.Tensor]:
    """The weighted losses of the samples, and the weight of each sample."""
    classes = ef.check_labels(target, logs.shape[axis], ignore_index=ignore_index)
    counted = classes != ignore_index
    samples = logs.shape[:axis] + logs.shape[axis + 1 :]
    if len(samples) != len(classes.shape) or not all(map(may_equal, samples, classes.shape)):
        raise ShapeError(
            "the labels do not fit",
            given=f"input={logs.type}, target={target.type}",
            expected=f"labels of shape [{', '.join(map(str, samples))}], one for each sample",
            hint="take the last axis away: target.squeeze(-1)" if _is_column(classes) else None,
        )
    positions = ef.expand_dims(ef.where(counted, classes, 0), axis)
    shares = counted.astype(logs.dtype)
    if weights is not None:
        flat = ef.broadcast_to(weights, logs.shape)
        shares = shares * ef.squeeze(ef.take_along_axis(flat, positions, axis=axis), axis)
    picked = ef.squeeze(ef.take_along_axis(logs, positions, axis=axis), axis)
    return ef.where(counted, -picked * shares, 0), shares


def _is_column(classes: ef.Tensor) -> bool:
    return len(classes.shape) > 1 and bool(classes.shape[-1] == 1)


def _weighted(losses: ef.Tensor, shares: ef.Tensor, reduction: Reduction) -> ef.Tensor:
    if reduction == "mean":
        return ef.sum(losses) / ef.sum(shares)
    return reduced(losses, reduction)


# --- two classes ------------------------------------------------------------------------------


def binary_cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    reduction: Reduction = "mean",
) -> ef.Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``, with logarithms of at least -100.

    For scores rather than probabilities, `binary_cross_entropy_with_logits` is more precise.

    Args:
        input: floating, probabilities from 0 to 1.
        target: floating, of the same shape: the true probabilities.
        weight: factor of the losses; broadcasts.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    Raises:
        ShapeError: the shapes differ.

    >>> from eagerflow.nn import functional as F
    >>> ef.round(F.binary_cross_entropy(ef.tensor([0.5, 1.0]), ef.tensor([1.0, 1.0])), 3)
    Tensor(0.347, f32[]@cpu:0)
    """
    p, t = paired("binary_cross_entropy", input, target)
    losses: ef.Tensor = _binary(p, t)
    return reduced(losses if weight is None else losses * ef.asarray(weight), reduction)


def _bounded_log(x: ef.Tensor) -> ef.Tensor:
    zero = x == 0
    return ef.where(zero, -100.0, ef.maximum(ef.log(ef.where(zero, 1.0, x)), -100.0))


@ef.custom_vjp
def _binary(p: ef.Tensor, t: ef.Tensor) -> ef.Tensor:
    return -(t * _bounded_log(p) + (1 - t) * _bounded_log(1 - p))


def _binary_backward(residuals: Any, g: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
    """The derivative of the unbounded loss, large at probabilities 0 and 1, not 0 at the bound."""
    p, t = residuals
    slope = (p - t) / ef.maximum(p * (1 - p), 1e-12)
    return g * slope, g * (_bounded_log(1 - p) - _bounded_log(p))


_binary.defvjp(lambda p, t: (_binary(p, t), (p, t)), _binary_backward)


def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    reduction: Reduction = "mean",
    pos_weight: TensorLike | None = None,
) -> ef.Tensor:
    """`binary_cross_entropy` of ``sigmoid(input)``, without its overflow and rounding.

    Args:
        input: floating, scores: logarithms of odds.
        target: floating, of the same shape: the true probabilities.
        weight: factor of the losses; broadcasts.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.
        pos_weight: factor of the term with ``target``; broadcasts.

    Raises:
        ShapeError: the shapes differ.

    >>> from eagerflow.nn import functional as F
    >>> scores = ef.tensor([0.0, 1000.0])
    >>> ef.round(F.binary_cross_entropy_with_logits(scores, ef.tensor([1.0, 1.0])), 3)
    Tensor(0.347, f32[]@cpu:0)
    """
    x, t = paired("binary_cross_entropy_with_logits", input, target)
    positive = t * ef.softplus(-x)
    if pos_weight is not None:
        positive = positive * ef.asarray(pos_weight)
    losses = positive + (1 - t) * ef.softplus(x)
    return reduced(losses if weight is None else losses * ef.asarray(weight), reduction)


# --- many classes -----------------------------------------------------------------------------


@speaks_for_parts
def sampled_softmax(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None,
    target: TensorLike,
    num_sampled: int,
    *,
    remove_accidental_hits: bool = True,
    reduction: Literal["mean", "sum", "none"] = "mean",
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """The loss of a softmax over many classes, estimated from the right and some random classes.

    Classes are drawn with replacement, the same for all samples of the batch, class k with
    probability ``log((k + 2) / (k + 1)) / log(C + 1)``: classes should be sorted by falling
    frequency. The logarithm of the expected number of draws of a class is subtracted from the score
    of each of its draws, so that the exponentials of the scores add up to an unbiased estimate of
    the whole sum (Bengio and Senécal, 2008; Jean et al., 2015). Only rows of classes that occur are
    read, and the gradients of ``weight`` and ``bias`` are sparse if they are variables. For
    evaluation use `linear` and `cross_entropy`.

    Args:
        input: floating, ``[N, size]``, the input of the last layer.
        weight: ``[C, size]``, the weights of the last layer; a variable, or a tensor.
        bias: ``[C]``, or None.
        target: integers, the right classes, ``[N]``.
        num_sampled: number of classes to draw, positive.
        remove_accidental_hits: whether a sample leaves out draws of its own right class.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.
        generator: the generator to draw from; the process's own by default.

    Raises:
        TensorIndexError: a class is out of range.
        TensorValueError: ``num_sampled`` is not positive.

    >>> from eagerflow.nn import functional as F
    >>> weight = ef.Variable(ef.zeros((1000, 4)))
    >>> loss = F.sampled_softmax(ef.ones((2, 4)), weight, None, ef.tensor([3, 999]), 16)
    >>> loss.shape
    ()
    """
    if num_sampled < 1:
        raise TensorValueError(
            "sampled_softmax: there are no classes to draw", given=f"num_sampled={num_sampled}"
        )
    x, table = ef.asarray(input), ef.asarray(weight)
    count = table.shape[0]
    right = ef.check_labels(_indices(target), count).astype(ef.int64)
    drawn = _log_uniform(count, num_sampled, home_of(x.device), generator)
    right_scores, drawn_scores = _scores_of(x, table, bias, right, drawn)
    drawn_scores = drawn_scores - ef.log(_expected(drawn, count, num_sampled)).astype(x.dtype)
    if remove_accidental_hits:
        drawn_scores = ef.where(right[:, None] == drawn, float("-inf"), drawn_scores)
    scores = ef.concat([right_scores[:, None], drawn_scores], axis=1)
    return reduced(ef.logsumexp(scores, axis=1) - right_scores, reduction)


def _scores_of(
    x: ef.Tensor, table: ef.Tensor, bias: TensorLike | None, right: ef.Tensor, drawn: ef.Tensor
) -> tuple[ef.Tensor, ef.Tensor]:
    """The scores of the right class of each sample ``[N]``, and of all draws ``[N, draws]``."""
    count = drawn.shape[0]
    # one gather for both, so that there is one sparse gradient
    both = ef.concat([drawn, right])
    rows = ef.take(table, both, axis=0)
    right_scores = ef.sum(x * rows[count:], axis=1)
    drawn_scores = ef.matmul(x, rows[:count].T)
    if bias is None:
        return right_scores, drawn_scores
    offsets = ef.take(ef.asarray(bias), both, axis=0)
    return right_scores + offsets[count:], drawn_scores + offsets[:count]


def _indices(target: TensorLike) -> ef.Tensor:
    classes = ef.asarray(target)
    if not classes.dtype.is_integer or len(classes.shape) != 1:
        raise DTypeError(
            "sampled_softmax: the target is not a class for each sample",
            given=f"target={classes.type}",
            expected="integers along one axis",
        )
    return classes


def _log_uniform(
    count: int, num: int, device: Any, generator: ef.random.Generator | None
) -> ef.Tensor:
    """Classes drawn with probabilities about proportional to ``1 / (k + 1)``."""
    u = ef.random.uniform((num,), dtype=ef.float64, generator=generator, device=device)
    top = ef.log1p(ef.asarray(count, dtype=ef.float64, device=device))
    drawn = ef.floor(ef.expm1(u * top)).astype(ef.int64)
    return ef.minimum(drawn, count - 1)  # rounding could reach the end


def _expected(classes: ef.Tensor, count: int, num: int) -> ef.Tensor:
    """The expected number of draws of each class among ``num`` draws."""
    k = classes.astype(ef.float64)
    top = ef.log1p(ef.asarray(count, dtype=ef.float64, device=classes.device))
    return ef.log1p(1 / (k + 1)) / top * num
