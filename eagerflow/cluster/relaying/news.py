"""News of a task for a client that watches, as the results of an answer (see docs/protocol.md).

Times are by the task's own clock. Devices and nodes are indices into a list of names, which comes
last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow.cluster.protocol.message_heads import Heads
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.errors import ProtocolError
from eagerflow.resources.queue_levels import Level


class ToldRegion(NamedTuple):
    """A run of a region.

    Attributes:
        partition: the partition of the region.
        region: the number of the region in its partition.
        device: the device of the region.
        start: time of its beginning.
        stop: time of its end.
    """

    partition: int
    region: int
    device: str
    start: float
    stop: float


class ToldMove(NamedTuple):
    """A value that was sent to another device.

    Attributes:
        partition: the sending partition.
        step: the number of the step in the session.
        value: the name of the value in that step.
        origin: the sending device.
        device: the receiving device.
        start: time of sending.
        stop: time at which its arrival was known.
        nbytes: bytes of the value.
    """

    partition: int
    step: int
    value: str
    origin: str
    device: str
    start: float
    stop: float
    nbytes: int


class ToldArrival(NamedTuple):
    """The arrival of a value from another task.

    Attributes:
        step: the number of the step in the session.
        value: the name of the value in that step.
        time: time of arrival.
    """

    step: int
    value: str
    time: float


class ToldSum(NamedTuple):
    """Totals of `ToldMove`s that were too many to be sent one by one.

    Attributes:
        partition: the sending partition.
        origin: the sending device.
        device: the receiving device.
        transfers: number of transfers.
        nbytes: their bytes in total.
        seconds: their durations in total.
    """

    partition: int
    origin: str
    device: str
    transfers: int
    nbytes: int
    seconds: float


class ToldPlace(NamedTuple):
    """The node at which a thread is.

    Attributes:
        partition: the partition that the thread runs.
        node: the name of the node.
        frame: the name of the innermost loop around it; empty for none.
        iteration: the iteration of that loop; -1 for none.
        progress: share of a native kernel that has run, from 0 to 1.
        thread: the identifier of the thread in its process.
    """

    partition: int
    node: str
    frame: str
    iteration: int
    progress: float
    thread: int


#: the tables in their order, each with the columns that hold texts
_TABLES: Final[tuple[tuple[type[Any], tuple[str, ...]], ...]] = (
    (ToldRegion, ("device",)),
    (ToldMove, ("value", "origin", "device")),
    (ToldArrival, ("value",)),
    (ToldSum, ("origin", "device")),
    (ToldPlace, ("node", "frame")),
    (Level, ("name", "resource")),
)
_NUMBERS: Final = {"start", "stop", "time", "seconds", "progress"}  # other columns hold integers


@final
class News(NamedTuple):
    """Events at a task since its last answer.

    Attributes:
        time: time of the answer, by the task's clock.
        regions: the latest runs of regions.
        moves: the latest values that were sent.
        arrivals: the latest values that arrived.
        sums: totals of earlier transfers.
        places: the current nodes of threads.
        levels: the levels of queues that have changed.
    """

    time: float
    regions: Sequence[ToldRegion]
    moves: Sequence[ToldMove]
    arrivals: Sequence[ToldArrival]
    sums: Sequence[ToldSum]
    places: Sequence[ToldPlace]
    levels: Sequence[Level] = ()


def encode(news: News) -> tuple[Heads, list[Frame]]:
    """The heads and frames of an answer with some news."""
    names: dict[str, int] = {}
    frames: list[Frame] = []
    values: list[Any] = [news.time]
    for (kind, texts), rows in zip(_TABLES, news[1:], strict=True):
        places = [i for i, column in enumerate(kind._fields) if column in texts]
        made = np.zeros((len(rows), len(kind._fields)))
        for number, row in enumerate(rows):
            numbers: list[Any] = list(row)
            for i in places:
                numbers[i] = names.setdefault(str(row[i]), len(names))
            made[number] = numbers
        values.append(made)
    known = np.empty(len(names), object)
    known[:] = [name.encode() for name in names]
    values.append(known)
    return tuple([encode_value(value, frames) for value in values]), frames


def decode(values: Sequence[Any]) -> News:
    """The news in the values of an answer; the inverse of `encode`.

    Raises:
        ProtocolError: the values are no news.
    """
    try:
        time, *tables, known = values
        names = [name.decode() for name in known.tolist()]
        read = [
            _rows(kind, texts, table, names)
            for (kind, texts), table in zip(_TABLES, tables, strict=True)
        ]
        return News(float(time), *read)
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ProtocolError(
            "a task has sent a malformed report of its steps", given=str(error)
        ) from None


def _rows(
    kind: type[Any], texts: tuple[str, ...], table: np.ndarray[Any, Any], names: list[str]
) -> list[Any]:
    read = []
    for row in table.tolist():
        columns = [
            names[int(x)] if name in texts else x if name in _NUMBERS else int(x)
            for name, x in zip(kind._fields, row, strict=True)
        ]
        read.append(kind(*columns))
    return read
