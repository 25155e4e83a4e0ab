"""Softmax and cross-entropy for the CPU, where reading labels waits for no device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerflow_kernels.cpu.constants import constant
from eagerflow_kernels.cpu.reduction import total
from eagerflow_kernels.portable.softmax import (
    as_before,
    by_class,
    loss_gradient,
    standardized,
)
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]

_add: Any = np.add.reduce  # without the Python code around it
_max: Any = np.maximum.reduce
_INDEX: Any = np.dtype(np.int64)
_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


@special("softmax", "cpu")
def softmax(x: Array, *, axis: int) -> Any:
    """As the portable kernel."""
    if x.size == 0:
        return x.copy()
    out = np.subtract(x, _max(x, axis, None, None, True))
    np.exp(out, out=out)
    return np.divide(out, _add(out, axis, None, None, True), out=out)


@special("log_softmax", "cpu")
def log_softmax(x: Array, *, axis: int) -> Any:
    """As the portable kernel."""
    if x.size == 0:
        return x.copy()
    out = np.subtract(x, _max(x, axis, None, None, True))
    return np.subtract(out, np.log(_add(np.exp(out), axis, None, None, True)), out=out)


def counted_labels(
    labels: Array, classes: int, ignore_index: int | None, of: str = "classes"
) -> Array | None:
    """The mask of labels that are not ignored; None if no label is ignored.

    Raises:
        IndexError: a label is out of range.
    """
    # read as unsigned, a negative number is larger than any number of classes
    bits = labels.view(_UNSIGNED[labels.itemsize])
    if bits.size == 0 or bits.item(bits.argmax()) < classes:
        if ignore_index is None or not 0 <= ignore_index < classes:
            return None
        counted: Array = labels != ignore_index
        return counted
    wrong = (labels < 0) | (labels >= classes)
    counted = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    wrong &= counted
    if wrong.any():
        name = "label" if of == "classes" else "index"
        expected = f"0 to {classes - 1}" if classes else f"none, since there are no {of}"
        raise IndexError(
            f"{name} {labels[wrong].flat[0]} is out of range for {classes} {of}",
            expected if ignore_index is None else f"{expected}; or {ignore_index}, to be ignored",
        )
    return counted


@special("check_labels", "cpu")
def check_labels(labels: Array, *, num_classes: int, ignore_index: int | None, of: str) -> Array:
    """The same labels, if they are in range or ignored."""
    counted_labels(labels, num_classes, ignore_index, of)
    return labels.view()


@special("softmax_cross_entropy", "cpu")
def softmax_cross_entropy(
    x: Array, labels: Array, *g: Array, axis: int, ignore_index: int, reduction: str
) -> Any:
    """As the portable kernel; a label out of range is an error."""
    counted = counted_labels(labels, x.shape[axis], ignore_index)
    safe = labels if counted is None else np.where(counted, labels, 0)
    if not g:
        return reduced_losses(
            _losses(by_class(np, x, axis), safe.reshape(-1)), labels, counted, reduction
        )
    return loss_gradient(np, softmax, x, safe, axis, scale_of(g[0], x, labels, counted, reduction))


@special("softmax_cross_entropy_with_gradient", "cpu")
def softmax_cross_entropy_with_gradient(
    x: Array, labels: Array, g: Array, *, axis: int, ignore_index: int, reduction: str
) -> tuple[Any, Any]:
    """The losses and their gradient, by one softmax."""
    counted = counted_labels(labels, x.shape[axis], ignore_index)
    safe = labels if counted is None else np.where(counted, labels, 0)
    rows = by_class(np, x, axis)
    if rows.size == 0:
        losses = np.zeros(rows.shape[:1], rows.dtype)
        return reduced_losses(losses, labels, counted, reduction), x.copy()
    shares = np.subtract(rows, _max(rows, 1, None, None, True))
    elements, own = own_elements(shares, safe.reshape(-1))
    picked = elements[own]
    sums = _add(np.exp(shares, shares), 1, None, None, True)
    np.divide(shares, sums, shares)
    losses = np.log(sums.reshape(-1))
    np.subtract(losses, picked, losses)
    elements[own] = np.subtract(elements[own], constant(1, x.dtype))
    scale = scale_of(g, x, labels, counted, reduction)
    np.multiply(shares, scale.reshape(-1, 1) if scale.ndim else scale, shares)
    return reduced_losses(losses, labels, counted, reduction), as_before(np, shares, x, axis)


def own_elements(rows: Array, labels: Array) -> tuple[Array, Any]:
    """The rows, flat if contiguous, and the index in them of the elements that labels pick."""
    if not rows.flags.c_contiguous:
        return rows, (np.arange(len(rows)), labels)
    index = np.arange(0, rows.size, rows.shape[1], dtype=_INDEX)
    return rows.reshape(-1), np.add(index, labels.astype(_INDEX, copy=False), index)


def reduced_losses(losses: Array, labels: Array, counted: Array | None, reduction: str) -> Any:
    """The losses of samples, their sum, or their mean."""
    if counted is not None:
        losses[~counted.reshape(-1)] = 0
    losses = losses.reshape(labels.shape)
    if reduction == "none":
        return losses
    total = _add(losses, None)
    return total if reduction == "sum" else total / total.dtype.type(_count(labels, counted))


def _count(labels: Array, counted: Array | None) -> float:
    """Number of labels not ignored; NaN if there are none, as a division by 0 would warn."""
    count = labels.size if counted is None else np.count_nonzero(counted)
    return float(count) or math.nan


def scale_of(g: Any, x: Array, labels: Array, counted: Array | None, reduction: str) -> Any:
    """The weight of the loss of each sample, or of all samples."""
    if reduction == "mean":
        g = g / x.dtype.type(_count(labels, counted))
    if counted is not None:
        g = np.where(counted, g, 0)
    return g.astype(x.dtype, copy=False)


def _losses(rows: Array, labels: Array) -> Any:
    """The loss of each row."""
    if rows.size == 0:
        return np.zeros(rows.shape[:1], rows.dtype)
    rows = np.subtract(rows, _max(rows, 1, None, None, True))
    picked = rows[np.arange(len(rows)), labels]
    return np.subtract(np.log(_add(np.exp(rows, out=rows), 1)), picked)


@special("standardize", "cpu")
def standardize(x: Array, *, axis: tuple[int, ...], eps: float, least: int) -> Any:
    """As the portable kernel, with sums that keep their precision along any axis."""
    return standardized(np, total, x, axis, eps, least)
