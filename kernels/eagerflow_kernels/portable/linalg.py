"""Kernels of linear algebra ops. Matrices are the last two axes; the others are a batch."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from typing import Any

from eagerflow_kernels.table import Array, portable

portable("matmul", "matmul")
portable("det", "linalg.det")

SINGULAR = "the matrix is singular"


@portable("matmul_like")
def matmul_like(xp: Any, x1: Array, x2: Array, like: Array) -> Array:
    """The product of two matrices, in the memory order of ``like``, by rows or by columns."""
    flags = getattr(like, "flags", None)
    if flags is not None and flags.f_contiguous and not flags.c_contiguous:
        return xp.matmul(x2.T, x1.T).T
    return xp.matmul(x1, x2)


def adjoint(xp: Any, x: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return xp.swapaxes(x, -1, -2).conj()


def check_square(x: Array) -> None:
    """Refuse matrices that are not square, where other shapes would broadcast."""
    if x.shape[-1] != x.shape[-2]:
        raise ValueError("the matrices are not square")


def hermitian_part(xp: Any, x: Array) -> Array:
    """The mean of ``x`` and its adjoint: ``x`` itself where it is Hermitian."""
    check_square(x)
    total = x + adjoint(xp, x)
    total *= 0.5
    return total


def _try(xp: Any, refusal: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except xp.linalg.LinAlgError:
        raise ValueError(refusal) from None


# --- diagonals ------------------------------------------------------------------------------


@portable("diagonal")
def diagonal(xp: Any, x: Array, *, offset: int) -> Array:
    """The diagonal of each matrix, as a view."""
    return xp.diagonal(x, offset, -2, -1)


@portable("diag_embed")
def diag_embed(xp: Any, x: Array, *, offset: int, rows: int, columns: int) -> Array:
    """Matrices that are zero except on one diagonal."""
    batch, count = x.shape[:-1], x.shape[-1]
    out = xp.zeros((*batch, rows * columns), dtype=x.dtype)
    start = offset if offset >= 0 else -offset * columns
    out[..., start : start + count * (columns + 1) : columns + 1] = x
    return out.reshape((*batch, rows, columns))


# --- products -------------------------------------------------------------------------------


@portable("vecdot")
def vecdot(xp: Any, x1: Array, x2: Array) -> Array:
    """The dot products of the vectors on the last axis, with ``x1`` conjugated."""
    return xp.matmul(x1.conj()[..., None, :], x2[..., :, None])[..., 0, 0]


@portable("cross")
def cross(xp: Any, x1: Array, x2: Array) -> Array:
    """The cross product of 3-vectors on the last axis."""
    shape = xp.broadcast_shapes(x1.shape, x2.shape)
    if x1.shape[-1] != 3 or x2.shape[-1] != 3:
        raise ValueError("the vectors do not have three elements")
    out = xp.empty(shape, dtype=x1.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        xp.multiply(x1[..., j], x2[..., k], out=out[..., i])
        out[..., i] -= x1[..., k] * x2[..., j]
    return out


# --- systems of equations -------------------------------------------------------------------


@portable("inv")
def inv(xp: Any, x: Array) -> Array:
    """The inverse of each matrix."""
    return _try(xp, SINGULAR, xp.linalg.inv, x)


@portable("solve")
def solve(xp: Any, x1: Array, x2: Array) -> Array:
    """The solutions of square systems; ``x2`` has a column for each right-hand side."""
    return _try(xp, SINGULAR, xp.linalg.solve, x1, x2)


@portable("triangular_solve")
def triangular_solve(
    xp: Any, a: Array, b: Array, *, lower: bool, adjoint: bool, unit_diagonal: bool
) -> Array:
    """The solutions of triangular systems; only the named triangle of ``a`` is read."""
    t = xp.tril(a) if lower else xp.triu(a)
    if unit_diagonal:
        t = xp.where(xp.eye(a.shape[-1], dtype=bool), a.dtype.type(1), t)
    if adjoint:
        t = xp.swapaxes(t, -1, -2).conj()
    return _try(xp, SINGULAR, xp.linalg.solve, t, b)


@portable("slogdet")
def slogdet(xp: Any, x: Array) -> tuple[Array, ...]:
    """The sign of each determinant and the logarithm of its magnitude."""
    return tuple(xp.linalg.slogdet(x))


@portable("adjugate")
def adjugate(xp: Any, x: Array) -> Array:
    """The transposed cofactors of each matrix, singular or not."""
    check_square(x)
    try:
        # both come from the same LU factors, so a tiny last pivot cancels
        return xp.linalg.det(x)[..., None, None] * xp.linalg.inv(x)
    except xp.linalg.LinAlgError:
        u, s, vh = xp.linalg.svd(x)
        diagonal = xp.eye(x.shape[-1], dtype=bool)
        others = xp.where(diagonal, xp.ones_like(s)[..., None], s[..., None, :])
        phase = xp.linalg.det(u) * xp.linalg.det(vh)
        scale = phase[..., None] * xp.prod(others, axis=-1)
        return xp.matmul(adjoint(xp, vh) * scale[..., None, :], adjoint(xp, u))


#: numerator coefficients of the Padé approximant of order 13 of the exponential function, and
#: the norm up to which it is exact to the last bit of float64 (Higham 2005)
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_PADE_NORM = 5.37


@portable("expm")
def expm(xp: Any, x: Array) -> Array:
    """The exponential of each matrix, by scaling and squaring."""
    largest = float(xp.max(xp.sum(xp.abs(x), axis=-2))) if x.size else 0.0
    squarings = max(0, ceil(log2(largest / _PADE_NORM))) if 0 < largest < float("inf") else 0
    x = x / 2**squarings
    square = xp.matmul(x, x)
    power = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    even, odd = _PADE[0] * power, _PADE[1] * power
    for i in range(2, len(_PADE), 2):
        power = xp.matmul(power, square)
        even, odd = even + _PADE[i] * power, odd + _PADE[i + 1] * power
    odd = xp.matmul(x, odd)
    result = xp.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = xp.matmul(result, result)
    return result


@portable("pinv")
def pinv(xp: Any, x: Array, rtol: Array) -> Array:
    """The pseudo-inverse; singular values not above ``rtol`` times the largest count as zero."""
    u, s, vh = _svd(xp, x)
    keep = s > rtol[..., None] * s[..., :1]
    inverse = xp.where(keep, 1 / xp.where(keep, s, 1), 0).astype(s.dtype)
    return xp.matmul(adjoint(xp, vh) * inverse[..., None, :], adjoint(xp, u))


# --- decompositions -------------------------------------------------------------------------

_NO_CONVERGENCE = "the iteration did not converge; x may hold NaN or infinities"


def _svd(xp: Any, x: Array, **kwargs: Any) -> Any:
    return _try(xp, _NO_CONVERGENCE, xp.linalg.svd, x, full_matrices=False, **kwargs)


@portable("cholesky")
def cholesky(xp: Any, x: Array) -> Array:
    """The lower factor of the Hermitian part of each matrix."""
    refusal = "the matrix is not positive definite"
    return _try(xp, refusal, xp.linalg.cholesky, hermitian_part(xp, x))


@portable("lu")
def lu(xp: Any, x: Array) -> tuple[Array, ...]:
    """Permutation, lower and upper triangle of each matrix: elimination, column by column."""
    rows, columns = x.shape[-2:]
    inner, places = min(rows, columns), xp.arange(rows)
    a, order = x.copy(), xp.broadcast_to(places, x.shape[:-1])
    for j in range(inner):
        pivot = xp.argmax(xp.abs(a[..., j:, j]), axis=-1)[..., None] + j
        swapped = xp.where(places == j, pivot, xp.where(places == pivot, j, places))
        a = xp.take_along_axis(a, swapped[..., None], axis=-2)
        order = xp.take_along_axis(order, swapped, axis=-1)
        top = a[..., j, j, None]
        factors = a[..., j + 1 :, j] / xp.where(top == 0, x.dtype.type(1), top)
        a[..., j + 1 :, j] = factors
        a[..., j + 1 :, j + 1 :] -= factors[..., None] * a[..., j, None, j + 1 :]
    permutation = (places[:, None] == order[..., None, :]).astype(x.dtype)
    lower = xp.tril(a[..., :inner], -1) + xp.eye(rows, inner, dtype=x.dtype)
    return permutation, lower, xp.triu(a[..., :inner, :])


@portable("qr")
def qr(xp: Any, x: Array, *, mode: str) -> tuple[Array, ...]:
    """Orthonormal columns and an upper triangle with a real diagonal."""
    return tuple(xp.linalg.qr(x, mode=mode))


@portable("eigh")
def eigh(xp: Any, x: Array) -> tuple[Array, ...]:
    """Ascending eigenvalues and eigenvectors of the Hermitian part of each matrix."""
    return tuple(_try(xp, _NO_CONVERGENCE, xp.linalg.eigh, hermitian_part(xp, x)))


@portable("eigvalsh")
def eigvalsh(xp: Any, x: Array) -> Array:
    """Ascending eigenvalues of the Hermitian part of each matrix."""
    return _try(xp, _NO_CONVERGENCE, xp.linalg.eigvalsh, hermitian_part(xp, x))


def _complex(xp: Any, x: Array) -> Array:
    return x.astype(xp.result_type(x.dtype, xp.complex64))


@portable("eig")
def eig(xp: Any, x: Array) -> tuple[Array, Array]:
    """Eigenvalues and right eigenvectors of length one, of complex dtype even if real."""
    values, vectors = _try(xp, _NO_CONVERGENCE, xp.linalg.eig, x)
    return _complex(xp, values), _complex(xp, vectors)


@portable("eigvals")
def eigvals(xp: Any, x: Array) -> Array:
    """Eigenvalues, of complex dtype even if real."""
    return _complex(xp, _try(xp, _NO_CONVERGENCE, xp.linalg.eigvals, x))


@portable("svd")
def svd(xp: Any, x: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    """Left singular vectors, descending singular values, adjoint right singular vectors."""
    return tuple(_try(xp, _NO_CONVERGENCE, xp.linalg.svd, x, full_matrices=full_matrices))


@portable("svdvals")
def svdvals(xp: Any, x: Array) -> Array:
    """Descending singular values."""
    return _svd(xp, x, compute_uv=False)


# --- norms ----------------------------------------------------------------------------------


def _magnitude_squared(xp: Any, x: Array) -> Array:
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x


def _euclidean(xp: Any, x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    if len(axis) == x.ndim and x.flags.forc:
        flat = x.ravel(order="K")
        norm = xp.sqrt(xp.vdot(flat, flat).real)
        return norm.reshape((1,) * x.ndim) if keepdims else norm
    return xp.sqrt(xp.sum(_magnitude_squared(xp, x), axis=axis, keepdims=keepdims))


def _power_norm(xp: Any, a: Array, ord: float, axis: tuple[int, ...], keepdims: bool) -> Array:
    # relative to the element that dominates the sum, which then neither overflows nor vanishes
    top = (xp.max if ord > 0 else xp.min)(a, axis=axis, keepdims=True)
    usual = xp.isfinite(top) & (top > 0)
    ratio = xp.where(usual, a / xp.where(usual, top, 1), 1)
    norm = top * xp.sum(ratio**ord, axis=axis, keepdims=True) ** (1 / ord)
    norm = xp.where(usual, norm, top)
    return norm if keepdims else xp.squeeze(norm, axis=axis)


@portable("vector_norm")
def vector_norm(xp: Any, x: Array, *, axis: tuple[int, ...], ord: float, keepdims: bool) -> Array:
    """The norm over some axes; of no elements at all 0, or infinity for a negative order."""
    if ord == 2:
        return _euclidean(xp, x, axis, keepdims)
    a = xp.abs(x)
    if ord == 0:
        return xp.sum(a != 0, axis=axis, keepdims=keepdims).astype(a.dtype)
    if ord == 1:
        return xp.sum(a, axis=axis, keepdims=keepdims)
    if any(x.shape[i] == 0 for i in axis):
        norm = xp.sum(a, axis=axis, keepdims=keepdims)
        return norm if ord > 0 else norm + xp.inf
    if abs(ord) == float("inf"):
        return (xp.max if ord > 0 else xp.min)(a, axis=axis, keepdims=keepdims)
    return _power_norm(xp, a, ord, axis, keepdims)
