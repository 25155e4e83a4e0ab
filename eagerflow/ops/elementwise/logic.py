"""Elementwise ops: comparison, logic, bits, and tests for NaN and infinities."""

from __future__ import annotations

from typing import Final

from eagerflow.core.interpreter import stack
from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.op_facts import OpFacts, neutral
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import TensorValueError
from eagerflow.ops.rules.promotion import cast, known_number, pair, promote
from eagerflow.ops.rules.type_rules import (
    ALL,
    ANY,
    BOOL,
    FLOATING,
    INTEGER,
    INTEGER_OR_BOOL,
    REAL,
    elementwise,
)
from eagerflow.types import DTYPES

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
    "signbit",
]

_BOOL = DTYPES["bool"]
_INT8 = DTYPES["int8"]

_OR: Final[OpFacts] = {
    "commutative": True, "idempotent": True, "neutral": neutral(0, 0, None, left=True)
}  # fmt: skip
_XOR: Final[OpFacts] = {"commutative": True, "neutral": neutral(0, 0, None, left=True)}
_AND: Final[OpFacts] = {**_OR, "neutral": neutral(1, -1, None, left=True)}
_SHIFT: Final[OpFacts] = {"neutral": neutral(None, 0, None)}

# --- comparison -----------------------------------------------------------------------------


def _comparands(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, ...]:
    """The operands in one dtype; substitutes for Python ints out of its range compare alike."""
    if stack.installed:
        x1, x2 = _told(x1, x2), _told(x2, x1)
    try:
        return pair(x1, x2)
    except TensorValueError:
        if type(x2) is int and isinstance(x1, Tensor):
            return promote(functions["zeros_like"](x1, dtype=_INT8), 1 if x2 > 0 else -1)
        if type(x1) is int and isinstance(x2, Tensor):
            return promote(1 if x1 > 0 else -1, functions["zeros_like"](x2, dtype=_INT8))
        raise


def _told(x: TensorLike, other: TensorLike) -> TensorLike:
    """A traced number made static if other values may not fit the dtype of the other operand."""
    if type(other) is not Tensor:
        return x
    dtype = other._lane.dtype
    return known_number(x) if dtype.is_integer and dtype.name != "int64" else x


_equal = define("equal", infer=elementwise(ALL, _BOOL), vjp=(None, None), takes_bytes=True)


def equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements are equal; NaN is equal to nothing.

    Args:
        x1: any dtype, also bytes; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.equal(ef.tensor([1, 2, 3]), 2)
    Tensor([False,  True, False], bool[3]@cpu:0)
    """
    return bind(_equal, *_comparands(x1, x2))


_not_equal = define("not_equal", infer=elementwise(ALL, _BOOL), vjp=(None, None), takes_bytes=True)


def not_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements differ; NaN differs from everything.

    Args:
        x1: any dtype, also bytes; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.not_equal(ef.tensor([1, 2, 3]), 2)
    Tensor([ True, False,  True], bool[3]@cpu:0)
    """
    return bind(_not_equal, *_comparands(x1, x2))


_less = define("less", infer=elementwise(REAL | BOOL, _BOOL), vjp=(None, None))


