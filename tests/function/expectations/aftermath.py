"""Side effects that no run of a graph repeats: their order, and the identity of their objects."""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])
QUEUE = "a SimpleQueue has a state that a trace cannot follow"
EACH = "no trace can follow it"


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@program(traces=2)
def order_of_keys_of_which_one_is_kept(trace: Trace) -> Steps:
    table: dict[Any, Any] = {}

    @trace
    def f(x, k):
        table["a"] = Thing(w=x * 2)
        table["b"] = k + 1
        table.pop("c", None)
        table["c"] = Thing(w=x)
        table[k] = x
        return table

    for k in (1, 2):
        yield f(x, k) is table, list(table), table["a"].w, table["b"], table[k]


@program(traces=2, reports=("runs as Python at each call: made.one is set",))
def one_list_in_an_object_and_in_the_result(trace: Trace) -> Steps:
    made = Thing()

    @trace
    def f(x):
        row = [x * 2]
        made.one = Thing(row=row, w=row[0])
        made.row = row
        return row, row[0]

    for k in range(2):
        row, w = f(x * k)
        yield row is made.one.row is made.row, w is row[0] is made.one.w, row


@program(traces=1, reports=("runs as Python at each call: made.get is set",))
def one_list_in_a_closure_and_in_the_result(trace: Trace) -> Steps:
    made = Thing()

    @trace
    def f(x):
        row = [x * 2]
        made.get = lambda: row
        return row

    for k in range(2):
        row = f(x * k)
        yield row is made.get(), row


@program(traces=1, reports=("f: runs as Python at each call: the result[0] is a function",))
def one_list_in_a_closure_that_is_returned(trace: Trace) -> Steps:
    @trace
    def f(x):
        row = [x * 2]
        return (lambda: row), row

    for k in range(2):
        get, row = f(x * k)
        yield row is get(), row


@program(traces=2, reports=("runs as Python at each call: made.one is set", "items is changed"))
def arguments_in_an_object_that_is_made(trace: Trace) -> Steps:
    made = Thing()

    @trace
    def f(u, items, table):
        made.one = Thing(u=u, items=items, pair=(table, u), last=items[-1])
        items.append(made.one)
        table["n"] = u.sum()
        u += 1
        return items, table

    for k in range(2):
        u, first = x * k, x + k
        items: list[Any] = [first]
        table: dict[str, Any] = {}
        a, b = f(u, items, table)
        one = made.one
        yield a is items is one.items, b is table is one.pair[0], one is items[1], len(items)
        yield one.u is u is one.pair[1], one.last is first, u, table


@program(traces=2, reports=("runs as Python at each call: made.one is set",))
def arrays_in_an_object_that_is_made(trace: Trace) -> Steps:
    made = Thing()

    @trace
    def f(b):
        made.one = Thing(b=b, twice=b * 2, more=[b + 1], x=ef.exp(b))
        return b

    for k in range(2):
        b = np.ones(2) * k
        yield f(b) is b is made.one.b, type(made.one.twice), made.one.twice, made.one.more
        yield made.one.x


@program(traces=1, reports=(QUEUE, EACH))
def one_tensor_in_a_queue_and_in_the_result(trace: Trace) -> Steps:
    hidden: queue.SimpleQueue[Any] = queue.SimpleQueue()
    made = Thing(w=None)

    @trace
    def f(x):
        y = x * 2
        hidden.put(y)
        made.w = y
        return [y]

    for k in range(2):
        (y,) = f(x * k)
        yield y is hidden.get(), y is made.w, y


@program(traces=0)
def objects_kept_before_it_raises(trace: Trace) -> Steps:
    made = Thing(table={})

    @trace
    def f(u, items):
        made.table["z"] = Thing(items=items, u=u)
        items += [u, made.table["z"]]
        made.table["y"] = made.table["a"] = [u]
        u += 1
        raise ValueError("mine")

    for k in range(2):
        u, items = x * k, list[Any]()
        yield attempt(f, u, items), list(made.table), u
        yield made.table["y"] is made.table["a"], made.table["y"][0] is u is items[0]
        yield made.table["z"] is items[1], items[1].items is items, items[1].u is u


