"""Sizes are Python's ints: code that works for the first shape works for the others."""

from __future__ import annotations

import datetime
import decimal
import functools
import io
import json
import math
import numbers
import statistics
import struct
from collections import Counter, deque
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

#: for functions of a symbolic size: the second trace serves all further sizes
MANY = (2, 3, 5, 4, 2)
#: for functions that make the size static: each size is a trace of its own
TWO = (2, 3, 2, 3)


def each(function: Callable[..., Any], sizes: tuple[int, ...]) -> Steps:
    """The results for tensors of these sizes."""
    for n in sizes:
        yield function(ef.arange(n, dtype=ef.float32) + 1)


# --- isinstance and match ---------------------------------------------------------------------


@program(traces=2)
def a_size_is_an_int(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x * 2 if isinstance(n, int) and not isinstance(n, bool) else x

    yield from each(f, MANY)


@program(traces=2)
def a_size_is_a_number(trace: Trace) -> Steps:
    @trace
    def f(x):
        kinds = (numbers.Number, numbers.Integral, numbers.Real)
        return x * sum(isinstance(x.shape[0], kind) for kind in kinds)

    yield from each(f, MANY)


@program(traces=2)
def all_of_a_shape_are_ints(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 3 if all(isinstance(d, (int, float)) for d in x.shape) else x

    yield from each(f, MANY)


@program(traces=2)
def a_size_matches_int(trace: Trace) -> Steps:
    @trace
    def f(x):
        match x.shape:
            case (int(n),):
                return x * n
            case _:
                return x

    yield from each(f, MANY)


@program(traces=2)
def a_size_matches_a_literal(trace: Trace) -> Steps:
    @trace
    def f(x):
        match x.shape[0]:
            case 2:
                return x + 1
            case int() if x.ndim == 1:
                return x + 2
            case _:
                return x

    yield from each(f, TWO)


@program(traces=2)
def a_size_dispatches_as_an_int(trace: Trace) -> Steps:
    @functools.singledispatch
    def scale(n):
        return 1

    @scale.register
    def _(n: int):
        return 2

    @trace
    def f(x):
        return x * scale(x.shape[0])

    yield from each(f, MANY)


@program(traces=2)
def the_class_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if x.shape[0].__class__ is int else x

    yield from each(f, MANY)


@program(traces=2)
def the_type_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if type(x.shape[0]) is int else x, type(x.shape[0])

    yield from each(f, TWO)


@program(traces=2)
def the_name_of_the_type_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return type(x.shape[0]).__name__, x

    yield from each(f, MANY)


@program(traces=2)
def a_constructor_looks_at_a_size(trace: Trace) -> Steps:
    class Layer:
        def __init__(self, width):
            if type(width) is not int:
                raise TypeError("the width is no int")
            self.width = width

    @trace
    def f(x):
        return x * Layer(x.shape[0]).width

    yield from each(f, TWO)


@program(traces=2)
def attributes_that_a_size_lacks(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x * getattr(n, "item", 3), hasattr(n, "shape"), attempt(lambda: n.item)

    yield from each(f, MANY)


# --- operators and methods of int --------------------------------------------------------------


@program(traces=2)
def bits_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, n >> 1, n & 1, n | 8, n ^ 3, n << 2, 1 << n, 6 & n, ~n

    yield from each(f, TWO)


@program(traces=2)
def methods_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, n.bit_length(), n.to_bytes(2, "big"), n.bit_count(), n.as_integer_ratio()

    yield from each(f, TWO)


@program(traces=2)
def parts_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, n.real, n.imag, n.numerator, n.denominator, n.conjugate()

    yield from each(f, TWO)


@program(traces=2)
def a_loop_halves_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n, count = x.shape[0], 0
        while n:
            n, count = n >> 1, count + 1
        return x * count

    yield from each(f, TWO)


@program(traces=2)
def powers_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, pow(n, 2, 5), pow(2, n, 5), pow(2, 2, n), pow(n, 2), pow(2, n), n**0.5

    yield from each(f, TWO)


@program(traces=2)
def sizes_and_sequences(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, [0] * n, n * "ab", (1,) * n, "abcdef"[n], list(range(9))[:n]

    yield from each(f, TWO)


@program(traces=2)
def a_size_in_containers(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, n in {3: 1}, n in [3, 4], n in range(3, 9), {3: 7}.get(n, 1), len({n, 3})

    yield from each(f, TWO)


@program(traces=2)
def sizes_as_keys(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return {n: x}, [{"inner": {(n, 1): x}}], frozenset({n, 7}), slice(n, None)

    yield from each(f, TWO)


@program(traces=2)
def a_size_as_the_key_of_a_cache(trace: Trace) -> Steps:
    cache: dict[int, Any] = {}

    @trace
    def f(x):
        cache[x.shape[0]] = x * 2
        return x

    yield from each(f, (2, 3))
    yield cache


# --- NumPy ----------------------------------------------------------------------------------------


@program(traces=2)
def numpy_makes_arrays_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x + np.arange(n), np.zeros(n) + x, np.linspace(0, 1, n) + x, x @ np.eye(n)

    yield from each(f, TWO)


@program(traces=2)
def numpy_makes_an_array_of_a_shape(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * np.array(x.shape), np.asarray(x.shape[0]) * x, x * np.array([x.shape[0], 1.5])[1]

    yield from each(f, TWO)


@program(traces=2)
def functions_of_numpy_take_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, float(np.sqrt(n)), int(np.prod(x.shape)), np.log2(n), np.clip(n, 0, 2)

    yield from each(f, TWO)


@program(traces=2)
def arithmetic_of_arrays_with_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, np.ones(2) * n, n * np.ones(2), n / np.array([1, 2]), np.float32(2) * n

    yield from each(f, TWO)


@program(traces=2)
def scalars_of_numpy_made_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, np.int8(n), np.float64(n), np.timedelta64(n, "D") / np.timedelta64(1, "D")

    yield from each(f, TWO)


# --- Python's library -------------------------------------------------------------------------


@program(traces=2)
def json_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x, json.dumps({"n": x.shape[0], "shape": x.shape}), json.dumps(x.shape[0])

    yield from each(f, TWO)


@program(traces=2)
def json_with_a_default(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x, json.dumps({"n": x.shape[0]}, default=str)

    yield from each(f, TWO)


@program(traces=2)
def json_in_a_property(trace: Trace) -> Steps:
    class Rows:
        def __init__(self, n):
            self.n = n

        @property
        def text(self):
            return json.dumps({"n": self.n}, default=str)

    @trace
    def f(x):
        return x, Rows(x.shape[0]).text, list(dumped(x.shape))

    def dumped(shape):
        for n in shape:
            yield json.dumps(n, default=str)

    yield from each(f, TWO)


@program(traces=2)
def exact_arithmetic_with_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, str(decimal.Decimal(n) / 3), str(n * decimal.Decimal("1.5")), str(Fraction(1, n))

    yield from each(f, TWO)


@program(traces=2)
def durations_of_a_size(trace: Trace) -> Steps:
    second = datetime.timedelta(seconds=1)

    @trace
    def f(x):
        n = x.shape[0]
        return x, str(datetime.timedelta(seconds=n)), str(n * second), str(second * n)

    yield from each(f, TWO)


@program(traces=2)
def statistics_of_a_shape(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x, statistics.mean([*x.shape, 1]), struct.pack("i", x.shape[0])

    yield from each(f, TWO)


@program(traces=2)
def a_size_bounds_a_deque(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return x, list(deque(range(9), maxlen=n)), math.ldexp(1.0, n)

    yield from each(f, TWO)


@program(traces=2)
def a_size_in_a_dataclass(trace: Trace) -> Steps:
    @dataclass(frozen=True)
    class Key:
        n: int

    @trace
    def f(x):
        return x * 2 if Key(x.shape[0]) in {Key(3)} else x

    yield from each(f, TWO)


# --- texts ------------------------------------------------------------------------------------


@program(traces=2)
def texts_of_what_holds_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        held = {n}, deque([n]), KeyError(n), slice(n), Counter({"n": n}), x.shape
        return x, [str(one) for one in held], f"{held}", "%s" % (held,), "{!r}".format(held)  # noqa: UP031, UP032

    yield from each(f, TWO)


@program(traces=2)
def the_text_of_an_exception_with_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        try:
            raise ValueError(x.shape[0], f"{x.shape}")
        except ValueError as error:
            return x, error.args, str(error), repr(error)

    yield from each(f, TWO)


@program(traces=2)
def texts_of_objects_with_a_size(trace: Trace) -> Steps:
    @dataclass
    class Held:
        n: int
        shape: tuple[int, ...]

    class Own:
        def __init__(self, n):
            self.n = n

        def __repr__(self):
            return f"Own({self.n})"

    @trace
    def f(x):
        n = x.shape[0]
        return x, str(Held(n, x.shape)), repr([Own(n)]), n.__repr__(), format(n, "03d")

    yield from each(f, TWO)


@program(traces=2, reports=("print runs only while tracing",))
def what_is_printed_of_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        print("rows", len(x), x.shape, {len(x)})
        return x

    with redirect_stdout(io.StringIO()) as printed:
        f(ef.ones(2))
        f(ef.ones(3))
    yield printed.getvalue()


@program(traces=4, reports=("was traced 3 times",))
def a_condition_on_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if len(x) % 2 else x

    for n in (2, 3, 4, 5, 3):
        yield f(ef.ones(n))
