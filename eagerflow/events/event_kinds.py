"""The kinds of events, each a record class.

Records are plain data; `eagerflow.events.instruments` hands them to instruments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from eagerflow.events.step_context import step_of
from eagerflow.formatting import seconds_text
from eagerflow.source import Source, cell_name
from eagerflow.unknown_names import hint_at

if TYPE_CHECKING:
    from eagerflow.events.instruments import Instrument


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class AbstractEvent:
    """Base class of events. A record made where the event occurs knows thread, step and time.

    It is not frozen: an instrument that received the beginning finds the end in the same record.

    Attributes:
        kind: the name of the kind, from that of the class.
        listeners: the instruments that want this kind; of this base class, all instruments.
        name: the name of the subject, such as that of an op.
        device: the device, such as ``"cpu:0"``.
        start: time of the beginning, in seconds of ``time.perf_counter``.
        stop: time of the end, likewise; None before.
        thread: the identifier of the thread; for a run, which has no thread of its own, the
            negative number of the runner; 0 for a wait that holds no thread.
        caller: the identifier of the thread that asked for the work, 0 if that is the same thread.
        runner: the name of the runner that the event belongs to.
        step: the number of the innermost step around it; 0 outside of steps, and in a step that
            began without a listening instrument.
        frames: the loops of that step around it, the outermost first, each by its name and the
            number of the iteration.
        source: the user's line.
        error: the error that it ended with; empty if none.
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
        """Its duration, until now if it goes on."""
        return (perf_counter() if self.stop is None else self.stop) - self.start

    @property
    def was_told(self) -> bool:
        """Whether its beginning was reported."""
        return self._told is not None

    @property
    def is_silent(self) -> bool:
        """Whether its beginning was reported to no instrument, as its end will be."""
        return self._told == ()

    @property
    def frame(self) -> str:
        """The name of the innermost loop around it; empty outside of loops."""
        return self.frames[-1][0] if self.frames else ""

    @property
    def iteration(self) -> int | None:
        """The iteration of that loop, counted from 0; None outside of loops."""
        return self.frames[-1][1] if self.frames else None

    def __repr__(self) -> str:  # one for all kinds: to compile 14 took a tenth of an import
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_SHOWN}
        shown = [repr(given.pop("name")), seconds_text(self.seconds, precise=True)]
        shown += ["unfinished"] * (self.stop is None)
        if self.source is not None:
            given["source"] = f"{cell_name(self.source.file)}:{self.source.line}"
        shown += [f"{name}={value!r}" for name, value in given.items() if value]
        return f"{type(self).__name__}({', '.join(shown)})"


hint_at(
    AbstractEvent, ["begin", "dur", "duration", "elapsed", "end", "finish", "line", "op", "took"]
)

#: fields that the text of an event leaves out, as it leaves out those without a value
_NOT_SHOWN: Final = frozenset({"start", "stop", "thread", "caller", "_told"})


