"""Golden texts of a few graphs, kept in files: a difference is either intended or a mistake.

``python -m tests.graph.text.test_golden`` writes the files anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.graph import Graph, NumberType, Reference, Value
from eagerflow.graph.text.parser import parse_graph
from eagerflow.graph.text.printer import Printer
from eagerflow.graph.verify import verify
from eagerflow.types import TensorType

FOLDER = Path(__file__).parents[2] / "golden"
N = ef.Dim("n")
CPU = ef.hardware.as_device("cpu:0")


def _type(*shape: Any, dtype: Any = ef.float32) -> TensorType:
    return TensorType(dtype, shape)


def _one(graph: Graph, op: str, inputs: tuple[Value, ...], kind: Any, **rest: Any) -> Value:
    (value,) = graph.add_node(op, inputs, (kind,), **rest).outputs
    return value


def _moved(graph: Graph, value: Value, device: Any) -> Value:
    """A transfer to a device; of an absent device the graph has the name."""
    names = {"device": device, "source": value.device}
    attrs = {k: Reference("device", d) if isinstance(d, str) else d for k, d in names.items()}
    node = graph.add_node("transfer", (value,), (value.type,), attrs, devices=[device],
                          device=value.device)  # fmt: skip
    return node.outputs[0]


def mlp_step() -> Graph:
    """One step of training: variables, scopes, sources, symbolic sizes, control edges."""
    graph = Graph("step")
    x, labels = graph.add_input(_type(N, 4), "x", CPU), graph.add_input(_type(N, 3), "labels", CPU)
    lr = graph.add_input(NumberType(float), "lr")
    graph.resources["w"] = ef.Variable(ef.zeros((4, 3))).resource
    where = "model.py:12 in step: y = x @ w"
    variable = {"resource": graph.resources["w"]}
    read = graph.add_node("read", (), (_type(4, 3),), variable, "w", device=CPU)
    y = _one(graph, "matmul", (x, read.outputs[0]), _type(N, 3), scope="layer", source=where)
    d = _one(graph, "subtract", (y, labels), _type(N, 3), scope="loss")
    square = _one(graph, "square", (d,), _type(N, 3), scope="loss")
    attrs = {"axis": (0, 1), "keepdims": False}
    loss = _one(graph, "sum", (square,), _type(), attrs=attrs, scope="loss")
    t = _one(graph, "permute_dims", (x,), _type(4, N), attrs={"axes": (1, 0)}, scope="backward")
    g = _one(graph, "matmul", (t, d), _type(4, 3), scope="backward")
    rate = _one(graph, "python_tensor", (lr,), _type(), attrs={"dtype": ef.float32}, device=CPU)
    scaled = _one(graph, "multiply", (g, rate), _type(4, 3), scope="update")
    new = _one(
        graph, "assign_sub", (scaled,), _type(4, 3), attrs={"resource": graph.resources["w"]},
        control_inputs=(read,), scope="update", source="model.py:15 in step: w.assign_sub(lr * g)",
    )  # fmt: skip
    graph.outputs = [loss, new]
    return graph


def control_flow() -> Graph:
    """A loop around a branch, and a call: subgraphs in subgraphs."""
    body = Graph("double")
    a = body.add_input(_type(N), "a", CPU)
    body.outputs = [_one(body, "add", (a, a), _type(N))]
    keep = Graph()
    keep.outputs = [keep.add_input(_type(N), "a", CPU)]
    iteration = Graph("iteration")
    i, v = (
        iteration.add_input(_type(dtype=ef.int64), "i", CPU),
        iteration.add_input(_type(N), "v", CPU),
    )
    one = ef.tensor(1)
    step = _one(
        iteration,
        "constant",
        (),
        _type(dtype=ef.int64),
        attrs={"value": one},
        name="one",
        device=CPU,
    )
    more = _one(iteration, "add", (i, step), _type(dtype=ef.int64))
    odd = _one(iteration, "equal", (i, step), _type(dtype=ef.bool))
    branch = _one(iteration, "cond", (odd, v), _type(N), attrs={"branches": (body, keep)})
    iteration.outputs = [more, branch]
    goes_on = Graph("goes_on")
    i, v = goes_on.add_input(_type(dtype=ef.int64), "i", CPU), goes_on.add_input(_type(N), "v", CPU)
    ten = _one(
        goes_on, "constant", (), _type(dtype=ef.int64), attrs={"value": ef.tensor(10)}, device=CPU
    )
    goes_on.outputs = [_one(goes_on, "less", (i, ten), _type(dtype=ef.bool))]
    graph = Graph("loop")
    start, x = (
        graph.add_input(_type(dtype=ef.int64), "start", CPU),
        graph.add_input(_type(N), "x", CPU),
    )
    loop = graph.add_node(
        "while_loop", (start, x), (_type(dtype=ef.int64), _type(N)),
        {"cond": goes_on, "body": iteration, "parallel_iterations": 10},
    )  # fmt: skip
    again = _one(graph, "call", (loop.outputs[1],), _type(N), attrs={"body": body})
    graph.outputs = [loop.outputs[0], again]
    return graph


def partitioned() -> Graph:
    """Placed nodes with reasons, transfers, and one output of a node with several."""
    graph = Graph("<lambda>")
    x = graph.add_input(_type(2 * N, 8), "größe", CPU)
    on = {"device": "worker:0/cpu:0", "because": "asked for by ef.device"}
    there = _moved(graph, x, on["device"])
    part = graph.add_node("split", (there,), (_type(2 * N, 3), _type(2 * N, 5)),
                          {"sizes": (3, 5), "axis": 1}, **on)  # fmt: skip
    left = _one(graph, "exp", (_moved(graph, part.outputs[0], CPU),), _type(2 * N, 3))
    right = _one(graph, "sum", (part.outputs[1],), _type(2 * N, 1),
                 attrs={"axis": (1,), "keepdims": True}, **on)  # fmt: skip
    both = _one(graph, "add", (left, _moved(graph, right, CPU)), _type(2 * N, 3))
    flat = _one(graph, "reshape", (both,), _type(6 * N), attrs={"shape": (6 * N,)})
    graph.outputs = [flat, part.outputs[1]]
    return graph


def literals() -> Graph:
    """Every kind of attribute."""
    graph = Graph("literals")
    graph.resources["queue 1"] = object()
    attrs = {
        "none": None, "yes": True, "integer": -3, "floats": (0.1, -0.0, 1e300, float("inf")),
        "complex": 1 - 2j, "text": 'a "quoted"\nline, ünï', "rest": ..., "dtype": ef.bfloat16,
        "device": ef.hardware.as_device("cpu:0"), "key": (slice(None, 3, -1), (1,), ()),
        "size": (N + 1) // 2, "bits": ef.tensor([True, False]), "small": ef.tensor([[0.1], [2.0]]),
        "large": ef.arange(100), "queue": graph.resources["queue 1"],
    }  # fmt: skip
    graph.add_node("op", (), (), attrs, "everything")
    return graph


def optimised() -> Graph:
    """A graph as passes leave it: constants folded, equal nodes merged, buffers reused."""
    graph = Graph("norm")
    x, w = graph.add_input(_type(256, 128), "x", CPU), graph.add_input(_type(128, 128), "w", CPU)
    one = _one(graph, "constant", (), _type(), attrs={"value": ef.tensor(1.0)}, device=CPU)
    two = _one(graph, "add", (one, one), _type())
    y = _one(
        graph, "matmul", (x, w), _type(256, 128), scope="layer", source="model.py:3: y = x @ w"
    )
    y = _one(graph, "multiply", (y, one), _type(256, 128))
    bent = _one(graph, "tanh", (y,), _type(256, 128), source="model.py:4: y = ef.tanh(y)")
    twin = _one(graph, "tanh", (y,), _type(256, 128))
    twice = _one(graph, "multiply", (twin, two), _type(256, 128))
    graph.outputs = [_one(graph, "subtract", (twice, bent), _type(256, 128))]
    return graph.optimise()


GRAPHS: dict[str, Callable[[], Graph]] = {
    f.__name__: f for f in (mlp_step, control_flow, partitioned, literals, optimised)
}


def texts(name: str) -> dict[str, str]:
    graph = GRAPHS[name]()
    files = {f"{name}.txt": f"{graph}\n"}
    if name == "mlp_step":
        files[f"{name}.dot.txt"] = f"{graph.to_dot()}\n"
    return files


@pytest.mark.parametrize("name", GRAPHS)
def test_text_is_that_of_the_file(name: str) -> None:
    for file, text in texts(name).items():
        assert text == (FOLDER / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GRAPHS)
def test_file_reads_back(name: str) -> None:
    graph = GRAPHS[name]()
    printer = Printer(strict=True)
    assert "\n".join(printer.graph(graph)) == str(graph)
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    again = parse_graph(text, graph.resources, printer.arrays)
    assert f"{again}\n" == text
    if name != "literals":
        verify(graph)
        verify(again)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for graph_name in GRAPHS:
        for file_name, content in texts(graph_name).items():
            (FOLDER / file_name).write_text(content, encoding="utf-8")
