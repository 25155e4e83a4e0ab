"""Kernels of softmax, its logarithm, the cross-entropy of class indices, and standardisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from eagerflow_kernels.table import Array, portable


def _shifted(xp: Any, x: Array, axis: int) -> Array:
    """``x`` minus its largest element along the axis, in memory of its own."""
    return xp.asarray(x - xp.max(x, axis=axis, keepdims=True))


@portable("softmax")
def softmax(xp: Any, x: Array, *, axis: int) -> Array:
    """exp(x) over its sum, computed from exp(x - largest), so that nothing overflows."""
    if x.size == 0:
        return x.copy()
    out = _shifted(xp, x, axis)
    xp.exp(out, out=out)
    out /= xp.sum(out, axis=axis, keepdims=True)
    return out


@portable("log_softmax")
def log_softmax(xp: Any, x: Array, *, axis: int) -> Array:
    """``x - log(sum(exp(x)))``, computed relative to the largest element, too."""
    if x.size == 0:
        return x.copy()
    out = _shifted(xp, x, axis)
    out -= xp.log(xp.sum(xp.exp(out), axis=axis, keepdims=True))
    return out


# --- cross-entropy of class indices ----------------------------------------------------------


@portable("check_labels")
def check_labels(
    xp: Any, labels: Array, *, num_classes: int, ignore_index: int | None, of: str
) -> Array:
    """The same labels, which are not checked, since that would wait for them."""
    return labels


def by_class(xp: Any, x: Array, axis: int) -> Array:
    """``x`` with the class axis last, as rows."""
    if axis == 1 and x.ndim == 2:
        return x
    if axis != x.ndim - 1:
        x = xp.moveaxis(x, axis, -1)
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # -1 has no value beside an axis of 0


def reduced(xp: Any, losses: Array, counted: Array, reduction: str) -> Array:
    """The losses of samples, their sum, or their mean over samples that are not ignored."""
    if reduction == "none":
        return losses
    total = xp.sum(losses)
    return total if reduction == "sum" else xp.divide(total, xp.sum(counted, dtype=losses.dtype))


def loss(xp: Any, x: Array, safe: Array, axis: int) -> Array:
    """The loss of each sample, along one axis; all labels are in range."""
    rows = by_class(xp, x, axis)
    if rows.size == 0:
        return xp.zeros(rows.shape[:1], dtype=x.dtype)
    rows = _shifted(xp, rows, -1)
    picked = rows[xp.arange(rows.shape[0]), safe.reshape(-1)]
    return xp.log(xp.sum(xp.exp(rows, out=rows), axis=-1)) - picked


def loss_gradient(
    xp: Any, softmax: Callable[..., Array], x: Array, safe: Array, axis: int, scale: Array
) -> Array:
    """The gradient of the loss, times ``scale``, one number or one per sample.

    ``softmax`` is the kernel of softmax.
    """
    rows = softmax(by_class(xp, x, axis), axis=-1)
    if rows.size:
        rows[xp.arange(rows.shape[0]), safe.reshape(-1)] -= 1
        rows *= scale.reshape(-1, 1) if scale.ndim else scale
    return as_before(xp, rows, x, axis)


def as_before(xp: Any, rows: Array, x: Array, axis: int) -> Array:
    """The array whose `by_class` is ``rows``, in the shape of ``x``."""
    if axis == 1 and x.ndim == 2:
        return rows
    if axis == x.ndim - 1:
        return rows.reshape(x.shape)
    moved = (*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis])
    return xp.moveaxis(rows.reshape(moved), -1, axis)


@portable("softmax_cross_entropy")
def softmax_cross_entropy(
    xp: Any, x: Array, labels: Array, *g: Array, axis: int, ignore_index: int, reduction: str
) -> Array:
    """The loss, or with ``g`` its gradient by ``x``; NaN for labels out of range."""
    labels = labels.astype("int64")
    counted = labels != ignore_index
    wrong = counted & ((labels < 0) | (labels >= x.shape[axis]))
    safe = xp.where(counted & ~wrong, labels, 0)
    if not g:
        losses = loss(xp, x, safe, axis).reshape(labels.shape)
        losses = xp.where(counted, xp.where(wrong, math.nan, losses), 0).astype(x.dtype)
        return reduced(xp, losses, counted, reduction).astype(x.dtype)
    scale = g[0] / xp.sum(counted, dtype=x.dtype) if reduction == "mean" else g[0]
    scale = xp.where(counted, xp.where(wrong, math.nan, scale), 0).astype(x.dtype)
    return loss_gradient(xp, partial(softmax, xp), x, safe, axis, scale)


@portable("softmax_cross_entropy_with_gradient")
def softmax_cross_entropy_with_gradient(
    xp: Any, x: Array, labels: Array, g: Array, **attrs: Any
) -> tuple[Array, Array]:
    """The loss and its gradient."""
    loss: Array = softmax_cross_entropy(xp, x, labels, **attrs)
    return loss, softmax_cross_entropy(xp, x, labels, g, **attrs)


# --- mean 0 and variance 1 --------------------------------------------------------------------


def standardized(
    xp: Any, total: Callable[..., Array], x: Array, axis: tuple[int, ...], eps: float, least: int
) -> tuple[Array, Array, Array]:
    """``x`` minus its mean, over its standard deviation, with mean and variance.

    ``total`` is the function for sums.
    """
    count = math.prod(x.shape[a] for a in axis)
    if count < least and x.size:
        raise ValueError(f"too few values for each mean and variance: {count}")
    divisor = count or math.nan  # no elements have no mean; 0 / 0 would warn
    mean = xp.divide(total(x, axis=axis, keepdims=True), divisor)
    rest = xp.asarray(x - mean)
    out = xp.asarray(rest * rest)
    var = xp.divide(total(out, axis=axis, keepdims=True), divisor)
    xp.multiply(rest, 1 / xp.sqrt(var + eps), out=out)
    return out, mean, var


@portable("standardize")
def standardize(
    xp: Any, x: Array, *, axis: tuple[int, ...], eps: float, least: int
) -> tuple[Array, Array, Array]:
    """Standardise in two passes: the mean, then the mean square of the differences from it."""
    return standardized(xp, xp.sum, x, axis, eps, least)
