"""Matrix decompositions: Cholesky, QR, LU, eigenvalues.

Eigenvectors and singular vectors have an arbitrary phase, and are not unique where values
coincide: gradients hold for functions that do not depend on the phase, at distinct values.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, final

from eagerflow.core.op import bind, joint
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import minimum, same
from eagerflow.errors import TensorValueError
from eagerflow.ops.creation.arrays import tril, triu
from eagerflow.ops.elementwise.signs_and_rounding import real
from eagerflow.ops.linalg.matrices import (
    add_if,
    check_matrix,
    check_square,
    complex_dtype,
    conj_transpose,
    gaps,
    hermitian_part,
    identity_like,
    matrix_op,
    quotient,
    scale_columns,
    scale_rows,
)
from eagerflow.ops.linalg.solvers import solve, square_type, triangular_solve
from eagerflow.ops.rules.arguments import check_choice
from eagerflow.ops.rules.gradients import conjugate
from eagerflow.ops.rules.promotion import cast, floating
from eagerflow.ops.rules.type_rules import real_dtype
from eagerflow.ops.shape.diagonals import diag_embed, matrix_diagonal
from eagerflow.ops.shape.joining import concat
from eagerflow.types import TensorType


def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """``x`` with its diagonal replaced."""
    off = x * (1 - identity_like(x))
    return off + diag_embed(cast(diagonal, x.dtype))


# --- Cholesky -------------------------------------------------------------------------------


def _halved_lower(x: Tensor) -> Tensor:
    """The lower triangle, with half of the diagonal."""
    return tril(x) - diag_embed(matrix_diagonal(x)) * 0.5


def _cholesky_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    middle = hermitian_part(_halved_lower(conj_transpose(out) @ g))
    left = triangular_solve(out, middle, adjoint=True)
    return conj_transpose(triangular_solve(out, conj_transpose(left), adjoint=True))


_cholesky = matrix_op(
    "cholesky",
    square_type,
    (_cholesky_vjp,),
    saved="outputs",
    flops=0.4,
    raises=(TensorValueError,),
)


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The triangular factor ``l`` of positive definite matrices: ``x == l @ conj(l).mT``.

    Args:
        x: square matrices, floating or complex; integers count as float32. For a matrix that is
            not Hermitian, the mean with its conjugate transpose is factored.
        upper: whether to return the upper factor ``u`` instead: ``x == conj(u).mT @ u``.

    Raises:
        ShapeError: the matrices are not square.
        TensorValueError: a matrix is not positive definite.

    >>> ef.linalg.cholesky(ef.tensor([[4.0, 2.0], [2.0, 5.0]]))
    Tensor([[2., 0.],
            [1., 2.]], f32[2,2]@cpu:0)
    """
    result = bind(_cholesky, floating(x))
    return conj_transpose(result) if upper else result


# --- QR -------------------------------------------------------------------------------------


@final
class QRResult(NamedTuple):
    """The result of `qr`.

    Attributes:
        Q: matrices with orthonormal columns.
        R: upper triangular matrices.
    """

    Q: Tensor
    R: Tensor


def _qr_type(x: TensorType, *, mode: str) -> tuple[TensorType, TensorType]:
    check_matrix(x)
    *batch, rows, columns = x.shape
    inner: Any = rows if mode == "complete" else minimum(rows, columns)
    return x.like(shape=(*batch, rows, inner)), x.like(shape=(*batch, inner, columns))


