"""Ops that work element by element: arithmetic.

Each op is a record (type rule, gradient) and a public function; what it computes is its kernel in
``eagerflow_kernels/portable/elementwise.py``.
"""

from __future__ import annotations

from eagerflow.core.convert import TensorLike
from eagerflow.core.op import bind, define
from eagerflow.core.tensor import Tensor
from eagerflow.ops.gradients import sum_to_like
from eagerflow.ops.promotion import floating, promote
from eagerflow.ops.rules import ANY, INEXACT, NUMERIC, elementwise, public

__all__ = ["add", "conj", "divide", "exp", "multiply", "negative"]

# --- arithmetic -----------------------------------------------------------------------------

_add = define(
    "add",
    infer=elementwise(ANY),
    vjp=(
        lambda g, out, x1, x2: sum_to_like(g, x1),
        lambda g, out, x1, x2: sum_to_like(g, x2),
    ),
    saved="none",
)


@public
def add(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum of two arrays, element by element.

    Args:
        x1: any dtype; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype. Of bools, it is "or".

    >>> ef.add(ef.tensor([1.0, 2.0]), 10)
    Tensor([11., 12.], f32[2]@cpu:0)
    """
    result: Tensor = bind(_add, *promote(x1, x2))
    return result


_multiply = define(
    "multiply",
    infer=elementwise(ANY),
    vjp=(
        lambda g, out, x1, x2: sum_to_like(multiply(g, conj(x2)), x1),
        lambda g, out, x1, x2: sum_to_like(multiply(g, conj(x1)), x2),
    ),
    saved="inputs",
)


@public
def multiply(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The product of two arrays, element by element.

    Args:
        x1: any dtype; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype. Of bools, it is "and".

    >>> ef.multiply(ef.tensor([1.0, 2.0]), ef.tensor([[3.0], [4.0]]))
    Tensor([[3., 6.],
            [4., 8.]], f32[2,2]@cpu:0)
    """
    result: Tensor = bind(_multiply, *promote(x1, x2))
    return result


_divide = define(
    "divide",
    infer=elementwise(INEXACT),
    vjp=(
        lambda g, out, x1, x2: sum_to_like(divide(g, conj(x2)), x1),
        lambda g, out, x1, x2: sum_to_like(negative(multiply(g, conj(divide(out, x2)))), x2),
    ),
)


@public
def divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The quotient of two arrays, element by element; integers are divided as float32.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.divide(ef.tensor([1, 2]), 4)
    Tensor([0.25, 0.5 ], f32[2]@cpu:0)
    """
    a, b = promote(x1, x2)
    result: Tensor = bind(_divide, floating(a), floating(b))
    return result


_negative = define(
    "negative",
    infer=elementwise(NUMERIC),
    vjp=(lambda g, out, x: negative(g),),
    saved="none",
)


@public
def negative(x: TensorLike, /) -> Tensor:
    """Each element with its sign changed.

    Args:
        x: numeric.

    >>> ef.negative(ef.tensor([1.0, -2.0]))
    Tensor([-1.,  2.], f32[2]@cpu:0)
    """
    result: Tensor = bind(_negative, *promote(x))
    return result


# --- complex numbers ------------------------------------------------------------------------

_conj = define(
    "conj", infer=elementwise(NUMERIC), vjp=(lambda g, out, x: conj(g),), saved="none"
)


@public
def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate of each element; a real ``x`` comes back as it is.

    Args:
        x: numeric.

    >>> ef.conj(ef.tensor([1 + 2j]))
    Tensor([1.-2.j], c64[1]@cpu:0)
    """
    (tensor,) = promote(x)
    if not tensor._lane.dtype.is_complex:
        return tensor
    result: Tensor = bind(_conj, tensor)
    return result


# --- exponentials and logarithms ------------------------------------------------------------

_exp = define(
    "exp",
    infer=elementwise(INEXACT),
    vjp=(lambda g, out, x: multiply(g, conj(out)),),
    saved="outputs",
)


@public
def exp(x: TensorLike, /) -> Tensor:
    """e to the power of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.exp(ef.tensor([0.0, 1.0]))
    Tensor([1.       , 2.7182817], f32[2]@cpu:0)
    """
    result: Tensor = bind(_exp, floating(x))
    return result
