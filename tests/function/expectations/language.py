"""Python's own constructs, and the results that functions may return."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@dataclass
class Result:
    loss: Any
    parts: list[Any]
    name: str = "result"


@program(traces=1)
def result_is_an_argument(trace: Trace) -> Steps:
    weight = ef.tensor([3.0, 4.0])
    f = trace(lambda a, b: (b, a, weight, a * 1))
    one, two = x * 1, x * 2
    for _ in range(2):
        result = f(one, two)
        yield result, result[0] is two, result[1] is one, result[2] is weight, result[3] is one
    result[1][0] = 9.0
    yield one


@program(traces=1)
def one_tensor_twice_in_the_result(trace: Trace) -> Steps:
    @trace
    def f(x):
        y = x * 2
        return y, [y], {"z": x * 2}

    for _ in range(2):
        a, (b,), c = f(x)
        a[0] = 100.0
        yield a, b, c, a is b


@program(traces=1)
def results_of_all_kinds(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return {
            "tuple": (x, (x * 2, None)), "none": None, "str": "text", "number": 1.5, "int": k,
            "float": k * 2.5, "bool": True, "dtype": x.dtype, "list": [], "array": np.arange(2),
            "result": Result(x.sum(), [x, k]), "range": range(3),
        }  # fmt: skip

    yield f(x, 2)
    yield f(x + 1, 3)


@program(traces=2)
def shape_returned(trace: Trace) -> Steps:
    f = trace(lambda x: (x.shape, x.shape[0] + 1, x.ndim, x.size, x.sum()))
    for n in (2, 3, 5, 0):
        yield f(ef.ones((n, 2)))


@program(traces=1)
def no_result(trace: Trace) -> Steps:
    v = ef.Variable(0.0)

    @trace
    def f(x):
        v.assign_add(x.sum())

    for _ in range(2):
        yield f(x), v


class Holder:
    def __init__(self, y):
        self.y = y


@program(traces=0, error=TraceError, words=("returns a Holder that it makes", "tensors"))
def an_object_as_a_result(trace: Trace) -> Steps:
    f = trace(lambda x: Holder(x * 2))
    f(x)
    yield 1


@program(traces=1)
def a_namespace_as_a_result(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        parts = SimpleNamespace(mean=x.mean(), count=k + 1)
        return SimpleNamespace(loss=x.sum(), parts=parts, name="f", same=parts)

    for k in range(3):
        result = f(x * k, k)
        yield vars(result.parts), result.loss, result.name, result.same is result.parts


@program(traces=1)
def a_namespace_as_an_argument(trace: Trace) -> Steps:
    @trace
    def f(state, k):
        state.w = state.w * k
        state.last, state.count = state.w, state.count + 1
        return state.w + state.count

    for k in range(3):
        state = SimpleNamespace(w=x * k, count=k, last=None)
        yield f(state, k), vars(state), state.last is state.w


@program(traces=1)
def a_namespace_that_a_branch_chooses(trace: Trace) -> Steps:
    @trace
    def f(x):
        state = SimpleNamespace(w=x * 3, n=2)
        if x.sum() > 2:
            state = SimpleNamespace(w=x * 2, n=1)
        return state.w * state.n

    for k in range(3):
        yield f(x * k)


@program(traces=0, error=TraceError, words=("generator",))
def generator_function(trace: Trace) -> Steps:
    @trace
    def f(x):
        for i in range(3):
            yield x * i

    yield list(f(x))


@program(traces=1)
def try_except(trace: Trace) -> Steps:
    config = {"a": 2.0}

    @trace
    def f(x):
        try:
            scale = config["missing"]
        except KeyError:
            scale = config["a"]
        finally:
            x = x + 1
        return x * scale

    yield f(x)
    yield f(x * 2)


@program(traces=2)
def missing_key_appears(trace: Trace) -> Steps:
    config = {"a": 2.0}

    @trace
    def f(x):
        try:
            return x * config["missing"]
        except KeyError:
            return x - 1

    yield f(x)
    config["missing"] = 9.0
    yield f(x)


@program(traces=2)
def missing_index_appears(trace: Trace) -> Steps:
    scales = [2.0]

    @trace
    def f(x):
        try:
            return x * scales[1]
        except IndexError:
            return x - 1

    yield f(x)
    scales.append(9.0)
    yield f(x)


@program(traces=2)
def key_looked_up_with_get(trace: Trace) -> Steps:
    config = {"a": 2.0}

    @trace
    def f(x):
        x = x * config.get("missing", 0.5)
        return x + 1 if "flag" in config else x

    yield f(x)
    config["missing"] = 9.0
    config["flag"] = True
    yield f(x)


@program(traces=1)
def shape_errors_are_caught(trace: Trace) -> Steps:
    @trace
    def f(x):
        try:
            return x + ef.ones(3)
        except ValueError as e:
            return x * 2, str(e).split("\n")[0]

    yield f(x)
    yield f(x + 1)


@program(traces=2)
def with_statement_of_the_user(trace: Trace) -> Steps:
    mode = "a"

    @contextmanager
    def using(name):
        nonlocal mode
        before, mode = mode, name
        try:
            yield
        finally:
            mode = before

    def scaled(x):
        return x * 2 if mode == "a" else x * 3

    @trace
    def f(x):
        with using("b"):
            y = scaled(x)
        return y, scaled(x)

    yield f(x), mode
    mode = "b"
    yield f(x), mode


@program(traces=1)
def name_scopes_and_devices(trace: Trace) -> Steps:
    @trace
    def f(x):
        with ef.name_scope("layer"), ef.device("cpu:0"):
            return ef.ones(2) + x

    yield f(x)
    yield f(x * 2)


@program(traces=2)
def device_block_around(trace: Trace) -> Steps:
    f = trace(lambda k: ef.zeros(2) + k)
    with ef.config(cpu_devices=2):
        yield f(1.0)
        with ef.device("cpu:1"):
            yield f(2.0)
        yield f(3.0)


@program(traces=1, error=ef.errors.NonFiniteError, words=("made a NaN",), eagerly=True)
def check_nan_around(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.log(x)

    yield f(-x)
    with ef.config(check_nan=True):
        yield f(x)
        yield f(-x)


@program(traces=1)
def comprehensions_and_walrus(trace: Trace) -> Steps:
    @trace
    def f(items):
        doubled = [y for i in items if (y := i * 2) is not None]
        table = {k: v + 1 for k, v in zip("abc", doubled, strict=False)}
        return doubled, table, sum(i.sum() for i in items)

    yield f([x, x + 1])
    yield f([x * 2, x])


@program(traces=1)
def sorting_by_names(trace: Trace) -> Steps:
    params = {"w": ef.tensor([1.0, 2.0]), "b": ef.tensor([3.0, 4.0])}

    @trace
    def f(x):
        return [x * v for _, v in sorted(params.items(), key=lambda item: item[0])]

    yield f(x)
    params["b"] = ef.tensor([7.0, 8.0])
    yield f(x)


@program(traces=2)
def length_and_text_of_a_size(trace: Trace) -> Steps:
    f = trace(lambda x: (len(x), f"{x.shape[0]}", str(x.shape), f"{x.shape[0]:03d}", x * 2))
    yield f(ef.ones(2))
    yield f(ef.ones(3))


@program(traces=2)
def assert_on_a_shape(trace: Trace) -> Steps:
    @trace
    def f(x):
        assert x.shape[-1] == 2, f"expected 2 columns, not {x.shape[-1]}"
        return x.sum(axis=-1)

    yield f(ef.ones((3, 2)))
    yield f(ef.ones((4, 2)))
    yield attempt(f, ef.ones((4, 5)))


@program(traces=1)
def unpacking(trace: Trace) -> Steps:
    @trace
    def f(x):
        a, b = x
        first, *rest = ef.stack([x, x * 2, x * 3])
        return a - b, first, rest, [row.sum() for row in ef.stack([x, x])]

    yield f(x)
    yield f(x * 5)


@program(traces=2)
def iterating_over_rows(trace: Trace) -> Steps:
    @trace
    def f(x):
        total = ef.zeros(2)
        for i, row in enumerate(x):
            total = total + row * i
        return total

    yield f(ef.ones((2, 2)))
    yield f(ef.ones((3, 2)))


@program(traces=1)
def inner_functions_and_mutable_locals(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        values = []

        def add(y):
            nonlocal x
            values.append(y)
            x = x + y

        for i in range(3):
            add(x * i * k)
        y = values[-1]
        y[0] = 7.0
        values[0] += 1
        return values, x

    yield f(x, 2.0), x
    yield f(x, 3.0), x


@program(traces=2)
def match_statement(trace: Trace) -> Steps:
    @trace
    def f(x, command):
        match command:
            case {"scale": scale}:
                return x * scale
            case [a, b]:
                return x * a + b
            case _:
                return x

    yield f(x, {"scale": 2.0})
    yield f(x, {"scale": 5.0})
    yield f(x, [1.0, 2.0])
    yield f(x, [3.0, 4.0])


@program(traces=1)
def numpy_constants_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * np.pi + np.array([1.0, 2.0], np.float32) * np.float32(2)

    yield f(x)
    yield f(x + 1)


@program(traces=2)
def dtype_decides(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2 if x.dtype == ef.float32 else x + 1

    yield f(x)
    yield f(ef.tensor([1, 2]))


@program(traces=2)
def import_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        import math

        return x * math.pi

    yield f(x)
    yield f(ef.tensor([[1.0]]))


@program(traces=1)
def string_methods_and_constants(trace: Trace) -> Steps:
    names = ("alpha", "beta")

    @trace
    def f(params):
        return {name.upper(): params[name] * len(name) for name in names}

    yield f({"alpha": x, "beta": x + 1})
    yield f({"alpha": x * 2, "beta": x})


@program(traces=2)
def chained_number_decisions(trace: Trace) -> Steps:
    @trace
    def f(x, step):
        rate = 0.1 * 0.9**step
        return x - rate * x, x * 2 if step % 2 else x

    for step in (0, 1, 0):
        yield f(x, step)


@program(traces=3)
def a_key_is_asked_once_for_each_item(trace: Trace) -> Steps:
    asked: list[Any] = []

    def key(item):
        asked.append(item)
        return -item

    f = trace(lambda x, ks: x * min(ks, key=key) + max(ks, key=key))
    yield f(x, [1, 3, 2]), asked
    yield f(x, [5, 4, 6]), asked
    g = trace(lambda xs: max(xs, key=key))
    yield g(list(ef.tensor([1.0, 3.0, 2.0]))), len(asked)


@program(traces=1)
def a_set_of_texts_as_a_result(trace: Trace) -> Steps:
    kept = SimpleNamespace(names=None)

    @trace
    def f(x):
        kept.names = {"a", "b"}
        return x, {"a", ("b", 1)}

    results = []
    for _ in range(3):
        results.append(f(x)[1])
        yield results[-1], kept.names, len(set(map(id, results))) == len(results)


@program(traces=0, error=TraceError, words=("returns a set that it makes",))
def one_set_in_two_results(trace: Trace) -> Steps:
    @trace
    def f(x):
        names = {"a", "b"}
        return names, names

    f(x)
    yield 1
