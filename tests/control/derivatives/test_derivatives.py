"""Corner cases of derivatives through branches and loops in traces, against eager mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from eagerflow.graph.verify import verify
from tests.control.derivatives.comparing import W, X, check, close, dense

# mypy: disable-error-code="no-untyped-def"

# --- sizes ---------------------------------------------------------------------------------------


def filtered(x, w):
    """Each iteration keeps some elements: how many depends on their values."""

    def body(y, i):
        y = y[y > -0.5 + 0.1 * i]
        return ef.sin(y) * 0.9, i + 1

    return ef.while_loop(lambda y, i: i < 3, body, (x * w, 0))[0].sum()


def filtered_twice(x, w):
    """Names of sizes that depend on data outside of a loop and in it."""
    y = x[x > -0.5]

    def body(z, i):
        z = z[z > -2.0]
        return ef.concat([ef.sin(z) * z, ef.zeros(y.shape, dtype=z.dtype)])[1:], i + 1

    return ef.while_loop(lambda z, i: i < 2, body, (y, 0))[0].sum() + (y * y).sum() + w[0]


def shrunk(x, w):
    def body(y):
        return (ef.sin(y[1:]) * y[:-1],)

    (y,) = ef.while_loop(lambda y: ef.tensor(y.shape[0]) > 1, body, (x + w,))
    return y.sum()


# --- the carry -----------------------------------------------------------------------------------


def overwritten(x, w):
    """What an iteration forgets has no derivative."""
    one = ef.ones(4, dtype=ef.float64)
    y, _ = ef.while_loop(lambda y, i: i < 3, lambda y, i: (one, i + 1), (x, 0))
    z, zs = ef.scan(lambda c, v: (one, c * v), x, ef.stack([w, w]))
    return (y * w).sum() + (z * zs).sum()


def replaced(x, w):
    """An iteration gives what is the same in all iterations."""
    y, _ = ef.while_loop(lambda y, i: i < 3, lambda y, i: (w, i + 1), (x, 0))
    return (y * y).sum()


def deciding(x, w):
    """What only decides is no way that a derivative would have to take."""
    count = (w > 0).astype(ef.int64).sum()
    y, _, k = ef.while_loop(
        lambda y, i, k: i < count, lambda y, i, k: (y * 0.9, i + 1, k + 2), (x, ef.tensor(0), 1)
    )
    z = ef.cond(w.sum() > 0, lambda: x * 2, lambda: ef.sin(x))
    z = z + ef.switch(count % 2, [lambda: x, lambda: -x])
    limit = w.sum()
    y = ef.while_loop(lambda y: y.sum() < limit + 3, lambda y: y + 1, y)
    return (y * z).sum() + k


def a_list_of_branches(x, w):
    array = ef.TensorArray(3, x).unstack(ef.stack([x, w, x * w]))
    other = ef.cond(x.sum() > 0, lambda: array.write(0, w * w), lambda: array.write(1, x * x))
    return (other.stack() * array.stack()).sum()


@pytest.mark.parametrize("f", [
    filtered, filtered_twice, shrunk, overwritten, replaced, deciding, a_list_of_branches
])  # fmt: skip
def test_traced_is_eager(f: Callable[..., Any]) -> None:
    check(f)


def test_sizes_that_only_the_trace_around_knows() -> None:
    """A branch in a branch makes zeros of a shape that no operand of either has."""

    def f(x):
        def inner(i, y):
            return ef.cond(i == 1, lambda: y, lambda: ef.tanh(y) * x.sum())

        def body(i, y):
            return i + 1, ef.cond(i == 2, lambda: y, lambda: inner(i, y))

        return ef.while_loop(lambda i, y: i < 2, body, (0, x[0, 0]))[1]

    def pushed(f):
        return lambda x: ef.jvp(f, (x,), (ef.cos(x),))[1]

    def pulled(f):
        return lambda x: (ef.grad(f)(x) * ef.cos(x)).sum()

    for curve in (pushed(ef.grad(f)), ef.grad(pushed(f)), ef.grad(pulled(f))):
        traced = ef.trace(curve)
        for n in (2, 3, 4):
            x = ef.sin(ef.arange(2.0 * n, dtype=ef.float64)).reshape(n, 2)
            close([traced(x)], [curve(x)])
        assert len(traced.traces) == 2


def test_a_path_without_derivative_is_an_error() -> None:
    """As eagerly, where a value that is computed inside has come from a comparison."""

    def f(x, w):
        n = (w > 0).astype(ef.int64).sum()
        y, k = ef.while_loop(lambda y, k: k < 9, lambda y, k: (y * 0.9, k + n), (x, ef.tensor(0)))
        return y.sum() + k

    close([ef.trace(ef.grad(f))(X, W)], [ef.grad(f)(X, W)])
    for g in (ef.grad(f, 1), ef.grad(ef.trace(f), 1), ef.trace(ef.grad(f, 1))):
        with pytest.raises(GradientError, match="argument 1 reaches the result only through gre"):
            g(X, W)
    for g in (f, ef.trace(f)):
        with pytest.raises(GradientError, match="only through greater"):
            ef.jvp(lambda w, g=g: g(X, w), (W,), (X,))


# --- forward mode --------------------------------------------------------------------------------


def _nodes(graph: ef.Graph) -> list[str]:
    return [n.op for n in graph.nodes] + [
        op for n in graph.nodes for _, inner in n.subgraphs() for op in _nodes(inner)
    ]


def test_forward_mode_is_one_loop_without_lists() -> None:
    def loop(x):
        return ef.while_loop(lambda x: x.sum() < 5, lambda x: ef.exp(ef.sin(x)) + x, x)

    def scan(x):
        return ef.scan(lambda c, v: (ef.tanh(c * v), c), x[0], x)

    for f, op in ((loop, "while_loop"), (scan, "scan")):
        ops = _nodes(ef.trace(lambda x, t, f=f: ef.jvp(f, (x,), (t,))).graph(X, W))
        assert ops.count(op) == 1
        assert not any(name.startswith("list_") for name in ops)


# --- variables -----------------------------------------------------------------------------------


def _variables() -> dict[str, Callable[[ef.Variable, Any], Any]]:
    def assigned_first(v, x):
        def body(i, y):
            v.assign(v * x)
            return i + 1, y + v * v

        return ef.while_loop(lambda i, y: i < 3, body, (0, x))[1]

    def read_first(v, x):
        def body(i, y):
            y = y + v * v * x
            v.assign(v * 0.5)
            return i + 1, y

        return ef.while_loop(lambda i, y: i < 3, body, (0, x))[1]

    def in_a_branch(v, x):
        def yes():
            y = v * x
            v.assign(3.0)
            return y + v * v

        return ef.cond(x > 0, yes, lambda: x) + v * 5

    def nested(v, x):
        def inner(j, y):
            v.assign_add(0.1)
            return j + 1, y * v

        def outer(c, t):
            return ef.while_loop(lambda j, y: j < 2, inner, (0, c))[1] + v * t, c

        return ef.scan(outer, x, ef.arange(3, dtype=ef.float64))[0]

    def in_one_branch_of_a_loop(v, x):
        def body(i, y):
            y = ef.cond(i % 2 == 0, lambda: y * v, lambda: v.assign_add(x) + y * 0)
            return i + 1, y

        return ef.while_loop(lambda i, y: i < 4, body, (0, x))[1]

    functions = (assigned_first, read_first, in_a_branch, nested, in_one_branch_of_a_loop)
    return {f.__name__: f for f in functions}


def test_variables_of_one_name() -> None:
    """The branch of the derivative meets another one first than the function around it."""
    first, second = ef.Variable(2.0, name="v"), ef.Variable(3.0, name="v")

    def f(x):
        y = first * x

        def yes():
            second.assign(x)
            return ef.sin(y)

        return ef.cond(y > 0, yes, lambda: y)

    graph = ef.trace(ef.grad(f)).graph(ef.tensor(1.0))
    assert graph.resources == {"v": first.resource, "v_1": second.resource}
    verify(graph)
    again = ef.Graph.parse(str(graph), graph.resources)
    assert str(again) == str(graph)
    again.run(["&cond"], {"x": ef.tensor(5.0)})
    assert (first.item(), second.item()) == (2.0, 5.0)


@pytest.mark.parametrize("name", list(_variables()))
def test_variables_that_are_read_and_assigned_inside(name: str) -> None:
    """The derivative sums over the reads and does not go through assignments, with a warning."""
    v, x = ef.Variable(2.0, dtype=ef.float64), ef.tensor(2.0, dtype=ef.float64)
    f = _variables()[name]

    def run(way: Any) -> tuple[float, float]:
        v.assign(2.0)
        with pytest.warns(RuntimeWarning, match="assigned at: .*v.assign") as caught:
            derivative = float(way(x))
        assert all(__file__ in str(w.message) for w in caught)
        return derivative, float(v.value)

    by_v = ef.grad(lambda x: f(v, x), wrt=v)
    second = ef.grad(lambda x: ef.sin(by_v(x)))
    for way in (by_v, second):
        expected = run(way)
        assert run(ef.trace(way)) == pytest.approx(expected)
    assert run(ef.grad(ef.trace(lambda x: f(v, x)), wrt=v)) == pytest.approx(run(by_v))
    # a derivative by anything but the variable gives no warning
    for way in (ef.grad(lambda x: f(v, x)), ef.trace(ef.grad(lambda x: f(v, x)))):
        v.assign(2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            way(x)


# --- sparse gradients ----------------------------------------------------------------------------


def _lookups() -> dict[str, Callable[[Any, Any], Any]]:
    def loop(table, x):
        def body(i, c):
            rows = ef.take(table, ef.stack([i % 6, (i * 2) % 6]), axis=0)
            return i + 1, ef.tanh(c + rows.sum(axis=0))

        return ef.while_loop(lambda i, c: i < 4, body, (ef.tensor(0), x))[1].sum()

    def scan(table, x):
        def step(c, i):
            c = ef.tanh(c + ef.take(table, i, axis=0).sum(axis=0))
            return c, c * c

        return ef.scan(step, x, ef.tensor([[0, 3], [1, 1]]))[1].sum()

    def some_rows(table, x):
        """How many differs from iteration to iteration."""

        def body(i, c):
            ids = ef.arange(6)[ef.arange(6) < i]
            return i + 1, c + ef.take(table, ids, axis=0).sum(axis=0) * c

        return ef.while_loop(lambda i, c: i < 4, body, (ef.tensor(0), x))[1].sum()

    def branch(table, x):
        def yes():
            return (table[ef.tensor([1, 1, 4])] * x).sum()

        return ef.cond(x.sum() > -9, yes, x.sum) + ef.cond(x.sum() > 9, yes, x.sum)

    def nested(table, x):
        def body(i, c):
            ids = ef.stack([i, i + 1])
            return i + 1, ef.cond(i % 2 == 0, lambda: c + table[ids].sum(axis=0), lambda: c * c)

        return ef.scan(
            lambda c, v: (ef.while_loop(lambda i, c: i < v, body, (ef.tensor(0), c))[1], v),
            x, ef.tensor([1, 3]),
        )[0].sum()  # fmt: skip

    def no_iteration(table, x):
        return ef.while_loop(
            lambda c: c.sum() > 99, lambda c: c + table[ef.tensor([1])][0], x
        ).sum()

    return {f.__name__: f for f in (loop, scan, some_rows, branch, nested, no_iteration)}


@pytest.mark.filterwarnings("ignore:.*reads none of the variables")  # in no iteration
@pytest.mark.parametrize("name", list(_lookups()))
def test_rows_stay_rows(name: str) -> None:
    """The gradient of a large table does not become one as large, in no iteration of no loop."""
    f = _lookups()[name]
    table = ef.Variable(ef.sin(ef.arange(12, dtype=ef.float64)).reshape(6, 2))
    x = ef.tensor([0.3, -0.2], dtype=ef.float64)
    by_table = ef.grad(lambda x: f(table, x), wrt=table)
    for way in (ef.trace(by_table), ef.grad(ef.trace(lambda x: f(table, x)), wrt=table)):
        gradient = way(x)
        assert isinstance(gradient, ef.IndexedSlices)
        close([gradient], [by_table(x)])
    assert "segment_sum" not in _nodes(ef.trace(by_table).graph(x))

    def second(x):
        return ef.grad(lambda x: ef.sin(dense(by_table(x))).sum())(x)

    close([ef.trace(second)(x)], [second(x)])


def test_rows_beside_a_dense_gradient() -> None:
    table = ef.Variable(ef.sin(ef.arange(12, dtype=ef.float64)).reshape(6, 2))

    def f(x):
        def body(i, c):
            rows = ef.cond(
                i % 2 == 0, lambda: table[ef.stack([i])][0], lambda: table.value.sum(axis=0) * 0.1
            )
            return i + 1, c + rows * c

        return ef.while_loop(lambda i, c: i < 4, body, (ef.tensor(0), x))[1].sum()

    by_table = ef.grad(f, wrt=table)
    x = ef.tensor([0.3, -0.2], dtype=ef.float64)
    close([ef.trace(by_table)(x)], [by_table(x)])


@pytest.mark.parametrize("wrap", [lambda part: part, ef.remat])
def test_a_size_on_which_branches_differ(wrap: Any) -> None:
    """Within a branch, the cotangent of a result has the size that the branch gives."""

    def loss(x, other):
        def part(x):
            def other_rows():
                return x, ef.take(x, ef.arange(x.shape[0]), axis=0).sum()

            return ef.cond(x.sum() > 0, lambda: (ef.tanh(x + other), x.sum()), other_rows)

        return sum(ef.sin(y).sum() for y in wrap(part)(x))

    gradient = ef.grad(loss)
    traced = ef.trace(lambda x, other: gradient(x, other))
    for n, value in ((1, 0.5), (2, 0.5), (3, 0.4), (3, -0.3)):
        args = ef.full((n, 1), value, dtype=ef.float64), ef.ones((n, 1), dtype=ef.float64)
        close([traced(*args)], [gradient(*args)])
        verify(traced.graph(*args))
