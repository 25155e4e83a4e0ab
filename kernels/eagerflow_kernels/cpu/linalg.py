"""Linear algebra kernels for the CPU, on BLAS and LAPACK."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eagerflow_kernels.portable import linalg as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
_matmul = np.matmul


@special("matmul", "cpu")
def matmul(x1: Array, x2: Array) -> Any:
    """NumPy's product; a batch times one matrix is one product instead of one per element of it."""
    if x1.ndim > 2 and 0 < x2.ndim < 3 and x1.flags.c_contiguous and x1.size:
        rows = x1.reshape((-1, x1.shape[-1]))
        return _product(rows, x2).reshape(x1.shape[:-1] + x2.shape[1:])
    return _product(x1, x2)


#: by dtype, the most rows of a product with a transposed matrix that is faster transposed
_FEW: Final = {np.dtype("float32"): 48, np.dtype("float64"): 16}
#: multiplications from which on that holds; OpenBLAS has other code for smaller products
_LARGE: Final = 1_000_000


def _product(x1: Array, x2: Array) -> Any:
    """The product of two matrices; ``x @ w.T`` of few rows is ``(w @ x.T).T``, copied into rows.

    For OpenBLAS, which packs its operands, that is up to 1.9 times as fast: see
    ``tests/bench/products.py``.
    """
    if x1.ndim == 2 == x2.ndim and 1 < len(x1) <= 48:
        columns = x2.shape[1]
        if (
            x1.size * columns > _LARGE
            and columns >= 2 * len(x1) <= 2 * _FEW.get(x1.dtype, 0)
            and x2.flags.f_contiguous
            and x1.flags.c_contiguous
            and x2.dtype is x1.dtype
        ):
            return np.ascontiguousarray(_matmul(x2.T, x1.T).T)
    return _matmul(x1, x2)


special("vecdot", "cpu")(np.vecdot)


@special("triangular_solve", "cpu")
def triangular_solve(a: Array, b: Array, *, lower: bool, adjoint: bool, unit_diagonal: bool) -> Any:
    """LAPACK's trtrs, matrix by matrix; a batch of small matrices is faster with LU factors."""
    portable.check_square(a)
    if b.shape[-2] != a.shape[-1]:
        raise ValueError("the right-hand sides have another number of rows")
    if (a.ndim > 2 or b.ndim > 2) and a.shape[-1] < 16:
        return portable.triangular_solve(
            np, a, b, lower=lower, adjoint=adjoint, unit_diagonal=unit_diagonal
        )
    from scipy.linalg.lapack import get_lapack_funcs  # noqa: PLC0415 - 0.2 s, few need it

    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, batch + a.shape[-2:])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    out = np.empty(b.shape, dtype=b.dtype)
    if not out.size:
        return out
    trtrs = get_lapack_funcs("trtrs", (a, b))
    # LAPACK reads column by column: it takes memory in rows for the transpose
    flip = a.strides[-1] < a.strides[-2]
    if flip:
        a = a.swapaxes(-1, -2)
    if adjoint and flip:
        a, trans = a.conj(), 0
    else:
        trans = 2 if adjoint else int(flip)
    for i in np.ndindex(batch):
        x, info = trtrs(a[i], b[i], lower=lower != flip, trans=trans, unitdiag=unit_diagonal)
        if info:
            raise ValueError(portable.SINGULAR)
        out[i] = x
    return out


@special("lu", "cpu")
def lu(x: Array) -> tuple[Any, ...]:
    """SciPy's LU factors, matrix by matrix; portable without elements, as shapes differ."""
    if not x.size:
        return portable.lu(np, x)
    from scipy.linalg import lu as factored  # noqa: PLC0415 - 0.2 s, few need it

    permutation, lower, upper = factored(x, check_finite=False)
    return permutation.astype(x.dtype), lower, upper
