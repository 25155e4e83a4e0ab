"""Losses of regression and of similarity."""

from __future__ import annotations

from typing import Literal

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import TensorLike, may_equal

__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "pairwise_distance",
    "smooth_l1_loss",
    "triplet_margin_loss",
]

Reduction = Literal["mean", "sum", "none"]


def reduced(losses: ef.Tensor, reduction: str) -> ef.Tensor:
    """The losses, their sum, or their mean, as ``reduction`` says."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return ef.sum(losses)
    if reduction == "mean":
        return ef.mean(losses)
    raise TensorValueError(f"{reduction!r} is not a reduction", expected="'mean', 'sum', or 'none'")


def paired(name: str, input: TensorLike, target: TensorLike) -> tuple[ef.Tensor, ef.Tensor]:
    """Both arguments as tensors of one shape: broadcasting would hide a missing axis."""
    x, t = ef.asarray(input), ef.asarray(target)
    if len(x.shape) != len(t.shape) or not all(map(may_equal, x.shape, t.shape)):
        raise ShapeError(
            f"{name}: input and target have different shapes",
            given=f"input={x.type}, target={t.type}",
            hint="reshape one of them",
        )
    return x, t


# --- elementwise ------------------------------------------------------------------------------


def mse_loss(input: TensorLike, target: TensorLike, reduction: Reduction = "mean") -> ef.Tensor:
    """The squared error: the squares of the differences.

    Args:
        input: floating.
        target: floating, of the same shape.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    Raises:
        ShapeError: the shapes differ.

    >>> ef.nn.functional.mse_loss(ef.tensor([1.0, 2.0]), ef.tensor([1.0, 4.0]))
    Tensor(2., f32[]@cpu:0)
    """
    x, t = paired("mse_loss", input, target)
    return reduced(ef.square(x - t), reduction)


def l1_loss(input: TensorLike, target: TensorLike, reduction: Reduction = "mean") -> ef.Tensor:
    """The absolute error: the magnitudes of the differences.

    Args:
        input: floating.
        target: floating, of the same shape.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    Raises:
        ShapeError: the shapes differ.

    >>> ef.nn.functional.l1_loss(ef.tensor([1.0, 2.0]), ef.tensor([1.0, 4.0]))
    Tensor(1., f32[]@cpu:0)
    """
    x, t = paired("l1_loss", input, target)
    return reduced(ef.abs(x - t), reduction)


def smooth_l1_loss(
    input: TensorLike, target: TensorLike, reduction: Reduction = "mean", beta: float = 1.0
) -> ef.Tensor:
    """`l1_loss`, but squares over ``2 * beta`` below a difference of ``beta`` (Girshick, 2015).

    Args:
        input: floating.
        target: floating, of the same shape.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.
        beta: the difference at which both pieces meet, not negative.

    Raises:
        ShapeError: the shapes differ.
        TensorValueError: ``beta`` is negative.

    >>> from eagerflow.nn import functional as F
    >>> F.smooth_l1_loss(ef.tensor([1.0, 2.0]), ef.tensor([1.5, 4.0]), reduction="none")
    Tensor([0.125, 1.5  ], f32[2]@cpu:0)
    """
    if beta < 0:
        raise TensorValueError("smooth_l1_loss: beta is negative", given=f"beta={beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    x, t = paired("smooth_l1_loss", input, target)
    size = ef.abs(x - t)
    losses = ef.where(size < beta, ef.square(size) * (0.5 / beta), size - 0.5 * beta)
    return reduced(losses, reduction)


def huber_loss(
    input: TensorLike,
    target: TensorLike,
    reduction: Reduction = "mean",
    delta: float = 1.0,
) -> ef.Tensor:
    """Half the squared error, but linear above a difference of ``delta`` (Huber, 1964).

    Args:
        input: floating.
        target: floating, of the same shape.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.
        delta: the difference at which both pieces meet, positive.

    Raises:
        ShapeError: the shapes differ.
        TensorValueError: ``delta`` is not positive.

    >>> ef.nn.functional.huber_loss(ef.tensor([1.0, 2.0]), ef.tensor([1.5, 4.0]), reduction="none")
    Tensor([0.125, 1.5  ], f32[2]@cpu:0)
    """
    if delta <= 0:
        raise TensorValueError("huber_loss: delta is not positive", given=f"delta={delta}")
    x, t = paired("huber_loss", input, target)
    size = ef.abs(x - t)
    losses = ef.where(size < delta, ef.square(size) * 0.5, (size - 0.5 * delta) * delta)
    return reduced(losses, reduction)


def kl_div(
    input: TensorLike,
    target: TensorLike,
    reduction: Literal["mean", "sum", "none", "batchmean"] = "mean",
    log_target: bool = False,
) -> ef.Tensor:
    """The Kullback-Leibler divergence ``target * (log(target) - input)``, element by element.

    Args:
        input: floating, logarithms of probabilities.
        target: floating, of the same shape: probabilities; or their logarithms, if
            ``log_target``.
        reduction: ``"batchmean"`` (the sum divided by the size of the first axis: the divergence
            per sample), ``"mean"`` over all elements, ``"sum"``, or ``"none"``.
        log_target: whether ``target`` holds logarithms.

    Raises:
        ShapeError: the shapes differ.

    >>> from eagerflow.nn import functional as F
    >>> p = ef.tensor([[0.5, 0.5]])
    >>> ef.round(F.kl_div(ef.log(ef.tensor([[0.25, 0.75]])), p, reduction="batchmean"), 3)
    Tensor(0.144, f32[]@cpu:0)
    """
    x, t = paired("kl_div", input, target)
    losses = ef.exp(t) * (t - x) if log_target else ef.xlogy(t, t) - t * x
    if reduction != "batchmean":
        return reduced(losses, reduction)
    return ef.sum(losses) / (x.shape[0] if x.shape else 1)


# --- vectors ----------------------------------------------------------------------------------


def cosine_similarity(
    x1: TensorLike, x2: TensorLike, axis: int = 1, eps: float = 1e-8
) -> ef.Tensor:
    """The cosine of the angle between vectors.

    Args:
        x1: floating; broadcasts against ``x2``.
        x2: likewise.
        axis: the axis of the vectors.
        eps: lower bound of the norms.

    >>> ef.nn.functional.cosine_similarity(ef.tensor([[3.0, 4.0]]), ef.tensor([[4.0, 3.0]]))
    Tensor([0.96], f32[1]@cpu:0)
    """
    a, b = ef.broadcast_arrays(ef.asarray(x1), ef.asarray(x2))
    norms = [ef.linalg.vector_norm(x, axis=axis, keepdims=True) for x in (a, b)]
    one, two = (x / ef.where(norm < eps, eps, norm) for x, norm in zip((a, b), norms, strict=True))
    return ef.sum(one * two, axis=axis)


def pairwise_distance(
    x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> ef.Tensor:
    """The distances of vectors along the last axis, ``eps`` added to each difference.

    Args:
        x1: floating; broadcasts against ``x2``.
        x2: likewise.
        p: the order of the norm.
        eps: keeps the derivative finite where the vectors are equal.
        keepdims: whether the last axis stays, with size 1.

    >>> from eagerflow.nn import functional as F
    >>> ef.round(F.pairwise_distance(ef.tensor([3.0, 4.0]), ef.tensor([0.0, 0.0])), 3)
    Tensor(5., f32[]@cpu:0)
    """
    difference = ef.asarray(x1) - ef.asarray(x2) + eps
    return ef.linalg.vector_norm(difference, axis=-1, ord=p, keepdims=keepdims)


def cosine_embedding_loss(
    input1: TensorLike,
    input2: TensorLike,
    target: TensorLike,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> ef.Tensor:
    """``1 - cosine`` for pairs that should be alike, ``relu(cosine - margin)`` for the others.

    Args:
        input1: floating, ``[N, size]`` or ``[size]``.
        input2: likewise.
        target: 1 for pairs that should be alike, -1 for others, ``[N]`` or ``[]``.
        margin: the cosine up to which a pair counts as different.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    >>> x = ef.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> ef.nn.functional.cosine_embedding_loss(x, x, ef.tensor([1, -1]), reduction="none")
    Tensor([0., 1.], f32[2]@cpu:0)
    """
    cosine = cosine_similarity(input1, input2, axis=-1)
    alike = ef.asarray(target) > 0
    return reduced(ef.where(alike, 1 - cosine, ef.relu(cosine - margin)), reduction)


def margin_ranking_loss(
    input1: TensorLike,
    input2: TensorLike,
    target: TensorLike,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> ef.Tensor:
    """The ranking loss of pairs: ``relu(-target * (input1 - input2) + margin)``.

    Args:
        input1: floating.
        input2: floating, of the same shape.
        target: 1 where ``input1`` should be larger, -1 where ``input2`` should.
        margin: the difference below which a pair in the right order still has a loss.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    >>> from eagerflow.nn import functional as F
    >>> F.margin_ranking_loss(ef.tensor([1.0, 2.0]), ef.tensor([0.0, 4.0]), ef.tensor([1, 1]))
    Tensor(1., f32[]@cpu:0)
    """
    x1, x2 = paired("margin_ranking_loss", input1, input2)
    return reduced(ef.relu((x2 - x1) * ef.asarray(target) + margin), reduction)


def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> ef.Tensor:
    """``relu(d(anchor, positive) - d(anchor, negative) + margin)`` for distances d (Balntas, 2016).

    Args:
        anchor: floating, ``[..., size]``.
        positive: likewise, vectors that should be near the anchors.
        negative: likewise, vectors that should be far from the anchors.
        margin: the difference of distances above which the loss is 0.
        p: the order of the norm.
        eps: keeps the derivative finite where vectors are equal.
        swap: whether ``d(positive, negative)`` counts instead where it is smaller than
            ``d(anchor, negative)``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"``.

    >>> a = ef.tensor([[0.0, 0.0]])
    >>> ef.round(ef.nn.functional.triplet_margin_loss(a, a + 1.0, a + 2.0), 3)
    Tensor(0., f32[]@cpu:0)
    """
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ef.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(ef.relu(near - far + margin), reduction)
