"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import operator
from typing import NamedTuple, final

from eagerflow.core.op import bind, joint
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import may_equal
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.hardware import home_of
from eagerflow.ops.creation.arrays import tril, triu, zeros_like
from eagerflow.ops.creation.ranges import eye
from eagerflow.ops.elementwise.signs_and_rounding import imag
from eagerflow.ops.linalg.matrices import check_square, conj_transpose, matrix_op
from eagerflow.ops.reduction import totals as reduction
from eagerflow.ops.rules.arguments import as_index, matrices_of
from eagerflow.ops.rules.gradients import conjugate, sum_to_like
from eagerflow.ops.rules.promotion import cast, floating, promote_floating
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.rules.type_rules import check_same_dtype, real_dtype
from eagerflow.ops.shape.joining import concat
from eagerflow.ops.shape.reshape_and_transpose import broadcast_to, expand_dims, reshape, squeeze
from eagerflow.types import TensorType, broadcast_shapes


def square_type(x: TensorType) -> TensorType:
    """The type rule of ops from square matrices to matrices of the same size."""
    check_square(x)
    return x


def each(scalars: Tensor) -> Tensor:
    """One number per matrix, shaped to broadcast over the matrices."""
    return expand_dims(scalars, (-2, -1))


# --- inverses -------------------------------------------------------------------------------


def _inv_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    factor = conj_transpose(out)
    return -(factor @ g @ factor)


_inv = matrix_op(
    "inv", square_type, (_inv_vjp,), saved="outputs", flops=2, raises=(TensorValueError,)
)


