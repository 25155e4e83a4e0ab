"""Products of matrices: one function makes all calls of BLAS for an op, whatever runs it.

Which call it is depends on types and strides alone, so that eager and compiled code have the same
bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels.table import prepared, special

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


# --- products with the same matrix in a loop ------------------------------------------------

#: rows of products that are faster with a copy of a transposed matrix, laid by rows
_ROWS: Final = range(4, 129)
#: elements of matrices of which a copy pays: a larger one takes as long as many products
_COPIED: Final = range(1 << 11, (1 << 17) + 1)
#: the number of the product that makes the copy, so that short loops make none
_BEGIN: Final = 3
#: whether products of a type have the same bits with the copy, by numbers of threads of BLAS
#: libraries, shapes and dtype
_same_bits: Final[dict[tuple[Any, ...], bool]] = {}


@final
@prepared(matmul)
class RepeatedFactor:
    """Products with one matrix, such as a weight that the iterations of a loop share.

    OpenBLAS packs a transposed matrix anew for each product, which takes as long as a product of
    sixteen rows. A copy that lies by rows is made once. It is used for products whose bits do not
    depend on that, which a trial with other numbers tells, once for each type and number of
    threads. The product of a matrix and its own transpose is left alone: NumPy has another routine
    of BLAS for it, which adds in another order.

    Args:
        x2: the matrix, the second factor.
    """

    __slots__ = ("_calls", "_rows", "_thread_counts", "x2")

    def __init__(self, x2: Array) -> None:
        self.x2 = x2
        self._rows: Array | None = None
        self._thread_counts: list[Callable[[], int]] = []
        flags = x2.flags
        fits = x2.ndim == 2 and flags.f_contiguous and not flags.c_contiguous
        fits = fits and x2.size in _COPIED and x2.dtype in _FEW
        self._calls = 0 if fits else _BEGIN

    def __call__(self, x1: Array) -> Any:
        rows = self._rows
        if rows is None:
            self._calls += 1
            if self._calls != _BEGIN:
                return matmul(x1, self.x2)
            self._thread_counts = _thread_counts()
            rows = self._rows = np.ascontiguousarray(self.x2)
        if x1.ndim == 2 and len(x1) in _ROWS and x1.flags.c_contiguous and x1.dtype is rows.dtype:
            product = (len(x1), rows.shape, rows.dtype)
            threads = tuple([count() for count in self._thread_counts])
            same = _same_bits.get((threads, *product))
            if same is None:
                same = _same_bits[threads, *product] = _have_same_bits(*product)
            if same and (len(x1) != rows.shape[1] or not np.may_share_memory(x1, self.x2)):
                return _matmul(x1, rows)
        return matmul(x1, self.x2)


@cache
def _thread_counts() -> list[Callable[[], int]]:
    """Functions that tell how many threads the BLAS libraries of the process use."""
    # it has no types, and inspects all libraries of the process, which takes milliseconds
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # noqa: PLC0415

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_thread_count(blas) for blas in libraries]


def _thread_count(blas: Any) -> Callable[[], int]:
    """Tells how many threads a library uses.

    OpenBLAS, which is asked before each product, is called directly, and keeps the lock of the
    interpreter meanwhile.
    """
    names = [name for name in blas.check_symbols if hasattr(blas.dynlib, name)]
    if blas.internal_api == "openblas" and blas.threading_layer != "openmp" and names:
        return ctypes.PYFUNCTYPE(ctypes.c_int)((names[0], blas.dynlib))
    method: Callable[[], int] = blas.get_num_threads
    return method


def _have_same_bits(count: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> bool:
    """Whether ``x @ w.T`` has the bits of ``x @ v``, with ``v`` a copy of ``w.T``."""
    draws = np.random.default_rng(0)
    x1 = (draws.random((count, shape[0])) - 0.5).astype(dtype)
    x2 = (draws.random(shape[::-1]) - 0.5).astype(dtype).T
    products = matmul(x1, x2), _matmul(x1, np.ascontiguousarray(x2))
    return bool(products[0].tobytes() == products[1].tobytes())
