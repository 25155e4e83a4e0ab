"""`ef.call`: one graph for all calls, and the results, derivatives and effects of plain calls."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import interpreter
from eagerflow.core.interpreter import stack
from eagerflow.errors import EagerflowError, TraceError
from eagerflow.graph.ir import Graph
from eagerflow.graph.lowering import lower
from eagerflow.graph.verify import verify
from eagerflow.runtime.replay import replay

x = ef.tensor([[0.1, 0.2]])
w = ef.tensor([[1.0, 2.0], [3.0, 4.0]]) / 5


def calls(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes if node.op == "call"]


def bodies(graph: Graph) -> int:
    return len({id(node.attrs["body"]) for node in calls(graph)})


def layer(x, w, shift=0.5):
    h = ef.tanh(x @ w)
    return (h + shift, h) if shift else h


def deep(x, w):
    for _ in range(100):
        x = ef.call(layer, x, w)[0]
    return x.sum()


def test_all_calls_share_one_graph() -> None:
    f = ef.trace(deep)
    assert f(x, w).item() == deep(x, w).item()
    graph = f.graph(x, w)
    verify(graph)
    assert len(calls(graph)) == 100
    assert bodies(graph) == 1
    assert len(graph.nodes) < 105
    assert graph.run(graph.outputs, dict(zip(graph.inputs, (x, w), strict=True)))[0].item() == (
        deep(x, w).item()
    )


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_share_too(order) -> None:
    def slope(f):
        gradient = ef.grad(f, argnums=1)
        return (
            gradient if order == 1 else ef.grad(lambda x, w: (gradient(x, w) ** 2).sum(), argnums=1)
        )

    w = ef.tensor([[0.9, -0.2], [0.3, 0.8]])
    want = slope(deep)(x, w)
    assert ef.allclose(slope(ef.trace(deep))(x, w), want, rtol=1e-5)
    traced = ef.trace(slope(deep))
    assert traced(x, w).tolist() == want.tolist()
    graph = traced.graph(x, w)
    assert len(graph.nodes) < 300 * 2**order
    assert bodies(graph) <= 4**order
    assert max(len(node.attrs["body"].nodes) for node in calls(graph)) < 40


def test_forward_mode() -> None:
    want = ef.jvp(deep, (x, w), (x, w))
    got = ef.trace(lambda x, w: ef.jvp(deep, (x, w), (x, w)))(x, w)
    assert [t.item() for t in got] == [t.item() for t in want]


def test_replays_and_lowered_graphs_give_the_same() -> None:
    graph = ef.trace(deep).graph(x, w)
    assert replay(graph, [x, w])[0].item() == deep(x, w).item()
    assert ef.grad(lambda x: replay(graph, [x, w])[0])(x).tolist() == (ef.grad(deep)(x, w).tolist())
    assert all(node.op != "call" for node in lower(graph).nodes)


def test_text_and_files(tmp_path) -> None:
    def f(x, w):
        return ef.call(layer, x, w)[0] + ef.call(layer, x, w)[1]

    graph = ef.trace(f).graph(x, w)
    parsed = Graph.parse(str(graph))
    assert str(parsed) == str(graph)
    graph.save(tmp_path / "graph")
    again = Graph.load(tmp_path / "graph")
    assert [bodies(g) for g in (graph, parsed, again)] == [1, 1, 1]
    (got,) = again.run(again.outputs, dict(zip(again.inputs, (x, w), strict=True)))
    assert got.tolist() == f(x, w).tolist()


def test_other_types_and_other_values_are_other_graphs() -> None:
    @ef.trace
    def f(x, w):
        a = ef.call(layer, x, w)[0] + ef.call(layer, x * 2, w)[0]
        b = ef.call(layer, ef.concat([x, x]), w)[0]
        c = ef.call(layer, x, w, shift=0)
        return a.sum() + b.sum() + c.sum()

    graph = f.graph(x, w)
    assert len(calls(graph)) == 4
    assert bodies(graph) == 3


def test_what_is_around_may_change_between_calls() -> None:
    class Scale:
        by = 2.0

    scale, factor = Scale(), 1.0
    shift = ef.tensor([1.0, 1.0])
    values = [ef.tensor(1.0)]

    def body(x):
        return x * scale.by * factor + shift + values[0]

    def f(x):
        nonlocal factor
        results = [ef.call(body, x), ef.call(body, x)]
        scale.by = 3.0
        results.append(ef.call(body, x))
        factor = factor + 1
        results.append(ef.call(body, x))
        values[0] = x.sum()
        results.append(ef.call(body, x))
        y = shift * 2
        y += x[0]
        values[0] = y
        results.append(ef.call(body, x))
        y += 1
        results.append(ef.call(body, x))
        factor, scale.by, values[0] = 1.0, 2.0, ef.tensor(1.0)
        return ef.stack(results)

    want = f(x)
    traced = ef.trace(f)
    assert traced(x).tolist() == want.tolist()
    assert bodies(traced.graph(x)) == 6


_factor = ef.tensor(2.0)


def test_globals_may_change_between_calls() -> None:
    def body(x):
        return x * _factor

    def f(x):
        global _factor
        a = ef.call(body, x) + ef.call(body, x)
        _factor = _factor * 3
        b = ef.call(body, x) + ef.call(body, x)
        _factor = ef.tensor(2.0)
        return a + b

    traced = ef.trace(f)
    assert traced(x).tolist() == f(x).tolist()
    assert bodies(traced.graph(x)) == 2


def test_variables_and_draws() -> None:
    v = ef.Variable(ef.tensor([1.0, 2.0]))

    def reads(x):
        return x * v

    def writes(x):
        v.assign_add(x[0])
        return v * ef.random.normal((2,))

    def f(x):
        a = ef.call(reads, x) + ef.call(writes, x)
        v.assign(v * 2)
        return a + ef.call(reads, x) + ef.call(writes, x) + v

    runs = []
    for g in (f, ef.trace(f)):
        v.assign([1.0, 2.0])
        ef.random.seed(3)
        runs.append((g(x).tolist(), v.tolist()))
    assert runs[0] == runs[1]

    def loss(x):
        return (ef.call(reads, ef.call(reads, x)) ** 2).sum()

    want = ef.grad(lambda: loss(x), wrt=v)().tolist()
    assert ef.trace(ef.grad(lambda: loss(x), wrt=v))().tolist() == want
    assert ef.grad(lambda: ef.trace(loss)(x), wrt=v)().tolist() == want


def test_symbolic_sizes() -> None:
    @ef.trace
    def f(x, y):
        def body(x):
            total = x * 0
            for row in x:
                total = total + row
            return total / x.shape[0]

        return ef.call(body, ef.call(body, x)).sum() + ef.call(body, y).sum()

    for n in (2, 3, 4, 5):
        a, b = ef.ones((n, 2)), ef.ones((n + 1, 2))
        assert f(a, b).item() == f.fn(a, b).item()
        assert ef.grad(f)(a, b).tolist() == ef.grad(f.fn)(a, b).tolist()
    assert len(f.traces) == 2
    assert bodies(f.graph(a, b)) == 2


def test_sizes_that_depend_on_data() -> None:
    def f(x):
        a, b = (ef.call(lambda x: x[x > 0], y) for y in (x, -x))
        return ef.concat([a, b * 2]), a.sum() - b.sum()

    for values in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0]):
        y = ef.tensor(values)
        want, got = f(y), ef.trace(f)(y)
        assert [t.tolist() for t in got] == [t.tolist() for t in want]


def test_nested_calls_and_recursion_on_python_values() -> None:
    def power(x, n):
        if n == 0:
            return ef.ones_like(x)
        half = ef.call(power, x, n // 2)
        return half * half * x if n % 2 else half * half

    f = ef.trace(lambda x: ef.call(power, x, 13) + ef.call(power, x, 13))
    assert f(x).tolist() == (2 * power(x, 13)).tolist()
    graph = f.graph(x)
    assert bodies(graph) == 1
    assert ef.allclose(ef.grad(lambda x: f(x).sum())(x), 26 * x**12, rtol=1e-5)


def test_calls_in_branches_and_loops() -> None:
    def step(x):
        return x / 2 if x.sum() > 1 else x + 1

    def f(x):
        while x.sum() < 10:
            x = ef.call(step, x) * 3
        y = ef.call(step, x) if x[0, 0] > 0 else ef.call(step, -x)
        return y.sum()

    for value in (x, -x, x * 40):
        assert ef.trace(f)(value).item() == f(value).item()
        assert ef.grad(ef.trace(f))(value).tolist() == ef.grad(f)(value).tolist()


def test_methods_modules_and_traced_functions() -> None:
    model = ef.nn.Linear(2, 2)
    inner = ef.trace(layer)

    def f(x, k):
        x = ef.call(model, ef.call(model, x))
        return ef.call(inner, x, w)[0] * k + ef.call(inner, x, w)[1] + ef.call(max, k, 2)

    traced = ef.trace(f)
    for k in (3, 1):
        assert traced(x, k).tolist() == f(x, k).tolist()
    assert bodies(traced.graph(x, 3)) == 3
    grads = ef.grad(lambda: traced(x, 3).sum(), wrt=model.trainable)()
    want = ef.grad(lambda: f(x, 3).sum(), wrt=model.trainable)()
    assert str(grads) == str(want)


def test_arguments_are_values_of_its_own() -> None:
    def body(x):
        x += 1
        x[0] = 5.0
        return x

    def f(x):
        y = ef.call(body, x)
        return y, x

    for g in (f, ef.trace(f)):
        a = ef.tensor([1.0, 2.0])
        assert [t.tolist() for t in g(a)] == [[5.0, 3.0], [1.0, 2.0]]
        assert a.tolist() == [1.0, 2.0]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The collector off: its callbacks (Hypothesis has one) crash Python at the stack's end."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_what_it_may_not_do() -> None:
    log: list[int] = []

    def appends(x):
        log.append(1)
        return x

    with pytest.raises(TraceError, match="changes something outside"):
        ef.trace(lambda x: ef.call(appends, x))(x)
    assert log == []

    def endless(x):
        return ef.call(endless, x)

    with pytest.raises((EagerflowError, RecursionError)):
        ef.trace(lambda x: ef.call(endless, x))(x)


@pytest.mark.usefixtures("no_collector")
def test_wherever_the_stack_of_python_ends_no_interpreter_stays() -> None:
    def endless(x):
        return ef.call(endless, x)

    limit = sys.getrecursionlimit()
    deep = len(inspect.stack()) + 150
    try:
        for more in range(0, 150, 3):  # it ends in other lines
            sys.setrecursionlimit(deep + more)
            with pytest.raises((EagerflowError, RecursionError)):
                ef.trace(lambda x: ef.call(endless, x))(x)
            assert stack.total == 0
            assert interpreter.current() is interpreter.BASE
    finally:
        sys.setrecursionlimit(limit)


def test_errors_inside_name_the_line() -> None:
    def body(x):
        return x.reshape(3)  # the line

    with pytest.raises(EagerflowError) as caught:
        ef.trace(lambda x: ef.call(body, x))(x)
    assert "x.reshape(3)  # the line" in str(caught.value)
