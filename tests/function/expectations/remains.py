"""What a trace leaves behind: values in the user's objects, and nothing else."""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import operator
import queue
from types import SimpleNamespace
from typing import Any

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])
EACH = "no trace can follow it"


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("n", "value")

    def __init__(self, value: Any, n: Any) -> None:
        self.value, self.n = value, n


# --- lists of numbers, changed in any way -------------------------------------------------------


def _changes(name: str, make: Any, change: Any, traces: int, reports: int = 0) -> None:
    def body(trace: Trace) -> Steps:
        items = make()

        @trace
        def f(x):
            found = change(items)
            return x * found if isinstance(found, (int, float)) else x

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
_changes("bisected", lambda: [1.0, 4.0], lambda v: bisect.insort(v, 2.0), 3)
_changes("multiplied_in_place", lambda: [1.0, 2.0], lambda v: operator.imul(v, 2) and 1, 3, 1)
_changes("cleared", lambda: [1.0, 2.0], lambda v: v.clear(), 2)
_changes("removed", lambda: [1.0, 2.0, 3.0, 4.0], lambda v: v.remove(v[1]), 3, 1)
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


# --- held where no trace can follow it ----------------------------------------------------------


@program(traces=3, reports=(EACH,))
def put_into_a_queue(trace: Trace) -> Steps:
    hidden: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @trace
    def f(x):
        hidden.put(x * 2)
        return x

    for k in range(3):
        yield f(x * k), hidden.get()


@program(traces=3, reports=("traced at each call: things: items are appended",))
def objects_that_are_made(trace: Trace) -> Steps:
    things: list[Any] = []

    @trace
    def f(x, k):
        things.append(Thing(value=x * k, n=k + 1, pair=[x, k]))
        return x

    for k in range(3):
        yield f(x * k, k), [vars(thing) for thing in things]


@program(traces=3, reports=("traced at each call",))
def objects_with_slots(trace: Trace) -> Steps:
    things: list[Any] = []

    @trace
    def f(x, k):
        things.append(Slotted(x * k, k * 2))
        return x

    for k in range(3):
        yield f(x * k, k), [(thing.value, thing.n) for thing in things]


@program(traces=3, reports=("f was traced 3 times",))
def called_back_by_c(trace: Trace) -> Steps:
    kept: list[Any] = []
    keep = functools.partial(map, kept.append)

    @trace
    def f(x, k):
        collections.deque(keep([x + k, (x, k)]), maxlen=0)
        return x

    for k in range(3):
        yield f(x * k, k), kept


@program(traces=3, reports=(EACH, EACH))
def closures_that_are_made(trace: Trace) -> Steps:
    later: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @trace
    def f(x, k):
        y = x * k
        later.put(lambda: (y, k))
        return x

    for k in range(3):
        yield f(x, k), later.get()()


@program(traces=0, error=TraceError, words=("keeps a number of the trace",))
def number_in_an_iterator(trace: Trace) -> Steps:
    kept: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @trace
    def f(x, k):
        kept.put(itertools.repeat(k, 2))
        return x

    yield f(x, 3)


@program(traces=2)
def made_once(trace: Trace) -> Steps:
    class Model:
        helper = None

        @trace
        def __call__(self, x):
            if self.helper is None:
                self.helper = Thing(w=x * 2)
            return x + self.helper.w

    model = Model()
    for k in range(3):
        yield model(x * k), vars(model.helper)


@program(traces=2)
def cached_by_the_user(trace: Trace) -> Steps:
    cache: dict[str, Any] = {}

    @trace
    def f(x):
        if "w" not in cache:
            cache["w"] = x * 3
        return x * cache["w"]

    for k in range(3):
        yield f(x * k), cache


# --- what was done before an exception ----------------------------------------------------------


@program(traces=0)
def counted_before_it_raises(trace: Trace) -> Steps:
    state = {"n": 0}

    @trace
    def f(x):
        state["n"] += 1
        raise ValueError("mine")

    for _ in range(3):
        yield attempt(f, x), state


@program(traces=0)
def appended_before_an_op_fails(trace: Trace) -> Steps:
    log: list[Any] = []

    @trace
    def f(x):
        log.append(x * 2)
        return x[0] / log.missing  # type: ignore[attr-defined]

    for k in range(2):
        yield attempt(f, x * k)[0], log


@program(traces=0)
def assigned_before_it_raises(trace: Trace) -> Steps:
    v = ef.Variable([0.0, 0.0])

    @trace
    def f(x):
        v.assign_add(x)
        raise KeyError("mine")

    for k in range(3):
        yield attempt(f, x * k), v


@program(traces=0)
def drawn_before_it_raises(trace: Trace) -> Steps:
    @trace
    def f(x):
        ef.random.normal((2,))
        raise RuntimeError("mine")

    for _ in range(2):
        yield attempt(f, x), ef.random.uniform(())


@program(traces=0)
def argument_changed_before_it_raises(trace: Trace) -> Steps:
    @trace
    def f(x, items, state):
        items.append(x * 2)
        state["n"] = x.sum()
        x += 1
        raise ValueError("mine")

    for k in range(2):
        y, items, state = x * k, [1.0], {"n": 0}
        yield attempt(f, y, items, state), y, items, state


@program(traces=0)
def attributes_set_before_a_mistake(trace: Trace) -> Steps:
    model = Thing(step=0, last=None)

    @trace
    def f(x):
        model.step += 1
        model.last = x * model.step
        return x + model.nowhere

    for k in range(3):
        yield attempt(f, x * k)[0], vars(model)


