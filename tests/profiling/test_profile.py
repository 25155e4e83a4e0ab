"""`ef.profile`: recorded events, the table, and its text."""

from __future__ import annotations

import json
import linecache
import mmap
import os
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow import errors, events
from eagerflow.core.interpreter import stack
from eagerflow.events import LevelEvent, QueueEvent
from eagerflow.profiling import OpStatistics, Profile, advice, profiles
from eagerflow.profiling.process_memory import ProcessMemory, process_memory
from eagerflow.profiling.queue_statistics import queue_statistics
from eagerflow.source import Source


@pytest.fixture(autouse=True)
def _idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs of this machine do not change what a profile prints, nor does memory."""
    monkeypatch.setattr(advice, "_load", lambda: 0.0)
    monkeypatch.setattr(profiles, "process_memory", lambda: None)


def made_of(*rows: tuple[str, float, int]) -> Profile:
    """A profile of events with these names, seconds and bytes."""
    profile = Profile()
    with profile:
        for name, seconds, nbytes in rows:
            events.end(
                events.OpEvent(
                    name=name, device="cpu:0", start=1.0, stop=1.0 + seconds, nbytes=nbytes
                )
            )  # fmt: skip
    return profile


def test_the_ops_of_the_block_are_recorded() -> None:
    x = ef.ones((8, 8))
    with ef.profile() as p:
        for _ in range(3):
            y = x @ x
        y.sum()
    x @ x
    assert [e.name for e in p.events] == ["matmul"] * 3 + ["sum"]
    rows = [(row.name, row.calls, row.nbytes, row.largest) for row in p.table()]
    assert sorted(rows) == [("matmul", 3, 3 * 256, 256), ("sum", 1, 4, 4)]
    assert all(e.source is not None and "test_profile.py" in str(e.source) for e in p.events)
    assert not stack.installed
    assert not events.AbstractEvent.listeners


def test_the_backward_pass_is_recorded() -> None:
    with ef.profile() as p:
        ef.grad(lambda x: ef.exp(x).sum())(ef.ones(3))
    assert {"exp", "sum", "multiply"} <= {e.name for e in p.events}


def test_what_goes_on_after_the_block_stays_unfinished_in_it(tmp_path: Path) -> None:
    event = events.WaitEvent(name="q")
    with ef.profile() as p:
        events.begin(event)
    events.end(event)
    assert not p._open
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["ph"] for e in trace if e["name"] == "q"] == ["B"]


def test_it_ends_after_an_error() -> None:
    with pytest.raises(errors.ShapeError), ef.profile() as p:
        ef.ones(2) + ef.ones(3)
    assert [e.name for e in p.events] == ["full", "full"]
    assert not stack.installed
    assert not events.AbstractEvent.listeners


def test_the_numbers() -> None:
    p = made_of(("a", 0.25, 10), ("b", 3.0, 0), ("a", 0.5, 20), ("a", 0.25, 30))
    assert p.table() == [
        OpStatistics("b", "cpu:0", 1, 3.0, 3.0, 3.0, 0.75, 0, 0),
        OpStatistics("a", "cpu:0", 3, 1.0, pytest.approx(1 / 3), 0.25, 0.25, 60, 30),
    ]
    assert made_of().table() == []
    assert made_of(("a", 0.0, 0)).table()[0].share == 0.0


def test_devices_have_rows_of_their_own() -> None:
    with ef.config(cpu_devices=2), ef.profile() as p:
        ef.ones(2, device="cpu:1") + ef.ones(2, device="cpu:1")
        ef.ones(2) + ef.ones(2)
    assert {row.device for row in p.table() if row.name == "add"} == {"cpu:0", "cpu:1"}


def test_it_prints_a_table() -> None:
    p = made_of(("matmul", 1.0, 500_000), ("matmul", 2.0, 2_000_000), ("add", 0.0000025, 999))
    lines = str(p).splitlines()
    assert lines[0].startswith("3 ops in 3.00 s, of ")
    assert " ".join(lines[1].split()) == "op device calls total mean median share bytes largest"
    matmul, add = (" ".join(line.split()) for line in lines[2:4])
    assert matmul == "matmul cpu:0 2 3.00 s 1.50 s 1.50 s 100.0% 2.50 MB 2.00 MB"
    assert add == "add cpu:0 1 2.50 us 2.50 us 2.50 us 0.0% 999 B 999 B"
    assert [lines[1].index("device")] * 2 == [line.index("cpu") for line in lines[2:4]]
    assert repr(p) == str(p)


def test_it_prints_the_lines_and_the_time_outside_of_ops() -> None:
    x = ef.ones((8, 8))
    step = ef.trace(lambda x: ef.exp(x).sum())
    step(x)
    with ef.profile() as p:
        for _ in range(3):
            y = x @ x
        step(y)
    lines = p.lines()
    assert {(row.text, row.calls) for row in lines} == {
        ("y = x @ x", 3),
        ("step = ef.trace(lambda x: ef.exp(x).sum())", 2),
    }
    assert sum(row.total for row in lines) == pytest.approx(sum(e.total for e in p.table()))
    assert all(row.share == row.total / p.seconds for row in lines)
    (begin,) = [i for i, line in enumerate(str(p).splitlines()) if line.startswith("line ")]
    shown = str(p).splitlines()[begin:]
    assert shown[0].split() == ["line", "code", "calls", "total", "of", "all"]
    assert any(re.match(r"test_profile.py:\d+ +y = x @ x +3 ", line) for line in shown)
    assert re.match(r"outside of ops .*\d [mnu]?s +\d+\.\d%$", shown[3])
    assert re.match(r"  running graphs  +<lambda>, besides its ops +1 ", shown[4])
    assert shown[5].startswith("  other Python ")
    assert "y = x @ x</td>" in p._repr_html_()


def test_lines_fit_a_terminal_of_100_columns() -> None:
    code = f"x = 1{' + 1' * 40}\n" * 30
    name = f"/{'folder/' * 9}{'a_long_name_' * 4}.py"
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    compiled = compile(code, name, "exec")
    profile = Profile()
    with profile:
        for offset in range(0, len(compiled.co_code), 2):
            event = events.OpEvent(name="add", device="cpu:0", start=1.0, stop=1.0 + offset * 1e-9)
            event.source = Source(compiled, offset)
            events.end(event)
    del linecache.cache[name]
    shown = str(profile).splitlines()
    assert max(map(len, shown)) <= 100
    assert any(" more lines " in line for line in shown)
    assert len(shown) < 22


def test_long_tables_are_cut() -> None:
    slow = [(f"slow{i}", 1.0, 1) for i in range(25)]
    p = made_of(*slow, ("small", 1e-5, 1), ("tiny", 1e-6, 5))
    shown = str(p).splitlines()
    assert sum(line.startswith("slow") for line in shown) == 20
    assert any(re.match(r"7 more +7 +5.00 s +714 ms +20.0% +11 B +5 B$", line) for line in shown)
    assert ">7 more</td>" in p._repr_html_()
    p = made_of(("large", 1.0, 1), ("small", 1e-5, 1))  # a row alone is no shorter than its sum
    assert "small " in str(p)
    assert " more" not in str(p).partition("memory")[0]


def test_it_ends_with_the_memory_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([(50, 60), (52, 60), (50, 60), (40, 80), (50, 60), (50, 60), None, None])

    def memory() -> ProcessMemory | None:
        pair = next(measured)
        return None if pair is None else ProcessMemory(*[x * 1000 for x in pair])

    monkeypatch.setattr(profiles, "process_memory", memory)
    more, risen, same, unknown = made_of(), made_of(), made_of(), made_of()
    told = "memory of this process: 52.0 kB, 2.00 kB more than at the beginning"
    assert str(more).splitlines()[-1] == told
    assert str(same).endswith("memory of this process: 50.0 kB, as at the beginning")
    told = "memory of this process: 40.0 kB, 10.0 kB less than at the beginning; at most 80.0 kB"
    assert f"{told} meanwhile" in str(risen)
    assert f"<p>{told}" in risen._repr_html_()
    assert "memory" not in str(unknown)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell")
def test_a_peak_within_the_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "process_memory", process_memory)
    before = process_memory()
    assert before is not None
    with ef.profile() as p:
        size = before.peak - before.now + (1 << 24)
        # Pages that are new: those of an array may have been freed and kept, and raise nothing.
        with mmap.mmap(-1, size) as pages:
            pages[:: mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))
    assert " meanwhile" in str(p)


def test_it_prints_html() -> None:
    p = made_of(("<b>", 0.0012, 3_000_000_000))
    html = p._repr_html_()
    assert ">1 op in 1.20 ms, of " in html
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html)
    assert cells[:4] == ["&lt;b&gt;", "cpu:0", "1", "1.20 ms"]
    assert cells[-1] == "3.00 GB"
    assert html.count("<tr>") == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5e-9, "5.00 ns"), (9.996e-4, "1000 us"), (0.0123, "12.3 ms"), (123.4, "123 s")],
)
def test_times_have_a_unit(seconds, text) -> None:
    assert str(made_of(("a", seconds, 0))).startswith(f"1 op in {text}, of")


def test_profiles_nest() -> None:
    with ef.profile() as outer:
        ef.ones(2)
        with ef.profile() as inner:
            ef.ones(2) + 1.0
        ef.ones(2)
    assert [e.name for e in inner.events] == ["full", "add"]
    assert [e.name for e in outer.events] == ["full", "full", "add", "full"]
    assert inner.seconds <= outer.seconds


def test_a_profile_may_be_of_several_blocks() -> None:
    p = ef.profile()
    assert p.seconds == 0.0
    with p, p:
        ef.ones(2)
        running = p.seconds
    between = p.seconds
    assert 0.0 < running <= between == p.seconds
    with p:
        ef.ones(2)
    assert len(p.events) == 2
    assert p.seconds > between


def test_ops_of_all_threads_are_recorded_by_name() -> None:
    step = ef.trace(lambda x: ef.exp(x).sum())
    step(ef.ones(2))

    def other() -> None:
        with ef.profile() as theirs:
            ef.ones(2) + 1.0
            step(ef.ones(2))
        assert {e.name for e in theirs.events} >= {"full", "add", "exp"}

    with ef.profile() as p:
        ef.ones(2)
        thread = threading.Thread(target=other, name="feeder")
        thread.start()
        thread.join()
    names = Counter(e.name for e in p.events if e.kind in ("op", "node"))
    assert names == {"full": 3, "add": 1, "exp": 1, "sum": 1}
    main = threading.current_thread().name
    assert {(row.name, row.calls) for row in p.threads()} == {(main, 1), ("feeder", 5)}
    shown = str(p).splitlines()
    assert shown[0].startswith("6 ops by 2 threads in ")
    assert any(re.match(r"feeder +5 ", line) for line in shown)
    assert any(line.startswith("outside of ops") and f"in {main}" in line for line in shown)
    assert stack.monitor is None


def test_ops_that_overlapped_are_told_of() -> None:
    def told(*times: tuple[float, float]) -> str:
        with ef.profile() as p:
            for start, stop in times:
                events.end(events.OpEvent(name="a", device="cpu:0", start=start, stop=stop))
        assert sum(row.share for row in p.table()) == pytest.approx(1.0)
        return str(p)

    assert "overlapped" not in told((1.0, 2.0), (2.0, 4.0), (5.0, 6.0))
    shown = told((1.0, 2.0), (1.0, 2.0), (1.5, 3.0))
    assert "ops overlapped: 3.50 s of ops ran in 2.00 s" in shown
    assert "may add up to over 100%" in shown


def test_one_thread_has_no_table() -> None:
    assert "thread  " not in str(made_of(("a", 1.0, 0)))


def test_queues_have_a_table() -> None:
    queue = ef.Queue(2, ef.tensor(0.0), name="samples")

    def read() -> None:
        queue.enqueue(ef.sin(ef.tensor(1.0)))

    with ef.profile() as p, ef.spawn(read, name="reader"):
        while not queue.resource.waiting(0):
            time.sleep(0.001)
        time.sleep(0.02)
        queue.dequeue_many(4)
    rows = {(row.operation, row.thread): row for row in p.queues()}
    put, take = rows["enqueue", "runner reader"], rows["dequeue_many", p.thread]
    assert (put.name, put.kind, put.capacity, take.calls) == ("samples", "fifo", 2, 1)
    assert put.calls >= 4
    assert put.waits >= 1
    assert 0.02 <= put.waited <= p.seconds
    assert put.mean_depth is not None
    assert 0.0 < put.mean_depth <= 2.0
    shown = str(p)
    assert re.search(r"\nsamples +\d\.\d of 2 +enqueue +runner reader ", shown)
    assert re.search(r"\n +dequeue_many +\w+ +1 ", shown)
    assert "samples</td>" in p._repr_html_()
    assert {"sin", "queue_enqueue", "queue_dequeue_many"} <= {row.name for row in p.table()}


def test_waits_are_counted_as_far_as_they_lie_in_the_block() -> None:
    queue = ef.Queue(2, ef.tensor(0.0), name="words")
    thread = threading.Thread(target=queue.dequeue, name="early")
    thread.start()
    while not queue.resource.waiting(1):
        time.sleep(0.001)
    with ef.profile() as both:
        time.sleep(0.01)
        (running,) = both.queues()
    with ef.profile() as ended:
        queue.enqueue(1.0)
        thread.join()
    (row,) = both.queues()
    assert (row.operation, row.thread, row.calls, row.waits) == ("dequeue", "early", 0, 1)
    assert 0.01 <= running.waited <= row.waited <= both.seconds
    rows = {row.operation: row for row in ended.queues()}
    assert rows["dequeue"].waits == 1
    assert 0.0 < rows["dequeue"].waited <= ended.seconds


def test_the_mean_level_is_one_over_time() -> None:
    levels = [(LevelEvent(name="q", depth=d, capacity=4, start=t), "") for d, t in ((1, 0), (3, 3))]
    done = QueueEvent(name="q", resource="fifo", operation="enqueue", stop=1.0), "main"
    (row,) = queue_statistics([*levels, done], [], 4.0, 4.0)
    assert row.mean_depth == (1 * 3 + 3 * 1) / 4
    assert (row.capacity, row.waits, row.share) == (4, 0, 0.0)
