"""Arguments of every kind: passing, mutating and capturing them."""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])
y = ef.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@program(traces=2)
def bool_argument(trace: Trace) -> Steps:
    @trace
    def f(x, training):
        return x * 0.5 if training else x

    for training in (True, False, True):
        yield f(x, training)


@program(traces=2)
def true_is_not_one(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * k, k

    yield f(x, True)
    yield f(x, 1)
    yield f(x, 2)


@program(traces=2)
def str_argument(trace: Trace) -> Steps:
    @trace
    def f(x, activation):
        return getattr(ef, activation)(x)

    for name in ("exp", "tanh", "exp"):
        yield f(x, name)


@program(traces=2)
def none_argument(trace: Trace) -> Steps:
    @trace
    def f(x, mask=None):
        return x if mask is None else x * mask

    yield f(x)
    yield f(x, None)
    yield f(x, ef.tensor([0.0, 1.0]))
    yield f(x, mask=ef.tensor([1.0, 0.0]))


@program(traces=1)
def default_argument_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, rate=0.1, power=2):
        return x * rate + power

    yield f(x)
    yield f(x, 0.1)
    yield f(x, 0.3)
    yield f(x, power=5)
    yield f(x, power=-5, rate=2.0)


@program(traces=1)
def keyword_calls_in_another_order(trace: Trace) -> Steps:
    @trace
    def f(a, b, c=1.0):
        return a - b * c

    yield f(x, x + 1, 2.0)
    yield f(x, c=3.0, b=x * 3)
    yield f(b=x, a=x * 2, c=4.0)
    yield attempt(f, x, d=1.0)
    yield attempt(f, x)


@program(traces=4, reports=("was traced 3 times because of the structure",))
def args_and_kwargs(trace: Trace) -> Steps:
    @trace
    def f(*args, **kwargs):
        return [a * 2 for a in args], {k: v + 1 for k, v in kwargs.items()}

    yield f(x, 2.0)
    yield f(x, 3.0)
    yield f(x, 3.0, scale=x)
    yield f(x, bias=x, scale=y)
    yield f(x, scale=y, bias=x)


@program(traces=1)
def keyword_only_and_positional_only(trace: Trace) -> Steps:
    @trace
    def f(x, /, *, by=2.0):
        return x / by

    yield f(x)
    yield f(x, by=4.0)
    yield attempt(f, x, 4.0)


@program(traces=1)
def update_an_argument(trace: Trace) -> Steps:
    @trace
    def f(x, i=0):
        x[0] += 1
        x *= 2
        return x.sum()

    mine = ef.tensor([1.0, 2.0])
    for _ in range(3):
        yield f(mine), mine
    yield f(x * 1), x


@program(traces=2)
def the_same_tensor_twice_and_updated(trace: Trace) -> Steps:
    @trace
    def f(a, b):
        a[0] = 7.0
        return a + b

    mine = ef.tensor([1.0, 2.0])
    yield f(mine, ef.tensor([1.0, 2.0])), mine
    mine = ef.tensor([1.0, 2.0])
    yield f(mine, mine), mine
    yield f(ef.zeros(2), mine), mine


@program(traces=2)
def an_argument_that_is_captured_too(trace: Trace) -> Steps:
    state = ef.tensor([1.0, 2.0])

    @trace
    def f(a):
        a[0] = a[0] + 5.0
        return a + state

    yield f(ef.zeros(2)), state
    yield f(state), state
    yield f(ef.zeros(2)), state


@program(traces=0, error=TraceError, words=("items is an iterator", "pass a list"))
def generator_argument(trace: Trace) -> Steps:
    @trace
    def f(items):
        return sum(items)

    yield f(x * i for i in range(3))


@program(traces=0, error=TraceError, words=("items is an iterator", "list_iterator"))
def iterator_argument(trace: Trace) -> Steps:
    @trace
    def f(items):
        return next(items) + next(items)

    yield f(iter([x, x, x]))


@dataclass
class Batch:
    inputs: Any
    labels: Any
    weight: float = 1.0


@program(traces=1)
def dataclass_argument(trace: Trace) -> Steps:
    @trace
    def f(batch):
        return Batch(batch.inputs * batch.weight, batch.labels)

    yield f(Batch(x, x + 1))
    yield f(Batch(x * 2, x, 3.0))


@program(traces=1)
def update_inside_a_dataclass_argument(trace: Trace) -> Steps:
    @trace
    def f(batch):
        batch.inputs[0] = 9.0
        return batch.inputs + batch.labels

    batch = Batch(ef.tensor([1.0, 2.0]), x)
    yield f(batch), batch
    yield f(batch), batch


class Pair(NamedTuple):
    first: Any
    second: Any


@program(traces=2)
def namedtuple_argument(trace: Trace) -> Steps:
    @trace
    def f(pair):
        return Pair(pair.second, pair.first * 2), pair[0]

    yield f(Pair(x, 2.0))
    yield f(Pair(x, 3.0))
    yield f(Pair(2.0, x))


@program(traces=2)
def nested_dict_argument(trace: Trace) -> Steps:
    @trace
    def f(params):
        return {"out": params["w"]["kernel"] * params["rate"], "names": list(params["w"])}

    yield f({"w": {"kernel": x, "bias": y}, "rate": 0.1})
    yield f({"w": {"kernel": x * 2, "bias": y}, "rate": 0.2})
    yield f({"w": {"kernel": x}, "rate": 0.2})


@program(traces=2)
def order_of_a_dict_argument(trace: Trace) -> Steps:
    @trace
    def f(params):
        total = 0.0
        for i, value in enumerate(params.values()):
            total = total + value * (i + 1)
        return total, list(params)

    yield f({"a": x, "b": x * 10})
    yield f({"b": x * 10, "a": x})


