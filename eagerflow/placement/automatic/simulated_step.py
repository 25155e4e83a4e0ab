"""What a step of a partitioned graph does, for a simulation: ops, regions, moves, strands.

There are numbers instead of nodes: what is simulated may be no graph at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

#: the number of what is there from the beginning
GIVEN: Final = -1


@final
@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device.

    Attributes:
        name: of it.
        later: whether its work is done later, beside the host.
    """

    name: str
    later: bool


@final
@dataclass(frozen=True, slots=True)
class SimulatedOp:
    """An op of a region.

    Attributes:
        seconds: of work on data.
        call: seconds of the host to call or issue it.
        needs: the numbers of the ops and moves whose values it takes.
        reads: the numbers of the ops of its region whose values the host reads before it.
        crowding: how many times as long it takes while other threads of the host work.
    """

    seconds: float
    call: float = 0.0
    needs: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    crowding: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class SimulatedRegion:
    """Ops that the host runs, or issues, one after the other.

    Attributes:
        device: its number.
        ops: their numbers.
        after: the numbers of the regions that have to be run before.
        receives: the numbers of the moves that have to arrive before.
        waits: the numbers of ops of others, and of moves, whose values the host reads before it
            begins.
        heavy: whether any thread may run it, not only that of the step.
        overhead: seconds of the host.
    """

    device: int
    ops: tuple[int, ...]
    after: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    heavy: bool = False
    overhead: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class SimulatedMove:
    """A value that goes to another device.

    Attributes:
        value: the number of the op, or `GIVEN`.
        region: that of the op, or `GIVEN`.
        source: the number of the device that it comes from.
        target: that of the one to which it goes.
        seconds: of the copy.
        host: seconds of the thread of the step.
        waits: whether the host sends it when it is there; else the copy is issued before.
        places: of the Send and of the Recv among the nodes of their partitions.
    """

    value: int
    region: int
    source: int
    target: int
    seconds: float
    host: float = 0.0
    waits: bool = False
    places: tuple[int, int] = (0, 0)


@final
@dataclass(frozen=True, slots=True)
class SimulatedAct:
    """One thing that a strand does.

    Attributes:
        what: it runs a region, sends a move, receives one, or waits until an op is done.
        number: of that region, move or op.
    """

    what: Literal["run", "send", "receive", "wait"]
    number: int


@final
@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step to be simulated. Ops and moves have numbers of one row: ops first.

    Attributes:
        devices: all of them.
        ops: all of them.
        regions: all of them.
        moves: all of them.
        results: the numbers of the ops and moves whose values are given back.
        threads: how many of the host run regions, that of the step among them.
        strands: for each partition what it does, in order; none if a scheduler decides that.
    """

    devices: Sequence[SimulatedDevice]
    ops: Sequence[SimulatedOp]
    regions: Sequence[SimulatedRegion]
    moves: Sequence[SimulatedMove] = ()
    results: tuple[int, ...] = ()
    threads: int = 1
    strands: Sequence[Sequence[SimulatedAct]] = ()


@final
@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation found.

    Attributes:
        seconds: until all is done.
        spans: for each op and move when it began and when it was done.
    """

    seconds: float
    spans: list[tuple[float, float]]
