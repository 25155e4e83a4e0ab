"""No placing, cutting, lowering or compiling in the second step of a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from tests.placement.scattered import by_scheduler
from tests.source_tree import ROOT

#: folders and files with functions that transform graphs
_MAKING = (
    "/eagerflow/placement/", "/eagerflow/graph/passes/", "/eagerflow/graph/lowering/",
    "/eagerflow/tracing/", "/eagerflow/runtime/strands/text.py",
    "/eagerflow/runtime/strands/translation.py", "/eagerflow/runtime/scheduled/scheduled_nodes.py",
    "/eagerflow/runtime/node_region_graphs.py",
)  # fmt: skip


@pytest.fixture(autouse=True, params=["strands", "scheduler"])
def _three_devices(request: pytest.FixtureRequest) -> Iterator[None]:
    with ef.config(cpu_devices=3):
        if request.param == "strands":
            yield
        else:
            with by_scheduler():
                yield


def made_in(call: Callable[[], Any]) -> set[str]:
    """The graph-transforming functions that a call runs in this thread."""
    functions: set[str] = set()

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and any(part in code.co_filename for part in _MAKING):
            functions.add(f"{code.co_filename}: {code.co_name}")
        elif event == "c_call" and argument is compile:
            functions.add("compile")

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return functions


def layers() -> tuple[Any, Callable[[], Any]]:
    """A training step over two devices, and over a third device by a rule."""
    one, two = ef.Variable(ef.ones((3, 3))), ef.Variable(ef.ones((3, 3), device="cpu:1"))
    optimiser = ef.optim.SGD([one, two], 0.1)

    def loss(x: Any) -> Any:
        h = ef.tanh(x @ one)
        with ef.colocate(two):
            y = h @ two
        with ef.name_scope("end"):
            return (y.to("cpu:0") * 2.0).sum()

    @ef.trace
    def step(x: Any) -> Any:
        value, gradients = ef.value_and_grad(loss, wrt=[one, two])(x)
        optimiser.update(gradients)
        return value

    return step.place({"end": "cpu:2"}), lambda: step(ef.ones((2, 3)))


def loops() -> tuple[Any, Callable[[], Any]]:
    """A loop and a branch over two devices."""

    @ef.trace
    def f(x: Any) -> Any:
        while x.sum() < 100.0:
            with ef.device("cpu:1"):
                y = x * 2.0
            x = y.to("cpu:0") + 1.0
        return ef.cond(x[0] > 1.0, lambda: (x.to("cpu:1") + 1.0).to("cpu:0"), lambda: x)

    return f, lambda: f(ef.ones(3))


def parts() -> tuple[Any, Callable[[], Any]]:
    """A run of a part of a graph, for the same fetches and feeds."""

    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.exp(x)
        with ef.device("cpu:2"):
            return ef.sin(y), y

    graph = ef.trace(f).graph(ef.ones(3))
    feeds = {graph.inputs[0]: ef.ones(3)}
    return graph, lambda: graph.run([graph.outputs[0]], feeds)


@pytest.mark.parametrize("program", [layers, loops, parts])
def test_the_second_step_makes_nothing(program: Callable[[], Any]) -> None:
    _, step = program()
    step()
    assert made_in(step) == set()


@pytest.mark.parametrize("part", _MAKING)
def test_what_makes_something_is_there(part: str) -> None:
    """A part that does not exist would never be seen."""
    assert (ROOT / part.strip("/")).exists()


def test_a_changed_rule_takes_hold_once() -> None:
    step, call = layers()
    call()
    made = made_in(lambda: (step.place({"end": "cpu:1"}), call()))
    assert any("/placement/cut.py" in name for name in made)
    assert made_in(call) == set()
