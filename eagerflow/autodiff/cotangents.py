"""Cotangents, and the pullback of one op by its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from eagerflow.core.op import Op, functions, joint
from eagerflow.core.slices import IndexedSlices
from eagerflow.core.tensor import Tensor
from eagerflow.dims import may_equal
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.state.lists import list_add, list_new
from eagerflow.types import LIST, TensorSpec, same_shape

__all__ = ["Cotangent", "add", "dense", "fit", "full_like", "pull"]

Cotangent = Tensor | IndexedSlices
_C = TypeVar("_C", Tensor, Tensor | IndexedSlices)


def full_like(x: Any, value: float) -> Tensor:
    """A tensor of the type of ``x``, a tensor or a variable, filled with a number."""
    if x.dtype is LIST:
        return list_new(x.device)
    result: Tensor = functions["full"](x.shape, value, dtype=x.dtype, device=x.device)
    return result


def dense(g: Cotangent) -> Tensor:
    """A cotangent as a tensor."""
    return g.to_dense() if isinstance(g, IndexedSlices) else g


def add(a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two cotangents; sparse if both are."""
    if type(a) is Tensor and type(b) is Tensor:
        if a.dtype is LIST:
            return list_add(a, b)
        result: Tensor = functions["add"](a, b)
        return result
    total: Cotangent = a + b
    return total


def fit(g: _C, type_: TensorSpec) -> _C | None:
    """A cotangent or tangent in the dtype of its value; None if it does not fit.

    Args:
        g: a tensor, or rows.
        type_: of the value.
    """
    if g.dtype.is_complex and not type_.dtype.is_complex:
        return None
    if len(g.shape) != len(type_.shape) or not all(map(may_equal, g.shape, type_.shape)):
        return None
    if isinstance(g, IndexedSlices):
        return g
    x = g
    if not same_shape(x.shape, type_.shape):
        wrong = "the cotangent or tangent of a value has another shape"
        x = matched(x, x.shape, type_.shape, wrong, f"{x.type} for {type_}")
    return cast(x, type_.dtype)


def pull(
    op: Op, wanted: Sequence[int], g: Any, out: Any, inputs: Sequence[Tensor],
    attrs: dict[str, Any],
) -> Sequence[Cotangent | None]:  # fmt: skip
    """The cotangents of the inputs of an op.

    Args:
        op: the op, differentiable.
        wanted: for each input a number that is not negative if its cotangent is wanted.
        g: the cotangent of the output; a tuple, without None, for ops of several outputs.
        out: the output, or the tuple of them.
        inputs: the inputs.
        attrs: the attributes.
    """
    if type(g) is IndexedSlices:
        if op.linear_rows:
            (rows,) = pull(op, wanted, g.values, out, inputs, attrs)
            return [None if rows is None else IndexedSlices(rows, g.indices, g.shape)]
        g = g.to_dense()
    rule = op.vjp
    if type(rule) is tuple:
        return [
            None if slot < 0 or one is None else one(g, out, *inputs, **attrs)
            for slot, one in zip(wanted, rule, strict=True)
        ]
    if isinstance(rule, joint):
        together: Sequence[Cotangent | None] = rule.rule(g, out, *inputs, **attrs)
        return together
    assert callable(rule)
    return [
        None if slot < 0 else rule(i, g, out, *inputs, **attrs) for i, slot in enumerate(wanted)
    ]
