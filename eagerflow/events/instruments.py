"""Instruments: who hears of which events, and the telling of these.

What a broken instrument raises never stops the work that it shows.
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
    StepEvent.brief = _all_of(list(map(attrgetter("brief_step"), brief)))
    RegionEvent.brief = _all_of(list(map(attrgetter("brief_region"), brief)))
    levels = [i for i in instruments if hasattr(i, "brief_level")]
    LevelEvent.listeners = tuple([i for i in LevelEvent.listeners if i not in levels])
    LevelEvent.brief = _all_of(list(map(attrgetter("brief_level"), levels)))
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


def _remove_broken(instrument: Instrument, error: Exception) -> None:
    """A broken instrument must not stop the work that it shows, nor may the warning of it."""
    remove_instrument(instrument)
    try:
        text = f"instrument {instrument!r} raised {error!r} and was removed"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except Exception as failed:  # warnings are errors, or the instrument cannot be printed
        if sys.stderr is not None:
            sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
