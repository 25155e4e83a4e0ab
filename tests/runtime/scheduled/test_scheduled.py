"""Execution of lowered graphs: results, order, and endings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.lowering import lower
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled import step_state
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.threads.clock import AbstractClock
from tests.control.programs import PROGRAMS
from tests.control.programs import Program as Source
from tests.exploring import examples
from tests.numeric import tensors
from tests.programs.language import Program, Trait
from tests.programs.strategies import Call, calls, graph_of, programs
from tests.runtime.graphs import by_scheduler, scheduled
from tests.runtime.scheduled.scheduled_graphs import (
    CHAINS,
    Ops,
    X,
    fan,
    heavy,
    helped,
    loop_of,
    open_up,
    ops,
    raw,
    same,
)

__all__ = ["ops"]  # the fixture


# --- equality with structured execution -------------------------------------------------------


@pytest.mark.parametrize("source", PROGRAMS, ids=[f"{p.name}-{i}" for i, p in enumerate(PROGRAMS)])
def test_lowered_is_structured(source: Source) -> None:
    args = tensors(source.args)
    traced = ef.trace(source.f)
    traced(*args)
    graph = traced.graph(*args)
    inputs = raw([x for x in args if isinstance(x, (ef.Tensor, int, float))])
    if len(inputs) != len(graph.inputs):
        return  # some numbers are static
    want = Executable(graph)(*inputs)
    same(by_scheduler(graph)(*inputs), want)
    same(by_scheduler(graph, open_up)(*inputs), want)
    same(helped(by_scheduler(graph, open_up, heavy), inputs), want)


def test_what_takes_only_constants_runs_in_each_iteration() -> None:
    """A loop's body has constants of its own, which come without a token."""
    graph = Graph.parse("""graph f(%x: f32[2]) {
      %zero = constant() {value=0} : int
      %loop.0, %loop.1 = while_loop(%zero, %x) {cond=graph cond(%i: int, %y: f32[2]) {
        %three = constant() {value=3} : int
        %less = python_lt(%i, %three) : bool[]
        return %less
      }, body=graph body(%i: int, %y: f32[2]) {
        %one = constant() {value=1} : int
        %next = python_add(%i, %one) : int
        %numbers = constant() {value=tensor(f32[2], (0.0, 1.0))} : f32[2]
        %exp = exp(%numbers) : f32[2]
        return %next, %exp
      }} : int, f32[2]
      return %loop.1
    }""")
    (result,) = by_scheduler(graph, open_up)(ef.tensor([1.0, 2.0]).numpy())
    assert result.tobytes() == ef.exp(ef.tensor([0.0, 1.0])).numpy().tobytes()


@given(programs(Trait.SMOOTH), calls(1, 2, 3, count=1))
@settings(max_examples=examples(12))
def test_nested_programs_with_helpers(program: Program, made: list[Call]) -> None:
    """Runs of a single thread are a column of `tests.programs`."""
    with ef.config(cpu_devices=2):
        graph, inputs, state = graph_of(program, made[0])
        seen = []
        for run in (Executable(graph), lambda *x: helped(by_scheduler(graph, open_up, heavy), x)):
            state.reset()
            results = run(*raw(inputs))
            seen.append((results, [v.numpy() for v in state.variables], state.generator.state))
    same(seen[1][0], seen[0][0])
    same(seen[1][1], seen[0][1])
    assert seen[1][2] == seen[0][2]


def test_a_lowered_text_runs() -> None:
    """The text of the graph has all information needed."""
    inner = [("set", 0, 1, 0), ("branch", 1, 1, 0, [("set", 1, 2, 1)], [("smooth", 0, 1, 0)])]
    body = [("while", 0, 3, 1, inner), ("scan", 0, 1, 0, inner)]
    with ef.config(cpu_devices=2):
        graph, inputs, _ = graph_of(Program(body), Call(3, 2))
        again = Graph.parse(str(lower(graph, open_up)))
        results = ScheduledStep(ScheduledTier(again)).run(raw(inputs))
        same(results, Executable(graph)(*raw(inputs)))


# --- choices ----------------------------------------------------------------------------------


def test_one_region_has_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(step_state, "Scheduler")
    for source in PROGRAMS:
        args = tensors(source.args)
        ef.trace(source.f)(*args)


# --- threads ----------------------------------------------------------------------------------


def test_heavy_scheduled_nodes_run_at_once(ops: Ops) -> None:
    both = threading.Barrier(2, timeout=30)
    names = set()

    def meet(x: Any) -> Any:
        both.wait()
        names.add(threading.current_thread().name)
        return x * 2

    ops.add("test_meet", meet)
    (result,) = helped(by_scheduler(fan("test_meet", "test_meet"), seconds=heavy), [X])
    assert result.tolist() == [4.0, 8.0]
    assert len(names) == 2
    assert any(name.startswith("eagerflow-worker-") for name in names)


def test_python_of_the_user_runs_in_the_thread_that_asked(ops: Ops) -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append(threading.current_thread())
        return x

    ops.add("test_look", look, "fence")
    helped(by_scheduler(fan("exp", "test_look", "sin", "test_look", "cos"), seconds=heavy), [X])
    assert seen == [threading.main_thread()] * 2


