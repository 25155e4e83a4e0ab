"""Events of queues and similar resources: levels, waits, and the steps that waited."""

from __future__ import annotations

import threading
from itertools import groupby, pairwise
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import AbstractEvent
from eagerflow.extending import FifoStore, QueueState, begin_told
from eagerflow.profiling.chrome_trace import to_chrome
from eagerflow.resources import meetings
from tests.recorded import recorded, refuse_events
from tests.resources.queues.modes import Call, Waiting, numbers, until

KINDS = ("fifo", "shuffle", "padding", "priority")


# --- levels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_change_of_a_queue_is_an_event(call: Call, kind: Any) -> None:
    queue = ef.Queue(2, ef.tensor(0), kind=kind, name="numbers")
    how: Any = {"priority": 0} if kind == "priority" else {}
    with recorded() as log:
        call(lambda: queue.enqueue(1, **how))
        call(lambda: queue.enqueue(2, **how))
        producer = Waiting(lambda: queue.enqueue(3, **how), queue, 0)
        call(queue.dequeue)
        producer.result()
        call(lambda: queue.dequeue_many(2))
        consumer = Waiting(queue.dequeue, queue)
        call(queue.close)
        with pytest.raises(ef.errors.QueueClosedError):
            consumer.result()
    assert log.levels("numbers") == [
        (1, 0, 0), (2, 0, 0), (2, 1, 0), (2, 0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 0),
    ]  # fmt: skip
    events = log.of("level", "numbers")
    assert {e.capacity for e in events} == {2}
    assert {e.device for e in events} == {"cpu:0"}
    assert {e.resource for e in events} == {kind}
    assert [closed for closed, _ in groupby(e.closed for e in events)] == [False, True]
    assert all(a.start == a.stop <= b.start for a, b in pairwise(events))


def test_a_timeout_and_a_cancelled_enqueue_are_changes() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="small")
    with recorded() as log:
        with pytest.raises(ef.errors.WaitTimeoutError):
            queue.dequeue(timeout=0)
        queue.enqueue(1)
        producer = Waiting(lambda: queue.enqueue(2), queue, 0)
        queue.close(cancel_pending=True)
        with pytest.raises(ef.errors.EnqueueCancelledError):
            producer.result()
    levels = log.levels("small")
    assert levels[0] == (0, 0, 1)
    assert (0, 0, 0) in levels[1:]  # the wait was given up
    assert (1, 1, 0) in levels
    assert levels[-1] == (1, 0, 0)


def test_accumulators_barriers_and_mutexes() -> None:
    sums = ef.Accumulator(ef.tensor(0.0), name="sums")
    pairs = ef.Barrier(("f32[]", "i64[]"), name="pairs")
    mutex = ef.Mutex(name="one")
    with recorded() as log:
        sums.add(1.0, step=0)
        taker = Waiting(lambda: sums.take(2), sums, 0)
        sums.add(3.0, step=0)
        assert numbers(taker.result()) == 2.0
        pairs.insert_many(0, [5, 6], [1.0, 2.0])
        pairs.insert_many(1, [6], [7])
        pairs.take_many(1)
        with mutex:
            pass
    assert log.levels("sums") == [(1, 0, 0), (1, 0, 1), (0, 0, 0)]
    assert log.levels("pairs") == [(0, 0, 0), (1, 0, 0), (0, 0, 0)]
    assert log.levels("one") == [(1, 0, 0), (0, 0, 0)]
    kinds = {e.name: (e.resource, e.capacity) for e in log.of("level")}
    assert kinds == {"sums": ("accumulator", 0), "pairs": ("barrier", 0), "one": ("mutex", 1)}


def test_queues_without_a_name_have_one_each() -> None:
    one, other = ef.Queue(1, ef.tensor(0)), ef.Queue(1, ef.tensor(0))
    with recorded() as log:
        one.enqueue(1)
        other.enqueue(1)
    names = [e.name for e in log.of("level")]
    assert len(set(names)) == 2
    assert all(name.startswith("fifo-") for name in names)


