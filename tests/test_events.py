"""Events: filtering by kind, removal of instruments that raise, no cost without instruments."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

import eagerflow as ef
from eagerflow import errors, events
from eagerflow.core import monitors
from eagerflow.core.interpreter import stack
from eagerflow.events import AbstractEvent, LevelEvent, NodeEvent, OpEvent, StepEvent, WaitEvent
from eagerflow.runtime import background_compilation
from tests.recorded import Recorder, recorded, refuse_events
from tests.resources.queues.modes import until


class Broken:
    """An instrument that raises."""

    def begin(self, event: AbstractEvent) -> None:
        raise ZeroDivisionError

    end = begin

    def __repr__(self) -> str:
        return "Broken()"


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    yield
    assert not AbstractEvent.listeners
    assert not any(kind.listeners for kind in events.KINDS)


# --- records ----------------------------------------------------------------------------------


def test_a_record_knows_thread_and_time() -> None:
    event = WaitEvent(name="q")
    assert event.thread == threading.get_ident()
    assert (event.step, event.caller, event.runner, event.error) == (0, 0, "", "")
    assert event.stop is None
    assert 0 <= event.seconds <= event.seconds
    events.end(event)
    assert event.stop is not None
    assert event.seconds == event.stop - event.start


def test_a_record_that_has_a_time_keeps_it() -> None:
    event = WaitEvent(start=1.0, stop=3.5)
    events.end(event)
    assert event.seconds == 2.5


def test_the_loop_that_it_happened_in() -> None:
    assert (LevelEvent().frame, LevelEvent().iteration) == ("", None)
    inner = LevelEvent(frames=(("outer", 3), ("inner", 0)))
    assert (inner.frame, inner.iteration) == ("inner", 0)


def test_records_have_no_dictionary_and_a_kind_each() -> None:
    assert len({kind.kind for kind in events.KINDS}) == len(events.KINDS)
    for kind in events.KINDS:
        assert kind.__name__.lower() == f"{kind.kind}event"
        assert not hasattr(kind(), "__dict__")
        assert kind.__doc__


@pytest.mark.parametrize(("name", "hint"), [("duration", ".seconds"), ("end", ".stop")])
def test_names_of_other_tools_have_hints(name: str, hint: str) -> None:
    for kind in events.KINDS:
        with pytest.raises(
            AttributeError, match=rf"{kind.__name__} has no '{name}'\n.*event\{hint}"
        ):
            getattr(kind(), name)


def test_steps_have_numbers_of_their_own() -> None:
    numbers: list[int] = []

    def take() -> None:
        numbers.extend([events.next_step() for _ in range(1000)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 4000
    assert min(numbers) > 0
    assert all(a < b for a, b in pairwise(numbers[:1000]) if a // 1000 == b // 1000)


# --- instruments ------------------------------------------------------------------------------


def test_every_instrument_hears_of_all_threads() -> None:
    one, two = Recorder(), Recorder()
    events.add_instrument(one)
    events.add_instrument(two)
    events.add_instrument(two)
    assert isinstance(one, events.Instrument)
    try:
        events.end(LevelEvent(name="here"))
        thread = threading.Thread(target=lambda: events.end(LevelEvent(name="there")))
        thread.start()
        thread.join()
    finally:
        events.remove_instrument(one)
        events.remove_instrument(two)
        events.remove_instrument(two)
    events.end(LevelEvent(name="too late"))
    assert [e.name for e in one.events] == [e.name for e in two.events] == ["here", "there"]


def test_instruments_hear_of_what_they_want() -> None:
    with recorded(WaitEvent) as waits, recorded(LevelEvent, StepEvent) as others:
        assert WaitEvent.listeners == (waits,)
        assert LevelEvent.listeners == StepEvent.listeners == (others,)
        assert not NodeEvent.listeners
        for kind in (WaitEvent, LevelEvent, StepEvent, NodeEvent):
            events.end(kind())
    assert [e.kind for e in waits.events] == ["wait"]
    assert [e.kind for e in others.events] == ["level", "step"]


def test_who_wants_nothing_in_particular_makes_no_step_slower() -> None:
    class Any:
        def begin(self, event: AbstractEvent) -> None: ...
        def end(self, event: AbstractEvent) -> None: ...

    events.add_instrument(instrument := Any())
    try:
        assert {kind for kind in events.KINDS if not kind.listeners} == {NodeEvent, OpEvent}
    finally:
        events.remove_instrument(instrument)


def test_a_beginning_and_an_end_are_one_record() -> None:
    with recorded() as log:
        event = WaitEvent()
        events.begin(event)
        assert log.begun == [event]
        assert log.events == []
        assert event.stop is None
        events.end(event)
    assert log.begun == log.events == [event]


def test_who_comes_in_between_hears_of_no_end_and_who_went_of_nothing() -> None:
    event = WaitEvent()
    with recorded() as late, recorded() as all_of_it:
        with recorded() as early:
            events.remove_instrument(late)
            events.begin(event)
            events.add_instrument(late)
        events.end(event)
    assert (early.begun, early.events) == ([event], [])
    assert (late.begun, late.events) == ([], [])
    assert (all_of_it.begun, all_of_it.events) == ([event], [event])


def test_an_instrument_that_raises_is_removed_with_a_warning() -> None:
    with recorded() as log:
        for tell in (events.begin, events.end):
            events.add_instrument(Broken())
            with pytest.warns(RuntimeWarning, match=r"Broken\(\) raised ZeroDivisionError"):
                tell(LevelEvent())
            tell(LevelEvent())
    assert (len(log.begun), len(log.events)) == (2, 2)


def test_the_warning_of_a_broken_instrument_breaks_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Warnings are errors in tests: the warning is printed instead of raised."""
    events.add_instrument(Broken())
    events.end(LevelEvent())
    assert "RuntimeWarning: instrument Broken() raised" in capsys.readouterr().err

    class Unprintable(Broken):
        __repr__ = None

    events.add_instrument(Unprintable())
    events.end(LevelEvent())
    assert "TypeError" in capsys.readouterr().err


