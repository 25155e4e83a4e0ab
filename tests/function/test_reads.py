"""What a function reads from outside, for functions and objects of every kind."""

from __future__ import annotations

import collections
import functools
import logging
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.function.collect import collect
from eagerflow.function.places import Root
from eagerflow.function.reads import Reads
from tests.function import settings_module

# mypy: disable-error-code="no-untyped-def"

lr = 0.5
flag = True
weight = ef.tensor([1.0, 2.0])
variable = ef.Variable([1.0])
config: dict[str, Any] = {"lr": 0.1, "opt": {"momentum": 0.9, "name": "sgd"}, "log": []}
sizes = [3, 4]
pair = (1, 2.0)
table = np.ones(3)
mask = np.ones(3)
long = list(range(5000))


def kinds(reads: Reads) -> dict[str, str]:
    return {r.place.text: r.kind for r in reads.reads if r.kind != "unshadowed"}


def found(function: Callable[..., Any], *roots: tuple[str, Any]) -> dict[str, str]:
    return kinds(collect(function, roots))


def has(function: Callable[..., Any], *roots: tuple[str, Any], **expected: str) -> None:
    got = found(function, *roots)
    for name, kind in expected.items():
        assert got.get(name) == kind, got


# --- names -----------------------------------------------------------------------------------


def helper(x):
    return x * lr


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def test_globals() -> None:
    def f(x):
        return x * weight * lr if flag else x + variable

    has(f, weight="tensor", lr="number", flag="value", variable="identity")


def test_helpers_are_entered() -> None:
    has(lambda x: helper(x), helper="function", lr="number")


def test_recursion() -> None:
    has(even, odd="function")
    has(lambda n: even(n), even="function", odd="function")


def test_builtins_may_be_hidden() -> None:
    has(lambda x: sum(x), sum="absent")


def test_closures() -> None:
    rate, other = 0.1, ef.tensor(1.0)

    def f(x):
        def inner():
            return x * rate

        return inner() + other

    has(f, rate="number", other="tensor")


def test_an_unbound_cell() -> None:
    def f(x):
        return later(x)

    assert "later" not in found(f)

    def later(x):
        return x * lr

    has(f, later="function", lr="number")


def test_inner_functions_and_comprehensions() -> None:
    def f(xs):
        def inner(x):
            return x * lr

        return [inner(x) + weight for x in xs]

    has(f, lr="number", weight="tensor")


def test_modules() -> None:
    def f(x):
        return x * settings_module.rate + settings_module.shifted(x)

    got = found(f)
    assert got["settings_module"] == "identity"
    assert got["settings_module.rate"] == "number"
    assert got["settings_module.shifted"] == "function"
    assert got["settings_module.shift"] == "number"
    assert not any("unused" in name for name in got)


def test_imports_inside() -> None:
    def f(x):
        from tests.function import settings_module as here

        return x * here.rate

    assert found(f)["tests.function.settings_module.rate"] == "number"


def test_library_modules_are_not_entered() -> None:
    got = found(lambda x: math.sin(x) + np.pi + ef.sin(x))
    assert got == {"math": "identity", "np": "identity", "ef": "identity"}


# --- functions of other kinds ----------------------------------------------------------------


def test_partial() -> None:
    has(functools.partial(helper, 2), lr="number")
    bound = functools.partial(lambda x, k, other: x * k * lr, k=0.5, other=weight)
    got = found(lambda x: bound(x))
    assert got["bound.keywords['k']"] == "number"
    assert got["bound.keywords['other']"] == "tensor"
    assert got["lr"] == "number"
    assert found(functools.partial(helper, lr))["args[0]"] == "value"


def test_decorated() -> None:
    def twice(f):
        @functools.wraps(f)
        def wrapper(x):
            return f(f(x))

        return wrapper

    has(twice(helper), lr="number", f="function")


def test_lambda_and_exec() -> None:
    namespace: dict[str, Any] = {"rate": 0.1, "w": weight}
    exec("def f(x): return x * rate * w", namespace)
    has(namespace["f"], rate="number", w="tensor")


def test_a_class_made_by_exec() -> None:
    namespace: dict[str, Any] = {}
    exec("class C:\n    def m(self, x): return x * self.k\nc = C()\nc.k = 2.0", namespace)
    exec("def f(x): return c.m(x)", namespace)
    has(namespace["f"], **{"c.k": "number", "C.m": "function"})


