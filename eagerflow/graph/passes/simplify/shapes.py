"""Rules of `simplify`: shapes, axes, and ops that do nothing once a graph is made."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eagerflow.dims import Size, same
from eagerflow.graph.ir import Value
from eagerflow.graph.passes.memory_order import MemoryLayout
from eagerflow.graph.passes.rewrite import Form
from eagerflow.graph.passes.simplify.site import RuleSite, rule


@rule("copy")
def copied(at: RuleSite) -> Value | None:
    """A copy, as values do not change."""
    return at.rows(at.inputs[0])


# --- shapes -----------------------------------------------------------------------------------


@rule("reshape")
def own_shape(at: RuleSite) -> Value | None:
    """``reshape`` to the shape that it has."""
    return at.view(at.inputs[0]) if at.attrs.get("copy") is None else None


@rule("reshape")
def reshaped_twice(at: RuleSite) -> Form | None:
    """``reshape`` of what only gave the same memory another shape."""
    inner = at.maker(at.inputs[0], "reshape", "expand_dims", "squeeze")
    if inner is None or at.attrs.get("copy") is not None or inner.attrs.get("copy") is not None:
        return None
    (x,) = inner.inputs
    if not same(prod(x.type.shape), prod(at.inputs[0].type.shape)):
        return None  # whether the first one is possible is seen at run time
    # a copy in between would have put the elements into another order
    view = (
        inner.op != "reshape"
        or at.memory.layout(x) == MemoryLayout.ROWS
        or len(x.type.shape) <= 1
        or refines(at.inputs[0].type.shape, x.type.shape)
    )
    return Form("reshape", (x,), at.attrs) if view else None


def refines(fine: Sequence[Size], coarse: Sequence[Size]) -> bool:
    """Whether ``fine`` splits the axes of ``coarse`` and joins none.

    >>> from eagerflow.graph.passes.simplify.shapes import refines
    >>> refines((2, 3, 1, 4), (6, 4)), refines((8, 3), (2, 4, 3)), refines((2, 12), (6, 4))
    (True, False, False)
    """
    rest = list(fine)
    for size in coarse:
        product: Any = 1
        while not same(product, size):
            if not rest:
                return False
            product = product * rest.pop(0)
    return all(same(size, 1) for size in rest)


@rule("broadcast_to", "sum_to")
def shape_already(at: RuleSite) -> Value | None:
    """``broadcast_to`` or ``sum_to`` the shape that it has."""
    return at.view(at.inputs[0])


# --- axes -------------------------------------------------------------------------------------


@rule("permute_dims")
def permuted(at: RuleSite) -> Value | Form | None:
    """An order of axes that is no other, and two of them as one."""
    axes: tuple[int, ...] = at.attrs["axes"]
    if axes == tuple(range(len(axes))):
        return at.view(at.inputs[0])
    inner = at.maker(at.inputs[0], "permute_dims")
    if inner is None:
        return None
    before = inner.attrs["axes"]
    return Form("permute_dims", inner.inputs, {"axes": tuple([before[a] for a in axes])})


@rule("concat")
def one_part(at: RuleSite) -> Value | None:
    """``concat`` of one array."""
    return at.rows(at.inputs[0]) if len(at.inputs) == 1 else None
