"""Guards: the changes outside that they detect, the explanations of these, and their cost."""

from __future__ import annotations

import collections
import functools
import gc
import math
import weakref
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.capture.equality import same_value
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.guards.guards import Guards
from eagerflow.capture.reads import Read

# mypy: disable-error-code="no-untyped-def"


def run(source: str, **names: Any) -> dict[str, Any]:
    """A namespace in which the source was run, as a notebook is."""
    namespace: dict[str, Any] = {"ef": ef, "np": np, "functools": functools, **names}
    exec(source, namespace)
    return namespace


def guards_of(function: Callable[..., Any], *roots: tuple[str, Any]) -> Guards:
    guards = Guards(collect(function, roots))
    assert guards.check(), guards.explain()
    assert guards.explain() == []
    return guards


CLASS = """
class Net:
    mode = "a"
    def __init__(self):
        self.w = ef.tensor(1.0); self.rate = 0.1; self.cfg = {"act": "relu", "n": [1, 2]}
        self.kind = "k"; self.layers = [1, 2]
    def __call__(self, x): return self.forward(x)
    def forward(self, x): return x * self.w * self.rate
    def act(self, x): return x
    @property
    def half(self): return self.rate / 2
    @staticmethod
    def fixed(x): return x
    @classmethod
    def made(cls, x): return cls
class Base:
    def go(self, x): return x
class Derived(Base):
    def go(self, x): return super().go(x)
net = Net()
derived = Derived()
"""

