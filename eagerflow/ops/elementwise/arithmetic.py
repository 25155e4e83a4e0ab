"""Elementwise ops: arithmetic.

Each op has a record (type rule, gradient) and a public function; its kernel is in
`kernels/eagerflow_kernels/portable/elementwise.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import neutral
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, scalar, tensor_of
from eagerflow.ops.elementwise.logic import greater, less, logical_and, logical_or
from eagerflow.ops.rules.gradients import conjugate, sum_to_like, where
from eagerflow.ops.rules.promotion import floating, pair, promote, promote_floating
from eagerflow.ops.rules.remedies import DIVIDE, SQUARES
from eagerflow.ops.rules.type_rules import ANY, INEXACT, NUMERIC, REAL, binary, elementwise, unary

__all__ = [
    "add",
    "clip",
    "divide",
    "floor_divide",
    "fmod",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "positive",
    "reciprocal",
    "remainder",
    "subtract",
    "true_divide",
]

_add = binary(
    "add",
    ANY,
    lambda g, out, x1, x2: sum_to_like(g, x1),
    lambda g, out, x1, x2: sum_to_like(g, x2),
    saved="none",
    ieee=True,
    commutative=True,
    neutral=neutral(0, 0, -0.0, left=True),
    sums=True,
)


def add(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum of two arrays, element by element.

    Args:
        x1: any dtype; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype. For bools, addition is "or".

    >>> ef.add(ef.tensor([1.0, 2.0]), 10)
    Tensor([11., 12.], f32[2]@cpu:0)
    """
    return bind(_add, *pair(x1, x2))


_subtract = binary(
    "subtract",
    NUMERIC,
    lambda g, out, x1, x2: sum_to_like(g, x1),
    lambda g, out, x1, x2: -sum_to_like(g, x2),
    saved="none",
    ieee=True,
    neutral=neutral(None, 0, 0.0),
)


