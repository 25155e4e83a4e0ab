"""Records of a step of a partitioned graph, for simulation: ops, regions, moves, strands.

Numbers stand for nodes, so that a step can be simulated without a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

#: the number of a value that is there from the beginning
GIVEN: Final = -1


@final
@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device.

    Attributes:
        name: its name.
        later: whether its work is done later, beside the host.
    """

    name: str
    later: bool


@final
@dataclass(frozen=True, slots=True)
class SimulatedOp:
    """An op of a region.

    Attributes:
        seconds: seconds of work on data.
        call: seconds of the host to call or issue it.
        needs: the numbers of the ops and moves whose values it takes.
        reads: the numbers of the ops of its region whose values the host reads before it.
        crowding: the factor by which it slows down while other threads of the host work.
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
        device: the number of its device.
        ops: the numbers of its ops.
        after: the numbers of the regions that must run before it.
        receives: the numbers of the moves that must arrive before it.
        waits: the numbers of ops of other regions, and of moves, whose values the host reads
            before it begins.
        heavy: whether any thread may run it, not only the thread of the step.
        overhead: seconds of the host to schedule it.
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
        value: the number of its op, or `GIVEN`.
        region: the number of the op's region, or `GIVEN`.
        source: the number of the device that sends it.
        target: the number of the device that receives it.
        seconds: seconds of the copy.
        host: seconds of the thread of the step.
        waits: whether the host sends the value when it is there; else the copy is issued before.
        places: the positions of Send and Recv among the nodes of their partitions.
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
    """An act of a strand.

    Attributes:
        what: it runs a region, sends a move, receives one, or waits until an op is done.
        number: the number of that region, move or op.
    """

    what: Literal["run", "send", "receive", "wait"]
    number: int


@final
@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step to be simulated. Ops and moves are numbered together, ops first.

    Attributes:
        devices: the devices.
        ops: the ops.
        regions: the regions.
        moves: the moves.
        results: the numbers of the ops and moves whose values are returned.
        threads: number of threads of the host that run regions, the thread of the step included.
        strands: for each partition its acts, in order; empty if a scheduler decides the order.
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
    """The result of a simulation.

    Attributes:
        seconds: the makespan.
        spans: for each op and move its begin and end.
    """

    seconds: float
    spans: list[tuple[float, float]]
