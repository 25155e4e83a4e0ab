"""Observed runs: an event for each node and step, profiles, statistics, traces for Perfetto."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.graph import Graph
from eagerflow.profiling import NodeStatistics
from eagerflow.runtime import Executable
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from tests.messages import says
from tests.runtime.graphs import Traced

TEXT = """graph model(%x: f32[n], %k: int) {
  %a = exp(%x) : f32[n] in "encoder/layer0"
  %b = multiply(%a, %a) : f32[n] in "encoder/layer1"
  %j = python_mul(%k, %k) : int
  %t = python_tensor(%j) : f32[]
  %c = add(%b, %t) : f32[n] in "head"
  %s.0, %s.1 = split(%c) {sizes=(1, 1), axis=0} : f32[1], f32[1]
  return %s.0, %j
}"""


@pytest.fixture
def program() -> Executable:
    return Executable(Graph.parse(TEXT))


def test_each_node_is_an_event(program: Executable) -> None:
    with ef.profile() as p:
        s, j = program.apply([ef.zeros(2), 3])
    assert (s.tolist(), j) == ([10.0], 9)
    nodes = [e for e in p.events if e.kind == "node"]
    assert [(e.name, e.node, e.scope) for e in nodes] == [
        ("exp", "a", "encoder/layer0"),
        ("multiply", "b", "encoder/layer1"),
        ("add", "c", "head"),
        ("split", "s", ""),
    ]
    assert nodes[0].detail == "f32[2]@cpu:0"
    assert nodes[3].detail == "f32[1]@cpu:0, f32[1]@cpu:0"
    assert nodes[3].nbytes == 8
    assert {e.device for e in nodes} == {"cpu:0"}
    assert {(e.graph, e.executable, e.thread) for e in nodes} == {
        ("model", program.number, threading.get_ident())
    }
    (step,) = [e for e in p.events if e.kind == "step"]
    assert step.name == "model"
    assert step.start <= nodes[0].start
    for before, after in pairwise(nodes):
        assert before.start <= before.stop <= after.start
    assert nodes[-1].stop <= step.stop


def test_lines() -> None:
    f = Traced(lambda x: ef.exp(x), ("float32", ("n",)))
    with ef.profile() as p:
        f(ef.zeros(2))
    (node,) = [e for e in p.events if e.kind == "node"]
    assert "lambda x: ef.exp(x)" in str(node.source)


def test_nobody_listens_and_nothing_is_made(program: Executable) -> None:
    program(np.zeros(2, np.float32), 1)
    tier = program.tier
    assert isinstance(tier, GeneratedTier)
    assert tier._region._versions.keys() == {"plain"}


def test_profiles_show_nodes_as_they_show_ops(program: Executable) -> None:
    x = ef.zeros(2)
    with ef.profile() as p:
        ef.exp(x)
        for _ in range(3):
            program.apply([x, 3])
    assert {row.name: row.calls for row in p.table()} == {
        "exp": 4,
        "multiply": 3,
        "add": 3,
        "split": 3,
    }
    assert str(p).startswith("13 ops in ")


def test_a_replayed_graph_is_not_counted_twice() -> None:
    f = Traced(lambda x: (x * x).sum(), ("float32", ("n",)))
    with ef.profile() as p:
        ef.grad(lambda x: f.graph.run(f.graph.outputs, {f.graph.inputs[0]: x})[0])(ef.ones(2))
    assert [e.kind for e in p.events if e.name == "sum"] == ["op"]


def test_nodes_of_other_threads_have_their_names(program: Executable) -> None:
    with ef.profile() as p:
        thread = threading.Thread(target=lambda: program.apply([ef.zeros(2), 3]), name="other")
        thread.start()
        thread.join()
    assert {"node", "step"} <= {e.kind for e in p.events}
    assert [row.name for row in p.threads()] == ["other"]


def test_an_error_in_an_observed_run() -> None:
    graph = Graph.parse(
        "graph f(%x: f32[n], %y: f32[m]) { %a = exp(%x) : f32[n] "
        "%z = matmul(%a, %y) : f32[] return %z }"
    )
    program = Executable(graph)
    with ef.profile() as p, pytest.raises(ef.errors.ShapeError, check=says("matmul")) as caught:
        program.apply([ef.zeros(2), ef.zeros(3)])
    assert "node: %z = matmul" in caught.value.__notes__[0]
    assert [(e.kind, e.name) for e in p.events if e.kind != "op"] == [
        ("node", "exp"),
        ("region", "a … z"),
        ("step", "f"),
    ]


# --- statistics of nodes ------------------------------------------------------------------------


def test_statistics_of_nodes(program: Executable) -> None:
    other = Executable(Graph.parse(TEXT))
    x = np.zeros(2, np.float32)
    with NodeStatistics(program.number) as ours, NodeStatistics() as everything:
        for _ in range(3):
            program(x, 1)
        other(x, 1)
    program(x, 1)
    rows = {row.node: row for row in ours.table()}
    assert {name: row.count for name, row in rows.items()} == {"a": 3, "b": 3, "c": 3, "s": 3}
    a = rows["a"]
    assert (a.op, a.scope, a.device) == ("exp", "encoder/layer0", "cpu:0")
    assert 0 < a.median <= a.total
    assert [r.total for r in ours.table()] == sorted((r.total for r in rows.values()), reverse=True)
    assert sum(row.count for row in everything.table()) == 16
    assert not events.AbstractEvent.listeners


def test_medians_and_totals() -> None:
    statistics = NodeStatistics()
    with statistics, statistics:
        for seconds in (0.25, 4.0, 0.5):
            events.end(
                events.NodeEvent(name="exp", start=1.0, stop=1.0 + seconds, node="y", executable=1)
            )
        events.end(events.OpEvent(name="exp", start=1.0, stop=2.0))
    (row,) = statistics.table()
    assert (row.count, row.total, row.median) == (3, 4.75, 0.5)


# --- Perfetto -----------------------------------------------------------------------------------


def _slices(path: Path) -> list[dict[str, Any]]:
    trace = json.loads(path.read_text())
    assert trace["displayTimeUnit"] == "ms"
    names = {e["name"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names == {"process_name": "eagerflow", "thread_name": "MainThread"}
    return [e for e in trace["traceEvents"] if e["ph"] == "X"]


def test_a_trace_for_perfetto(program: Executable, tmp_path: Path) -> None:
    x = ef.zeros(2)
    with ef.profile() as p:
        program.apply([x, 3])
        ef.exp(x)
        program.apply([x, 3])
    p.save(tmp_path / "trace.json")
    slices = _slices(tmp_path / "trace.json")
    ops = ["encoder", "layer0", "exp", "layer1", "multiply", "head", "add", "split"]
    one = ["model", "a … s", *ops]
    assert [s["name"] for s in slices] == [*one, "exp", *one]
    assert [s["cat"] for s in slices[:6]] == ["step", "region", "scope", "scope", "node", "scope"]
    assert min(s["ts"] for s in slices) == 0.0
    step, region, encoder, layer, exp = slices[:5]
    for outer, inner in pairwise([step, region, encoder, layer, exp]):
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-6
    node = next(e for e in p.events if e.kind == "node" and e.node == "a")
    assert exp["dur"] == pytest.approx((node.stop - node.start) * 1e6)
    assert exp["args"] == {
        "device": "cpu:0",
        "types": "f32[2]@cpu:0",
        "bytes": 8,
        "node": "a",
        "scope": "encoder/layer0",
        "graph": "model",
        "step": step["args"]["step"],
    }
    assert "ef.exp(x)" in slices[len(one)]["args"]["source"]
    assert {(s["pid"], s["tid"]) for s in slices} == {(slices[0]["pid"], 1)}


def test_a_trace_of_nothing(tmp_path: Path) -> None:
    ef.profile().save(str(tmp_path / "trace.json"))
    assert [e["ph"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]] == [
        "M"
    ]
