"""Lookups of a key in a dict: its presence is guarded, the other keys are not."""

from __future__ import annotations

import collections

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def, index"

x = ef.tensor([1.0, 2.0])


@program(traces=2)
def contains(trace: Trace) -> Steps:
    d = {"a": 1, "b": 2}
    f = trace(lambda x: x * 2 if "a" in d else x)
    yield f(x)
    d["c"] = 1
    yield f(x)
    d["b"] = 5
    yield f(x)
    del d["a"]
    yield f(x)


@program(traces=2)
def get_of_dict(trace: Trace) -> Steps:
    d = {"a": 1.0, "b": 2.0}
    f = trace(lambda x: x * d.get("a", 3.0))
    yield f(x)
    d["c"] = 1
    yield f(x)
    d["b"] = 5
    yield f(x)
    d["a"] = 7.0
    yield f(x)
    del d["a"]
    yield f(x)


@program(traces=2)
def contains_const_then_item(trace: Trace) -> Steps:
    d = {"w": ef.tensor([1.0, 2.0])}

    def f(x):
        if "b" in d:
            x = x + d["b"]
        return x * d["w"]

    f = trace(f)
    yield f(x)
    d["log1"] = 1
    yield f(x)
    d["log2"] = 2
    yield f(x)
    d["b"] = 3.0
    yield f(x)


@program(traces=3)
def get_nested(trace: Trace) -> Steps:
    cfg = {"opt": {"lr": 0.5, "name": "a"}, "tag": "t"}
    f = trace(lambda x: x * cfg["opt"].get("lr", 1.0) * cfg["opt"].get("mom", 2.0))
    yield f(x)
    cfg["tag"] = "u"
    yield f(x)
    cfg["opt"]["name"] = "b"
    yield f(x)
    cfg["opt"]["lr"] = 0.25
    yield f(x)
    cfg["opt"]["mom"] = 9.0
    yield f(x)
    del cfg["opt"]["lr"]
    yield f(x)
    cfg["opt"] = {"lr": 4.0}
    yield f(x)


@program(traces=2)
def get_then_set(trace: Trace) -> Steps:
    st = {}

    def f(x):
        st["n"] = st.get("n", 0) + 1
        return x * st["n"]

    f = trace(f)
    for _ in range(4):
        yield f(x), st


@program(traces=3)
def get_default_tensor(trace: Trace) -> Steps:
    st = {}

    def f(x):
        m = st.get("m")
        st["m"] = x if m is None else m * 0.9 + x
        return st["m"]

    f = trace(f)
    for _ in range(4):
        yield f(x), st


@program(traces=2)
def test_then_set(trace: Trace) -> Steps:
    st = {"seen": []}

    def f(x):
        if "m" not in st:
            st["m"] = x * 0
        st["m"] = st["m"] + x
        return st["m"]

    f = trace(f)
    for _ in range(4):
        yield f(x), st["m"]
    del st["m"]
    yield f(x), st


@program(traces=3, reports=("traced 3 times",))
def in_then_iterate(trace: Trace) -> Steps:
    d = {"a": 1.0}

    def f(x):
        if "b" in d:
            x = x * 2
        for v in d.values():
            x = x + v
        return x

    f = trace(f)
    yield f(x)
    d["c"] = 3.0
    yield f(x)
    d["b"] = 1.0
    yield f(x)


@program(traces=3)
def in_alias(trace: Trace) -> Steps:
    d = {"a": 1.0}
    e = d
    f = trace(lambda x: x * (2 if "b" in d else 1) * (3 if "c" in e else 1))
    yield f(x)
    d["c"] = 3.0
    yield f(x)
    d["b"] = 1.0
    yield f(x)


@program(traces=4, reports=("traced 3 times",))
def in_attribute(trace: Trace) -> Steps:
    class C:
        def __init__(self):
            self.opts = {}

    c = C()
    f = trace(lambda x: x * (2 if "b" in c.opts else 1))
    yield f(x)
    c.opts["c"] = 3.0
    yield f(x)
    c.opts["b"] = 1.0
    yield f(x)
    c.opts = {}
    yield f(x)
    c.opts = {"b"}
    yield f(x)
    c.opts = ["b"]
    yield f(x)


@program(traces=3, reports=("traced 3 times",))
def in_counter(trace: Trace) -> Steps:
    d = collections.Counter("aab")
    f = trace(lambda x: x * (2 if "c" in d else 1) * d["a"] * d.get("z", 3))
    yield f(x)
    d["a"] += 1
    yield f(x)
    d["c"] += 1
    yield f(x)
    d["z"] += 4
    yield f(x)


@program(traces=4)
def in_defaultdict(trace: Trace) -> Steps:
    d = collections.defaultdict(lambda: 2.0)
    f = trace(lambda x: x * (2 if "c" in d else 1) * d["a"] * d.get("z", 3))
    yield f(x), dict(d)
    d["a"] += 1
    yield f(x), dict(d)
    d["c"] += 1
    yield f(x)
    d["z"] += 4
    yield f(x)


