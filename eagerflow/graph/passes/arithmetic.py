"""Rules of `simplify`: arithmetic, logic, choices and conversions."""

from __future__ import annotations

from typing import Final

from eagerflow.graph.ir import Value
from eagerflow.graph.passes.rewrite import Form
from eagerflow.graph.passes.simplify import RuleSite, is_number, rule
from eagerflow.types import DTYPES, DType, TensorType

__all__: list[str] = []


def _is_complex(at: RuleSite) -> bool:
    """Complex multiplication mixes the parts: inf + 1j times one has a NaN."""
    kind = at.output.type
    return kind.dtype.is_complex if isinstance(kind, TensorType) else kind.kind is complex


def _is_integer(at: RuleSite) -> bool:
    kind = at.output.type
    return kind.dtype.is_integer if isinstance(kind, TensorType) else kind.kind is int


# --- arithmetic -------------------------------------------------------------------------------


@rule("multiply", "python_mul")
def times_one(at: RuleSite) -> Value | None:
    """``x * 1`` and ``1 * x``."""
    x, y = at.inputs
    if not _is_complex(at):
        if is_number(at.constant(y), 1):
            return at.copy(x)
        if is_number(at.constant(x), 1):
            return at.copy(y)
    return None


@rule("divide", "python_truediv", "pow", "python_pow", "floor_divide", "python_floordiv")
def by_one(at: RuleSite) -> Value | None:
    """``x / 1``; of integers ``x ** 1`` and ``x // 1`` (no library promises it of floats)."""
    x, y = at.inputs
    exact = "div" in at.op and "floor" not in at.op and not _is_complex(at)
    return at.copy(x) if (exact or _is_integer(at)) and is_number(at.constant(y), 1) else None


@rule("subtract", "python_sub")
def minus_zero(at: RuleSite) -> Value | None:
    """``x - 0``, which keeps a negative zero."""
    x, y = at.inputs
    return at.copy(x) if not _is_complex(at) and is_number(at.constant(y), 0) else None


@rule("add", "python_add")
def plus_zero(at: RuleSite) -> Value | None:
    """``x + 0`` of integers and bools; of floats ``x + -0.0``, as ``-0.0 + 0.0`` is 0.0."""
    x, y = at.inputs
    for value, zero in ((x, y), (y, x)):
        found = at.constant(zero)
        if found is not None and found == 0 and not _is_complex(at):
            negative = not is_number(found, 0)
            floating = not _is_integer(at) and at.dtype is not _BOOL
            if negative or not floating:
                return at.copy(value)
    return None


@rule("negative", "conj", "bitwise_invert", "logical_not", "python_neg")
def twice(at: RuleSite) -> Value | None:
    """``--x`` and others that undo themselves."""
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(inner.inputs[0], ())


@rule("abs", "ceil", "floor", "round", "trunc", "python_abs")
def again(at: RuleSite) -> Value | None:
    """``abs(abs(x))`` and others that change nothing the second time."""
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(at.inputs[0])


# --- integers, bits, logic --------------------------------------------------------------------


@rule("bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
def bits_of_zero(at: RuleSite) -> Value | None:
    """``x | 0``, ``x ^ 0``, ``x << 0``."""
    x, y = at.inputs
    if is_number(at.constant(y), 0):
        return at.copy(x)
    return at.copy(y) if "shift" not in at.op and is_number(at.constant(x), 0) else None


@rule("bitwise_and")
def all_bits(at: RuleSite) -> Value | None:
    """``x & -1``, and of unsigned integers and bools with all bits set."""
    dtype = at.dtype
    assert dtype is not None
    ones = {"bool": 1, "signed integer": -1}.get(dtype.kind, 2 ** (8 * dtype.itemsize) - 1)
    x, y = at.inputs
    for value, mask in ((x, y), (y, x)):
        if is_number(at.constant(mask), ones):
            return at.copy(value)
    return None


@rule("bitwise_and", "bitwise_or", "logical_and", "logical_or", "maximum", "minimum")
def of_itself(at: RuleSite) -> Value | None:
    """``x & x``, ``maximum(x, x)``."""
    x, y = at.inputs
    return at.copy(x) if x is y else None


@rule("logical_and", "logical_or", "logical_xor")
def with_a_bool(at: RuleSite) -> Value | None:
    """``x and True``, ``x or False`` of bools."""
    neutral = int(at.op == "logical_and")
    x, y = at.inputs
    for value, other in ((x, y), (y, x)):
        if is_number(at.constant(other), neutral):
            return at.copy(value)
    return None


# --- choices ----------------------------------------------------------------------------------


@rule("where")
def decided(at: RuleSite) -> Value | None:
    """``where`` with a constant condition, or the same on both sides."""
    condition, x, y = at.inputs
    if x is y:
        return at.copy(x)
    found = at.constant(condition)
    return None if found is None else at.copy(x if found else y)


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


_BOOL: Final = DTYPES["bool"]
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


# --- Python numbers ---------------------------------------------------------------------------


@rule("python_pos", "python_int", "python_float", "python_complex")
def number_as_it_is(at: RuleSite) -> Value | None:
    """``+x``, ``float(x)`` of a float."""
    return at.view(at.inputs[0])
