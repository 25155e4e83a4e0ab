"""Linear algebra kernels for the CPU, on BLAS and LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable import linalg as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]

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
