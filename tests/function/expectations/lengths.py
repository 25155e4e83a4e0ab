"""`len` of a tensor gives its size, and loops over a size work for all sizes."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program
from tests.function.expectations.sizes import MANY, TWO, each

# mypy: disable-error-code="no-untyped-def"


# --- len() ------------------------------------------------------------------------------------


@program(traces=2)
def the_length_of_a_tensor_stays_symbolic(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * len(x), len(x), x / len(x), len(x) // 2

    yield from each(f, MANY)


@program(traces=2)
def shapes_of_lengths(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x.reshape(len(x), 1), ef.zeros((len(x), 2)), ef.arange(len(x)), x[: len(x) - 1]

    yield from each(f, MANY)


@program(traces=2)
def a_loop_over_the_length(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(())
        for i in range(len(x)):
            total = total + x[i] * i
        return total / len(x)

    yield from each(f, MANY)


@program(traces=2)
def a_helper_takes_the_length(trace: Trace) -> Steps:
    def mean(rows):
        return sum(rows) / len(rows)

    @trace
    def f(x):
        return mean(x), mean([1.0, 2.0])

    yield from each(f, MANY)


@program(traces=2)
def the_length_decides(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if len(x) > 2 else x

    yield from each(f, TWO)


@program(traces=2)
def a_length_in_a_gradient(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.grad(lambda t: (t * t).sum() / len(t))(x)

    yield from each(f, MANY)


@program(traces=2)
def lengths_of_other_things(trace: Trace) -> Steps:
    @trace
    def f(x, names):
        return x * len(names) + len(x.shape) + len("text"), attempt(len, 3)

    yield f(ef.ones(2), ["a"])
    yield f(ef.ones(3), ["a", "b"])


# --- loops of the graph over range(tensor) ------------------------------------------------------


def loops_of(function: Any, *args: Any) -> int:
    """How many nodes of a traced function are loops; 1 for one that is not traced."""
    if not hasattr(function, "graph"):
        return 1
    return sum(node.op in ("scan", "while_loop") for node in function.graph(*args).nodes)


@program(traces=1)
def a_range_of_a_tensor_made_within(trace: Trace) -> Steps:
    @trace
    def f(x):
        for _ in range(ef.tensor(50)):
            x = x + 1
        return x

    yield f(ef.ones(2))
    yield loops_of(f, ef.ones(2))


@program(traces=2)
def a_range_of_a_tensor_from_outside(trace: Trace) -> Steps:
    steps = ef.tensor(3)

    @trace
    def f(x):
        for i in range(steps):
            x = x * 2 + i
        return x

    yield f(ef.ones(2))
    yield loops_of(f, ef.ones(2))
    steps += 1
    yield f(ef.ones(2))


@program(traces=1)
def a_range_of_a_tensor_indexes_a_list(trace: Trace) -> Steps:
    weights = [1.0, 2.0, 3.0]

    @trace
    def f(x):
        for i in range(ef.tensor(3)):
            x = x * weights[i]
        return x

    yield f(ef.ones(2))
    yield f(x=ef.ones(2) * 2)


@program(traces=1)
def a_range_of_a_tensor_with_break(trace: Trace) -> Steps:
    @trace
    def f(x):
        for _ in range(ef.tensor(20)):
            x = x * 2
            if x.sum() > 100:
                break
        return x

    yield f(ef.ones(2))
    yield f(ef.zeros(2))


@program(traces=1)
def ranges_of_several_tensors(trace: Trace) -> Steps:
    @trace
    def f(x):
        for i in range(ef.tensor(1), ef.tensor(7), 2):
            x = x + i
        for _ in range(ef.tensor(0)):
            x = x * 100
        return x, [x * i for i in range(ef.tensor(3))]

    yield f(ef.ones(2))
    yield f(ef.zeros(2))


@program(traces=1)
def a_range_of_an_argument(trace: Trace) -> Steps:
    @trace
    def f(x, n):
        for i in range(n):
            x = x + i
        return x

    for n in (1, 5, 0):
        yield f(ef.ones(2), ef.tensor(n))


# --- loops over sizes that only Python can run ---------------------------------------------------

WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0]


@program(traces=2)
def a_loop_over_a_size_indexes_a_list(trace: Trace) -> Steps:
    @trace
    def f(x):
        for i in range(x.shape[0]):
            x = x * WEIGHTS[i]
        return x

    yield from each(f, TWO)


@program(traces=2)
def a_nested_loop_over_sizes_indexes_a_list(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(())
        for i in range(x.shape[0]):
            for j in range(i + 1):
                total = total + x[i] * WEIGHTS[j]
        return total

    yield from each(f, TWO)


@program(traces=2)
def batches_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return [x[i : i + 2] for i in range(0, len(x), 2)], [i + 1 for i in range(x.shape[0])]

    yield from each(f, TWO)


@program(traces=2)
def texts_of_the_rows(trace: Trace) -> Steps:
    @trace
    def f(x):
        names = ""
        for i, _ in enumerate(x):
            names += str(i)
        return x, names

    yield from each(f, TWO)


@program(traces=2)
def a_dict_of_the_rows(trace: Trace) -> Steps:
    @trace
    def f(x):
        rows = {}
        for name, row in zip("abcdef", x, strict=False):
            rows[name] = row
        return rows

    yield from each(f, TWO)


@program(traces=2)
def rows_beside_a_range(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(())
        for i, row in zip(range(3), x, strict=False):
            total = total + row * i
        return total

    yield from each(f, TWO)


@program(traces=2)
def rows_beside_a_range_of_their_number(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(())
        try:
            for i, row in zip(range(3), x, strict=True):
                total = total + row * i
        except ValueError:
            total = total - 1
        return total

    yield from each(f, (3, 4, 3, 4))


@program(traces=2)
def a_loop_over_a_size_that_returns(trace: Trace) -> Steps:
    @trace
    def f(x):
        for i in range(len(x)):
            if WEIGHTS[i] > 2:
                return x * WEIGHTS[i]
        return x

    yield from each(f, TWO)


@program(traces=2)
def a_loop_over_a_size_that_raises(trace: Trace) -> Steps:
    @trace
    def f(x):
        for i in range(len(x)):
            if i == 2:
                raise ValueError(f"no more than {i}")
            x = x + WEIGHTS[i]
        return x

    yield f(ef.ones(2))
    yield attempt(f, ef.ones(3))


# --- len() of a list that a loop of the graph fills -------------------------------------------


@program(traces=1)
def the_length_of_a_list_is_an_int(trace: Trace) -> Steps:
    @trace
    def f(x):
        halves = []
        while x.sum() > 1:
            x = x // 2
            halves.append(x)
        return x * len(halves), len(halves) / 2, [len(halves)], halves[len(halves) - 1]

    for values in ([9, 3], [4, 0], [100, 3]):
        yield f(ef.tensor(values, dtype=ef.int8))


@program(traces=1)
def a_kept_length_of_a_list_is_an_int(trace: Trace) -> Steps:
    counts, seen = {"kept": 0}, []

    @trace
    def f(xs):
        kept = [x for x in xs if x > 0]
        counts["kept"] += len(kept)
        seen.append(len(kept))
        return counts["kept"]

    for values in ([1.0, -3.0], [1.0, 2.0], [-1.0, -1.0]):
        yield f(ef.tensor(values)), counts, seen


@program(traces=2)
def a_size_beside_a_counted_number(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = 0
        while x.sum() > 1:
            x = x / 2
            n += 1
        place = 1 if len(x) > n else 2
        return len(x) - n, len(x) * n, len(x) / n, len(x) // n, min(n, len(x)), place

    yield from each(f, MANY)


# --- the larger of sizes ----------------------------------------------------------------------


@program(traces=2)
def a_size_that_is_at_least_one(trace: Trace) -> Steps:
    f = trace(lambda x: x.sum() / max(x.shape[0], 1) + min(len(x), 3, 5))
    for n in (0, 1, 2, 4):
        yield f(ef.ones(n))


@program(traces=2)
def the_larger_of_two_sizes(trace: Trace) -> Steps:
    f = trace(lambda x, y: ef.zeros(max(2, x.shape[0])) + x.sum() + max(y.shape[0], 1))
    for n in (1, 2, 4):
        yield f(ef.ones(n), ef.ones(n + 1))


# --- conditions that only the graph knows -----------------------------------------------------


@program(traces=1)
def a_flag_that_a_branch_sets(trace: Trace) -> Steps:
    @trace
    def f(x):
        done = False
        if x.sum() > 2:
            done = True
        y = x * 2 if done else x * 3
        return y, ef.asarray(done)

    for k in range(3):
        yield f(ef.ones(2) * k)


@program(traces=4, reports=("traced 3 times",))
def the_step_of_a_range_is_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        n = len(x)
        return [ef.sum(x[i : i + k]) for i in range(0, n, k)], n % k

    for n, k in ((3, 2), (4, 2), (6, 3), (7, 2)):
        yield f(ef.ones((n,)), k)


@program(traces=3, reports=("traced 3 times",))
def the_step_of_a_range_is_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = 0
        for i in range(0, x.shape[0], x.shape[0] // 2):
            total = total + x[i] * i
        return total

    for n in (2, 4, 6):
        yield f(ef.arange(n))


@program(traces=1)
def the_step_of_a_range_is_zero(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return [x[i] for i in range(0, x.shape[0], k)]

    for n, k in ((2, 1), (4, 0)):
        yield attempt(f, ef.ones((n,)), k)


@program(traces=3, reports=("f was traced 3 times because of x",))
def a_name_that_only_iterations_bind(trace: Trace) -> Steps:
    """Code that works on the first size works on the second: there is a row if the size says so."""
    calls = {"n": 0}

    @trace
    def f(x):
        for row in x:
            last = row * 2
            calls["n"] += 1
        return last

    for n in (3, 5, 2):
        yield f(ef.arange(n)), dict(calls)
