"""Regions: sets of nodes of a lowered graph that run together, as one scheduled node.

Nodes belong together if they are pure and have one *frame path*: the same frame and the same
branch. Outside of branches and loops, reads and assignments of variables may be among them. Such
nodes are one region, except for two reasons to cut: a node between them steers tokens or has
another effect (it and the region would wait for each other); or heavy parts are independent, so
that they should run at once, or another partition waits for only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from graphlib import TopologicalSorter
from typing import Final, final

from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering.cut_levels import Levels
from eagerflow.graph.lowering.frame_paths import FramePath, FramePaths
from eagerflow.graph.signatures import lead_of
from eagerflow.runtime.node_seconds import HEAVY_SECONDS
from eagerflow.runtime.scheduled.coarsen import coarsen

#: the maximal number of rounds of joining clusters; each halves the number of chains
_ROUNDS: Final = 20
#: seconds that another partition may wait for a value that could be sent earlier
_SOON: Final = 50e-6


def find_regions(
    graph: Graph,
    paths: FramePaths,
    seconds: Callable[[Node], float],
    before: Callable[[Node], Iterable[Node]],
    workers: int = 0,
) -> list[list[list[Node]]]:
    """The regions, each with its nodes in order; regions that could run at once share a list.

    Constants are in no region.

    Args:
        graph: a lowered graph.
        paths: the frame paths of its nodes.
        seconds: estimated seconds of a node.
        before: the nodes that must have run before a node.
        workers: the number of threads; regions are no smaller than so many threads can use. If
            0, they are as small as they may be.
    """
    levels = Levels()
    groups: dict[tuple[FramePath, int], list[Node]] = {}
    for node in graph.nodes:
        if node.op != "constant":
            path = paths.nodes[node]
            level = levels.add(node, path, before(node))
            if node not in levels.single:
                groups.setdefault((path, level), []).append(node)
    sent = {n for node in graph.nodes if lead_of(node.op) == "send" for n in before(node)}
    wholes = list(groups.values())
    if sent:
        wholes = [
            part for nodes in wholes for part in _early_and_late(nodes, sent, seconds, before)
        ]
    return [_Split(nodes, seconds, before, workers).parts() for nodes in wholes]


def _early_and_late(
    nodes: list[Node], sent: set[Node], seconds: Callable[[Node], float],
    before: Callable[[Node], Iterable[Node]],
) -> list[list[Node]]:  # fmt: skip
    """Split nodes that another partition waits for from the others, if these take a while."""
    among, early = set(nodes), sent.intersection(nodes)
    for node in reversed(nodes):
        if node in early:
            early |= among.intersection(before(node))
    late = [node for node in nodes if node not in early]
    if not early or sum(map(seconds, late)) < _SOON:
        return [nodes]
    return [[node for node in nodes if node in early], late]


@final
class _Split:
    """Pure nodes at one frame path that are cut where heavy parts could run at once.

    Nodes are joined to clusters, never so that two clusters wait for each other. A chain of nodes
    is one cluster. A light cluster joins its only predecessor, or else its only successor; the
    remaining light clusters are joined if equally many heavy ones come before them.

    Args:
        nodes: the nodes, in order.
        seconds: estimated seconds of a node.
        before: the nodes that must have run before a node.
        workers: as for `find_regions`.
    """

    def __init__(
        self, nodes: Sequence[Node], seconds: Callable[[Node], float],
        before: Callable[[Node], Iterable[Node]], workers: int = 0,
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.workers = workers
        self.costs = [seconds(n) for n in nodes]
        self.home = list(range(len(nodes)))  # the cluster of each node, by its root
        number = {n: i for i, n in enumerate(nodes)}
        self.edges = [sorted({number[b] for b in before(n) if b in number}) for n in nodes]

    def parts(self) -> list[list[Node]]:
        """The clusters, or a single one of all nodes if no two heavy ones could run at once."""
        if sum(self.costs) < 2 * HEAVY_SECONDS:
            return [list(self.nodes)]
        for _ in range(_ROUNDS):
            if not self._join():
                break
        self._join_levels()
        if not self._parallel():
            return [list(self.nodes)]
        if self.workers:
            costs, waits, _ = self._clusters()
            for root, other in coarsen(costs, waits, self.workers).items():
                self.home[root] = other
        parts: dict[int, list[Node]] = {}
        for i, node in enumerate(self.nodes):
            parts.setdefault(self._root(i), []).append(node)
        return list(parts.values())

    def _root(self, i: int) -> int:
        home = self.home
        while home[i] != i:
            home[i] = home[home[i]]
            i = home[i]
        return i

    def _clusters(self) -> tuple[dict[int, float], dict[int, set[int]], dict[int, set[int]]]:
        """The costs, predecessors and successors of each cluster, all in order."""
        costs: dict[int, float] = {}
        before: dict[int, set[int]] = {}
        for i, cost in enumerate(self.costs):
            root = self._root(i)
            costs[root] = costs.get(root, 0.0) + cost
            before.setdefault(root, set()).update(
                r for r in map(self._root, self.edges[i]) if r != root
            )
        after: dict[int, set[int]] = {root: set() for root in costs}
        for root, others in before.items():
            for other in others:
                after[other].add(root)
        return costs, before, after

    def _join(self) -> bool:
        """Join neighbouring clusters; whether any were joined."""
        costs, before, after = self._clusters()
        touched = set[int]()  # joined clusters wait for the next round
        for root, cost in costs.items():
            if root in touched:
                continue
            for near, back in ((before[root], after), (after[root], before)):
                if len(near) != 1:
                    continue
                (other,) = near
                chain = len(back[other]) == 1
                if other not in touched and (chain or cost < HEAVY_SECONDS):
                    self.home[root] = other
                    touched |= {root, other}
                    break
        return bool(touched)

    def _join_levels(self) -> None:
        """Join light clusters with equally many heavy ones before them."""
        costs, before, _ = self._clusters()
        first: dict[int, int] = {}
        for root, level in self._levels(costs, before).items():
            if costs[root] < HEAVY_SECONDS:
                self.home[root] = first.setdefault(level, root)

    def _levels(self, costs: dict[int, float], before: dict[int, set[int]]) -> dict[int, int]:
        """The largest number of heavy clusters on a path to each cluster."""
        levels: dict[int, int] = {}
        for root in TopologicalSorter(before).static_order():
            around = [levels[b] + (costs[b] >= HEAVY_SECONDS) for b in before[root]]
            levels[root] = max(around, default=0)
        return levels

    def _parallel(self) -> bool:
        """Whether two heavy clusters are independent of each other."""
        costs, before, _ = self._clusters()
        levels = self._levels(costs, before)
        heavy = [levels[root] for root, cost in costs.items() if cost >= HEAVY_SECONDS]
        return len(set(heavy)) < len(heavy)
