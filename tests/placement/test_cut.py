"""The contents of a graph's partitions, and the values sent between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DeviceError
from eagerflow.graph.ir import Graph
from eagerflow.graph.lowering import lower
from eagerflow.placement.cut import Cut, cut
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled import scheduled_tier
from tests.placement.scattered import cut_text, partition


def edges(cut: Cut) -> list[str]:
    return sorted(cut.pairs)


def ops(cut: Cut, device: str) -> list[str]:
    (graph,) = [p.graph for p in cut.partitions if str(p.device) == device]
    return [node.op for node in graph.nodes]


def test_a_value_is_sent_once_to_each_device_that_needs_it() -> None:
    cut = cut_text("""
        graph f(%x: f32[2]@cpu:0) {
          %y = exp(%x) : f32[2]@cpu:0
          %a = transfer(%y) {device=device("cpu:1"), source=device("cpu:0")} : f32[2]@cpu:1
          %b = transfer(%y) {device=device("cpu:1"), source=device("cpu:0")} : f32[2]@cpu:1
          %c = transfer(%y) {device=device("cpu:2"), source=device("cpu:0")} : f32[2]@cpu:2
          %p = add(%a, %b) : f32[2]@cpu:1
          %q = sin(%c) : f32[2]@cpu:2
          return %p, %q
        }""")
    assert edges(cut) == ["y -> cpu:1", "y -> cpu:2"]


def test_what_goes_over_a_third_device_goes_straight() -> None:
    cut = cut_text("""
        graph f(%x: f32[2]@cpu:0) {
          %a = transfer(%x) {device=device("cpu:1"), source=device("cpu:0")} : f32[2]@cpu:1
          %b = transfer(%a) {device=device("cpu:2"), source=device("cpu:1")} : f32[2]@cpu:2
          %y = exp(%b) : f32[2]@cpu:2
          return %y
        }""")
    assert edges(cut) == ["x -> cpu:2"]
    assert [str(p.device) for p in cut.partitions] == ["cpu:0", "cpu:2"]


def test_what_is_sent_and_received_says_why() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        return ef.exp(x.to("cpu:1"))

    with ef.config(cpu_devices=2):
        first, second = cut(lower(f.graph(ef.ones(2)))).partitions
        reasons = {n.op: n.reason for n in (*first.graph.nodes, *second.graph.nodes)}
    assert reasons["Send"] == "where the value it sends is: x -> cpu:1"
    assert reasons["Recv"] == "where the value it receives is needed: x -> cpu:1"


def test_constants_and_numbers_are_copied() -> None:
    cut = cut_text("""
        graph f(%x: f32[2]@cpu:0, %k: int) {
          %c = constant() {value=tensor(f32[], (3.0))} : f32[]@cpu:0
          %moved = transfer(%c) {device=device("cpu:1"), source=device("cpu:0")} : f32[]@cpu:1
          %two = python_add(%k, %k) : int
          %n = python_tensor(%two) : f32[]@cpu:0
          %there = transfer(%n) {device=device("cpu:1"), source=device("cpu:0")} : f32[]@cpu:1
          %z = multiply(%moved, %there) : f32[]@cpu:1
          %y = multiply(%x, %c) : f32[2]@cpu:0
          return %y, %z
        }""")
    assert edges(cut) == []


def test_operands_on_several_devices_are_refused() -> None:
    with pytest.raises(DeviceError, match="operands sit on different devices"):
        cut_text("""
            graph f(%x: f32[2]@cpu:0, %y: f32[2]@cpu:1) {
              %z = multiply(%x, %y) : f32[2]@cpu:0
              return %z
            }""")


def halving(x: Any, w: Any) -> Any:
    """A loop over two devices, with a number of iterations that depends on data."""
    rows = x
    while rows.sum() < 50.0:
        there = (rows.to("cpu:1") @ w).to("cpu:0")
        if there.sum() > 3.0:
            there = ef.sin(there.to("cpu:1")).to("cpu:0") * there
        rows = rows + ef.tanh(there) * 0.1 + 0.2
    return (rows * rows).sum()


def arguments(device: str) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    x, w = random.random((2, 3, 3), np.float32)
    return ef.tensor(x), ef.tensor(w, device=device)


def test_a_loop_over_two_devices_and_its_gradient_are_those_of_one_bit_for_bit() -> None:
    with ef.config(cpu_devices=2):
        on_two = ef.trace(halving)
        x, w = arguments("cpu:1")
        value, slopes = ef.value_and_grad(on_two, argnums=(0, 1))(x, w)
        assert {e.optimised and Executable(e.optimised).tier.name for e in entries(on_two)} == {
            "partitioned"
        }
        assert [str(s.device) for s in slopes] == ["cpu:0", "cpu:1"]
        # the same graph as one generated function, with transfers in it
        x, w = arguments("cpu:0")
        wanted, other = ef.value_and_grad(ef.trace(on_one), argnums=(0, 1))(x, w)
    assert value.numpy().tobytes() == wanted.numpy().tobytes()
    for slope, want in zip(slopes, other, strict=True):
        assert slope.numpy().tobytes() == want.numpy().tobytes()


def on_one(x: Any, w: Any) -> Any:
    """`halving` without moves."""
    rows = x
    while rows.sum() < 50.0:
        there = rows @ w
        if there.sum() > 3.0:
            there = ef.sin(there) * there
        rows = rows + ef.tanh(there) * 0.1 + 0.2
    return (rows * rows).sum()


def entries(traced: Any) -> list[Any]:
    return [*traced._lookup.cache.entries()]


def test_in_a_loop_a_predicate_crosses_once_and_an_invariant_not_at_all() -> None:
    with ef.config(cpu_devices=2):
        x, w = arguments("cpu:1")
        traced = ef.trace(halving)
        traced(x, w)
        (entry,) = entries(traced)
        cut = partition(entry.optimised)
        there = next(p.graph for p in cut.partitions if str(p.device) == "cpu:1")
    kinds = [v.spec for _, received in cut.pairs.values() for v in received.outputs]
    assert [str(k) for k in kinds].count("bool[]@cpu:1") == 2  # of the loop, of the branch
    invariants = [n for n in there.nodes if n.op == "Enter" and n.attrs.get("invariant")]
    assert [str(n.inputs[0].spec) for n in invariants] == ["f32[3,3]@cpu:1"]  # w, on its own device
    assert there.inputs[0] is invariants[0].inputs[0]


def test_a_count_of_iterations_is_not_sent() -> None:
    with ef.config(cpu_devices=2):
        traced = ef.trace(
            lambda xs: ef.scan(
                lambda c, x: ((ef.sin(c.to("cpu:1")) * 2).to("cpu:0") + x, c), ef.zeros(3), xs
            )
        )
        xs = ef.ones((4, 3))
        traced(xs)
        (entry,) = entries(traced)
        cut = partition(entry.optimised)
    assert all(v.type.shape for _, end in cut.pairs.values() for v in end.outputs)
    assert "python_lt" in ops(cut, "cpu:1")  # each partition counts by itself


def test_what_a_branch_takes_from_around_is_sent_once() -> None:
    def f(x: Any, p: Any) -> Any:
        there = x.to("cpu:1")
        y = ef.exp(there)
        if p:
            y = y * there
        return y

    with ef.config(cpu_devices=2):
        traced = ef.trace(f)
        assert traced(ef.ones(3), ef.tensor(True)).tolist() == pytest.approx([np.e] * 3)
        (entry,) = entries(traced)
        cut = partition(entry.optimised)
    assert len([e for e, (_, end) in cut.pairs.items() if end.outputs[0].type.shape]) == 1


def test_a_size_that_is_named_elsewhere_is_sent_as_a_shape() -> None:
    cut = cut_text("""
        graph f(%x: f32[n]@cpu:0) {
          %z = zeros() {shape=(n,), dtype=f32, device=device("cpu:1")} : f32[n]@cpu:1
          return %z
        }""")
    assert edges(cut) == ["x -> cpu:1 (shape)"]
    with ef.config(cpu_devices=2):
        executable = Executable(cut.graph)
        (z,) = executable(np.ones(5, np.float32))
    assert z.shape == (5,)


def test_effects_wait_for_each_other_over_devices() -> None:
    with ef.config(cpu_devices=2):
        log: list[str] = []

        @ef.trace
        def f(x: Any) -> Any:
            ef.py_call(lambda a: log.append("first"), None, x)
            y = ef.exp(x.to("cpu:1"))
            ef.py_call(lambda a: log.append("second"), None, y)
            ef.py_call(lambda a: log.append("third"), None, x)
            return y

        for _ in range(5):
            f(ef.ones(2))
    assert log == ["first", "second", "third"] * 5


def test_the_second_step_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        scheduled_tier,
        "cut",
        lambda graph, cut=scheduled_tier.cut: made.append(graph) or cut(graph),
    )
    with ef.config(cpu_devices=2):
        f = ef.trace(lambda x: ef.exp(x.to("cpu:1")).sum())
        for _ in range(3):
            ef.grad(f)(ef.ones(3))
            f(ef.ones(3))
        count = len(made)
        ef.grad(f)(ef.ones(3))
        f(ef.ones(3))
        assert len(made) == count

        graph = Graph.parse("""graph f(%x: f32[2]@cpu:0) {
            %m = transfer(%x) {device=device("cpu:1"), source=device("cpu:0")} : f32[2]@cpu:1
            %y = exp(%m) : f32[2]@cpu:1 return %y }""")
        graph.run(["y"], {"x": ef.ones(2)})
        count = len(made)
        graph.run(["y"], {"x": ef.ones(2)})
        assert len(made) == count
