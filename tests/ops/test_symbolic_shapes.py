"""Functions whose shapes, keys and ranges are computed from sizes: one trace for every size.

Each function is traced with symbolic sizes; its graph then runs with other sizes, 0 and 1 among
them, and gives what eager mode gives, errors included.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.tensor import Tensor
from eagerflow.tracing.tracer import Tracer
from tests.ops.symbolic import Traced
from tests.ops.table import flatten

Function = Callable[..., Any]
VECTORS = [(5,), (0,), (1,), (2,), (3,), (4,), (8,)]
MATRICES = [(5, 4), *itertools.product((0, 1, 2, 3, 6), (0, 1, 2, 5))]


def _made(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    values = np.random.default_rng((seed, *shape)).normal(size=shape) * 3
    return ef.tensor(values.astype(np.float32))


def _outcome(function: Function, args: Sequence[Any]) -> Any:
    try:
        return flatten(function(*args))
    except errors.EagerflowError as error:
        return type(error)


def check(function: Function, *calls: Sequence[Any]) -> None:
    """Check that one trace, of the first call's arguments, gives the results of eager calls."""
    traced = Traced(function, calls[0])
    assert not traced.specialised
    for args in calls:
        want, got = _outcome(function, args), _outcome(traced, args)
        if isinstance(want, type) or isinstance(got, type):
            assert want is got, (args, want, got)
            continue
        for a, b in zip(want, got, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert a.tobytes() == b.tobytes()


def _expression(text: str, names: str) -> Function:
    function: Function = eval(f"lambda {names}: {text}", {"ef": ef})
    return function


KEYS = [
    "x[0]", "x[-1]", "x[2]", "x[n-1]", "x[-n]", "x[n//2]",
    "x[1:]", "x[:-1]", "x[::2]", "x[1::2]", "x[::-1]", "x[-3:]", "x[:-3]", "x[2:5]", "x[5:2]",
    "x[-4:-1]", "x[3::-1]", "x[:2:-1]", "x[-2::-2]", "x[:-3:-1]", "x[1:-1]", "x[1:][:-1]",
    "x[n//2:]", "x[:n//2]", "x[n-2:]", "x[:n-2]", "x[n//2:n]", "x[-(n//2):]", "x[:-(n//2)]",
    "x[n-3:n-1]", "x[n-2::-1]", "x[None, 1:]", "x[..., ::3]",
    "x[x > 0]", "x[[0, -1]]", "x[ef.arange(n) // 2]", "x[ef.tensor([True, False])]",
    "x[1:] - x[:-1]",
]  # fmt: skip


@pytest.mark.parametrize("text", KEYS)
def test_reading_a_vector(text: str) -> None:
    function = _expression(text, "x, n")
    check(lambda x: function(x, x.shape[0]), *[[_made(s)] for s in VECTORS])


@pytest.mark.parametrize(
    "text",
    [
        "x[0]", "x[:, 0]", "x[1:, :-1]", "x[x > 0]", "x[x[:, 0] > 0]", "x[:, x.sum(0) > 0]",
        "x[0, 1:]", "x[[0]]", "x[:, None, ::2]", "x[n-1, m-1]", "x[..., -1]", "x[n//2:, m//2:]",
        "x[ef.arange(n)[::-1]]", "x[x[:, :1] > 0]", "x.reshape(m, n)", "x.reshape(-1, n)",
        "x.reshape(n * m)", "ef.broadcast_to(x, (2, n, m))", "ef.broadcast_to(x, (n, n))",
        "ef.tile(x, (m, 1))", "ef.concat([x, x.T], axis=1)", "ef.stack([x, x.T])",
        "ef.split(x, 2, axis=1)", "ef.take(x, ef.arange(m), axis=1)", "ef.squeeze(x, 1)",
        "ef.take_along_axis(x, ef.argsort(x, axis=0), axis=0)", "ef.pad(x, ((1, m), (0, n)))",
        "ef.tril(x, k=m - n)", "ef.index_update(x, x > 0, 7)", "ef.index_update(x, 0, x[0] * 2)",
        "ef.index_add(x, (slice(1, None), 0), n)", "ef.argwhere(x > 0)",
    ],
)  # fmt: skip
def test_matrices(text: str) -> None:
    function = _expression(text, "x, n, m")
    check(lambda x: function(x, *x.shape), *[[_made(s)] for s in MATRICES])


@pytest.mark.parametrize(
    "text",
    [
        "x.reshape(-1)", "x.reshape(n//2, 2)", "x.reshape(-1, 2)", "x.reshape(n, 1, 1)",
        "ef.broadcast_to(x, (3, n))", "ef.broadcast_to(x, (n + 1, n))", "ef.tile(x, 2)",
        "ef.tile(x, (n, 1))", "ef.repeat(x, n)", "ef.repeat(x, ef.arange(n))",
        "ef.repeat(x, ef.tensor([2]))", "ef.repeat(x, ef.tensor([1, 0]))",
        "ef.arange(n)", "ef.arange(1, n)", "ef.arange(n, 0, -2)", "ef.arange(0, n, 3)",
        "ef.linspace(0, 1, n)", "ef.linspace(0, n, 5)", "ef.linspace(0, x, n)", "ef.eye(n)",
        "ef.eye(n, n + 1, k=1)", "ef.zeros((n, 2))", "ef.zeros(n - 3)", "ef.full((n,), n)",
        "ef.full((n,), n / 7).sum()", "ef.ones((n + 1,))", "ef.pad(x, (n, 0))",
        "ef.pad(x, 2, 'edge')", "ef.pad(x, (1, n), 'reflect')", "ef.pad(x, n // 2, 'wrap')",
        "ef.pad(x, n - 1, 'symmetric')", "ef.pad(x, 1, constant_values=n)", "ef.split(x, 2)",
        "ef.split(x, [1, 3])", "ef.split(x, [n // 2])", "ef.split(x, [-1])",
        "ef.split(x, [n - 2, n - 3])", "ef.array_split(x, 3)", "ef.roll(x, n // 2)",
        "ef.one_hot(ef.arange(3), n)", "ef.nonzero(x > 0)", "ef.where(x > 0, x, n)",
        "ef.compress(x > 0, x)", "ef.dynamic_partition(x, (x > 0).astype('int32'), 2)",
        "ef.dynamic_stitch([ef.arange(n)], [x])", "ef.dynamic_stitch([[3, 0]], [x])",
        "ef.meshgrid(x, x)", "ef.index_update(x, slice(0, n // 2), 1.5)",
        "ef.index_update(x, slice(1, None), ef.ones((1, 1, 3)))",
        "ef.index_scatter(x, slice(0, n), (n + 2,))",
        "ef.update_along_axis(x, ef.arange(n)[:1], 3)",
        "ef.scatter_add(x, ef.arange(n), x)", "ef.trapezoid(x)", "ef.cov(x)",
        "ef.geomspace(1, 8, n)", "ef.atleast_2d(x)", "ef.hstack([x, x])", "ef.vstack([x, x])",
        "ef.broadcast_arrays(x, ef.ones((2, 1)))", "ef.tensor([n, 1.5])", "ef.stack([n, n * 2])",
        "x[ef.arange(2, dtype='uint64')]",
    ],
)  # fmt: skip
def test_vectors(text: str) -> None:
    function = _expression(text, "x, n")
    check(lambda x: function(x, x.shape[0]), *[[_made(s)] for s in VECTORS])


@pytest.mark.parametrize("other", [0, 1, 2, 5])
def test_sizes_that_are_compared_only_when_the_graph_runs(other: int) -> None:
    def two(text: str) -> None:
        calls = [[_made((n,)), _made((other,), 1)] for n in (0, 1, 2, 3)]
        check(_expression(text, "x, y"), [_made((4,)), _made((4,))], *calls)

    two("ef.concat([x, y])")
    two("ef.stack([x, y])")
    two("x[y > 0]")
    two("ef.index_update(x, slice(None), y)")
    two("ef.dynamic_partition(x, (y > 0).astype('int64'), 2)")
    two("ef.repeat(x, abs(y).astype('int64'))")
    two("ef.broadcast_to(x, y.shape)")
    two("x.reshape(y.shape)")
    two("ef.compress(y > 0, x)")


@pytest.mark.parametrize("text", ["ef.squeeze(x)", "ef.unstack(x)", "ef.arange(0.0, n)"])
def test_what_branches_on_a_size_says_so(text: str) -> None:
    function = _expression(text, "x, n")
    tracer = _tracer(lambda x: function(x, x.shape[0]))
    assert set(tracer.sizes.static) == {"n"}


def test_a_size_that_becomes_minus_one_is_not_left_open() -> None:
    traced = Traced(lambda x, y: x.reshape(y.shape[0] - 2), [ef.zeros(3), ef.zeros(5)])
    assert traced(ef.zeros(0), ef.zeros(2)).shape == (0,)
    with pytest.raises(errors.ShapeError, match="cannot be negative"):
        traced(ef.zeros(3), ef.zeros(1))


def test_an_index_that_no_integer_holds() -> None:
    traced = Traced(lambda x, i: x[i], [ef.zeros(3), ef.tensor([1], dtype="uint64")])
    assert traced(ef.arange(2.0), ef.tensor([1, 0], dtype="uint64")).tolist() == [1, 0]
    with pytest.raises(errors.TensorIndexError, match="out of range"):
        traced(ef.zeros(3), ef.tensor([2**64 - 1], dtype="uint64"))


def _tracer(function: Function) -> Any:
    tracer = Tracer("f")
    size = tracer.sizes.add("n", 3)
    with tracer:
        x = tracer.add_input(ef.zeros(3).type.like(shape=(size,)), "x")
        function(x)
    return tracer


@pytest.mark.parametrize(
    "text",
    [
        "x[n//2:]", "x[::-2]", "x[-1]", "x[x > 0]", "x[ef.arange(n) // 2]", "x[1:] - x[:-1]",
        "x.reshape(-1, 1)", "ef.broadcast_to(x, (3, n))", "ef.tile(x, (2, 3))", "ef.repeat(x, 2)",
        "ef.repeat(x, ef.arange(n))", "ef.pad(x, (n, 1))", "ef.pad(x, (1, n), 'reflect')",
        "ef.pad(x, n // 2, 'edge')", "ef.pad(x, (n, 2), 'wrap')", "ef.pad(x, 3, 'symmetric')",
        "ef.concat([x, x[1:]])", "ef.stack([x, x], axis=1)", "ef.split(x, [n // 2])[1]",
        "ef.array_split(x, 3)[0]", "ef.roll(x, n // 2)",
        "ef.index_update(x, slice(1, None), x[:1])", "ef.index_update(x, [0, 0], x[-2:])",
        "ef.index_add(x, slice(0, n // 2), 2 * x[:n // 2])",
        "ef.take(x, ef.arange(n // 2), axis=0)", "ef.dynamic_stitch([ef.arange(n) // 2], [x])",
        "ef.dynamic_partition(x, (x > 0).astype('int32'), 2)[1]", "ef.where(x > 0, x, n)",
        "ef.compress(x > 0, x)", "ef.update_along_axis(x, ef.arange(n)[:1], x[:1] * 3)",
        "ef.linspace(0, x, n)", "ef.cov(x)", "ef.trapezoid(x)", "ef.flip(x)",
    ],
)  # fmt: skip
def test_gradients(text: str) -> None:
    expression = _expression(text, "x, n")

    def gradient(x: Tensor, weight: Tensor) -> Tensor:
        def weighted(x: Tensor) -> Tensor:
            y = expression(x, x.shape[0])
            return (y * y * ef.sum(weight)).sum()

        return ef.grad(weighted)(x)

    check(gradient, *[[_made(s), _made((3,), 1)] for s in VECTORS])
