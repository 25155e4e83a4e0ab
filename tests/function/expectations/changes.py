"""Mutations of captured containers by a traced function."""

from __future__ import annotations

import bisect
import collections
import heapq
import operator
from types import SimpleNamespace
from typing import Any

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])


def _changes(name: str, make: Any, change: Any, traces: int, reports: int = 0) -> None:
    def body(trace: Trace) -> Steps:
        items = make()

        @trace
        def f(x):
            factor = change(items)
            return x * factor if isinstance(factor, (int, float)) else x

        for k in range(3):
            yield f(x * k), list(items) if isinstance(items, collections.deque) else items

    body.__name__ = name
    program(traces=traces, reports=("f was traced 3 times",) * reports)(body)


def _heap() -> list[float]:
    return [1.0, 3.0, 2.0, 5.0, 4.0]


_changes("popped_in_front", lambda: [1.0, 2.0, 3.0], lambda v: v.pop(0), 3)
_changes("popped_at_the_end", lambda: [1.0, 2.0, 3.0], lambda v: v.pop(), 3)
_changes("popped_in_the_middle", lambda: [1, 2, 3, 4, 5], lambda v: v.pop(2), 3)
_changes("inserted", lambda: [1.0, 2.0], lambda v: v.insert(1, 7.0), 3, 1)
_changes("slice_replaced", lambda: [1.0, 2.0, 3.0], lambda v: operator.setitem(
    v, slice(0, 2), [9.0]), 3)  # fmt: skip
_changes("slice_deleted", lambda: [1, 2, 3, 4, 5, 6, 7], lambda v: operator.delitem(
    v, slice(0, 2)), 3)  # fmt: skip
_changes("heap_popped", _heap, heapq.heappop, 3)
_changes("heap_pushed", _heap, lambda v: heapq.heappush(v, 2.5), 3, 1)
_changes("heap_replaced", _heap, lambda v: heapq.heapreplace(v, 9.0), 3)
_changes("sorted_in_place", lambda: [3.0, 1.0, 2.0], lambda v: v.sort(), 2)
_changes("reversed_in_place", lambda: [3.0, 1.0, 2.0], lambda v: v.reverse(), 1)
_changes("bisected", lambda: [1.0, 4.0], lambda v: bisect.insort(v, 2.0), 3, 1)
_changes("multiplied_in_place", lambda: [1.0, 2.0], lambda v: operator.imul(v, 2) and 1, 3, 1)
_changes("cleared", lambda: [1.0, 2.0], lambda v: v.clear(), 2)
_changes("removed", lambda: [1.0, 2.0, 3.0, 4.0], lambda v: v.remove(v[1]), 3)
_changes("copied_and_filled", lambda: [1.0, 2.0], lambda v: operator.setitem(
    v, slice(None), [v[1], v[0] + 1]), 1)  # fmt: skip
_changes("deque_appended", lambda: collections.deque([1.0, 2.0]), lambda v: v.append(3.0), 3, 1)
_changes("deque_rotated", lambda: collections.deque([1.0, 2.0, 3.0]), lambda v: v.rotate(1), 1)
_changes("ring_of_numbers", lambda: collections.deque([1, 2], maxlen=2), lambda v: v.append(
    v[0] + v[1]), 1)  # fmt: skip
_changes("ring_of_equal_numbers", lambda: collections.deque([1, 1], maxlen=2), lambda v: v.append(
    1), 1)  # fmt: skip
_changes("deque_popped_left", lambda: collections.deque([1.0, 2.0, 3.0]),
         lambda v: v.popleft(), 3)  # fmt: skip
_changes("item_popped", lambda: {0: 1.0, 1: 2.0, 2: 3.0}, lambda v: v.popitem()[1], 3)
_changes("key_moved", lambda: collections.OrderedDict(a=1.0, b=2.0, c=3.0),
         lambda v: v.move_to_end(next(iter(v))), 3, 1)  # fmt: skip
_changes("ordered_key_deleted", lambda: collections.OrderedDict(a=1.0, b=2.0, c=3.0, d=1.0),
         lambda v: v.popitem(last=False)[1], 3)  # fmt: skip
_changes("counted", lambda: collections.Counter("aab"), lambda v: v.update("ab") or v["a"], 1)
_changes("grouped", lambda: collections.defaultdict(list, a=[1.0]),
         lambda v: v["b"].append(2.0), 3)  # fmt: skip
_changes("set_popped", lambda: {1.0}, lambda v: v.pop() if v else 0.0, 2)
_changes("set_updated", lambda: {1}, lambda v: operator.ior(v, {2, 3}) and 1, 2)
_changes("discarded_again", lambda: {1, 2}, lambda v: v.discard(2), 2)