@program(traces=0)
def tensors_that_a_branch_stores_before_it_raises(trace: Trace) -> Steps:
    world = Thing(items=[1.0, x], same=None, last=None)

    @trace
    def f(u):
        if u.sum() > 1:
            world.same = list(world.items)
            world.last = u
        else:
            world.same = [1.0, u]
            world.last = world.items[1]
        raise ValueError("mine")

    for k in (1.0, -1.0, 2.0):
        u = x * k
        yield attempt(f, u), world.same, world.last
        yield world.same[1] is world.items[1], world.same[1] is u, world.last is u
        yield world.last is world.items[1], world.items[1] is x


@program(traces=3, reports=("runs as Python at each call: world.made is set",))
def tensors_that_a_branch_stores_besides_what_is_kept(trace: Trace) -> Steps:
    world = Thing(w=x, best=x + 1, made=None)

    @trace
    def f(u):
        if u.sum() > 1:
            world.best = world.w
        world.made = Thing(best=world.best)
        return u

    for k in (1.0, -1.0, 2.0):
        best = world.best
        yield f(x * k), world.best is best, world.best is world.w, world.made.best is world.best
        world.w = x - k


# --- a run that raises ------------------------------------------------------------------------


def counted() -> Any:
    return Thing(count=0, log=[], last=None)


@program(traces=2)
def shapes_that_do_not_fit_in_a_run(trace: Trace) -> Steps:
    state = counted()

    @trace
    def f(x):
        state.count += 1
        state.log.append(x.sum())
        y = x + ef.ones(2)
        state.last = y
        return y

    for size in (2, 1, 3, 2):
        yield attempt(f, ef.ones(size)), vars(state)


@program(traces=1)
def a_division_of_numbers_by_zero(trace: Trace) -> Steps:
    state = counted()

    @trace
    def f(x, k):
        state.count += 1
        return x * (1 / k)

    for k in (2.0, 0.0, 1.0, 0.0):
        yield attempt(f, ef.ones(2), k), state.count


@program(traces=2)
def an_exception_under_a_condition(trace: Trace) -> Steps:
    state = counted()

    @trace
    def f(x):
        state.last = x * 2
        state.log.append(state.last)
        if x.sum() > 5:
            state.count += 1
            raise ValueError(f"too large: {x.sum()}")
        return x

    for k in (1.0, 4.0, 2.0, 9.0):
        yield attempt(f, ef.ones(2) * k), vars(state), state.log[-1] is state.last


@program(traces=1)
def an_index_out_of_range_in_a_run(trace: Trace) -> Steps:
    state = counted()

    @trace
    def f(x, i):
        state.log.append(i)
        return ef.take(x, i)

    for i in (0, 5, 1):
        yield attempt(f, ef.ones(2), ef.tensor(i)), state.log


@program(traces=1)
def arguments_of_a_run_that_raises(trace: Trace) -> Steps:
    @trace
    def f(state, x, k):
        state["w"] = state["w"] + x
        x += 1
        return state["w"] * (1 // k)

    for k in (1, 0, 2):
        state, x = {"w": ef.ones(2)}, ef.ones(2)
        yield attempt(f, state, x, k), state, x


@program(traces=1)
def a_run_that_raises_while_it_is_differentiated(trace: Trace) -> Steps:
    state = counted()

    @trace
    def f(x, k):
        state.count += 1
        return (x * (1 / k)).sum()

    for k in (2.0, 0.0, 1.0):
        yield attempt(ef.grad(f), ef.ones(2), k), state.count


@program(traces=4, reports=("was traced 3 times",))
def entries_that_handlers_and_finally_write(trace: Trace) -> Steps:
    table = {"a": 1.0}

    @trace
    def f(x, key):
        try:
            by = table[key]
        except KeyError as error:
            table[key] = float(len(error.args[0]))
            return x
        finally:
            table["last"] = len(key)
        return x * by

    for key in ("a", "bb", "bb", "ccc"):
        yield f(x, key), dict(table)


@program(traces=2)
def counts_before_an_index_out_of_range(trace: Trace) -> Steps:
    state = SimpleNamespace(count=0, sums=[])

    @trace
    def f(x, i):
        state.count += 1
        state.sums.append(x.sum())
        return x * state.sums[i]

    for i in (0, 5, 1, 9):
        yield attempt(f, x, i)[0] if i > 4 else f(x, i)
        yield state.count, state.sums
