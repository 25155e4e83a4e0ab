"""Leftovers of a trace: values in the user's objects, and nothing else."""

from __future__ import annotations

import collections
import functools
import itertools
import queue
from types import SimpleNamespace
from typing import Any

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])
QUEUE = "a SimpleQueue has a state that a trace cannot follow"
EACH = "no trace can follow it"


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("n", "value")

    def __init__(self, value: Any, n: Any) -> None:
        self.value, self.n = value, n


# --- values held where no trace can follow ------------------------------------------------------


@program(traces=1, reports=(QUEUE, EACH))
def put_into_a_queue(trace: Trace) -> Steps:
    hidden: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @trace
    def f(x):
        hidden.put(x * 2)
        return x

    for k in range(3):
        yield f(x * k), hidden.get()


@program(
    traces=3,
    reports=("runs as Python at each call: things: items are appended", "f was traced 3 times"),
)
def objects_that_are_made(trace: Trace) -> Steps:
    things: list[Any] = []

    @trace
    def f(x, k):
        things.append(Thing(value=x * k, n=k + 1, pair=[x, k]))
        return x

    for k in range(3):
        yield f(x * k, k), [vars(thing) for thing in things]


@program(traces=1, reports=("runs as Python at each call",))
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


@program(traces=1, reports=(QUEUE, EACH, EACH))
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


# --- effects before an exception ----------------------------------------------------------------


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
        return x[0] / log.missing

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
        parts = f(x * k)
        yield parts, [type(part).__name__ for part in parts], parts[0].w


@program(traces=1, reports=(QUEUE, "cannot be watched", "a tensor is updated that no access path"))
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


@program(traces=1, reports=("runs as Python at each call: log: items are appended",))
def static_argument_is_changed(trace: Trace) -> Steps:
    @trace(static="log")
    def f(x, log):
        log.append("called")
        return x * len(log)

    for k in range(2):
        log: list[str] = []
        yield f(x * k, log), log


@program(traces=2)
def numbers_in_one_set(trace: Trace) -> Steps:
    box: dict[str, Any] = {}

    @trace
    def f(x, k):
        box["set"] = {k, k + 1, (k, k + 2)}
        return x * k

    for k in (1, 2):
        yield f(x, k), box


@program(traces=2)
def numbers_in_one_set_of_an_object(trace: Trace) -> Steps:
    items: list[Any] = []

    @trace
    def f(x, k):
        items.append(SimpleNamespace(set={k, k + 1, (k, k + 2)}, table={k: x, (k, 1): k}))
        return x * k

    for k in (1, 2):
        yield f(x, k), [vars(one) for one in items]