#: a step in brief: the number of its executable, times of beginning and end, its thread (0 for
#: none), and the number of steps that it stands for: itself, and later ones not reported (see
#: `Executable`)
BriefStep = tuple[int, float, float, int, int]
#: a region in brief: the numbers of its executable and of the region, then as for a step
BriefRegion = tuple[int, int, float, float, int]
#: a level in brief: name, resource, depth, capacity, producers, consumers, closed, time, and the
#: number of elements ever taken out (-1 where they are not counted). A level may stand for several
#: changes (see `AbstractMeeting.told_every`)
BriefLevel = tuple[str, str, int, int, int, int, bool, float, int]
#: a wait that is over in brief: the names of the resource and of the operation, the number of the
#: executable and the name of the node (0 and empty in eager code), the name of the runner, the
#: thread (0 for a wait that holds none), times of beginning and end, and the number of waits that
#: it stands for: itself, and earlier ones not reported (see `AbstractMeeting.told_every`)
BriefWait = tuple[str, str, int, str, str, int, float, float, int]


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class StepEvent(AbstractEvent):
    """A run of a graph, with a beginning and an end. Its `step` is its own number.

    Attributes:
        executable: the number of its executable.
        graph: the name of the graph.
        parent: the number of the step that started it, 0 if it was started outside of steps.
        tier: the tier that runs it.
        devices: all its devices; `device` is empty if there are several.
    """

    #: takes steps in brief; `brief_alone` is the same if no instrument wants more, else None
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
        executable: the number of the step's executable.
        graph: the name of the graph.
        region: the number of the region in the executable.
        devices: all its devices; `device` is empty if there are several.
    """

    #: takes regions in brief
    brief: ClassVar[Callable[[BriefRegion], object] | None] = None

    executable: int = 0
    graph: str = ""
    region: int = 0
    devices: tuple[str, ...] = ()


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class NodeEvent(AbstractEvent):
    """An op run by a graph, reported at its end. Its `name` is that of the op.

    If an instrument wants this kind, steps run code that reports each node, which is slower. The
    nodes of a native kernel, which runs as one, have shares of its time, by their work.

    Attributes:
        executable: the number of the step's executable.
        graph: the name of the graph.
        node: the name of the node.
        scope: the node's name scope, such as ``"encoder/layer0"``.
        nbytes: bytes of the results.
        detail: types of the results, for a reader.
        waited: seconds of its duration spent waiting, for a queue or the like.
        kernel: the name of the native kernel that ran it with others; empty if there is none. A
            result that stays within the kernel has no bytes. Operands that a kernel does not take,
            such as those in column-major order, go through the same ops one by one.
    """

    executable: int = 0
    graph: str = ""
    node: str = ""
    scope: str = ""
    nbytes: int = 0
    detail: str = ""
    waited: float = 0.0
    kernel: str = ""

    @property
    def working(self) -> float:
        """Its duration without its waits, in seconds."""
        return max(self.seconds - self.waited, 0.0)


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class OpEvent(AbstractEvent):
    """An op that eager code ran within a profiled block, reported at its end.

    Attributes:
        nbytes: bytes of the results.
        detail: types of the results, for a reader.
        waited: seconds of its duration spent waiting, for a queue or the like.
    """

    nbytes: int = 0
    detail: str = ""
    waited: float = 0.0

    @property
    def working(self) -> float:
        """Its duration without its waits, in seconds."""
        return max(self.seconds - self.waited, 0.0)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class AbstractOperationEvent(AbstractEvent):
    """Base class of operations on a queue or the like. Its `name` is the resource's.

    Attributes:
        resource: the kind of resource, such as ``"fifo"``.
        operation: the operation, such as ``"dequeue"``.
        executable: the number of the executable, 0 in eager code.
        node: the name of the node in a graph, if it is a node.
    """

    resource: str = ""
    operation: str = ""
    executable: int = 0
    node: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class WaitEvent(AbstractOperationEvent):
    """A wait of an operation, with a beginning and an end."""

    #: takes waits in brief, once they are over
    brief: ClassVar[Callable[[BriefWait], object] | None] = None


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class QueueEvent(AbstractOperationEvent):
    """An operation, waits included, with a beginning and an end."""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TransferEvent(AbstractEvent):
    """A move of data to another device, with a beginning and an end. Its `device` is the target.

    Attributes:
        origin: the device where the data was.
        nbytes: number of bytes.
        executable: the number of the executable, 0 in eager code.
        node: the name of the node in a graph, if it is a node.
    """

    origin: str = ""
    nbytes: int = 0
    executable: int = 0
    node: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class FetchEvent(AbstractEvent):
    """A copy of a value to the memory of the host, where Python reads it, with begin and end.

    So do ``x.numpy()``, ``x.item()``, ``float(x)`` and ``print(x)``; first they wait until the
    device has computed the value. Its `name` is that of the device.

    Attributes:
        nbytes: number of bytes.
    """

    nbytes: int = 0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class LevelEvent(AbstractEvent):
    """The level of a queue or the like after a change.

    Attributes:
        brief: takes levels in brief.
        wanted: whether any instrument wants levels, in brief or not.
        resource: the kind of resource, such as ``"fifo"``.
        depth: number of elements.
        capacity: largest number of elements, 0 if unbounded.
        producers: number of waiting producers.
        consumers: number of waiting consumers.
        closed: whether the queue takes no more elements.
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
class TraceEvent(AbstractEvent):
    """A trace of a function, the first or a retrace, with a beginning and an end.

    Its `name` is that of the function.

    Attributes:
        reason: the reason for the trace.
    """

    reason: str = ""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RunEvent(AbstractEvent):
    """A run of a runner (see `eagerflow.spawn`), with a beginning and an end."""


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ElementEvent(AbstractEvent):
    """An element that a pipeline made ahead, or a reader read, reported at its end.

    Attributes:
        nbytes: bytes of the element.
        waited: seconds of its duration spent waiting.
    """

    nbytes: int = 0
    waited: float = 0.0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class CallEvent(AbstractEvent):
    """A call of a user's function by a pipeline, with a beginning and an end.

    Its `name` is that of the stage, such as ``"map(augment)"``, and its `source` the line that put
    the function into the pipeline. Of an iterable it is the making of one element.
    """


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TakeEvent(AbstractEvent):
    """An element that a stage of a pipeline handed over, reported at its end.

    Attributes:
        nbytes: bytes of the element.
        waited: seconds of its duration spent waiting.
        depth: number of elements ready before.
    """

    nbytes: int = 0
    waited: float = 0.0
    depth: int = 0


@final
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class SkipEvent(AbstractEvent):
    """An element that was left out because of its `error`."""


#: all kinds
KINDS: Final[frozenset[type[AbstractEvent]]] = frozenset({
    StepEvent, RegionEvent, NodeEvent, OpEvent, WaitEvent, TransferEvent, QueueEvent, LevelEvent,
    TraceEvent, RunEvent, CallEvent, FetchEvent, ElementEvent, TakeEvent, SkipEvent,
})  # fmt: skip
#: the kinds for an instrument that names none: all but the kinds that make steps slower
DEFAULT_KINDS: Final = KINDS - {NodeEvent, OpEvent}


def where(devices: tuple[str, ...]) -> dict[str, Any]:
    """The fields ``device`` and ``devices`` of an event on these devices."""
    return {"device": devices[0] if len(devices) == 1 else "", "devices": devices}


def describe(error: BaseException) -> str:
    """The text for an error in an event: its class, and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
