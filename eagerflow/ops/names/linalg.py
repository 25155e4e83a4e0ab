"""Linear algebra: `eagerflow.linalg`.

Matrices are the last two axes of an array; the axes before them are a batch.
"""

from eagerflow.ops.linalg.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, lu, qr
from eagerflow.ops.linalg.derived import block_diag, cho_solve, cond
from eagerflow.ops.linalg.norms import matrix_norm, norm, vector_norm
from eagerflow.ops.linalg.products import cross, matmul, outer, tensordot, vecdot
from eagerflow.ops.linalg.singular_values import lstsq, matrix_rank, pinv, svd, svdvals
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
from eagerflow.ops.shape.diagonals import matrix_diagonal as diagonal
from eagerflow.ops.shape.diagonals import trace
from eagerflow.ops.shape.reshape_and_transpose import matrix_transpose
from eagerflow.unknown_names import module_dir, module_getattr

__all__ = [
    "adjugate",
    "block_diag",
    "cho_solve",
    "cholesky",
    "cond",
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
    "lu",
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

__getattr__ = module_getattr("eagerflow.linalg", globals())
__dir__ = module_dir(globals())