def test_python_that_runs_graphs_itself() -> None:
    inner = by_scheduler(Graph.parse(CHAINS.replace("512", "2")), seconds=heavy)

    def call(x: Any) -> Any:
        two = ef.stack([x, x]).numpy()
        (result,) = ScheduledStep(scheduled(inner), helpers=1).run([two, two])
        return ef.tensor(result).sum(axis=0) / 16

    graph, given = loop_of(lambda x, i: ef.py_call(call, "f32[2]", x), iterations=1000)
    step = ScheduledStep(scheduled(by_scheduler(graph, open_up, heavy)), helpers=1)
    same(step.run(given), Executable(graph)(*given))


def test_steps_of_many_threads(ops: Ops) -> None:
    runner = by_scheduler(fan("exp", "sin", "cos", "tanh"), seconds=heavy)
    (want,) = runner(X)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(50):
            (result,) = helped(runner, [X])
            if result.tobytes() != want.tobytes():
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- TensorFlow's behaviours ------------------------------------------------------------------


def test_only_the_branch_that_is_taken_has_effects() -> None:
    seen: list[str] = []

    def tell(word: str) -> Callable[[], Any]:
        def call(x: Any) -> Any:
            seen.append(word)
            return x

        return lambda x: ef.py_call(call, "f32[2]", x)

    @ef.trace
    def f(x: Any) -> Any:
        before = tell("before")(x)
        y = ef.cond(x.sum() > 0, lambda: tell("yes")(x), lambda: tell("no")(x))
        return before + y + tell("after")(x)

    graph = f.graph(ef.tensor(X))
    runner = by_scheduler(graph, open_up, heavy)
    seen.clear()
    helped(runner, [X])
    assert seen == ["before", "yes", "after"]
    seen.clear()
    helped(runner, [-X])
    assert seen == ["before", "no", "after"]


@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_effects_of_iterations_keep_their_order(parallel: int) -> None:
    seen: list[Any] = []

    def body(x: Any, i: Any) -> Any:
        def inner(x: Any, j: Any) -> Any:
            ef.py_call(lambda i, j: seen.append((int(i), int(j))), None, i, j)
            return ef.sin(x), j + 1

        return ef.while_loop(lambda x, j: j < i, inner, (x, 0), parallel_iterations=parallel)[0]

    graph, given = loop_of(body, 4, parallel_iterations=parallel)
    seen.clear()
    helped(by_scheduler(graph, open_up, heavy), given)
    assert seen == [(i, j) for i in range(4) for j in range(i)]


def test_no_iterations() -> None:
    v = ef.Variable(1.0)

    def body(x: Any, i: Any) -> Any:
        v.assign_add(1.0)
        return x + v

    graph, given = loop_of(body, 0)
    same(by_scheduler(graph, open_up)(*given), [X])
    assert v.numpy() == 1.0


@pytest.mark.parametrize(("parallel", "most"), [(1, 1), (3, 3), (10, 5)])
def test_so_many_iterations_overlap(ops: Ops, parallel: int, most: int) -> None:
    """An iteration starts before the results of earlier ones are there, unless it needs them."""
    waiting: list[Completion] = []
    widest = 0

    def begin(node: Any, inputs: list[Any], completion: Completion) -> None:
        nonlocal widest
        waiting.append(completion)
        widest = max(widest, len(waiting))

    class Answers(AbstractClock):
        def now(self) -> float:
            return 0.0

        def wait(self, bell: threading.Lock, seconds: float | None) -> None:
            waiting.pop(0).done(X)

    ops.wait("test_wait", begin)
    lowered = f"""graph f(%x: f32[2]@cpu:0) {{
      %zero = constant() {{value=0}} : int
      %start = Enter(%zero) {{frame="loop", parallel_iterations={parallel}}} : int
      %i = Merge(%start) {{back="next"}} : int
      %value = Enter(%x) {{frame="loop", invariant=True, parallel_iterations={parallel}}}
        : f32[2]@cpu:0
      %end = constant() {{value=5}} : int
      %goes_on = python_lt(%i, %end) : bool[]@cpu:0
      %s.0, %s.1 = Switch(%i, %goes_on) : int, int
      %v.0, %v.1 = Switch(%value, %goes_on) : f32[2]@cpu:0, f32[2]@cpu:0
      %y = test_wait(%v.0) : f32[2]@cpu:0
      %one = constant() {{value=1}} : int
      %j = python_add(%s.0, %one) : int
      &next: NextIteration(%j)
      %n = Exit(%s.1) : int
      return %n }}"""
    assert ScheduledStep(ScheduledTier(Graph.parse(lowered)), clock=Answers()).run([X]) == (5,)
    assert widest == most


def test_invariants_go_in_once() -> None:
    graph, given = loop_of(lambda x, i: ef.sin(x) + i, 6)
    runner = by_scheduler(graph, open_up)
    one = scheduled(runner).step(log=True)
    one.run(given)
    enters = [
        i for i, label in enumerate(scheduled(runner).plan.labels) if label.startswith("enter")
    ]
    numbers = {scheduled(runner).plan.positions[i][1] for i in enters}
    runs = [x for _, out in one.log or [] for x in out if x[0] == "run" and x[1] == 0]
    assert not any(node in numbers for _, _, node in runs)  # tokens pass, nothing is computed
