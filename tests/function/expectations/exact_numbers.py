"""Numbers passed to builtins, C code or NumPy, which take exact Python numbers only."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import datetime
import decimal
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])
#: for functions that ask for the value: each number is a trace of its own
TWO = (2, 3, 2)
#: for functions that do not: one trace serves all numbers
MANY = (2, 3, 5, 2)


def each(function: Callable[..., Any], numbers: tuple[Any, ...]) -> Steps:
    """The results for these numbers."""
    for k in numbers:
        yield function(x, k)


# --- Python's operators and builtins ------------------------------------------------------------


@program(traces=2)
def powers_with_a_modulus(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * pow(2, k, 5), pow(k, 2, 5), pow(2, 2, k), pow(2, exp=k, mod=5), pow(k, 2)

    yield from each(f, TWO)


@program(traces=2)
def numbers_as_returned_keys(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return {k: x}, [{(k, 1): {k + 1: x}}], frozenset({k}), slice(k)

    yield from each(f, TWO)


@program(traces=2)
def a_number_as_the_key_of_a_cache(trace: Trace) -> Steps:
    cache: dict[int, Any] = {}

    @trace
    def f(x, k):
        cache[k] = x * 2
        return x

    yield from each(f, (2, 3))
    yield cache


@program(traces=2)
def a_number_as_a_key_of_an_argument(trace: Trace) -> Steps:
    @trace
    def f(x, k, products):
        products[k] = x * k
        return products

    for k in TWO:
        products: dict[int, Any] = {}
        yield f(x, k, products)
        yield products


@program(traces=2)
def the_type_of_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * 2 if type(k) is int else x, {int: "int", float: "float", bool: "bool"}[type(k)]

    for k in (2, 3.0, 2):
        yield f(x, k)


@program(traces=2)
def the_name_of_the_type_of_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return type(k).__name__, k.__class__.__name__, x * k

    for k in (2, 3, 2.5, 3.5):
        yield f(x, k)


@program(traces=2)
def classes_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        match k:
            case int():
                return x * 2
            case float():
                return x * 3

    for k in (2, 3, 2.5, 3.5):
        yield f(x, k)


@program(traces=2)
def a_constructor_looks_at_a_number(trace: Trace) -> Steps:
    class Rate:
        def __init__(self, value):
            assert type(value) is int
            self.text = type(value).__name__
            self.value = value

    @trace
    def f(x, k):
        return x * Rate(k).value, Rate(k).text

    yield from each(f, TWO)


@program(traces=1)
def a_dataclass_checks_a_number(trace: Trace) -> Steps:
    @dataclasses.dataclass
    class Rate:
        value: int

        def __post_init__(self):
            if not isinstance(self.value, int):
                raise TypeError("no int")
            self.value = self.value + 1

    @trace
    def f(x, k):
        return x * Rate(k).value, x * dataclasses.replace(Rate(1), value=k).value

    yield from each(f, MANY)


@program(traces=1)
def numbers_stay_inputs(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return (
            x * sum(itertools.accumulate([k, 1])),
            x * 2 if k == "auto" or k is None else x * k,
            hasattr(k, "shape"),
            getattr(k, "dtype", "none"),
        )

    yield from each(f, MANY)


@program(traces=2)
def numbers_are_compared_by_libraries(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        counted = dict(collections.Counter([k, k, 1]))
        return x, bisect.bisect([1, 2, 3], k), sorted([k, 9, 1]), counted, math.ldexp(1.0, k)

    yield from each(f, TWO)


@program(traces=2)
def numpy_takes_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        made = np.arange(k), np.eye(k), np.linspace(0, k, 3), np.repeat([1], k), np.pad([1], k)
        return x, made, np.timedelta64(k, "D") / np.timedelta64(1, "h"), np.isscalar(k), np.int8(k)

    yield from each(f, TWO)


@program(traces=2)
def numpy_computes_with_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x, np.ones(2) * k, k * np.ones(2), np.float32(2) * k, np.array([k, 1.5]), np.exp(k)

    yield from each(f, TWO)


# --- variables ----------------------------------------------------------------------------------


@program(traces=1)
def a_number_is_added_to_a_variable(trace: Trace) -> Steps:
    total = ef.Variable(1.0)

    @trace
    def f(x, k):
        total.assign_add(k)
        total.assign_sub(k * 2)
        return x * total

    yield from each(f, MANY)
    yield total


@program(traces=1)
def a_number_is_assigned(trace: Trace) -> Steps:
    half = ef.Variable(ef.zeros(2, dtype=ef.float16))

    @trace
    def f(x, k):
        half.assign([k, k + 1])
        half.assign_add(k)
        return x, half.value

    yield from each(f, MANY)


@program(traces=2)
def a_size_is_added_to_a_variable(trace: Trace) -> Steps:
    seen = ef.Variable(0.0)

    @trace
    def f(x):
        seen.assign_add(x.shape[0])
        return seen / len(x)

    for n in (2, 3, 5):
        yield f(ef.ones(n))


@program(traces=0)
def a_float_does_not_fit_a_variable_of_ints(trace: Trace) -> Steps:
    total = ef.Variable(1)

    @trace
    def f(x, k):
        total.assign_add(k)
        return x

    yield attempt(f, x, 2.5)[0]
    yield total


# --- refusals -----------------------------------------------------------------------------------


@program(traces=0, error=TraceError, words=("int(n) or float(n)", "Decimal"))
def a_library_function_called_by_a_builtin(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return [x * float(v) for v in map(decimal.Decimal, [k, 1])]

    yield f(x, 2)


@program(traces=0, error=TraceError, words=("int(n) or float(n)", "traced number", "timedelta"))
def a_library_function_called_by_a_constructor(trace: Trace) -> Steps:
    class Pause:
        def __init__(self, seconds):
            self.length = datetime.timedelta(seconds=seconds)

    @trace
    def f(x, k):
        return x * Pause(k).length.total_seconds()

    yield f(x, 2)


@program(traces=0, error=TraceError, words=("int(n) or float(n)", "__hash__"))
def a_number_as_the_hash_of_an_object(trace: Trace) -> Steps:
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n % 2 == other.n % 2

        def __hash__(self):
            return self.n % 2

    table = {Key(0): 5.0}

    @trace
    def f(x, k):
        return x * table.get(k, -1.0)

    yield f(x, Key(2))


@program(traces=1)
def an_error_of_types_stays_pythons(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * k, attempt(lambda: k + "a"), attempt(lambda: len(None))

    yield from each(f, (2,))
    yield attempt(trace(lambda x, k: x + None), x, 2)[0]


@program(traces=0, error=TraceError, words=("dumps()", "known only when the graph runs"))
def json_of_a_number_that_iterations_change(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(())
        for i in range(x.astype(ef.int32).sum()):
            total = total + len(json.dumps(i, default=str))
        return total

    yield f(x)


@program(traces=0, error=TraceError, words=(">> 1", "depends on data"))
def bits_of_a_size_that_depends_on_data(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.nonzero(x)[0].shape[0] >> 1

    yield f(x)


@program(traces=2)
def the_type_of_a_number_under_another_name(trace: Trace) -> Steps:
    kind_of = type

    class Kind:
        def __init__(self, k):
            self.name = kind_of(k).__name__

    f = trace(lambda x, k: (x * {True: 2.0, False: 3.0}[kind_of(k) is int], Kind(k).name))
    yield f(x, 1)
    yield f(x, 2.5)


@program(traces=3, reports=("traced 3 times",))
def builtins_under_other_names(trace: Trace) -> Steps:
    power, most = pow, max
    f = trace(lambda x, k: (x * power(2, k, 5), most(k, 2), most([k, 3]), most(x)))
    for k in (1, 2, 5):
        yield f(x, k)


@program(traces=0, error=TraceError, words=("* wants int", "int(n)"))
def a_number_as_the_width_of_a_text(trace: Trace) -> Steps:
    f = trace(lambda x, width: (x, "%*d" % (width, 5)))  # noqa: UP031
    yield f(x, 3)


@program(traces=0, error=TraceError, words=("character mapping", "int(n)"))
def numbers_in_a_table_of_characters(trace: Trace) -> Steps:
    table = {97: 98}
    f = trace(lambda x: (x, "aa".translate(table)))
    yield f(x)
