"""Linearizability of queues and variables: each concurrent history has a sequential equivalent."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import CancelledError, EagerflowError
from eagerflow.resources.queue_kinds import KINDS, SequenceStore
from eagerflow.resources.queue_state import QueueState
from tests.exploring import examples
from tests.resources.histories import CAPACITY, Recorder, model_of
from tests.resources.linear import Operation, is_linearizable

ACTIONS = st.tuples(
    st.sampled_from(
        ["enqueue_many", "enqueue_many", "dequeue_many", "dequeue_many", "up_to", "size", "close",
         "cancel"]
    ),
    st.integers(0, 4),
    st.integers(0, 2),
)  # fmt: skip


def is_right(recorder: Recorder) -> bool:
    history = recorder.history()
    if recorder.gave_back:
        history = [op for op in history if op.kind != "size"]
    model = model_of(recorder.kind, bounded=not recorder.gave_back)
    return is_linearizable(history, ((), False), model)


def test_the_checker_sees_what_is_wrong() -> None:
    """Found: an element taken before it was put, twice, out of order, or without being put."""

    def history(*rows: tuple[str, float, float, list[tuple[str, Any]]]) -> list[Operation]:
        return [Operation(kind, start, end, moves) for kind, start, end, moves in rows]

    put = [("enqueue", 0.0, 1.0, [("put", 1)]), ("enqueue", 2.0, 3.0, [("put", 2)])]
    model = model_of("fifo", True)

    def right(*rows: tuple[str, float, float, list[tuple[str, Any]]]) -> bool:
        return is_linearizable(history(*put, *rows), ((), False), model)

    assert right(("dequeue", 4, 5, [("take", 1)]), ("dequeue", 6, 7, [("take", 2)]))
    assert right(("dequeue", 4, 9, [("take", 2)]), ("dequeue", 5, 6, [("take", 1)]))
    assert not right(("dequeue", 4, 5, [("take", 2)]), ("dequeue", 6, 7, [("take", 1)]))
    assert not right(("dequeue", 4, 5, [("take", 1)]), ("dequeue", 6, 7, [("take", 1)]))
    assert not right(("dequeue", 0.2, 0.5, [("take", 2)]))
    assert not right(("dequeue", 4, 5, [("take", 3)]))
    assert not right(("size", 4, 5, [("size", 1)]))


@pytest.mark.parametrize("kind", KINDS)
@given(actions=st.lists(ACTIONS, max_size=10), seed=st.integers(0, 9))
@settings(max_examples=examples(120))
def test_attempts_in_any_order(kind: str, actions: list[tuple[str, int, int]], seed: int) -> None:
    """Operations wait, are cancelled, and end, in all possible ways."""
    recorder = Recorder(kind, seed)
    for action, count, priority in actions:
        if action != "cancel":
            recorder.begin(action, count, priority)
        elif recorder.begun:
            op, attempt, _ = recorder.begun[count % len(recorder.begun)]
            if op.kind != "size":
                attempt.cancel(lambda: CancelledError("as planned"))
    assert is_right(recorder)


@pytest.mark.parametrize("kind", KINDS)
@given(actions=st.lists(ACTIONS, max_size=14), seed=st.integers(0, 9))
@settings(max_examples=examples(120))
def test_nothing_is_lost(kind: str, actions: list[tuple[str, int, int]], seed: int) -> None:
    """All elements put are either taken or still there: in the queue, or held by a waiting take."""
    recorder = Recorder(kind, seed)
    for action, count, priority in actions:
        if action == "cancel" and recorder.begun:
            attempt = recorder.begun[count % len(recorder.begun)][1]
            attempt.cancel(lambda: CancelledError("as planned"))
        elif action != "cancel":
            recorder.begin(action, count, priority)
    put = [x for op in recorder.history() for kind_, x in op.moves if kind_ == "put"]
    taken = [
        x
        for op, attempt, _ in recorder.begun
        if op.kind in ("dequeue_many", "up_to")
        for x in recorder.taken(attempt)
    ]
    store = recorder.queue.store
    left = [recorder.shown(store.element(e)) for e in store.items]
    assert sorted(taken + left) == sorted(put)


@pytest.fixture
def _fast_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*jobs: Callable[[], object]) -> None:
    """Run each job in a thread of its own, all started at the same moment."""
    start = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        start.wait()
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


PROGRAMS = st.lists(st.lists(ACTIONS, min_size=1, max_size=3), min_size=2, max_size=4)


@pytest.mark.usefixtures("_fast_switching")
@pytest.mark.parametrize("kind", KINDS)
@given(programs=PROGRAMS)
@settings(max_examples=examples(40))
def test_queues_of_threads(kind: str, programs: list[list[tuple[str, int, int]]]) -> None:
    """Threads wait for real; at the end the queue is closed, so that none waits for ever."""
    recorder = Recorder(kind)
    lock = threading.Lock()
    running = len(programs)

    def work(program: list[tuple[str, int, int]]) -> None:
        nonlocal running
        for action, count, priority in program:
            if action in ("size", "cancel"):
                continue
            attempt, brought = recorder.make(action, count, priority)
            op = Operation(action, next(recorder.time))
            with lock:
                recorder.begun.append((op, attempt, brought))
            with suppress(EagerflowError):
                attempt.wait()
            op.end = next(recorder.time)
        with lock:
            running -= 1

    def close() -> None:
        while True:
            with lock:
                left = running
            waits = recorder.queue.waiting(0) + recorder.queue.waiting(1)
            if waits >= left:
                break
        recorder.queue.cancel_and_close()

    op = Operation("close", next(recorder.time))
    recorder.begun.append((op, recorder.queue.close(), None))
    at_once(close, *[lambda program=program: work(program) for program in programs])
    history = recorder.history()
    closes = [op, *[operation for operation in history if operation.moves == [("close", None)]]]
    model = model_of(kind, bounded=not recorder.gave_back)

    def is_right_if_closed_by(closer: Operation) -> bool:
        """Other closes came later: they are then silent, and end the waits."""
        for operation in closes:
            operation.moves = [("close", None)] if operation is closer else []
        return is_linearizable(history, ((), False), model)

    assert any(map(is_right_if_closed_by, closes))


def programs_of(*names: str) -> st.SearchStrategy[Any]:
    """The calls of one or two threads, each with a number of elements and a length."""
    call = st.tuples(st.sampled_from(names), st.integers(1, 3), st.integers(1, 3))
    return st.lists(st.lists(call, min_size=1, max_size=3), min_size=1, max_size=2)


@pytest.mark.usefixtures("_fast_switching")
@given(
    producers=programs_of("enqueue", "enqueue_many"),
    consumers=programs_of("dequeue", "dequeue_many", "up_to"),
)
@settings(max_examples=examples(40))
def test_padding_queues_of_threads(
    producers: list[list[tuple[str, int, int]]], consumers: list[list[tuple[str, int, int]]]
) -> None:
    """Elements of several lengths through `ef.Queue`, in fifo order; batches are as wide as their
    longest element."""
    queue = ef.Queue(CAPACITY, "i64[n]", kind="padding")
    time, values, history = itertools.count(), itertools.count(1), list[Operation]()

    def rows(batch: Any) -> list[tuple[int, ...]]:
        elements = [tuple(x for x in row if x) for row in batch.tolist()]
        assert batch.shape[1] == max(map(len, elements))
        assert all(
            row[: len(f)] == list(f) for row, f in zip(batch.tolist(), elements, strict=True)
        )
        return elements

    def call(name: str, count: int, size: int, op: Operation) -> None:
        if name.startswith("enqueue"):
            brought = [(next(values),) * size for _ in range(count if name != "enqueue" else 1)]
            op.moves = [("put", x) for x in brought]
            if name == "enqueue":
                queue.enqueue(list(brought[0]))
            else:
                queue.enqueue_many([list(x) for x in brought])
        elif name == "dequeue":
            op.moves = [("take", tuple(queue.dequeue().tolist()))]
        else:
            take = queue.dequeue_many if name == "dequeue_many" else queue.dequeue_up_to
            op.moves = [("take", x) for x in rows(take(count))]

    def work(program: list[tuple[str, int, int]]) -> None:
        for name, count, size in program:
            op = Operation(name, next(time))
            history.append(op)
            call(name, count, size, op)
            op.end = next(time)

    # extra producers for takes that would wait for ever, extra consumers for elements left over
    put, taken = [sum(_elements(c) for p in all_ for c in p) for all_ in (producers, consumers)]
    rest = [("enqueue", 1, 1)] * (taken - put) + [("dequeue", 1, 1)] * (put - taken)
    programs = [*producers, *consumers, rest]
    at_once(*[lambda program=program: work(program) for program in programs])
    assert is_linearizable(history, ((), False), model_of("padding", True))
    assert int(queue.size()) == 0


def _elements(call: tuple[str, int, int]) -> int:
    return 1 if call[0] in ("enqueue", "dequeue") else call[1]


NUMBERS = st.integers(1, 8).flatmap(lambda n: st.permutations(range(n)))


@given(NUMBERS, st.lists(st.sampled_from(["take", "two", "cancel"]), max_size=8), st.data())
@settings(max_examples=examples(120))
def test_numbered_elements_leave_in_order(
    numbers: list[int], takes: list[str], data: st.DataObject
) -> None:
    """Puts in any order, between takes that wait, hold some elements and are cancelled."""
    queue = QueueState(None, SequenceStore(), "sequence")
    begun: list[Any] = []
    actions = data.draw(st.permutations([*takes, *["put"] * len(numbers)]))
    left = iter(numbers)
    for action in actions:
        if action == "put":
            number = next(left)
            queue.enqueue(f"no. {number}", number).begin()
        elif action == "cancel" and begun:
            begun[-1].cancel(lambda: CancelledError("as planned"))
        elif action != "cancel":
            begun.append(queue.dequeue_many(2 if action == "two" else 1))
            begun[-1].begin()
    elements = [x for attempt in begun for x in attempt.value]
    rest = []
    while taken := queue.take_at_once():
        rest += taken
    if not any(attempt.value and not attempt.done for attempt in begun):
        assert elements + rest == [f"no. {i}" for i in range(len(numbers))]
    assert sorted(elements + rest) == sorted(f"no. {i}" for i in numbers)


def register(state: Any, move: str, value: Any) -> Iterator[Any]:
    """The sequential model of a variable with one element; assignments record their results."""
    if move == "read" and state == value:
        yield state
    elif move == "assign":
        yield value
    elif move == "add" and state + value[0] == value[1]:
        yield value[1]


STEPS = st.tuples(
    st.sampled_from(["read", "assign", "add", "scatter", "traced"]), st.integers(1, 3)
)


@pytest.mark.usefixtures("_fast_switching")
@given(programs=st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=2, max_size=3))
@settings(max_examples=examples(40))
def test_variables_of_threads(programs: list[list[tuple[str, int]]]) -> None:
    v = ef.Variable([0, 0])
    add = ef.trace(v.assign_add)
    add(ef.tensor(0))
    lock = threading.Lock()
    time = iter(range(10**6))
    history: list[Operation] = []

    def work(program: list[tuple[str, int]]) -> None:
        for kind, amount in program:
            op = Operation(kind, next(time))
            if kind == "read":
                op.moves = [("read", v.numpy().tolist()[0])]
            elif kind == "assign":
                op.moves = [("assign", v.assign([amount, amount]).numpy().tolist()[0])]
            elif kind == "scatter":
                value = v.scatter_add([0, 1], [amount, amount])
                op.moves = [("add", (amount, value.numpy().tolist()[0]))]
            else:
                value = add(ef.tensor(amount)) if kind == "traced" else v.assign_add(amount)
                op.moves = [("add", (amount, value.numpy().tolist()[0]))]
            op.end = next(time)
            with lock:
                history.append(op)

    at_once(*[lambda program=program: work(program) for program in programs])
    assert is_linearizable(history, 0, register)


@pytest.mark.usefixtures("_fast_switching")
def test_no_update_is_lost() -> None:
    v, w = ef.Variable(ef.zeros(100, dtype="int64")), ef.Variable(ef.zeros(4, dtype="int64"))
    ones = ef.ones(100, dtype="int64")

    @ef.trace
    def step(i: Any) -> Any:
        v.assign_add(ones)
        return w.scatter_add(i, 1)

    def work(number: int) -> None:
        held: Any = (
            None  # a value that is held is not written into: the variable gets another array
        )
        for _ in range(200):
            held = v.assign_add(ones), w.scatter_add([number], [1]), step(ef.tensor([number]))
        assert held is not None

    at_once(*[lambda number=number: work(number) for number in range(4)])
    assert set(v.numpy().tolist()) == {4 * 2 * 200}
    assert w.numpy().tolist() == [400] * 4
