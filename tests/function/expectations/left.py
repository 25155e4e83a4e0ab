"""Calls that no graph can repeat run the function itself; all other calls run a graph."""

from __future__ import annotations

import functools
import operator
import queue
import weakref
from dataclasses import dataclass
from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])
AS_PYTHON = "runs as Python at each call"


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@program(traces=2)
def layers_that_are_built_at_first(trace: Trace) -> Steps:
    class Network:
        def __init__(self) -> None:
            self.layers: list[Any] = []

        def __call__(self, x):
            if not self.layers:
                for i in range(3):
                    self.layers.append(Thing(w=ef.ones(2) * (i + 1), b=i))
            for layer in self.layers:
                x = x * layer.w + layer.b
            return x

    network = Network()
    f = trace(lambda x: network(x))
    for k in range(4):
        yield f(x * k), [layer.w for layer in network.layers]


@program(traces=2)
def variable_of_an_object_that_is_made_once(trace: Trace) -> Steps:
    state = Thing(o=None)

    @trace
    def f(x):
        if state.o is None:
            state.o = Thing(v=ef.Variable(ef.random.normal((2,))), n=0)
        state.o.n += 1
        state.o.v.assign_add(x)
        return state.o.v * state.o.n

    for _ in range(4):
        yield f(x), state.o.v, state.o.n


@program(traces=1)
def list_of_records(trace: Trace) -> Steps:
    @dataclass
    class Record:
        loss: Any
        step: int

    history: list[Record] = []

    @trace
    def f(x, k):
        history.append(Record(x.sum(), k))
        return x * k

    for k in range(3):
        yield f(x, k), history
    history.pop(0)
    yield f(x, 7), history


@program(traces=6, reports=(AS_PYTHON, "was traced 3 times because of enclosing kept"))
def object_that_some_steps_keep(trace: Trace) -> Steps:
    kept: list[Any] = []

    @trace
    def f(x, k):
        if k % 2:
            kept.append(Thing(k=k, v=x * k))
        return x * k

    for k in range(6):
        yield f(x, k), [(one.k, one.v) for one in kept]


@program(traces=4, reports=(AS_PYTHON, "was traced 3 times because head.node is another object"))
def linked_list(trace: Trace) -> Steps:
    class Node:
        def __init__(self, value, after) -> None:
            self.value, self.after = value, after

    head = Thing(node=None)

    @trace
    def f(x, k):
        head.node = Node(x * k, head.node)
        total, node = 0, head.node
        while node is not None:
            total, node = total + node.value, node.after
        return total

    for k in range(4):
        yield f(x, k)


@program(traces=4, reports=(AS_PYTHON, AS_PYTHON, "was traced 3 times because of q.unfinished"))
def put_into_a_queue_of_python(trace: Trace) -> Steps:
    q: queue.Queue[Any] = queue.Queue()

    @trace
    def f(x, k):
        q.put((x * k, k))
        return q.qsize()

    for k in range(3):
        yield f(x, k)
    yield q.get(), q.get(), f(x, 9), q.unfinished_tasks


@program(traces=1, reports=(AS_PYTHON,))
def generator_that_is_kept(trace: Trace) -> Steps:
    state = Thing(rest=None)

    @trace
    def f(x):
        state.rest = (x * i for i in range(3))
        return x

    for k in range(3):
        yield f(x * k), list(state.rest)


@program(traces=1, reports=(AS_PYTHON,))
def partial_that_is_kept(trace: Trace) -> Steps:
    state = Thing(act=None)

    @trace
    def f(x, k):
        state.act = functools.partial(operator.mul, x * k)
        return x

    for k in range(3):
        yield f(x, k), state.act(2)


@program(traces=3, reports=(AS_PYTHON,))
def method_of_an_object_that_is_made(trace: Trace) -> Steps:
    class Weight:
        def __init__(self, w) -> None:
            self.w = w

        def get(self):
            return self.w

    state = Thing(get=None)

    @trace
    def f(x):
        state.get = Weight(x * 2).get
        return x

    for k in range(3):
        yield f(x * k), state.get()


@program(traces=3, reports=("a ReferenceType has a content", AS_PYTHON))
def weak_reference_to_what_is_made(trace: Trace) -> Steps:
    state = Thing(o=None, ref=None)

    @trace
    def f(x):
        state.o = Thing(w=x)
        state.ref = weakref.ref(state.o)
        return x

    for k in range(3):
        yield f(x * k), state.ref() is state.o, state.o.w


@program(traces=2, reports=(AS_PYTHON,))
def exceptions_that_are_kept(trace: Trace) -> Steps:
    errors: list[Exception] = []

    @trace
    def f(x, k):
        try:
            if k:
                raise ValueError(k)
        except ValueError as error:
            errors.append(error)
        return x

    for k in range(3):
        yield f(x, k), list(map(repr, errors))


@program(traces=3, reports=(AS_PYTHON,))
def draws_that_are_kept(trace: Trace) -> Steps:
    kept: list[Any] = []

    @trace
    def f(x):
        kept.append(Thing(r=ef.random.normal((2,))))
        return x + kept[-1].r

    for _ in range(3):
        yield f(x), [one.r for one in kept]


@program(traces=3, reports=(AS_PYTHON,))
def gradient_by_what_is_kept(trace: Trace) -> Steps:
    kept: list[Any] = []

    @trace
    def f(x):
        kept.append(Thing(y=x * 2))
        return (kept[-1].y * x).sum()

    for k in (1.0, 2.0, 3.0):
        yield ef.grad(f)(x * k), len(kept)


@program(traces=1)
def variable_assigned_before_some_calls_raise(trace: Trace) -> Steps:
    v = ef.Variable(ef.zeros(2))

    @trace
    def f(x, k):
        v.assign_add(x)
        if k == 2:
            raise RuntimeError("two")
        return v * 2

    for k in range(4):
        yield attempt(f, x, k), v


@program(traces=0)
def containers_in_their_order_before_it_raises(trace: Trace) -> Steps:
    table: dict[str, Any] = {"b": 1, "a": 2}
    seen: set[str] = set()

    @trace
    def f(x):
        table["c"] = x
        table["b"] = table.pop("b") + 1
        seen.add("q")
        raise ValueError("end")

    for k in range(2):
        yield attempt(f, x * k), table, seen


@program(traces=0)
def exception_that_holds_a_tensor(trace: Trace) -> Steps:
    state = Thing(n=0)

    class WrongError(Exception):
        pass

    @trace
    def f(x):
        state.n += 1
        raise WrongError(x * 2, state.n)

    for k in range(2):
        try:
            f(x * k)
        except WrongError as error:
            yield error.args, state.n