#: by name the setup, the function, the change, and its explanation
CHANGES = {
    "type of a number": ("lr = 0.1", "x * lr", "lr = 'a'", "global lr: was 0.1, now 'a'"),
    "int for a float": ("lr = 0.1", "x * lr", "lr = 1", "global lr: was 0.1, now 1"),
    "a flag": ("flag = True", "x if flag else 1", "flag = 1", "global flag: was True, now 1"),
    "a string": ("mode = 'a'", "mode", "mode = 'b'", "global mode: was 'a', now 'b'"),
    "a name deleted": ("mode = 'a'", "mode", "del mode", "global mode is gone, was 'a'"),
    "a tensor": ("w = ef.tensor(1.0)", "w", "w = 1.0", "global w: was f32[]@cpu:0, now 1.0"),
    "another variable": (
        "v = ef.Variable(1.0)", "v + 1", "v = ef.Variable(1.0)",
        "global v is another object: f32[]@cpu:0",
    ),
    "a builtin hidden": ("", "sum(x)", "sum = max", "global sum is there now"),
    "a helper": (
        "def h(x): return x", "h(x)", "def h(x): return -x", "h was redefined",
    ),
    "code swapped": (
        "def h(x): return x\ndef g(x): return -x", "h(x)", "h.__code__ = g.__code__",
        "h was redefined",
    ),
    "a default": (
        "def h(x, k=1): return x * k", "h(x)", "def h(x, k=2): return x * k", "defaults of h[0]",
    ),
    "a helper of a helper": (
        "def a(x): return b(x)\ndef b(x): return x", "a(x)", "def b(x): return 2", "b was redef",
    ),
    "another closure of one code": (
        "def make(k):\n  def h(x): return (x, k)\n  return h\nh = make('a')", "h(x)",
        "h = make('b')", "enclosing k: was 'a', now 'b'",
    ),
    "a class for a function": ("def h(x): return x", "h(x)", "h = int", "h"),
    "a partial": (
        "def h(x, k): return x\np = functools.partial(h, k='a')", "p(x)",
        "p = functools.partial(h, k='b')", "p.keywords['k']: was 'a', now 'b'",
    ),
    "a gradient of another function": (
        "def a(x): return x\ndef b(x): return x * x\ng = ef.grad(a)", "g(x)", "g = ef.grad(b)",
        "f was redefined",
    ),
    "a gradient by another argument": (
        "def a(x, y): return x * y\ng = ef.grad(a)", "g(x, x)", "g = ef.grad(a, argnums=1)",
        "argnums: was 0, now 1",
    ),
    "an item": ("c = {'a': 's', 'b': 2}", "c['a']", "c['a'] = 't'", "c['a']: was 's', now 't'"),
    "an item taken away": ("c = {'a': 's'}", "c['a']", "del c['a']", "c['a'] is gone"),
    "a nested item": (
        "c = {'a': {'b': 's'}}", "c['a']['b']", "c = {'a': {'b': 't'}}", "c['a']['b']: was 's'",
    ),
    "an item that was not there": (
        "c = {'a': 's'}\ndef h():\n  try: return c['b']\n  except KeyError: return 0", "h()",
        "c['b'] = 1", "c has b now",
    ),
    "a key": ("c = {'a': 1}", "[k for k in c]", "c['b'] = 2", "global c: was {'a': 1}, now"),
    "the order of keys": (
        "c = {'a': 1, 'b': 2}", "list(c)", "c['a'] = c.pop('a')", "global c: was",
    ),
    "length": ("c = [1, 2]", "len(c)", "c.append(3)", "c: was a list of 2, now a list of 3"),
    "a tuple for a list": ("c = [1, 2]", "len(c)", "c = (1, 2)", "global c: was [1, 2], now"),
    "a set": ("c = {'a'}", "'b' in c", "c.add('b')", "global c: was {'a'}, now"),
    "a long list": ("c = list(range(100))", "sum(c)", "c[50] = 0", "c has other items: [0, 1"),
    "an array": ("c = np.ones(3)", "c.sum()", "c[1] = 2", "c has other elements: an array"),
    "another nan": (
        "t = (float('nan'),)", "t", "t = (float('nan'),)", "t[0] is another object: nan",
    ),
    "nan in an array": ("c = np.ones(3)", "c.sum()", "c[1] = np.nan", "other elements: an array"),
    "another shape": (
        "c = np.ones(4)", "c.sum()", "c.resize((2, 2), refcheck=False)", "now an array",
    ),
    "objects in an array": (
        "c = np.array([1, 'a'], dtype=object)", "c[0]", "c[0] = 2", "c has other elements",
    ),
    "bytes": ("c = bytearray(b'ab')", "c[0]", "c[0] = 0", "global c: was bytearray(b'ab')"),
    "alias": ("a = []; b = a", "(a, b)", "b = []", "global b is not the object a any more"),
    "an attribute": (CLASS, "net.kind", "net.kind = 'b'", "net.kind: was 'k', now 'b'"),
    "an attribute deleted": (CLASS, "net.kind", "del net.kind", "net.kind is gone"),
    "a nested attribute": (
        CLASS, "net.cfg['act']", "net.cfg['act'] = 'tanh'", "net.cfg['act']: was 'relu'",
    ),
    "another object": (CLASS, "net(x)", "net = Net()", "global net is another object: a Net"),
    "a method": (CLASS, "net(x)", "Net.forward = lambda s, x: x", "Net.forward was redefined"),
    "a method of the object": (CLASS, "net.act(x)", "net.act = lambda x: 0", "net has its own act"),
    "a class attribute": (CLASS, "net.mode", "Net.mode = 'b'", "Net.mode: was 'a', now 'b'"),
    "a class attribute hidden": (CLASS, "net.mode", "net.mode = 'b'", "net has its own mode now"),
    "a call": (CLASS, "net(x)", "Net.__call__ = lambda s, x: x", "Net.__call__ was redefined"),
    "a property": (CLASS, "net.half", "Net.half = property(lambda s: 1)", "Net.half was redefined"),
    "a static method": (
        CLASS, "net.fixed(x)", "Net.fixed = staticmethod(lambda x: 1)", "Net.fixed was redefined",
    ),
    "a class method": (
        CLASS, "Net.made(x)", "Net.made = classmethod(lambda c, x: 1)", "Net.made was redefined",
    ),
    "a constructor": (CLASS, "Net()", "Net.__init__ = lambda s: None", "Net.__init__ was redef"),
    "a method of a base": (CLASS, "derived.go(x)", "Base.go = lambda s, x: 1", "Derived.go was"),
    "another class of the object": (
        CLASS, "net(x)", "class New(Net): pass\nnet.__class__ = New", "Net",
    ),
    "an attribute that was not there": (
        CLASS, "1 if hasattr(net, 'cache') else 2", "net.cache = 1", "net has its own cache now",
    ),
    "an attribute for vars": (CLASS, "len(vars(net))", "net.new = 1", "net has other keys"),
    "its class defined again": (CLASS, "Net()", CLASS, "global Net is another object: Net"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name: str) -> None:
    setup, expression, change, text = CHANGES[name]
    namespace = run(f"{setup}\ndef f(x): return {expression}")
    guards = guards_of(namespace["f"])
    exec(change, namespace)
    assert not guards.check()
    changes = guards.explain()
    assert any(text in line for line in changes), changes


#: changes that guards ignore
SAME = {
    "a number": ("lr = 0.1", "x * lr", "lr = 0.2"),
    "a tensor": ("w = ef.tensor(1.0)", "w", "w = ef.tensor([2.0])"),
    "what is not read": ("a = 1; b = 'a'", "a", "b = 2"),
    "an equal string": ("a = 'some text'", "a", "a = ''.join(['some', ' text'])"),
    "an equal dict": ("c = {'a': 's', 'b': [1]}", "list(c)", "c = {'a': 's', 'b': [2]}"),
    "a key that is not read": ("c = {'a': 's'}", "c['a']", "c['b'] = 1"),
    "a list appended only": ("log = []", "log.append(x)", "log.append(1)"),
    "the same helper again": ("def h(x): return x", "h(x)", "def h(x): return x"),
    "a closure made again": (
        "def make(k):\n  def h(x): return (x, k)\n  return h\nh = make('a')", "h(x)",
        "h = make('a')",
    ),
    "a gradient made again": (
        "def a(x): return x\ng = ef.grad(a)", "g(x)", "def a(x): return x\ng = ef.grad(a)",
    ),
    "an array with equal elements": ("c = np.ones(3)", "c.sum()", "c = np.ones(3)"),
    "an attribute that is not read": (CLASS, "net(x)", "net.kind = 'b'; net.new = 1"),
    "a number of an object": (CLASS, "net(x)", "net.rate = 0.5"),
    "an equal value": ("d = D('1.5')", "d", "d = D('1.5')"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_other_changes_are_not(name: str) -> None:
    setup, expression, change = SAME[name]
    lines = "\n" * 40  # the redefined helper stands on the line of the first
    namespace = run(f"{setup}{lines}\ndef f(x): return {expression}", D=Decimal)
    guards = guards_of(namespace["f"])
    exec(change, namespace)
    assert guards.check(), guards.explain()


def test_a_function_of_the_same_text_elsewhere_differs_in_its_lines() -> None:
    namespace = run("def h(x): return x\ndef f(x): return h(x)")
    guards = guards_of(namespace["f"])
    exec("\n\ndef h(x): return x", namespace)
    assert guards.explain() == ["h was redefined"]


def test_read_gives_what_is_there_now() -> None:
    namespace = run(f"{CLASS}\nlr = 0.1\ndef f(x): return net(x) * lr")
    reads = collect(namespace["f"])
    paths = [r.path for r in (*reads.numbers, *reads.tensors)]
    assert [p.text for p in paths] == ["lr", "net.rate", "net.w"]
    guards = Guards(reads)
    guards.capture(paths)
    assert guards.read() == (0.1, 0.1, namespace["net"].w)
    new = ef.tensor(5.0)
    namespace["lr"], namespace["net"].w = 0.2, new
    values = guards.read()
    assert values is not None
    assert values[:2] == (0.2, 0.1)
    assert values[2] is new
    guards.capture(paths[:1])
    assert guards.read() == (0.2,)
    namespace["net"] = None
    assert guards.read() is None


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (0.5, 0.5, True), (0.5, 0.25, False), (0.0, -0.0, False), (1.0, 1, False),
        (math.nan, math.nan, True), (math.nan, float("nan"), False),
        (0j, complex(0.0, -0.0), False), (10**20, 10**20, True),
    ],
)  # fmt: skip
def test_specialised_numbers(before: Any, after: Any, same: bool) -> None:
    namespace = run("def f(x): return x * lr", lr=before)
    reads = collect(namespace["f"])
    guards = Guards(reads)
    guards.specialise(reads.numbers[0].path, before)
    assert [guard.kind for guard in guards] == ["member", "value"]  # the first of its own code
    namespace["lr"] = after
    assert guards.check() is same
    assert bool(guards.explain()) is not same


def test_specialised_arrays_and_tensors() -> None:
    table, weight = np.ones(2), ef.tensor(1.0)
    reads = collect(lambda: ef.add(ef.asarray(table), weight))
    guards = Guards(reads)
    (array,) = reads.of_kind("content")
    assert array.path.text == "table"
    table[0] = 5
    assert not guards.check()
    guards.add(Read(array.path, "array", table))
    assert guards.check()
    guards.specialise(array.path, table)
    guards.specialise(reads.tensors[0].path, weight)
    assert guards.check()
    table[0] = 6
    assert not guards.check()
    table[0] = 5
    assert guards.check()
    weight = ef.tensor(1.0)
    assert not guards.check()


def test_rebase() -> None:
    def make(rate: Any, helper: Any) -> Any:
        def f(x):
            return helper(x * rate)

        return f

    def plain(x):
        return x

    reads = collect(make(0.1, plain))
    guards = Guards(reads)
    guards.capture([r.path for r in reads.numbers])
    assert guards.read() == (0.1,)
    guards.rebase(make(0.2, plain))
    assert guards.read() == (0.2,)
    guards.rebase(make("a", plain))
    assert guards.explain() == ["enclosing rate: was 0.1, now 'a'"]
    guards.rebase(make(0.3, lambda x: x * 2))
    assert guards.explain() == ["helper was redefined"]
    guards.rebase(plain)  # `plain` has no such cells
    assert guards.read() is None
    assert guards.explain() != []


def test_one_cell_run_again() -> None:
    cell = """
def act(x): return x
class_free = {"rate": 0.1, "sizes": [1, 2]}
grad = ef.grad(act)
partial = functools.partial(act, 1)
def f(x): return act(x) * class_free["rate"], len(class_free["sizes"]), grad(x), partial()
"""
    namespace = run(cell)
    guards = guards_of(namespace["f"])
    exec(cell, namespace)
    guards.rebase(namespace["f"])
    assert guards.check(), guards.explain()
    exec(cell.replace("return x", "return -x", 1), namespace)
    guards.rebase(namespace["f"])
    assert guards.explain() == ["act was redefined"]


def test_nothing_is_kept_alive() -> None:
    namespace = run(f"{CLASS}\nlayers = [Net(), Net()]\ndef f(x): return [y(x) for y in layers]")
    guards = guards_of(namespace["f"])
    watched = [weakref.ref(x) for x in namespace["layers"]]
    watched.append(weakref.ref(namespace["layers"][0].w))
    namespace["layers"] = None
    gc.collect()
    assert [w() for w in watched] == [None] * 3
    assert not guards.check()


def test_a_static_argument_that_dies() -> None:
    net = run(CLASS)["Net"]()
    guards = guards_of(type(net).forward, ("self", net))
    net.rate = "a"
    assert guards.explain() == ["self.rate: was 0.1, now 'a'"]
    net.rate = 0.1
    assert guards.check()
    del net
    gc.collect()
    assert not guards.check()


class Loud:
    """Its comparisons do what comparisons should not."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __eq__(self, other: object) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    __hash__ = None


@pytest.mark.parametrize(
    "result", [RuntimeError("no"), np.array([True, True]), ef.tensor([True]), NotImplemented, 1]
)
def test_comparisons_that_give_no_bool(result: Any) -> None:
    assert not same_value(Loud(result), Loud(result))
    holder = SimpleNamespace(item=(Loud(result),))
    guards = guards_of(lambda: holder.item)
    holder.item = (Loud(result),)
    assert not guards.check()
    assert len(guards.explain()) == 1


def test_checks_never_raise() -> None:
    class Moody:
        raising = False

        def __init__(self) -> None:
            self.__dict__["a"] = "x"

        def __getattribute__(self, name: str) -> Any:
            if Moody.raising:
                raise RuntimeError("no")
            return object.__getattribute__(self, name)

    moody = Moody()
    guards = guards_of(lambda: moody.a)
    Moody.raising = True
    assert guards.check() in (True, False)
    assert isinstance(guards.explain(), list)


def test_special_keys() -> None:
    table = {(1, 2): "a", 3.0: "b", None: "c", 'q"\n': "d"}
    odd = collections.OrderedDict(a=SimpleNamespace(k="v"))
    guards = guards_of(lambda: [table, odd, odd["a"].k])
    table[None] = "z"
    assert guards.explain() == ["enclosing table" and "table[None]: was 'c', now 'z'"]


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(
            st.one_of(st.booleans(), st.text(max_size=3), st.none(), st.floats(), st.integers()),
            lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=2), x, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    ),
    st.data(),
)
def test_any_config(config: dict[str, Any], data: st.DataObject) -> None:
    """A copy passes; a copy in which one plain value differs does not, if it is no number."""

    def copy(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: copy(v) for k, v in x.items()}
        return [copy(v) for v in x] if isinstance(x, list) else x

    def slots(x: Any) -> list[tuple[Any, Any]]:
        pairs = list(x.items()) if isinstance(x, dict) else list(enumerate(x))
        leaves = [(x, k) for k, v in pairs if not isinstance(v, (list, dict))]
        return leaves + [s for _, v in pairs if isinstance(v, (list, dict)) for s in slots(v)]

    original = config

    def f() -> Any:
        return dict(config)

    guards = guards_of(f)
    config = copy(config)
    assert guards.check(), guards.explain()
    leaves = slots(config)
    if leaves:
        owner, key = data.draw(st.sampled_from(leaves))
        owner[key] = "something else"
        assert not guards.check()
        assert guards.explain()
        config = original
        assert guards.check()


def test_two_functions_of_one_code_are_told_apart() -> None:
    def make(k):
        def inner(x):
            return (x, k)

        return inner

    one, two = make("a"), make("b")
    guards = guards_of(lambda x: (one(x), two(x)))
    two = make("a")
    assert guards.explain() == ["enclosing k: was 'b', now 'a'"]


def test_none_in_the_path_of_an_object_that_is_gone() -> None:
    names = run("class Box: pass\nbox = Box()\nbox.item = Box()\ndef f(): return box.item")
    guards = guards_of(names["f"])
    names["box"].item = None  # the only holder of the object
    gc.collect()
    assert not guards.check()
    assert guards.explain() == ["box.item: was a Box, now None"]


def test_items_of_a_named_tuple() -> None:
    names = run(
        "from typing import NamedTuple\n"
        "class Pair(NamedTuple):\n a: int\n b: str\n"
        "pair = Pair(1, 'x')\ndef f(): return pair.a, pair[1]"
    )
    guards = guards_of(names["f"])
    assert guards.check()
    names["pair"] = names["Pair"](1, "x")
    assert guards.check()
    for other in (names["Pair"](1, "y"), (1, "x"), [1, "x"]):
        names["pair"] = other
        assert not guards.check()
        assert guards.explain()


def test_code_that_is_our_own_is_taken_as_it_is() -> None:
    """A step of a network would else look at a hundred names that nobody changes."""
    layer = ef.nn.Linear(2, 3)
    optimiser = ef.optim.Adam(layer.trainable)

    def f(x: Any) -> Any:
        optimiser.update({"weight": x, "bias": None})
        return layer(x)

    guards = guards_of(f)
    assert guards.check()
    written = guards.read.__code__.co_names
    assert "lr" in written
    assert "isinstance" not in written
