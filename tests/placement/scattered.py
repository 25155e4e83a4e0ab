"""Graphs with nodes on several devices, and the partitions that they are cut into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from zlib import crc32

import eagerflow as ef
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import lower
from eagerflow.hardware import Device, as_device
from eagerflow.placement.cut import Cut, cut
from eagerflow.placement.partition_check import verify_cut
from eagerflow.placement.placed_graph import Choice, is_movable, placed
from eagerflow.runtime.executable import spans_devices
from eagerflow.runtime.rendezvous.rendezvous import Left
from eagerflow.runtime.scheduled import scheduled_tier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.strands.strands import Strands
from eagerflow.types import BYTES

__all__ = ["CPUS", "by_scheduler", "cut_text", "nothing_left", "partition", "scattered"]

CPUS = ("cpu:0", "cpu:1", "cpu:2", "cpu:3")


def _by_name(devices: Sequence[Device], salt: int) -> Choice:
    """A choice of a device for each node by a hash of the node's name."""
    data = [d for d in devices if d.backend.holds_bytes]

    def choose(node: Node) -> tuple[Device, str]:
        values = (*node.inputs, *node.outputs)
        there = data if any(v.type.dtype is BYTES for v in values if v.device) else devices
        return there[(crc32(node.name.encode()) + salt) % len(there)], "by its name"

    return choose


def every_node(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of its subgraphs."""
    yield from graph.nodes
    for inner in inner_graphs(graph.nodes):
        yield from inner.nodes


def scattered(graph: Graph, devices: Sequence[str] = CPUS, salt: int = 0) -> Graph:
    """The graph with its nodes spread over several devices, if any of them can be placed."""
    targets = [as_device(d) for d in devices]
    tried = (placed(graph, _by_name(targets, salt + i)) for i in range(len(devices)))
    made = next((one for one in tried if spans_devices(one)), graph)
    assert made is not graph or not any(map(is_movable, every_node(graph)))
    return made


def partition(graph: Graph, whole: Callable[[Node], bool] = lambda node: False) -> Cut:
    """The partitions of a graph, verified."""
    made = cut(lower(graph, whole))
    verify_cut(made)
    return made


def cut_text(text: str, **resources: Any) -> Cut:
    """The partitions of a graph in its text form, with four virtual CPUs."""
    with ef.config(cpu_devices=4):
        return partition(Graph.parse(text, resources))


@contextmanager
def by_scheduler() -> Iterator[None]:
    """Within this block, executables are made so that the scheduler runs all partitions."""
    with patch.object(scheduled_tier, "strands_of", lambda *given: None):
        yield


@contextmanager
def nothing_left() -> Iterator[list[str]]:
    """Check that each successful step in this block leaves nothing at its rendezvous.

    Yields a list of the outcomes of the steps. Strands check themselves whether something is left.
    """
    ended: list[str] = []
    left: list[Left] = []
    end, run = ScheduledStep.end, Strands.run

    def noting(step: ScheduledStep) -> None:
        end(step)
        if step.rendezvous is not None:
            ended.append(step.outcome)
            left.extend(step.left if step.outcome == "done" else ())

    def running(strands: Strands, *args: Any) -> tuple[Any, ...]:
        ended.append("failed")
        results = run(strands, *args)
        ended[-1] = "done"
        return results

    with patch.object(ScheduledStep, "end", noting), patch.object(Strands, "run", running):
        yield ended
    assert left == []
