"""Linear algebra: `eagerflow.linalg`.

Matrices are the last two axes of an array; the axes before them are a batch.
"""

from eagerflow.counterparts import unknown_name
from eagerflow.ops.decompositions import cholesky as cholesky
from eagerflow.ops.decompositions import eig as eig
from eagerflow.ops.decompositions import eigh as eigh
from eagerflow.ops.decompositions import eigvals as eigvals
from eagerflow.ops.decompositions import eigvalsh as eigvalsh
from eagerflow.ops.decompositions import qr as qr
from eagerflow.ops.diagonals import matrix_diagonal as diagonal
from eagerflow.ops.diagonals import trace as trace
from eagerflow.ops.matmul import cross as cross
from eagerflow.ops.matmul import matmul as matmul
from eagerflow.ops.matmul import outer as outer
from eagerflow.ops.matmul import tensordot as tensordot
from eagerflow.ops.matmul import vecdot as vecdot
from eagerflow.ops.norms import matrix_norm as matrix_norm
from eagerflow.ops.norms import norm as norm
from eagerflow.ops.norms import vector_norm as vector_norm
from eagerflow.ops.shape import matrix_transpose as matrix_transpose
from eagerflow.ops.singular import lstsq as lstsq
from eagerflow.ops.singular import matrix_rank as matrix_rank
from eagerflow.ops.singular import pinv as pinv
from eagerflow.ops.singular import svd as svd
from eagerflow.ops.singular import svdvals as svdvals
from eagerflow.ops.solvers import adjugate as adjugate
from eagerflow.ops.solvers import det as det
from eagerflow.ops.solvers import expm as expm
from eagerflow.ops.solvers import inv as inv
from eagerflow.ops.solvers import matrix_power as matrix_power
from eagerflow.ops.solvers import slogdet as slogdet
from eagerflow.ops.solvers import solve as solve
from eagerflow.ops.solvers import triangular_solve as solve_triangular
from eagerflow.ops.solvers import triangular_solve as triangular_solve

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
