"""Levels: the number of cuts before each node of a lowered graph.

A cut separates two nodes that cannot run together: a change of frame path, a value that the host
reads when it has come from its device, or a node that steers tokens, waits or has an effect of its
own. Pure nodes of one level and frame path may run as one region; as each cut leads to a higher
level, no two regions wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from eagerflow.core.op import find_op
from eagerflow.graph.ir import Node
from eagerflow.graph.lowering.frame_paths import FramePath, loop_of
from eagerflow.graph.lowering.steering import is_steering
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import late_reads, lead_of


@final
class Levels:
    """The levels of the nodes that were added, in an order in which they can run.

    A node that depends on other partitions has the attribute ``level``, which is no lower than the
    levels there (see `eagerflow.placement.cut`).

    Attributes:
        of: for each node its level.
        single: the nodes that run alone.
    """

    def __init__(self) -> None:
        self.of: dict[Node, int] = {}
        self.single: set[Node] = set()
        self._paths: dict[Node, FramePath] = {}
        self._loops: dict[tuple[str, ...], int] = {}  # the highest level in each, by its frames
        self._joining: dict[str, bool] = {}  # by op, where that alone decides

    def add(self, node: Node, path: FramePath, before: Iterable[Node]) -> int:
        """Add a node, after all nodes that must have run before it; returns its level."""
        joins = self._joining.get(node.op)
        if joins if joins is not None else self._may_join(node, path):
            level = self._behind_cuts(node, path, before)
        else:
            self.single.add(node)
            level = max([int(node.attrs.get("level", 0)), *self._known(before)])
        if path:
            level = self._in_loops(node, path, level)
        self.of[node] = level
        self._paths[node] = path
        return level

    def _may_join(self, node: Node, path: FramePath) -> bool:
        if is_steering(node.op):
            self._joining[node.op] = False
        elif find_op(node.op) is not None and effect_of(node) == "pure":
            self._joining[node.op] = True
        return may_join(node, path)

    def _known(self, nodes: Iterable[Node]) -> list[int]:
        return [self.of[node] for node in nodes if node in self.of]

    def _behind_cuts(self, node: Node, path: FramePath, before: Iterable[Node]) -> int:
        """The level of a node that may be in a region: each cut before it adds one."""
        level, levels = 0, self.of
        late = [node.inputs[i].node for i in late_reads(node)]
        for other in before:
            known = levels.get(other)
            if known is not None and known >= level:
                apart = other in self.single or other in late or self._paths[other] != path
                level = known + apart
        return level

    def _in_loops(self, node: Node, path: FramePath, level: int) -> int:
        """The level of a node in branches and loops; raises the levels of the loops around it."""
        if lead_of(node.op) == "leave":  # an exit has waited for the whole carry of its loop
            level = max(level, self._loops[_frames(loop_of(path))])
        frames = _frames(path)
        for i in range(1, len(frames) + 1):
            self._loops[frames[:i]] = max(level, self._loops.get(frames[:i], 0))
        return level


def has_level(node: Node) -> bool:
    """Whether the level of ``node`` depends on other partitions, and so is an attribute of it."""
    return lead_of(node.op) in ("receive", "leave")


def _frames(path: FramePath) -> tuple[str, ...]:
    return tuple([which for what, which in path if what == "frame"])


def may_join(node: Node, path: FramePath) -> bool:
    """Whether ``node`` may be in a region.

    Reads and assignments of variables may, except in branches and loops, where effects wait for
    more than their inputs.
    """
    if is_steering(node.op):
        return False
    effect = effect_of(node)
    if effect == "pure":
        return True
    return not path and effect in ("reads", "writes") and not any(node.subgraphs())