@program(traces=2)
def in_dict_subclass(trace: Trace) -> Steps:
    class U(dict):
        def __contains__(self, k):
            return dict.__contains__(self, k.upper())

        def get(self, k, d=None):
            return dict.get(self, k.upper(), d)

    d = U(A=1.0)
    f = trace(lambda x: x * (2 if "c" in d else 1) * d.get("a", 5.0))
    yield f(x)
    d["A"] = 2.0
    yield f(x)
    d["C"] = 1
    yield f(x)


@program(traces=3)
def in_number_key(trace: Trace) -> Steps:
    d = {1: "a"}
    f = trace(lambda x: x * (2 if 1 in d else 1) * (3 if 2 in d else 1))
    yield f(x)
    d[2] = 1
    yield f(x)
    del d[1]
    d[True] = 1
    yield f(x)
    d.clear()
    yield f(x)


@program(traces=2)
def get_branch(trace: Trace) -> Steps:
    d = {"scale": 2.0}

    def f(x):
        if x.sum() > 0:
            return x * d.get("scale", 1.0)
        return x

    f = trace(f)
    yield f(x)
    d["scale"] = 4.0
    yield f(x)
    del d["scale"]
    yield f(x)
    d["scale"] = 1.5
    yield f(x)


@program(traces=2)
def get_bound(trace: Trace) -> Steps:
    d = {"scale": 2.0}
    g = d.get
    f = trace(lambda x: x * g("scale", 1.0))
    yield f(x)
    d["scale"] = 4.0
    yield f(x)
    del d["scale"]
    yield f(x)
    d["scale"] = 1.5
    yield f(x)


@program(traces=4, reports=("traced 3 times",))
def default_dict_read(trace: Trace) -> Steps:
    d = collections.defaultdict(float, a=2.0)

    def f(x, flag):
        return x * d["a"] if flag else x

    f = trace(f)
    yield f(x, True), dict(d)
    yield f(x, False), dict(d)
    d.clear()
    yield f(x, False), dict(d)
    yield f(x, True), dict(d)


@program(traces=2)
def default_dict_never_read(trace: Trace) -> Steps:
    d = collections.defaultdict(list)

    def f(x, flag):
        if flag:
            d["log"].append(1)
        return x

    f = trace(f)
    yield f(x, False), dict(d)
    yield f(x, True), dict(d)
    d.clear()
    yield f(x, False), dict(d)
    yield f(x, True), dict(d)


@program(traces=2)
def missing_of_class(trace: Trace) -> Steps:
    class Auto(dict):
        def __missing__(self, k):
            self[k] = len(self) + 1.0
            return self[k]

    d = Auto()

    def f(x, flag):
        return x * d["a"] if flag else x

    f = trace(f)
    yield f(x, False), dict(d)
    yield f(x, True), dict(d)
    d.clear()
    yield f(x, False), dict(d)
    yield f(x, True), dict(d)


@program(traces=3)
def dict_that_gets_a_name_where_it_is_asked(trace: Trace) -> Steps:
    cfg = {"a": 1.0, "z": 5.0}

    @trace
    def f(x):
        if "a" in (d := cfg) and "b" in d:
            x = x * 2
        return x + d.get("z", 0.0)

    yield f(x)
    cfg["b"] = 2.0
    yield f(x)
    cfg["z"] = 7.0
    yield f(x)
    del cfg["z"]
    yield f(x)


@program(traces=2)
def dict_that_gets_a_name_where_it_is_indexed(trace: Trace) -> Steps:
    cfg = {"a": 1.0, "z": 5.0}

    @trace
    def f(x):
        y = x * (d := cfg)["z"]
        for value in d.values():
            y = y + value
        return y

    yield f(x)
    cfg["a"] = 4.0
    yield f(x)
    cfg["b"] = 2.0
    yield f(x)


@program(traces=4, reports=("traced 3 times",))
def set_that_is_asked(trace: Trace) -> Steps:
    """A set is guarded by all its elements; each that comes or goes is another trace."""
    names = {"a", "b"}
    f = trace(lambda x: x * 2 if "a" in names else x)
    yield f(x)
    names.add("c")
    yield f(x)
    names.remove("b")
    yield f(x)
    names.remove("a")
    yield f(x)


@program(traces=2)
def dict_of_members_that_is_asked(trace: Trace) -> Steps:
    """What the documentation advises in place of a set that changes."""
    names = dict.fromkeys(("a", "b"))
    f = trace(lambda x: x * 2 if "a" in names else x)
    yield f(x)
    names["c"] = None
    yield f(x)
    del names["b"]
    yield f(x)
    del names["a"]
    yield f(x)
