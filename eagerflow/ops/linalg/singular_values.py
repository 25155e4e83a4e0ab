"""Singular value decomposition, pseudo-inverses, ranks, least squares."""

from __future__ import annotations

from typing import Any, NamedTuple, final

from eagerflow.core.op import bind, joint
from eagerflow.core.op_records.batch_rules import BatchSite
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, scalar
from eagerflow.dims import maximum, minimum, same
from eagerflow.errors import DTypeError
from eagerflow.hardware import home_of
from eagerflow.ops.creation.dtypes import finfo
from eagerflow.ops.elementwise.signs_and_rounding import abs
from eagerflow.ops.linalg.matrices import (
    add_if,
    check_matrix,
    conj_transpose,
    gaps,
    matrix_op,
    quotient,
    scale_columns,
    scale_rows,
)
from eagerflow.ops.reduction import totals as reduction
from eagerflow.ops.rules.arguments import matrices_of
from eagerflow.ops.rules.gradients import sum_to_like
from eagerflow.ops.rules.promotion import cast, floating, promote, promote_floating
from eagerflow.ops.rules.type_rules import real_dtype
from eagerflow.ops.shape.diagonals import diag_embed, matrix_diagonal
from eagerflow.ops.shape.reshape_and_transpose import expand_dims, squeeze
from eagerflow.types import TensorType, broadcast_shapes

# --- singular values ------------------------------------------------------------------------


@final
class SVDResult(NamedTuple):
    """The result of `svd`.

    Attributes:
        U: the left singular vectors, as orthonormal columns.
        S: the singular values, in descending order.
        Vh: the conjugate right singular vectors, as orthonormal rows.
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


def _svdvals_type(x: TensorType) -> TensorType:
    check_matrix(x)
    count: Any = minimum(*x.shape[-2:])
    return x.like(shape=(*x.shape[:-2], count), dtype=real_dtype(x.dtype))


def _svd_type(x: TensorType, *, full_matrices: bool) -> tuple[TensorType, ...]:
    values = _svdvals_type(x)
    *batch, rows, columns = x.shape
    left, right = (rows, columns) if full_matrices else (values.shape[-1],) * 2
    return x.like(shape=(*batch, rows, left)), values, x.like(shape=(*batch, right, columns))


def _skew(x: Tensor) -> Tensor:
    return x - conj_transpose(x)


def _svd_vjp(
    gs: tuple[Tensor, Tensor, Tensor],
    outs: tuple[Tensor, Tensor, Tensor],
    x: Tensor,
    *,
    full_matrices: bool,
) -> tuple[Tensor]:
    u, s, vh = outs
    k = s.shape[-1]  # the additional vectors of full_matrices are constants
    u, gu = u[..., :k], gs[0][..., :k]
    vh, gvh = vh[..., :k, :], gs[2][..., :k, :]
    u_rotation = _skew(conj_transpose(u) @ gu)
    v_rotation = _skew(vh @ conj_transpose(gvh))
    rotation = scale_columns(u_rotation, s) + scale_rows(v_rotation, s)
    middle = quotient(rotation, gaps(s * s)) + diag_embed(cast(gs[1], x.dtype))
    if x.dtype.is_complex:
        phase = quotient(matrix_diagonal(u_rotation), s * 2)
        middle = middle + diag_embed(phase)
    result = u @ middle @ vh
    more = u.shape[-2] - k
    if not same(more, 0):
        m: Any = minimum(k, k * more)  # all columns or none, to avoid needless divisions by 0
        away = quotient(gu[..., :m], expand_dims(s[..., :m], -2))
        away = away - u @ (conj_transpose(u) @ away)
        result = add_if(result, away @ vh[..., :m, :], more)
    more = vh.shape[-1] - k
    if not same(more, 0):
        m = minimum(k, k * more)
        away = quotient(gvh[..., :m, :], expand_dims(s[..., :m], -1))
        away = away - away @ conj_transpose(vh) @ vh
        result = add_if(result, u[..., :m] @ away, more)
    return (result,)


_svd = matrix_op("svd", _svd_type, joint(_svd_vjp), saved="outputs", flops=20, outputs=3)


def svd(x: TensorLike, /, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition ``x == (U * S) @ Vh``.

    The gradient of the singular vectors exists where singular values are distinct and not zero.

    Args:
        x: matrices, floating or complex; integers count as float32.
        full_matrices: whether U and Vh are square, or have only the vectors of singular values.
            The additional vectors are arbitrary, and constants to gradients.

    Raises:
        ShapeError: ``x`` has fewer than two axes.
        TensorValueError: an element is NaN.

    >>> ef.linalg.svd(ef.tensor([[0.0, 3.0], [2.0, 0.0]])).S
    Tensor([3., 2.], f32[2]@cpu:0)
    """
    return SVDResult(*bind(_svd, floating(x), full_matrices=bool(full_matrices)))


def _svdvals_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    u, _, vh = svd(x, full_matrices=False)
    return scale_columns(u, g) @ vh


