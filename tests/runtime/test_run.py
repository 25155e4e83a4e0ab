"""`Graph.run`: any value can be fed or fetched, and only the nodes needed run."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, GraphError, ShapeError, TensorValueError
from eagerflow.graph import Graph
from eagerflow.graph.devices import located
from eagerflow.graph.verify import verify
from eagerflow.runtime import fetches as run_module
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from tests.messages import says
from tests.runtime.graphs import Traced, same

TEXT = """graph f(%x: f32[n], %y: f32[n], %k: float) {
  %a = exp(%x) : f32[n]
  %b = multiply(%a, %a) : f32[n]
  %w = assign_add(%b) {resource=@v} : f32[2]
  %c = add(%b, %y) : f32[n] after &w
  %two.0, %two.1 = split(%c) {sizes=(1, 1), axis=0} : f32[1], f32[1]
  %t = python_tensor(%k) : f32[]
  %d = multiply(%two.1, %t) : f32[1]
  %e = python_mul(%k, %k) : float
  return %d, %e
}"""


@pytest.fixture
def graph() -> Graph:
    variable = ef.Variable([0.0, 0.0])
    parsed = Graph.parse(TEXT, {"v": variable.resource})
    parsed.variable = variable
    return parsed


@pytest.mark.parametrize(
    "feeds", [[1.0, 2.0], (1.0,), ef.zeros(2), 3.0], ids=lambda x: type(x).__name__
)
def test_feeds_that_are_no_dict(graph: Any, feeds: Any) -> None:
    with pytest.raises(GraphError, match="run: feeds is a dict, by value or name") as caught:
        graph.run(["a"], feeds)
    assert caught.value.expected == "{'x': ..., 'y': ..., 'k': ...}"


@pytest.mark.parametrize("fetches", ["d", len, ef.trace(abs), 3], ids=lambda x: type(x).__name__)
def test_fetches_that_are_no_list(graph: Any, fetches: Any) -> None:
    with pytest.raises(GraphError, match="run: fetches is a list of values") as caught:
        graph.run(fetches)
    assert "graph.outputs, ['d', 'e']" in caught.value.expected


def test_outputs_of_inputs(graph: Any) -> None:
    x = ef.zeros(2)
    d, e = graph.run(graph.outputs, {"x": x, "y": [1.0, 2.0], "k": 3.0})
    assert d.tolist() == [9.0]
    assert e == 9.0
    assert graph.variable.tolist() == [1.0, 1.0]


def test_only_what_is_needed_runs(graph: Any) -> None:
    (b,) = graph.run(["%b"], {"x": ef.zeros(2)})
    assert b.tolist() == [1.0, 1.0]
    assert graph.run(["e"], {"k": 2}) == [4.0]
    assert graph.variable.tolist() == [0.0, 0.0]
    (c,) = graph.run([graph.value("c")], {"b": ef.ones(2), "y": ef.ones(2)})
    assert c.tolist() == [2.0, 2.0]
    assert graph.variable.tolist() == [1.0, 1.0]  # by the control edge


def test_inner_values_are_fed_and_fetched(graph: Any) -> None:
    values = {"two.1": ef.tensor([5.0]), "k": 2.0}
    d, fed, t = graph.run(["d", "two.1", "t"], values)
    assert (d.tolist(), fed.tolist(), t.item()) == ([10.0], [5.0], 2.0)
    one, c = graph.run(["two.0", "c"], {"c": ef.tensor([5.0, 6.0])})
    assert (one.tolist(), c.tolist()) == ([5.0], [5.0, 6.0])
    assert graph.run([], {}) == []
    assert graph.run(["x"], {"x": ef.ones(2)})[0].tolist() == [1.0, 1.0]
    # one output of a node is fed, the other one fetched
    first, second = graph.run(["two.0", "two.1"], {"c": ef.ones(2), "two.1": ef.tensor([7.0])})
    assert (first.tolist(), second.tolist()) == ([1.0], [7.0])


def test_what_can_be_fed(graph: Any) -> None:
    for x in (ef.zeros(2), ef.Variable([0.0, 0.0]), np.zeros(2, np.float32), [0.0, 0.0]):
        assert graph.run(["b"], {"x": x})[0].tolist() == [1.0, 1.0]
    assert graph.run(["d"], {"t": 3, "two.1": [2.0]})[0].tolist() == [6.0]


@pytest.mark.parametrize(
    ("fetches", "feeds", "error", "words"),
    [
        (["b"], {}, GraphError, "run: .x. is needed and not fed"),
        (["d"], {"k": 1.0, "x": [1.0, 1.0]}, GraphError, "run: .y. is needed and not fed"),
        (["q"], {}, GraphError, "the graph has no value %q"),
        (["b"], {"q": 1}, GraphError, "the graph has no value %q"),
        ([3], {}, GraphError, "a fetch or a feed is not"),
        ("b", {}, GraphError, "fetches is a list"),
        (["b"], {"x": [[1.0]]}, ShapeError, "the shape of .x. is another"),
        (["c"], {"x": [1.0, 1.0], "y": [1.0]}, ShapeError, "the shape of .y. is another"),
        (["d"], {"two.1": [1.0, 2.0], "k": 1.0}, ShapeError, "the shape of .two.1. is another"),
        (["b"], {"x": np.zeros(2)}, DTypeError, "run: .x. is of another dtype"),
        (["b"], {"x": ef.zeros(2, dtype=ef.int32)}, DTypeError, "run: .x. is of another dtype"),
        (["b"], {"x": 1j}, DTypeError, "run: .x. is of another dtype"),
        (["e"], {"k": 1j}, DTypeError, "run: .k. is of another dtype"),
        (["e"], {"k": True}, DTypeError, "run: .k. is of another dtype"),
        (["e"], {"k": ef.ones(())}, DTypeError, "run: .k. is of another dtype"),
    ],
)
def test_what_is_refused(graph: Any, fetches: Any, feeds: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        graph.run(fetches, feeds)
    assert "test_run.py" in str(caught.value.source)


def test_names_that_are_not_there() -> None:
    w, count = ef.Variable([1.0, 2.0], name="w"), ef.Variable(0, name="count")

    @ef.trace
    def f(x: Any, n: int) -> Any:
        count.assign(3)
        return ef.tanh(x * w) if n.bit_length() > 1 else x  # which makes n static

    graph = f.graph(ef.zeros(2), 3)
    x = ef.zeros(2)
    for fetches, feeds, hint in (
        (["tahn"], {"x": x}, "did you mean %tanh?"),
        (["tanh"], {"tahn": x}, "did you mean %tanh?"),
        (["tanh"], {"w": x}, "@w is a variable; feed the value read from it: %read"),
        (["tanh"], {"@w": x}, "is a variable; feed the value read from it: %read"),
        (["tanh"], {"count": 1}, "@count is a variable, and not read here: assign it before"),
        (["tanh"], {"n": 3}, "trace with ef.tensor(3) in its place, which is an input"),
        (["tanh"], {"n": ef.tensor(3)}, ""),
    ):  # fmt: skip
        with pytest.raises(GraphError, match="the graph has no value") as caught:
            graph.run(fetches, feeds)
        assert hint in (caught.value.hint or "")
        assert bool(hint) == bool(caught.value.hint)
        assert "its inputs %x" in (caught.value.expected or "")
        assert "test_run.py" in str(caught.value.source)
    assert graph.run(["tanh"], {"x": x + 1, "read": x})[0].tolist() == [0.0, 0.0]


def test_lists_are_taken_as_their_numbers_are(graph: Any) -> None:
    assert graph.run(["b"], {"x": [0, 0]})[0].tolist() == [1.0, 1.0]
    assert graph.run(["b"], {"x": (0, 0.0)})[0].dtype == ef.float32
    small = Graph.parse("graph f(%x: i8[n]) { %y = negative(%x) : i8[n] return %y }")
    assert small.run(["y"], {"x": [1, True]})[0].tolist() == [-1, -1]
    with pytest.raises(TensorValueError, match="300 does not fit into int8"):
        small.run(["y"], {"x": [300]})
    for x in ([1.0], np.ones(1), ef.ones(1)):
        with pytest.raises(DTypeError, match=r"run: .x. is of another dtype") as caught:
            small.run(["y"], {"x": x})
        assert caught.value.hint == "convert it: ef.astype(x, 'int8')"
        assert small.run(["y"], {"x": ef.astype(x, "int8")})[0].tolist() == [-1]


def test_a_value_of_another_graph(graph: Any) -> None:
    other = Graph.parse(TEXT, {"v": graph.variable.resource})
    with pytest.raises(GraphError, match="is not of this graph"):
        graph.run([other.nodes[0].outputs[0]], {"x": [0.0]})
    with pytest.raises(GraphError, match="%x is not of this graph"):
        graph.run(["b"], {other.inputs[0]: [0.0]})


def test_the_device_of_a_feed() -> None:
    graph = Graph.parse("graph f(%x: f32[n]@cpu:1) { %y = exp(%x) : f32[n]@cpu:1 return %y }")
    with ef.config(cpu_devices=2):
        (y,) = graph.run(["y"], {"x": [0.0]})
        assert y.device.name == "cpu:1"
        x = ef.zeros(1)
        (y,) = graph.run(["y"], {"x": x})  # the value goes to the device of the input
        assert y.device.name == "cpu:1"
        assert x.device.name == "cpu:0"


def everything(x: Any, k: float) -> tuple[Any, ...]:
    """Constants, numbers, a call, a branch and both kinds of loop."""
    two = ef.tensor(2.0)
    a = ef.call(lambda v: v * two + 0.5, x * k)
    b = ef.cond(a.sum() > 1, lambda: a + two, lambda: a)
    c = ef.while_loop(lambda v: v.sum() < 30, lambda v: v + ef.call(ef.exp, two), (b,))[0]
    d, e = ef.scan(lambda carry, v: (carry + v * two, carry), b.sum(), c)
    return d, e, two * 1, ef.tensor(3) < c.sum()


def test_what_is_fed_decides_the_device_that_the_graph_leaves_open() -> None:
    traced = ef.trace(everything).graph(ef.ones(2), 3.0)
    graph = Graph.parse(str(traced).replace("@cpu:0", ""))
    assert not {v.device for v in graph.values()} - {None}
    x = ef.tensor([1.0, 2.0])
    expected = traced.run(traced.outputs, {"x": x, "k": 3.0})

    with ef.config(cpu_devices=3):
        for name in ("cpu:0", "cpu:2", "cpu:1", "cpu:0"):
            there = x.to(name)

            def run(x: Any) -> tuple[Any, ...]:
                return tuple(graph.run(graph.outputs, {"x": x, "k": 3.0}))

            def check(results: Any, name: str = name) -> None:
                assert {y.device.name for y in results} == {name}
                assert all(map(np.array_equal, results, expected))

            check(run(there))
            with ef.device("cpu:1"):  # the device of a fed value goes before the scope
                check(run(there))
            with ef.device(name):
                check(run([1.0, 2.0]))
            values, tangents = ef.jvp(lambda x: run(x)[:2], (there,), (there,))
            assert {y.device.name for y in (*values, *tangents)} == {name}
            assert ef.grad(lambda x: run(x)[0])(there).device == name
            assert ef.trace(run)(there)[0].device == name
            part = located(graph, [there.device, None], there.device)
            verify(part)
            check([ef.tensor(y) for y in ScheduledTier(part, whole=lambda node: False)
                  .run([there.numpy(), 3.0])], "cpu:0")  # fmt: skip
            assert {y.device.name for y in part.outputs} == {name}


def test_the_current_device_is_asked_at_each_run() -> None:
    graph = Graph.parse("graph f(%k: float) { %y = python_tensor(%k) : f32[] return %y }")
    with ef.config(cpu_devices=2):
        for name in ("cpu:0", "cpu:1", "cpu:0"):
            with ef.device(name):
                assert graph.run(["y"], {"k": 1.0})[0].device == name


def test_values_fed_from_several_devices() -> None:
    text = """graph f(%x: f32[2], %y: f32[2]) {
      %t = transfer(%y) {device=device("cpu:0"), source=device("cpu:1")} : f32[2]@cpu:0
      %a = add(%x, %t) : f32[2]
      %b = multiply(%x, %y) : f32[2]
      return %a, %b
    }"""
    with ef.config(cpu_devices=2):
        graph = Graph.parse(text)
        feeds = {"x": ef.ones(2), "y": ef.ones(2, device="cpu:1")}
        assert graph.run(["a"], feeds)[0].device == "cpu:0"
        with pytest.raises(GraphError, match="operands of &b are on different devices") as caught:
            graph.run(["b"], feeds)
        assert "%x on cpu:0, and %y on cpu:1" in str(caught.value)
        assert "x.to('cpu:0')" in caught.value.hint


def test_a_result_is_a_tensor_under_a_tape() -> None:
    f = Traced(lambda x: (x * x).sum(), ("float32", ("n",)))
    x = ef.tensor([1.0, 2.0])

    def loss(x: Any) -> Any:
        return f.graph.run(f.graph.outputs, {f.graph.inputs[0]: x})[0]

    assert same(ef.grad(loss)(x), 2 * x)


def test_programs_are_kept_and_freed(graph: Any) -> None:
    for _ in range(3):
        graph.run(["b"], {"x": ef.zeros(2)})
    assert len(run_module._executables[graph]) == 1
    names = [v.name for v in graph.values()]
    for i in range(40):
        graph.run([names[0]] * i, {"x": ef.zeros(2)})
    assert len(run_module._executables[graph]) == 32
    (program,) = list(run_module._executables[graph].values())[-1:]
    refs = weakref.ref(graph), weakref.ref(program)
    del program, graph.variable
    gc.collect()
    count = len(run_module._executables)
    copy = Graph.parse("graph f(%x: f32[]) { return %x }")
    copy.run(["x"], {"x": 1.0})
    assert len(run_module._executables) == count + 1
    del copy
    gc.collect()
    assert len(run_module._executables) == count
    assert refs[0]() is graph


# --- fetched nodes: only their effect counts ---------------------------------------------------


def _queued() -> tuple[ef.Queue, Graph]:
    queue = ef.Queue(None, ef.tensor(0))

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        with ef.unordered():
            y = queue.dequeue()
            queue.enqueue(x)
            queue.enqueue(x * 10)
        return y

    return queue, f.graph(ef.tensor(1))


def test_a_node_runs_for_its_effect() -> None:
    queue, graph = _queued()
    (node,) = (n for n in graph.nodes if n.name == "queue_enqueue_1")
    assert graph.run([node], {"x": 2}) == [None]
    assert graph.run(["&queue_enqueue"], {"x": 3}) == [None]
    assert queue.dequeue_many(2).tolist() == [20, 3]
    assert int(queue.size()) == 0
    values = graph.run(["&queue_enqueue_1", graph.outputs[0], node], {"x": 4})
    assert [values[0], values[2]] == [None, None]
    assert int(values[1]) == 40


def test_what_waits_does_not_hold_up_the_rest() -> None:
    """The dequeue comes first in the graph, and the enqueue that it waits for after it."""
    queue, graph = _queued()
    (y, _) = graph.run([graph.outputs[0], "&queue_enqueue"], {"x": 7})
    assert int(y) == 7
    with ef.GradientTape():
        queue.enqueue(8)
        assert int(graph.run([graph.outputs[0]])[0]) == 8


def test_a_pure_node_as_well(graph: Any) -> None:
    (node,) = (n for n in graph.nodes if n.op == "exp")
    assert graph.run([node, "a"], {"x": ef.zeros(2)})[0] is None


def test_nodes_that_are_not_there() -> None:
    _, graph = _queued()
    _, other = _queued()
    with pytest.raises(GraphError, match=r"there is no node &enqueue(.|\n)*&queue_enqueue, &queue"):
        graph.run(["&enqueue"], {"x": 1})
    with pytest.raises(GraphError, match="&queue_enqueue is not of this graph"):
        graph.run([next(n for n in other.nodes if n.op == "queue_enqueue")], {"x": 1})
    with pytest.raises(GraphError, match="fetches is a list"):
        graph.run(graph.nodes[0], {"x": 1})


# --- inner values that are fed ------------------------------------------------------------------


def test_a_node_that_is_replaced_does_not_run() -> None:
    """It does not run before a later effect either; other nodes before that effect do."""
    source, out = ef.Queue(3, ef.tensor(0)), ef.Queue(9, ef.tensor(0))
    v = ef.Variable(0)

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        v.assign_add(x)
        y = source.dequeue()
        v.assign_add(x * 10)
        out.enqueue(y + x)
        return out.size()

    graph = f.graph(ef.tensor(1))
    feeds = {"x": 2, "queue_dequeue": 5}
    assert int(graph.run([graph.outputs[0]], feeds)[0]) == 1
    assert int(out.dequeue()) == 7
    assert int(v.value) == 20
    source.enqueue(8)
    assert graph.run(["&queue_dequeue", "&queue_enqueue"], feeds) == [None, None]
    assert [int(source.size()), int(out.dequeue())] == [0, 7]  # a fetched node runs


def test_one_with_several_results_runs_if_one_is_not_fed() -> None:
    source = ef.Queue(3, (ef.tensor(0), ef.tensor(0)))

    @ef.trace
    def f() -> ef.Tensor:
        x, y = source.dequeue()
        return x * 10 + y

    graph = f.graph()
    x, y = next(n for n in graph.nodes if n.op == "queue_dequeue").outputs
    assert int(graph.run([graph.outputs[0]], {x: 1, y: 2})[0]) == 12
    source.enqueue((3, 4))
    assert int(graph.run([graph.outputs[0]], {x: 1})[0]) == 14


def test_sizes_are_those_of_what_is_fed() -> None:
    source = ef.Queue(3, "f32[n]")

    @ef.trace
    def f() -> ef.Tensor:
        y = source.dequeue()
        return ef.ones((y.shape[0], 2))

    graph = f.graph()
    (y,) = next(n for n in graph.nodes if n.op == "queue_dequeue").outputs
    assert graph.run([graph.outputs[0]], {y: ef.zeros(5)})[0].shape == (5, 2)


def test_what_is_fed_twice(graph: Any) -> None:
    x = graph.inputs[0]
    with pytest.raises(GraphError, match=f"run: .{x.name}. is fed twice"):
        graph.run(graph.outputs, {x: ef.zeros(2), x.name: ef.zeros(2)})


def test_inputs_from_outside_are_named_with_their_values() -> None:
    v = ef.Variable([1.0, 2.0])
    optimiser = ef.optim.SGD([v], lr=0.5)
    weights, scale = ef.ones(2), 3

    @ef.trace
    def step(x: Any) -> Any:
        optimiser.update([x * weights * scale])
        return x + 1.0

    graph = step.graph(ef.ones(2))
    update = next(node for node in graph.nodes if node.op == "assign_sub")
    with pytest.raises(GraphError, check=says("run: 'x', ")) as caught:
        graph.run([update], {})
    text = str(caught.value)
    assert '"x": ...' in text
    assert "a call of the function reads scale, optimiser.lr, weights from outside" in text
    fed = re.search(r"feeds such as (\{.*\})", text)
    assert fed is not None
    feeds = eval(fed[1], {"weights": weights})
    assert feeds | {"x": 0, "weights": 0} == {
        "x": 0, "scale": 3, "optimiser_lr": 0.5, "weights": 0
    }  # fmt: skip
    optimiser.lr = 0.25  # the values are those of now
    some = {"x": ef.ones(2), "weights": weights, "scale": 3}
    with pytest.raises(GraphError, check=says("run: 'optimiser_lr' is needed")) as caught:
        graph.run([update], some)
    assert '{"optimiser_lr": 0.25}, of float' in str(caught.value)
    graph.run([update], {**feeds, "x": ef.ones(2)})
    assert v.tolist() == [-0.5, 0.5]


def test_inputs_of_a_graph_alone_are_named_without_values() -> None:
    graph = ef.Graph.parse("graph f(%x: f32[2], %s: float) { %y = exp(%x) : f32[2] return %y }")
    with pytest.raises(GraphError, check=says("run: 'x' is needed and not fed")) as caught:
        graph.run(["y"])
    assert 'feeds such as {"x": ...}, of f32[2]' in str(caught.value)
    assert caught.value.hint is None
