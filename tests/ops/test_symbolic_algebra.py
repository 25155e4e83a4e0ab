"""Linear algebra, transforms, einsum and sets, traced with symbolic sizes and run with others.

Whatever the sizes are, values and gradients are those of eager mode bit for bit, and so is the
kind of error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.core.tensor import type_of
from eagerflow.errors import EagerflowError, ShapeError
from eagerflow.tracing.tracer import Tracer
from tests.messages import says
from tests.ops.cases.einsum import ROWS
from tests.ops.symbolic import Traced
from tests.ops.symbolic import _run as run_node
from tests.ops.table import flatten

Shapes = tuple[tuple[int, ...], ...]


def _arrays(shapes: Shapes, definite: bool = False) -> list[ef.Tensor]:
    rng = np.random.default_rng(0)
    arrays = []
    for shape in shapes:
        x = rng.uniform(-1, 1, shape).astype(np.float32)
        if definite and len(shape) > 1 and shape[-1] == shape[-2]:
            x = x + 3 * np.eye(shape[-1], dtype=np.float32)
        arrays.append(ef.asarray(x))
    return arrays


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the cotangents of all arguments, for a cotangent of ones."""

    def gradient(*args: Any) -> Any:
        result, pull = ef.vjp(function, *args)
        return pull(tree.map(lambda y: ef.ones_like(y) if y.dtype.is_inexact else y, result))

    return gradient


def _outcome(function: Callable[..., Any], args: Sequence[ef.Tensor]) -> Any:
    """The results as bytes, or the class of the error."""
    with np.errstate(all="ignore"):
        try:
            return [(x.shape, x.dtype, x.tobytes()) for x in flatten(function(*args))]
        except EagerflowError as error:
            return type(error)


def check(function: Callable[..., Any], *shapes: Shapes, gradient: bool = True) -> None:
    """Trace with the first shapes and compare with eager mode for all."""
    for f in (function, _gradient(function)) if gradient else (function,):
        with np.errstate(all="ignore"):
            traced = Traced(f, _arrays(shapes[0], definite=True))
        assert traced.specialised == {}
        for others in shapes:
            args = _arrays(others, definite=True)
            assert _outcome(traced, args) == _outcome(f, args), others


SQUARE = (((3, 3),), ((1, 1),), ((0, 0),), ((5, 5),), ((2, 3),), ((1, 3),), ((3, 1),), ((0, 1),))
SQUARES = (((2, 3, 3),), ((0, 3, 3),), ((1, 1, 1),), ((2, 0, 0),), ((2, 3, 2),), ((2, 1, 2),))
MATRIX = (((3, 4),), ((4, 3),), ((3, 3),), ((1, 4),), ((4, 1),), ((1, 1),))
EMPTY = (((0, 3),), ((3, 0),), ((0, 0),))