def test_gradients_of_functions() -> None:
    def loss(x):
        return (x * weight * lr).sum()

    for f in (ef.grad(loss), ef.value_and_grad(loss), ef.remat(loss)):
        has(f, weight="tensor", lr="number")
        has(lambda x, f=f: f(x))
    gradient = ef.grad(loss)
    has(lambda x: gradient(x), gradient="function", weight="tensor", lr="number")


def test_custom_vjp() -> None:
    @ef.custom_vjp
    def f(x):
        return x * lr

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * weight,))
    has(lambda x: f(x), lr="number", weight="tensor")


def test_lru_cache() -> None:
    cached = functools.lru_cache(helper)
    has(lambda x: cached(x), lr="number")


def test_wrt_of_a_gradient() -> None:
    variables = [variable]
    gradient = ef.grad(lambda: (variable * lr).sum(), wrt=variables)
    has(lambda: gradient(), lr="number", **{"wrt[0]": "alias"})


def test_defaults_of_helpers() -> None:
    def inner(x, k=2.0, *, w=weight):
        return x * k * w

    got = found(lambda x: inner(x))
    assert got["the defaults of inner[0]"] == "value"
    assert got["the defaults of inner['w']"] == "tensor"


def test_attributes_of_functions() -> None:
    def inner(x):
        return x * inner.rate

    inner.rate = 0.5  # type: ignore[attr-defined]  # what functions can have
    has(lambda x: inner(x), **{"inner.rate": "number"})


# --- objects ---------------------------------------------------------------------------------


class Layer:
    scale = 2.0
    unused = 5.0

    def __init__(self, w: Any) -> None:
        self.w = w
        self.other = 1.0

    def __call__(self, x: Any) -> Any:
        return self.act(x) * self.w * self.scale

    def act(self, x: Any) -> Any:
        return x * lr

    @property
    def doubled(self) -> Any:
        return self.w * config["lr"]

    @staticmethod
    def static(x: Any) -> Any:
        return x * weight

    @classmethod
    def make(cls) -> Any:
        return cls(variable)

    @functools.cached_property
    def cached(self) -> Any:
        return self.other * 2


class Wide(Layer):
    def act(self, x: Any) -> Any:
        return super().act(x) + flag


class Slotted:
    __slots__ = ("__secret", "a", "b")

    def __init__(self) -> None:
        self.a = 1.0
        self.__secret = 2.0

    def secret(self) -> float:
        return self.__secret


@dataclass
class Settings:
    rate: float = 0.1
    name: str = "a"
    inner: Any = field(default_factory=lambda: SimpleNamespace(deep=3))


class Mode(Enum):
    A = "a"
    B = "b"


class Point(NamedTuple):
    x: float
    y: Any


class Dynamic:
    def __init__(self) -> None:
        self.parts = {"w": weight}

    def __getattr__(self, name: str) -> Any:
        return self.parts[name]


def test_objects_by_the_names_read() -> None:
    layer = Layer(weight)
    got = found(lambda x: layer(x))
    assert got["layer"] == "identity"
    assert got["layer.w"] == "tensor"
    assert got["Layer.__call__"] == got["Layer.act"] == "function"
    assert got["Layer.scale"] == "value"
    assert got["lr"] == "number"
    assert not {"layer.other", "Layer.unused", "Layer.doubled"} & got.keys()


def test_methods() -> None:
    layer = Layer(weight)
    has(layer.act, lr="number", self="identity")
    has(Layer.__call__, ("self", layer), **{"self.w": "tensor", "lr": "number"})
    method = layer.act
    reads = collect(lambda x: method(x))
    assert [r.kind for r in reads.reads if r.place.text == "method"] == ["type", "function"]
    assert kinds(reads)["lr"] == "number"


def test_a_callable_object() -> None:
    has(Layer(weight), w="tensor", lr="number")


def test_properties_static_and_class_methods() -> None:
    layer = Layer(1.0)
    got = found(lambda x: layer.doubled * layer.static(x) + layer.cached)
    assert got["Layer.doubled"] == "function"
    assert got["config['lr']"] == "number"
    assert got["weight"] == "tensor"
    assert got["layer.other"] == "number"
    assert found(lambda: Layer.make())["variable"] == "identity"


def test_methods_of_bases() -> None:
    wide = Wide(weight)
    has(lambda x: wide(x), flag="value", lr="number")


def test_slots() -> None:
    slotted = Slotted()
    has(lambda: slotted.a, **{"slotted.a": "number"})
    has(lambda: slotted.secret(), **{"slotted._Slotted__secret": "number"})
    assert "slotted.b" not in found(lambda: slotted.b)


