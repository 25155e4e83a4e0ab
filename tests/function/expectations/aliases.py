"""Dicts with attributes, and objects that become one after a trace."""

from __future__ import annotations

from types import SimpleNamespace

import eagerflow as ef
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
