"""Parts of graphs: nodes that no fetch needs do not run, and any number of steps run at once."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.errors import TraceWarning
from eagerflow.graph import Graph

WIDTH, DEPTH = 100, 100


class Kernels:
    """Counts of the kernels that have run, by name."""

    kinds = frozenset({events.NodeEvent})

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def begin(self, event: events.AbstractEvent) -> None:
        raise AssertionError("only the end of a node is told")

    def end(self, event: events.AbstractEvent) -> None:
        self.counts[event.name] += 1


@contextmanager
def kernels() -> Iterator[Counter[str]]:
    """Counts of the kernels that run within this block, by name."""
    instrument = Kernels()
    events.add_instrument(instrument)
    try:
        yield instrument.counts
    finally:
        events.remove_instrument(instrument)


@pytest.fixture(scope="module")
def chains() -> Graph:
    """A hundred chains of a hundred nodes each, from one input; then the sum of their ends."""

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        ends = []
        for i in range(WIDTH):
            y = x * (i + 1)
            for _ in range(DEPTH - 2):
                y = ef.cos(y)
            ends.append(ef.exp(y))
        return ef.sum(ef.stack(ends))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # of so many unrolled iterations
        graph: Graph = f.graph(ef.ones(3))
    assert len(graph.nodes) >= WIDTH * DEPTH
    return graph


def test_one_value_of_many_runs_only_its_ancestors(chains: Graph) -> None:
    ends = [node.outputs[0] for node in chains.nodes if node.op == "exp"]
    chains.run([ends[40]], {"x": ef.ones(3)})  # the part is made ready
    with kernels() as counted:
        (value,) = chains.run([ends[40]], {"x": ef.ones(3)})
    assert counted == {"multiply": 1, "cos": DEPTH - 2, "exp": 1}
    want = np.full(3, 41.0, "f4")
    for _ in range(DEPTH - 2):
        want = np.cos(want)
    assert np.allclose(value.numpy(), np.exp(want))


def test_nothing_before_a_fed_value_runs(chains: Graph) -> None:
    node = [node for node in chains.nodes if node.op == "cos"][DEPTH - 5]
    (last,) = (n for n in chains.nodes if n.op == "exp" and _is_below(n, node))
    chains.run([last.outputs[0]], {node.outputs[0]: ef.zeros(3)})
    with kernels() as counted:
        (value,) = chains.run([last.outputs[0]], {node.outputs[0]: ef.zeros(3)})
    assert counted == {"cos": 2, "exp": 1}
    assert np.allclose(value.numpy(), np.exp(np.cos(np.cos(0.0))))


def _is_below(node: object, above: object) -> bool:
    """Whether a node of a chain comes after another node."""
    while node is not None and node is not above:
        node = node.inputs[0].node
    return node is above


def test_steps_of_several_threads_over_overlapping_parts() -> None:
    counts = [ef.Variable(0.0, name=f"count{i}") for i in range(3)]

    @ef.trace
    def f(x: ef.Tensor) -> tuple[ef.Tensor, ...]:
        shared = ef.exp(x)
        return tuple(v.assign_add(ef.sum(shared) * 0 + i + 1) for i, v in enumerate(counts))

    graph = f.graph(ef.ones(4))
    parts = [graph.outputs[:2], graph.outputs[1:], graph.outputs[::2], graph.outputs]
    wrong: list[BaseException] = []

    def work(part: list[object]) -> None:
        try:
            for _ in range(100):
                graph.run(part, {"x": ef.ones(4)})
        except BaseException as error:  # checked below, in the thread of the test
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(list(part),)) for part in parts * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [v.item() for v in counts] == [600.0, 1200.0, 1800.0]
