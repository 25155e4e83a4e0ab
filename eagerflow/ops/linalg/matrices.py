"""Helpers of linear algebra: checks for type rules, and steps of gradient rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from eagerflow.core.op import Op, Rule, bind, define, functions, joint
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.cost_formulas import decomposition
from eagerflow.core.op_records.op_facts import OpFacts
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, may_equal, minimum
from eagerflow.errors import ShapeError
from eagerflow.hardware import home_of
from eagerflow.ops.creation.ranges import eye
from eagerflow.ops.elementwise.logic import logical_and
from eagerflow.ops.rules.gradients import conjugate, where
from eagerflow.ops.rules.type_rules import INEXACT, check_kind
from eagerflow.ops.shape.reshape_and_transpose import expand_dims, matrix_transpose
from eagerflow.types import DTYPES, DType, TensorType

_COMPLEX = {"float64": "complex128", "complex128": "complex128"}


def matrix_op(
    name: str,
    infer: Callable[..., Any],
    vjp: tuple[Rule | None, ...] | joint,
    *,
    flops: float,
    **facts: Unpack[OpFacts],
) -> Op:
    """Define an op on each matrix of a stack.

    Args:
        name: name of the op.
        infer: its type rule.
        vjp: its reverse-mode rule.
        flops: its number of operations for an n x n matrix, divided by n**3.
        facts: its further facts (see `eagerflow.core.op.define`).
    """
    known: OpFacts = {
        "precision": "accumulate",
        "cost": decomposition(flops),
        "batch": aligned,
        **facts,
    }
    return define(name, infer=infer, vjp=vjp, **known)


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose components have ``dtype``, or ``dtype`` itself if complex."""
    return DTYPES[_COMPLEX.get(dtype.name, "complex64")]


def check_matrix(x: TensorType, what: str = "x") -> None:
    """Raise unless ``x`` is a floating or complex matrix or stack of matrices."""
    check_kind(x, INEXACT)
    if x.ndim < 2:
        raise ShapeError(
            f"{what} is not a matrix or a stack of matrices", expected="at least two axes"
        )


def check_square(x: TensorType, what: str = "x") -> None:
    """Raise unless ``x`` is a square floating or complex matrix or stack of such matrices."""
    check_matrix(x, what)
    rows, columns = x.shape[-2:]
    if not may_equal(rows, columns):
        raise ShapeError(
            f"the matrices of {what} are not square ({rows} by {columns})",
            expected="the last two sizes equal",
        )


def conj_transpose(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return matrix_transpose(conjugate(x))


def hermitian_part(x: Tensor) -> Tensor:
    """The mean of each matrix and its conjugate transpose."""
    return (x + conj_transpose(x)) * 0.5


def identity_like(x: Tensor) -> Tensor:
    """The identity matrix of the size of the last axis of ``x``."""
    return eye(x.shape[-1], dtype=x.dtype, device=home_of(x.device))


def gaps(values: Tensor) -> Tensor:
    """``values[j] - values[i]`` at row i and column j, but 1 on the diagonal."""
    differences = expand_dims(values, -2) - expand_dims(values, -1)
    return differences + identity_like(values)


def quotient(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``, with 0 for 0 / 0."""
    nothing = logical_and(x == 0, y == 0)
    return x / where(nothing, 1, y)


def add_if(x: Tensor, y: Tensor, count: Size) -> Tensor:
    """``x + y``, but ``x`` where ``count`` is 0: adding a 0 instead would turn -0 into 0."""
    if type(count) is int:
        return x + y if count else x
    both = functions["concat"]([expand_dims(x), expand_dims(y)[: minimum(count, 1)]])
    return functions["sum"](both, axis=0)


def multilinear_jvp(
    op: Op, tangents: Sequence[Tensor | None], xs: Sequence[Tensor], attrs: Mapping[str, Any]
) -> Tensor | None:
    """The tangent of an op that is linear in each of its inputs ``xs``."""
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            term = bind(op, *xs[:i], t, *xs[i + 1 :], **attrs)
            total = term if total is None else total + term
    return total


def scale_columns(x: Tensor, scale: Tensor) -> Tensor:
    """Each matrix with its columns scaled."""
    return x * expand_dims(scale, -2)


def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    """Each matrix with its rows scaled."""
    return x * expand_dims(scale, -1)
