"""Softmax and cross-entropy for the CPU, where looking at labels makes nobody wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.cpu.reduction import total
from eagerflow_kernels.portable.softmax import by_class, loss_gradient, reduced, standardized
from eagerflow_kernels.table import special

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_add: Any = np.add.reduce  # without the Python code around it
_max: Any = np.maximum.reduce


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


def _check(
    labels: Array, classes: int, ignore_index: int | None, of: str = "classes"
) -> Array | None:
    """Which labels count; None if all do.

    Raises:
        IndexError: one is out of range.
    """
    # of the bits of a negative number an unsigned one is larger than any number of classes
    if labels.size == 0 or _max(labels.view(f"u{labels.itemsize}"), None) < classes:
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
    _check(labels, num_classes, ignore_index, of)
    return labels.view()


@special("softmax_cross_entropy", "cpu")
def softmax_cross_entropy(
    x: Array, labels: Array, *g: Array, axis: int, ignore_index: int, reduction: str
) -> Any:
    """As the portable kernel; a label out of range is an error."""
    counted = _check(labels, x.shape[axis], ignore_index)
    safe = labels if counted is None else np.where(counted, labels, 0)
    if not g:
        losses = _losses(by_class(np, x, axis), safe.reshape(-1))
        if counted is not None:
            losses[~counted.reshape(-1)] = 0
        losses = losses.reshape(labels.shape)
        if reduction == "mean" and counted is None and labels.size:
            return _add(losses, None) / labels.size
        counted = np.ones(labels.shape, bool) if counted is None else counted
        return reduced(np, losses, counted, reduction)
    scale: Any = g[0]
    if reduction == "mean":
        scale = scale / x.dtype.type(labels.size if counted is None else counted.sum())
    if counted is not None:
        scale = np.where(counted, scale, 0)
    return loss_gradient(np, softmax, x, safe, axis, scale.astype(x.dtype, copy=False))


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
