"""The time outside of ops: traces, users' functions in pipelines, waits, and the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.events import CallEvent, OpEvent, TraceEvent, WaitEvent
from eagerflow.profiling import OutsideStatistics, Profile, advice
from eagerflow.profiling.outside_statistics import OpTimes, by_thread, outside_statistics

X = np.arange(48.0, dtype=np.float32).reshape(2, 24)


def augment(x: ef.Tensor) -> list[float]:
    return [float(v) for v in x]


def _called(profile: Profile) -> dict[str, OutsideStatistics]:
    return {row.name: row for row in profile.outside() if row.kind == "call"}


def test_times_of_ops_are_counted_once() -> None:
    """Ops may lie in others, and overlap."""
    spans = [(1.0, 2.0), (1.2, 1.5), (1.8, 3.0), (5.0, 6.0)]
    times = OpTimes([OpEvent(start=start, stop=stop) for start, stop in spans])
    assert times.total == pytest.approx(3.0)
    assert times.within(0.0, 9.0) == pytest.approx(3.0)
    assert times.within(1.5, 5.5) == pytest.approx(2.0)
    assert times.within(3.5, 4.5) == 0.0
    assert times.count(1.2, 5.0) == 2


def test_parts_do_not_overlap() -> None:
    """A call with ops, a trace and a wait within counts only what is its own."""
    ops = [OpEvent(start=2.0, stop=3.0), OpEvent(start=8.0, stop=10.0)]
    scopes = [
        CallEvent(name="map(f)", start=1.0, stop=9.0),
        TraceEvent(name="g", start=4.0, stop=6.0),
        WaitEvent(name="q", start=4.5, stop=5.0),
        WaitEvent(name="of an op", start=2.0, stop=2.5),
        CallEvent(name="map(f)", start=11.0, stop=12.0),
    ]
    (own,) = by_thread(ops, scopes).values()
    rows = outside_statistics(own, [], 20.0)
    assert [(r.kind, r.name, r.calls, r.ops) for r in rows] == [
        ("call", "map(f)", 2, 2), ("trace", "g", 1, 0), ("wait", "of an op", 1, 0),
        ("wait", "q", 1, 0), ("other", "", 0, 0),
    ]  # fmt: skip
    assert [r.total for r in rows] == pytest.approx([5.0, 1.5, 0.5, 0.5, 10.0])
    assert sum(r.total for r in rows) == pytest.approx(20.0 - 2.5)


def test_waits_of_ops_are_no_time_of_ops() -> None:
    queue = ef.Queue(2, X[0], name="q")
    dequeue = ef.trace(lambda: queue.dequeue() + 1.0)
    queue.enqueue(X[0])
    dequeue()  # traced
    held = threading.Event()

    def feed() -> None:
        for _ in range(2):
            held.wait(0.05)
            queue.enqueue(X[0])

    thread = threading.Thread(target=feed)
    with ef.profile() as p:
        thread.start()
        dequeue()
        queue.dequeue()
        thread.join()
    waited = sum(row.total for row in p.outside() if row.kind == "wait")
    assert waited > 0.05
    (row,) = [row for row in p.table() if row.name == "queue_dequeue"]
    assert row.calls == 2
    whole = {e.name: e for e in p.events if isinstance(e, OpEvent)}["queue_dequeue"]
    assert row.total < 0.05 < sum(e.waited for e in p.events if getattr(e, "waited", 0.0))
    assert whole.working == pytest.approx(whole.seconds - whole.waited)
    assert p.seconds_with_ops() < 0.05
    own = [row.total for row in p.outside() if row.is_own]
    assert sum(own) == pytest.approx(p.seconds_outside)


def test_functions_of_pipelines_in_the_reading_thread() -> None:
    data = Dataset.from_tensors(X).map(augment).filter(lambda x: True)
    with ef.profile() as p:
        for _ in data:
            pass
    called = _called(p)
    assert {name: row.calls for name, row in called.items()} == {
        "map(augment)": 2, "filter(<lambda>)": 2,
    }  # fmt: skip
    row = called["map(augment)"]
    assert row.is_own
    assert row.ops >= 48
    assert row.source is not None
    assert ".map(augment)" in row.source.text
    own = [row.total for row in p.outside() if row.is_own]
    assert sum(own) == pytest.approx(p.seconds_outside)
    place = f"at test_outside_statistics.py:{row.source.line}"
    assert any(line.split()[:3] == ["map(augment)", *place.split()] for line in str(p).splitlines())
    assert "\N{NO-BREAK SPACE}map(augment)</td>" in p._repr_html_()
    assert any(line.startswith("  other Python ") for line in str(p).splitlines())


def test_functions_of_pipelines_in_other_threads() -> None:
    with ef.profile() as p:
        list(Dataset.from_tensors(X).map(augment, workers=1))
    (row,) = [row for row in p.outside() if row.kind == "call"]
    assert (row.calls, row.is_own) == (2, False)
    assert "in other threads" in str(p)


def test_iterables_are_functions_of_pipelines() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)

    with ef.profile() as p:
        list(Dataset.from_iterable(numbers))
        list(Dataset.from_iterable([1, 2]))
    called = _called(p)
    assert {name: row.calls for name, row in called.items()} == {
        "from_iterable(numbers)": 3, "from_iterable(list)": 2,
    }  # fmt: skip
    assert all(row.source is not None for row in called.values())


def test_a_failing_function_is_a_call_with_an_error() -> None:
    data = Dataset.from_tensors(X).map(lambda x: 1 // 0, on_error="skip")
    with ef.profile() as p:
        assert list(data) == []
    errors = [e.error for e in p.events if isinstance(e, CallEvent)]
    assert len(errors) == 2
    assert all(error.startswith("ZeroDivisionError") for error in errors)


def test_tracing_has_a_row_for_each_function() -> None:
    step = ef.trace(lambda x, k: x * k)
    step.__name__ = "step"
    with ef.profile() as p:
        step(ef.ones(2), 2)
        step(ef.ones((2, 2)), 2)
    (row,) = [row for row in p.outside() if row.kind == "trace"]
    assert (row.calls, row.is_own) == (2, True)
    (line,) = [line for line in str(p).splitlines() if line.startswith("  tracing ")]
    assert line.split()[:3] == ["tracing", row.name, "2"]


@pytest.mark.parametrize("read", [float, repr, bool, ef.Tensor.numpy, ef.Tensor.item, str])
def test_copies_to_the_host_have_a_row(read: Callable[[ef.Tensor], object]) -> None:
    with ef.profile() as p:
        x = ef.ones((), device="async:0") + 1.0
        for _ in range(3):
            read(x)  # <- the line
    (row,) = [row for row in p.outside() if row.kind == "fetch"]
    assert (row.name, row.calls, row.is_own) == ("async:0", 3, True)
    assert row.source is not None
    assert "# <- the line" in row.source.text
    own = [row.total for row in p.outside() if row.is_own]
    assert sum(own) == pytest.approx(p.seconds_outside)
    assert "  copying from async:0 " in str(p) or row.share < 0.001


def test_values_in_the_memory_of_the_host_are_not_copied() -> None:
    with ef.profile() as p:
        float(ef.ones(()))
    assert [row.kind for row in p.outside()] == ["other"]


def test_without_parts_there_is_one_row() -> None:
    with ef.profile() as p:
        ef.ones(2)
    assert [row.kind for row in p.outside()] == ["other"]
    assert "other Python" not in str(p)
    assert "outside of ops" in str(p)


def _part(kind: str = "call", share: float = 0.5, ops: int = 100) -> OutsideStatistics:
    return OutsideStatistics(kind, "map(f)", None, True, 2, 3e-3, share, ops)


def test_a_loop_over_a_tensor_in_a_pipeline_has_advice() -> None:
    (hint,) = advice.advice([], [_part()])
    assert hint.startswith("hint: map(f) runs 50 ops for each element")
    assert "x.numpy()" in hint
    others = [_part("trace"), _part(share=0.01), _part(ops=10), _part(ops=40)]
    assert advice.advice([], others) == []


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=8),
)
def test_waits_are_taken_out_of_the_spans_of_ops(
    ops: list[tuple[int, int]], waits: list[tuple[int, int]]
) -> None:
    def units(spans: Any) -> set[int]:
        return {unit for start, stop in spans for unit in range(int(start), int(stop))}

    run = [OpEvent(start=float(a), stop=float(a + n)) for a, n in ops]
    waited = [WaitEvent(start=float(a), stop=float(a + n)) for a, n in waits]
    times = OpTimes(run, waited)
    left = units((e.start, e.stop) for e in run) - units((e.start, e.stop) for e in waited)
    assert units(times.spans) == left
    assert times.total == len(left)  # without overlaps
    assert times.spans == sorted(times.spans)