def test_nobody_listens_and_nothing_is_told(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an event was made")

    refuse_events(monkeypatch)
    monkeypatch.setattr(meetings.AbstractMeeting, "tell", refuse)
    queue = ef.Queue(1, ef.tensor(0))
    waiting = Waiting(lambda: call(lambda: queue.dequeue_many(2)), queue)
    queue.enqueue_many([1, 2])
    assert numbers(waiting.result()) == [1, 2]


def test_a_listener_may_use_the_queue_that_it_hears_of() -> None:
    queue, sizes = ef.Queue(3, ef.tensor(0), name="heard"), list[int]()

    class Watcher:
        kinds = frozenset({ef.events.LevelEvent})

        def begin(self, event: AbstractEvent) -> None:
            raise AssertionError("levels do not last")

        def end(self, event: AbstractEvent) -> None:
            sizes.append(queue.resource.size())

    watcher = Watcher()
    ef.events.add_instrument(watcher)
    try:
        queue.enqueue_many([1, 2])
        queue.dequeue()
    finally:
        ef.events.remove_instrument(watcher)
    assert sizes == [2, 1]


def test_levels_in_brief_are_those_of_the_events() -> None:
    """An instrument that hears of levels in brief gets no level events; other instruments do."""

    class Brief:
        kinds = frozenset({ef.events.LevelEvent})

        def __init__(self) -> None:
            self.heard: list[ef.events.BriefLevel] = []
            self.brief_level = self.heard.append

        def begin(self, event: AbstractEvent) -> None:
            raise AssertionError("levels do not last")

        def end(self, event: AbstractEvent) -> None:
            raise AssertionError("it is told in brief")

    queue, brief = ef.Queue(3, ef.tensor(0), name="brief"), Brief()
    ef.events.add_instrument(brief)
    try:
        queue.enqueue_many([1, 2])
        with recorded(ef.events.LevelEvent) as events:
            queue.dequeue()
            queue.close()
        alone = len(brief.heard)
        queue.dequeue()
    finally:
        ef.events.remove_instrument(brief)
    assert not ef.events.LevelEvent.wanted
    assert [level[:7] for level in brief.heard] == [
        ("brief", "fifo", 2, 3, 0, 0, False), ("brief", "fifo", 1, 3, 0, 0, False),
        ("brief", "fifo", 1, 3, 0, 0, True), ("brief", "fifo", 0, 3, 0, 0, True),
    ]  # fmt: skip
    assert alone == 3
    told = [(e.depth, e.closed) for e in events.of("level")]
    assert told == [(1, False), (1, True)]
    times = [level[7] for level in brief.heard]
    assert times == sorted(times)


# --- waits ------------------------------------------------------------------------------------


def test_waits_of_ops_are_told(call: Call) -> None:
    """The event of an op includes its wait, whether a thread slept for it or not."""
    queue = ef.Queue(1, ef.tensor(0), name="late")
    with recorded() as log, ef.profile() as profile:
        waits = threading.Event()

        def put() -> None:
            until(lambda: queue.resource.waiting(1) == 1)
            waits.wait(0.01)
            queue.enqueue(7)

        thread = threading.Thread(target=put)
        thread.start()
        assert numbers(call(queue.dequeue)) == 7
        thread.join()
        queue.enqueue(8)
        call(queue.dequeue)
    ops = [e for e in log.events if e.name == "queue_dequeue" and e.kind in ("op", "node")]
    slow, quick = ops
    assert 0.009 < slow.waited <= slow.seconds
    assert quick.waited == 0.0
    assert (slow.nbytes, slow.detail, slow.device) == (8, "i64[]@cpu:0", "cpu:0")
    assert slow in profile.events  # this thread issued the op, whichever thread held it


def test_a_wait_without_a_thread_has_its_line_and_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [ef.Queue(1, ef.tensor(0)) for _ in range(2)]

    @ef.trace
    def both() -> Any:
        with ef.unordered(), ef.name_scope("input"):
            return first.dequeue(), second.dequeue()  # the line

    first.enqueue(1)
    second.enqueue(2)
    both()
    with recorded() as log:
        reader = threading.Thread(target=both)
        reader.start()
        until(lambda: first.resource.waiting(1) == 1 and second.resource.waiting(1) == 1)
        second.enqueue(2)
        first.enqueue(1)
        reader.join()
        ident = reader.ident
    nodes = [e for e in log.events if e.kind == "node"]
    assert {(e.name, e.scope, e.graph, e.thread, e.caller, e.runner) for e in nodes} == {
        ("queue_dequeue", "input", "both", 0, ident, "")
    }
    assert len({e.node for e in nodes}) == len(nodes) == 2
    assert all("the line" in str(e.source) for e in nodes)
    assert all(0 < e.waited <= e.seconds for e in nodes)


@pytest.mark.parametrize("traced", [False, True])
def test_runners_are_named_in_the_events_of_what_they_run(traced: bool) -> None:
    numbers_, squares = [ef.Queue(2, ef.tensor(0), name=n) for n in ("numbers", "squares")]

    @ef.trace
    def square() -> None:
        x = numbers_.dequeue()
        squares.enqueue(x * x)

    work = square if traced else lambda: square()
    with recorded() as log, ef.spawn(work, name="worker") as runner:
        until(lambda: numbers_.resource.waiting(1) == 1)
        numbers_.enqueue_many([1, 2, 3])
        assert numbers(squares.dequeue_many(3)) == [1, 4, 9]
        until(lambda: runner.steps == 3)
    nodes = [e for e in log.events if e.kind == "node"]
    assert {e.name for e in nodes} == {"queue_dequeue", "multiply", "queue_enqueue"}
    assert {e.runner for e in nodes} == {"worker"}
    assert {e.caller for e in nodes} == {0}
    assert nodes[0].name == "queue_dequeue"
    assert nodes[0].waited > 0
    assert (nodes[0].thread == 0) == traced
    runs = log.of("run")
    assert [e.name for e in runs] == ["worker"] * 4
    assert [bool(e.error) for e in runs] == [False, False, False, True]


def test_steps_of_this_thread_belong_to_no_runner() -> None:
    queue = ef.Queue(9, ef.tensor(0))
    take = ef.trace(queue.dequeue)
    queue.enqueue_many([1, 2])
    ef.spawn(take, name="other").cancel()
    with recorded() as log:
        queue.enqueue(3)
        take()
    assert "" in {e.runner for e in log.of("node")}


# --- pictures ---------------------------------------------------------------------------------


def test_traces_for_perfetto_have_counters_and_waits_apart() -> None:
    queue = ef.Queue(2, ef.tensor(0), name="numbers")
    take = ef.trace(queue.dequeue)
    with recorded() as log, ef.spawn(take, name="taker") as runner:
        until(lambda: queue.resource.waiting(1) == 1)
        queue.enqueue(1)
        until(lambda: runner.steps == 1 and queue.resource.waiting(1) == 1)
    rows = to_chrome(log.events)["traceEvents"]
    counters = [r["args"] for r in rows if r["ph"] == "C"]
    assert {"depth": 0, "producers": 0, "consumers": 1} in counters
    assert "numbers" in {r["name"] for r in rows if r["ph"] == "C"}
    pairs = [r for r in rows if r["ph"] in ("b", "e")]
    begins, ends = ({r["id"]: r for r in pairs if r["ph"] == phase} for phase in "be")
    assert begins.keys() == ends.keys()
    assert all(row["ts"] <= ends[i]["ts"] for i, row in begins.items())
    assert {row["args"]["runner"] for row in begins.values()} == {"taker"}
    (node,) = [row for row in begins.values() if row["cat"] == "node"]
    assert node["args"]["waited"] > 0
    assert [row["cat"] for row in begins.values()].count("wait") == 2  # one was never served
    whole = {(r["cat"], r["args"].get("operation", "")) for r in rows if r["ph"] == "X"}
    assert whole >= {("run", ""), ("queue", "enqueue")}


def test_a_queue_shows_how_it_stands() -> None:
    queue = ef.Queue(2, ef.tensor(0), name="<numbers>")
    queue.enqueue_many([1, 2])
    producer = Waiting(lambda: queue.enqueue(3), queue, 0)
    assert repr(queue) == "Queue(fifo '<numbers>', i64[]@cpu:0, 2 of 2, 1 waiting to put)"
    shown = queue._repr_html_()
    assert '<progress max="2" value="2"></progress>' in shown
    assert "&lt;numbers&gt;" in shown
    assert "<numbers>" not in shown
    queue.dequeue_many(3)
    producer.result()
    consumer = Waiting(queue.dequeue, queue)
    assert "0 of 2, 1 waiting to take" in repr(queue)
    queue.close()
    with pytest.raises(ef.errors.QueueClosedError):
        consumer.result()
    assert repr(queue).endswith("0 of 2, closed)")
    assert "<progress" not in ef.Queue(None, ef.tensor(0))._repr_html_()


# --- instruments that break -------------------------------------------------------------------


class Broken:
    """An instrument that raises at the end of some events."""

    def __init__(self, *kinds: type[AbstractEvent]) -> None:
        self.kinds = frozenset(kinds)

    def begin(self, event: AbstractEvent) -> None:
        """Accept the event."""

    def end(self, event: AbstractEvent) -> None:
        raise ZeroDivisionError("as planned")


@pytest.mark.parametrize("kind", [ef.events.WaitEvent, ef.events.QueueEvent, ef.events.NodeEvent])
def test_a_wait_ends_if_telling_of_its_end_fails(
    kind: type[AbstractEvent], capfd: pytest.CaptureFixture[str]
) -> None:
    """The step is unaffected; where warnings are errors, as in tests, stderr has the message."""
    first, second = [ef.Queue(1, ef.tensor(0)) for _ in range(2)]

    @ef.trace
    def both() -> Any:
        with ef.unordered():
            return first.dequeue(), second.dequeue()

    first.enqueue(1)
    second.enqueue(2)
    both()
    broken = Broken(kind)
    ef.events.add_instrument(broken)
    try:
        waiting = Waiting(both, first)
        until(lambda: second.resource.waiting(1) == 1)
        first.resource.put_at_once((ef.tensor(3).numpy(),))
        second.resource.put_at_once((ef.tensor(4).numpy(),))
        assert [x.item() for x in waiting.result()] == [3, 4]
    finally:
        ef.events.remove_instrument(broken)
    assert "as planned" in capfd.readouterr().err


def test_a_callback_that_fails_keeps_no_other_one_waiting() -> None:
    queue, called = QueueState(2, FifoStore()), list[str]()

    def fail() -> None:
        called.append("first")
        raise ZeroDivisionError("as planned")

    queue.dequeue().begin(fail)
    queue.dequeue().begin(lambda: called.append("second"))
    with pytest.raises(ZeroDivisionError, match="as planned"):
        queue.enqueue_many(2, lambda i: i).begin()
    assert called == ["first", "second"]


def test_a_wait_of_its_own_is_called_though_telling_fails(
    capfd: pytest.CaptureFixture[str],
) -> None:
    queue, called = QueueState(1, FifoStore(), name="told"), list[int]()
    broken = Broken(ef.events.WaitEvent)
    ef.events.add_instrument(broken)
    try:
        begin_told(queue.dequeue(), lambda: called.append(1))
        queue.put_at_once(1)
    finally:
        ef.events.remove_instrument(broken)
    assert called == [1]
    assert "as planned" in capfd.readouterr().err
