"""Attributes of dataclasses, lists, dicts and functions beside their fields, items and code."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import eagerflow as ef
from eagerflow.errors import TensorValueError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@dataclass
class Batch:
    x: Any

    def __post_init__(self) -> None:
        self.n = self.x.shape[0]
        self.gain = 1.0
        self.mode = "plain"
        self.total = self.x.sum()
        self.log: list[Any] = []

    @functools.cached_property
    def double(self) -> Any:
        return self.x * 2


class Sub(Batch):
    __slots__ = ("extra",)

    def __init__(self, x: Any, extra: Any) -> None:
        super().__init__(x)
        self.extra = extra


@dataclass(slots=True)
class Slim:
    w: Any
    n: int = 0
    unset: Any = field(init=False)


class Items(list[Any]):
    scale = 1.0

    def add(self, item: Any) -> None:
        self.append(item)
        self.added = getattr(self, "added", 0) + 1
        self.last = item * 2


class Table(dict[str, Any]):
    pass


@program(traces=3)
def numbers_and_texts_beside_fields(trace: Trace) -> Steps:
    @trace
    def f(batch):
        y = batch.x * batch.gain + batch.total
        return (y if batch.mode == "plain" else -y), batch.n

    batch = Batch(x)
    yield f(batch)
    batch.gain, batch.total = 3.0, ef.tensor(5.0)
    yield f(batch)
    batch.mode = "negative"
    yield f(batch)
    batch.gain = 2
    yield f(batch)


@program(traces=3, reports=("was traced 3 times because of the structure",))
def attributes_beside_fields_are_set(trace: Trace) -> Steps:
    @trace
    def f(batch, k):
        batch.n += 1
        batch.log.append(k)
        batch.total = batch.total + k
        batch.fresh = batch.double
        return len(batch.log)

    batch, other = Batch(x), Batch(x * 3)
    for k in range(3):
        yield f(batch, k), batch
    yield f(other, 5), other, batch


@program(traces=4)
def attributes_in_slots(trace: Trace) -> Steps:
    @trace
    def f(slim):
        slim.w, slim.n = slim.w * 2, slim.n + 1
        if not hasattr(slim, "unset"):
            slim.unset = slim.w
        return slim.n

    slim = Slim(x)
    for _ in range(3):
        yield f(slim), slim.w, slim.n, slim.unset
    g = trace(lambda sub: sub.x * sub.extra)
    yield g(Sub(x, 2.0)), g(Sub(x, 3.0))


@program(traces=2)
def results_with_attributes_beside_fields(trace: Trace) -> Steps:
    f = trace(lambda x: Batch(x * 2))
    for n in (2, 3, 4):
        yield f(ef.ones(n))


@program(traces=2)
def attributes_beside_fields_in_a_branch(trace: Trace) -> Steps:
    @trace
    def f(x):
        batch = Batch(x * 2) if x.sum() > 3 else Batch(x)
        return batch, batch.total

    for n in (2, 4, 3):
        yield f(ef.ones(n))


@program(traces=1)
def attributes_beside_fields_in_a_loop(trace: Trace) -> Steps:
    @trace
    def f(x):
        batch = Batch(x)
        while batch.total < 50:
            batch = Batch(batch.x * 2)
        return batch.x, batch.total

    yield f(x)
    yield f(x * 5)


@program(traces=1)
def attributes_beside_fields_in_a_call(trace: Trace) -> Steps:
    def block(batch, y):
        return y * batch.gain if batch.mode == "plain" else y

    @trace
    def f(first, second, y):
        return ef.call(block, second, ef.call(block, first, y))

    first, second = Batch(x), Batch(x)
    first.gain, second.mode = 3.0, "other"
    yield f(first, second, x)


@program(traces=3, reports=("was traced 3 times",))
def attributes_of_a_list(trace: Trace) -> Steps:
    @trace
    def f(items, y):
        items.add(y)
        return y * items.scale, items.last

    for scale in (1.0, 2.0):
        items = Items()
        for _ in range(2):
            yield f(items, x), items, vars(items)
        items.scale = scale
        yield f(items, x), items, vars(items)


@program(traces=2)
def attributes_of_a_dict(trace: Trace) -> Steps:
    f = trace(lambda table: table["w"] * (2 if table.kind == "a" else 3))
    table = Table(w=x)
    for kind in "aba":
        table.kind = kind
        yield f(table)


@program(traces=0, error=TensorValueError, words=("a container holds itself", "a list"))
def a_list_that_holds_itself(trace: Trace) -> Steps:
    @trace
    def f(x):
        items = [x]
        items.append(items)
        return items

    f(x)
    yield None


@program(traces=2)
def counter_on_the_function_itself(trace: Trace) -> Steps:
    @trace
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        return x * f.calls

    for _ in range(3):
        yield f(x), f.calls
    f.calls = 10
    yield f(x), f.calls


@program(traces=4)
def attributes_of_another_traced_function(trace: Trace) -> Steps:
    @trace
    def inner(x):
        return x * inner.scale

    @trace
    def outer(x):
        inner.last = x.sum()
        return inner(x) if inner.mode == "inner" else x

    inner.scale, inner.mode = 2.0, "inner"
    yield outer(x), inner.last
    inner.scale = 3.0
    yield outer(x * 2), inner.last
    inner.scale = x
    yield outer(x), inner(x)
    inner.mode = "outer"
    yield outer(x * 3), inner.last


@program(traces=2)
def counter_that_a_helper_gets_first(trace: Trace) -> Steps:
    def helper(x):
        helper.calls = getattr(helper, "calls", 0) + 1
        return x * helper.calls

    f = trace(lambda x: helper(x))
    for _ in range(3):
        yield f(x), helper.calls
    del helper.calls
    yield f(x), helper.calls


@program(traces=2)
def attribute_that_a_helper_is_asked_for(trace: Trace) -> Steps:
    def helper(x):
        return x * 2 if hasattr(helper, "doubles") else x

    f = trace(lambda x: helper(x))
    yield f(x)
    helper.doubles = True
    yield f(x)


@program(traces=4)
def cache_that_a_helper_gets_first(trace: Trace) -> Steps:
    def helper(x):
        if not hasattr(helper, "sums"):
            helper.sums = {}
        helper.sums[x.shape] = x.sum()
        return len(helper.sums)

    f = trace(lambda x: helper(x))
    for n in (1, 2, 2):
        yield f(ef.ones(n)), helper.sums
    del helper.sums
    yield f(ef.ones(2)), helper.sums


# --- classes of arguments ---------------------------------------------------------------------


@program(traces=2)
def methods_of_dataclass_arguments(trace: Trace) -> Steps:
    outside = SimpleNamespace(rate=2.0)

    @dataclass
    class Point:
        v: ef.Tensor

        def __add__(self, other):
            return self.v * outside.rate + other.v

        @property
        def double(self):
            return self.v * 2

    f = trace(lambda points: points[0] + points[1] + points[0].double)
    points = [Point(x), Point(x)]
    yield f(points)
    outside.rate = 5.0
    yield f(points)
    Point.__add__ = lambda self, other: self.v - other.v - 1
    Point.double = property(lambda self: self.v * 7)
    yield f(points)


@program(traces=2)
def class_attributes_of_dataclass_arguments(trace: Trace) -> Steps:
    @dataclass
    class Config:
        rate: float
        scale: ClassVar[Any] = 1.0

    f = trace(lambda c: x * c.rate * c.scale)
    yield f(Config(2.0))
    Config.scale = x
    yield f(Config(3.0))


@program(traces=2)
def methods_of_named_tuples_and_lists(trace: Trace) -> Steps:
    outside = SimpleNamespace(rate=2.0)

    class Pair(NamedTuple):
        a: ef.Tensor
        items: list[ef.Tensor]

        def total(self):
            return self.a * outside.rate + sum(self.items)

    f = trace(lambda p: p.total())
    yield f(Pair(x, [x]))
    outside.rate = 3.0
    yield f(Pair(x, [x]))
    Pair.total = lambda self: self.a
    yield f(Pair(x, [x]))


@program(traces=2)
def attributes_of_a_partial(trace: Trace) -> Steps:
    scaled = functools.partial(ef.multiply, x)
    scaled.name, scaled.rate, scaled.calls = "a", 2.0, 0

    @trace
    def f(y):
        scaled.calls += 1
        return scaled(y) * scaled.rate if scaled.name == "a" else y

    yield f(x), scaled.calls
    scaled.rate = 5.0
    yield f(x), scaled.calls
    scaled.name = "b"
    yield f(x), scaled.calls


@program(traces=3)
def first_attribute_of_a_partial(trace: Trace) -> Steps:
    scaled = functools.partial(ef.multiply, x)
    holder = SimpleNamespace(scaled=functools.partial(ef.multiply, x))

    @trace
    def f(u):
        y = scaled(u) + (scaled.bias if hasattr(scaled, "bias") else 0)
        return y * getattr(holder.scaled, "factor", 1.0)

    yield f(x)
    scaled.bias = 10.0
    yield f(x)
    holder.scaled.factor = 3.0
    yield f(x)
    holder.scaled.factor = 4.0
    yield f(x)


@program(traces=1)
def first_attribute_of_a_partial_is_set(trace: Trace) -> Steps:
    scaled = functools.partial(ef.multiply, x)

    @trace
    def f(u):
        scaled.last = u * 2
        return scaled(u)

    for k in range(3):
        yield f(x * k), vars(scaled)


@program(traces=1)
def a_partial_of_a_partial_stays_flat(trace: Trace) -> Steps:
    scaled = functools.partial(ef.multiply, x)
    f = trace(lambda y: scaled(y))
    yield f(x)
    yield functools.partial(scaled, 2.0).func is ef.multiply


# --- traced functions have the attributes of their functions ----------------------------------


def counted(f):
    @functools.wraps(f)
    def counting(*args):
        counting.calls += 1
        counting.last = args[0]
        return f(*args)

    counting.calls, counting.last = 0, None
    return counting


@program(traces=1)
def attributes_that_a_decorator_gives(trace: Trace) -> Steps:
    f = trace(counted(lambda u: u * 2))
    for k in range(3):
        yield f(x * k), f.calls, f.last
    f.calls = 10
    yield f(x), f.calls, f.last


@program(traces=2)
def attribute_of_a_traced_function_set_outside(trace: Trace) -> Steps:
    @trace
    def f(u):
        return u * f.rate if hasattr(f, "rate") else u

    yield f(x), hasattr(f, "rate")
    f.rate = 2.0
    yield f(x), f.rate
    f.rate = 3.0
    yield f(x), f.rate
    del f.rate
    yield f(x), hasattr(f, "rate")


@program(traces=2)
def attribute_of_a_traced_object(trace: Trace) -> Steps:
    class Scale:
        def __init__(self):
            self.rate = 2.0

        def __call__(self, u):
            self.last = u * self.rate
            return self.last

    scale = Scale()
    f = trace(scale)
    for rate in (1.0, 2.0, 3.0):
        f.rate = rate
        yield f(x), scale.rate, f.rate, f.last is scale.last


@program(traces=1)
def attribute_by_the_name_before_the_trace(trace: Trace) -> Steps:
    def plain(u):
        plain.seen = u
        return u + plain.shift

    plain.shift = x
    f = trace(plain)
    for k in range(3):
        f.shift = x * k
        yield f(x), plain.seen, f.shift is plain.shift, f.seen is plain.seen


@program(traces=2)
def attribute_of_a_traced_method(trace: Trace) -> Steps:
    class Model:
        @trace
        def step(self, u):
            Model.step.count = getattr(Model.step, "count", 0) + 1
            return u * 2

    model = Model()
    for _ in range(3):
        yield model.step(x), Model.step.count, model.step.count


@program(traces=5, reports=("traced 3 times",))
def defaults_and_code_of_the_function(trace: Trace) -> Steps:
    @trace
    def f(x, k=2.0, *, m=3.0):
        return x * k * m

    def other(x, k=2.0, *, m=3.0):
        return x + k + m

    yield f.__defaults__, f.__kwdefaults__, f.__code__.co_varnames, f.__globals__ is globals(), f(x)
    f.__defaults__ = (5.0,)
    yield f.__defaults__, str(inspect.signature(f)), f(x)
    f.__kwdefaults__ = {"m": 10.0}
    yield f(x)
    f.__code__ = other.__code__
    yield f(x)
    del f.__defaults__
    yield f.__defaults__, f(x, 1.0), attempt(f, x)