@program(traces=2)
def ordered_dict_argument(trace: Trace) -> Steps:
    @trace
    def f(params):
        return sum(v * (i + 1) for i, v in enumerate(params.values()))

    yield f(OrderedDict(b=x, a=x * 3))
    yield f(OrderedDict(a=x * 3, b=x))


@program(traces=1)
def a_list_argument_is_changed(trace: Trace) -> Steps:
    @trace
    def f(items):
        return items[0] + items[1]

    items = [x, x * 2]
    yield f(items)
    items[1] = x * 5
    yield f(items)


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


@program(traces=2)
def enum_argument(trace: Trace) -> Steps:
    @trace
    def f(x, mode):
        return x + x if mode is Mode.ADD else x * x, mode

    for mode in (Mode.ADD, Mode.MULTIPLY, Mode.ADD):
        yield f(x, mode)


@program(traces=1)
def numpy_array_argument(trace: Trace) -> Steps:
    @trace
    def f(a, b):
        return a * b

    array = np.array([1.0, 2.0], np.float32)
    yield f(array, x)
    array[0] = 5.0
    yield f(array, x), array
    yield f(array * 2, x)


@program(traces=1)
def numpy_scalar_argument(trace: Trace) -> Steps:
    @trace
    def f(x, scale):
        return x * scale

    yield f(x, np.float32(0.1))
    yield f(x, np.float32(0.7))


@program(traces=1)
def lists_of_tensors_and_numbers(trace: Trace) -> Steps:
    @trace
    def f(params, rates):
        return [p * r for p, r in zip(params, rates, strict=True)]

    yield f([x, y], [0.1, 0.2])
    yield f([x + 1, y], [0.3, 1e-8])


@program(traces=2)
def dtype_argument(trace: Trace) -> Steps:
    @trace
    def f(x, dtype):
        return x.astype(dtype), ef.zeros(2, dtype=dtype)

    for dtype in (ef.float64, ef.int32, ef.float64):
        yield f(x, dtype)


@program(traces=2)
def device_argument(trace: Trace) -> Steps:
    @trace
    def f(x, device):
        return x.to_device(device) * 2

    with ef.config(cpu_devices=2):
        for device in ("cpu:0", "cpu:1", "cpu:0"):
            yield f(x, device)


@program(traces=4, reports=("was traced 3 times because of x",))
def dtypes_and_axes_differ(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * 2

    for made in (x, x.astype(ef.float64), ef.tensor([1, 2]), y, x + 1, y + 1):
        yield f(made)


@program(traces=2)
def sizes_differ(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x.sum() / (x.shape[0] + 1), x[-1:] * 2

    for n in (3, 4, 5, 1, 7, 0):
        yield f(ef.arange(n, dtype=ef.float32))


@program(traces=2)
def static_argument(trace: Trace) -> Steps:
    @trace(static=("k",))
    def f(x, k):
        return x * k

    for k in (2, 3, 2):
        yield f(x, k)


@program(traces=2)
def function_argument(trace: Trace) -> Steps:
    @trace
    def f(fn, x):
        return fn(x) * 2

    yield f(ef.exp, x)
    yield f(ef.tanh, x)
    yield f(ef.exp, x)


@program(traces=2)
def lambda_argument_with_a_number(trace: Trace) -> Steps:
    @trace
    def f(fn, x):
        return fn(x)

    scale = 2.0
    double = lambda x: x * scale
    yield f(double, x)
    scale = 5.0
    yield f(double, x)
    yield f(lambda x: x + 1, x)


@program(traces=1)
def variable_argument(trace: Trace) -> Steps:
    @trace
    def f(v, x):
        v.assign_add(x)
        return v * 2

    variable = ef.Variable([1.0, 2.0])
    yield f(variable, x), variable
    yield f(variable, x), variable


@program(traces=1)
def containers_in_arguments_are_changed_inside(trace: Trace) -> Steps:
    @trace
    def f(params, history, batch):
        params["w"] = params["w"] * 2
        params["more"] = params["b"]
        history.append(params["w"].sum())
        batch.inputs = batch.inputs + 1
        return params["w"]

    for _ in range(3):
        params, history, batch = {"w": x, "b": y}, [x], Batch(x, y)
        kept = params["b"]
        yield f(params, history, batch), params, history, batch, params["more"] is kept


@program(traces=1)
def items_are_taken_out_of_arguments(trace: Trace) -> Steps:
    @trace
    def f(params, items):
        w = params.pop("w")
        last = items.pop()
        items.reverse()
        return w + last

    for _ in range(2):
        params, items = {"w": x, "b": y}, [x + 1, y + 1, x]
        yield f(params, items), params, items


@program(traces=1)
def nested_containers_are_changed_inside(trace: Trace) -> Steps:
    @trace
    def f(model):
        layer = model["layers"][0]
        layer["w"] = layer["w"] - 0.5
        model["layers"][1]["count"] += 1
        return model

    model = {"layers": [{"w": x}, {"w": y, "count": 0}]}
    for _ in range(3):
        yield f(model), model


@program(traces=1)
def bytearray_argument(trace: Trace) -> Steps:
    f = trace(lambda data, x: x * data[0])
    data = bytearray(b"\x02")
    yield f(data, x)
    yield f(bytearray(data), x)


@program(traces=2)
def bytearray_argument_that_changes(trace: Trace) -> Steps:
    f = trace(lambda data, x: x * data[0])
    data = bytearray(b"\x02")
    yield f(data, x)
    data[0] = 7
    yield f(data, x)


@program(traces=2)
def text_of_numpy(trace: Trace) -> Steps:
    f = trace(lambda x, mode: (x * 2 if mode == "train" else x, f"{mode}!"))
    for mode in np.array(["train", "eval", "train"]):
        yield f(x, mode)