def _tall_qr_vjp(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """The rule for at least as many rows as columns (``r`` is square)."""
    moment = gr @ conj_transpose(r) - conj_transpose(q) @ gq
    above = triu(moment, k=1)
    diagonal = diag_embed(cast(real(matrix_diagonal(moment)), q.dtype))
    middle = above + conj_transpose(above) + diagonal
    left = gq + q @ middle
    return conj_transpose(triangular_solve(r, conj_transpose(left), lower=False))


def _qr_vjp(
    gs: tuple[Tensor, Tensor], outs: tuple[Tensor, Tensor], x: Tensor, *, mode: str
) -> tuple[Tensor]:
    (gq, gr), (q, r) = gs, outs
    columns = r.shape[-1]
    if mode == "complete":  # the additional columns are constants
        gq, q = gq[..., :columns], q[..., :columns]
        gr, r = gr[..., :columns, :], r[..., :columns, :]
    inner = q.shape[-1]
    if same(inner, columns):
        return (_tall_qr_vjp(gq, gr, q, r),)
    # q and the left part of r factor the left part of x; the right part of r, if there is one,
    # is conj(q).mT times the right part of x
    right, right_g = r[..., inner:], gr[..., inner:]
    gq = add_if(gq, q @ right @ conj_transpose(right_g), columns - inner)
    left_g = _tall_qr_vjp(gq, gr[..., :inner], q, r[..., :inner])
    return (concat([left_g, q @ right_g], axis=-1),)


_qr = matrix_op("qr", _qr_type, joint(_qr_vjp), saved="outputs", flops=3, outputs=2)


def qr(x: TensorLike, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The QR decomposition: orthonormal columns ``Q``, upper triangular ``R``, ``x == Q @ R``.

    Args:
        x: matrices, floating or complex; integers count as float32.
        mode: ``"reduced"`` returns as many columns as the smaller size of ``x``; ``"complete"``
            as many as rows. The additional columns are arbitrary, and constants to gradients.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> q, r = ef.linalg.qr(ef.tensor([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]))
    >>> (q @ r).round()
    Tensor([[3., 1.],
            [4., 2.],
            [0., 2.]], f32[3,2]@cpu:0)
    """
    check_choice("qr", mode, ("reduced", "complete"), "a mode")
    return QRResult(*bind(_qr, floating(x), mode=mode))


# --- LU -------------------------------------------------------------------------------------


@final
class LUResult(NamedTuple):
    """The result of `lu`.

    Attributes:
        P: permutation matrices, constants to gradients.
        L: lower triangular or trapezoidal matrices with ones on the diagonal.
        U: upper triangular or trapezoidal matrices.
    """

    P: Tensor
    L: Tensor
    U: Tensor


def _lu_type(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    check_matrix(x)
    *batch, rows, columns = x.shape
    inner: Any = minimum(rows, columns)
    return (
        x.like(shape=(*batch, rows, rows)),
        x.like(shape=(*batch, rows, inner)),
        x.like(shape=(*batch, inner, columns)),
    )


def _lu_vjp(
    gs: tuple[Tensor, Tensor, Tensor], outs: tuple[Tensor, Tensor, Tensor], x: Tensor
) -> tuple[Tensor]:
    """The rule for rows in order, by blocks.

    ``[[a, right], [below, nothing]] == [[low], [low2]] @ [[u, u2]]``, and at most one of ``right ==
    low @ u2`` and ``below == low2 @ u`` has elements. Each is linear in its second factor; its
    contribution for the first factor adds to the gradient of that.
    """
    (_, gl, gu), (order, lower, upper) = gs, outs
    k = lower.shape[-1]
    low, low2 = lower[..., :k, :], lower[..., k:, :]
    u, u2 = upper[..., :k], upper[..., k:]
    right = triangular_solve(low, gu[..., k:], adjoint=True, unit_diagonal=True)
    below = _divided(gl[..., k:, :], u)
    of_l = conj_transpose(low) @ (gl[..., :k, :] - right @ conj_transpose(u2))
    of_u = (gu[..., :k] - conj_transpose(low2) @ below) @ conj_transpose(u)
    middle = tril(of_l, k=-1) + triu(of_u)
    a = _divided(triangular_solve(low, middle, adjoint=True, unit_diagonal=True), u)
    rows = [concat([a, right], axis=-1), concat([below, low2 @ u2], axis=-1)]
    return (order @ concat(rows, axis=-2),)


def _divided(x: Tensor, u: Tensor) -> Tensor:
    """``x @ inv(conj(u).mT)`` for an upper triangular ``u``."""
    return conj_transpose(triangular_solve(u, conj_transpose(x), lower=False))


_lu = matrix_op("lu", _lu_type, joint(_lu_vjp), saved="outputs", flops=0.7, outputs=3)


def lu(x: TensorLike, /) -> LUResult:
    """The LU decomposition with row exchanges: ``x == P @ L @ U``.

    Rows are exchanged so that no element of ``L`` is larger than 1. The gradient exists where
    the diagonal of ``U`` has no zero, and treats the order of the rows as constant.

    Args:
        x: matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> p, l, u = ef.linalg.lu(ef.tensor([[2.0, 1.0], [4.0, 4.0]]))
    >>> l
    Tensor([[1. , 0. ],
            [0.5, 1. ]], f32[2,2]@cpu:0)
    >>> u
    Tensor([[ 4.,  4.],
            [ 0., -1.]], f32[2,2]@cpu:0)
    >>> p @ l @ u
    Tensor([[2., 1.],
            [4., 4.]], f32[2,2]@cpu:0)
    """
    return LUResult(*bind(_lu, floating(x)))


# --- eigenvalues of Hermitian matrices ------------------------------------------------------


@final
class EighResult(NamedTuple):
    """The result of `eigh`.

    Attributes:
        eigenvalues: the eigenvalues, in ascending order.
        eigenvectors: the eigenvectors, as orthonormal columns.
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def _eigvalsh_type(x: TensorType) -> TensorType:
    check_square(x)
    return x.like(shape=x.shape[:-1], dtype=real_dtype(x.dtype))


def _eigh_type(x: TensorType) -> tuple[TensorType, TensorType]:
    return _eigvalsh_type(x), x


def _eigh_vjp(gs: tuple[Tensor, Tensor], outs: tuple[Tensor, Tensor], x: Tensor) -> tuple[Tensor]:
    (g_values, g_vectors), (values, vectors) = gs, outs
    adjoint = conj_transpose(vectors)
    rotation = quotient(adjoint @ g_vectors, gaps(values))
    middle = _with_diagonal(rotation, g_values)
    return (hermitian_part(vectors @ middle @ adjoint),)


_eigh = matrix_op("eigh", _eigh_type, joint(_eigh_vjp), saved="outputs", flops=9, outputs=2)


def eigh(x: TensorLike, /) -> EighResult:
    """The eigenvalues and eigenvectors of Hermitian (or symmetric) matrices.

    The gradient of the eigenvectors exists where eigenvalues are distinct.

    Args:
        x: square matrices, floating or complex; integers count as float32. For a matrix that is
            not Hermitian, the mean with its conjugate transpose is decomposed.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.eigh(ef.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return EighResult(*bind(_eigh, floating(x)))


def _eigvalsh_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    vectors = eigh(x).eigenvectors
    return scale_columns(vectors, g) @ conj_transpose(vectors)


_eigvalsh = matrix_op("eigvalsh", _eigvalsh_type, (_eigvalsh_vjp,), saved="inputs", flops=4)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of Hermitian (or symmetric) matrices, in ascending order.

    Args:
        x: as for `eigh`.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.eigvalsh(ef.tensor([[2.0, 0.0], [0.0, 1.0]]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return bind(_eigvalsh, floating(x))


# --- eigenvalues of any square matrices -----------------------------------------------------


@final
class EigResult(NamedTuple):
    """The result of `eig`.

    Attributes:
        eigenvalues: the eigenvalues, complex, in no particular order.
        eigenvectors: the eigenvectors, complex, as columns of length 1.
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def _eigvals_type(x: TensorType) -> TensorType:
    check_square(x)
    return x.like(shape=x.shape[:-1], dtype=complex_dtype(x.dtype))


def _eig_type(x: TensorType) -> tuple[TensorType, TensorType]:
    values = _eigvals_type(x)
    return values, x.like(dtype=values.dtype)


def _eig_vjp(gs: tuple[Tensor, Tensor], outs: tuple[Tensor, Tensor], x: Tensor) -> tuple[Tensor]:
    (g_values, g_vectors), (values, vectors) = gs, outs
    adjoint = conj_transpose(vectors)
    rotation = adjoint @ g_vectors
    # eigenvectors keep their length
    lengths = adjoint @ scale_columns(vectors, real(matrix_diagonal(rotation)))
    rotation = quotient(rotation - lengths, conjugate(gaps(values)))
    middle = _with_diagonal(rotation, g_values)
    return (cast(solve(adjoint, middle @ adjoint), x.dtype),)


_eig = matrix_op("eig", _eig_type, joint(_eig_vjp), saved="outputs", flops=25, outputs=2)


def eig(x: TensorLike, /) -> EigResult:
    """The eigenvalues and right eigenvectors of square matrices.

    The gradient exists where eigenvalues are distinct.

    Args:
        x: square matrices, floating or complex; integers count as float32.

    Raises:
        ShapeError: the matrices are not square.
        TensorValueError: an element is NaN or infinite.

    >>> ef.linalg.eig(ef.tensor([[1.0, 0.0], [0.0, 2.0]])).eigenvalues
    Tensor([1.+0.j, 2.+0.j], c64[2]@cpu:0)
    """
    return EigResult(*bind(_eig, floating(x)))


def _eigvals_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    adjoint = conj_transpose(eig(x).eigenvectors)
    return cast(solve(adjoint, scale_rows(adjoint, g)), x.dtype)


_eigvals = matrix_op("eigvals", _eigvals_type, (_eigvals_vjp,), saved="inputs", flops=20)


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of square matrices, complex and in no particular order.

    Args:
        x: as for `eig`.

    Raises:
        ShapeError: the matrices are not square.
        TensorValueError: an element is NaN or infinite.

    >>> ef.linalg.eigvals(ef.tensor([[1.0, 0.0], [0.0, 2.0]]))
    Tensor([1.+0.j, 2.+0.j], c64[2]@cpu:0)
    """
    return bind(_eigvals, floating(x))
