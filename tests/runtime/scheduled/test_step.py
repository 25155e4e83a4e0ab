"""Steps of the executor: their errors, the values held, and scheduled nodes that wait."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import op as op_module
from eagerflow.core.op import bind
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.threads import workers
from eagerflow_kernels import table
from tests.exploring import examples
from tests.programs.language import Program, Trait
from tests.programs.strategies import Call, graph_of, programs
from tests.runtime.graphs import by_scheduler, scheduled
from tests.runtime.scheduled.scheduled_graphs import (
    Ops,
    X,
    chain,
    fan,
    heavy,
    loop_of,
    notes,
    open_up,
    ops,
)

__all__ = ["ops"]  # the fixture


# --- errors -----------------------------------------------------------------------------------


def test_an_error_has_line_iteration_and_what_was_written() -> None:
    v = ef.Variable(0.0, name="v")

    def body(x: Any, i: Any) -> Any:
        def inner(y: Any, j: Any) -> Any:
            return y + x[i * j], j + 1  # the line

        v.assign_add(1.0)
        return ef.while_loop(lambda y, j: j < 2, inner, (x, 0))[0]

    graph, given = loop_of(body, 5, parallel_iterations=1)  # else later iterations had begun
    messages = []
    for run in (Executable(graph), by_scheduler(graph), by_scheduler(graph, open_up)):
        v.assign(0.0)
        with pytest.raises(errors.TensorIndexError) as caught:
            run(*given)
        assert v.numpy() == 3.0
        assert "# the line" in str(caught.value.source)
        iterations = [n for n in notes(caught.value) if "iteration" in n]
        assert len(iterations) == 2
        messages.append((str(caught.value), iterations))
        assert any("%getitem" in n for n in notes(caught.value))
    assert messages[0] == messages[1] == messages[2]
    assert any("already written" in n and "v" in n for n in notes(caught.value))


def test_a_branch_that_is_not_there() -> None:
    @ef.trace
    def f(x: Any, i: Any) -> Any:
        return ef.switch(i, [ef.sin, ef.cos], x)  # the line

    graph = f.graph(ef.tensor(X), ef.tensor(1))
    run = by_scheduler(graph, open_up)
    with pytest.raises(errors.TensorIndexError, match="there is no such branch") as caught:
        run(X, np.asarray(7))
    assert "# the line" in str(caught.value.source)


class _Raced(deque[Any]):
    """A queue whose nodes another thread takes during an iteration over it."""

    def __iter__(self) -> Iterator[Any]:
        jobs = list(super().__iter__())
        self.clear()
        return iter(jobs)


@pytest.mark.parametrize(("kind", "answers"), [(deque, 1), (_Raced, 0)])
def test_a_node_is_stopped_or_taken(kind: type[deque[Any]], answers: int) -> None:
    graph = ef.trace(ef.exp).graph(ef.tensor(X))
    step = ScheduledStep(scheduled(by_scheduler(graph)))
    queue = kind([(0, 0, ()), (0, 1, ()), (1, 1, ())])
    step._queues = (queue, queue, queue)
    step._stop(("stop", 0, 1))
    assert len(step._answers) == answers
    assert (0, 1, ()) not in list(queue)
    step.end()


@settings(max_examples=examples(5))
@given(programs(Trait.SMOOTH, ["assign", "draw", "read", "gradient"]), st.integers(0, 30))
@example(program=Program([("detached", 0, 0, 0)], False), after=1)
def test_failures_leave_nothing(program: Program, after: int) -> None:
    ops, count = Ops(), 0
    kept: list[weakref.ref[Any]] = []

    def work(x: Any) -> Any:
        nonlocal count
        count += 1
        if count > after:
            raise RuntimeError("as planned")
        half = x * 0.5
        kept.append(weakref.ref(half))
        return half

    ops.add("test_work", work)
    try:
        work_on = [("of_rule", k, 0, 0) for k in range(3)]
        body = [*work_on, *program.body, *work_on]
        with ef.config(cpu_devices=2):
            graph, inputs, _ = graph_of(
                Program(body, program.python), Call(3, 2),
                rule=lambda x: bind(op_module.get_op("test_work"), x),
            )  # fmt: skip
        step = ScheduledStep(scheduled(by_scheduler(graph, open_up, heavy)), helpers=2)
        count = 0
        kept.clear()
        with suppress(errors.KernelError):
            step.run([x.numpy() for x in inputs])
        gc.collect()
        assert not [r for r in kept if r() is not None]
        assert not step._values
        assert not step._helping
    finally:
        workers.shared.close()
        ops.remove()


def test_values_go_as_soon_as_nobody_reads_them(ops: Ops) -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def look(x: Any) -> Any:
        alive.append(sum(r() is not None for r in seen))
        seen.append(weakref.ref(x))
        return x + 1

    ops.add("test_look", look, "fence")
    runner = by_scheduler(chain(*["test_look"] * 6), open_up)
    runner(X.copy())
    assert max(alive) <= 2  # its operand, and its operand's operand


def test_a_loop_holds_what_its_iterations_need(ops: Ops) -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def look(x: Any) -> Any:
        alive.append(sum(r() is not None for r in seen))
        seen.append(weakref.ref(x))
        return x + 1

    ops.add("test_look", look, "fence")
    look_op = op_module.get_op("test_look")
    graph, given = loop_of(lambda x, i: bind(look_op, ef.sin(x)), 50)
    seen.clear()
    alive.clear()
    by_scheduler(graph, open_up)(*given)
    assert len(alive) == 50
    assert max(alive) <= 2


def test_kernels_that_are_registered_anew_count(ops: Ops) -> None:
    ops.add("test_new", lambda x: x + 1)
    runner = by_scheduler(chain("test_new", "exp", "test_new"), open_up)
    before = runner(X)
    table.portable("test_new")(lambda xp, x: x + 2)
    assert runner(X)[0][0] > before[0][0]


# --- scheduled nodes that wait without a thread ------------------------------------------------


def test_scheduled_nodes_that_wait_hold_no_thread(ops: Ops) -> None:
    """Waits overlap, and are answered from another thread, in any order."""
    waiting: list[tuple[Completion, Any]] = []
    threads = []

    def begin(node: Any, inputs: list[Any], completion: Completion) -> None:
        waiting.append((completion, inputs[0]))
        if len(waiting) == 3:
            thread = threading.Thread(target=answer)
            threads.append(thread)
            thread.start()

    def answer() -> None:
        for completion, x in reversed(waiting):
            completion.done(x * 2)
            completion.done(x * 3)  # ignored: the wait is over

    ops.wait("test_wait", begin)
    runner = by_scheduler(fan("test_wait", "test_wait", "test_wait"))
    (result,) = runner(X)
    threads[0].join()
    assert result.tolist() == [6.0, 12.0]


def test_an_answer_may_come_at_once(ops: Ops) -> None:
    ops.wait("test_wait", lambda node, inputs, completion: completion.done(inputs[0] + 1))
    (result,) = by_scheduler(chain("test_wait", "test_wait"))(X)
    assert result.tolist() == [3.0, 4.0]


def test_a_wait_can_fail(ops: Ops) -> None:
    stopped = []

    def begin(node: Any, inputs: list[Any], completion: Completion) -> Any:
        if "0" in node.name:
            completion.failed(errors.QueueClosedError("the queue was closed"))
        return lambda: stopped.append(node.name)

    ops.wait("test_wait", begin)
    with pytest.raises(errors.QueueClosedError) as caught:
        by_scheduler(fan("test_wait", "test_wait"))(X)
    assert any("node: %v0 = test_wait" in n for n in notes(caught.value))
    assert stopped in ([], ["v1"])  # if it had begun


def test_a_start_can_fail(ops: Ops) -> None:
    def begin(node: Any, inputs: list[Any], completion: Completion) -> None:
        raise RuntimeError("no connection")

    ops.wait("test_wait", begin)
    with pytest.raises(RuntimeError, match="no connection"):
        by_scheduler(chain("test_wait"))(X)


def test_a_value_that_was_never_made_is_an_error(ops: Ops) -> None:
    """The value is of a branch not taken, or the completion of a waiting op did not give it."""
    graph = Graph.parse(
        "graph f(%x: f32[2]@cpu:0, %p: bool[]@cpu:0) {"
        "  %s.0, %s.1 = Switch(%x, %p) : f32[2]@cpu:0, f32[2]@cpu:0 return %s.1 }"
    )
    tier = ScheduledTier(graph)
    assert tier.run([X, np.asarray(False)])[0].tolist() == X.tolist()
    with pytest.raises(errors.SchedulerError, match=r"the step has ended, and %s.1 was not made"):
        tier.run([X, np.asarray(True)])
    ops.wait("test_wait", lambda node, inputs, completion: completion.done())
    with pytest.raises(errors.SchedulerError, match="was not made"):
        by_scheduler(chain("test_wait"))(X)
