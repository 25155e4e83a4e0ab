"""Constants follow their consumers, so that a program placed on one device is all there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph
from eagerflow.hardware import as_device
from eagerflow.placement.placed_graph import placed
from eagerflow.runtime.generated.generated_tier import GeneratedTier


@pytest.fixture(autouse=True)
def _three_devices() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield


def made_in_branch(x: ef.Tensor) -> ef.Tensor:
    def yes(x: ef.Tensor) -> ef.Tensor:
        with ef.device("cpu:1"):
            return (x * 0.5).to("cpu:0")

    return ef.cond(x.sum() > 0, yes, lambda x: x * 2, x)


def given_to_branch(x: ef.Tensor) -> ef.Tensor:
    with ef.device("cpu:1"):
        half = ef.tensor([0.5, 0.25, 2.0])

    def yes(x: ef.Tensor) -> ef.Tensor:
        with ef.device("cpu:1"):
            return (x * half).to("cpu:0")

    return ef.cond(x.sum() > 0, yes, lambda x: x * 2, x)


def given_to_loop(x: ef.Tensor) -> ef.Tensor:
    with ef.device("cpu:1"):
        half = ef.tensor([0.5, 0.25, 0.5])
    while x.sum() > 1:
        with ef.device("cpu:1"):
            y = x * half
        x = y.to("cpu:0") - 0.01
    return x


def carried_by_loop(x: ef.Tensor) -> ef.Tensor:
    with ef.device("cpu:1"):
        y = ef.tensor([4.0, 5.0, 6.0])
    while x.sum() > 1:
        with ef.device("cpu:1"):
            y = y + 0.5
        x = x * 0.5
    return x + y.to("cpu:0")


def moved_by_program(x: ef.Tensor) -> ef.Tensor:
    with ef.device("cpu:1"):
        half = ef.tensor([0.5, 0.25, 0.5])
    with ef.device("cpu:2"):
        return (x.to("cpu:2") * half.to("cpu:2")).to("cpu:0")


PROGRAMS = [made_in_branch, given_to_branch, given_to_loop, carried_by_loop, moved_by_program]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_placed_on_one_device_runs_as_one_function(
    program: Callable[[ef.Tensor], ef.Tensor],
) -> None:
    x = ef.tensor([1.0, 2.0, 3.0])
    f = ef.trace(program)
    f.place({"**": "cpu:0"})
    assert f(x).numpy().tobytes() == program(x).numpy().tobytes()
    assert isinstance(f.latest().executable.tier, GeneratedTier)
    assert "on cpu:0, by" in str(f.explain("placement")).splitlines()[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_stay_the_same(program: Callable[[ef.Tensor], ef.Tensor]) -> None:
    x = ef.tensor([1.0, 2.0, 3.0])
    f = ef.trace(program).place({"**": "cpu:0"})
    gradient = ef.grad(lambda x: f(x).sum())(x)
    np.testing.assert_array_equal(gradient, ef.grad(lambda x: program(x).sum())(x))


def constants(graph: Graph, **places: str) -> dict[str, str]:
    """The devices of a graph's constants once nodes are placed by their names."""

    def choose(node: object) -> tuple[ef.Device, str] | None:
        place = places.get(node.name)  # type: ignore[attr-defined]
        return None if place is None else (as_device(place), "for a try")

    result = placed(graph, choose)
    graphs = (result, *inner_graphs(result.nodes))
    return {n.name: str(n.device) for g in graphs for n in g.nodes if n.op == "constant"}


def test_a_constant_that_is_needed_on_several_devices_stays() -> None:
    graph = Graph.parse("""
        graph f(%x: f32[2]@cpu:0) {
          %c = constant() {value=tensor(f32[2], (1.0, 2.0))} : f32[2]@cpu:0
          %y = multiply(%x, %c) : f32[2]@cpu:0
          %z = add(%y, %c) : f32[2]@cpu:0
          return %z
        }""")
    assert constants(graph, y="cpu:1") == {"c": "cpu:0"}
    assert constants(graph, y="cpu:1", z="cpu:1") == {"c": "cpu:1"}
    assert constants(graph, y="cpu:1", z="cpu:2") == {"c": "cpu:0"}


def test_a_constant_that_is_a_result_is_needed_where_the_program_says() -> None:
    graph = Graph.parse("""
        graph f(%x: f32[2]@cpu:0) {
          %c = constant() {value=tensor(f32[2], (1.0, 2.0))} : f32[2]@cpu:0
          %y = multiply(%x, %c) : f32[2]@cpu:0
          return %y, %c
        }""")
    assert constants(graph, y="cpu:1") == {"c": "cpu:0"}


def test_a_constant_with_values_does_not_go_where_there_are_none() -> None:
    graph = Graph.parse("""
        graph f(%x: f32[2]@cpu:0) {
          %c = constant() {value=tensor(f32[2], (1.0, 2.0))} : f32[2]@cpu:0
          %y = multiply(%x, %c) : f32[2]@cpu:0
          return %y
        }""")
    assert constants(graph, y="null:0") == {"c": "cpu:0"}
