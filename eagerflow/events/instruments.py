"""Instruments: the registry of listeners, and the delivery of events to them.

An exception of a broken instrument never stops the work that it observes.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, Protocol, final, runtime_checkable

from eagerflow.errors import TensorValueError
from eagerflow.events.event_kinds import (
    DEFAULT_KINDS,
    KINDS,
    AbstractEvent,
    LevelEvent,
    NodeEvent,
    RegionEvent,
    StepEvent,
    WaitEvent,
    describe,
)
from eagerflow.events.step_context import step_of


@runtime_checkable
class Instrument(Protocol):
    """A receiver of events, from any thread. An instrument that raises is removed, with a warning.

    Its attribute ``kinds`` names the kinds that it wants; without it they are `DEFAULT_KINDS`. An
    instrument with ``brief_step`` and ``brief_region``, functions that take a `BriefStep` and a
    `BriefRegion` and do not raise, receives all steps and regions in brief; one with
    ``brief_level`` receives levels as a `BriefLevel`, and not as events; one with ``brief_wait``
    waits that are over as a `BriefWait`. While all instruments are
    brief, steps need not be numbered, and events within a step may have the ``step`` 0: a record of
    a step takes as long as 100 small ops, the brief form as long as two.
    """

    def begin(self, event: AbstractEvent, /) -> None:
        """Take an event that begins; its end comes with the same record."""

    def end(self, event: AbstractEvent, /) -> None:
        """Take an event that has ended."""


_lock: Final = threading.RLock()  # a finaliser may remove an instrument
#: called after each change of the instruments
_followers: Final[list[Callable[[], object]]] = []


def _set_listeners(instruments: tuple[Instrument, ...]) -> None:
    for kind in KINDS:
        kind.listeners = tuple([i for i in instruments if kind in _kinds(i)])
    AbstractEvent.listeners = instruments
    brief = [i for i in instruments if hasattr(i, "brief_step")]
    StepEvent.brief = _all_of(list(map(attrgetter("brief_step"), brief)))
    RegionEvent.brief = _all_of(list(map(attrgetter("brief_region"), brief)))
    levels = [i for i in instruments if hasattr(i, "brief_level")]
    LevelEvent.listeners = tuple([i for i in LevelEvent.listeners if i not in levels])
    LevelEvent.brief = _all_of(list(map(attrgetter("brief_level"), levels)))
    LevelEvent.wanted = bool(LevelEvent.listeners or levels)
    waits = [i for i in instruments if hasattr(i, "brief_wait")]
    WaitEvent.listeners = tuple([i for i in WaitEvent.listeners if i not in waits])
    WaitEvent.brief = _all_of(list(map(attrgetter("brief_wait"), waits)))
    wanted = NodeEvent.listeners or StepEvent.listeners or RegionEvent.listeners
    StepEvent.brief_alone = StepEvent.brief if brief == [*instruments] and not wanted else None
    for changed in _followers:
        changed()


def _all_of(functions: list[Callable[[Any], object]]) -> Callable[[Any], object] | None:
    """A function that calls all of them; None if there are none."""
    if len(functions) > 1:
        return lambda brief: [function(brief) for function in functions]
    return functions[0] if functions else None


def _kinds(instrument: Instrument) -> frozenset[type[AbstractEvent]]:
    return frozenset(getattr(instrument, "kinds", DEFAULT_KINDS))


_set_listeners(())


def add_instrument(instrument: Instrument) -> None:
    """Report to ``instrument`` from now on the events of all threads that it wants.

    Raises:
        TensorValueError: it is no instrument, or wants unknown kinds.

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
            "add_instrument: the argument is not an instrument",
            given=repr(instrument),
            expected="an object with the methods begin(event) and end(event)",
        )
    unknown = _kinds(instrument) - KINDS
    if unknown:
        raise TensorValueError(
            "add_instrument: the instrument wants unknown kinds of events",
            given=f"kinds={sorted(map(repr, unknown))}",
            expected="classes of eagerflow.events, such as StepEvent",
        )
    with _lock:
        before = AbstractEvent.listeners
        if not any(i is instrument for i in before):
            _set_listeners((*before, instrument))


def remove_instrument(instrument: Instrument) -> None:
    """Report no more events to ``instrument``; removing an unknown instrument is no error."""
    with _lock:
        _set_listeners(tuple([i for i in AbstractEvent.listeners if i is not instrument]))


def remove_after_fork(instrument: Instrument) -> None:
    """`remove_instrument` for a forked process, whose lock a thread of the parent may hold."""
    _set_listeners(tuple([i for i in AbstractEvent.listeners if i is not instrument]))


def open_waits() -> list[WaitEvent]:
    """The waits that go on now, the oldest first, including waits that began without a listener.

    So an instrument added late, or a look at a stuck program, sees what blocks it. A wait has one
    record, the same for each call; its ``stop`` is set when it is over, but the end is reported
    only to instruments that received the beginning. The ``step`` of a wait without a listener is 0.

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


def call_after_changes(changed: Callable[[], object]) -> None:
    """Call ``changed`` whenever an instrument was added or removed."""
    _followers.append(changed)


#: the sources of `open_waits`
_askers: Final[list[Callable[[], list[WaitEvent]]]] = []


def ask_for_waits(ask: Callable[[], list[WaitEvent]]) -> None:
    """Add ``ask`` to the sources of `open_waits`."""
    _askers.append(ask)


def tell_nobody(event: AbstractEvent) -> None:
    """Mark an event as begun without a listener, so that its end is not reported either."""
    event._told = ()


def begin(event: AbstractEvent) -> None:
    """Report the beginning of an event; the caller calls `end`, whatever happens."""
    if step_of.telling:
        event._told = ()
        return
    event._told = listeners = type(event).listeners
    if listeners:
        _tell(listeners, "begin", event)


def end(event: AbstractEvent) -> None:
    """Report the end of an event, to the instruments that received its beginning, or else to all.

    The time of the end is now, unless the record has one.
    """
    if event.stop is None:
        event.stop = perf_counter()
    listeners, first = type(event).listeners, event._told
    if first is None:
        first = () if step_of.telling else listeners
    elif first is not listeners:  # instruments may have been removed since
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
    """A context manager that reports the beginning and the end of an event, also after an error."""

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


def _remove_broken(instrument: Instrument, error: Exception) -> None:
    """Remove a broken instrument with a warning; neither may stop the work that it observes."""
    remove_instrument(instrument)
    try:
        text = f"instrument {instrument!r} raised {error!r} and was removed"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except Exception as failed:  # warnings are errors, or the instrument cannot be printed
        if sys.stderr is not None:
            sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