def _hermitian(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(ef.matmul(x, ef.matrix_transpose(x)))


ON_SQUARES: dict[str, Callable[..., Any]] = {
    "inv": ef.linalg.inv,
    "det": ef.linalg.det,
    "adjugate": ef.linalg.adjugate,
    "slogdet": lambda x: ef.linalg.slogdet(x)[1],
    "expm": ef.linalg.expm,
    "eigvals": lambda x: ef.abs(ef.linalg.eigvals(x)),
    "eig": lambda x: ef.abs(ef.linalg.eig(x)[1]),
    "eigh": ef.linalg.eigh,
    "eigvalsh": ef.linalg.eigvalsh,
    "cholesky": ef.linalg.cholesky,
    **{f"power{n}": lambda x, n=n: ef.linalg.matrix_power(x, n) for n in (0, 1, 2, 3, -1)},
}


@pytest.mark.parametrize("name", ON_SQUARES)
def test_square_matrices(name: str) -> None:
    gradient = name != "power0"
    check(ON_SQUARES[name], *SQUARE, gradient=gradient)
    check(ON_SQUARES[name], *SQUARES, gradient=gradient)


ON_MATRICES: dict[str, Callable[..., Any]] = {
    "qr": ef.linalg.qr,
    "lu": ef.linalg.lu,
    "svd": lambda x: ef.linalg.svd(x, full_matrices=False),
    "svdvals": ef.linalg.svdvals,
    "pinv": ef.linalg.pinv,
    "pinv-rtol": lambda x: ef.linalg.pinv(x, rtol=0.1),
    "cholesky": _hermitian(lambda x: ef.linalg.cholesky(x + ef.eye(x.shape[-1]))),
    "diagonal": ef.diagonal,
    "diagonal1": lambda x: ef.diagonal(x, 1),
    "diagonal-2": lambda x: ef.diagonal(x, -2),
    "diagflat": lambda x: ef.diagflat(x, -1),
    "trace": ef.linalg.trace,
    "nuc": lambda x: ef.linalg.matrix_norm(x, ord="nuc"),
    "inf": lambda x: ef.linalg.matrix_norm(x, ord=float("inf")),
    "norm2": lambda x: ef.linalg.matrix_norm(x, ord=2, keepdims=True),
    "norm-2": lambda x: ef.linalg.matrix_norm(x, ord=-2),
    "norm": ef.linalg.norm,
    "norm3": lambda x: ef.linalg.norm(x, 3, axis=0),
    "kron": lambda x: ef.kron(x, x),
    "sort": lambda x: ef.sort(x, axis=0),
    "topk": lambda x: ef.topk(x, 2, axis=1)[0],
    "fft": lambda x: ef.fft.fft(x),
    "fft-axis": lambda x: ef.fft.ifft(x, axis=0, norm="ortho"),
    "fft-n": lambda x: ef.fft.fft(x, n=3),
    "fft-size": lambda x: ef.fft.fft(x, n=2 * x.shape[0]),
    "fftn": lambda x: ef.fft.fftn(x),
    "fftn-s": lambda x: ef.fft.fftn(x, s=(2, -1)),
    "rfft": lambda x: ef.fft.rfft(x),
    "rfft-n": lambda x: ef.fft.rfft(x, n=3),
    "rfft-size": lambda x: ef.fft.rfft(x, n=x.shape[0] + 1),
    "rfftn": lambda x: ef.fft.rfftn(x),
    "irfft": lambda x: ef.fft.irfft(ef.astype(x, ef.complex64)),
    "irfft-n": lambda x: ef.fft.irfft(ef.astype(x, ef.complex64), n=5),
    "irfft-size": lambda x: ef.fft.irfft(ef.astype(x, ef.complex64), n=x.shape[0]),
    "irfftn": lambda x: ef.fft.irfftn(ef.astype(x, ef.complex64)),
    "hfft": lambda x: ef.fft.hfft(ef.astype(x, ef.complex64)),
    "ihfft": lambda x: ef.fft.ihfft(x),
    "fftshift": lambda x: ef.fft.ifftshift(ef.fft.fftshift(x), axes=0),
    "unique": lambda x: ef.unique_values(ef.round(x * 3)),
    "unique_counts": lambda x: ef.unique_counts(ef.round(x * 3)),
    "unique_all": lambda x: ef.unique_all(ef.round(x * 3)),
    "edges": lambda x: ef.histogram(x, 3)[1],
    "median": ef.median,
    "quantile": lambda x: ef.quantile(x, 0.3, 1),
}


@pytest.mark.parametrize("name", ON_MATRICES)
def test_matrices(name: str) -> None:
    check(ON_MATRICES[name], *MATRIX, *EMPTY)


WITHOUT_GRADIENT: dict[str, Callable[..., Any]] = {
    "qr": lambda x: ef.linalg.qr(x, mode="complete"),
    "svd": ef.linalg.svd,
    "rank": ef.linalg.matrix_rank,
    "rank-rtol": lambda x: ef.linalg.matrix_rank(x, rtol=0.5),
    "fftfreq": lambda x: (x, ef.fft.fftfreq(x.shape[0], d=0.5)),
    "rfftfreq": lambda x: (x, ef.fft.rfftfreq(x.shape[0] + x.shape[1])),
    "argsort": lambda x: ef.argsort(x, descending=True),
    "topk": lambda x: ef.topk(x, x.shape[0], axis=1),
    "histogram": ef.histogram,
    "density": lambda x: ef.histogram(x, 4, density=True),
    "range": lambda x: ef.histogram(x, 4, (-0.5, 0.5)),
    "isin": lambda x: ef.isin(x, x[:1]),
    "power0": lambda x: ef.linalg.matrix_power(x, 0),
    "digitize": lambda x: ef.digitize(x, ef.sort(ef.ravel(x))),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_matrices_without_gradient(name: str) -> None:
    check(WITHOUT_GRADIENT[name], *MATRIX, *EMPTY, gradient=False)


_two = ((3, 4), (4, 3))
PAIRS: dict[str, tuple[Callable[..., Any], tuple[Shapes, ...]]] = {
    "matmul": (ef.matmul, (((2, 3), (3, 4)), ((1, 1), (1, 1)), ((2, 0), (0, 3)), ((0, 2), (2, 1)),
                           ((2, 3), (1, 4)), ((2, 1), (3, 4)))),
    "matmul-batch": (ef.matmul, (((2, 2, 3), (2, 3, 4)), ((1, 2, 3), (4, 3, 2)),
                                 ((0, 2, 3), (1, 3, 4)), ((2, 2, 3), (3, 3, 4)))),
    "matmul-shared": (ef.matmul, (((2, 2, 3), (3, 4)), ((1, 2, 1), (1, 4)), ((0, 2, 3), (3, 0)))),
    "matmul-vector": (ef.matmul, (((2, 2, 3), (3,)), ((2, 1, 0), (0,)), ((2, 1, 3), (1,)))),
    "vector-matmul": (ef.matmul, (((3,), (2, 3, 2)), ((0,), (1, 0, 2)), ((1,), (3, 1, 1)))),
    "vecdot": (ef.vecdot, (((2, 3), (2, 3)), ((1, 3), (2, 3)), ((2, 0), (1, 0)), ((2, 1), (2, 3)))),
    "vdot": (ef.vdot, (((2, 3), (3, 2)), ((0, 3), (1, 0)), ((2, 3), (2, 2)))),
    "cross": (ef.cross, (((2, 3), (2, 3)), ((1, 3), (4, 3)), ((0, 3), (1, 3)), ((2, 3), (2, 1)),
                         ((2, 4), (2, 4)))),
    "tensordot": (ef.tensordot, (((2, 3, 4), (3, 4, 2)), ((1, 0, 2), (0, 2, 2)),
                                 ((2, 3, 4), (4, 3, 2)), ((1, 1, 1), (1, 1, 1)))),
    "tensordot1": (lambda a, b: ef.tensordot(a, b, axes=1),
                   (((2, 3), (3, 2)), ((2, 0), (0, 2)), ((2, 3), (1, 2)), ((1, 1), (1, 1)))),
    "tensordot0": (lambda a, b: ef.tensordot(a, b, axes=0), (((2,), (3,)), ((0,), (1,)))),
    "inner": (ef.inner, (((2, 3), (4, 3)), ((1, 1), (1, 1)), ((2, 0), (3, 0)), ((2, 3), (2, 1)))),
    "outer": (ef.outer, (((2, 3), (4,)), ((1, 0), (1,)), ((1, 1), (3,)))),
    "dot": (ef.dot, (((2, 3), (2, 3, 2)), ((1, 1), (1, 1, 1)), ((2, 3), (3, 2, 2)))),
    "solve": (ef.linalg.solve, (((3, 3), (3, 2)), ((0, 0), (0, 2)), ((1, 1), (1, 0)),
                                ((3, 3), (2, 2)), ((2, 3), (3, 2)), ((3, 3), (1, 2)))),
    "solve-vector": (ef.linalg.solve, (((3, 3), (3,)), ((1, 1), (1,)), ((0, 0), (0,)),
                                       ((3, 3), (1,)))),
    "solve-batch": (ef.linalg.solve, (((2, 3, 3), (2, 3, 1)), ((1, 2, 2), (3, 2, 2)),
                                      ((0, 2, 2), (1, 2, 2)))),
    "triangular": (ef.linalg.triangular_solve,
                   (((3, 3), (3, 2)), ((0, 0), (0, 2)), ((1, 1), (1, 0)), ((3, 3), (2, 2)),
                    ((2, 3), (3, 2)), ((3, 3), (4, 2)), ((1, 1), (0, 2)))),
    "lstsq": (lambda a, b: ef.linalg.lstsq(a, b)[:2],
              (((4, 3), (4, 2)), ((3, 4), (3, 1)), ((3, 3), (3, 2)), ((4, 3), (3, 2)))),
    "interp": (lambda x, p: ef.interp(x, ef.sort(p), ef.flip(p)),
               (((2,), (4,)), ((0,), (2,)), ((3,), (1,)), ((3,), (0,)), ((0,), (0,)))),
    "interp-values": (lambda p, f: ef.interp(0.1, ef.sort(p), f), (((4,), (4,)), ((1,), (1,)),
                                                                 ((4,), (1,)), ((1,), (3,)))),
    "weights": (lambda x, w: ef.histogram(ef.stop_gradient(x), 3, weights=w)[0],
                (((5,), (5,)), ((1,), (1,)), ((0,), (0,)), ((3,), (4,)))),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    function, shapes = PAIRS[name]
    check(function, *shapes)


def test_edges_are_checked_when_the_graph_runs() -> None:
    def counts(x: Any, edges: Any) -> Any:
        return ef.histogram(x, ef.sort(edges))[0]

    check(counts, ((4,), (3,)), ((0,), (2,)), ((4,), (1,)), ((4,), (0,)), gradient=False)


def test_searchsorted_with_an_order() -> None:
    def searchsorted(line: Any, x: Any) -> Any:
        return ef.searchsorted(line, x, sorter=ef.argsort(line))

    check(searchsorted, ((4,), (3,)), ((0,), (2,)), ((1,), (0,)), gradient=False)


def test_the_error_at_run_time_says_what_the_eager_one_says() -> None:
    args = _arrays(((2, 3, 4), (3, 4, 2)))
    traced = Traced(ef.tensordot, args)
    wrong = _arrays(((2, 3, 4), (4, 3, 2)))
    with pytest.raises(ShapeError, check=says("tensordot: the axes to sum over differ in size")):
        ef.tensordot(*wrong)
    with pytest.raises(ShapeError) as caught:
        traced(*wrong)
    assert "tensordot: the axes to sum over differ in size" in str(caught.value)
    assert "sizes=(3, 4), expected=(4, 3)" in str(caught.value)


# --- einsum ---------------------------------------------------------------------------------


def _sized(subscripts: str, sizes: Sequence[int], ones: int, ranks: Sequence[int]) -> Shapes:
    """Shapes of operands, with the axes that the bits of ``ones`` name made 1."""
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    by_label: dict[Any, int] = {}
    stream = itertools.cycle(sizes)
    shapes = []
    for term, rank in zip(terms, ranks, strict=True):
        before, _, after = term.partition("...")
        count = rank - len(before) - len(after)
        labels = (*before, *range(-count, 0), *after)
        own = [by_label.setdefault(label, next(stream)) for label in labels]
        narrow = {label for i, label in enumerate(labels) if ones >> (i + len(shapes)) & 1}
        shapes.append(tuple(1 if k in narrow else d for k, d in zip(labels, own, strict=True)))
    return tuple(shapes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_einsum(row: tuple[Any, ...]) -> None:
    subscripts, _, *shapes = row
    ranks = [len(shape) for shape in shapes]
    others = [
        _sized(subscripts, sizes, ones, ranks)
        for sizes in ((2, 3, 4, 5), (7, 2, 1, 3), (0, 2, 3), (2, 0, 2), (1,))
        for ones in (0, 1, 2, 5)
    ]
    check(lambda *xs: ef.einsum(subscripts, *xs), tuple(shapes), *others)
    check(lambda *xs: ef.einsum(subscripts, *xs), others[0], *others, tuple(shapes))


def test_the_order_of_contraction_follows_the_sizes_of_the_call() -> None:
    def product(*xs: Any) -> Any:
        return ef.einsum("ij,jk,kl->il", *xs)

    check(product, ((50, 50), (50, 50), (50, 1)), ((1, 50), (50, 50), (50, 50)))


# --- numbers --------------------------------------------------------------------------------

WITH_NUMBERS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "pinv": (lambda x, v: ef.linalg.pinv(x, rtol=v), 0.1, 0.7),
    "rank": (lambda x, v: ef.linalg.matrix_rank(x, rtol=v), 0.1, 0.9),
    "range": (lambda x, v: ef.histogram(x, 3, (-v, v)), 0.5, 0.25),
    "interp": (lambda x, v: ef.interp(x, x[0], x[0], left=v, right=2), 0.5, 0.25),
    "fftfreq": (lambda x, v: ef.fft.fftfreq(5, d=v), 0.5, 0.3),
    "isclose": (lambda x, v: ef.isclose(x, x.mT[:, :1], v, v / 2), 0.5, 0.01),
    "searchsorted": (lambda x, v: ef.searchsorted(ef.sort(x[0]), v), 0.5, -0.3),
    "isin": (lambda x, v: ef.isin(x, v), 0.5, -0.3),
    "outer": (lambda x, v: ef.outer(x, v), 0.5, -0.3),
    "dot": (lambda x, v: ef.dot(v, x), 0.5, -0.3),
    "einsum": (lambda x, v: ef.einsum("ij,->ji", x, v), 0.5, -0.3),
}


def _run_graph(tracer: Tracer, inputs: Sequence[Any]) -> Any:
    graph = tracer.graph
    values: dict[Any, Any] = dict(zip(graph.inputs, inputs, strict=False))
    values |= {c.value: c.handle for c in tracer.captures.values()}
    for node in graph.nodes:
        outputs = run_node(node, [values[v] for v in node.inputs], node.attrs)
        values |= dict(zip(node.outputs, outputs, strict=True))
    return [values[v] for v in graph.outputs]


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_stay_numbers(name: str) -> None:
    function, first, second = WITH_NUMBERS[name]
    (x,) = _arrays(((3, 3),))
    with Tracer(name) as tracer:
        number = tracer.add_number(first, "v")
        result = function(tracer.add_input(type_of(x), "x"), number)
        leaves = result if isinstance(result, tuple) else (result,)
        tracer.graph.outputs = [tracer.value_of(y) for y in leaves]
    assert [root.why for root in tracer.numbers] == [None]
    assert _outcome(lambda y: _run_graph(tracer, [second, y]), [x]) == _outcome(
        lambda y: function(y, second), [x]
    )