def inv(x: TensorLike, /) -> Tensor:
    """The inverse of each matrix.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.
        TensorValueError: a matrix is singular.

    >>> ef.linalg.inv(ef.tensor([[2.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]], f32[2,2]@cpu:0)
    """
    return bind(_inv, floating(x))


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Each matrix raised to an integer power; for a negative power, the power of its inverse.

    Args:
        x: square matrices, floating or complex; integers count as float32.
        n: the exponent, an integer; 0 yields identity matrices.

    Raises:
        ShapeError: the matrices are not square.
        TensorValueError: ``n`` is negative and a matrix is singular.

    >>> ef.linalg.matrix_power(ef.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    Tensor([[1., 5.],
            [0., 1.]], f32[2,2]@cpu:0)
    """
    base = matrices_of("matrix_power", floating(x))
    count, shape, given = (
        operator.index(as_index("matrix_power", "n", n)),
        base.shape,
        type_of(base),
    )
    if shape[-2] is not shape[-1]:
        refusal = "matrix_power: the matrices of x are not square"
        base = matched(base, shape[-2:-1], shape[-1:], refusal, lambda: f"x={given}")
    if count == 0:
        return broadcast_to(eye(shape[-1], dtype=base.dtype, device=home_of(base.device)), shape)
    if count < 0:
        base = inv(base)
    result, count = None, abs(count)
    while True:
        if count & 1:
            result = base if result is None else result @ base
        count >>= 1
        if not count:
            assert result is not None
            return reshape(result, shape) if result is base else result
        base = base @ base


def _expm_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    # the exponential of [[a, g], [0, a]] holds its derivative at a along g
    a = conj_transpose(x)
    rows = [concat([a, g], axis=-1), concat([zeros_like(a), a], axis=-1)]
    n = x.shape[-1]
    return expm(concat(rows, axis=-2))[..., :n, n:]


_expm = matrix_op("expm", square_type, (_expm_vjp,), saved="inputs", flops=30)


def expm(x: TensorLike, /) -> Tensor:
    """The exponential function of each matrix: ``1 + x + x @ x / 2 + …``.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.expm(ef.tensor([[0.0, 1.0], [0.0, 0.0]]))
    Tensor([[1., 1.],
            [0., 1.]], f32[2,2]@cpu:0)
    """
    return bind(_expm, floating(x))


# --- systems of equations -------------------------------------------------------------------


def _system_type(x1: TensorType, x2: TensorType, **attrs: object) -> TensorType:
    check_square(x1, "x1")
    check_same_dtype(x1, x2)
    if not may_equal(x2.shape[-2], x1.shape[-1]):
        raise ShapeError(
            f"x1 has {x1.shape[-1]} equations, x2 has {x2.shape[-2]} right-hand sides for them",
            expected="x2 to be a vector, or matrices with as many rows as x1",
        )
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.like(shape=batch + x2.shape[-2:])


def _solve_vjp(g: Tensor, out: Tensor, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    g2 = solve(conj_transpose(x1), g)
    return -sum_to_like(g2 @ conj_transpose(out), x1), sum_to_like(g2, x2)


_solve = matrix_op("solve", _system_type, joint(_solve_vjp), flops=2, raises=(TensorValueError,))


def _right_hand_side(name: str, a: Tensor, b: Tensor) -> Tensor:
    """``b`` as columns: a vector becomes one column."""
    if not b.shape:
        raise ShapeError(f"{name}: the right-hand side has no axes", given=f"x2={b.type}")
    return expand_dims(b, -1) if b.ndim == 1 else b


def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The solution ``x`` of ``x1 @ x == x2``.

    Args:
        x1: square matrices, floating or complex; integers count as float32.
        x2: a vector, or matrices with a column for each right-hand side; batches broadcast.

    Raises:
        ShapeError: the matrices are not square, or the sizes do not fit.
        TensorValueError: a matrix is singular.

    >>> ef.linalg.solve(ef.tensor([[2.0, 0.0], [0.0, 4.0]]), ef.tensor([2.0, 2.0]))
    Tensor([1. , 0.5], f32[2]@cpu:0)
    """
    a, b = promote_floating(x1, x2)
    result = bind(_solve, a, _right_hand_side("solve", a, b))
    return squeeze(result, -1) if b.ndim == 1 else result


def _triangular_vjp(
    g: Tensor,
    out: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    lower: bool,
    adjoint: bool,
    unit_diagonal: bool,
) -> tuple[Tensor, Tensor]:
    g2 = triangular_solve(a, g, lower=lower, adjoint=not adjoint, unit_diagonal=unit_diagonal)
    left, right = (out, g2) if adjoint else (g2, out)
    full = -sum_to_like(left @ conj_transpose(right), a)
    part = tril(full, k=-int(unit_diagonal)) if lower else triu(full, k=int(unit_diagonal))
    return part, sum_to_like(g2, b)


_triangular_solve = matrix_op("triangular_solve", _system_type, joint(_triangular_vjp), flops=1)


def triangular_solve(
    a: TensorLike,
    b: TensorLike,
    /,
    *,
    lower: bool = True,
    adjoint: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """The solution ``x`` of ``a @ x == b`` for triangular ``a``, at the cost of a product.

    Args:
        a: square matrices, floating or complex, of which only one triangle is read.
        b: a vector, or matrices with a column for each right-hand side; batches broadcast.
        lower: whether the lower triangle is read; else the upper one.
        adjoint: whether to solve with the conjugate transpose of ``a`` instead.
        unit_diagonal: whether the diagonal is taken as ones, and not read.

    Raises:
        ShapeError: the matrices are not square, or the sizes do not fit.
        TensorValueError: a matrix is singular: it has a zero on its diagonal.

    >>> ef.linalg.triangular_solve(ef.tensor([[2.0, 0.0], [1.0, 1.0]]), ef.tensor([2.0, 3.0]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    x1, x2 = promote_floating(a, b)
    columns = _right_hand_side("triangular_solve", x1, x2)
    result = bind(
        _triangular_solve,
        x1,
        columns,
        lower=bool(lower),
        adjoint=bool(adjoint),
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(result, -1) if x2.ndim == 1 else result


# --- determinants ---------------------------------------------------------------------------


def _number_type(x: TensorType) -> TensorType:
    check_square(x)
    return x.like(shape=x.shape[:-2])


_det = matrix_op(
    "det",
    _number_type,
    (lambda g, out, x: each(g) * conj_transpose(adjugate(x)),),
    saved="inputs",
    flops=0.7,
)


def det(x: TensorLike, /) -> Tensor:
    """The determinant of each matrix.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.det(ef.tensor([[1.0, 2.0], [3.0, 5.0]])).round()
    Tensor(-1., f32[]@cpu:0)
    """
    return bind(_det, floating(x))


def _adjugate_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    factor = conj_transpose(inv(x))
    share = reduction.sum(g * conjugate(out), axis=(-2, -1))
    rest = factor @ g @ conj_transpose(out)
    return each(share) * factor - rest


_adjugate = matrix_op("adjugate", square_type, (_adjugate_vjp,), flops=20)


def adjugate(x: TensorLike, /) -> Tensor:
    """The adjugate of each matrix: its inverse times its determinant, extended to singular ones.

    Its transpose is the derivative of the determinant.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.adjugate(ef.tensor([[1.0, 2.0], [3.0, 4.0]])).round()
    Tensor([[ 4., -2.],
            [-3.,  1.]], f32[2,2]@cpu:0)
    """
    return bind(_adjugate, floating(x))


@final
class SlogdetResult(NamedTuple):
    """The result of `slogdet`.

    Attributes:
        sign: the determinant divided by its magnitude; 0 if the determinant is 0.
        logabsdet: the natural logarithm of the magnitude.
    """

    sign: Tensor
    logabsdet: Tensor


def _slogdet_type(x: TensorType) -> tuple[TensorType, TensorType]:
    number = _number_type(x)
    return number, number.like(dtype=real_dtype(x.dtype))


def _slogdet_vjp(
    gs: tuple[Tensor, Tensor], outs: tuple[Tensor, Tensor], x: Tensor
) -> tuple[Tensor]:
    g_sign, growth = gs
    weight = cast(growth, x.dtype)
    if x.dtype.is_complex:
        angle = cast(imag(g_sign * conjugate(outs[0])), x.dtype)
        weight = weight + 1j * angle
    return (each(weight) * conj_transpose(inv(x)),)


_slogdet = matrix_op("slogdet", _slogdet_type, joint(_slogdet_vjp), flops=0.7, outputs=2)


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """The sign of each determinant and the logarithm of its magnitude, which cannot overflow.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.slogdet(ef.tensor([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=Tensor(-1., f32[]@cpu:0), logabsdet=Tensor(0., f32[]@cpu:0))
    """
    return SlogdetResult(*bind(_slogdet, floating(x)))
