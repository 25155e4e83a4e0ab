"""The choice between one generated function and scheduled nodes in several threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors, events
from eagerflow.core.op import bind, get_op
from eagerflow.events import AbstractEvent, RegionEvent, StepEvent, instruments
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, generated_or_scheduled
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from eagerflow.runtime.generated_or_scheduled import Choice, Decision, Trial
from eagerflow.runtime.scheduled import step_state
from tests.runtime.graphs import by_scheduler, scheduled, straight
from tests.runtime.scheduled.scheduled_graphs import CHAINS, Ops, heavy, helped, ops, same

__all__ = ["ops"]  # the fixture

SIZE = 300_000  # exp of so many elements is estimated at 2 ms
CHAIN = "graph f(%x: f32[n]) { %a = exp(%x) : f32[n] %b = exp(%a) : f32[n] return %b }"
TWO = """graph two(%x: f32[n]) {
  %a = exp(%x) : f32[n] in "left"
  %b = sin(%x) : f32[n] in "right"
  %c = add(%a, %b) : f32[n] in "end"
  return %c }"""


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the scheduled tier count as faster."""
    monkeypatch.setattr(generated_or_scheduled, "_GAIN", float("inf"))


def settle(run: Callable[[], Any]) -> None:
    """Run until the choice is made."""
    for _ in range(2 * (generated_or_scheduled._TIMED_RUNS + 1)):
        run()


def x() -> Any:
    return np.linspace(-1, 1, SIZE, dtype=np.float32)


# --- the choice -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["traced", "graph.run", "gradient"])
def test_heavy_branches_of_traced_functions_run_at_once(ops: Ops, way: str) -> None:
    """Each branch waits until the other one runs, too."""
    both = threading.Barrier(2, timeout=60)

    def meet(data: Any) -> Any:
        both.wait()
        return data * 2

    ops.add("test_meet", meet)
    op = get_op("test_meet")

    @ef.trace
    def f(x: Any) -> Any:
        return bind(op, ef.stop_gradient(x) + 1) + bind(op, ef.stop_gradient(x) - 1) * x

    data = ef.tensor(x())
    if way == "traced":
        result = f(data)
    elif way == "graph.run":
        graph = f.graph(data)
        (result,) = graph.run(graph.outputs, {graph.inputs[0]: data})
    else:
        result = ef.grad(lambda x: f(x).sum())(data)
        assert result.tolist()[:1] == [-4.0]
        return
    want = (x() + 1) * 2 + (x() - 1) * 2 * x()
    assert result.numpy().tobytes() == want.tobytes()


def test_the_faster_way_is_kept() -> None:
    inputs = [x()]
    for whole, cut, faster in ((1.0, 0.6, True), (1.0, 0.99, False), (1.0, 2.0, False)):
        graph = Graph.parse(TWO)
        generated = GeneratedTier(graph)
        one = Choice(generated, graph)
        ways = []
        late = one.pick(inputs)
        for iteration in range(2 * (generated_or_scheduled._TIMED_RUNS + 1)):
            trial = one.pick(inputs)
            assert isinstance(trial, Trial)
            ways.append(trial.name)
            first = 10.0 if iteration < 2 else 0.0  # the first runs compile
            trial.took(first + (whole if trial.tier is generated else cut))
        assert ways == ["scheduled", "generated"] * (generated_or_scheduled._TIMED_RUNS + 1)
        assert one.pick(inputs).name == ("scheduled" if faster else "generated")
        assert isinstance(late, Trial)
        late.took(1e-9)
        assert one.pick(inputs).name == ("scheduled" if faster else "generated")


def test_a_step_is_booked_to_its_own_decision() -> None:
    """In the meantime another thread may have picked a tier for other sizes."""
    graph = Graph.parse(TWO)
    one = Choice(GeneratedTier(graph), graph)
    first = one.pick([x()])
    second = one.pick([np.ones(64 * SIZE, np.float32)])
    assert isinstance(first, Trial)
    assert isinstance(second, Trial)
    first.took(1.0)
    taken = [decision.seconds for decision in one._decisions.values()]
    assert taken == [([], [1.0]), ([], [])]


def test_the_time_of_instruments_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    late = 0.0

    def clock() -> float:
        return time.perf_counter() + late

    class Slow:
        kinds = frozenset({StepEvent, RegionEvent})

        def begin(self, event: AbstractEvent) -> None:
            nonlocal late
            late += 1000.0

        end = begin

    monkeypatch.setattr(Trial, "took", lambda self, seconds: taken.append(seconds))
    monkeypatch.setattr(generated_or_scheduled, "perf_counter", clock)
    monkeypatch.setattr(instruments, "perf_counter", clock)
    monkeypatch.setattr(Decision, "pick", lambda self, generated: Trial(generated, self))
    program = Executable(Graph.parse(TWO))
    events.add_instrument(slow := Slow())
    try:
        program(x())
    finally:
        events.remove_instrument(slow)
    assert late == 4000.0
    assert 0.0 < taken[0] < 1000.0


