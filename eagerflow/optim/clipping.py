"""Clipping of gradients: by value, by the norm of each, or by the global norm."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import in_range, is_weak, tree
from eagerflow.hardware import beside, current_device
from eagerflow.optim.parameters import NAMES_GIVEN

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]


def clip_by_value(gradients: object, limit: float | ef.Tensor) -> Any:
    """Clip each element to the range from ``-limit`` to ``limit``.

    Args:
        gradients: a tree of tensors, `IndexedSlices` (rows that occur twice are added first) and
            None.
        limit: a positive number.

    Returns:
        A tree of the same structure.

    Raises:
        TensorValueError: the limit is not positive (if traced: raised at run time), or a leaf is
            something else, such as a variable.

    >>> ef.optim.clip_by_value([ef.tensor([0.5, -3.0]), None], 1.0)
    [Tensor([ 0.5, -1. ], f32[2]@cpu:0), None]
    """
    limit = _positive("clip_by_value: limit", limit)

    def clipped(g: ef.Tensor) -> ef.Tensor:
        bound = _beside(g, limit)
        return ef.clip(g, -bound, bound)

    return tree.map(
        lambda g: _over_values(clipped, _gradient("clip_by_value", g, gradients)), gradients
    )


def clip_by_norm(gradients: object, max_norm: float | ef.Tensor) -> Any:
    """Scale down each gradient whose own norm is above ``max_norm``.

    Args:
        gradients: a tree of tensors, `IndexedSlices` (rows that occur twice are added first) and
            None.
        max_norm: a positive number.

    Returns:
        A tree of the same structure.

    Raises:
        TensorValueError: the norm is not positive (if traced: raised at run time), or a leaf is
            something else, such as a variable.

    >>> ef.optim.clip_by_norm([ef.tensor([3.0, 4.0]), ef.tensor([0.1])], 1.0)
    [Tensor([0.6, 0.8], f32[2]@cpu:0), Tensor([0.1], f32[1]@cpu:0)]
    """
    max_norm = _positive("clip_by_norm: max_norm", max_norm)

    def clipped(g: Any) -> Any:
        g = _gradient("clip_by_norm", g, gradients)
        return _scaled(g, _factor(ef.sqrt(_squares(g)), max_norm))

    return tree.map(clipped, gradients)


def clip_by_global_norm(gradients: object, max_norm: float | ef.Tensor) -> tuple[Any, ef.Tensor]:
    """Scale down all gradients by one factor if their joint norm is above ``max_norm``.

    The direction of the step is unchanged (Pascanu, Mikolov and Bengio, 2013). Where an element
    is NaN or infinite, so is the norm, and the result is useless: ``ef.isfinite(norm)`` tells
    whether to update (`AbstractOptimiser.update` has an example), ``ef.config(check_nan=True)``
    where the NaN comes from.

    Args:
        gradients: a tree of tensors, `IndexedSlices` (rows that occur twice are added first) and
            None.
        max_norm: a positive number.

    Returns:
        A tree of the same structure, and the norm before clipping.

    Raises:
        TensorValueError: the norm is not positive (if traced: raised at run time), or a leaf is
            something else, such as a variable.

    >>> gradients = {"w": ef.tensor([3.0, 0.0]), "b": ef.tensor(4.0)}
    >>> clipped, norm = ef.optim.clip_by_global_norm(gradients, 1.0)
    >>> clipped["w"], norm
    (Tensor([0.6, 0. ], f32[2]@cpu:0), Tensor(5., f32[]@cpu:0))
    """
    max_norm = _positive("clip_by_global_norm: max_norm", max_norm)
    summed = tree.map(lambda g: _gradient("clip_by_global_norm", g, gradients), gradients)
    norm = _norm(summed)
    factor = _factor(norm, max_norm)
    return tree.map(lambda g: _scaled(g, factor), summed), norm


def global_norm(gradients: object) -> ef.Tensor:
    """The Euclidean norm of all gradients together, or of variables, in float32 at least.

    >>> ef.optim.global_norm([ef.tensor([3.0, 0.0]), None, ef.tensor(4.0)])
    Tensor(5., f32[]@cpu:0)
    """
    return _norm(tree.map(lambda g: _coalesced("global_norm", g, gradients), gradients))


# --- parts ------------------------------------------------------------------------------------


class _Weak(NamedTuple):
    """A weak number known only at run time, as a tensor ``f64[]``."""

    value: ef.Tensor


def _positive(what: str, limit: Any) -> Any:
    """The limit, checked at once, or at run time if only then known."""
    refusal, on = f"{what} is not positive", current_device()
    weak = is_weak(limit)
    if not weak:
        limit = float(limit) if isinstance(limit, int | float) else ef.asarray(limit)
    checked = in_range(limit, "positive", refusal, limit, dtype=ef.float64, on=on)
    return _Weak(checked) if weak and isinstance(checked, ef.Tensor) else checked


def _beside(x: ef.Tensor, limit: Any) -> Any:
    """The limit as an operand next to ``x``."""
    return limit.value.to(x.device).astype(x.dtype) if isinstance(limit, _Weak) else limit


def _gradient(what: str, g: Any, gradients: object) -> Any:
    """A gradient that is to be clipped; a variable in its place is taken for a mistake."""
    if isinstance(g, ef.Variable):
        raise TensorValueError(
            f"{what}: a variable is in the place of a gradient",
            given=repr(g),
            expected="a tree of tensors, IndexedSlices and None",
            hint="clip the gradients: loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)"
            "(x, y); values of variables are clipped one by one: v.assign(ef.clip(v, -c, c))",
        )
    return _coalesced(what, g, gradients)


def _coalesced(what: str, g: Any, gradients: object) -> Any:
    if isinstance(g, ef.IndexedSlices):
        return g.coalesce()
    if not isinstance(g, (ef.Tensor, ef.Variable)):
        raise TensorValueError(
            f"{what}: a leaf is not a tensor",
            given=f"{repr(g) if isinstance(g, str) else type(g).__name__}{_place(g, gradients)}",
            expected="a tree of tensors, IndexedSlices and None",
            hint=NAMES_GIVEN if isinstance(g, str) else None,
        )
    return ef.asarray(g)


def _place(leaf: Any, gradients: object) -> str:
    """Where a leaf is in its tree: `` at ['w'][0]``; nothing if it is the whole."""
    leaves, treedef = tree.flatten(gradients)
    path = next(p for p, x in zip(tree.paths(treedef), leaves, strict=True) if x is leaf)
    return f" at {path}" if path else ""


def _over_values(function: Callable[[ef.Tensor], ef.Tensor], g: Any) -> Any:
    with beside(g):
        if isinstance(g, ef.IndexedSlices):
            return ef.IndexedSlices(function(g.values), g.indices, g.shape)
        return function(g)


def _norm(gradients: Any) -> ef.Tensor:
    parts = [_squares(g) for g in tree.leaves(gradients)]
    if not parts:
        return ef.zeros(())
    device = parts[0].device
    return ef.sqrt(reduce(ef.add, [part.to(device) for part in parts]))


def _squares(g: Any) -> ef.Tensor:
    """The sum of squares."""
    with beside(g):
        return _squares_there(g.values if isinstance(g, ef.IndexedSlices) else g)


def _squares_there(values: ef.Tensor) -> ef.Tensor:
    if values.dtype.is_complex:
        values = ef.abs(values)
    if values.dtype.itemsize < 4:
        values = values.astype(ef.float32)  # the squares would overflow
    flat = values.reshape(-1)
    squares: ef.Tensor = flat @ flat
    return squares


def _factor(norm: ef.Tensor, max_norm: Any) -> ef.Tensor:
    limit = _beside(norm, max_norm)
    factor: ef.Tensor = limit / ef.maximum(norm, limit)
    return factor


def _scaled(g: Any, factor: ef.Tensor) -> Any:
    def scaled(values: ef.Tensor) -> ef.Tensor:
        real = values.dtype if values.dtype.is_floating else ef.abs(values).dtype
        return values * factor.astype(real).to(values.device)

    return _over_values(scaled, g)