@program(traces=1)
def raises_at_first(trace: Trace) -> Steps:
    state: dict[str, Any] = {"n": 0}

    @trace
    def f(x, strict):
        state["n"] += 1
        if strict:
            raise ValueError("mine")
        return x * state["n"]

    for strict in (True, False, True, False):
        yield attempt(f, x, strict), state


@program(traces=0, error=TraceError, words=("known only when the graph runs",))
def undone_where_the_trace_fails(trace: Trace) -> Steps:
    state: dict[str, Any] = {"n": 0, "items": [1.0]}

    @trace
    def f(x):
        state["n"] += 1
        state["items"].insert(0, x)
        return float(x.sum())

    yield attempt(lambda: None), state
    yield f(x)


# --- functions with a cache ---------------------------------------------------------------------


@program(traces=3)
def cached_number(trace: Trace) -> Steps:
    calls: list[Any] = []
    scale = 2.0

    @functools.lru_cache
    def known(k):
        calls.append(k)
        return k * scale

    f = trace(lambda x: x * known(3))
    yield f(x), calls
    scale = 5.0
    yield f(x), calls
    known.cache_clear()
    yield f(x), calls
    f = trace(lambda x, k: x * known(k))
    yield f(x, 3), calls


@program(traces=1)
def cached_tensor(trace: Trace) -> Steps:
    @functools.cache
    def table(n):
        return ef.arange(n) * 1.0

    f = trace(lambda x: x + table(2))
    for k in range(2):
        yield f(x * k), table(2), table.cache_info().misses


@program(traces=2)
def cached_object(trace: Trace) -> Steps:
    @functools.cache
    def settings():
        return Thing(rate=0.5, names=["a"])

    f = trace(lambda x: x * settings().rate + len(settings().names))
    yield f(x)
    settings().rate = 2.0
    yield f(x)


@program(traces=1)
def cached_list_is_filled(trace: Trace) -> Steps:
    @functools.cache
    def log():
        return []

    @trace
    def f(x):
        log().append(x * 2)
        return x

    for k in range(3):
        yield f(x * k), log()


@program(traces=2)
def cached_per_argument(trace: Trace) -> Steps:
    @functools.lru_cache(maxsize=2)
    def power(k, *, base=2):
        return base**k

    f = trace(lambda x, k: x * power(k) + power(k, base=3))
    yield f(x, 2), power.cache_info().currsize
    yield f(x, 3), power.cache_info().currsize
    yield f(x, 2), power.cache_info().currsize


@program(traces=1)
def cached_method(trace: Trace) -> Steps:
    class Model:
        made = 0

        @functools.lru_cache  # noqa: B019 - it lives as long as the test
        def mask(self, n):
            Model.made += 1
            return ef.ones(n)

        def __call__(self, x):
            return x * self.mask(2)

    model = Model()
    f = trace(model.__call__)
    for k in range(3):
        yield f(x * k), Model.made


# --- classes made of dicts and lists ------------------------------------------------------------


class Config(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Itself(dict[str, Any]):
    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__ = self


class Rows(list[Any]):
    def total(self) -> Any:
        return sum(self)


@program(traces=1)
def attribute_dict_as_argument(trace: Trace) -> Steps:
    f = trace(lambda x, c: x * c.rate + c["w"])
    for k in range(3):
        yield f(x, Config(rate=0.5 * k, w=x * k))


@program(traces=1)
def attributes_that_are_items_as_argument(trace: Trace) -> Steps:
    f = trace(lambda x, c: x * c.rate)
    for k in range(3):
        yield f(x, Itself(rate=0.5 * k))


@program(traces=1)
def counter_as_argument(trace: Trace) -> Steps:
    f = trace(lambda x, c: x * c["a"] + c["missing"])
    for text in ("aab", "ab", "aaab"):
        yield f(x, collections.Counter(text))


@program(traces=1)
def list_of_a_class_as_argument(trace: Trace) -> Steps:
    f = trace(lambda x, rows: x * rows.total())
    for k in range(3):
        yield f(x, Rows([x * k, x]))


@program(traces=1)
def argument_of_a_class_is_changed(trace: Trace) -> Steps:
    @trace
    def f(x, c):
        c.rate = c.rate + 1
        c["last"] = x * 2
        return c

    for k in range(3):
        config = Config(rate=k)
        yield f(x * k, config) is config, config


@program(traces=1)
def result_of_a_class(trace: Trace) -> Steps:
    @trace
    def f(x):
        return Config(w=x * 2, n=3), Rows([x]), collections.Counter("aa")

    for k in range(2):
        found = f(x * k)
        yield found, [type(part).__name__ for part in found], found[0].w


@program(traces=3, reports=("cannot be watched", "a tensor is updated that no name leads to"))
def tensor_in_a_queue_is_updated(trace: Trace) -> Steps:
    hidden: queue.SimpleQueue[Any] = queue.SimpleQueue()
    hidden.put(x * 1)

    @trace
    def f(x):
        y = hidden.get()
        y += x
        hidden.put(y)
        return y * 2

    for k in range(3):
        yield f(x * k)
    yield hidden.get()


@program(traces=2, reports=("traced at each call: log: items are appended",))
def static_argument_is_changed(trace: Trace) -> Steps:
    @trace(static="log")
    def f(x, log):
        log.append("called")
        return x * len(log)

    for k in range(2):
        log: list[str] = []
        yield f(x * k, log), log
