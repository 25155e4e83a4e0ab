"""Random structured programs as plans of a scheduler, and the runs that they must cause."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from eagerflow.runtime.scheduled.plan import (
    ENTER,
    EXIT,
    MERGE,
    NEXT,
    RUN,
    SWITCH,
    Plan,
    ScheduledNode,
)


@dataclass
class Flow:
    """A plan with the decisions of its switches.

    `choices[node]` has the port for each time that the switch runs, keyed by the iterations of the
    loops around it, from the outermost.
    """

    nodes: list[ScheduledNode] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    parallel: list[int] = field(default_factory=list)
    iterations: dict[int, dict[tuple[int, ...], int]] = field(default_factory=dict)  # by frame
    branches: dict[int, dict[tuple[int, ...], int]] = field(default_factory=dict)  # by switch
    tests: dict[int, int] = field(default_factory=dict)  # switches of loops, with their frame

    def add(self, kind: int, frame: int, **rest: object) -> int:
        self.nodes.append(ScheduledNode(kind, frame, **rest))
        return len(self.nodes) - 1

    def edge(self, start: int, end: int, port: int = 0, there: int = 0) -> None:
        self.nodes[start].edges.append((port, end, there))

    def plan(self) -> Plan:
        return Plan(self.nodes, self.parents, self.parallel)


Value = tuple[int, int]  # a node and its port


class Builder:
    """Builder of a random flow.

    A block is a list of statements that takes values and gives values, each of them one token.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.flow = Flow()

    def build(self, size: int = 6) -> Flow:
        flow = self.flow
        values = [(flow.add(RUN, 0), 0) for _ in range(self.random.randint(1, 3))]
        self.block(values, 0, size, 0)
        return flow

    def edge(self, value: Value, end: int, there: int = 0) -> None:
        self.flow.edge(value[0], end, value[1], there)

    def block(self, values: list[Value], frame: int, size: int, depth: int) -> list[Value]:
        """Append statements; every value of the block depends on what it was given."""
        values = list(values)
        for _ in range(self.random.randint(1, size)):
            what = self.random.random()
            if what < 0.5 or depth == 3:
                values.append(self.op(values, frame))
            elif what < 0.75:
                values.append(self.cond(values, frame, depth))
            else:
                values += self.loop(values, frame, depth)
        return values

    def op(self, values: list[Value], frame: int) -> Value:
        node = self.flow.add(RUN, frame)
        for _ in range(self.random.randint(1, 3)):
            self.edge(self.random.choice(values), node)
        return node, 0

    def cond(self, values: list[Value], frame: int, depth: int) -> Value:
        """A switch for each operand, all with the same decision; one result is merged."""
        choice = _Lazy(self.random, 2)
        chosen = self.random.sample(values, min(len(values), self.random.randint(1, 2)))
        switches = []
        for value in chosen:
            switch = self.flow.add(SWITCH, frame)
            self.edge(value, switch)
            self.flow.branches[switch] = choice
            switches.append(switch)
        merge = self.flow.add(MERGE, frame)
        for port in (0, 1):
            results = self.block([(s, port) for s in switches], frame, 2, depth + 1)
            self.edge(results[-1], merge, port)
        return merge, 0

    def loop(self, values: list[Value], frame: int, depth: int) -> list[Value]:
        flow = self.flow
        flow.parents.append(frame)
        flow.parallel.append(self.random.choice((1, 2, 10)))
        inside = len(flow.parents)
        iterations = _Lazy(self.random, 4)
        flow.iterations[inside] = iterations
        carried = [self.random.choice(values) for _ in range(self.random.randint(1, 2))]
        invariant = [self.random.choice(values) for _ in range(self.random.randint(0, 2))]
        constants: list[Value] = []
        for value in invariant:
            enter = flow.add(ENTER, frame, into=inside, invariant=True)
            self.edge(value, enter)
            constants.append((enter, 0))
        merges = []
        for value in carried:
            enter = flow.add(ENTER, frame, into=inside)
            self.edge(value, enter)
            merge = flow.add(MERGE, inside)
            self.edge((enter, 0), merge)
            merges.append(merge)
        test = flow.add(RUN, inside)
        for merge in merges:
            self.edge((merge, 0), test)
        for constant in constants:
            self.edge(constant, test)
        switches, exits = [], []
        for merge in merges:
            switch = flow.add(SWITCH, inside)
            self.edge((merge, 0), switch)
            self.edge((test, 0), switch)
            flow.tests[switch] = inside
            leave = flow.add(EXIT, inside)
            self.edge((switch, 0), leave)
            switches.append(switch)
            exits.append(leave)
        results = self.block([(s, 1) for s in switches], inside, 3, depth + 1)
        for merge in merges:
            following = flow.add(NEXT, inside)
            self.edge(self.random.choice(results[-3:]), following)
            self.edge((following, 0), merge, 1)
        return [(leave, 0) for leave in exits]


