"""Variables, random draws, and outside state that is restored."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@program(traces=1)
def variables_in_order(trace: Trace) -> Steps:
    v = ef.Variable([1.0, 2.0])

    @trace
    def f(x):
        before = v.value
        v.assign_add(x)
        middle = v * 2
        v.assign(middle - before)
        v.assign_sub(x * 0.5)
        return before, middle, v.value, v + 0

    for _ in range(3):
        yield f(x), v


@program(traces=1)
def variable_assigned_outside(trace: Trace) -> Steps:
    v = ef.Variable([1.0, 2.0])
    f = trace(lambda x: x * v)
    yield f(x)
    v.assign([5.0, 6.0])
    yield f(x)


@program(traces=2)
def variable_replaced(trace: Trace) -> Steps:
    model = SimpleNamespace(v=ef.Variable([1.0, 2.0]))

    @trace
    def f(x):
        return model.v.assign_add(x)

    yield f(x), model.v
    model.v = ef.Variable([10.0, 20.0])
    yield f(x), model.v


@program(traces=1)
def two_variables_swapped(trace: Trace) -> Steps:
    a, b = ef.Variable([1.0, 2.0]), ef.Variable([3.0, 4.0])

    @trace
    def f():
        old = a.value
        a.assign(b)
        b.assign(old)
        return a - b

    for _ in range(3):
        yield f(), a, b


@program(traces=1)
def tensors_move_between_places(trace: Trace) -> Steps:
    state = SimpleNamespace(current=x * 1, previous=x * 0, log=[])
    pair = [x * 3, x * 2]

    @trace
    def f(y):
        state.log.append(state.current)
        state.previous = state.current
        state.current = state.current + y
        pair[0], pair[1] = pair[1], pair[0]
        return state.previous - y

    for i in range(3):
        yield f(x * i), state.previous, state.current, pair[0], pair[1], list(state.log)


@program(traces=1)
def scatter_into_a_variable(trace: Trace) -> Steps:
    v = ef.Variable(ef.zeros(4))

    @trace
    def f(i, x):
        v.scatter_add(i, x)
        v.scatter_update(ef.tensor([3]), x[:1])
        return v.sum()

    yield f(ef.tensor([0, 0]), x), v
    yield f(ef.tensor([1, 2]), x), v


@program(traces=1)
def variable_created_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        v = ef.Variable(x * 2)
        v.assign_add(x)
        return v * 1

    for k in range(3):
        yield f(x + k)


@program(traces=0, error=TraceError, words=("returns a variable that it makes", "v.value"))
def variable_created_and_returned(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.Variable(x)

    yield f(x)


@program(traces=2)
def create_once(trace: Trace) -> Steps:
    class Layer:
        def __init__(self):
            self.v = None

        @trace
        def __call__(self, x):
            if self.v is None:
                self.v = ef.Variable(ef.ones(2))
            self.v.assign_add(x)
            return self.v * x

    layer = Layer()
    for _ in range(4):
        yield layer(x), layer.v


@program(traces=2)
def create_once_without_an_attribute(trace: Trace) -> Steps:
    class Layer:
        @trace
        def __call__(self, x):
            if not hasattr(self, "v"):
                self.v = ef.Variable(ef.ones(2))
            self.v.assign_add(x)
            return self.v * x

    layer = Layer()
    for _ in range(4):
        yield layer(x), layer.v


@program(traces=1)
def random_draws(trace: Trace) -> Steps:
    @trace
    def f(n):
        return ef.random.normal((2,)), ef.random.uniform((3,)) * n

    ef.random.seed(7)
    yield f(1.0)
    yield f(2.0)
    ef.random.seed(7)
    yield f(2.0), ef.random.normal((2,))
    yield f(2.0)


@program(traces=1)
def draws_of_a_generator(trace: Trace) -> Steps:
    generator = ef.random.Generator(3)

    @trace
    def f(x):
        return generator.normal((2,)) + x, ef.random.uniform()

    for _ in range(3):
        yield f(x), generator.state["ticket"]
    generator.state = {"seed": 11, "ticket": 5}
    yield f(x), generator.state["ticket"]


@program(traces=2)
def generator_replaced(trace: Trace) -> Steps:
    generator = ef.random.Generator(3)

    @trace
    def f(x):
        return generator.normal((2,)) + x

    yield f(x)
    generator = ef.random.Generator(4)
    yield f(x), generator.state["ticket"]


@program(traces=1)
def seed_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        ef.random.seed(5)
        return ef.random.normal((2,)) + x

    for _ in range(3):
        yield f(x), ef.random.normal(())


@program(traces=1)
def permutation_and_choice(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.random.permutation(x), ef.random.randint((4,), 0, 10)

    for n in (3, 3):
        yield f(ef.arange(n))


@program(traces=1)
def list_appended_inside(trace: Trace) -> Steps:
    history = []

    @trace
    def f(x):
        history.append(x.sum())
        return x * 2

    for k in range(3):
        yield f(x + k), history


@program(traces=2)
def list_appended_inside_and_read(trace: Trace) -> Steps:
    history = []

    @trace
    def f(x):
        history.append(x)
        return sum(history, ef.zeros(2)), len(history)

    yield f(x), history
    yield f(x * 2), history


@program(traces=1)
def dict_item_set_inside(trace: Trace) -> Steps:
    state = {"last": None, "count": 0}

    @trace
    def f(x):
        state["last"] = x * 2
        state["count"] += 1
        return x

    for k in range(3):
        yield f(x + k), state


@program(traces=1)
def attribute_set_inside(trace: Trace) -> Steps:
    class Model:
        def __init__(self):
            self.hidden = None
            self.loss = 0.0

        @trace
        def __call__(self, x):
            self.hidden = [x * 2, {"sum": x.sum()}]
            self.loss = self.loss + 1.5
            return x

    model = Model()
    for k in range(3):
        yield model(x + k), model.hidden, model.loss


@program(traces=1)
def set_added_to_inside(trace: Trace) -> Steps:
    seen: set[str] = set()

    @trace
    def f(x):
        seen.add("called")
        return x * 2

    yield f(x), seen
    seen.clear()
    yield f(x)
    yield seen


@program(traces=2)
def gone_and_back(trace: Trace) -> Steps:
    v = ef.Variable(1.0)

    @trace
    def f(x, training):
        if training:
            v.assign_add(1.0)
        return x * v

    for training in (True, False, True, True, False):
        yield f(x, training), v


@program(traces=1)
def an_exception_leaves_state_as_before(trace: Trace) -> Steps:
    v = ef.Variable([1.0, 2.0])
    mine = ef.tensor([1.0, 2.0])
    count = 0

    @trace
    def f(x, y):
        nonlocal count
        count += 1
        return v.assign_add(x) + y

    yield f(x, x + 1), v, count
    yield attempt(f, x, "text")[0], mine


@program(traces=2, error=ef.errors.ShapeError, words=("cannot be broadcast",), eagerly=True)
def an_early_exception(trace: Trace) -> Steps:
    @trace
    def f(x, y):
        return x + y

    yield f(x, ef.ones(2))
    yield f(x, ef.ones(3))


@program(traces=1)
def a_trace_that_fails_changes_nothing(trace: Trace) -> Steps:
    v = ef.Variable([1.0, 2.0])
    state = {"calls": 0}
    f = trace(lambda x, bad: (v.assign_add(x), state.update(calls=1), x.reshape(7) if bad else x))
    yield attempt(f, x, True)[0]
    yield f(x, False)[2]


@program(traces=2)
def numpy_of_a_result(trace: Trace) -> Steps:
    f = trace(lambda x: (x * 2, x))
    a, b = f(x)
    yield np.asarray(a), np.asarray(b), b is x
    a[0] = 100.0
    yield f(x), a
    yield f(x.astype(ef.float64))


@program(traces=1)
def result_updated_later(trace: Trace) -> Steps:
    weight = ef.tensor([1.0, 2.0])
    f = trace(lambda x: x.reshape((2, 1)) + weight.reshape((2, 1)))
    result = f(x)
    result[0] = 50.0
    yield result, x, weight, f(x)


@program(traces=2)
def item_of_a_list_that_a_loop_only_sets(trace: Trace) -> Steps:
    items = [ef.tensor(0.0), ef.tensor(5.0)]

    @trace
    def f(rows):
        for row in rows:
            items[1] = row
        return rows

    yield f(ef.tensor([1.0, 2.0])), list(items)
    for value in (7.0, 8.0):
        items[1] = ef.tensor(value)
        yield f(ef.zeros(0)), list(items)


@program()
def items_of_a_list_that_branches_only_set(trace: Trace) -> Steps:
    items = [ef.tensor(0.0), ef.tensor(5.0)]

    @trace
    def f(t):
        if t > 0:
            items[1] = t
        else:
            items[0] = t * 2
        return t

    for value in (1.0, -1.0):
        yield f(ef.tensor(value)), list(items)
    items[:] = [ef.tensor(50.0), ef.tensor(100.0)]
    for value in (-3.0, 3.0):
        yield f(ef.tensor(value)), list(items)


# --- stores of values that are there already ------------------------------------------------------


@program(traces=3)
def attribute_set_by_a_computed_name_to_what_is_there(trace: Trace) -> Steps:
    weight = ef.tensor([9.0])
    world, names = SimpleNamespace(a=weight, b="s"), ["a"]

    @trace
    def f(x):
        setattr(world, names[0], weight)
        return x

    yield f(x), world.a is weight
    world.a = x
    yield f(x), world.a is weight
    names[0] = "b"
    yield f(x), world.b is weight


@program(traces=3)
def class_attributes_set_to_what_is_there(trace: Trace) -> Steps:
    class Counts:
        seen, last = 0, None

    @trace
    def f(x):
        Counts.seen, Counts.last = 0, None
        return x

    yield f(x), Counts.seen, Counts.last
    Counts.seen = 7
    yield f(x), Counts.seen, Counts.last
    Counts.last = "a"  # type: ignore[assignment]
    yield f(x), Counts.seen, Counts.last