@pytest.mark.parametrize(
    ("text", "size", "needed"),
    [(TWO, SIZE, True), (TWO, 100, False), (CHAIN, SIZE, False), (CHAIN, 100, False)],
)
def test_what_is_looked_at(text: str, size: int, needed: bool) -> None:
    """The choice depends on sizes, and on work beside the longest path."""
    data = np.ones(size, np.float32)
    graph = Graph.parse(text)
    one = Choice(GeneratedTier(graph), graph)
    one.pick([data])
    assert one.needed is needed
    program = Executable(graph)
    program(data)
    assert (program._direct is None) is needed


def test_it_is_decided_for_each_size_anew(always: None) -> None:
    """Long inputs may be scheduled after a first call with short inputs, and vice versa."""
    short, long = np.ones(SIZE // 32, np.float32), x()
    for first, second in ((short, long), (long, short)):
        program = Executable(Graph.parse(TWO))
        for data in (first, second, first, second):
            settle(partial(program, data))
            assert program.tier.name == ("scheduled" if data is long else "generated")
        same(program(long), straight(Graph.parse(TWO))(long))


def test_lengths_that_are_alike_share_a_decision(always: None) -> None:
    graph = Graph.parse(TWO)
    one = Choice(GeneratedTier(graph), graph)
    for size in range(SIZE, 2 * SIZE, 1000):
        trial = one.pick([np.empty(size, np.float32)])
        if isinstance(trial, Trial):
            trial.took(1.0)
    assert len(one._decisions) <= 2
    graph = Graph.parse(CHAINS)
    fixed = Choice(GeneratedTier(graph), graph)
    fixed.pick([np.ones((512, 512), np.float32)] * 2)
    assert len(fixed._decisions) == 1


def test_one_function_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(step_state, "Scheduler")
    straight(Graph.parse(TWO))(x())


def test_threads_that_are_changed_afterwards_count(always: None) -> None:
    program = Executable(Graph.parse(CHAINS))
    data, other = np.ones((512, 512), np.float32), np.full((512, 512), 0.5, np.float32)
    want = straight(Graph.parse(CHAINS))(data, other)

    def by_scheduler() -> bool:
        settle(lambda: same(program(data, other), want))
        return program.tier.name == "scheduled"

    with ef.config(threads=1):
        want = straight(Graph.parse(CHAINS))(data, other)
        assert by_scheduler()
        assert sorted(scheduled(program).plan.labels) == ["a … c", "b … d", "e"]
    with ef.config(threads=2):  # the library takes both cores: another thread gains nothing
        want = straight(Graph.parse(CHAINS))(data, other)
        assert not by_scheduler()
    with ef.config(threads=1):
        want = straight(Graph.parse(CHAINS))(data, other)
        assert by_scheduler()


def test_branches_in_branches_and_loops() -> None:
    """Bodies with heavy parts are lowered; a pure loop is one scheduled node."""
    data = ef.tensor(x())

    def two(x: Any) -> Any:
        return ef.exp(x) + ef.sin(x)

    @ef.trace
    def chosen(x: Any) -> Any:
        return ef.cond(x[0] < 0, two, lambda x: x, x)

    @ef.trace
    def looped(x: Any) -> Any:
        return ef.while_loop(lambda x, i: i < 3, lambda x, i: (two(x), i + 1), (x, 0))[0]

    for f, opened in ((chosen, True), (looped, False)):
        graph = f.graph(data)
        program = Executable(graph)
        want = straight(graph)(data.numpy())
        same(program(data.numpy()), want)
        assert program.tier.name == ("scheduled" if opened else "generated")


def test_a_loop_with_effects_is_opened_only_if_it_is_heavy_inside() -> None:
    v = ef.Variable(0.0)

    def program(large: bool) -> Executable:
        def body(x: Any, i: Any) -> Any:
            v.assign_add(1.0)
            return (ef.exp(-x) + ef.sin(x) if large else x), i + 1

        def f(x: Any) -> Any:
            y = ef.while_loop(lambda x, i: i < 3, body, (x, 0))[0]
            return ef.exp(x) + ef.sin(x) + y

        made = Executable(ef.trace(f).graph(ef.tensor(x())))
        v.assign(0.0)
        want = straight(made.graph)(x())
        same(made(x()), want)
        assert v.numpy() == 6.0
        return made

    for large in (True, False):
        assert (len(scheduled(program(large)).frames) == 2) is large


# --- views of steps ---------------------------------------------------------------------------


def test_profiles_show_all_nodes(always: None, tmp_path: Path) -> None:
    """The nodes of helper threads are included, with the step around them."""
    program = Executable(Graph.parse(TWO))
    for settled in (False, True):
        if settled:
            settle(lambda: program(x()))
        with ef.profile() as p:
            program(x())
        nodes = [e for e in p.events if e.kind == "node"]
        assert sorted((e.node, e.scope, e.graph) for e in nodes) == [
            ("a", "left", "two"), ("b", "right", "two"), ("c", "end", "two"),
        ]  # fmt: skip
        assert {e.executable for e in p.events} == {program.number}
        (whole,) = [e for e in p.events if e.kind == "step"]
        assert whole.thread == threading.get_ident()
        assert all(whole.start <= e.start and e.stop <= whole.stop for e in nodes)
        p.save(tmp_path / "trace.json")
    with ef.profile() as p:
        thread = threading.Thread(target=lambda: program(x()))
        thread.start()
        thread.join()
    assert sorted(e.node for e in p.events if e.kind == "node") == ["a", "b", "c"]
    (whole,) = [e for e in p.events if e.kind == "step"]
    assert whole.thread == thread.ident


def test_the_text_is_that_of_what_runs(always: None) -> None:
    f = ef.trace(lambda x: ef.exp(x) + ef.sin(x))
    data = ef.tensor(x())
    settle(lambda: f(data))
    text = f.ir("python")
    assert text.count("def run(") == 3
    assert "# exp, on a thread of its own\n" in text
    assert "run op by op on" in str(f.explain())


def test_kernels_that_are_registered_anew_count(always: None, add_kernel: Any) -> None:
    program = Executable(Graph.parse(TWO))
    settle(lambda: program(x()))
    add_kernel("exp", lambda xp, x: x + 41)
    add_kernel("sin", lambda xp, x: x - x)
    same(program(x()), [x() + 41])


def test_errors_are_the_same(always: None) -> None:
    v = ef.Variable(0.0, name="v")

    @ef.trace
    def f(x: Any, y: Any) -> Any:
        v.assign_add(1.0)
        return (ef.exp(x) + ef.sin(x)) @ y  # the line

    ok, bad = ef.tensor(x()), ef.ones(3)
    f(ok, ef.ones(SIZE))
    f(ok[1:], ok[1:])  # the sizes are symbolic from now on
    messages = []
    for _ in range(2 * (generated_or_scheduled._TIMED_RUNS + 1)):
        v.assign(0.0)
        with pytest.raises(errors.ShapeError) as caught:
            f(ok, bad)
        assert v.numpy() == 1.0
        messages.append((str(caught.value), caught.value.__notes__))
    assert all(message == messages[0] for message in messages)
    assert "# the line" in str(messages[0][0])
    assert messages[0][1][-1] == "  this step had already written: variable 'v' f32[]@cpu:0"


# --- memory -----------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6))
def test_parts_write_into_buffers_that_nobody_needs(seed: int) -> None:
    """Large arrays, some of which are read by several parts, or are given to the caller."""
    source = random.Random(seed)
    kind = "f32[200,100]@cpu:0"
    names, lines = ["x", "y"], []
    for i in range(source.randint(4, 25)):
        op = source.choice(["add", "multiply", "maximum", "sin", "negative", "permute_dims"])
        inputs = [source.choice(names[-6:]) for _ in range(1 if op[0] in "snp" else 2)]
        attrs = " {axes=(0, 1)}" if op == "permute_dims" else ""
        lines.append(f"%v{i} = {op}({', '.join(f'%{n}' for n in inputs)}){attrs} : {kind}")
        names.append(f"v{i}")
    ends = ", ".join(f"%{n}" for n in sorted({names[-1], source.choice(names[2:])}))
    text = f"graph f(%x: {kind}, %y: {kind}) {{ {' '.join(lines)} return {ends} }}"
    graph = Graph.parse(text)
    inputs = [np.linspace(-1, 1, 20_000, dtype=np.float32).reshape(200, 100) * k for k in (1, 2)]
    before = [x.tobytes() for x in inputs]
    want = [y.copy() for y in straight(graph)(*inputs)]
    for made in (graph, graph.optimise()):
        runner = by_scheduler(made, seconds=heavy)
        kept = runner(*inputs)
        for _ in range(2):
            same(helped(runner, inputs), want)
        same(kept, want)
    assert [x.tobytes() for x in inputs] == before


def test_a_part_writes_into_what_another_gave(ops: Ops) -> None:
    """As in one function, the memory of a sum is that of one of its terms."""
    seen: list[Any] = []

    def look(data: Any) -> Any:
        seen.append(data.__array_interface__["data"][0])
        return data

    ops.add("test_look", look)
    kind = "f32[200,100]@cpu:0"
    graph = Graph.parse(
        f"""graph f(%x: {kind}) {{
          %a = exp(%x) : {kind}
          %b = sin(%x) : {kind}
          %c = add(%a, %b) : {kind}
          %d = test_look(%c) : {kind}
          return %d }}"""
    ).optimise()
    runner = by_scheduler(graph, seconds=heavy)
    assert len(scheduled(runner).plan.labels) >= 3
    taken: list[Any] = []
    for frame in scheduled(runner).frames:
        for action in frame.actions:
            action.call = _noting(action.call, taken)
    data = np.zeros((200, 100), np.float32)
    runner(data)
    assert seen[0] in taken
    assert seen[0] != data.__array_interface__["data"][0]


def _noting(call: Any, addresses: list[Any]) -> Any:
    def run(values: list[Any]) -> Any:
        addresses.extend(x.__array_interface__["data"][0] for x in values)
        return call(values)

    return run
