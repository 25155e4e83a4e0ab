"""Identity of container arguments: aliases among them, and arguments that are returned."""

from __future__ import annotations

import builtins
import operator
from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@dataclass
class Point:
    w: Any


@program(traces=2)
def one_list_given_twice(trace: Trace) -> Steps:
    @trace
    def f(a, b):
        a.append(x)
        return len(b), a is b

    yield f([], [])
    for _ in range(2):
        same: list[Any] = []
        yield f(same, same), same
    yield f([], [])


@program(traces=2)
def one_dataclass_given_twice(trace: Trace) -> Steps:
    @trace
    def f(p, q):
        p.w = p.w * 2
        return q.w

    point = Point(x)
    yield f(point, Point(x)), point
    yield f(point, point), point
    yield f(point, point), point


@program(traces=2)
def one_set_given_twice(trace: Trace) -> Steps:
    f = trace(lambda a, b: a is b)
    same = {1, 2}
    yield f(same, {1, 2})
    yield f(same, same)
    yield f({1, 2}, {1, 2})


@program(traces=1)
def one_list_within_tuples_and_dicts(trace: Trace) -> Steps:
    @trace
    def f(pair, table):
        pair[0].append(x)
        return len(pair[1]), table["a"] is pair[0], table["b"] is pair[0]

    for _ in range(2):
        a: list[Any] = [x]
        b: list[Any] = [x]
        yield f((a, a), {"a": a, "b": b}), a, b


@program(traces=1, error=TraceError, words=("an argument", "also used from outside", "a copy"))
def argument_that_is_also_captured(trace: Trace) -> Steps:
    items = [x, x]

    @trace
    def f(a, u):
        a[0] = u * 2
        return items[0]

    yield f([x, x], x), items
    f(items, x)


@program(traces=2, error=TraceError, words=("an argument", "also used from outside", "a copy"))
def captured_list_that_is_also_an_argument(trace: Trace) -> Steps:
    items = [x]

    @trace
    def f(a, u):
        items.append(u)
        return len(a)

    yield f([x], x), items
    f(items, x)


@program(traces=1)
def containers_are_returned(trace: Trace) -> Steps:
    @trace
    def f(items, table, names):
        items.append(table["w"] * 2)
        table["p"].w = items[0]
        return items, {"p": table["p"]}, (names, table["w"])

    for k in range(2):
        items, table, names = [x + k], {"w": x, "p": Point(x)}, {1, 2}
        a, b, (c, d) = f(items, table, names)
        yield a is items, b["p"] is table["p"], c is names, d is table["w"], items, table


@program(traces=1)
def containers_are_stored(trace: Trace) -> Steps:
    state = SimpleNamespace(kept=None, log=[])

    @trace
    def f(items, inner):
        state.kept = items
        state.log.append(inner)
        items.append(inner)
        return inner[0] * 2

    for k in range(2):
        items, inner = [x], [x + k]
        yield f(items, inner)
        yield state.kept is items, state.log[-1] is inner, items[-1] is inner, len(state.log)


@program(traces=3)
def one_list_in_several_places(trace: Trace) -> Steps:
    state = SimpleNamespace(rows=[], current=None)

    @trace
    def f(x):
        row = [x]
        state.rows.append(row)
        state.current = row
        return row, {"again": row}

    for k in range(3):
        row, table = f(x + k)
        yield row is state.current, row is state.rows[-1], row is table["again"]
    row.append(x)
    yield state.rows, state.current, table


@program(traces=2)
def one_object_in_several_places(trace: Trace) -> Steps:
    state = SimpleNamespace(root=None, last=None)

    @trace
    def f(x, table):
        inner = Point(x)
        outer = {"kids": [inner], "first": inner}
        state.root, state.last = outer, inner
        table["made"] = inner
        return outer

    for k in range(2):
        table: dict[str, Any] = {}
        outer = f(x * k, table)
        yield outer is state.root, outer["first"] is state.last is table["made"]
    state.last.w = x
    yield outer, state.root


@program(traces=1)
def dataclass_from_outside_is_returned(trace: Trace) -> Steps:
    state = SimpleNamespace(best=None, log=[])
    point, constants = Point(x), (1, "a", (2.5, None))

    @trace
    def f(x):
        point.w = x * 2
        state.best = point
        state.log.append(point)
        return point, constants

    for k in range(3):
        a, b = f(x + k)
        yield a is point is state.best is state.log[-1], b is constants, point


