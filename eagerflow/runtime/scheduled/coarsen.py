"""Coarsening: fewer and larger regions, where smaller ones gain nothing on the threads there are.

Two regions of which one waits for the other are joined as long as the graph would not take longer
(edge zeroing: Sarkar, "Partitioning and Scheduling Parallel Programs for Multiprocessors", 1989).
That keeps the work on one variable together: its arrays stay in the cache, in buffers that are
used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf
from typing import Final, final

#: seconds to schedule one region
_ENTRY: Final = 20e-6
#: number of regions up to which they are joined; the work grows with the square
_MOST: Final = 100

Edges = Mapping[int, set[int]]


def coarsen(costs: Mapping[int, float], before: Edges, workers: int) -> dict[int, int]:
    """For each region the region that it is joined to, or itself.

    Args:
        costs: the seconds that each region takes, in an order in which they could run.
        before: the regions that each waits for.
        workers: number of threads.

    >>> coarsen({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}, {0: set(), 1: {0}, 2: {0}, 3: {1, 2}}, 1)
    {0: 0, 1: 0, 2: 0, 3: 0}
    >>> coarsen({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}, {0: set(), 1: {0}, 2: {0}, 3: {1, 2}}, 2)
    {0: 0, 1: 1, 2: 2, 3: 3}
    """
    if len(costs) > _MOST:
        return {region: region for region in costs}
    return _Coarsening(costs, before, workers).run()


@final
class _Coarsening:
    """Regions that are being joined."""

    def __init__(self, costs: Mapping[int, float], before: Edges, workers: int) -> None:
        self.workers = workers
        self.costs = dict(costs)
        self.before = {region: set(others) for region, others in before.items()}
        self.home = {region: region for region in costs}

    def run(self) -> dict[int, int]:
        edges = [(a, b) for b, others in self.before.items() for a in sorted(others)]
        # joining the costliest regions gains most
        edges.sort(key=lambda edge: -self.costs[edge[0]] - self.costs[edge[1]])
        seconds = self._seconds(self.costs, self.before)
        for a, b in edges:
            first, second = self._root(a), self._root(b)
            if first == second:
                continue
            costs, before = self._joined(first, second)
            joined_seconds = self._seconds(costs, before)
            if joined_seconds <= seconds:
                seconds, self.costs, self.before = joined_seconds, costs, before
                self.home[second] = first
        return {region: self._root(region) for region in self.home}

    def _root(self, region: int) -> int:
        while self.home[region] != region:
            region = self.home[region]
        return region

    def _joined(self, a: int, b: int) -> tuple[dict[int, float], dict[int, set[int]]]:
        """Costs and edges with two regions joined."""
        costs = {r: cost for r, cost in self.costs.items() if r != b}
        costs[a] += self.costs[b]
        before = {
            r: {a if o == b else o for o in others} - {r}
            for r, others in self.before.items()
            if r != b
        }
        before[a] = (self.before[a] | self.before[b]) - {a, b}
        return costs, before

    def _seconds(self, costs: Mapping[int, float], before: Edges) -> float:
        """Makespan of the regions if the critical path goes first; infinite with a cycle."""
        after: dict[int, list[int]] = {region: [] for region in before}
        for region, others in before.items():
            for other in others:
                after[other].append(region)
        left = {region: len(others) for region, others in before.items()}
        order = [region for region, count in left.items() if not count]
        for region in order:  # the list grows in the loop
            for other in after[region]:
                left[other] -= 1
                if not left[other]:
                    order.append(other)
        if len(order) < len(before):
            return inf
        left = {region: len(others) for region, others in before.items()}
        way = dict[int, float]()
        for region in reversed(order):
            own = costs[region] + _ENTRY
            way[region] = own + max([way[r] for r in after[region]], default=0.0)
        ready = [(-way[r], r) for r in order if not left[r]]
        ready.sort()
        running: list[tuple[float, int]] = []
        now = 0.0
        while ready or running:
            while ready and len(running) < self.workers:
                _, region = heappop(ready)
                heappush(running, (now + costs[region] + _ENTRY, region))
            now, ended = heappop(running)
            for region in after[ended]:
                left[region] -= 1
                if not left[region]:
                    heappush(ready, (-way[region], region))
        return now
