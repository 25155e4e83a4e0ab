"""Loops that only an exception ends, and loops of Python that do not end in a trace."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import itertools

import pytest

import eagerflow as ef
from eagerflow.errors import DeadlineError, QueueClosedError, TraceError

xs = ef.tensor([1.0, 2.0, 3.0])


def raises(x):
    while True:
        if x > 5:
            raise ValueError(f"over {x:.1f}")
        x = x + 1


def returned_before(x):
    if x > 10:
        return x
    while True:
        x = x + 1
        if x > 5:
            raise ValueError(f"over {x:.1f}")
    return -x


def nothing_follows(x):
    while 1:
        assert x < 9, "nine"
        x = x * 2
    else:
        x = -x
    unbound_here = unbound_here + x  # noqa: F821, F841 - that it is unbound is the point
    return x


def counts(x):
    i = 0
    while True:
        i += 1
        x = x + i
        if x > 50:
            raise ValueError(f"{i} iterations")


def within_another(x):
    while True:
        n = 0
        while True:
            n += 1
            x = x + 1
            if x > 50:
                raise KeyError("fifty")
            if n > x:
                break
        if x > 30:
            continue
        x = x * 2


def under_a_condition(x):
    def runs_away(x):
        while True:
            x = x * 2
            if x > 100:
                raise RuntimeError("far")

    if x > 3:
        runs_away(x)
    return x


def appends(x):
    kept = []
    while True:
        kept.append(x)
        x = x + 1
        assert x < 7, f"no {x}"


def python_ends_it(x):
    items = iter([1.0, 2.0, 3.0])
    try:
        while True:
            x = x + next(items)
    except StopIteration:
        return x


def breaks_a_constant(x):
    while 1:
        if x > 50:
            raise KeyError("fifty")
        if x > 30:
            break
        x = x * 2
    return x


@pytest.mark.parametrize(
    "function",
    [raises, returned_before, nothing_follows, counts, within_another, under_a_condition, appends,
     python_ends_it, breaks_a_constant],
)  # fmt: skip
@pytest.mark.parametrize("start", [1.0, 4.0, 20.0, 60.0])
def test_traced_is_eager(function, start) -> None:
    traced = ef.trace(function)
    want = _outcome(function, start)
    assert _outcome(traced, start) == want
    assert _outcome(traced, start) == want


def _outcome(function, start):
    try:
        return str(function(ef.tensor(start)))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


def test_an_error_that_nothing_but_the_loop_needs_ends_it() -> None:
    def reads(i):
        while True:
            i = i + xs[i].astype("i64")

    for function in (reads, ef.trace(reads)):
        with pytest.raises(ef.errors.TensorIndexError, match="index 3 is out of range"):
            function(ef.tensor(0))


def test_a_closed_queue_ends_it() -> None:
    @ef.trace
    def doubles(source, sink):
        while True:
            sink.enqueue(source.dequeue() * 2)

    for _ in range(2):
        source, sink = ef.Queue(9, "f32[]"), ef.Queue(9, "f32[]")
        source.enqueue_many([1.0, 2.0, 3.0])
        source.close()
        with pytest.raises(QueueClosedError):
            doubles(source, sink)
        assert sink.dequeue_many(3).tolist() == [2.0, 4.0, 6.0]
    assert [n.op for n in doubles.graph(source, sink).nodes].count("while_loop") == 1


def test_a_deadline_ends_a_run() -> None:
    @ef.trace
    def grows(x):
        while True:
            x = x + 1

    with ef.deadline(0.05), pytest.raises(DeadlineError):
        grows(xs)


@pytest.mark.filterwarnings("ignore:.* is unrolled")
def test_a_deadline_ends_a_trace(monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.autograph.flow.loop_statements._MOST_OF_PYTHON", 10**9)
    going = True

    @ef.trace
    def grows(x):
        while going:
            x = x + 1

    with ef.deadline(0.05), pytest.raises(DeadlineError):
        grows(xs)


def test_a_deadline_that_ends_a_trace_ends_the_call() -> None:
    """What the trace did to a queue did not happen, and the function itself does not do it."""
    queue = ef.Queue(4, ef.tensor(0))

    @ef.trace
    def puts_two(x):
        queue.enqueue(x)
        for n in itertools.count():
            if n == ends:
                break
        queue.enqueue(x)

    ends = -1
    with ef.deadline(0.05), pytest.raises(DeadlineError):
        puts_two(ef.tensor(1))
    assert queue.size() == 0
    ends = 1
    puts_two(ef.tensor(1))
    assert queue.size() == 2


items = itertools.count()


def takes(x):
    while True:  # the loop
        x = x + next(items)


def goes_over_items(x):
    while True:  # the loop
        for i in items:
            x = x + i
            if i > 3:
                break


class Seen:
    def __init__(self) -> None:
        self.all: set[int] = set()


seen = Seen()


def changes_a_set(x):
    while True:  # the loop
        seen.all.add(len(seen.all))
        x = x + 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (takes, ["that only Python can repeat", "next() takes items", "ef.stack(list"]),
        (goes_over_items, ["that only Python can repeat", "a `for` takes items", "ef.stack(list"]),
        (changes_a_set, ["that only Python can repeat", "seen.all is changed", "ef.where"]),
    ],
)
def test_what_only_python_repeats_is_refused(function, words, monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.autograph.flow.loop_statements._MOST", 20)
    monkeypatch.setattr("eagerflow.autograph.flow.loop_statements._MOST_OF_PYTHON", 50)
    with pytest.raises(TraceError) as caught:
        ef.trace(function)(ef.tensor(1.0))
    for one in (*words, "# the loop"):
        assert one in str(caught.value)


def test_items_are_taken_once_in_each_iteration() -> None:
    def scaled(x):
        weights = iter([1.0, 2.0, 3.0, 4.0])
        for row in x:  # next() makes it a loop of Python
            x = x + row * next(weights)
        return x, next(weights)

    assert str(ef.trace(scaled)(xs)) == str(scaled(xs))


def test_items_are_not_taken_under_a_condition() -> None:
    @ef.trace
    def f(x):
        weights = iter([1.0, 2.0])
        if x > 0:  # the condition
            x = x * next(weights)
        return x * next(weights)

    with pytest.raises(TraceError, match=r"(?s)next\(\) takes items.*# the condition"):
        f(ef.tensor(1.0))


@pytest.mark.filterwarnings("ignore:.* is unrolled")
def test_tests_of_long_graphs_do_not_recurse() -> None:
    def f(x):
        for _ in range(1200):
            x = x + 1
        return x * 2 if x > 5 else x

    assert ef.trace(f)(ef.tensor(1.0)) == f(ef.tensor(1.0))


@pytest.mark.filterwarnings("ignore:.*is unrolled:eagerflow.errors.TraceWarning")
def test_a_deadline_ends_a_loop_of_numbers_alone() -> None:
    def counts(n):
        while n >= 0:
            n = n + 1
        return n

    f = ef.trace(counts)
    f(-1)
    with pytest.raises(TimeoutError), ef.deadline(0.05):
        f(0)
