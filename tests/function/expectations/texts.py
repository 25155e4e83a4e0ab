"""Texts, comparisons and hashes of objects, by other ways than `repr`, `str` and `==`."""

from __future__ import annotations

import functools
import operator
import pprint
import string
import types
from dataclasses import dataclass

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])
SHOW = repr
FMT = "<{}>".format
TEMPLATE = "%s"
NAME = "q"


class M:
    def __init__(self, v: str) -> None:
        self.v = v

    def __repr__(self) -> str:
        return f"M({self.v})"


@dataclass
class D:
    name: str = "a"


class G:
    def __repr__(self) -> str:
        return NAME


@program(traces=2)
def dunder_repr(trace: Trace) -> Steps:
    m = M("aa")
    f = trace(lambda x: x * len(m.__repr__()))
    yield f(x)
    m.v = "aaaa"
    yield f(x)


@program(traces=2)
def dunder_repr_data(trace: Trace) -> Steps:
    m = D("aa")
    f = trace(lambda x: x * len(m.__repr__()))
    yield f(x)
    m.name = "aaaa"
    yield f(x)


@program(traces=2)
def dunder_format(trace: Trace) -> Steps:
    m = D("aa")
    f = trace(lambda x: x * len(m.__format__("")))
    yield f(x)
    m.name = "aaaa"
    yield f(x)


@program(traces=2)
def show_str(trace: Trace) -> Steps:
    m = M("aa")

    def f(x):
        show = str
        return x * len(show(m))

    f = trace(f)
    yield f(x)
    m.v = "aaaa"
    yield f(x)


@program(traces=2)
def show_str_data(trace: Trace) -> Steps:
    m = D("aa")

    def f(x):
        show = str
        return x * len(show(m))

    f = trace(f)
    yield f(x)
    m.name = "aaaa"
    yield f(x)


@program(traces=3)
def show_global(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(SHOW(m)) * len(SHOW(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def show_attr(trace: Trace) -> Steps:
    class T:
        show = repr

    t = types.SimpleNamespace(show=str)
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(t.show(m)) * len(T.show(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def format_alias(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")

    def f(x):
        fmt = "{}".format
        return x * len(fmt(m)) * len(fmt(k))

    f = trace(f)
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def format_alias_global(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(FMT(m)) * len(FMT(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=1, reports=("g: a methodcaller has a content",), frozen=(1, 2))
def methodcaller(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    g = operator.methodcaller("__repr__")
    f = trace(lambda x: x * len(g(m)) * len(g(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def methodcaller_inline(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(
        lambda x: (
            x * len(operator.methodcaller("__str__")(m)) * len(operator.methodcaller("__str__")(k))
        )
    )
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def template_percent(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(TEMPLATE % m) * len(TEMPLATE % (k,)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def operator_mod(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(operator.mod(TEMPLATE, m)) * len(TEMPLATE.__mod__(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def getattr_repr(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(m.__repr__()) * len(k.__repr__()))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def pformat(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    f = trace(lambda x: x * len(pprint.pformat(m)) * len(pprint.pformat(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=2)
def pformat_of_global(trace: Trace) -> Steps:
    global NAME
    g = G()
    NAME = "q"
    f = trace(lambda x: x * len(pprint.pformat([g])))
    yield f(x)
    NAME = "qqqq"
    yield f(x)


@program(traces=3)
def dict_of_functions(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    how = {"short": str, "long": repr}
    f = trace(lambda x: x * len(how["short"](m)) * len(how["long"](k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def partial_format(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")
    g = functools.partial(format, format_spec="") if False else functools.partial(str.format, "{}!")
    f = trace(lambda x: x * len(g(m)) * len(g(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def default_argument(trace: Trace) -> Steps:
    m = D("aa")
    k = M("a")

    def show(v, how=repr):
        return how(v)

    f = trace(lambda x: x * len(show(m)) * len(show(k)))
    yield f(x)
    m.name = "aaaa"
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=2)
def super_repr(trace: Trace) -> Steps:
    class S(M):
        def text(self):
            return super().__repr__()

    k = S("a")
    f = trace(lambda x: x * len(k.text()))
    yield f(x)
    k.v = "dkdkd"
    yield f(x)


@program(traces=3)
def bound_repr_captured(trace: Trace) -> Steps:
    k = M("a")
    r = k.__repr__
    d = D("aa")
    s = d.__repr__
    f = trace(lambda x: x * len(r()) * len(s()))
    yield f(x)
    k.v = "dkdkd"
    yield f(x)
    d.name = "aaaaa"
    yield f(x)


@program(traces=3)
def str_join_map(trace: Trace) -> Steps:
    ks = [M("a"), D("b")]
    conv = str
    f = trace(lambda x: x * len(",".join(map(conv, ks))))
    yield f(x)
    ks[0].v = "dkdkd"
    yield f(x)
    ks[1].name = "aaaaa"
    yield f(x)


@program(traces=3)
def template_class(trace: Trace) -> Steps:
    t = string.Template("$m")
    k = M("a")
    d = D("b")
    f = trace(lambda x: x * len(t.substitute(m=k)) * len(t.substitute({"m": d})))
    yield f(x)
    k.v = "dkdkd"
    yield f(x)
    d.name = "aaaaa"
    yield f(x)


@program(traces=2)
def eq_dunder(trace: Trace) -> Steps:
    a, b = D("a"), D("a")
    f = trace(lambda x: x * 2 if a.__eq__(b) else x)
    yield f(x)
    b.name = "c"
    yield f(x)


@program(traces=2)
def sorted_alias(trace: Trace) -> Steps:
    @dataclass(order=True)
    class K:
        a: int = 1

    ks = [K(1), K(2)]
    order = sorted
    f = trace(lambda x: x * 2 if order(ks)[0] is ks[0] else x)
    yield f(x)
    ks[0].a = 9
    yield f(x)


@program(traces=3)
def format_map(trace: Trace) -> Steps:
    k = M("a")
    d = D("b")
    f = trace(lambda x: x * len("{m}".format_map({"m": k})) * len("{m}".format_map({"m": d})))
    yield f(x)
    k.v = "dkdkd"
    yield f(x)
    d.name = "aaaaa"
    yield f(x)


@program(traces=3)
def error_args(trace: Trace) -> Steps:
    k = M("a")
    d = D("b")

    def f(x):
        e = ValueError(k, d)
        return x * len(e.__str__())

    f = trace(f)
    yield f(x)
    k.v = "dkdkd"
    yield f(x)
    d.name = "aaaaa"
    yield f(x)
