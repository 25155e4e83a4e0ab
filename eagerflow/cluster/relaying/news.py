"""What a task tells a client that looks, as the results of an answer (see docs/protocol.md).

Times are those of the task's own clock. Devices and nodes are numbers of names, which come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow.cluster.protocol.message_heads import Heads
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.errors import ProtocolError


class ToldRegion(NamedTuple):
    """A region that has run.

    Attributes:
        partition: whose.
        region: its number there.
        device: where.
        start: when it began.
        stop: when it had ended.
    """

    partition: int
    region: int
    device: str
    start: float
    stop: float


class ToldMove(NamedTuple):
    """A value that went to another device.

    Attributes:
        partition: that has sent it.
        step: in which step of the session.
        value: which value of that step.
        origin: from where.
        device: to where.
        start: when it was sent.
        stop: when it was known to have come.
        nbytes: of it.
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
    """A value that has come from another task.

    Attributes:
        step: in which step of the session.
        value: which value of that step.
        time: when it came.
    """

    step: int
    value: str
    time: float


class ToldSum(NamedTuple):
    """Several of those, which are told together because they were many.

    Attributes:
        partition: that has sent them.
        origin: from where.
        device: to where.
        transfers: how many.
        nbytes: of them together.
        seconds: of them together.
    """

    partition: int
    origin: str
    device: str
    transfers: int
    nbytes: int
    seconds: float


class ToldPlace(NamedTuple):
    """Where a thread is.

    Attributes:
        partition: that it runs.
        node: the name of the node.
        frame: the name of the innermost loop around it; empty for none.
        iteration: of that loop; -1 for none.
        progress: how much of a native kernel has run, from 0 to 1.
        thread: its identifier there.
    """

    partition: int
    node: str
    frame: str
    iteration: int
    progress: float
    thread: int


#: the tables in their order; of each the names of which columns are texts
_TABLES: Final[tuple[tuple[type[Any], tuple[str, ...]], ...]] = (
    (ToldRegion, ("device",)),
    (ToldMove, ("value", "origin", "device")),
    (ToldArrival, ("value",)),
    (ToldSum, ("origin", "device")),
    (ToldPlace, ("node", "frame")),
)
_NUMBERS: Final = {"start", "stop", "time", "seconds", "progress"}  # others are whole


@final
class News(NamedTuple):
    """What has happened since a task was asked before.

    Attributes:
        time: of the task's clock, when it answered.
        regions: the last that have run.
        moves: the last values that were sent.
        arrivals: the last values that came.
        sums: what was sent besides.
        places: where threads are now.
    """

    time: float
    regions: Sequence[ToldRegion]
    moves: Sequence[ToldMove]
    arrivals: Sequence[ToldArrival]
    sums: Sequence[ToldSum]
    places: Sequence[ToldPlace]


def encode(news: News) -> tuple[Heads, list[Frame]]:
    """The results of the answer that tells it, and their elements."""
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
    """What `encode` has encoded, once its values were read.

    Raises:
        ProtocolError: it is nothing of the kind.
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
            "this is not what a task tells of what runs", given=str(error)
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
