"""Python numbers: dynamic until Python asks for a value, with Python's own arithmetic always."""

from __future__ import annotations

import math
import operator
from types import SimpleNamespace

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])
m = ef.reshape(ef.arange(12, dtype=ef.float32), (3, 4))


@program(traces=1)
def a_hundred_floats(trace: Trace) -> Steps:
    @trace
    def f(x, rate):
        return x - rate * x

    for i in range(100):
        yield f(x, i / 7)


@program(traces=1)
def special_floats(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * a, a + 1.0, -a

    for a in (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310, 1e300):
        yield f(x, a)


@program(traces=2, reports=())
def int_used_as_axis_and_as_value(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return ef.sum(x, axis=k) * k

    for k in (0, 1, 0, 1):
        yield f(m, k)


@program(traces=2)
def int_as_range(trace: Trace) -> Steps:
    @trace
    def f(x, n):
        for i in range(n):
            x = x * 2 + i
        return x

    for n in (3, 1, 3):
        yield f(x, n)


@program(traces=2)
def float_compared_in_python(trace: Trace) -> Steps:
    @trace
    def f(x, rate):
        return x * rate if rate > 0.5 else x + rate

    for rate in (0.25, 0.75, 0.25):
        yield f(x, rate)


@program(traces=2)
def reshape_by_half_a_size(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x.reshape((x.shape[0] // 2, 2)).sum(axis=0)

    for n in (4, 6, 10, 2, 0):
        yield f(ef.arange(n, dtype=ef.float32))


@program(traces=2)
def shape_in_arithmetic(trace: Trace) -> Steps:
    @trace
    def f(x):
        n, k = x.shape
        return x * n / k, n * k - 1, x.shape[0] ** 2, (n + 1) % 3, -n, n // 2

    for shape in ((3, 4), (5, 2), (1, 1), (0, 3)):
        yield f(ef.ones(shape))


@program(traces=2)
def shape_divided(trace: Trace) -> Steps:
    @trace
    def f(x):
        n = x.shape[0]
        return 1 / n, n / 4, 2.0 * n, n * 1.5 + 1, divmod(n, 2), abs(-n), float(n > -1)

    for n in (3, 4, 7):
        yield f(ef.ones(n))


@program(traces=2)
def weak_float_keeps_the_dtype(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * a + 0.1, a / x, a - x

    for a in (0.1, 1 / 3, 1e-40, 3.5e38):
        yield f(x, a)
    yield f(x.astype(ef.float64), 1 / 3)


@program(traces=2)
def float_times_int_tensor(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * a

    for a in (0.1, 2.0, 2):
        yield f(ef.tensor([1, 2]), a)


@program(traces=2)
def large_ints(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * k, k * k, k + 1

    for k in (3, 2**40, -(2**62), 10**30):
        yield f(x, k)
    yield f(ef.tensor([1, 2]), 2**40)


@program(traces=1)
def an_int_that_does_not_fit(trace: Trace) -> Steps:
    small = ef.tensor([1, 2], dtype=ef.int8)

    @trace
    def f(x, k):
        return x + k

    yield f(small, 3)
    yield attempt(f, small, 300)
    yield attempt(f, small, -129)
    yield f(small, -128)


@program(traces=0)
def an_int_that_does_not_fit_at_first(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x + k

    yield attempt(f, ef.tensor([1, 2], dtype=ef.int8), 300)[0]


@program(traces=1)
def number_arithmetic(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        c = a * b - a / (b + 10) + a // 3 + a % 2
        return x * c, c, -a, abs(b), a**2, +a

    for a, b in ((3.0, 0.5), (5.5, -2.5), (-1.0, 4.0)):
        yield f(x, a, b)


@program(traces=1)
def division_by_zero_is_pythons(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * (1 / a)

    yield f(x, 2.0)
    yield attempt(f, x, 0.0)
    yield f(x, 4.0)


@program(traces=2)
def kinds_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return isinstance(a, int), isinstance(a, float), type(a) is int, x * a

    yield f(x, 1)
    yield f(x, 1.0)


@program(traces=2)
def f_string_of_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return f"{a:.2f} {a}", x * a

    for a in (0.5, 1.25, 0.5):
        yield f(x, a)


@program(traces=2)
def math_of_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * math.sqrt(a), math.floor(a)

    for a in (4.0, 2.0, 4.0):
        yield f(x, a)


@program(traces=2)
def number_as_a_key(trace: Trace) -> Steps:
    names = {1: "one", 2: "two"}

    @trace
    def f(x, k):
        return names[k], x * k

    for k in (1, 2, 1):
        yield f(x, k)


@program(traces=2)
def number_as_an_index(trace: Trace) -> Steps:
    @trace
    def f(x, i):
        return x[i], x[:i], [1.0, 2.0, 3.0][i]

    for i in (0, 1, 0):
        yield f(m, i)


@program(traces=2)
def size_as_a_key(trace: Trace) -> Steps:
    names = {3: "three", 4: "four"}

    @trace
    def f(x):
        return names[x.shape[0]], x * 2

    yield f(ef.ones(3))
    yield f(ef.ones(4))
    yield f(ef.ones(3))


@program(traces=2)
def size_decides(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if x.shape[0] > 3 else x + 1

    for n in (3, 5, 3, 5):
        yield f(ef.ones(n))


@program(traces=2)
def round_and_conversions(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * round(a, 1), int(a), float(a), str(a), complex(a), bool(a)

    for a in (1.26, -3.5):
        yield f(x, a)


@program(traces=1)
def numbers_in_operations(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        return ef.where(x > a, x, b), ef.maximum(x, a), ef.clip(x, a, b), ef.full(3, a)

    for a, b in ((1.5, 9.0), (0.5, 1.75)):
        yield f(x, a, b)


@program(traces=1)
def numbers_in_tensors(trace: Trace) -> Steps:
    @trace
    def f(a, b):
        return ef.tensor([a, b, 1.0]), ef.tensor(a), ef.asarray([[a], [b]])

    yield f(1.0, 2.0)
    yield f(3.0, 4.0)


@program(traces=1)
def complex_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * a

    z = ef.tensor([1 + 2j, 3j])
    yield f(z, 1 + 1j)
    yield f(z, 2j)


@program(traces=1)
def sum_max_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        return x * sum([a, b]), ef.sum(ef.stack([x * a, x * b]))

    yield f(x, 1.0, 2.0)
    yield f(x, 3.0, 4.0)


@program(traces=1)
def max_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        return x * max(a, b)

    yield f(x, 1.0, 2.0)
    yield f(x, 4.0, 3.0)
    yield f(x, 1.0, 2.0)


@program(traces=1)
def numpy_of_a_traced_shape(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * float(np.prod(x.shape)), int(np.sqrt(x.shape[0]))

    yield f(m)
    yield f(m + 1)


@program(traces=2)
def booleans_from_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, flag):
        return x * flag, x + (not flag)

    yield f(x, True)
    yield f(x, False)


@program(traces=2)
def sorted_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, numbers):
        return [x * n for n in sorted(numbers)]

    yield f(x, [3.0, 1.0, 2.0])
    yield f(x, [3.0, 1.0, 4.0])


# --- identity of numbers ------------------------------------------------------------------------


@program(traces=2)
def number_that_is_the_default(trace: Trace) -> Steps:
    missing = -1

    @trace
    def f(x, k=missing):
        return x if k is missing else x * k

    yield f(x)
    yield f(x, 3)
    yield f(x, -1)
    yield f(x, 5)


@program(traces=2)
def numbers_that_are_compared_by_is_alone(trace: Trace) -> Steps:
    state = SimpleNamespace(a=0, b=0)

    @trace
    def f():
        return state.a is state.b

    yield f()
    state.a = 1
    yield f()
    state.b = 1
    yield f()


@program(traces=3)
def step_that_is_the_one_before(trace: Trace) -> Steps:
    state = SimpleNamespace(before=None)

    @trace
    def f(x, step):
        fresh = operator.is_not(state.before, step)
        state.before = step
        return x * 2 if fresh else x

    for step in (1, 1, 2, 2, 3):
        yield f(x, step), state.before


@program(traces=3)
def numbers_in_a_chain_of_is(trace: Trace) -> Steps:
    f = trace(lambda a, b, c: (a is b is c, a is not b is not c))
    for numbers in ((1, 1, 1), (1, 2, 1), (2, 2, 2), (1, 1, 2)):
        yield f(*numbers)


@program(traces=1)
def number_of_another_type_is_another(trace: Trace) -> Steps:
    f = trace(lambda x, k: (k is x, k is True, k is math))
    for k in (1, 2):
        yield f(x, k)


@program(traces=1, reports=("`is` of equal numbers",), frozen=(0,))
def large_number_that_is_another(trace: Trace) -> Steps:
    state = SimpleNamespace(a=2.5, b=2.5)

    @trace
    def f():
        return state.a is state.b

    yield f()


@program(traces=1, reports=("id() of a number",), frozen=(0,))
def ids_of_numbers(trace: Trace) -> Steps:
    state = SimpleNamespace(a=1, b=1)

    @trace
    def f():
        return id(state.a) == id(state.b)

    yield f()


@program(traces=8, reports=("traced 3 times",))
def one_nan_in_two_places(trace: Trace) -> Steps:
    state = SimpleNamespace(k=1.0, items=[2.0], by_name={"a": 2.0}, kept={1.0})
    nan, other = float("nan"), float("nan")

    @trace
    def f(x):
        k, items = state.k, state.items
        same = {"a": k} == state.by_name, items == [k], k == items[0], k in state.kept
        return x * k, k in items, items.count(k), same

    yield f(x)
    for k, item, entry in (
        (nan, nan, nan), (nan, other, nan), (other, nan, other), (2.0, 2.0, 1.0), (nan, 3.0, nan),
    ):  # fmt: skip
        state.k, state.items[0], state.by_name["a"] = k, item, entry
        yield f(x)
    state.items[0], state.kept = 1.0, {nan}
    yield f(x)
    state.by_name["a"] = 1.0
    yield f(x)


@program(traces=5, reports=("traced 3 times",))
def one_nan_in_two_arguments(trace: Trace) -> Steps:
    f = trace(lambda x, k, items: (x * k, k in items, k in {math.nan}, k in [np.nan]))
    nan = float("nan")
    for k, items in (
        (1.0, [2.0]), (3.0, [2.0]), (nan, [nan]), (math.nan, [1.0]), (np.nan, [2.0]), (1.0, [nan]),
    ):  # fmt: skip
        yield f(x, k, items)


@program(traces=1)
def a_new_nan_at_each_call(trace: Trace) -> Steps:
    f = trace(lambda x, fill: (ef.where(x > 1, x, fill), fill > 0, fill == 1))
    for _ in range(3):
        yield f(x, float("nan"))