def test_an_instrument_is_not_told_of_what_it_runs_itself() -> None:
    f = ef.trace(lambda x: ef.exp(x))
    x = ef.ones(2)

    class Running:
        kinds = events.KINDS
        told = 0

        def begin(self, event: AbstractEvent) -> None:
            self.told += 1
            f(x)

        end = begin

    f(x)
    events.add_instrument(running := Running())
    try:
        with recorded(StepEvent) as log:
            f(x)
            f(x)
    finally:
        events.remove_instrument(running)
    assert len(log.events) == 2
    assert running.told == 2 * (2 + 2 + 1)  # step, region and node


def test_the_end_of_a_wait_is_told_even_if_an_instrument_ends_it() -> None:
    queue = ef.Queue(None, ef.tensor(0))

    class Feeding:
        kinds = frozenset({LevelEvent})

        def begin(self, event: AbstractEvent) -> None: ...
        def end(self, event: AbstractEvent) -> None:
            queue.enqueue(1)

    with recorded(WaitEvent) as log:
        thread = threading.Thread(target=queue.dequeue)
        thread.start()
        until(lambda: len(log.begun) == 1)
        events.add_instrument(feeding := Feeding())
        events.end(LevelEvent())
        events.remove_instrument(feeding)
        thread.join()
    assert log.events == log.begun


def test_what_is_no_instrument_is_refused() -> None:
    class Older:
        def event(self, event: AbstractEvent) -> None: ...

    with pytest.raises(errors.TensorValueError, match=r"begin\(event\) and end\(event\)"):
        events.add_instrument(Older())
    wrong = Recorder()
    wrong.kinds = frozenset({"step"})
    with pytest.raises(errors.TensorValueError, match=r"kinds=.*'step'"):
        events.add_instrument(wrong)


# --- no instrument ----------------------------------------------------------------------------


def test_nobody_listens_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_events(monkeypatch)
    monkeypatch.setattr(events, "end", None)
    with monitors.timed():
        ef.ones(2) + 1.0


@pytest.fixture
def listener() -> Iterator[Recorder]:
    with recorded() as log:
        yield log


def test_plain_ops_emit_nothing_and_keep_nothing(listener: Recorder) -> None:
    """Not even if an instrument listens: only a monitor makes events of eager ops."""
    x, v = ef.ones((4, 4)), ef.Variable(ef.zeros((4, 4)))

    def run(times: int) -> None:
        for _ in range(times):
            v.assign_add(ef.exp(x @ x) * 1e-3)
            ef.random.uniform((4, 4))

    background_compilation._threads.close()  # compiler threads of earlier tests allocate as well
    run(20)
    assert not stack.installed
    before = sys.getallocatedblocks()
    run(200)
    assert sys.getallocatedblocks() - before < 100
    assert listener.events == listener.begun == []


def test_plain_ops_call_no_monitor_and_capture_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*args: object, **kwargs: object) -> None:
        raise AssertionError("nobody looks on")

    for name in ("capture", "infer_specs", "describe"):
        monkeypatch.setattr(monitors, name, called)
    for name in ("Timing", "CheckNan", "Verify"):
        monkeypatch.setattr(getattr(monitors, name), "bind", called)
    x = ef.ones((3, 3))
    assert (ef.exp(x) @ x + 1.0).shape == (3, 3)
    assert ef.grad(lambda y: (y * y).sum())(x).shape == (3, 3)


def test_the_text_of_an_event_is_short() -> None:
    with ef.profile() as profile:
        ef.ones(3)
    (event,) = profile.events
    event.stop = event.start + 0.0000123
    line = event.source.line
    assert repr(event) == (
        f"OpEvent('full', 12.3 us, device='cpu:0', source='{__file__}:{line}', nbytes=12, "
        "detail='f32[3]@cpu:0')"
    )
    assert repr(events.WaitEvent(name="q", operation="dequeue")).endswith(
        "unfinished, operation='dequeue')"
    )