def test_dataclasses_and_namespaces() -> None:
    settings = Settings()
    got = found(lambda x: x * settings.rate * settings.inner.deep)
    assert got["settings.rate"] == "number"
    assert got["settings.inner.deep"] == "number"
    assert "settings.name" not in got


def test_making_instances() -> None:
    got = found(lambda x: Layer(x))
    assert got["Layer.__init__"] == "function"
    instance = Layer(1.0)
    assert "Layer.__init__" not in found(lambda x: instance(x))


def test_enums_and_named_tuples() -> None:
    mode, point = Mode.A, Point(1.0, weight)
    got = found(lambda x: x * point.x + point.y if mode is Mode.A else x)
    assert got["mode"] == "value"
    assert got["point[0]"] == "value"
    assert got["point[1]"] == "tensor"


def test_getattr() -> None:
    settings = Settings()
    got = found(lambda x: x * getattr(settings, "rate"))  # noqa: B009 - that is what is tested
    assert got["settings.rate"] == "number"
    assert "settings.inner" not in got

    def computed(x, name):
        return x * getattr(settings, f"{name}")

    got = found(computed)
    assert got["settings.rate"] == "number"
    assert got["settings.name"] == "value"


def test_user_getattr() -> None:
    dynamic = Dynamic()
    got = found(lambda x: x * dynamic.w)
    assert got["dynamic.parts['w']"] == "tensor"
    assert got["Dynamic.__getattr__"] == "function"


def test_match_reads_attributes() -> None:
    settings = Settings()

    def f(x):
        match settings:
            case Settings(rate=r):
                return x * r

    has(f, **{"settings.rate": "number"})


def test_cycles() -> None:
    parent, child = SimpleNamespace(rate=0.1), SimpleNamespace(rate=0.2)
    parent.child, child.parent = child, parent
    parent.me = parent
    got = found(lambda x: x * parent.child.parent.me.rate)
    assert got["parent.rate"] == got["parent.child.rate"] == "number"
    assert got["parent.child.parent"] == got["parent.me"] == "alias"
    ring: list[Any] = [0.5]
    ring.append(ring)
    assert found(lambda: ring)["ring[1]"] == "alias"


# --- containers ------------------------------------------------------------------------------


def test_constant_subscripts() -> None:
    got = found(lambda x: x * config["opt"]["momentum"] * sizes[0])
    assert got["config"] == got["config['opt']"] == "type"
    assert got["config['opt']['momentum']"] == "number"
    assert not {"config['lr']", "config['log']", "config['opt']['name']", "sizes[1]"} & got.keys()


def test_used_as_a_whole() -> None:
    got = found(lambda: [config, sizes])
    assert got["config"] == "keys"
    assert got["config['lr']"] == "number"
    assert got["sizes"] == "length"
    assert got["sizes[1]"] == "number"


def test_subscripts_elsewhere_and_whole_here() -> None:
    def f(x):
        c = config["opt"]
        return x * config["lr"] + sum(c.values())

    got = found(f)
    assert got["config"] == "type"
    assert got["config['opt']"] == "keys"
    assert got["config['opt']['name']"] == "value"


def test_only_appended() -> None:
    got = found(lambda x: config["log"].append(x))
    assert got["config"] == "type"
    losses: list[Any] = [1.0]
    assert found(lambda x: losses.append(x))["losses"] == "type"


def test_list_of_layers() -> None:
    layers = [Layer(weight), Layer(ef.tensor(1.0))]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    got = found(f)
    assert got["layers"] == "length"
    assert got["layers[0].w"] == got["layers[1].w"] == "tensor"


def test_other_containers() -> None:
    names, queue = {"a", "b"}, collections.deque([weight, 2])
    data = collections.UserDict(k=0.5)
    got = found(lambda x: ("a" in names, queue[0], data["k"]))
    assert got["names"] == "items"
    assert got["queue[0]"] == "tensor"
    assert got["data.data['k']"] == "number"


def test_long_containers() -> None:
    reads = collect(lambda i: long[i])
    assert kinds(reads)["long"] == "length"
    assert [f.kind for f in reads.findings] == ["unwatched"]
    assert "long: a list of 5,000 items is too long" in str(reads.findings[0])
    assert collect(lambda: long[7]).findings == []
    plain = list(range(500))
    assert found(lambda: sum(plain))["plain"] == "items"


def test_tuples_hold_what_is_fixed() -> None:
    got = found(lambda: pair)
    assert got["pair[0]"] == got["pair[1]"] == "value"


