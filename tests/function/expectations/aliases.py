"""Aliasing: attribute dicts, and distinct objects that become one object after a trace."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any, NamedTuple

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


# --- dicts with attributes --------------------------------------------------------------------


class Attributes(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@program(traces=2)
def attribute_dict(trace: Trace) -> Steps:
    config = Attributes(rate=2.0, mode="a")
    f = trace(lambda x: x * config.rate if config.mode == "a" else x - config.rate)
    yield f(x)
    config.rate = 5.0
    yield f(x)
    config["mode"] = "b"
    yield f(x)


@program(traces=1)
def attribute_dict_in_another(trace: Trace) -> Steps:
    config = Attributes(optimiser=Attributes(rate=2.0))
    f = trace(lambda x: x * config.optimiser.rate)
    yield f(x)
    config.optimiser.rate = 5.0
    yield f(x)


@program(traces=1)
def attribute_dict_that_is_changed(trace: Trace) -> Steps:
    config = Attributes(count=1)

    @trace
    def f(x):
        config.count += 1
        return x * config.count

    for _ in range(3):
        yield f(x), dict(config)


@program(traces=2)
def attribute_dict_with_a_method(trace: Trace) -> Steps:
    class Named(dict):
        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError:
                raise AttributeError(name) from None

    config = Named(rate=2.0)
    f = trace(lambda x: x * config.rate * (3.0 if hasattr(config, "more") else 1.0))
    yield f(x)
    config["rate"] = 5.0
    yield f(x)
    config["more"] = 1.0
    yield f(x)


@program(traces=1)
def attribute_dict_that_is_its_own_dict(trace: Trace) -> Steps:
    class Own(dict):
        def __init__(self, **items):
            super().__init__(**items)
            self.__dict__ = self

    config = Own(rate=2.0)
    f = trace(lambda x: x * config.rate)
    yield f(x)
    config.rate = 5.0
    yield f(x)


@program(traces=2)
def attribute_dict_with_missing_items(trace: Trace) -> Steps:
    class Optional(dict):
        __getattr__ = dict.get

    config = Optional(rate=2.0)
    f = trace(lambda x: x * config.rate if config.flag is None else x)
    yield f(x)
    config["flag"] = True
    yield f(x)


# --- objects that become one ------------------------------------------------------------------


@program(traces=2)
def dicts_that_become_one(trace: Trace) -> Steps:
    first, second = {"n": 1.0}, {"n": 1.0}

    @trace
    def f(x):
        first["n"] = 3.0
        return x * second["n"]

    yield f(x)
    second = first
    first["n"] = 1.0
    yield f(x), first


@program(traces=2)
def objects_that_become_one(trace: Trace) -> Steps:
    first, second = SimpleNamespace(n=1.0), SimpleNamespace(n=1.0)

    @trace
    def f(x):
        first.n += 1.0
        return x * second.n

    yield f(x)
    second = first
    yield f(x), first.n


@program(traces=2)
def tensors_that_become_one(trace: Trace) -> Steps:
    first, second = x * 1, x * 1
    f = trace(lambda x: x * 2 if first is second else x * 3)
    yield f(x)
    second = first
    yield f(x)


@program(traces=2)
def updated_tensors_that_become_one(trace: Trace) -> Steps:
    first, second = x * 1, x * 1

    @trace
    def f(x):
        nonlocal first
        first += x
        return second * 2

    yield f(x)
    second = first
    yield f(x), first


@program(traces=2)
def lists_that_become_one(trace: Trace) -> Steps:
    first, second = [1.0], [1.0]
    f = trace(lambda x: x * 2 if id(first) == id(second) else x * 3)
    yield f(x)
    second = first
    yield f(x)


@program(traces=2)
def items_that_become_one(trace: Trace) -> Steps:
    tensors, wanted = [x * 1, x * 2], x * 3
    f = trace(lambda x: x * sum(1.0 for one in tensors if one is wanted))
    yield f(x)
    tensors[1] = wanted
    yield f(x)


@program(traces=2)
def argument_that_is_a_captured_tensor(trace: Trace) -> Steps:
    known = x * 1
    f = trace(lambda y: y * 2 if y is known else y * 3)
    yield f(x)
    yield f(known)
    yield f(x)


@program(traces=1, error=ef.errors.TraceError, words=("compares a list", "also used from outside"))
def argument_that_is_a_captured_list(trace: Trace) -> Steps:
    known = [1.0]
    f = trace(lambda x, rates: x * 2 if rates is known else x * 3)
    yield f(x, [1.0])
    yield f(x, known)


# --- a captured tensor in a tuple that is an argument as well ---------------------------------


@program(error=TraceError, words=("also read from outside", "pair[0] as an argument"))
def argument_in_a_tuple_that_is_updated(trace: Trace) -> Steps:
    a = ef.tensor([1.0, 2.0])
    pair = (a, 1)

    @trace
    def f(x):
        x += 1
        return pair[0] * pair[1]

    yield f(ef.tensor([5.0, 6.0]))
    yield f(a), a, pair


@program(error=TraceError, words=("in_tuple[0] as an argument",))
def argument_in_a_tuple_that_is_compared(trace: Trace) -> Steps:
    in_tuple = (ef.tensor([1.0, 2.0]),)
    f = trace(lambda x: x + 1 if in_tuple[0] is x else x - 1)
    yield f(ef.tensor([5.0, 6.0]))
    yield f(in_tuple[0])


@program(error=TraceError, words=("also read from outside", "Model.start as an argument"))
def argument_that_is_an_attribute_of_a_class(trace: Trace) -> Steps:
    class Model:
        start = ef.tensor([1.0, 2.0])

    @trace
    def f(x):
        x *= 2
        return x + Model.start

    yield f(ef.tensor([5.0, 6.0]))
    yield f(Model.start)


@program(traces=1)
def argument_in_a_tuple_that_is_only_read(trace: Trace) -> Steps:
    a = ef.tensor([1.0, 2.0])
    pair = (a, 1)
    f = trace(lambda x: pair[0] * x)
    yield f(ef.tensor([5.0, 6.0]))
    yield f(a)


@program(traces=0, error=TraceError, words=("also read from outside",))
def arguments_in_a_named_tuple(trace: Trace) -> Steps:
    class Weights(NamedTuple):
        w: ef.Tensor
        b: ef.Tensor

    held = SimpleNamespace(weights=Weights(ef.tensor([1.0]), ef.tensor([2.0])))
    w, b = held.weights

    @trace
    def f(x, y):
        x *= 3
        y += 1
        return held.weights.w + 0, held.weights[1] + 0, held.weights.w is x, held.weights.b is y

    yield f(w, b), held.weights
    yield f(b, w), held.weights


@program(traces=2)
def one_object_stored_where_it_was(trace: Trace) -> Steps:
    world = SimpleNamespace(items=[1.0], same=None, weight=x, twin=x)
    world.same = world.items

    @trace
    def f(u):
        world.twin = world.weight
        world.weight = world.weight + 1
        world.same = world.items
        world.items = [u]
        return u * 2

    for k in range(4):
        yield f(x * k), world.twin, world.weight, world.twin is world.weight
        yield world.same, world.items, world.same is world.items


@program(traces=2)
def tensors_that_a_number_replaces(trace: Trace) -> Steps:
    items = [x, 2, x + 1]
    world = SimpleNamespace(items=items, same=items)

    @trace
    def f(u):
        world.items[0] = u
        return u * (2.0 if world.items is world.same else 3.0)

    for k in range(2):
        yield f(x * k), world.items
    world.items[:] = [2.0, 1, x]
    for k in range(2):
        yield f(x * k), world.items


# --- distinct tensors of equal value ----------------------------------------------------------


@program(traces=1)
def copy_of_a_tensor(trace: Trace) -> Steps:
    model = SimpleNamespace(w=ef.ones(2), reference=None)
    model.reference = copy.copy(model.w)
    f = trace(lambda x: (model.w * x - model.reference).sum())
    yield f(x)
    model.reference = ef.zeros(2)
    yield f(x)
    model.w = ef.full(2, 3.0)
    yield f(x), model.w is model.reference


@program(traces=1)
def deep_copy_of_a_network(trace: Trace) -> Steps:
    class Net:
        pass

    net: Any = Net()
    net.layers = [ef.ones(2), ef.ones(2)]
    target = copy.deepcopy(net)

    @trace
    def train(x):
        net.layers[0] = net.layers[0] - x
        net.layers[1] = net.layers[1] * x
        return sum((a - b).sum() for a, b in zip(net.layers, target.layers, strict=True))

    for _ in range(3):
        yield train(x), net.layers, target.layers


@program(traces=2)
def moments_that_a_trace_made_alike(trace: Trace) -> Steps:
    moments = trace(lambda n: {"m": ef.zeros(n), "v": ef.zeros(n)})(2)

    @trace
    def step(g):
        moments["m"] = 0.9 * moments["m"] + g
        moments["v"] = 0.99 * moments["v"] + g * g
        return moments["m"] / (1 + moments["v"])

    for k in range(3):
        yield step(x * k), moments


@program(traces=1)
def gradients_that_are_equal(trace: Trace) -> Steps:
    first, second = ef.grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(x, x)
    pair = SimpleNamespace(first=first, second=second)
    f = trace(lambda u: (pair.first * u - pair.second).sum())
    yield f(x)
    pair.second = x
    yield f(x)


@program(traces=1)
def copies_in_a_tuple_and_in_a_branch(trace: Trace) -> Steps:
    first = ef.ones(2)
    held = SimpleNamespace(pair=(first, copy.copy(first)))

    @trace
    def f(x):
        if x.sum() > 0:
            return held.pair[0] * x
        return held.pair[1] + x

    yield f(x), f(-x)
    held.pair = (ef.zeros(2), held.pair[1])
    yield f(x), f(-x)


@program(traces=1)
def copy_that_is_updated_in_place(trace: Trace) -> Steps:
    held = SimpleNamespace(w=ef.ones(2), copy=None)
    held.copy = copy.copy(held.w)

    @trace
    def f(x):
        held.w += x
        return held.w - held.copy

    for _ in range(3):
        yield f(x), held.w, held.copy


@program(traces=1)
def argument_and_a_copy_of_it_outside(trace: Trace) -> Steps:
    first = ef.ones(2)
    held = SimpleNamespace(copy=copy.copy(first))
    f = trace(lambda u: u * 2 - held.copy)
    yield f(first)
    held.copy = x
    yield f(first), f(x)


@program(traces=1)
def argument_in_a_tuple_that_is_read(trace: Trace) -> Steps:
    kept = (ef.tensor([1.0, 2.0]),)
    f = trace(lambda x: x * kept[0])
    yield f(kept[0])
    yield f(ef.tensor([3.0, 4.0]))
