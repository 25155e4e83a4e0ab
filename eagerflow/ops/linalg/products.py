"""Products of matrices, vectors and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import BatchSite, aligned
from eagerflow.core.op_records.cost_formulas import product
from eagerflow.core.op_records.op_facts import OpFacts, of_family
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import Size, may_equal
from eagerflow.errors import AxisError, ShapeError
from eagerflow.ops.linalg.matrices import multilinear_jvp
from eagerflow.ops.rules.arguments import as_index, axes_of, axis_of
from eagerflow.ops.rules.gradients import conjugate, sum_to_like
from eagerflow.ops.rules.promotion import promote
from eagerflow.ops.rules.remedies import SQUARES
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.rules.type_rules import ANY, NUMERIC, check_kind, check_same_dtype, elementwise
from eagerflow.ops.shape.reshape_and_transpose import (
    expand_dims,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from eagerflow.types import Shape, TensorType, broadcast_shapes, same_shape

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
]

_PRODUCT: Final[OpFacts] = {
    "saved": "inputs", "precision": "accumulate", "cost": product, "storage": "fresh",
    "fails_on": "sizes",
}  # fmt: skip

# --- matmul ---------------------------------------------------------------------------------


@of_family(_PRODUCT)
def _matmul_type(x1: TensorType, x2: TensorType) -> TensorType:
    check_kind(x1, ANY)
    check_same_dtype(x1, x2)
    if not x1.shape or not x2.shape:
        which = "x1" if not x1.shape else "x2"
        raise ShapeError(
            f"{which} has no axes", expected="at least one axis", hint="use * with a scalar"
        )
    rows, columns = x1.shape[-2:-1], x2.shape[-1:] if x2.ndim > 1 else ()
    inner, other = x1.shape[-1], x2.shape[-2 if x2.ndim > 1 else 0]
    if not may_equal(inner, other):
        raise ShapeError(
            f"inner dimensions differ ({inner} and {other})",
            expected="as many columns of x1 as rows of x2",
        )
    return x1.like(shape=broadcast_shapes(x1.shape[:-2], x2.shape[:-2]) + rows + columns)


def _rows(x: Tensor) -> Tensor:
    """``x`` with all axes but the last merged into one."""
    return reshape(x, (prod(x.shape[:-1]), x.shape[-1]))


def _matmul_vjp_x1(g: Tensor, out: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    factor = conjugate(x2)
    if x2.ndim == 1:
        return (expand_dims(g, -1) if x1.ndim > 1 else g) * factor
    if x1.ndim == 1:
        if x2.ndim == 2:
            return factor @ g
        columns = factor @ expand_dims(g, -1)
        return sum_to_like(reshape(columns, x2.shape[:-1]), x1)
    return sum_to_like(g @ matrix_transpose(factor), x1)


def _matmul_vjp_x2(g: Tensor, out: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    factor = conjugate(x1)
    if x1.ndim == 1:
        if x2.ndim == 1:
            return g * factor
        return expand_dims(factor, -1) * expand_dims(g, -2)
    if x2.ndim == 1:
        return reshape(g, (prod(g.shape),)) @ _rows(factor)
    if x2.ndim == 2:  # one product over the whole batch, not a sum of products
        return bind(_matmul_like, matrix_transpose(_rows(factor)), _rows(g), x2)
    return sum_to_like(matrix_transpose(factor) @ g, x2)


@of_family(_PRODUCT)
def _matmul_like_type(x1: TensorType, x2: TensorType, like: TensorType) -> TensorType:
    return _matmul_type(x1, x2)


def _batched_product(at: BatchSite) -> Tensor:
    """The batching rule: a matrix shared by all rows makes one product; else rows are a batch."""
    one, two = len(at.shape(0)), len(at.shape(1))
    x1, x2 = at.inputs[:2]
    if not at.batched[1] and two == 2:
        if one == 1:
            return matmul(x1, x2)
        return reshape(matmul(_rows(x1), x2), (*x1.shape[:-1], x2.shape[-1]))
    if not at.batched[0] and (one, two) == (2, 1):
        return matmul(x2, matrix_transpose(x1))
    if one == 1:
        x1 = expand_dims(x1, -2)
    if two == 1:
        x2 = expand_dims(x2, -1)
    rank = max(one, two, 2)
    factors = [
        reshape(x, (x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])) if own else x
        for x, own in zip((x1, x2), at.batched, strict=False)
    ]
    product = matmul(*factors)
    dropped = tuple(axis for axis, ndim in ((-2, one), (-1, two)) if ndim == 1)
    return squeeze(product, dropped) if dropped else product


# The gradient of a matrix. It has the memory order of the matrix, so that the update of a weight
# that the layer transposes does not stride through memory.
_matmul_like = define(
    "matmul_like",
    infer=_matmul_like_type,
    vjp=(
        lambda g, out, x1, x2, like: g @ matrix_transpose(conjugate(x2)),
        lambda g, out, x1, x2, like: matrix_transpose(conjugate(x1)) @ g,
        None,
    ),
    jvp=lambda t, out, x1, x2, like: multilinear_jvp(_matmul, t[:2], (x1, x2), {}),
    order="last input",
    batch=_batched_product,
)
_matmul: Op = define(
    "matmul",
    infer=_matmul_type,
    vjp=(_matmul_vjp_x1, _matmul_vjp_x2),
    jvp=lambda t, out, *xs: multilinear_jvp(_matmul, t, xs, {}),
    order="product",
    batch=_batched_product,
    remedy=SQUARES,
)


def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The matrix product, also written ``x1 @ x2``.

    Args:
        x1: at least one axis, any dtype. A vector counts as one row; axes before the last two
            are a batch and broadcast.
        x2: likewise; a vector counts as one column. Both promote to one dtype.

    Raises:
        ShapeError: an array has no axes, or the inner sizes differ.

    >>> ef.matmul(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), ef.tensor([1.0, 10.0]))
    Tensor([21., 43.], f32[2]@cpu:0)
    """
    return bind(_matmul, *promote(x1, x2))


