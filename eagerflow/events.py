"""The one way out of the runtime: events, of which instruments hear.

Each kind of event is a record of its own. What lasts is told twice, with one record: to `begin`
when it begins, to `end` when it has ended, however it does. What has no length, or is of interest
only once it is over, is told to `end` alone. An instrument says which kinds it wants. Code that
makes events asks first whether an instrument wants that kind (``if WaitEvent.listeners:``), so that
without one there is no call and no allocation.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count
from operator import attrgetter
from threading import get_ident
from time import perf_counter
from typing import Any, ClassVar, Final, Protocol, final, runtime_checkable

from eagerflow.errors import TensorValueError
from eagerflow.source import Source

__all__ = [
    "DEFAULT_KINDS", "KINDS", "AbstractEvent", "BriefLevel", "BriefRegion", "BriefStep",
    "ElementEvent", "Instrument", "LevelEvent", "NodeEvent", "OpEvent", "QueueEvent", "RegionEvent",
    "RetraceEvent", "RunEvent", "SkipEvent", "StepEvent", "TakeEvent", "TransferEvent", "WaitEvent",
    "add_instrument", "begin", "describe", "end", "next_step", "open_waits", "remove_instrument",
    "step_of", "told",
]  # fmt: skip

#: the number of another step, unlike that of any other in this process
next_step: Final = count(1).__next__


@final
class _StepOf(threading.local):
    """What code that runs in a thread knows of the step that the thread works for.

    Attributes:
        step: its number; 0 outside of steps, and in one that was a call of generated code, since
            no instrument listened when it began.
        frames: the loops of it that the thread is in, each with its iteration.
        caller: the thread that asked for it, 0 where that is the same one.
        runner: the name of the runner that the thread works for, if it does for one.
        stopped: tells whether the step is to end; None if that is not asked for.
        observation: how the step is observed, if it is (see `eagerflow.runtime.observed_step`).
        telling: whether the thread is telling an instrument, which is told nothing of what it runs
            meanwhile: else it would be told of that, and so on without end.
        told: seconds that the thread has spent telling instruments, ever.
    """

    step: int = 0
    frames: tuple[tuple[str, int], ...] = ()
    caller: int = 0
    runner: str = ""
    stopped: Callable[[], bool] | None = None
    observation: Any = None
    telling: bool = False
    told: float = 0.0


#: of this thread
step_of: Final = _StepOf()


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


#: a step in brief: the number of its executable, when it began and ended, its thread (0 for none)
BriefStep = tuple[int, float, float, int]
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


# --- instruments --------------------------------------------------------------------------------


@runtime_checkable
class Instrument(Protocol):
    """Hears of events, from any thread. One that raises is removed, with a warning.

    Its attribute ``kinds`` says which it wants; `DEFAULT_KINDS` if it has none. One that has
    ``brief_step`` and ``brief_region``, functions that take a `BriefStep` and a `BriefRegion` and
    do not raise, hears of all steps and regions in brief; one that has ``brief_level`` hears of
    levels as a `BriefLevel`, and not as events. While all instruments are of that sort
    steps need not be numbered, and what is told within one may have the ``step`` 0: a record of a
    step takes as long as 100 small ops, this as long as two.
    """

    def begin(self, event: AbstractEvent, /) -> None:
        """Something begins; its end comes with the same record."""

    def end(self, event: AbstractEvent, /) -> None:
        """Something has ended, or has happened."""


_lock: Final = threading.RLock()  # a finaliser may remove an instrument


def _set_listeners(instruments: tuple[Instrument, ...]) -> None:
    for kind in KINDS:
        kind.listeners = tuple([i for i in instruments if kind in _kinds(i)])
    AbstractEvent.listeners = instruments
    brief = [i for i in instruments if hasattr(i, "brief_step")]
    StepEvent.brief = _all_of([getattr(i, "brief_step") for i in brief])  # noqa: B009 - optional
    RegionEvent.brief = _all_of([getattr(i, "brief_region") for i in brief])  # noqa: B009 - so too
    levels = [i for i in instruments if hasattr(i, "brief_level")]
    LevelEvent.listeners = tuple([i for i in LevelEvent.listeners if i not in levels])
    LevelEvent.brief = _all_of([getattr(i, "brief_level") for i in levels])  # noqa: B009 - so too
    LevelEvent.wanted = bool(LevelEvent.listeners or levels)
    wanted = NodeEvent.listeners or StepEvent.listeners or RegionEvent.listeners
    StepEvent.brief_alone = StepEvent.brief if brief == [*instruments] and not wanted else None


def _all_of(functions: list[Callable[[Any], object]]) -> Callable[[Any], object] | None:
    """One function that calls them; None if there are none."""
    if len(functions) > 1:
        return lambda brief: [function(brief) for function in functions]
    return functions[0] if functions else None


def _kinds(instrument: Instrument) -> frozenset[type[AbstractEvent]]:
    return frozenset(getattr(instrument, "kinds", DEFAULT_KINDS))


_set_listeners(())


def add_instrument(instrument: Instrument) -> None:
    """Tell ``instrument`` of all events of all threads that it wants, from now on.

    Raises:
        TensorValueError: it cannot be told, or wants what there is not.

    >>> class Depths:
    ...     kinds = {ef.events.LevelEvent}
    ...     def begin(self, event): pass
    ...     def end(self, event): print(event.name, event.depth, "of", event.capacity)
    >>> ef.events.add_instrument(depths := Depths())
    >>> ef.Queue(5, ef.tensor(0), name="letters").enqueue_many([1, 2])
    letters 2 of 5
    >>> ef.events.remove_instrument(depths)
    """
    if not isinstance(instrument, Instrument):
        raise TensorValueError(
            "add_instrument: this is no instrument",
            given=repr(instrument),
            expected="an object with the methods begin(event) and end(event)",
        )
    unknown = _kinds(instrument) - KINDS
    if unknown:
        raise TensorValueError(
            "add_instrument: the instrument wants events that there are not",
            given=f"kinds={sorted(map(repr, unknown))}",
            expected="classes of eagerflow.events, such as StepEvent",
        )
    with _lock:
        before = AbstractEvent.listeners
        if not any(i is instrument for i in before):
            _set_listeners((*before, instrument))


def remove_instrument(instrument: Instrument) -> None:
    """Tell ``instrument`` nothing more; it is no error if it is told nothing."""
    with _lock:
        _set_listeners(tuple([i for i in AbstractEvent.listeners if i is not instrument]))


def remove_after_fork(instrument: Instrument) -> None:
    """The same in a process that was forked, where the lock may be held by a thread that is not."""
    _set_listeners(tuple([i for i in AbstractEvent.listeners if i is not instrument]))


def open_waits() -> list[WaitEvent]:
    """The waits that go on now, the oldest first, those too that began without a listener.

    So an instrument that comes late, or a look at a program that is stuck, sees what blocks it. A
    wait has one record, the same for each request; its ``stop`` is set when it is over, but an end
    is told only to those that were told of the beginning. The ``step`` of a wait that nobody
    listened to is 0.

    >>> import threading
    >>> letters = ef.Queue(1, ef.tensor(0), name="letters")
    >>> thread = threading.Thread(target=letters.dequeue)
    >>> thread.start()
    >>> while not (waits := ef.events.open_waits()):
    ...     pass
    >>> [(wait.operation, wait.name, wait.stop) for wait in waits]
    [('dequeue', 'letters', None)]
    >>> letters.enqueue(1)
    >>> thread.join()
    >>> ef.events.open_waits(), waits[0].stop is None
    ([], False)
    """
    waits = [event for ask in _askers for event in ask()]
    return sorted(waits, key=attrgetter("start"))


#: the sources of `open_waits`
_askers: Final[list[Callable[[], list[WaitEvent]]]] = []


def ask_for_waits(ask: Callable[[], list[WaitEvent]]) -> None:
    """Let `open_waits` give what ``ask`` gives, too."""
    _askers.append(ask)


def where(devices: tuple[str, ...]) -> dict[str, Any]:
    """The fields of an event that is on these devices."""
    return {"device": devices[0] if len(devices) == 1 else "", "devices": devices}


def tell_nobody(event: AbstractEvent) -> None:
    """Note that the beginning of an event was told to nobody, so that its end is not either."""
    event._told = ()


def begin(event: AbstractEvent) -> None:
    """Tell the instruments that something begins; the caller calls `end`, whatever happens."""
    if step_of.telling:
        event._told = ()
        return
    event._told = listeners = type(event).listeners
    if listeners:
        _tell(listeners, "begin", event)


def end(event: AbstractEvent) -> None:
    """Tell of the end: those that were told of the beginning, all if none was to be.

    The time is now, unless the record has it.
    """
    if event.stop is None:
        event.stop = perf_counter()
    listeners, first = type(event).listeners, event._told
    if first is None:
        first = () if step_of.telling else listeners
    elif first is not listeners:  # some may have been removed since
        first = tuple([i for i in first if any(i is j for j in listeners)])
    if first:
        _tell(first, "end", event)


def _tell(listeners: tuple[Instrument, ...], what: str, event: AbstractEvent) -> None:
    around, start = step_of.telling, perf_counter()
    step_of.telling = True
    try:
        for instrument in listeners:
            try:
                getattr(instrument, what)(event)
            except Exception as error:
                _remove_broken(instrument, error)
    finally:
        step_of.telling = around
        if not around:
            step_of.told += perf_counter() - start


@final
class told:
    """Tell of what the block does: that it begins, and its end, however it ends."""

    __slots__ = ("_event",)

    def __init__(self, event: AbstractEvent) -> None:
        self._event = event

    def __enter__(self) -> None:
        try:
            begin(self._event)
        except BaseException as error:  # an interrupt
            self.__exit__(None, error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, *trace: object) -> None:
        if error is not None:
            self._event.error = describe(error)
        end(self._event)


def describe(error: BaseException) -> str:
    """What an event says of an error: its class, and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")


def _remove_broken(instrument: Instrument, error: Exception) -> None:
    """A broken instrument must not stop the work that it shows, nor may the warning of it."""
    remove_instrument(instrument)
    try:
        text = f"instrument {instrument!r} raised {error!r} and was removed"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except Exception as failed:  # warnings are errors, or the instrument cannot be printed
        if sys.stderr is not None:
            sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