def subtract(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The difference of two arrays, element by element.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.subtract(ef.tensor([1.0, 2.0]), 10)
    Tensor([-9., -8.], f32[2]@cpu:0)
    """
    return bind(_subtract, *pair(x1, x2))


_multiply = binary(
    "multiply",
    ANY,
    lambda g, out, x1, x2: sum_to_like(g * conjugate(x2), x1),
    lambda g, out, x1, x2: sum_to_like(g * conjugate(x1), x2),
    saved="inputs",
    ieee=True,
    commutative=True,
    neutral=neutral(1, 1, 1.0, left=True),
    remedy=SQUARES,
)


def multiply(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The product of two arrays, element by element.

    Args:
        x1: any dtype; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype. For bools, multiplication is "and".

    >>> ef.multiply(ef.tensor([1.0, 2.0]), ef.tensor([[3.0], [4.0]]))
    Tensor([[3., 6.],
            [4., 8.]], f32[2,2]@cpu:0)
    """
    return bind(_multiply, *pair(x1, x2))


_divide = binary(
    "divide",
    INEXACT,
    lambda g, out, x1, x2: sum_to_like(g / conjugate(x2), x1),
    lambda g, out, x1, x2: -sum_to_like(g * conjugate(out / x2), x2),
    flops=40,
    ieee=True,
    neutral=neutral(None, None, 1.0),
    remedy=DIVIDE,
)


def divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The quotient of two arrays, element by element; integers are divided as float32.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.divide(ef.tensor([1, 2]), 4)
    Tensor([0.25, 0.5 ], f32[2]@cpu:0)
    """
    return bind(_divide, *promote_floating(x1, x2))


true_divide = divide

_floor_divide = define(
    "floor_divide",
    infer=elementwise(REAL),
    vjp=(None, None),
    neutral=neutral(None, 1, None),
    remedy=DIVIDE,
)


def floor_divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The quotient of two arrays, rounded towards negative infinity.

    Args:
        x1: real; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.floor_divide(ef.tensor([7, -7]), 2)
    Tensor([ 3, -4], i64[2]@cpu:0)
    """
    return bind(_floor_divide, *pair(x1, x2))


_remainder = binary(
    "remainder",
    REAL,
    lambda g, out, x1, x2: sum_to_like(g, x1),
    lambda g, out, x1, x2: -sum_to_like(g * (x1 // x2), x2),
    saved="inputs",
    remedy=DIVIDE,
)


def remainder(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The remainder with the sign of ``x2``: ``x1 - floor_divide(x1, x2) * x2``.

    Args:
        x1: real; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.remainder(ef.tensor([7, -7]), 4)
    Tensor([3, 1], i64[2]@cpu:0)
    """
    return bind(_remainder, *pair(x1, x2))


mod = remainder

_fmod = binary(
    "fmod",
    REAL,
    lambda g, out, x1, x2: sum_to_like(g, x1),
    # x1 - out is a whole multiple of x2
    lambda g, out, x1, x2: -sum_to_like(g * ((x1 - out) / x2), x2),
)


def fmod(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The remainder with the sign of ``x1`` (as in C).

    Args:
        x1: real; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.fmod(ef.tensor([7, -7]), 4)
    Tensor([ 3, -3], i64[2]@cpu:0)
    """
    return bind(_fmod, *pair(x1, x2))


_negative = unary(
    "negative",
    NUMERIC,
    lambda g, out, x: -g,
    saved="none",
    linear_rows=True,
    ieee=True,
    involution=True,
)


def negative(x: TensorLike, /) -> Tensor:
    """Each element with its sign changed.

    Args:
        x: numeric.

    >>> ef.negative(ef.tensor([1.0, -2.0]))
    Tensor([-1.,  2.], f32[2]@cpu:0)
    """
    return bind(_negative, tensor_of(x))


_positive = unary(
    "positive",
    NUMERIC,
    lambda g, out, x: g,
    saved="none",
    precision="exact",
    cost=FREE,
    storage="same",
    order="input",
    fails_on="nothing",
)


def positive(x: TensorLike, /) -> Tensor:
    """The identity: a new tensor of the same value.

    Args:
        x: numeric.

    >>> ef.positive(ef.tensor([1.0, -2.0]))
    Tensor([ 1., -2.], f32[2]@cpu:0)
    """
    return bind(_positive, tensor_of(x))


_reciprocal = unary(
    "reciprocal",
    INEXACT,
    lambda g, out, x: -(g * conjugate(out * out)),
    saved="outputs",
    remedy=DIVIDE,
)


def reciprocal(x: TensorLike, /) -> Tensor:
    """The reciprocal of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.reciprocal(ef.tensor([2.0, 4.0]))
    Tensor([0.5 , 0.25], f32[2]@cpu:0)
    """
    return bind(_reciprocal, floating(x))


# --- maximum, minimum, clipping -------------------------------------------------------------


def _extreme(name: str, wins: Callable[..., Tensor], loses: Callable[..., Tensor]) -> Op:
    """An op that takes the first operand where it ``wins``, the second where the first ``loses``.

    Equal operands share the cotangent equally.
    """

    def share(g: Tensor, taken: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
        return where(taken, g, where(x1 == x2, g * 0.5, 0.0))

    return binary(
        name,
        REAL,
        lambda g, out, x1, x2: sum_to_like(share(g, wins(x1, x2), x1, x2), x1),
        lambda g, out, x1, x2: sum_to_like(share(g, loses(x1, x2), x1, x2), x2),
        saved="inputs",
        idempotent=True,
    )


_maximum = _extreme("maximum", greater, less)


def maximum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The larger of two elements; NaN if either is NaN.

    Args:
        x1: real; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.maximum(ef.tensor([1.0, -2.0]), 0)
    Tensor([1., 0.], f32[2]@cpu:0)
    """
    return bind(_maximum, *pair(x1, x2))


_minimum = _extreme("minimum", less, greater)


def minimum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The smaller of two elements; NaN if either is NaN.

    Args:
        x1: real; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.minimum(ef.tensor([1.0, -2.0]), 0)
    Tensor([ 0., -2.], f32[2]@cpu:0)
    """
    return bind(_minimum, *pair(x1, x2))


_clip = define(
    "clip",
    infer=elementwise(REAL),
    vjp=(
        lambda g, out, x, low, high: sum_to_like(
            where(logical_and(x >= low, x <= high), g, 0.0), x
        ),
        lambda g, out, x, low, high: sum_to_like(
            where(logical_and(x < low, low <= high), g, 0.0), low
        ),
        lambda g, out, x, low, high: sum_to_like(
            where(logical_or(x > high, low > high), g, 0.0), high
        ),
    ),
    saved="inputs",
)


_clip_min = binary(
    "clip_min",
    REAL,
    lambda g, out, x, low: sum_to_like(where(x >= low, g, 0.0), x),
    lambda g, out, x, low: sum_to_like(where(x < low, g, 0.0), low),
    saved="inputs",
)

_clip_max = binary(
    "clip_max",
    REAL,
    lambda g, out, x, high: sum_to_like(where(x <= high, g, 0.0), x),
    lambda g, out, x, high: sum_to_like(where(x > high, g, 0.0), high),
    saved="inputs",
)


def clip(x: TensorLike, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Each element limited to a range; at its ends the derivative is still 1.

    Args:
        x: real; broadcasts against the limits.
        min: the lower limit, None for none; all three promote to one dtype.
        max: the upper limit, likewise; where it is less than ``min``, the result is ``max``.

    >>> ef.clip(ef.tensor([-1.0, 0.5, 2.0]), 0, 1)
    Tensor([0. , 0.5, 1. ], f32[3]@cpu:0)
    """
    if max is None:
        return positive(x) if min is None else bind(_clip_min, *pair(x, min))
    if min is None:
        return bind(_clip_max, *pair(x, max))
    return bind(_clip, *_three(x, min, max))


def _three(x: TensorLike, low: TensorLike, high: TensorLike) -> tuple[Tensor, ...]:
    """The operands promoted to one dtype; returns at once if no conversion is needed."""
    if type(x) is Tensor:
        weak = x._lane.weak
        if type(low) in weak and type(high) in weak:
            return x, scalar(low, x._lane), scalar(high, x._lane)
    return promote(x, low, high)
