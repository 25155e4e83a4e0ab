"""Norms of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.elementwise.signs_and_rounding import abs, sign
from eagerflow.ops.linalg.singular_values import svdvals
from eagerflow.ops.reduction import totals as reduction
from eagerflow.ops.rules.arguments import axes_of, check_choice, matrices_of
from eagerflow.ops.rules.gradients import safe_quotient, spread, where
from eagerflow.ops.rules.promotion import cast, floating
from eagerflow.ops.rules.type_rules import INEXACT, check_kind, real_dtype, reduced_shape
from eagerflow.ops.shape.reshape_and_transpose import expand_dims, moveaxis, reshape
from eagerflow.types import TensorType

_INF = float("inf")
_MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, _INF, -_INF)

# --- vectors --------------------------------------------------------------------------------


def _vector_norm_type(
    x: TensorType, *, axis: tuple[int, ...], ord: float, keepdims: bool
) -> TensorType:
    check_kind(x, INEXACT)
    return x.like(shape=reduced_shape(x.shape, axis, keepdims), dtype=real_dtype(x.dtype))


def _vector_norm_vjp(
    g: Tensor, out: Tensor, x: Tensor, *, axis: tuple[int, ...], ord: float, keepdims: bool
) -> Tensor | None:
    g, out = (spread(t, x, axis, keepdims) for t in (g, out))
    if ord == 0:
        return None
    if ord == 2:
        return x * safe_quotient(g, out)
    if ord == 1:
        return g * sign(x)
    size = abs(x)
    if ord in (_INF, -_INF):
        ties = cast(size == out, g.dtype)
        share = ties / reduction.sum(ties, axis=axis, keepdims=True)
        return g * share * sign(x)
    ratio = safe_quotient(size, out)
    zero = ratio == 0
    slope = where(zero, 0, where(zero, 1, ratio) ** (ord - 1))
    return g * slope * sign(x)


_vector_norm = define(
    "vector_norm",
    infer=_vector_norm_type,
    vjp=(_vector_norm_vjp,),
    precision="accumulate",
    cost=per_input(4),
    batch=shifted("axis"),
)


def _order(name: str, ord: object) -> float:
    if isinstance(ord, (int, float)):
        return float(ord)
    raise TensorValueError(
        f"{name}: {ord!r} is not an order",
        expected="a number",
        hint="the distance of two arrays is ef.linalg.norm(x - y)",
    )


def vector_norm(
    x: TensorLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """The norm of vectors: ``sum(abs(x) ** ord) ** (1 / ord)``. Its gradient at 0 is 0.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes that form a vector; all if None.
        keepdims: whether the reduced axes stay, with size 1.
        ord: the order, any number; 0 counts nonzero elements, infinity is the largest magnitude,
            minus infinity the smallest.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.linalg.vector_norm(ef.tensor([3.0, -4.0]))
    Tensor(5., f32[]@cpu:0)
    """
    tensor = floating(x)
    return bind(
        _vector_norm,
        tensor,
        axis=axes_of("vector_norm", tensor, axis),
        ord=_order("vector_norm", ord),
        keepdims=bool(keepdims),
    )


# --- matrices -------------------------------------------------------------------------------


def _extreme_sum(x: Tensor, axis: int, largest: bool) -> Tensor:
    """The largest or smallest of the sums of magnitudes over one of the last two axes."""
    sums = reduction.sum(abs(x), axis=axis, keepdims=True)
    other = -3 - axis
    if largest:
        # magnitudes are not negative, so this is the largest, and 0 for no magnitudes
        return vector_norm(sums, axis=other, keepdims=True, ord=_INF)
    return reduction.min(sums, axis=other, keepdims=True)


def _kept_matrix_norm(x: Tensor, ord: object) -> Tensor:
    """The matrix norm, with both axes kept at size 1."""
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=True)
    if ord == "nuc":
        return expand_dims(reduction.sum(svdvals(x), axis=-1), (-2, -1))
    if ord == 2:
        return expand_dims(vector_norm(svdvals(x), axis=-1, ord=_INF), (-2, -1))
    if ord == -2:
        return expand_dims(reduction.min(svdvals(x), axis=-1), (-2, -1))
    return _extreme_sum(x, axis=-2 if ord in (1, -1) else -1, largest=ord in (1, _INF))


def matrix_norm(
    x: TensorLike,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",
) -> Tensor:
    """The norm of each matrix.

    Args:
        x: matrices, floating or complex; integers count as float32.
        keepdims: whether the last two axes stay, with size 1.
        ord: ``"fro"`` (norm of all elements as one vector), ``"nuc"`` (sum of singular values),
            2 and -2 (largest and smallest singular value), 1 and -1 (largest and smallest sum of
            magnitudes in a column), infinity and minus infinity (in a row).

    Raises:
        ShapeError: ``x`` has fewer than two axes.
        TensorValueError: the order is unknown.

    >>> ef.linalg.matrix_norm(ef.tensor([[3.0, 0.0], [0.0, 4.0]]))
    Tensor(5., f32[]@cpu:0)
    """
    tensor = matrices_of("matrix_norm", floating(x))
    ord = "fro" if ord is None else ord
    check_choice("matrix_norm", ord, _MATRIX_ORDERS, "an order")
    result = _kept_matrix_norm(tensor, ord)
    return result if keepdims else reshape(result, tensor.shape[:-2])


def norm(
    x: TensorLike,
    ord: float | Literal["fro", "nuc"] | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """NumPy's norm: vector norms for one axis, matrix norms for two axes.

    Args:
        x: floating or complex; integers count as float32.
        ord: as for `vector_norm` or `matrix_norm`; by default the root of the sum of squares.
        axis: the axis of vectors, or the two axes of matrices. By default all; with an order,
            ``x`` is then a vector or a matrix.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        ShapeError: the number of axes is neither one nor two.

    >>> ef.linalg.norm(ef.tensor([[3.0, 0.0], [0.0, 4.0]]), axis=0)
    Tensor([3., 4.], f32[2]@cpu:0)
    """
    tensor = floating(x)
    axes = axes_of("norm", tensor, axis)
    if ord is None and (axis is None or len(axes) == 2):
        return vector_norm(tensor, axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(
            tensor, axis=axes, keepdims=keepdims, ord=_order("norm", 2 if ord is None else ord)
        )
    if len(axes) != 2:
        raise ShapeError(
            f"norm: of {len(axes)} axes",
            given=f"x={type_of(tensor)}, ord={ord!r}, axis={axis!r}",
            expected="one axis for vectors or two for matrices",
        )
    result = matrix_norm(moveaxis(tensor, axes, (-2, -1)), ord=ord)
    return expand_dims(result, axes) if keepdims else result
