"""The plan of a graph for the scheduler: scheduled nodes, and the tokens that each waits for.

A *scheduled node* is the smallest part that is scheduled: a region of pure nodes of the graph, an
op with an effect, or one of the five nodes that steer tokens (Yu et al., "Dynamic Control Flow in
Large-Scale Machine Learning", EuroSys 2018). Here and in `scheduler.py` it is called a node.
Nodes lie in *frames*: frame 0 is the graph, each loop is a frame of its own. Edges stay within a
frame, except those of ``enter`` and ``exit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from eagerflow.errors import GraphError

#: runs, then gives a token on each of its edges
RUN: Final = 0
#: runs, then gives live tokens on the edges of one port, and dead tokens on all others
SWITCH: Final = 1
#: passes on the first live token that arrives; dead if all are dead
MERGE: Final = 2
#: passes a token into iteration 0 of a frame, or into all its iterations
ENTER: Final = 3
#: passes a live token out of a frame
EXIT: Final = 4
#: passes a live token to the next iteration
NEXT: Final = 5

_NAMES: Final = ("run", "switch", "merge", "enter", "exit", "next")


@final
@dataclass(slots=True)
class ScheduledNode:
    """The description of one node for `Plan`.

    Attributes:
        kind: one of `RUN`, `SWITCH`, `MERGE`, `ENTER`, `EXIT`, `NEXT`.
        frame: the frame that it lies in; an ``enter`` lies in the frame around.
        label: for messages.
        into: the frame that an ``enter`` opens.
        invariant: whether an ``enter`` gives its token to all iterations.
        ports: number of ports of a ``switch``.
        edges: ``(port of this node, node, port of that node)``; ports of inputs matter to
            ``merge`` only.
    """

    kind: int
    frame: int = 0
    label: str = ""
    into: int = -1
    invariant: bool = False
    ports: int = 2
    edges: list[tuple[int, int, int]] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True)
class FramePlan:
    """One frame, its nodes numbered from 0, in arrays that the scheduler reads.

    Attributes:
        parent: the frame around; -1 for frame 0.
        parallel: number of iterations that may run at once.
        nodes: the numbers of the nodes in the plan.
        kinds: of each node.
        needs: number of tokens that each node waits for; for a ``merge`` the number of dead
            tokens that make it dead.
        targets: for each node the nodes at the ends of its edges, one for each edge; None for
            nodes that have an edge to a ``merge`` or more than one port.
        ports: for each node, by port, the ends of the edges and their ports, the last first.
        into: the frame that an ``enter`` opens.
        invariant: whether it gives its token to all iterations.
        enters: number of ``enter`` nodes that lead into the frame.
        roots: the nodes that wait for nothing.
    """

    parent: int
    parallel: int
    nodes: tuple[int, ...]
    kinds: tuple[int, ...]
    needs: tuple[int, ...]
    targets: tuple[tuple[int, ...] | None, ...]
    ports: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]
    into: tuple[int, ...]
    invariant: tuple[bool, ...]
    enters: int
    roots: tuple[int, ...]


@final
class Plan:
    """The nodes of a graph, checked, in the form that the scheduler reads.

    Args:
        nodes: the nodes.
        parents: for each loop frame, from frame 1 on, the frame around it.
        parallel: for each loop frame the number of iterations that may run at once.

    Attributes:
        frames: the frames; frame 0 is the graph.
        positions: for each node its frame and its number there.
        labels: for each node its label.

    Raises:
        GraphError: an edge leads into another frame, or a node of a loop waits for nothing.
    """

    __slots__ = ("_needs", "_nodes", "frames", "labels", "positions")

    def __init__(
        self,
        nodes: Sequence[ScheduledNode],
        parents: Sequence[int] = (),
        parallel: Sequence[int] = (),
    ) -> None:
        members: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        self.positions: list[tuple[int, int]] = []
        for i, node in enumerate(nodes):
            self.positions.append((node.frame, len(members[node.frame])))
            members[node.frame].append(i)
        self.labels = [e.label or f"{_NAMES[e.kind]} {i}" for i, e in enumerate(nodes)]
        self._nodes = nodes
        self._check((-1, *parents))
        self._needs = _needs(nodes)
        limits = (1, *parallel, *[10] * (len(parents) - len(parallel)))
        frames = enumerate(zip((-1, *parents), limits, members, strict=True))
        self.frames = tuple([self._frame(number, *frame) for number, frame in frames])

    def _check(self, parents: Sequence[int]) -> None:
        for i, node in enumerate(self._nodes):
            home = node.frame
            if node.kind == ENTER:
                home = node.into
                if not 0 < home < len(parents) or parents[home] != node.frame:
                    raise GraphError(f"{self.labels[i]} enters a frame that is not inside its own")
            elif node.kind in (EXIT, NEXT):
                if node.frame == 0:
                    raise GraphError(f"{self.labels[i]} is in no loop")
                home = parents[node.frame] if node.kind == EXIT else node.frame
            for _, target, _ in node.edges:
                if self._nodes[target].frame != home:
                    raise GraphError(
                        f"an edge leads from {self.labels[i]} to {self.labels[target]}, "
                        "which is in another frame",
                        expected="enter and exit in between",
                    )

    def _frame(self, number: int, parent: int, parallel: int, members: Sequence[int]) -> FramePlan:
        nodes, needs = [self._nodes[i] for i in members], [self._needs[i] for i in members]
        roots = [n for n, count in enumerate(needs) if not count]
        if number and roots:
            raise GraphError(
                f"{self.labels[members[roots[0]]]} is in a loop and waits for no token of it"
            )
        return FramePlan(
            parent=parent,
            parallel=parallel,
            nodes=tuple(members),
            kinds=tuple([node.kind for node in nodes]),
            needs=tuple(needs),
            targets=tuple(map(self._targets, nodes)),
            ports=tuple(map(self._ports, nodes)),
            into=tuple([node.into for node in nodes]),
            invariant=tuple([node.invariant for node in nodes]),
            enters=sum(e.kind == ENTER and e.into == number for e in self._nodes),
            roots=tuple(roots),
        )

    def _targets(self, node: ScheduledNode) -> tuple[int, ...] | None:
        """The ends of its edges if the arrival of tokens is all that matters there, else None."""
        if node.kind != RUN or any(self._nodes[t].kind == MERGE for _, t, _ in node.edges):
            return None
        return tuple([self.positions[target][1] for _, target, _ in node.edges])

    def _ports(self, node: ScheduledNode) -> tuple[tuple[tuple[int, int], ...], ...]:
        count = max([port for port, _, _ in node.edges], default=0) + 1
        if node.kind == SWITCH:
            count = max(count, node.ports)
        ports: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for port, target, there in node.edges:
            ports[port].append((self.positions[target][1], there))
        # reversed for the stack of work, so that the first in the program runs first
        return tuple([tuple(ends[::-1]) for ends in ports])


def _needs(nodes: Sequence[ScheduledNode]) -> list[int]:
    """Number of tokens that each node waits for."""
    needs = [0] * len(nodes)
    for node in nodes:
        for _, target, _ in node.edges:
            # the back edge of a loop brings no token in iteration 0
            if nodes[target].kind != MERGE or node.kind != NEXT:
                needs[target] += 1
    return needs
