"""Container subclasses that override lookups, and dict keys that hash by attributes."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"

x = ef.tensor([1.0, 2.0])


class Cyclic(list):
    def __getitem__(self, i):
        return list.__getitem__(self, i % list.__len__(self))


class Doubled(list):
    def __iter__(self) -> Iterator[Any]:
        return (item * 2 for item in list.__iter__(self))

    def __len__(self):
        return 10


class Shouting(dict):
    def __getitem__(self, key):
        return dict.__getitem__(self, key.lower()) * 100

    def __iter__(self):
        return reversed(list(dict.keys(self)))

    def keys(self):
        return [key.upper() for key in dict.keys(self)]

    def values(self):
        return [value * 2 for value in dict.values(self)]

    def items(self):
        return [(key + "!", value) for key, value in dict.items(self)]

    def __len__(self):
        return 1


class Last(collections.deque):
    def __iter__(self):
        return iter([7.0])

    def __len__(self):
        return 99


class Sorted(set):
    def __iter__(self):
        return iter(sorted(set.__iter__(self), reverse=True))

    def __len__(self):
        return 50


class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n


# --- lookups that a class overrides -------------------------------------------------------------


@program(traces=3, reports=("f was traced 3 times",))
def list_whose_indices_are_cyclic(trace: Trace) -> Steps:
    items = Cyclic([1.0])

    @trace
    def f(x):
        items.append(2.0)
        return x * items[5], len(items)

    for _ in range(3):
        yield f(x), list(items)


@program(traces=4, reports=("f was traced 3 times",))
def list_that_tells_another_length(trace: Trace) -> Steps:
    items = Doubled([1.0])

    @trace
    def f(x):
        items.append(2.0)
        return x * sum(items), len(items), list.__len__(items)

    for _ in range(3):
        yield f(x), [*list.__iter__(items)]
    items[0] = 50.0
    yield f(x), [*list.__iter__(items)]


@program(traces=3)
def dict_with_methods_of_its_own(trace: Trace) -> Steps:
    options = Shouting(b=1.0, a=2.0)

    @trace
    def f(x, k):
        options["c"] = sum(options.values())
        return x * options["A"] + k, list(options.items()), [*options], len(options)

    for k in (1.0, 2.0):
        yield f(x, k), list(dict.items(options))
    dict.__setitem__(options, "a", 7.0)
    yield f(x, 3.0), list(dict.items(options))
    del options["b"]
    yield f(x, 3.0), list(dict.items(options))


@program(traces=3, reports=("f was traced 3 times",))
def deque_that_tells_other_items(trace: Trace) -> Steps:
    window = Last([1.0, 2.0])

    @trace
    def f(x):
        window.append(3.0)
        return x * window[0], list(window), len(window)

    for _ in range(3):
        yield f(x), [*collections.deque.__iter__(window)]
    window.popleft()
    yield f(x), [*collections.deque.__iter__(window)]


@program(traces=3)
def set_that_tells_another_length(trace: Trace) -> Steps:
    names = Sorted({"a"})

    @trace
    def f(x, name):
        names.add(name)
        return x * len(names), list(names)

    for name in ("b", "b", "c"):
        yield f(x, name), sorted(set.__iter__(names))


@program(traces=3, reports=("f was traced 3 times",))
def argument_with_methods_of_its_own(trace: Trace) -> Steps:
    @trace
    def f(items, options, x):
        items.append(3.0)
        options["n"] = 1.0
        return x * options["A"], list(items), len(items), list(options.items())

    items, options = Doubled([1.0]), Shouting(a=1.0)
    for _ in range(3):
        yield f(items, options, x), [*list.__iter__(items)], list(dict.items(options))


# --- keys that hash by their attributes ---------------------------------------------------------


@program(traces=2)
def key_that_is_an_argument(trace: Trace) -> Steps:
    one, two = Key(1), Key(2)
    table = {one: 1.0, two: 2.0}

    @trace
    def f(x, key):
        return x * table[key]

    yield f(x, one)
    yield f(x, two)
    table[one] = 5.0
    yield f(x, one)


@program(traces=3)
def key_that_is_written(trace: Trace) -> Steps:
    counts: dict[Any, Any] = {}
    key = Key(1)

    @trace
    def f(x):
        counts[key] = counts.get(key, 0) + 1
        return x * counts[key]

    for _ in range(3):
        yield f(x), list(counts.values())
    key = Key(1)
    counts[key] = 100
    yield f(x), list(counts.values())


@program(traces=2)
def key_that_an_attribute_holds(trace: Trace) -> Steps:
    key = Key(1)
    state = SimpleNamespace(key=key, table={key: 5.0, Key(7): 6.0})

    @trace
    def f(x):
        return x * state.table[state.key] * state.key.n

    yield f(x)
    state.key = Key(7)
    yield f(x)
    state.table[state.key] = 1.0
    yield f(x)


@program(traces=2)
def key_of_a_memo(trace: Trace) -> Steps:
    memo: dict[Any, Any] = {}
    one, two = Key(1), Key(2)

    def scaled(key, x):
        if key not in memo:
            memo[key] = x * key.n
        return memo[key]

    @trace
    def f(x):
        return scaled(one, x) + scaled(two, x)

    yield f(x), len(memo)
    yield f(x * 2), len(memo)
    memo.clear()
    yield f(x * 3), len(memo)
