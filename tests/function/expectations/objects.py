"""Classes, methods and other callables."""

from __future__ import annotations

import functools
from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@program(traces=1)
def lambda_function(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * k + 1)
    yield f(x, 2.0)
    yield f(x, 3.0)


@program(traces=2)
def partial_function(trace: Trace) -> Steps:
    def scaled(scale, x, shift):
        return x * scale + shift

    f = trace(functools.partial(scaled, ef.tensor(3.0), shift=1.0))
    yield f(x)
    yield f(x * 2)
    yield f(x, shift=5.0)


@program(traces=3, reports=("traced 3 times",))
def partial_whose_keywords_change(trace: Trace) -> Steps:
    def scaled(x, k, m=1.0, mode="add"):
        return x * k + m if mode == "add" else x * k - m

    partial = functools.partial(scaled, k=2.0)
    f = trace(partial)
    yield f(x), f(x)
    partial.keywords["k"] = 5.0
    yield f(x), f(x)
    partial.keywords["m"] = 7.0
    yield f(x), f(x)
    partial.keywords["mode"] = "subtract"
    yield f(x), f(x)


@program(traces=2)
def partial_of_a_traced_function(trace: Trace) -> Steps:
    @trace
    def scaled(x, scale, mode="multiply"):
        return x * scale if mode == "multiply" else x / scale

    f = functools.partial(scaled, scale=2.0)
    yield f(x)
    yield f(x, scale=3.0)
    yield f(x, mode="divide")


@program(traces=1)
def method_of_two_instances(trace: Trace) -> Steps:
    class Layer:
        def __init__(self, weight):
            self.weight = ef.tensor(weight)
            self.rate = 0.5

        @trace
        def __call__(self, x):
            return x * self.weight * self.rate

    a = Layer([1.0, 2.0])
    yield a(x)
    yield a(x * 2)
    a.weight = ef.tensor([5.0, 6.0])
    a.rate = 2.0
    yield a(x)


@program(traces=2)
def two_instances(trace: Trace) -> Steps:
    class Counter:
        def __init__(self, step):
            self.step = step
            self.total = ef.zeros(2)

        @trace
        def add(self, x):
            self.total = self.total + x * self.step
            return self.total

    a, b = Counter(1.0), Counter(10.0)
    for _ in range(3):
        yield a.add(x), b.add(x)
    yield a.total, b.total, a.add(x) is a.total


@program(traces=1)
def bound_method_traced(trace: Trace) -> Steps:
    class Model:
        def __init__(self):
            self.scale = 2.0

        def forward(self, x):
            return x * self.scale

    model = Model()
    f = trace(model.forward)
    yield f(x)
    model.scale = 5.0
    yield f(x)


@program(traces=3)
def classmethod_and_staticmethod(trace: Trace) -> Steps:
    class Model:
        scale = 2.0

        @classmethod
        def by_class(cls, x):
            return x * cls.scale

        @staticmethod
        def plain(x):
            return x + 1

    f = trace(lambda x: Model.by_class(x) + Model.plain(x))
    yield f(x)
    Model.scale = 7.0
    yield f(x)
    Model.plain = staticmethod(lambda x: x - 1)
    yield f(x)


@program(traces=2)
def property_read(trace: Trace) -> Steps:
    class Model:
        def __init__(self):
            self.log_scale = 0.5
            self.mode = "up"

        @property
        def scale(self):
            return self.log_scale * 2 if self.mode == "up" else -self.log_scale

        @trace
        def __call__(self, x):
            return x * self.scale

    model = Model()
    yield model(x)
    model.log_scale = 3.0
    yield model(x)
    model.mode = "down"
    yield model(x)


class Dense:
    def __init__(self, scale: float) -> None:
        self.weight = ef.tensor([scale, scale])
        self.bias = scale

    def __call__(self, x: Any) -> Any:
        return x * self.weight + self.bias


@program(traces=2)
def layers_in_a_list(trace: Trace) -> Steps:
    class Net:
        def __init__(self):
            self.layers = [Dense(2.0), Dense(3.0)]

        @trace
        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    net = Net()
    yield net(x)
    net.layers[1].weight = ef.tensor([0.5, 0.25])
    yield net(x)
    net.layers[0].bias = -1.0
    yield net(x)
    net.layers.append(Dense(10.0))
    yield net(x)
    net.layers[2].bias = 3.0
    yield net(x)


@program(traces=2)
def layer_replaced(trace: Trace) -> Steps:
    class Net:
        def __init__(self):
            self.layer = Dense(2.0)

        @trace
        def __call__(self, x):
            return self.layer(x)

    net = Net()
    yield net(x)
    net.layer = Dense(5.0)
    yield net(x)


@program(traces=2)
def layers_in_a_dict(trace: Trace) -> Steps:
    layers = {"a": Dense(2.0), "b": Dense(3.0)}

    @trace
    def f(x):
        for name, layer in layers.items():
            x = layer(x) if name != "skip" else x
        return layers["a"](x)

    yield f(x)
    layers["a"].bias = 7.0
    yield f(x)
    layers["c"] = Dense(0.5)
    yield f(x)