def less(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements of ``x1`` are less than those of ``x2``.

    Args:
        x1: real or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.less(ef.tensor([1, 2, 3]), 2)
    Tensor([ True, False, False], bool[3]@cpu:0)
    """
    return bind(_less, *_comparands(x1, x2))


_less_equal = define("less_equal", infer=elementwise(REAL | BOOL, _BOOL), vjp=(None, None))


def less_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements of ``x1`` are at most those of ``x2``.

    Args:
        x1: real or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.less_equal(ef.tensor([1, 2, 3]), 2)
    Tensor([ True,  True, False], bool[3]@cpu:0)
    """
    return bind(_less_equal, *_comparands(x1, x2))


_greater = define("greater", infer=elementwise(REAL | BOOL, _BOOL), vjp=(None, None))


def greater(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements of ``x1`` are greater than those of ``x2``.

    Args:
        x1: real or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.greater(ef.tensor([1, 2, 3]), 2)
    Tensor([False, False,  True], bool[3]@cpu:0)
    """
    return bind(_greater, *_comparands(x1, x2))


_greater_equal = define("greater_equal", infer=elementwise(REAL | BOOL, _BOOL), vjp=(None, None))


def greater_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether elements of ``x1`` are at least those of ``x2``.

    Args:
        x1: real or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.greater_equal(ef.tensor([1, 2, 3]), 2)
    Tensor([False,  True,  True], bool[3]@cpu:0)
    """
    return bind(_greater_equal, *_comparands(x1, x2))


# --- logic ----------------------------------------------------------------------------------


def _truths(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """The operands as bools: nonzero means true."""
    a, b = pair(x1, x2)
    return cast(a, _BOOL), cast(b, _BOOL)


_logical_and = define("logical_and", infer=elementwise(BOOL), vjp=(None, None), **_AND)


def logical_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether both elements are true.

    Args:
        x1: any dtype, nonzero means true; broadcasts against ``x2``.
        x2: likewise.

    >>> ef.logical_and(ef.tensor([True, True, False]), ef.tensor([True, False, False]))
    Tensor([ True, False, False], bool[3]@cpu:0)
    """
    return bind(_logical_and, *_truths(x1, x2))


_logical_or = define("logical_or", infer=elementwise(BOOL), vjp=(None, None), **_OR)


def logical_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether at least one of both elements is true.

    Args:
        x1: any dtype, nonzero means true; broadcasts against ``x2``.
        x2: likewise.

    >>> ef.logical_or(ef.tensor([True, True, False]), ef.tensor([True, False, False]))
    Tensor([ True,  True, False], bool[3]@cpu:0)
    """
    return bind(_logical_or, *_truths(x1, x2))


_logical_xor = define("logical_xor", infer=elementwise(BOOL), vjp=(None, None), **_XOR)


def logical_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether exactly one of both elements is true.

    Args:
        x1: any dtype, nonzero means true; broadcasts against ``x2``.
        x2: likewise.

    >>> ef.logical_xor(ef.tensor([True, True, False]), ef.tensor([True, False, False]))
    Tensor([False,  True, False], bool[3]@cpu:0)
    """
    return bind(_logical_xor, *_truths(x1, x2))


_logical_not = define("logical_not", infer=elementwise(BOOL), vjp=(None,), involution=True)


def logical_not(x: TensorLike, /) -> Tensor:
    """Whether each element is false.

    Args:
        x: any dtype, nonzero means true.

    >>> ef.logical_not(ef.tensor([True, False]))
    Tensor([False,  True], bool[2]@cpu:0)
    """
    return bind(_logical_not, cast(tensor_of(x), _BOOL))


# --- bits -----------------------------------------------------------------------------------

_bitwise_and = define("bitwise_and", infer=elementwise(INTEGER_OR_BOOL), vjp=(None, None), **_AND)


def bitwise_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that are set in both elements.

    Args:
        x1: integer or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.bitwise_and(ef.tensor([3, 4]), 6)
    Tensor([2, 4], i64[2]@cpu:0)
    """
    return bind(_bitwise_and, *pair(x1, x2))


_bitwise_or = define("bitwise_or", infer=elementwise(INTEGER_OR_BOOL), vjp=(None, None), **_OR)


def bitwise_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that are set in at least one of both elements.

    Args:
        x1: integer or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.bitwise_or(ef.tensor([3, 4]), 6)
    Tensor([7, 6], i64[2]@cpu:0)
    """
    return bind(_bitwise_or, *pair(x1, x2))


_bitwise_xor = define("bitwise_xor", infer=elementwise(INTEGER_OR_BOOL), vjp=(None, None), **_XOR)


def bitwise_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that are set in exactly one of both elements.

    Args:
        x1: integer or bool; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.bitwise_xor(ef.tensor([3, 4]), 6)
    Tensor([5, 2], i64[2]@cpu:0)
    """
    return bind(_bitwise_xor, *pair(x1, x2))


_bitwise_invert = define(
    "bitwise_invert", infer=elementwise(INTEGER_OR_BOOL), vjp=(None,), involution=True
)


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """Each element with all bits flipped.

    Args:
        x: integer or bool.

    >>> ef.bitwise_invert(ef.tensor([0, 1]))
    Tensor([-1, -2], i64[2]@cpu:0)
    """
    return bind(_bitwise_invert, tensor_of(x))


_bitwise_left_shift = define(
    "bitwise_left_shift", infer=elementwise(INTEGER), vjp=(None, None), **_SHIFT
)


def bitwise_left_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Bits moved to the left: ``x1`` times two to the power of ``x2``.

    Args:
        x1: integer; broadcasts against ``x2``.
        x2: likewise, not negative; both promote to one dtype.

    >>> ef.bitwise_left_shift(ef.tensor([1, 3]), 2)
    Tensor([ 4, 12], i64[2]@cpu:0)
    """
    return bind(_bitwise_left_shift, *pair(x1, x2))


_bitwise_right_shift = define(
    "bitwise_right_shift", infer=elementwise(INTEGER), vjp=(None, None), **_SHIFT
)


def bitwise_right_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Bits moved to the right, the sign kept: ``x1`` over two to the power of ``x2``.

    Args:
        x1: integer; broadcasts against ``x2``.
        x2: likewise, not negative; both promote to one dtype.

    >>> ef.bitwise_right_shift(ef.tensor([4, 13]), 2)
    Tensor([1, 3], i64[2]@cpu:0)
    """
    return bind(_bitwise_right_shift, *pair(x1, x2))


bitwise_not = bitwise_invert
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift

# --- tests of numbers -----------------------------------------------------------------------

_isfinite = define("isfinite", infer=elementwise(ANY, _BOOL), vjp=(None,))


def isfinite(x: TensorLike, /) -> Tensor:
    """Whether elements are neither infinite nor NaN.

    Args:
        x: any dtype.

    >>> ef.isfinite(ef.tensor([1.0, float("inf"), float("nan")]))
    Tensor([ True, False, False], bool[3]@cpu:0)
    """
    return bind(_isfinite, tensor_of(x))


_isinf = define("isinf", infer=elementwise(ANY, _BOOL), vjp=(None,))


def isinf(x: TensorLike, /) -> Tensor:
    """Whether elements are infinite.

    Args:
        x: any dtype.

    >>> ef.isinf(ef.tensor([1.0, float("inf"), float("nan")]))
    Tensor([False,  True, False], bool[3]@cpu:0)
    """
    return bind(_isinf, tensor_of(x))


_isnan = define("isnan", infer=elementwise(ANY, _BOOL), vjp=(None,))


def isnan(x: TensorLike, /) -> Tensor:
    """Whether elements are NaN.

    Args:
        x: any dtype.

    >>> ef.isnan(ef.tensor([1.0, float("inf"), float("nan")]))
    Tensor([False, False,  True], bool[3]@cpu:0)
    """
    return bind(_isnan, tensor_of(x))


_signbit = define("signbit", infer=elementwise(FLOATING, _BOOL), vjp=(None,))


def signbit(x: TensorLike, /) -> Tensor:
    """Whether the sign bit is set: for negative numbers, -0 and some NaNs.

    Args:
        x: floating.

    >>> ef.signbit(ef.tensor([1.0, -0.0, -2.0]))
    Tensor([False,  True,  True], bool[3]@cpu:0)
    """
    return bind(_signbit, tensor_of(x))
