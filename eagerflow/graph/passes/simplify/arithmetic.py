"""Rules of `simplify`: what follows from facts of ops, and choices.

Which numbers are neutral, and for which dtypes, is a fact of each op (`eagerflow.core.facts`).
"""

from __future__ import annotations

from eagerflow.graph.ir import Value
from eagerflow.graph.passes.simplify.site import RuleSite, gives_input, is_number, rule

# --- facts ------------------------------------------------------------------------------------


@rule()
def with_neutral(at: RuleSite) -> Value | None:
    """``x + 0``, ``1 * x``, ``x & -1`` and others that change nothing."""
    neutral = None if at.facts is None else at.facts.neutral
    number = None if neutral is None else neutral.numbers.get(at.kind)
    if neutral is None or number is None:
        return None
    if at.dtype is not None and at.kind == "unsigned integer":
        number %= 1 << 8 * at.dtype.itemsize
    x, y = at.inputs
    if is_number(at.constant(y), number):
        return at.copy(x)
    return at.copy(y) if neutral.left and is_number(at.constant(x), number) else None


@rule()
def twice(at: RuleSite) -> Value | None:
    """``--x`` and others that undo themselves."""
    if at.facts is None or not at.facts.involution:
        return None
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(inner.inputs[0], ())


@rule()
def again(at: RuleSite) -> Value | None:
    """``abs(abs(x))``, ``maximum(x, x)`` and others that change nothing the second time."""
    if at.facts is None or not at.facts.idempotent:
        return None
    if len(at.inputs) == 2:
        return at.copy(at.inputs[0]) if at.inputs[0] is at.inputs[1] else None
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(at.inputs[0])


@rule()
def nothing(at: RuleSite) -> Value | None:
    """``+x``, ``float(x)`` of a float, and what only differentiation tells from nothing."""
    given = at.facts is not None and gives_input(at.facts)
    return at.view(at.inputs[0]) if given else None


# --- choices ----------------------------------------------------------------------------------


@rule("where")
def decided(at: RuleSite) -> Value | None:
    """``where`` with a constant condition, or the same on both sides."""
    condition, x, y = at.inputs
    if x is y:
        return at.copy(x)
    truth = at.constant(condition)
    return None if truth is None else at.copy(x if truth else y)