_svdvals = matrix_op("svdvals", _svdvals_type, (_svdvals_vjp,), saved="inputs", flops=6)


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values of each matrix, in descending order.

    Args:
        x: matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: ``x`` has fewer than two axes.
        TensorValueError: an element is NaN.

    >>> ef.linalg.svdvals(ef.tensor([[0.0, 3.0], [2.0, 0.0]]))
    Tensor([3., 2.], f32[2]@cpu:0)
    """
    return bind(_svdvals, floating(x))


# --- pseudo-inverses ------------------------------------------------------------------------


def _pinv_type(x: TensorType, rtol: TensorType) -> TensorType:
    check_matrix(x)
    if rtol.dtype is not real_dtype(x.dtype):
        raise DTypeError("rtol has another dtype", expected=real_dtype(x.dtype).short)
    batch = broadcast_shapes(x.shape[:-2], rtol.shape)
    return x.like(shape=(*batch, x.shape[-1], x.shape[-2]))


def _pinv_vjp(g: Tensor, out: Tensor, x: Tensor, rtol: Tensor) -> Tensor:
    adjoint, g_adjoint = conj_transpose(out), conj_transpose(g)
    # d(out) = -out dx out + (1 - out x) dx^H adjoint out + out adjoint dx^H (1 - x out)
    inner = -(adjoint @ g @ adjoint)
    rows = adjoint @ out @ (g_adjoint - g_adjoint @ out @ x)
    columns = (g_adjoint - x @ (out @ g_adjoint)) @ out @ adjoint
    return sum_to_like(inner + (rows + columns), x)


def _batched_pinv(at: BatchSite) -> Tensor:
    rtol = at.inputs[1]
    missing = len(at.shape(0)) - 2 - len(at.shape(1))
    if at.batched[1] and missing > 0:
        rtol = at.in_shape(rtol, (at.rows, *(1,) * missing, *at.shape(1)))
    result: Tensor = at.bind(at.whole(0), rtol)
    return result


_pinv = matrix_op("pinv", _pinv_type, (_pinv_vjp, None), flops=20, batch=_batched_pinv)


def _tolerance(name: str, x: Tensor, rtol: TensorLike | None) -> Tensor:
    """``rtol`` as a tensor; by default the larger size of the matrices times the dtype's eps."""
    dtype = real_dtype(x.dtype)
    matrices_of(name, x)
    if rtol is None:
        rtol = maximum(*x.shape[-2:]) * finfo(dtype).eps
    if isinstance(rtol, (int, float)):
        return scalar(rtol, home_of(x.device).lanes[dtype])
    return promote(rtol, dtype=dtype)[0]


def pinv(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """The pseudo-inverse of each matrix, which solves least squares problems.

    The gradient holds as long as the rank does not change.

    Args:
        x: matrices, floating or complex; integers count as float32.
        rtol: singular values up to this fraction of the largest count as zero; a number, or an
            array with a number for each matrix. By default the larger size times the dtype's eps.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.linalg.pinv(ef.tensor([[2.0, 0.0], [0.0, 0.0]]))
    Tensor([[0.5, 0. ],
            [0. , 0. ]], f32[2,2]@cpu:0)
    """
    tensor = floating(x)
    return bind(_pinv, tensor, _tolerance("pinv", tensor, rtol))


def matrix_rank(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """The rank of each matrix: the number of singular values that are not (nearly) zero.

    Args:
        x: matrices, floating or complex; integers count as float32.
        rtol: as for `pinv`.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.linalg.matrix_rank(ef.tensor([[1.0, 2.0], [2.0, 4.0]]))
    Tensor(1, i64[]@cpu:0)
    """
    tensor = floating(x)
    tolerance = _tolerance("matrix_rank", tensor, rtol)
    values = svdvals(tensor)
    limit = values[..., :1] * expand_dims(tolerance, -1)
    return reduction.count_nonzero(values > limit, axis=-1)


@final
class LstsqResult(NamedTuple):
    """The result of `lstsq`.

    Attributes:
        solution: the ``x`` of least norm among all with the least residual.
        residuals: the squared norm of the residual of each right-hand side.
        rank: the ranks of the matrices.
        singular_values: the singular values of the matrices.
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(a: TensorLike, b: TensorLike, /, *, rtol: TensorLike | None = None) -> LstsqResult:
    """The least squares solution of ``a @ x == b``.

    Args:
        a: matrices, floating or complex; integers count as float32.
        b: a vector, or matrices with a column for each right-hand side; batches broadcast.
        rtol: as for `pinv`.

    Raises:
        ShapeError: the sizes do not fit.

    >>> a = ef.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> ef.linalg.lstsq(a, ef.tensor([1.0, 3.0, 5.0])).solution.round()
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    x1, x2 = promote_floating(a, b)
    columns = expand_dims(x2, -1) if x2.ndim == 1 else x2
    solution = pinv(x1, rtol=rtol) @ columns
    missed = abs(x1 @ solution - columns)
    residuals = reduction.sum(missed * missed, axis=-2)
    if x2.ndim == 1:
        solution, residuals = squeeze(solution, -1), squeeze(residuals, -1)
    return LstsqResult(solution, residuals, matrix_rank(x1, rtol=rtol), svdvals(x1))