@program(traces=1)
def list_of_an_argument_within_a_result(trace: Trace) -> Steps:
    @trace
    def f(items, x):
        items.append(x)
        return Point(items), OrderedDict(a=items)

    for _ in range(2):
        items: list[Any] = []
        point, table = f(items, x)
        yield point.w is items, table["a"] is items, items


@program(traces=2)
def tensor_that_a_branch_stores(trace: Trace) -> Steps:
    state = SimpleNamespace(weight=x, twin=x + 1, best=None)
    state.best = state.twin

    @trace
    def f(u):
        if u.sum() > 0:
            state.twin = state.weight
        if u.sum() > 10:
            state.best = u * 2
        return u * 2

    for k in (-1.0, 2.0, -1.0, 5.0):
        weight, twin, best = state.weight, state.twin, state.best
        yield f(x * k), state.twin is weight, state.twin is twin, state.weight is weight
        yield state.best is best, state.best, state.twin
        state.weight, state.twin = x * k, x - k


@program(traces=1)
def argument_that_a_branch_stores(trace: Trace) -> Steps:
    state = SimpleNamespace(last=x)

    @trace
    def f(u, v):
        if u.sum() > v.sum():
            state.last = u
        else:
            state.last = v
        return u + v

    for k in range(4):
        u, v = x * k, x * (2 - k)
        yield f(u, v), state.last is u, state.last is v
        state.last += 1
        yield u, v


@program(traces=2)
def tensor_under_another_name_that_a_branch_stores(trace: Trace) -> Steps:
    state = SimpleNamespace(best=x, now=x)

    @trace
    def f(u):
        if u.sum() > 4:
            state.best = u * 2
        return u * state.now

    for k in (1.0, 0.5, 2.0, 1.0):
        yield f(x * k), state.best
        state.now = x * k


@program(traces=3)
def tensor_replaced_whose_id_is_a_key(trace: Trace) -> Steps:
    weights, sums = [ef.tensor(1.0), ef.tensor(2.0)], {}
    old = list(weights)

    @trace
    def f(x):
        for weight in weights:
            sums[id(weight)] = sums.get(id(weight), 0.0) + weight * x
        return x * len(sums)

    yield f(ef.tensor(1.0))
    yield f(ef.tensor(2.0))
    weights[0] = ef.tensor(5.0)
    yield f(ef.tensor(1.0)), list(sums.values()), set(sums) == set(map(id, [*old, *weights]))


@program(traces=2)
def list_replaced_by_an_equal_one_whose_id_is_a_key(trace: Trace) -> Steps:
    lists, uses = [[1.0], [2.0]], {}
    old = list(lists)

    @trace
    def f(x):
        for one in lists:
            uses[id(one)] = uses.get(id(one), 0) + 1
        return x * len(uses)

    yield f(ef.tensor(1.0))
    lists[0] = [1.0]
    yield f(ef.tensor(1.0)), list(uses.values()), set(uses) == set(map(id, [*old, *lists]))


@program(reports=("id() of an argument",), frozen=(1,))
def the_id_of_an_argument(trace: Trace) -> Steps:
    known = ef.tensor(2.0)
    names = {id(known): 5.0}

    @trace
    def f(x):
        return x * names.get(id(x), 1.0)

    yield f(ef.tensor(3.0))
    yield f(known)


@program(traces=3)
def ids_under_another_name(trace: Trace) -> Steps:
    address = id
    first, second = ef.tensor(1.0), ef.tensor(2.0)
    rates = {address(first): 0.5}
    f = trace(lambda x: x * rates.get(address(first), 1.0) + rates.get(builtins.id(second), 3.0))
    yield f(x)
    first, second = second, first
    yield f(x)
    second = ef.tensor(3.0)
    yield f(x)


@program(traces=3)
def objects_told_apart_by_functions(trace: Trace) -> Steps:
    a, b = ef.tensor(1.0), ef.tensor(2.0)
    rows, others = [1.0], [2.0]

    @trace
    def f(x):
        return x * (2.0 if operator.is_(a, b) else 3.0) + operator.is_not(rows, others)

    yield f(x)
    b = a
    yield f(x)
    others = rows
    yield f(x)