# --- arrays of NumPy -------------------------------------------------------------------------


def test_arrays_given_to_eagerflow_alone() -> None:
    has(lambda x: ef.matmul(x, table), table="array")
    has(lambda: ef.asarray(table), table="array")
    has(lambda x: ef.add(x, ef.asarray(table)), table="array")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * table.sum(),
        lambda x: x * table[0],
        lambda x: x + table * 2,
        lambda x: x + np.sin(table),
        lambda x: [row for row in table],
        lambda x: helper(table),
        lambda x: (ef.asarray(table), table.mean()),
        lambda x: ef.asarray(table if x else mask),
    ],
)
def test_arrays_that_numpy_looks_into(f: Any) -> None:
    has(f, table="content")


# --- what cannot be followed -----------------------------------------------------------------

stream = iter([1, 2, 3])
generator = np.random.default_rng(0)
dice = random.Random(3)
logger = logging.getLogger("tests")


def numbers() -> Iterator[int]:
    yield 1


produced = numbers()


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: print(x), "print runs only while tracing (use ef.print)"),
        (lambda: time.time(), "time.time gives what it gave while tracing"),
        (lambda: time.perf_counter(), "time.perf_counter gives"),
        (lambda: random.random(), "random.random gives what it gave while tracing (use ef.random"),
        (lambda: np.random.normal(), "np.random.normal gives"),
        (lambda: np.random.default_rng(0), "np.random.default_rng gives"),
        (lambda: logger.info("x"), "logger.info runs only while tracing"),
        (lambda: open("x"), "open runs only while tracing"),
        (lambda: eval("lr"), "eval cannot be followed"),
        (lambda: globals()["lr"], "globals cannot be followed"),
        (lambda: next(stream), "stream: a list_iterator has a position"),
        (lambda: next(produced), "produced: a generator has a position"),
        (lambda: generator.normal(), "generator: a Generator has a state"),
        (lambda: dice.random(), "dice: a Random has a state"),
    ],
)
def test_findings(f: Any, text: str) -> None:
    found = collect(f).findings
    assert [str(x) for x in found if text in str(x)], [str(x) for x in found]
    assert all(x.source is not None and x.source.file == __file__ for x in found)


def test_findings_in_helpers_and_imports() -> None:
    def inner():
        import time as clock
        from datetime import datetime
        from random import randint

        return clock.time(), randint(0, 1), datetime.now()

    found = [str(x) for x in collect(lambda: inner()).findings]
    assert [x.partition(" ")[0] for x in found] == ["clock.time", "randint", "datetime.now"]
    assert "in test_findings_in_helpers_and_imports.<locals>.inner" in found[0]


def test_no_finding_without_reason() -> None:
    layers = [Layer(weight)]

    def f(x):
        for i, layer in enumerate(layers):
            x = layer(x) * math.sqrt(2.0) + i
        return ef.random.normal((2,)) + np.float32(1) + x * len(config["opt"])

    assert collect(f).findings == []


# --- oddities --------------------------------------------------------------------------------


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __bool__(self) -> bool:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


def test_hostile_objects() -> None:
    hostile = Hostile()
    assert found(lambda: hostile.x)["hostile"] == "identity"
    collect(lambda: 1, [("x", hostile)])


def test_builtin_callables() -> None:
    assert found(len) == {}
    assert found(functools.partial(max, 1))["args[0]"] == "value"


def test_it_is_quick() -> None:
    layers = [Layer(weight) for _ in range(20)]

    def f(x):
        for layer in layers:
            x = layer(x) * config["lr"] + helper(x)
        return x

    collect(f)
    start = time.perf_counter()
    for _ in range(5):
        collect(f)
    assert (time.perf_counter() - start) / 5 < 0.02


def test_roots_are_weak() -> None:
    layer = Layer(weight)
    reads = collect(Layer.__call__, [("self", layer)])
    roots = {r.place.parent for r in reads.reads if isinstance(r.place.parent, Root)}
    assert [r.weak for r in roots if r.text == "self"] == [True]


def test_there_is_an_end() -> None:
    first = node = SimpleNamespace(rate=0.1)
    for _ in range(60_000):
        node.next = SimpleNamespace(rate=0.1)
        node = node.next

    def f(x):
        at = first
        while at:
            x, at = x * at.rate, at.next
        return x

    reads = collect(f)
    assert len(reads.reads) < 60_000
    assert "reaches more than 50,000 places" in str(reads.findings[-1])
