"""The kinds of events: a record of its own for each.

A record says nothing by itself; `eagerflow.events.instruments` tells it to those who listen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from eagerflow.events.step_context import step_of
from eagerflow.source import Source

if TYPE_CHECKING:
    from eagerflow.events.instruments import Instrument


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class AbstractEvent:
    """Something that happens. A record that is made here and now knows thread, step and time.

    It is not frozen: an instrument that was told of the beginning finds the end in the same record.

    Attributes:
        kind: a word for the class.
        listeners: the instruments that want this kind; of this class itself, all there are.
        name: of what, such as that of an op.
        device: where, such as ``"cpu:0"``.
        start: when it began, in seconds of ``time.perf_counter``.
        stop: when it ended, likewise; None before.
        thread: the identifier of the thread; of a run, which has none of its own, a negative number
            of the runner; 0 of a wait that holds none.
        caller: the identifier of the thread that asked for it, 0 where that is the same one.
        runner: the name of the runner that it happened for.
        step: the number of the innermost step that it belongs to; 0 outside of steps, and in one
            that began when no instrument listened.
        frames: the loops of that step that it happened in, the outermost first, each by its name
            and the number of the iteration.
        source: the user's line.
        error: what it ended with, if not well.
    """

    kind: ClassVar[str] = ""
    listeners: ClassVar[tuple[Instrument, ...]] = ()

    name: str = ""
    device: str = ""
    start: float = field(default_factory=perf_counter)
    stop: float | None = None
    thread: int = field(default_factory=get_ident)
    caller: int = field(default_factory=partial(getattr, step_of, "caller"))
    runner: str = field(default_factory=partial(getattr, step_of, "runner"))
    step: int = field(default_factory=partial(getattr, step_of, "step"))
    frames: tuple[tuple[str, int], ...] = field(default_factory=partial(getattr, step_of, "frames"))
    source: Source | None = None
    error: str = ""
    _told: tuple[Instrument, ...] | None = field(default=None, init=False, repr=False)

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.removesuffix("Event").lower()

    @property
    def seconds(self) -> float:
        """How long it took, until now if it goes on."""
        return (perf_counter() if self.stop is None else self.stop) - self.start

    @property
    def was_told(self) -> bool:
        """Whether its beginning was told."""
        return self._told is not None

    @property
    def is_silent(self) -> bool:
        """Whether its beginning was told to nobody, as its end will be."""
        return self._told == ()

    @property
    def frame(self) -> str:
        """The name of the innermost loop that it happened in; empty outside of loops."""
        return self.frames[-1][0] if self.frames else ""

    @property
    def iteration(self) -> int | None:
        """The iteration of that loop, counted from 0; None outside of loops."""
        return self.frames[-1][1] if self.frames else None

    def __repr__(self) -> str:  # one for all kinds: to compile 14 took a tenth of an import
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
        return f"{type(self).__name__}({', '.join(shown)})"


#: a step in brief: the number of its executable, when it began and ended, its thread (0 for none),
#: and for how many steps it stands, as those that follow it are not told (see `Executable`)
BriefStep = tuple[int, float, float, int, int]
#: a region in brief: the numbers of its executable and its own, then as for a step
BriefRegion = tuple[int, int, float, float, int]
#: a level in brief: name, resource, depth, capacity, producers, consumers, closed, and when
BriefLevel = tuple[str, str, int, int, int, int, bool, float]


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class StepEvent(AbstractEvent):
    """A run of a graph, with a beginning and an end. Its `step` is its own number.

    Attributes:
        executable: the number of what ran it.
        graph: the name of the graph.
        parent: the number of the step that it was asked for in, 0 if it was in none.
        tier: how it is run.
        devices: all that it runs on; `device` is empty if they are several.
    """

    #: what hears of steps in brief, and the same where nobody listens who wants more
    brief: ClassVar[Callable[[BriefStep], object] | None] = None
    brief_alone: ClassVar[Callable[[BriefStep], object] | None] = None

    executable: int = 0
    graph: str = ""
    parent: int = 0
    tier: str = ""
    devices: tuple[str, ...] = ()


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RegionEvent(AbstractEvent):
    """A part of a step that runs as one, with a beginning and an end.

    Attributes:
        executable: the number of what ran the step.
        graph: the name of the graph.
        region: its number in the executable.
        devices: all that it runs on; `device` is empty if they are several.
    """

    #: what hears of regions in brief
    brief: ClassVar[Callable[[BriefRegion], object] | None] = None

    executable: int = 0
    graph: str = ""
    region: int = 0
    devices: tuple[str, ...] = ()


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class NodeEvent(AbstractEvent):
    """An op that a graph ran, told at its end. Its `name` is that of the op.

    If an instrument wants them, steps are run by code that tells of each node, which is slower.

    Attributes:
        executable: the number of what ran it.
        graph: the name of the graph.
        node: the name of the node.
        scope: its name scope, such as ``"encoder/layer0"``.
        nbytes: bytes of the results.
        detail: types of the results, for a reader.
        waited: seconds of it that were spent waiting, for a queue or its like.
    """

    executable: int = 0
    graph: str = ""
    node: str = ""
    scope: str = ""
    nbytes: int = 0
    detail: str = ""
    waited: float = 0.0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class OpEvent(AbstractEvent):
    """An op that eager code ran within a block that is profiled, told at its end.

    Attributes:
        nbytes: bytes of the results.
        detail: types of the results, for a reader.
        waited: seconds of it that were spent waiting, for a queue or its like.
    """

    nbytes: int = 0
    detail: str = ""
    waited: float = 0.0


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class AbstractOperationEvent(AbstractEvent):
    """An operation on a queue or its like. Its `name` is the resource's.

    Attributes:
        resource: what that is, such as ``"fifo"``.
        operation: such as ``"dequeue"``.
        executable: the number of what runs it, 0 in eager code.
        node: the name of the node of the graph, if it is one.
    """

    resource: str = ""
    operation: str = ""
    executable: int = 0
    node: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class WaitEvent(AbstractOperationEvent):
    """A wait of an operation, with a beginning and an end."""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class QueueEvent(AbstractOperationEvent):
    """An operation, waits included, with a beginning and an end."""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TransferEvent(AbstractEvent):
    """A move of data to another device, with a beginning and an end. Its `device` is that one.

    Attributes:
        origin: the device where the data was.
        nbytes: how many bytes.
        executable: the number of what runs it, 0 in eager code.
        node: the name of the node of the graph, if it is one.
    """

    origin: str = ""
    nbytes: int = 0
    executable: int = 0
    node: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class LevelEvent(AbstractEvent):
    """How a queue or its like stands after a change.

    Attributes:
        brief: what hears of levels in brief.
        wanted: whether any instrument hears of levels, in brief or not.
        resource: what it is, such as ``"fifo"``.
        depth: how many elements there are.
        capacity: how many there is room for, 0 where there is no bound.
        producers: how many wait to put something in.
        consumers: how many wait to take something out.
        closed: whether nothing comes in any more.
    """

    brief: ClassVar[Callable[[BriefLevel], object] | None] = None
    wanted: ClassVar[bool] = False

    resource: str = ""
    depth: int = 0
    capacity: int = 0
    producers: int = 0
    consumers: int = 0
    closed: bool = False


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RetraceEvent(AbstractEvent):
    """A trace of a function, with a beginning and an end. Its `name` is that of the function.

    Attributes:
        reason: why the call needed one.
    """

    reason: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RunEvent(AbstractEvent):
    """A run of a runner (see `eagerflow.spawn`), with a beginning and an end."""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ElementEvent(AbstractEvent):
    """An element that a pipeline made ahead, or a reader read, told at its end.

    Attributes:
        nbytes: bytes of it.
        waited: seconds of it that were spent waiting.
    """

    nbytes: int = 0
    waited: float = 0.0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TakeEvent(AbstractEvent):
    """An element that a stage of a pipeline handed over, told at its end.

    Attributes:
        nbytes: bytes of it.
        waited: seconds of it that were spent waiting.
        depth: how many were ready before.
    """

    nbytes: int = 0
    waited: float = 0.0
    depth: int = 0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class SkipEvent(AbstractEvent):
    """An element that was left out after an error, which is its `error`."""


#: all kinds
KINDS: Final[frozenset[type[AbstractEvent]]] = frozenset({
    StepEvent, RegionEvent, NodeEvent, OpEvent, WaitEvent, TransferEvent, QueueEvent, LevelEvent,
    RetraceEvent, RunEvent, ElementEvent, TakeEvent, SkipEvent,
})  # fmt: skip
#: what an instrument hears of that does not say: all but what makes steps slower
DEFAULT_KINDS: Final = KINDS - {NodeEvent, OpEvent}


def where(devices: tuple[str, ...]) -> dict[str, Any]:
    """The fields of an event that is on these devices."""
    return {"device": devices[0] if len(devices) == 1 else "", "devices": devices}


def describe(error: BaseException) -> str:
    """What an event says of an error: its class, and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
