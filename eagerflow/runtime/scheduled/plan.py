"""What the scheduler knows of a graph: entries, and which tokens each of them waits for.

An *entry* is the smallest thing that is scheduled: a region of pure nodes, an op with an effect,
or one of the five nodes that steer tokens (Yu et al., "Dynamic Control Flow in Large-Scale Machine
Learning", EuroSys 2018). Entries lie in *frames*: frame 0 is the graph, each loop is a frame of
its own. Edges stay within a frame, except those of ``enter`` and ``exit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from eagerflow.errors import GraphError

__all__ = ["ENTER", "EXIT", "MERGE", "NEXT", "RUN", "SWITCH", "FramePlan", "Plan", "ScheduledNode"]

#: runs, then gives a token on each of its edges
RUN: Final = 0
#: runs, then gives live tokens on the edges of one port, and dead ones on those of the others
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
    """One entry, as it is described to `Plan`.

    Attributes:
        kind: one of `RUN`, `SWITCH`, `MERGE`, `ENTER`, `EXIT`, `NEXT`.
        frame: the frame that it lies in; an ``enter`` lies in the frame around.
        label: for messages.
        into: the frame that an ``enter`` opens.
        invariant: whether an ``enter`` gives its token to all iterations.
        ports: of a ``switch``, how many it chooses from.
        edges: ``(port of this entry, entry, port of that entry)``; ports of inputs matter to
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
    """One frame, its entries numbered from 0, in arrays that the scheduler reads.

    Attributes:
        parent: the frame around; -1 for frame 0.
        parallel: how many iterations may run at once.
        entries: what the entries are called in the plan.
        kinds: of each entry.
        needs: how many tokens each entry waits for; for a ``merge`` how many dead ones make it
            dead.
        targets: for each entry the entries at the ends of its edges, one for each edge; None for
            entries that have an edge to a ``merge`` or more than one port.
        ports: for the others, by port, the ends of the edges and their ports.
        into: the frame that an ``enter`` opens.
        invariant: whether it gives its token to all iterations.
        enters: how many ``enter`` entries the frame has in the one around.
        roots: the entries that wait for nothing.
    """

    parent: int
    parallel: int
    entries: tuple[int, ...]
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
    """The entries of a graph, checked, in the form that the scheduler reads.

    Args:
        entries: the entries.
        parents: for each loop frame, from frame 1 on, the frame around it.
        parallel: for each of them, how many iterations may run at once.

    Attributes:
        frames: the frames; frame 0 is the graph.
        places: for each entry its frame and its number there.
        labels: for each entry its label.

    Raises:
        GraphError: an edge leads into another frame, or an entry of a loop waits for nothing.
    """

    __slots__ = ("frames", "labels", "places")

    def __init__(
        self,
        entries: Sequence[ScheduledNode],
        parents: Sequence[int] = (),
        parallel: Sequence[int] = (),
    ) -> None:
        members: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        self.places: list[tuple[int, int]] = []
        for i, entry in enumerate(entries):
            self.places.append((entry.frame, len(members[entry.frame])))
            members[entry.frame].append(i)
        self.labels = [e.label or f"{_NAMES[e.kind]} {i}" for i, e in enumerate(entries)]
        self._check(entries, (-1, *parents))
        needs = _needs(entries)
        limits = (1, *parallel, *[10] * (len(parents) - len(parallel)))
        self.frames = tuple(
            [
                self._frame(entries, needs, number, parent, limit, numbers)
                for number, (parent, limit, numbers) in enumerate(
                    zip((-1, *parents), limits, members, strict=True)
                )
            ]
        )

    def _check(self, entries: Sequence[ScheduledNode], parents: Sequence[int]) -> None:
        for i, entry in enumerate(entries):
            home = entry.frame
            if entry.kind == ENTER:
                home = entry.into
                if not 0 < home < len(parents) or parents[home] != entry.frame:
                    raise GraphError(f"{self.labels[i]} enters a frame that is not inside its own")
            elif entry.kind in (EXIT, NEXT):
                if entry.frame == 0:
                    raise GraphError(f"{self.labels[i]} is in no loop")
                home = parents[entry.frame] if entry.kind == EXIT else entry.frame
            for _, target, _ in entry.edges:
                if entries[target].frame != home:
                    raise GraphError(
                        f"an edge leads from {self.labels[i]} to {self.labels[target]}, "
                        "which is in another frame",
                        expected="enter and exit in between",
                    )

    def _frame(
        self,
        entries: Sequence[ScheduledNode],
        needs: Sequence[int],
        number: int,
        parent: int,
        parallel: int,
        members: Sequence[int],
    ) -> FramePlan:
        roots = [n for n, i in enumerate(members) if not needs[i]]
        if number and roots:
            raise GraphError(
                f"{self.labels[members[roots[0]]]} is in a loop and waits for no token of it"
            )
        ports = [self._ports(entries, entries[i]) for i in members]
        return FramePlan(
            parent=parent,
            parallel=parallel,
            entries=tuple(members),
            kinds=tuple([entries[i].kind for i in members]),
            needs=tuple([needs[i] for i in members]),
            targets=tuple([self._targets(entries, entries[i]) for i in members]),
            ports=tuple(ports),
            into=tuple([entries[i].into for i in members]),
            invariant=tuple([entries[i].invariant for i in members]),
            enters=sum(e.kind == ENTER and e.into == number for e in entries),
            roots=tuple(roots),
        )

    def _targets(
        self, entries: Sequence[ScheduledNode], entry: ScheduledNode
    ) -> tuple[int, ...] | None:
        """The ends of its edges where all that matters is that a token arrives."""
        if entry.kind != RUN or any(entries[t].kind == MERGE for _, t, _ in entry.edges):
            return None
        return tuple([self.places[target][1] for _, target, _ in entry.edges])

    def _ports(
        self, entries: Sequence[ScheduledNode], entry: ScheduledNode
    ) -> tuple[tuple[tuple[int, int], ...], ...]:
        count = max([port for port, _, _ in entry.edges], default=0) + 1
        if entry.kind == SWITCH:
            count = max(count, entry.ports)
        ports: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for port, target, there in entry.edges:
            ports[port].append((self.places[target][1], there))
        return tuple([tuple(ends) for ends in ports])


def _needs(entries: Sequence[ScheduledNode]) -> list[int]:
    """How many tokens each entry waits for."""
    needs = [0] * len(entries)
    for entry in entries:
        for _, target, _ in entry.edges:
            # what comes from the iteration before is not there in the first one
            if entries[target].kind != MERGE or entry.kind != NEXT:
                needs[target] += 1
    return needs
