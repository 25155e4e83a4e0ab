"""Cotangents, and how the rule of one op pulls them back through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eagerflow.core.interpreter import AbstractInterpreter
from eagerflow.core.op import Op, bind, declare, functions, joint
from eagerflow.core.slices import IndexedSlices
from eagerflow.core.tensor import Tensor, make_tensor

__all__ = ["Cotangent", "add", "dense", "distinct", "fresh", "full_like", "owned", "pull"]

Cotangent = Tensor | IndexedSlices

_identity: Final = declare("identity")

#: ops of one input that do the same to each element, whose rules take the rows of a sparse
#: cotangent as they are
_BY_ROW: Final = frozenset({"identity", "copy", "cast", "negative"})


def fresh(x: Tensor) -> Tensor:
    """A tensor of the same value with an identity of its own."""
    result: Tensor = bind(_identity, x)
    return result


def distinct(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], below: AbstractInterpreter
) -> None:
    """Give outputs that are the very array of an input or of one another their own identity."""
    taken = [x._data for x in inputs]
    for out in outputs:
        data = out._data
        if any(data is other for other in taken):
            out._data = data = below.bind(_identity, (out,), {})._data
        taken.append(data)


def full_like(x: Any, value: float) -> Tensor:
    """A tensor of the type of ``x``, a tensor or a variable, filled with a number."""
    result: Tensor = functions["full"](x.shape, value, dtype=x.dtype, device=x.device)
    return result


def dense(g: Cotangent) -> Tensor:
    """A cotangent as a tensor."""
    return g.to_dense() if isinstance(g, IndexedSlices) else g


def add(a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two cotangents; sparse if both are."""
    if type(a) is Tensor and type(b) is Tensor:
        result: Tensor = functions["add"](a, b)
        return result
    return a + b


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
        if op.name in _BY_ROW:
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


def owned(g: Tensor) -> Tensor:
    """The value of ``g`` in a handle that nobody else updates in place."""
    return make_tensor(g._data, g._lane)
