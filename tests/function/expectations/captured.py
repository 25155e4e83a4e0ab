"""Captured state: reads from outside a function, and changes of it between calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

rate = 0.5
weight = ef.tensor([1.0, 2.0])
counter = 0
x = ef.tensor([1.0, 2.0])


@program(traces=1)
def captured_number_changed(trace: Trace) -> Steps:
    factor = 0.5

    @trace
    def f(x):
        return x * factor

    yield f(x)
    factor = 3.0
    yield f(x)
    factor = -1e30
    yield f(x)


@program(traces=2)
def captured_number_changes_its_kind(trace: Trace) -> Steps:
    factor = 2

    @trace
    def f(x):
        return x * factor, factor

    yield f(ef.tensor([3, 4]))
    factor = 2.5
    yield f(ef.tensor([3, 4]))


@program(traces=1)
def global_number_rebound(trace: Trace) -> Steps:
    global rate
    rate = 0.5

    @trace
    def f(x):
        return x * rate

    yield f(x)
    rate = 4.0
    yield f(x)


@program(traces=2)
def global_tensor_rebound(trace: Trace) -> Steps:
    global weight
    weight = ef.tensor([1.0, 2.0])

    @trace
    def f(x):
        return x * weight

    yield f(x)
    weight = ef.tensor([5.0, 6.0])
    yield f(x)
    weight = ef.tensor(7.0)  # another number of axes
    yield f(x)


@program(traces=1)
def global_counter(trace: Trace) -> Steps:
    global counter
    counter = 0

    @trace
    def f(x):
        global counter
        counter += 1
        return x * counter

    for _ in range(3):
        yield f(x), counter


@program(traces=2)
def attribute_changed(trace: Trace) -> Steps:
    config = SimpleNamespace(rate=0.5, mode="add")

    @trace
    def f(x):
        return x + config.rate if config.mode == "add" else x * config.rate

    yield f(x)
    config.rate = 2.0
    yield f(x)
    config.mode = "multiply"
    yield f(x)
    config.mode = "add"
    yield f(x)


@program(traces=2)
def attribute_appears_and_vanishes(trace: Trace) -> Steps:
    config = SimpleNamespace()

    @trace
    def f(x):
        return x * getattr(config, "rate", 1.0) if hasattr(config, "rate") else x - 1

    yield f(x)
    config.rate = 3.0
    yield f(x)
    del config.rate
    yield f(x)


def helper(x):
    return x + 1


@program(traces=2)
def helper_redefined(trace: Trace) -> Steps:
    def helper(x):
        return x + 1

    @trace
    def f(x):
        return helper(x)

    yield f(x)

    def helper(x):  # noqa: F811 - that it is redefined is the point
        return x * 10

    yield f(x)


@program(traces=2)
def helper_in_a_global_redefined(trace: Trace) -> Steps:
    global helper
    before = helper

    @trace
    def f(x):
        return helper(x)

    yield f(x)
    helper = lambda x: x * 10
    yield f(x)
    helper = before
    yield f(x)


@program(traces=2)
def helper_deep_down_reads_a_string(trace: Trace) -> Steps:
    mode = "exp"

    def inner(x):
        return getattr(ef, mode)(x)

    def outer(x):
        return inner(x) * 2

    @trace
    def f(x):
        return outer(x)

    yield f(x)
    mode = "log"
    yield f(x)


@program(traces=2)
def list_grows_between_calls(trace: Trace) -> Steps:
    scales = [2.0, 3.0]

    @trace
    def f(x):
        for s in scales:
            x = x * s
        return x

    yield f(x)
    scales[0] = 5.0
    yield f(x)
    scales.append(7.0)
    yield f(x)


@program(traces=2)
def list_of_tensors(trace: Trace) -> Steps:
    tensors = [ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0])]

    @trace
    def f(x):
        return sum(tensors, x)

    yield f(x)
    tensors[1] = ef.tensor([10.0, 20.0])
    yield f(x)
    tensors.append(ef.tensor([100.0, 200.0]))
    yield f(x)


@program(traces=2)
def dict_mutated(trace: Trace) -> Steps:
    config = {"rate": 0.5, "scale": 2.0}

    @trace
    def f(x):
        return [x * value for value in config.values()]

    yield f(x)
    config["rate"] = 0.25
    yield f(x)
    config["more"] = 9.0
    yield f(x)


@program(traces=2)
def dict_of_dicts(trace: Trace) -> Steps:
    config = {"opt": {"rate": 0.1, "name": "sgd"}}

    @trace
    def f(x):
        return x * config["opt"]["rate"] if config["opt"]["name"] == "sgd" else x

    yield f(x)
    config["opt"]["rate"] = 0.2
    yield f(x)
    config["opt"] = {"rate": 0.3, "name": "sgd"}
    yield f(x)
    config["opt"]["name"] = "adam"
    yield f(x)


@program(traces=2)
def set_mutated(trace: Trace) -> Steps:
    flags = {"double"}

    @trace
    def f(x):
        x = x * 2 if "double" in flags else x
        return x + 1 if "shift" in flags else x

    yield f(x)
    flags.add("shift")
    yield f(x)
    flags.discard("shift")
    yield f(x)


@program(traces=2)
def closure_tensor_rebound(trace: Trace) -> Steps:
    bias = ef.tensor([1.0, 1.0])

    @trace
    def f(x):
        return x + bias

    yield f(x)
    bias = ef.tensor([5.0, 5.0])
    yield f(x)
    bias = ef.tensor([[1.0], [2.0]])
    yield f(x)


@program(traces=1)
def closure_tensor_updated(trace: Trace) -> Steps:
    bias = ef.tensor([1.0, 1.0])

    @trace
    def f(x):
        return x + bias

    yield f(x)
    bias[0] = 5.0
    yield f(x)
    bias *= 2
    yield f(x)


@program(traces=1)
def nonlocal_counter(trace: Trace) -> Steps:
    count = 0

    @trace
    def f(x):
        nonlocal count
        count += 1
        return x * count

    for _ in range(3):
        yield f(x), count
    count = 100
    yield f(x), count


@program(traces=1)
def nonlocal_tensor(trace: Trace) -> Steps:
    state = ef.zeros(2)

    @trace
    def f(x):
        nonlocal state
        state = state + x
        return state.sum()

    for _ in range(3):
        yield f(x), state


@program()
def numpy_array_captured_and_changed_in_place(trace: Trace) -> Steps:
    table = np.array([1.0, 2.0], np.float32)

    @trace
    def f(x):
        return x * table

    yield f(x)
    table[0] = 9.0
    yield f(x)


@program(traces=2)
def numpy_array_used_by_numpy_inside(trace: Trace) -> Steps:
    table = np.array([1.0, 2.0], np.float32)

    @trace
    def f(x):
        return x * ef.asarray(np.cumsum(table) * 2)

    yield f(x)
    table[0] = 9.0
    yield f(x)


@program(traces=2)
def numpy_scalar_captured(trace: Trace) -> Steps:
    factor = np.float64(0.1)

    @trace
    def f(x):
        return x * factor

    yield f(x)
    factor = np.float64(0.7)
    yield f(x)


@program(traces=3)
def default_argument_changed(trace: Trace) -> Steps:
    def scaled(x, by=2.0, mode="multiply"):
        return x * by if mode == "multiply" else x / by

    @trace
    def f(x):
        return scaled(x)

    yield f(x)
    scaled.__defaults__ = (3.0, "multiply")
    yield f(x)
    scaled.__defaults__ = (3.0, "divide")
    yield f(x)


@program(traces=2)
def captured_flag(trace: Trace) -> Steps:
    training = True

    @trace
    def f(x):
        return x * 0.5 if training else x

    yield f(x)
    training = False
    yield f(x)
    training = True
    yield f(x)


@program(traces=2)
def captured_number_decides(trace: Trace) -> Steps:
    threshold = 0.5

    @trace
    def f(x):
        return x * 2 if threshold > 1 else x + threshold

    for threshold in (0.5, 2.0, 0.75, 2.0, 0.5):  # noqa: B007 - f reads it
        yield f(x)


@program(traces=1)
def loop_variable_in_a_closure(trace: Trace) -> Steps:
    i = 0
    f = trace(lambda x: x * i)
    for i in range(4):  # noqa: B007 - f reads it
        yield f(x)


@program(traces=3)
def functions_made_in_a_loop(trace: Trace) -> Steps:
    functions = [trace(lambda x, i=i: x * i) for i in range(3)]
    for f in functions:
        yield f(x)


@program(traces=2)
def name_is_deleted_and_comes_back(trace: Trace) -> Steps:
    scale = 2.0

    @trace
    def f(x):
        try:
            return x * scale
        except NameError:
            return x

    yield f(x)
    del scale
    yield f(x)
    scale = 3.0
    yield f(x)