# --- vecdot ---------------------------------------------------------------------------------


def _unequal(size1: Size, size2: Size) -> str:
    return f"the vectors have {size1} and {size2} elements"


def _vecdot_type(x1: TensorType, x2: TensorType) -> TensorType:
    sizes = (x1.shape[-1], x2.shape[-1])
    if not may_equal(*sizes):
        raise ShapeError(_unequal(*sizes), expected="equal numbers")
    out = elementwise(ANY)(x1, x2)
    return out.like(shape=out.shape[:-1])


_vecdot = define(
    "vecdot",
    infer=_vecdot_type,
    vjp=(
        lambda g, out, x1, x2: sum_to_like(expand_dims(conjugate(g), -1) * x2, x1),
        lambda g, out, x1, x2: sum_to_like(expand_dims(g, -1) * x1, x2),
    ),
    saved="inputs",
    precision="accumulate",
    cost=product,
    batch=aligned,
)


def _vectors(
    name: str, x1: TensorLike, x2: TensorLike, axis: int, size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Both operands with the axis of the vectors moved to the end."""
    a, b = promote(x1, x2)
    axis = as_index(name, "axis", axis)
    if axis >= 0:
        if a.ndim != b.ndim:
            raise AxisError(
                f"{name}: axis {axis} is not the same axis of both",
                given=f"x1={type_of(a)}, x2={type_of(b)}",
                hint="count from the end, with a negative axis",
            )
        axis = axis_of(name, a, axis) - a.ndim
    sizes = tuple(x.shape[axis_of(name, x, axis)] for x in (a, b))
    wanted = (sizes[0] if size is None else size,) * 2
    if not all(map(may_equal, sizes, wanted)):
        raise ShapeError(
            f"{name}: {_unequal(*sizes)}",
            given=f"x1={type_of(a)}, x2={type_of(b)}, axis={axis}",
            expected="equal numbers" if size is None else f"{size} elements each",
        )
    if axis == -1:
        return a, b
    return moveaxis(a, axis, -1), moveaxis(b, axis, -1)


def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The dot products of vectors: the sum of ``conj(x1) * x2`` over one axis.

    Args:
        x1: any dtype; broadcasts against ``x2`` except along the axis itself.
        x2: likewise; both promote to one dtype.
        axis: the axis of the vectors.

    Raises:
        ShapeError: the vectors differ in size.

    >>> ef.vecdot(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), ef.tensor([1.0, 10.0]))
    Tensor([21., 43.], f32[2]@cpu:0)
    """
    return bind(_vecdot, *_vectors("vecdot", x1, x2, axis))


def vdot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The dot product of all elements, with ``x1`` conjugated.

    Args:
        x1: numeric, of any shape.
        x2: likewise, with as many elements; both promote to one dtype.

    >>> ef.vdot(ef.tensor([1j, 2.0]), ef.tensor([1j, 3.0]))
    Tensor(7.+0.j, c64[]@cpu:0)
    """
    a, b = promote(x1, x2)
    return vecdot(reshape(a, (a.size,)), reshape(b, (b.size,)))


# --- cross ----------------------------------------------------------------------------------


def _cross_type(x1: TensorType, x2: TensorType) -> TensorType:
    sizes = (x1.shape[-1], x2.shape[-1])
    if not all(may_equal(size, 3) for size in sizes):
        raise ShapeError(_unequal(*sizes), expected="3 elements each")
    out = elementwise(NUMERIC)(x1, x2)
    return out.like(shape=(*out.shape[:-1], 3))


_cross = define(
    "cross",
    infer=_cross_type,
    vjp=(
        lambda g, out, x1, x2: sum_to_like(cross(conjugate(x2), g), x1),
        lambda g, out, x1, x2: sum_to_like(cross(g, conjugate(x1)), x2),
    ),
    saved="inputs",
    batch=aligned,
)


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross products of 3-vectors.

    Args:
        x1: numeric, with three elements along the axis; broadcasts against ``x2`` otherwise.
        x2: likewise; both promote to one dtype.
        axis: the axis of the vectors.

    Raises:
        ShapeError: the vectors do not have three elements.

    >>> ef.cross(ef.tensor([1.0, 0.0, 0.0]), ef.tensor([0.0, 1.0, 0.0]))
    Tensor([0., 0., 1.], f32[3]@cpu:0)
    """
    result = bind(_cross, *_vectors("cross", x1, x2, axis, size=3))
    return result if axis == -1 else moveaxis(result, -1, axis)


# --- tensordot and compositions -------------------------------------------------------------


def _contracted(
    a: Tensor, b: Tensor, axes: int | Sequence[Sequence[int]]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """``a``, checked, and the axes of both to sum over, counted from the front."""

    def given() -> str:
        return f"x1={type_of(a)}, x2={type_of(b)}, axes={axes!r}"

    if isinstance(axes, Sequence):
        if len(axes) != 2:
            raise ShapeError(
                "tensordot: axes must be those of two arrays",
                given=given(),
                expected="a number, or one sequence for each array",
            )
        first, second = axes_of("tensordot", a, axes[0]), axes_of("tensordot", b, axes[1])
    else:
        count = as_index("tensordot", "axes", axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise AxisError(
                f"tensordot: cannot sum over {count} axes",
                given=given(),
                expected=f"0 to {min(a.ndim, b.ndim)}",
            )
        first, second = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    sizes = tuple(a.shape[i] for i in first), tuple(b.shape[i] for i in second)
    refusal = f"tensordot: the axes to sum over differ in size ({sizes[0]} and {sizes[1]})"
    if len(first) != len(second):
        raise ShapeError(refusal, given=given())
    if len(first) > 1:  # for a single pair, `matmul` checks
        a = matched(a, *sizes, refusal, given)
    elif first and not may_equal(sizes[0][0], sizes[1][0]):
        raise ShapeError(refusal, given=given())
    return a, first, second


def _flat(x: Tensor, first: tuple[int, ...], second: tuple[int, ...]) -> Tensor:
    """``x`` as a matrix: the ``first`` axes are its rows, the ``second`` axes its columns."""
    order = first + second
    if order != tuple(range(x.ndim)):
        x = permute_dims(x, order)
    shape = (prod(x.shape[: len(first)]), prod(x.shape[len(first) :]))
    return x if same_shape(x.shape, shape) else reshape(x, shape)


def tensordot(
    x1: TensorLike, x2: TensorLike, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sum of products over pairs of axes of two arrays.

    Args:
        x1: any dtype.
        x2: any dtype; both promote to one dtype.
        axes: the number of last axes of ``x1`` and first axes of ``x2`` to sum over, or a sequence
            of axes for each.

    Raises:
        ShapeError: paired axes differ in size.

    >>> ef.tensordot(ef.ones((2, 3, 4)), ef.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = promote(x1, x2)
    a, first, second = _contracted(a, b, axes)
    rows = tuple(i for i in range(a.ndim) if i not in first)
    columns = tuple(i for i in range(b.ndim) if i not in second)
    shape: Shape = tuple(a.shape[i] for i in rows) + tuple(b.shape[i] for i in columns)
    if not first:
        return reshape(a, a.shape + (1,) * b.ndim) * b
    product = _flat(a, rows, first) @ _flat(b, second, columns)
    return product if same_shape(product.shape, shape) else reshape(product, shape)


def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The outer product: each element of ``x1`` times each element of ``x2``.

    Args:
        x1: any dtype; flattened to a vector.
        x2: likewise; both promote to one dtype.

    >>> ef.outer(ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0]))
    Tensor([[3., 4.],
            [6., 8.]], f32[2,2]@cpu:0)
    """
    a, b = promote(x1, x2)
    return reshape(a, (a.size, 1)) * reshape(b, (b.size,))


def inner(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum of products over the last axes of both, without conjugation.

    Args:
        x1: any dtype.
        x2: any dtype; both promote to one dtype.

    >>> ef.inner(ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0]))
    Tensor(11., f32[]@cpu:0)
    """
    a, b = promote(x1, x2)
    if not a.shape or not b.shape:
        return a * b
    return tensordot(a, b, axes=((-1,), (-1,)))


def dot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """NumPy's dot product: `matmul` up to matrices; for larger arrays batches do not broadcast.

    Args:
        x1: any dtype.
        x2: any dtype; both promote to one dtype.

    >>> ef.dot(ef.ones((2, 3, 4)), ef.ones((5, 4, 6))).shape
    (2, 3, 5, 6)
    """
    a, b = promote(x1, x2)
    if not a.shape or not b.shape:
        return a * b
    if b.ndim < 3:
        return a @ b
    return tensordot(a, b, axes=((-1,), (b.ndim - 2,)))


def kron(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The Kronecker product: ``x1`` with each element replaced by its product with ``x2``.

    Args:
        x1: any dtype.
        x2: any dtype; both promote to one dtype.

    >>> ef.kron(ef.tensor([1, 10]), ef.tensor([1, 2, 3]))
    Tensor([ 1,  2,  3, 10, 20, 30], i64[6]@cpu:0)
    """
    a, b = promote(x1, x2)
    n = max(a.ndim, b.ndim)
    large, small = ((1,) * (n - x.ndim) + x.shape for x in (a, b))
    blocks = reshape(a, tuple(d for size in large for d in (size, 1)))
    block = reshape(b, tuple(d for size in small for d in (1, size)))
    shape = tuple(i * j for i, j in zip(large, small, strict=True))
    return reshape(blocks * block, shape)
