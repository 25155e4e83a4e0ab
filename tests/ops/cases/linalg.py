"""Cases of products, diagonals and norms; solvers and factorisations are in matrices.py."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import ALL, COMPLEX, FLOATING, INEXACT, NUMERIC, OpCase, Sample

ONE = ("matrix", "strided")  # shapes are the rows' own; a layout tells contiguous from strided


def shaped(*shapes: tuple[int, ...]):
    """Makes one array for each shape."""
    return lambda s: tuple(s.array(shape=shape) for shape in shapes)


def wide(array):
    """The array in a dtype in which sums of products are exact or nearly so."""
    kind = {"c": np.complex128, "f": np.float64}.get(array.dtype.kind)
    return array if kind is None else array.astype(kind)


def dot(a, b):
    """The dot product of two vectors, summed term by term."""
    if a.dtype == bool:
        return any(x and y for x, y in zip(a, b, strict=True))
    total = a.dtype.type(0)
    with np.errstate(over="ignore"):
        for x, y in zip(a, b, strict=True):
            total = total + x * y
    return total


def matmul(a, b):
    """The matrix product in loops, batched operands included."""
    a, b = wide(a), wide(b)
    rows = a[None] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows = np.broadcast_to(rows, batch + rows.shape[-2:])
    columns = np.broadcast_to(columns, batch + columns.shape[-2:])
    out = np.zeros((*batch, rows.shape[-2], columns.shape[-1]), dtype=a.dtype)
    for index in np.ndindex(out.shape):
        *i, row, column = index
        out[index] = dot(rows[(*i, row)], columns[(*i, slice(None), column)])
    axes = tuple(k - 2 for k, x in enumerate((a, b)) if x.ndim == 1)
    return np.squeeze(out, axes)


def tensordot(a, b, axes=2):
    """The tensor contraction, element by element."""
    if isinstance(axes, int):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    first = tuple(i % a.ndim for i in axes[0])
    second = tuple(i % b.ndim for i in axes[1])
    rest = [i for i in range(a.ndim) if i not in first]
    others = [i for i in range(b.ndim) if i not in second]
    left = np.transpose(wide(a), [*rest, *first])
    right = np.transpose(wide(b), [*others, *second])
    out = np.zeros([left.shape[i] for i in range(len(rest))]
                   + [right.shape[i] for i in range(len(others))], dtype=left.dtype)  # fmt: skip
    for i in np.ndindex(*left.shape[: len(rest)]):
        for j in np.ndindex(*right.shape[: len(others)]):
            out[i + j] = dot(left[i].ravel(), right[j].ravel())
    return out


def vecdot(a, b, axis=-1):
    a, b = np.broadcast_arrays(np.moveaxis(wide(a), axis, -1), np.moveaxis(wide(b), axis, -1))
    out = np.zeros(a.shape[:-1], dtype=a.dtype)
    for i in np.ndindex(out.shape):
        out[i] = dot(np.conj(a[i]), b[i])
    return out


def cross(a, b, axis=-1):
    a, b = np.broadcast_arrays(np.moveaxis(wide(a), axis, -1), np.moveaxis(wide(b), axis, -1))
    out = np.zeros(a.shape, dtype=a.dtype)
    for i, j, k in itertools.permutations(range(3)):
        term = a[..., j] * b[..., k]
        out[..., i] = out[..., i] + term if (k - j) % 3 == 1 else out[..., i] - term
    return np.moveaxis(out, -1, axis)


def kron(a, b):
    n = max(a.ndim, b.ndim)
    a = a.reshape((1,) * (n - a.ndim) + a.shape)
    b = b.reshape((1,) * (n - b.ndim) + b.shape)
    out = np.zeros([i * j for i, j in zip(a.shape, b.shape, strict=True)], dtype=a.dtype)
    for i in np.ndindex(a.shape):
        for j in np.ndindex(b.shape):
            out[tuple(p * d + q for p, q, d in zip(i, j, b.shape, strict=True))] = a[i] * b[j]
    return out


def matrix_diagonal(x, offset=0):
    rows, columns = x.shape[-2:]
    places = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    out = np.zeros((*x.shape[:-2], len(places)), dtype=x.dtype)
    for k, (i, j) in enumerate(places):
        out[..., k] = x[..., i, j]
    return out


def diagonal(x, offset=0, axis1=0, axis2=1):
    return matrix_diagonal(np.moveaxis(x, (axis1, axis2), (-2, -1)), offset)


def diag(x, k=0):
    if x.ndim == 2:
        return matrix_diagonal(x, k)
    n = len(x) + abs(k)
    out = np.zeros((n, n), dtype=x.dtype)
    for i, value in enumerate(x):
        out[i + max(-k, 0), i + max(k, 0)] = value
    return out


def trace(x, offset=0):
    out = np.zeros(x.shape[:-2], dtype={"i": "i8", "u": "u8"}.get(x.dtype.kind, x.dtype))
    for k in range(matrix_diagonal(x, offset).shape[-1]):
        out = out + matrix_diagonal(x, offset)[..., k]
    return out


def vector_norm(x, axis=None, keepdims=False, ord=2):
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(a % x.ndim for a in axes)
    rest = [a for a in range(x.ndim) if a not in axes]
    moved = np.transpose(np.abs(wide(x)), [*rest, *axes])
    out = np.zeros([x.shape[a] for a in rest])
    for i in np.ndindex(out.shape):
        sizes = [float(v) for v in moved[i].ravel()]
        if ord == np.inf:
            out[i] = max(sizes)
        elif ord == -np.inf:
            out[i] = min(sizes)
        elif ord == 0:
            out[i] = sum(v != 0 for v in sizes)
        else:
            out[i] = sum(v**ord for v in sizes) ** (1 / ord)
    return np.expand_dims(out, axes) if keepdims else out


def matrix_norm(x, keepdims=False, ord="fro"):
    x = wide(x)
    out = np.zeros(x.shape[:-2])
    for i in np.ndindex(out.shape):
        m = x[i]
        if isinstance(ord, str) or abs(ord) == 2:
            roots = np.sqrt(np.maximum(np.linalg.eigvalsh(np.conj(m.T) @ m), 0))
            roots = sorted(roots)[-min(m.shape) :]
            out[i] = {"fro": np.sqrt(sum(r * r for r in roots)), "nuc": sum(roots),
                      2: max(roots), -2: min(roots)}[ord]  # fmt: skip
        else:
            sums = [sum(abs(v) for v in line) for line in (m.T if abs(ord) == 1 else m)]
            out[i] = max(sums) if ord > 0 else min(sums)
    return out[..., None, None] if keepdims else out


def norm(x, ord=None, axis=None, keepdims=False):
    if ord is None or np.ndim(x) == 1 or isinstance(axis, int):
        return vector_norm(x, axis, keepdims, 2 if ord is None else ord)
    axes = (0, 1) if axis is None else axis
    out = matrix_norm(np.moveaxis(x, axes, (-2, -1)), ord=ord)
    return np.expand_dims(out, axes) if keepdims else out


def _apart(*shape: int):
    """Makes an array whose magnitudes and their sums differ, so that no extreme is ambiguous."""

    def make(s: Sample):
        size = int(np.prod(shape))
        values = 3 * 40.0 ** (-s.rng.permutation(size).reshape(shape) / size)
        signs = np.where(s.rng.random(shape) < 0.5, -1, 1)
        phase = np.exp(1j * s.rng.uniform(0, 6, shape)) if s.dtype.startswith("c") else 1.0
        out = s.array(shape=shape)
        out[...] = values * signs * phase
        return (out,)

    return make


def _kinds(piecewise_linear: bool):
    """Options of rows for real and complex dtypes; real ones may lack a second derivative."""
    return (("real", FLOATING, not piecewise_linear), ("complex", COMPLEX, True))


_MATMUL_SHAPES = {
    "vectors": ((4,), (4,)),
    "row": ((3,), (3, 2)),
    "column": ((2, 3), (3,)),
    "batch": ((2, 3, 4), (2, 4, 2)),
    "broadcast": ((2, 1, 3, 4), (3, 4, 2)),
    "batch-matrix": ((2, 3, 4), (4, 2)),
    "matrix-batch": ((3, 4), (2, 4, 2)),
    "row-batch": ((4,), (2, 4, 2)),
    "batch-column": ((2, 3, 4), (4,)),
    "empty": ((2, 0), (0, 3)),
    "no-rows": ((0, 3), (3, 2)),
}

CASES = [
    OpCase("matmul", shaped((2, 3), (3, 4)), matmul, dtypes=ALL, grad=(0, 1), layouts=ONE),
    *(
        OpCase("matmul", shaped(*shapes), matmul, dtypes=INEXACT, grad=(0, 1), layouts=ONE,
               label=label)
        for label, shapes in _MATMUL_SHAPES.items()
    ),
    OpCase("vecdot", shaped((2, 3), (3,)), vecdot, dtypes=NUMERIC, grad=(0, 1), layouts=ONE),
    OpCase("vecdot", shaped((2, 3, 4), (3, 1)), vecdot, {"axis": -2}, INEXACT, (0, 1),
           layouts=ONE, label="axis"),
    OpCase("vdot", shaped((2, 3), (3, 2)), lambda a, b: vecdot(a.ravel(), b.ravel()),
           dtypes=INEXACT, grad=(0, 1), layouts=ONE),
    OpCase("cross", shaped((2, 3), (4, 1, 3)), cross, dtypes=NUMERIC, grad=(0, 1), layouts=ONE),
    OpCase("cross", shaped((3, 2), (2, 3, 2)), cross, {"axis": -2}, INEXACT, (0, 1),
           layouts=ONE, label="axis"),
    OpCase("tensordot", shaped((2, 3, 4), (3, 4, 2)), tensordot, dtypes=ALL, grad=(0, 1),
           layouts=ONE),
    *(
        OpCase("tensordot", shaped((2, 3, 4), (3, 4, 2)), tensordot, {"axes": axes}, FLOATING,
               (0, 1), layouts=ONE, label=label)
        for label, axes in {
            "none": 0, "pairs": ((1, 2), (0, 1)), "crossed": ((-1, 0), (1, -1)),
            "one": ((2,), (1,)),
        }.items()
    ),
    OpCase("outer", shaped((3,), (2, 2)), lambda a, b: tensordot(a.ravel(), b.ravel(), 0),
           dtypes=ALL, grad=(0, 1), layouts=ONE),
    OpCase("inner", shaped((2, 3), (4, 3)), lambda a, b: tensordot(a, b, ((-1,), (-1,))),
           dtypes=ALL, grad=(0, 1), layouts=ONE),
    OpCase("inner", shaped((), (4, 3)), lambda a, b: a * b, dtypes=FLOATING, grad=(0, 1),
           layouts=("matrix",), label="number"),
    OpCase("dot", shaped((2, 3), (4, 3, 2)), lambda a, b: tensordot(a, b, ((-1,), (-2,))),
           dtypes=ALL, grad=(0, 1), layouts=ONE),
    OpCase("dot", shaped((2, 3), (3, 4)), matmul, dtypes=FLOATING, grad=(0, 1),
           layouts=ONE, label="matrices"),
    OpCase("dot", shaped((2, 3), ()), lambda a, b: a * b, dtypes=FLOATING, grad=(0, 1),
           layouts=("matrix",), label="number"),
    OpCase("kron", shaped((2, 3), (2, 2)), kron, dtypes=NUMERIC, grad=(0, 1), layouts=ONE),
    OpCase("kron", shaped((2,), (2, 3)), kron, dtypes=INEXACT, grad=(0, 1), layouts=ONE,
           label="vector"),
    OpCase("diag", shaped((3,)), diag, dtypes=ALL, grad=(0,), layouts=ONE, exact=True,
           ops=("diag_embed",)),
    OpCase("diag", shaped((3, 4)), diag, {"k": 1}, ALL, (0,), layouts=ONE, exact=True,
           label="matrix", ops=("diagonal",)),
    OpCase("diag", shaped((3,)), diag, {"k": -2}, FLOATING, (0,), layouts=ONE, exact=True,
           label="below", ops=("diag_embed",)),
    OpCase("diagflat", shaped((2, 2)), lambda x, k=0: diag(x.ravel(), k), {"k": 1}, ALL, (0,),
           layouts=ONE, exact=True),
    OpCase("diagonal", shaped((3, 4, 2)), diagonal, dtypes=ALL, grad=(0,), layouts=ONE,
           exact=True),
    OpCase("diagonal", shaped((3, 4, 2)), diagonal, {"offset": -1, "axis1": 2, "axis2": 1},
           INEXACT, (0,), layouts=ONE, exact=True, label="axes"),
    OpCase("linalg.diagonal", shaped((2, 4, 3)), matrix_diagonal, {"offset": -2}, ALL, (0,),
           layouts=ONE, exact=True),
    OpCase("linalg.diagonal", shaped((2, 3)), matrix_diagonal, {"offset": 9}, FLOATING,
           no_grad="there is nothing to differentiate", layouts=ONE, exact=True, label="outside"),
    OpCase("linalg.trace", shaped((2, 4, 3)), trace, dtypes=NUMERIC, grad=(0,), layouts=ONE),
    OpCase("linalg.trace", shaped((3, 4)), trace, {"offset": 1}, INEXACT, (0,), layouts=ONE,
           label="offset"),
    *(
        OpCase("linalg.vector_norm", _apart(3, 4), vector_norm, {"ord": ord}, dtypes, (0,),
               layouts=ONE, label=f"{ord}-{kind}", tolerance=3, second=second)
        for ord in (2, 1, np.inf, -np.inf, 3, 2.5, 1.5, 0.5, -1, -2)
        for kind, dtypes, second in _kinds(ord in (np.inf, -np.inf))
    ),
    OpCase("linalg.vector_norm", shaped((3, 4)), vector_norm, {"ord": 0}, INEXACT,
           no_grad="it counts", layouts=ONE, label="0"),
    OpCase("linalg.vector_norm", _apart(3, 4, 2), vector_norm, {"axis": (2, 0)}, INEXACT, (0,),
           layouts=ONE, label="axes", tolerance=3),
    OpCase("linalg.vector_norm", _apart(3, 4), vector_norm,
           {"axis": 0, "keepdims": True, "ord": 3}, INEXACT, (0,), layouts=ONE, label="kept",
           tolerance=3),
    *(
        OpCase("linalg.matrix_norm", _apart(2, 3, 2), matrix_norm, {"ord": ord}, dtypes, (0,),
               layouts=ONE, label=f"{ord}-{kind}", tolerance=10, second=second)
        for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        for kind, dtypes, second in _kinds(ord in (1, -1, np.inf, -np.inf))
    ),
    OpCase("linalg.matrix_norm", _apart(2, 3, 4), matrix_norm, {"keepdims": True, "ord": 2},
           INEXACT, (0,), layouts=ONE, label="kept", tolerance=10),
    OpCase("linalg.norm", _apart(3, 4), norm, dtypes=INEXACT, grad=(0,), layouts=ONE, tolerance=3),
    OpCase("linalg.norm", _apart(3, 4), norm, {"ord": 1, "axis": 1}, INEXACT, (0,), layouts=ONE,
           label="vectors", tolerance=3),
    OpCase("linalg.norm", _apart(3, 4), norm, {"ord": "nuc", "keepdims": True}, INEXACT, (0,),
           layouts=ONE, label="matrix", tolerance=10),
    OpCase("linalg.norm", _apart(3, 2, 4), norm, {"ord": "fro", "axis": (2, 0)}, INEXACT, (0,),
           layouts=ONE, label="axes", tolerance=3),
]  # fmt: skip