class _Lazy(dict):
    """Random numbers below `count`, one for each key, drawn on first use."""

    def __init__(self, source: random.Random, count: int) -> None:
        super().__init__()
        self.source = random.Random(source.random())
        self.count = count

    def __missing__(self, key: object) -> int:
        self[key] = self.source.randrange(self.count)
        return int(self[key])


def expected(flow: Flow) -> Counter[tuple[int, tuple[int, ...]]]:
    """The nodes that must run, with the iterations of the loops around them.

    Straight from the meaning of tokens: values are computed on demand, dead ones are None.
    """
    return _Meaning(flow).all()


class _Meaning:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.into: dict[int, list[tuple[int, int, int]]] = {i: [] for i in range(len(flow.nodes))}
        for i, node in enumerate(flow.nodes):
            for port, end, there in node.edges:
                self.into[end].append((i, port, there))
        self.known: dict[tuple[int, int, tuple[int, ...]], bool] = {}

    def live(self, node: int, port: int, path: tuple[int, ...]) -> bool:
        """Whether a live token leaves `port` of `node` in the iteration `path`."""
        key = (node, port, path)
        if key not in self.known:
            self.known[key] = self.find(node, port, path)
        return self.known[key]

    def ready(self, node: int, path: tuple[int, ...]) -> bool:
        return all(self.reaches(i, port, node, path) for i, port, _ in self.into[node])

    def reaches(self, start: int, port: int, end: int, path: tuple[int, ...]) -> bool:
        kind = self.flow.nodes[start].kind
        if kind == ENTER:
            first = path[-1] == 0 or self.flow.nodes[start].invariant
            return first and self.live(start, port, path[:-1])
        if kind == NEXT:
            return path[-1] > 0 and self.live(start, port, (*path[:-1], path[-1] - 1))
        if kind == EXIT:
            frame = self.flow.nodes[start].frame
            return any(
                self.live(start, port, (*path, i))
                for i in range(self.flow.iterations[frame][path] + 1)
            )
        return self.live(start, port, path)

    def find(self, node: int, port: int, path: tuple[int, ...]) -> bool:
        kind = self.flow.nodes[node].kind
        if kind == MERGE:
            return any(self.reaches(i, p, node, path) for i, p, _ in self.into[node])
        if not self.ready(node, path):
            return False
        return kind != SWITCH or self.choice(node, path) == port

    def choice(self, switch: int, path: tuple[int, ...]) -> int:
        return choice(self.flow, switch, path)

    def all(self) -> Counter[tuple[int, tuple[int, ...]]]:
        counts: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for i, node in enumerate(self.flow.nodes):
            if node.kind in (RUN, SWITCH):
                for path in self.paths(node.frame):
                    if self.ready(i, path):
                        counts[i, path] += 1
        return counts

    def paths(self, frame: int) -> list[tuple[int, ...]]:
        if frame == 0:
            return [()]
        around = self.paths(self.flow.parents[frame - 1])
        iterations = self.flow.iterations[frame]
        return [(*path, i) for path in around for i in range(iterations[path] + 1)]


def choice(flow: Flow, switch: int, path: tuple[int, ...]) -> int:
    """The port that a switch takes in the iteration `path`."""
    if switch in flow.tests:
        frame = flow.tests[switch]
        return int(path[-1] < flow.iterations[frame][path[:-1]])
    return flow.branches[switch][path]
