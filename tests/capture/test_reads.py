"""Reads from outside of a function, for functions and objects of every kind."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import eagerflow as ef
from eagerflow.capture.access_paths import Root
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.reads import Reads
from tests.capture import settings_module

# mypy: disable-error-code="no-untyped-def"

lr = 0.5
flag = True
weight = ef.tensor([1.0, 2.0])
variable = ef.Variable([1.0])
config: dict[str, Any] = {"lr": 0.1, "opt": {"momentum": 0.9, "name": "sgd"}, "log": []}


def kinds(reads: Reads) -> dict[str, str]:
    return {r.path.text: r.kind for r in reads.reads if r.kind != "lacking"}


def kinds_of(function: Callable[..., Any], *roots: tuple[str, Any]) -> dict[str, str]:
    return kinds(collect(function, roots))


def has(function: Callable[..., Any], *roots: tuple[str, Any], **expected: str) -> None:
    got = kinds_of(function, *roots)
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

    assert kinds_of(f) == {"__code__": "member", "later": "absent"}

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

    got = kinds_of(f)
    assert got["settings_module"] == "identity"
    assert got["settings_module.rate"] == "number"
    assert got["settings_module.shifted"] == "function"
    assert got["settings_module.shift"] == "number"
    assert not any("unused" in name for name in got)


def test_imports_inside() -> None:
    def f(x):
        from tests.capture import settings_module as here

        return x * here.rate

    assert kinds_of(f)["tests.capture.settings_module.rate"] == "number"


def test_library_modules_are_not_entered() -> None:
    got = kinds_of(lambda x: math.sin(x) + functools.reduce(x, []) + ef.sin(x))
    names = ("__code__", "math", "math.sin", "functools", "functools.reduce", "ef", "ef.sin")
    assert got == dict.fromkeys(names, "member")


# --- functions of other kinds ----------------------------------------------------------------


def test_partial() -> None:
    has(functools.partial(helper, 2), lr="number")
    bound = functools.partial(lambda x, k, other: x * k * lr, k=0.5, other=weight)
    got = kinds_of(lambda x: bound(x))
    assert got["bound.keywords['k']"] == "number"
    assert got["bound.keywords['other']"] == "tensor"
    assert got["lr"] == "number"
    assert kinds_of(functools.partial(helper, lr))["args[0]"] == "value"


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
    has(lambda x: cached(x), cached="identity", lr=None)  # the guard calls it again


def test_wrt_of_a_gradient() -> None:
    variables = [variable]
    gradient = ef.grad(lambda: (variable * lr).sum(), wrt=variables)
    has(lambda: gradient(), lr="number", **{"wrt[0]": "alias"})


def test_defaults_of_helpers() -> None:
    def inner(x, k=2.0, *, w=weight):
        return x * k * w

    got = kinds_of(lambda x: inner(x))
    assert got["the defaults of inner[0]"] == "value"
    assert got["the defaults of inner['w']"] == "tensor"


def test_attributes_of_functions() -> None:
    def inner(x):
        return x * inner.rate

    inner.rate = 0.5
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
    got = kinds_of(lambda x: layer(x))
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
    assert [r.kind for r in reads.reads if r.path.text == "method"] == ["type", "function"]
    assert kinds(reads)["lr"] == "number"


def test_a_callable_object() -> None:
    has(Layer(weight), w="tensor", lr="number")


def test_properties_static_and_class_methods() -> None:
    layer = Layer(1.0)
    got = kinds_of(lambda x: layer.doubled * layer.static(x) + layer.cached)
    assert got["Layer.doubled"] == "function"
    assert got["config['lr']"] == "number"
    assert got["weight"] == "tensor"
    assert got["layer.other"] == "number"
    assert kinds_of(lambda: Layer.make())["variable"] == "identity"


def test_methods_of_bases() -> None:
    wide = Wide(weight)
    has(lambda x: wide(x), flag="value", lr="number")


def test_slots() -> None:
    slotted = Slotted()
    has(lambda: slotted.a, **{"slotted.a": "number"})
    has(lambda: slotted.secret(), **{"slotted._Slotted__secret": "number"})
    has(lambda: slotted.b, **{"slotted.b": "absent"})


def test_dataclasses_and_namespaces() -> None:
    settings = Settings()
    got = kinds_of(lambda x: x * settings.rate * settings.inner.deep)
    assert got["settings.rate"] == "number"
    assert got["settings.inner.deep"] == "number"
    assert "settings.name" not in got


def test_making_instances() -> None:
    got = kinds_of(lambda x: Layer(x))
    assert got["Layer.__init__"] == "function"
    instance = Layer(1.0)
    assert "Layer.__init__" not in kinds_of(lambda x: instance(x))


def test_enums_and_named_tuples() -> None:
    mode, point = Mode.A, Point(1.0, weight)
    got = kinds_of(lambda x: x * point.x + point.y if mode is Mode.A else x)
    assert got["mode"] == "value"
    assert got["point[0]"] == "value"
    assert got["point[1]"] == "tensor"


def test_getattr() -> None:
    settings = Settings()
    got = kinds_of(lambda x: x * getattr(settings, "rate"))
    assert got["settings.rate"] == "number"
    assert "settings.inner" not in got

    def computed(x, name):
        return x * getattr(settings, f"{name}")

    got = kinds_of(computed)
    assert got["settings.rate"] == "number"
    assert got["settings.name"] == "value"


def test_user_getattr() -> None:
    dynamic = Dynamic()
    got = kinds_of(lambda x: x * dynamic.w)
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
    got = kinds_of(lambda x: x * parent.child.parent.me.rate)
    assert got["parent.rate"] == got["parent.child.rate"] == "number"
    assert got["parent.child.parent"] == got["parent.me"] == "alias"
    ring: list[Any] = [0.5]
    ring.append(ring)
    assert kinds_of(lambda: ring)["ring[1]"] == "alias"


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
    assert kinds_of(lambda: hostile.x)["hostile"] == "identity"
    collect(lambda: 1, [("x", hostile)])


def test_builtin_callables() -> None:
    assert kinds_of(len) == {}


def test_roots_are_weak() -> None:
    layer = Layer(weight)
    reads = collect(Layer.__call__, [("self", layer)])
    roots = {r.path.parent for r in reads.reads if isinstance(r.path.parent, Root)}
    assert [r.weak for r in roots if r.text == "self"] == [True]


def chain(length: int) -> Any:
    first = node = SimpleNamespace(rate=0.1)
    for _ in range(length):
        node.next = SimpleNamespace(rate=0.1)
        node = node.next
    return first


def test_long_chains() -> None:
    first, nested = chain(2000), [1.0]
    for _ in range(2000):
        nested = [1.0, nested]

    def f(x):
        at, inner = first, nested
        while at:
            x, at = x * at.rate, at.next
        return x, [inner]

    reads = collect(f)
    assert len(reads.numbers) == 4002
    assert all(len(r.path.text) < 300 for r in reads.reads)


def test_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerflow.capture.guards.guard_choice.MOST", 300)
    first = chain(1000)
    reads = collect(lambda: first.next.rate)
    assert 300 <= len(reads.reads) < 1000
    assert "reaches more than 300 values" in str(reads.findings[-1])