@program(traces=1)
def inherited_attribute(trace: Trace) -> Steps:
    class Base:
        def __init__(self):
            self.rate = 0.5

        def scaled(self, x):
            return x * self.rate

    class Model(Base):
        @trace
        def __call__(self, x):
            return super().scaled(x) + self.rate

    model = Model()
    yield model(x)
    model.rate = 2.0
    yield model(x)


@program(traces=3)
def class_attribute_changed(trace: Trace) -> Steps:
    class Model:
        rate = 0.5

        @trace
        def __call__(self, x):
            return x * self.rate

    model = Model()
    yield model(x)
    Model.rate = 2.0
    yield model(x)
    model.rate = 9.0
    yield model(x)


@program(traces=2)
def method_replaced_on_the_class(trace: Trace) -> Steps:
    class Model:
        def activation(self, x):
            return x * 2

        @trace
        def __call__(self, x):
            return self.activation(x)

    model = Model()
    yield model(x)
    Model.activation = lambda self, x: x - 100
    yield model(x)


@program(traces=2)
def method_replaced_on_the_instance(trace: Trace) -> Steps:
    class Model:
        def activation(self, x):
            return x * 2

        @trace
        def __call__(self, x):
            return self.activation(x)

    model = Model()
    yield model(x)
    model.activation = lambda x: x - 100
    yield model(x)


@program(traces=2)
def decorator_below(trace: Trace) -> Steps:
    def doubled(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return wrapper

    @trace
    @doubled
    def f(x, k=1.0):
        """Doc."""
        return x + k

    yield f(x), f.__name__, f.__doc__
    yield f(x, k=3.0)


@program(traces=1)
def decorator_with_defaults_of_its_own(trace: Trace) -> Steps:
    def five_times(fn):
        @functools.wraps(fn)
        def wrapper(x, k=5.0):
            return fn(x, k)

        return wrapper

    @trace
    @five_times
    def f(x, k=1.0):
        return x * k

    yield f(x)
    yield f(x, 3.0)


@program(traces=2)
def decorator_that_gives_an_argument(trace: Trace) -> Steps:
    def with_two(fn):
        @functools.wraps(fn)
        def wrapper(x, *rest):
            return fn(2.0, x, *rest)

        return wrapper

    @trace
    @with_two
    def f(c, x, k=1.0):
        return x * c * k

    yield f(x)
    yield f(x, 3.0)


@program(traces=2)
def decorator_that_looks_at_keywords(trace: Trace) -> Steps:
    calls = []

    def logged(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            calls.append((len(args), list(kwargs)))
            return fn(*args, **kwargs)

        return wrapper

    @trace
    @logged
    def f(x, scale=1.0, *, shift=0.0):
        return x * scale + shift

    yield f(x), calls
    yield f(x, shift=3.0), calls
    yield f(x, shift=4.0), calls


@program(traces=1)
def decorator_above(trace: Trace) -> Steps:
    calls = []

    def logged(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            calls.append(len(args))
            return fn(*args, **kwargs)

        return wrapper

    @logged
    @trace
    def f(x, k):
        return x * k

    yield f(x, 2.0), calls, f.__name__
    yield f(x, 3.0), calls


@program(traces=1)
def recursion(trace: Trace) -> Steps:
    def power(x, n):
        return x * power(x, n - 1) if n else ef.ones_like(x)

    f = trace(lambda x: power(x, 4))
    yield f(x)
    yield f(x + 1)


@program(traces=2)
def recursion_of_a_traced_function(trace: Trace) -> Steps:
    @trace
    def power(x, n):
        return x * power(x, n - 1) if n > 0 else ef.ones_like(x)

    yield power(x, 3)
    yield power(x, 2)


@program(traces=4)
def nested_traced_functions(trace: Trace) -> Steps:
    scale = 2.0

    @trace
    def inner(x, k):
        return x * k * scale

    @trace
    def outer(x):
        return inner(x, 3.0) + inner(x, 4.0)

    yield outer(x), inner(x, 1.0)
    scale = 5.0
    yield outer(x), inner(x, 1.0)

    @trace
    def inner(x, k):
        return x - k

    yield outer(x), inner(x, 1.0)


@program(traces=1)
def callable_object(trace: Trace) -> Steps:
    layer = Dense(3.0)
    f = trace(layer)
    yield f(x)
    layer.bias = 10.0
    yield f(x)


@program(traces=2)
def slots(trace: Trace) -> Steps:
    class Model:
        __slots__ = ("mode", "rate", "weight")

        def __init__(self):
            self.rate, self.mode, self.weight = 0.5, "add", ef.tensor([1.0, 2.0])

        @trace
        def __call__(self, x):
            self.rate = self.rate * 2
            return x + self.weight * self.rate if self.mode == "add" else x

    model = Model()
    yield model(x), model.rate
    yield model(x), model.rate
    model.mode = "other"
    yield model(x), model.rate


@program(traces=2)
def getattr_fallback(trace: Trace) -> Steps:
    class Config:
        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return 2.0

    config = Config()

    @trace
    def f(x):
        return x * config.rate

    yield f(x)
    config.rate = 5.0
    yield f(x)


@program(traces=2)
def instance_made_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        layer = Dense(2.0)
        return layer(x)

    before = Dense.__call__
    yield f(x)
    try:
        Dense.__call__ = lambda self, x: x - self.bias
        yield f(x)
    finally:
        Dense.__call__ = before
