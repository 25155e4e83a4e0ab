"""Cases of solvers of linear systems and of matrix factorisations.

References compare with SciPy, matrix by matrix, or check the defining properties of the result.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from tests.ops.case import COMPLEX, INEXACT, TOLERANCE, OpCase, Sample
from tests.ops.cases.linalg import ONE, shaped, wide

FLOATS = ("float32", "float64")
FREE_PHASE = "vectors have a free phase; tests/ops/linalg/test_linalg.py has functions without it"


def like(s: Sample, values):
    """``values`` in the dtype and the strides of the sample."""
    out = s.array(shape=values.shape)
    out[...] = values.astype(out.dtype)
    return out


def regular(*shape: int, shift: float = 5.0):
    """Makes square matrices far from singular."""

    def make(s: Sample):
        x = wide(s.array(-1, 1, shape=shape))
        return (like(s, x + shift * np.eye(shape[-1])),)

    return make


def hermitian(*shape: int, shift: float = 0.0):
    """Makes Hermitian matrices with distinct eigenvalues; with a shift of 5, positive ones."""

    def make(s: Sample):
        x = wide(s.array(-0.5, 0.5, shape=shape))
        x = x + np.conj(np.swapaxes(x, -1, -2))
        return (like(s, x + np.diag(np.arange(shape[-1]) * 2.0 + shift)),)

    return make


def distinct(*shape: int):
    """Makes matrices with distinct singular values (and real eigenvalues, if square)."""

    def make(s: Sample):
        x = wide(s.array(-0.4, 0.4, shape=shape))
        main = np.eye(*shape[-2:]) * (1.0 + 2.0 * np.arange(shape[-1]))
        return (like(s, x + main),)

    return make


def system(a: tuple[int, ...], b: tuple[int, ...]):
    """Makes a regular matrix and a right-hand side."""
    return lambda s: (*regular(*a)(s), s.array(shape=b))


def each(function, core: int = 2):
    """A reference that applies a function to each matrix of a stack."""

    def apply(*arrays, **kwargs):
        arrays = [wide(a) for a in arrays]
        batch = np.broadcast_shapes(*(a.shape[:-core] for a in arrays))
        arrays = [np.broadcast_to(a, batch + a.shape[-core:]) for a in arrays]
        parts = {i: function(*(a[i] for a in arrays), **kwargs) for i in np.ndindex(batch)}
        first = next(iter(parts.values()))
        single = not isinstance(first, tuple)
        outs = []
        for k in range(1 if single else len(first)):
            made = {i: np.asarray(p if single else p[k]) for i, p in parts.items()}
            out = np.zeros(batch + next(iter(made.values())).shape, next(iter(made.values())).dtype)
            for i, value in made.items():
                out[i] = value
            outs.append(out)
        return outs[0] if single else tuple(outs)

    return apply


def solve(a, b):
    vector = b.ndim == 1
    x = each(scipy.linalg.solve)(a, b[:, None] if vector else b)
    return x[..., 0] if vector else x


def triangular(a, b, lower=True, adjoint=False, unit_diagonal=False):
    a = np.tril(wide(a)) if lower else np.triu(wide(a))
    if unit_diagonal:
        for i in range(a.shape[-1]):
            a[..., i, i] = 1
    return solve(np.conj(np.swapaxes(a, -1, -2)) if adjoint else a, wide(b))


def laplace(m):
    """The determinant by expansion along the first row."""
    if m.shape[0] == 0:
        return m.dtype.type(1)
    total = m.dtype.type(0)
    for j in range(len(m)):
        minor = np.delete(m[1:], j, axis=1)
        total = total + (-1) ** j * m[0, j] * laplace(minor)
    return total


def adjugate(m):
    n = len(m)
    out = np.zeros_like(m)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(m, i, axis=0), j, axis=1)
            out[j, i] = (-1) ** (i + j) * laplace(minor)
    return out


def slogdet(m):
    det = laplace(m)
    return det / abs(det), np.log(abs(det))


def singular(s: Sample):
    """Makes matrices without full rank: one of rank 2 and one of rank 1."""
    left, right = wide(s.array(shape=(2, 3, 2))), wide(s.array(shape=(2, 2, 3)))
    left[1, :, 1] = 0
    return (like(s, left @ right),)


def close(got, want, tolerance: float = 20.0):
    """Asserts that arrays are equal relative to the largest element."""
    name = got.dtype.name
    got, want = wide(got), wide(want)
    assert got.shape == want.shape
    scale = max(1.0, np.max(np.abs(want), initial=0))
    np.testing.assert_allclose(got, want, atol=tolerance * TOLERANCE[name] * scale, rtol=0)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def orthonormal(q):
    """Asserts that the columns of each matrix are orthonormal."""
    product = adjoint(q) @ q
    close(product, np.broadcast_to(np.eye(q.shape[-1]), product.shape))


def _decomposed(check):
    """A comparison that passes the parts of a result, as NumPy arrays, and ``x`` to a check."""
    return lambda got, x: check(*(part.numpy() for part in got), x)


def _qr(q, r, x):
    orthonormal(q)
    close((q @ r).astype(q.dtype), x)
    np.testing.assert_array_equal(np.tril(r, -1), 0)


def _eigh(values, vectors, x):
    orthonormal(vectors)
    assert np.all(np.diff(values) >= 0)
    close((vectors * values[..., None, :]) @ adjoint(vectors), x)


def _eig(values, vectors, x):
    lengths = np.sum(np.abs(vectors) ** 2, axis=-2)
    close(lengths, np.ones_like(lengths))
    close(x.astype(vectors.dtype) @ vectors, vectors * values[..., None, :])


def _svd(u, s, vh, x):
    orthonormal(u)
    orthonormal(adjoint(vh))
    assert np.all(np.diff(s) <= 0)
    assert np.all(s >= 0)
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)


def _eigvals(got, want):
    order = [np.lexsort((v.imag, v.real)) for v in (got.numpy(), want)]
    close(got.numpy()[order[0]], want[order[1]])


def same(x, **kwargs):
    return x


def symmetrised(x):
    return (x + adjoint(x)) / 2


def _power(x, n):
    return each(lambda m: _repeated(scipy.linalg.inv(m) if n < 0 else m, abs(n)))(x)


def _repeated(m, n):
    out = np.eye(len(m), dtype=m.dtype)
    for _ in range(n):
        out = out @ m
    return out


def _lstsq(a, b):
    a, b = wide(a), wide(b)
    x, _, rank, s = scipy.linalg.lstsq(a, b)
    return x, np.sum(np.abs(a @ x - b) ** 2, axis=0), rank, s


SYSTEMS = {
    "vector": ((3, 3), (3,)),
    "vectors": ((2, 3, 3), (3,)),
    "batch": ((2, 3, 3), (2, 3, 2)),
    "broadcast": ((3, 3), (4, 2, 3, 2)),
    "nothing": ((3, 3), (3, 0)),
}
SHAPES = {"square": (3, 3), "tall": (2, 4, 3), "wide": (2, 2, 4)}

CASES = [
    OpCase("linalg.inv", regular(2, 3, 3), each(scipy.linalg.inv), dtypes=INEXACT, grad=(0,),
           layouts=ONE),
    *(
        OpCase("linalg.solve", system(*shapes), solve, dtypes=INEXACT, grad=(0, 1), layouts=ONE,
               label=label)
        for label, shapes in SYSTEMS.items()
    ),
    *(
        OpCase("linalg.triangular_solve", system(*SYSTEMS[label]), triangular,
               {"lower": lower, "adjoint": turned, "unit_diagonal": unit}, INEXACT, (0, 1),
               layouts=ONE, label=f"{label}-{'lower' if lower else 'upper'}{turned:d}{unit:d}",
               tolerance=10)
        for label, lower, turned, unit in (
            ("batch", True, False, False), ("batch", False, False, False),
            ("batch", True, True, False), ("batch", False, True, True),
            ("vector", True, False, True), ("vectors", False, True, False),
            ("broadcast", True, False, False),
        )
    ),
    OpCase("linalg.det", shaped((2, 3, 3)), each(laplace), dtypes=INEXACT, grad=(0,), layouts=ONE,
           tolerance=3),
    OpCase("linalg.det", singular, each(laplace), dtypes=("float64", "complex128"), grad=(0,),
           layouts=ONE, label="singular", tolerance=10, second=False),
    OpCase("linalg.det", shaped((0, 0)), each(laplace), dtypes=FLOATS, grad=(0,),
           layouts=("matrix",), label="empty"),
    OpCase("linalg.adjugate", shaped((2, 3, 3)), each(adjugate), dtypes=INEXACT, grad=(0,),
           layouts=ONE, tolerance=10),
    OpCase("linalg.adjugate", singular, each(adjugate), dtypes=("float64", "complex128"),
           no_grad="only of regular matrices", layouts=ONE, label="singular", tolerance=10),
    OpCase("linalg.adjugate", lambda s: (like(s, np.diag([2.0, 0.0, 3.0])),), each(adjugate),
           dtypes=INEXACT, no_grad="only of regular matrices", layouts=ONE, label="zero-pivot",
           tolerance=10),
    OpCase("linalg.slogdet", shaped((2, 3, 3)), each(slogdet), dtypes=INEXACT, grad=(0,),
           layouts=ONE, tolerance=10),
    *(
        OpCase("linalg.matrix_power", lambda s, n=n: (*regular(2, 3, 3, shift=2)(s), n), _power,
               dtypes=INEXACT, grad=(0,) if n else (), no_grad="" if n else "it is constant",
               layouts=ONE, label=str(n), tolerance=10)
        for n in (0, 1, 2, 5, -1, -3)
    ),
    OpCase("linalg.expm", shaped((2, 3, 3)), each(scipy.linalg.expm), dtypes=INEXACT, grad=(0,),
           layouts=ONE, tolerance=10),
    OpCase("linalg.expm", lambda s: (s.array(-0.1, 0.1, shape=(2, 2)),), each(scipy.linalg.expm),
           dtypes=INEXACT, grad=(0,), layouts=ONE, label="small"),
    *(
        OpCase("linalg.pinv", distinct(*shape), each(scipy.linalg.pinv), dtypes=INEXACT,
               grad=(0,), layouts=ONE, label=label, tolerance=10, plain=True,
               kwargs={"rtol": 1e-4})
        for label, shape in SHAPES.items()
    ),
    OpCase("linalg.pinv", singular, each(lambda m: scipy.linalg.pinv(m, rtol=1e-9)),
           dtypes=("float64", "complex128"), no_grad="its rank changes with every step",
           layouts=ONE, label="singular", tolerance=100),
    OpCase("linalg.matrix_rank", singular, lambda x: np.array([2, 1]),
           dtypes=("float64", "complex128"), no_grad="an integer", layouts=ONE, ops=("svdvals",)),
    OpCase("linalg.matrix_rank", distinct(2, 4, 3), lambda x, rtol: np.array([3, 3]),
           {"rtol": 0.01}, INEXACT, no_grad="an integer", layouts=ONE, label="rtol",
           ops=("svdvals",)),
    *(
        OpCase("linalg.lstsq",
               lambda s, shape=shape, b=b: (*distinct(*shape)(s), s.array(shape=b)), _lstsq,
               dtypes=("float32", "float64", "complex128"), grad=(0, 1), layouts=ONE,
               label=label, tolerance=100, ops=("pinv",))
        for label, shape, b in (("tall", (4, 3), (4, 2)), ("wide", (2, 4), (2, 2)),
                                ("vector", (4, 3), (4,)))
    ),
    OpCase("linalg.cholesky", hermitian(2, 3, 3, shift=5),
           each(lambda m: scipy.linalg.cholesky(m, lower=True)), dtypes=INEXACT, grad=(0,),
           layouts=ONE, tolerance=3),
    OpCase("linalg.cholesky", hermitian(2, 3, 3, shift=5), each(scipy.linalg.cholesky),
           {"upper": True}, INEXACT, (0,), layouts=ONE, label="upper", tolerance=3, plain=True),
    OpCase("linalg.cholesky", regular(3, 3),
           lambda x: scipy.linalg.cholesky(symmetrised(wide(x)), lower=True), dtypes=INEXACT,
           grad=(0,), layouts=ONE, label="not-hermitian", tolerance=3),
    *(
        OpCase("linalg.qr", distinct(*shape), same, dtypes=FLOATS + COMPLEX, grad=(0,),
               layouts=ONE, label=label, compare=_decomposed(_qr))
        for label, shape in SHAPES.items()
    ),
    OpCase("linalg.qr", distinct(2, 4, 3), same, {"mode": "complete"}, FLOATS + COMPLEX,
           no_grad="the added columns are arbitrary", layouts=ONE, label="complete",
           compare=_decomposed(_qr)),
    OpCase("linalg.qr", distinct(2, 2, 3), same, {"mode": "complete"}, FLOATS + COMPLEX, (0,),
           layouts=ONE, label="complete-wide", compare=_decomposed(_qr)),
    *(
        OpCase("linalg.lu", distinct(*shape), each(scipy.linalg.lu), dtypes=INEXACT, grad=(0,),
               layouts=ONE, label=label, tolerance=10)
        for label, shape in {**SHAPES, "empty": (2, 0, 3)}.items()
    ),
    OpCase("linalg.lu", shaped((2, 4, 4)), each(scipy.linalg.lu), dtypes=FLOATS + COMPLEX,
           grad=(0,), layouts=ONE, label="reordered", tolerance=30),
    OpCase("linalg.eigh", hermitian(2, 3, 3), same, dtypes=FLOATS, grad=(0,), layouts=ONE,
           compare=_decomposed(_eigh)),
    OpCase("linalg.eigh", hermitian(2, 3, 3), same, dtypes=COMPLEX, no_grad=FREE_PHASE,
           layouts=ONE, label="complex", compare=_decomposed(_eigh)),
    OpCase("linalg.eigvalsh", hermitian(2, 3, 3), each(lambda m: scipy.linalg.eigvalsh(m)),
           dtypes=INEXACT, grad=(0,), layouts=ONE, tolerance=10),
    OpCase("linalg.eigvalsh", distinct(3, 3), lambda x: scipy.linalg.eigvalsh(symmetrised(wide(x))),
           dtypes=INEXACT, grad=(0,), layouts=ONE, label="not-hermitian", tolerance=10),
    OpCase("linalg.eig", distinct(2, 3, 3), same, dtypes=FLOATS, grad=(0,), layouts=ONE,
           compare=_decomposed(_eig)),
    OpCase("linalg.eig", shaped((2, 3, 3)), same, dtypes=FLOATS + COMPLEX, no_grad=FREE_PHASE,
           layouts=ONE, label="complex", compare=_decomposed(_eig)),
    OpCase("linalg.eigvals", shaped((3, 3)), lambda x: scipy.linalg.eigvals(wide(x)),
           dtypes=FLOATS + COMPLEX, grad=(0,), layouts=ONE, compare=_eigvals),
    *(
        OpCase("linalg.svd", distinct(*shape), same, {"full_matrices": False}, FLOATS, (0,),
               layouts=ONE, label=label, compare=_decomposed(_svd))
        for label, shape in SHAPES.items()
    ),
    *(
        OpCase("linalg.svd", distinct(*shape), same, dtypes=FLOATS + COMPLEX, no_grad=FREE_PHASE,
               layouts=ONE, label=f"full-{label}", compare=_decomposed(_svd))
        for label, shape in SHAPES.items()
    ),
    *(
        OpCase("linalg.svdvals", distinct(*shape), each(scipy.linalg.svdvals), dtypes=INEXACT,
               grad=(0,), layouts=ONE, label=label, tolerance=10)
        for label, shape in SHAPES.items()
    ),
]  # fmt: skip
