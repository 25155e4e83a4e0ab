"""Graphs with nodes on several devices, and the partitions that they are cut into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import eagerflow as ef
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import lower
from eagerflow.hardware import Device, as_device
from eagerflow.placement.check import verify_cut
from eagerflow.placement.cut import Cut, cut
from eagerflow.placement.placed import placed

__all__ = ["by_name", "cut_text", "partition", "scattered"]


def by_name(devices: int, salt: int = 0) -> Callable[[Node], tuple[Device, str]]:
    """Places a node wherever its name leads."""

    def choose(node: Node) -> tuple[Device, str]:
        return as_device(f"cpu:{crc32(f'{salt}{node.name}'.encode()) % devices}"), "by its name"

    return choose


def scattered(graph: Graph, devices: int = 4, salt: int = 0) -> Graph:
    """The graph with its nodes on several devices."""
    return placed(graph, by_name(devices, salt))


def partition(graph: Graph, whole: Callable[[Node], bool] = lambda node: False) -> Cut:
    """The partitions of a graph, verified."""
    made = cut(lower(graph, whole))
    verify_cut(made)
    return made


def cut_text(text: str, **resources: Any) -> Cut:
    """The partitions of a graph in its text form, with four virtual CPUs."""
    with ef.config(cpu_devices=4):
        return partition(Graph.parse(text, resources))
