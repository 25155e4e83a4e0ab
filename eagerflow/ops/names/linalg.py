"""Linear algebra: `eagerflow.linalg`.

Matrices are the last two axes of an array; the axes before them are a batch.
"""

from eagerflow.counterparts import unknown_name
from eagerflow.ops.linalg.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr
from eagerflow.ops.linalg.norms import matrix_norm, norm, vector_norm
from eagerflow.ops.linalg.products import cross, matmul, outer, tensordot, vecdot
from eagerflow.ops.linalg.singular import lstsq, matrix_rank, pinv, svd, svdvals
from eagerflow.ops.linalg.solvers import (
    adjugate,
    det,
    expm,
    inv,
    matrix_power,
    slogdet,
    solve,
    triangular_solve,
)
from eagerflow.ops.linalg.solvers import triangular_solve as solve_triangular
from eagerflow.ops.shape.axes import matrix_transpose
from eagerflow.ops.shape.diagonals import matrix_diagonal as diagonal
from eagerflow.ops.shape.diagonals import trace

__all__ = [
    "adjugate",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "triangular_solve",
    "vecdot",
    "vector_norm",
]


def __getattr__(name: str) -> object:
    """Word the error for a name that is not here, with the nearest one that is."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise unknown_name("eagerflow.linalg", name, {n: globals()[n] for n in __all__})


def __dir__() -> list[str]:
    return __all__