@program(traces=1)
def history_with_numbers_in_it(trace: Trace) -> Steps:
    history: dict[str, list[Any]] = {"loss": [2.3, 2.1], "rate": [0.1]}

    @trace
    def step(x):
        history["loss"].append(x.sum())
        history["rate"].append(0.5)
        return x

    for k in range(4):
        yield step(x * k), history


@program(traces=2)
def cleared_and_filled(trace: Trace) -> Steps:
    items: list[Any] = []

    @trace
    def f(x):
        items.clear()
        items.append(x)
        return x

    for k in range(3):
        yield f(x * k), items


@program(traces=2)
def last_item_set(trace: Trace) -> Steps:
    items: list[Any] = [1.0, 2.0]

    @trace
    def f(x):
        items[-1] = x
        return x

    yield f(x), items
    yield f(x * 2), items
    items.append(3.0)
    yield f(x), items


@program(traces=1)
def two_names_of_one_list(trace: Trace) -> Steps:
    items = [x, x + 1]
    holder = SimpleNamespace(items=None)

    @trace
    def f(x):
        holder.items = items
        items.reverse()
        return items[0] * x

    for k in range(3):
        yield f(x * k), items, holder.items is items


@program(traces=2)
def list_outside_is_returned(trace: Trace) -> Steps:
    items = [x]

    @trace
    def f(x):
        items.append(x)
        return items

    for k in range(2):
        yield f(x * k) is items, items


@program(traces=2)
def set_under_a_condition_and_not_read(trace: Trace) -> Steps:
    best = SimpleNamespace(value=2.0)

    @trace
    def f(x):
        if x.sum() > 2:
            best.value = x.sum() * 2
        return x

    for k in (1, 3, 1, 4, 1):
        f(x[:1] * k)
        yield float(best.value)


@program(traces=1)
def reset_and_set_under_a_condition(trace: Trace) -> Steps:
    state = {"found": 0.0}

    @trace
    def f(x):
        state["found"] = 0.0
        if x > 1:
            state["found"] = x * 2
        return x

    for k in (1, 3, 1):
        yield f(x[0] * k), float(state["found"])
    state["found"] = 7.0
    yield f(x[0]), float(state["found"])


@program(traces=3)
def attributes_set_by_computed_names(trace: Trace) -> Steps:
    box = SimpleNamespace()

    @trace
    def f(x, name):
        n = len(x)
        setattr(box, f"size_{name}", n)
        setattr(box, "kind_" + name, 5)
        if hasattr(box, "gone_" + name):
            delattr(box, "gone_" + name)

    for name, n in ("ab", 2), ("ab", 3), ("c", 3):
        yield f(ef.ones(n), name), sorted(vars(box).items())
        vars(box).clear()
        setattr(box, "gone_" + name, 1)


@program(traces=2)
def longest_deque(trace: Trace) -> Steps:
    window = collections.deque([x, x * 2], maxlen=3)

    @trace
    def f(x):
        window.append(x)
        return sum(window), len(window)

    yield f(x), list(window)
    window = collections.deque([x, x * 2], maxlen=2)
    yield f(x), list(window)


@program(traces=2)
def sizes_as_keys_of_dicts_that_are_made(trace: Trace) -> Steps:
    box: dict[str, Any] = {}

    @trace
    def f(x, given):
        box["sums"] = {x.shape: x.sum(), "inner": {x.shape[0]: [{len(x): 1}]}}
        given["sums"] = {x.shape[0]: x.sum()}
        return x * 2

    for n in (1, 2, 2):
        given: dict[str, Any] = {}
        yield f(ef.ones(n), given), box, given


@program(traces=0, error=TraceError, words=("table is changed under a condition", "a dict"))
def keys_moved_under_a_condition(trace: Trace) -> Steps:
    table = {"p": 1.0, "q": 2.0}

    @trace
    def f(x):
        if x.sum() > 0:
            table["p"] = table.pop("p")
        return x

    f(x)
    yield list(table)


@program(traces=0, error=TraceError, words=("keys into a dict in another order", "table['b']"))
def keys_in_another_order_by_a_condition(trace: Trace) -> Steps:
    table: dict[str, Any] = {}

    @trace
    def f(x):
        if x.sum() > 0:
            table["a"] = x
            table["b"] = x * 2
        else:
            table["b"] = x
            table["a"] = x * 3
        return x

    f(x)
    yield list(table)


@program(traces=1)
def keys_in_one_order_by_a_condition(trace: Trace) -> Steps:
    table: dict[str, Any] = {}
    other: dict[str, Any] = {}

    @trace
    def f(x):
        if x.sum() > 0:
            table["a"] = x
            other["c"] = x
            table["b"] = x * 2
        else:
            other["c"] = x * 2
            table["a"] = x * 3
            table["b"] = x
        return x

    for k in (1.0, -1.0):
        f(x * k)
        yield table, other
