"""Rows about functions with a cache (`functools.lru_cache`), which run outside of the trace."""

from __future__ import annotations

import functools
from typing import Any

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program
from tests.function.expectations.remains import Thing

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

x = ef.tensor([1.0, 2.0])


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


def _set_by_a_cached_function(name: str, sets: str) -> None:
    """A program whose function with a cache sets what the traced function reads."""

    def body(trace: Trace) -> Steps:
        state = Thing(n=1, w=ef.tensor(1.0), items={"n": 1})

        @functools.lru_cache
        def known(k):
            exec(sets, {"state": state})
            return k * 2.0

        f = trace(lambda x, k: x * known(k) + state.n + state.w + state.items["n"])
        yield f(ef.tensor(1.0), 3)

    body.__name__ = f"cached_that_sets_{name}"
    program(traces=0, error=TraceError, words=("known() has a cache", f"{name} is set"))(body)


for _name, _sets in (
    ("state.n", "state.n += 1"),
    ("state.w", "state.w = state.w + 1"),
    ("state.items['n']", "state.items['n'] += 1"),
):
    _set_by_a_cached_function(_name, _sets)


@program(traces=0, error=TraceError, words=("known() has a cache", "state.w is set"))
def cached_that_updates_a_tensor(trace: Trace) -> Steps:
    state = Thing(w=ef.tensor([1.0]))

    @functools.lru_cache
    def known(k):
        state.w[0] = 5.0
        return k * 2.0

    f = trace(lambda x, k: x * known(k) + state.w)
    yield f(ef.tensor(1.0), 3)


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
