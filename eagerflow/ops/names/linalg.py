"""Linear algebra: `eagerflow.linalg`.

Matrices are the last two axes of an array; the axes before them are a batch.
"""

from eagerflow.ops.linalg.decompositions import cholesky as cholesky
from eagerflow.ops.linalg.decompositions import eig as eig
from eagerflow.ops.linalg.decompositions import eigh as eigh
from eagerflow.ops.linalg.decompositions import eigvals as eigvals
from eagerflow.ops.linalg.decompositions import eigvalsh as eigvalsh
from eagerflow.ops.linalg.decompositions import qr as qr
from eagerflow.ops.linalg.norms import matrix_norm as matrix_norm
from eagerflow.ops.linalg.norms import norm as norm
from eagerflow.ops.linalg.norms import vector_norm as vector_norm
from eagerflow.ops.linalg.products import cross as cross
from eagerflow.ops.linalg.products import matmul as matmul
from eagerflow.ops.linalg.products import outer as outer
from eagerflow.ops.linalg.products import tensordot as tensordot
from eagerflow.ops.linalg.products import vecdot as vecdot
from eagerflow.ops.linalg.singular import lstsq as lstsq
from eagerflow.ops.linalg.singular import matrix_rank as matrix_rank
from eagerflow.ops.linalg.singular import pinv as pinv
from eagerflow.ops.linalg.singular import svd as svd
from eagerflow.ops.linalg.singular import svdvals as svdvals
from eagerflow.ops.linalg.solvers import adjugate as adjugate
from eagerflow.ops.linalg.solvers import det as det
from eagerflow.ops.linalg.solvers import expm as expm
from eagerflow.ops.linalg.solvers import inv as inv
from eagerflow.ops.linalg.solvers import matrix_power as matrix_power
from eagerflow.ops.linalg.solvers import slogdet as slogdet
from eagerflow.ops.linalg.solvers import solve as solve
from eagerflow.ops.linalg.solvers import triangular_solve as solve_triangular
from eagerflow.ops.linalg.solvers import triangular_solve as triangular_solve
from eagerflow.ops.shape.axes import matrix_transpose as matrix_transpose
from eagerflow.ops.shape.diagonals import matrix_diagonal as diagonal
from eagerflow.ops.shape.diagonals import trace as trace
from eagerflow.unknown_names import module_getattr

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

__getattr__ = module_getattr("eagerflow.linalg", globals())


def __dir__() -> list[str]:
    return __all__
