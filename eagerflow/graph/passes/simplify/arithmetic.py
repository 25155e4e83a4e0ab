"""Rules of `simplify`: what follows from facts of ops, choices and conversions.

Which numbers are neutral, and for which dtypes, is a fact of each op (`eagerflow.core.facts`).
"""

from __future__ import annotations

from typing import Final

from eagerflow.graph.ir import Value
from eagerflow.graph.passes.rewrite import Form
from eagerflow.graph.passes.simplify.site import RuleSite, gives_input, is_number, rule
from eagerflow.types import DType, TensorType

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


# --- conversions ------------------------------------------------------------------------------


@rule("cast")
def to_own_dtype(at: RuleSite) -> Value | None:
    """A conversion to the dtype that it has."""
    return at.copy(at.inputs[0])


@rule("cast")
def there_and_back(at: RuleSite) -> Value | None:
    """A conversion to a dtype that holds all values, and back."""
    before = _converted_before(at)
    if before is None:
        return None
    x, first, middle = before
    return at.copy(x, ()) if _holds(middle, first) else None


@rule("cast")
def of_a_wider_integer(at: RuleSite) -> Form | None:
    """A conversion of integers by way of more bits: only the last bits are left."""
    before = _converted_before(at)
    if before is None or at.dtype is None:
        return None
    x, first, middle = before
    integers = first.is_integer and middle.is_integer and at.dtype.is_integer
    wide = middle.itemsize >= at.dtype.itemsize
    return Form("cast", (x,), at.attrs) if integers and wide else None


def _converted_before(at: RuleSite) -> tuple[Value, DType, DType] | None:
    """Where what is converted was converted itself: from which value, of and to which dtype."""
    inner = at.maker(at.inputs[0], "cast")
    if inner is None:
        return None
    middle, (x,) = at.inputs[0].type, inner.inputs
    assert isinstance(middle, TensorType)
    assert isinstance(x.type, TensorType)
    return x, x.type.dtype, middle.dtype


_MANTISSAS: Final = {"float16": 11, "float32": 24, "float64": 53}


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether ``wide`` has every value of ``narrow``; dtypes of NumPy only."""
    if narrow.kind == "bool":
        return wide.is_native and not wide.is_complex
    if narrow.is_integer:
        if wide.is_integer:
            signed = (wide.kind == "signed integer", narrow.kind == "signed integer")
            if signed[0] == signed[1]:
                return wide.itemsize >= narrow.itemsize
            return signed[0] and wide.itemsize > narrow.itemsize
        return _MANTISSAS.get(wide.name, 0) >= 8 * narrow.itemsize
    native = wide.is_native and narrow.is_native
    return native and wide.kind == narrow.kind and wide.itemsize >= narrow.itemsize
