"""Compositions of linear algebra, by the names of NumPy and SciPy."""

from __future__ import annotations

from typing import Literal

from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import ShapeError
from eagerflow.ops.linalg.matrices import conj_transpose
from eagerflow.ops.linalg.norms import matrix_norm
from eagerflow.ops.linalg.singular_values import svdvals
from eagerflow.ops.linalg.solvers import inv, triangular_solve
from eagerflow.ops.rules.arguments import matrices_of
from eagerflow.ops.rules.promotion import floating, promote
from eagerflow.ops.shape.joining import concat
from eagerflow.ops.shape.padding import pad
from eagerflow.ops.shape.reshape_and_transpose import reshape


def block_diag(*blocks: TensorLike) -> Tensor:
    """A block diagonal matrix: blocks along the diagonal, zeros elsewhere.

    Args:
        blocks: matrices, or vectors and numbers, which count as rows; they promote to one dtype.

    Raises:
        ShapeError: a block has more than two axes, or there is none.

    >>> ef.linalg.block_diag(ef.tensor([[1, 2]]), 3)
    Tensor([[1, 2, 0],
            [0, 0, 3]], i64[2,3]@cpu:0)
    """
    if not blocks:
        raise ShapeError("block_diag: there are no blocks")
    parts = []
    for x in promote(*map(tensor_of, blocks)):
        if len(x.shape) > 2:
            raise ShapeError("block_diag: a block is not a matrix", given=str(type_of(x)))
        parts.append(x if len(x.shape) == 2 else reshape(x, (1, -1)))
    width, before = sum(x.shape[1] for x in parts), 0
    rows = []
    for x in parts:
        rows.append(pad(x, ((0, 0), (before, width - before - x.shape[1]))))
        before += x.shape[1]
    return concat(rows, axis=0)


def cho_solve(factor: tuple[TensorLike, bool], b: TensorLike, /) -> Tensor:
    """The solution of ``a @ x == b`` from the Cholesky factor of ``a``.

    Args:
        factor: ``(c, lower)``: the factor, as returned by `cholesky`, and whether it is lower.
        b: right-hand sides, as for `solve`: matrices, or one vector.

    Raises:
        ShapeError: the sizes do not fit.

    >>> c = ef.linalg.cholesky(ef.tensor([[4.0, 0.0], [0.0, 9.0]]))
    >>> ef.linalg.cho_solve((c, True), ef.tensor([4.0, 18.0]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    c, lower = factor
    (c,) = (tensor_of(c),)
    low = c if lower else conj_transpose(c)
    return triangular_solve(low, triangular_solve(low, b), adjoint=True)


def cond(x: TensorLike, /, p: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """The condition number of each matrix: its norm times the norm of its inverse.

    Args:
        x: matrices, floating or complex; integers count as float32. They must be square unless
            ``p`` is None, 2 or -2.
        p: the norm, as for `matrix_norm`; None is 2, the quotient of the extreme singular values.

    Raises:
        ShapeError: the matrices are not square.

    >>> ef.linalg.cond(ef.tensor([[4.0, 0.0], [0.0, 2.0]]))
    Tensor(2., f32[]@cpu:0)
    """
    matrices = matrices_of("cond", floating(x))
    if p is None or p in (2, -2):
        values = svdvals(matrices)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return matrix_norm(matrices, ord=p) * matrix_norm(inv(matrices), ord=p)
