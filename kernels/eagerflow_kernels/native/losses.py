"""Cross-entropy of class indices: one kernel over the classes, and NumPy for the samples.

Work per sample, such as picking the score of its class, is left to NumPy: it takes little time
beside exponentials of all scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow_kernels.cpu.softmax import counted_labels, own_elements, reduced_losses, scale_of
from eagerflow_kernels.native.loop_form import Kind
from eagerflow_kernels.portable.softmax import as_before, by_class

Array = np.ndarray[Any, Any]

_KINDS: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}


def losses_by(function: Callable[[str, Kind], Any]) -> dict[str, Callable[..., Any]]:
    """The callable forms of cross-entropies.

    Args:
        function: gives the function of NumPy of a part (`op_rules.loss_loops`).
    """

    def both(
        x: Array, labels: Array, g: Array, *, axis: int, ignore_index: int, reduction: str
    ) -> tuple[Any, Any]:
        """The loss and its gradient."""
        counted = counted_labels(labels, x.shape[axis], ignore_index)
        safe = labels if counted is None else np.where(counted, labels, 0)
        rows = by_class(np, x, axis)
        if rows.size == 0:
            losses = np.zeros(rows.shape[:1], rows.dtype)
            return reduced_losses(losses, labels, counted, reduction), x.copy()
        scale = scale_of(g, x, labels, counted, reduction)
        scale = scale.reshape(-1) if scale.ndim else scale
        shares, logs, tops = function("shares_and_losses", _KINDS[x.dtype.name])(rows, scale)
        losses = _losses(rows, safe.reshape(-1), logs, tops)
        elements, own = own_elements(shares, safe.reshape(-1))
        elements[own] = np.subtract(elements[own], scale)
        loss = reduced_losses(losses, labels, counted, reduction)
        return loss, as_before(np, shares, x, axis)

    def one(
        x: Array, labels: Array, *g: Array, axis: int, ignore_index: int, reduction: str
    ) -> Any:
        """The loss, or with ``g`` its gradient."""
        attrs: dict[str, Any] = {"axis": axis, "ignore_index": ignore_index, "reduction": reduction}
        if g:
            return both(x, labels, g[0], **attrs)[1]
        counted = counted_labels(labels, x.shape[axis], ignore_index)
        safe = labels if counted is None else np.where(counted, labels, 0)
        rows = by_class(np, x, axis)
        if rows.size == 0:
            losses = np.zeros(rows.shape[:1], rows.dtype)
        else:
            number = x.dtype.type(1)
            logs, tops = function("losses", _KINDS[x.dtype.name])(rows, number)
            losses = _losses(rows, safe.reshape(-1), logs, tops)
        return reduced_losses(losses, labels, counted, reduction)

    return {"softmax_cross_entropy": one, "softmax_cross_entropy_with_gradient": both}


def _losses(rows: Array, labels: Array, logs: Array, tops: Array) -> Any:
    """The loss of each row."""
    picked = rows[np.arange(len(rows)), labels]
    with np.errstate(invalid="ignore"):  # native kernels do not warn of NaNs
        return np.subtract(logs, np.subtract(picked, tops))
