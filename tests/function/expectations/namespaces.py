"""Listings of all names of a class or module, which may gain names later."""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
import types
from unittest.mock import patch

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def, attr-defined, misc"

x = ef.tensor([1.0, 2.0])


@program(traces=3)
def vars_of_class(trace: Trace) -> Steps:
    class C:
        a = 1

    f = trace(lambda x: x * len([k for k in vars(C) if not k.startswith("__")]))
    yield f(x)
    C.b = 2
    yield f(x)
    del C.a
    del C.b
    yield f(x)


@program(traces=2)
def dir_of_module(trace: Trace) -> Steps:
    mod = types.ModuleType("plugins_of_r2")
    mod.add_one = lambda x: x + 1

    def f(x):
        for name in dir(mod):
            if name.startswith("add_"):
                x = getattr(mod, name)(x)
        return x

    f = trace(f)
    yield f(x)
    mod.add_two = lambda x: x + 2
    yield f(x)


@program(traces=2)
def dict_of_class(trace: Trace) -> Steps:
    class C:
        w = ef.tensor([2.0])

    f = trace(lambda x: sum((v * x for k, v in C.__dict__.items() if k.startswith("w")), x))
    yield f(x)
    C.w2 = ef.tensor([5.0])
    yield f(x)


@program(traces=1, reports=("__subclasses__ gives the value it had",), frozen=(1, 2))
def subclasses(trace: Trace) -> Steps:
    class B:
        scale = 1.0

    class C(B):
        scale = 2.0

    def f(x):
        for s in B.__subclasses__():
            x = x * s.scale
        return x

    f = trace(f)
    yield f(x)

    class D(B):
        scale = 3.0

    yield f(x)
    D.scale = 4.0
    yield f(x)


@program(traces=2)
def hasattr_by_runtime_name(trace: Trace) -> Steps:
    class C:
        pass

    def f(x, k):
        return x * 2 if hasattr(C, "use_" + k) else x

    f = trace(f)
    yield f(x, "a")
    C.use_a = True
    yield f(x, "a")


@program(traces=2)
def getattr_default_of_module(trace: Trace) -> Steps:
    mod = types.ModuleType("settings_of_r2")

    def f(x, k):
        return x * getattr(mod, "scale_" + k, 1.0)

    f = trace(f)
    yield f(x, "a")
    mod.scale_a = 3.0
    yield f(x, "a")
    mod.scale_a = 4.0
    yield f(x, "a")


@program(traces=2)
def getattr_default_of_object_class(trace: Trace) -> Steps:
    class M:
        pass

    m = M()

    def f(x, k):
        return x * getattr(m, "scale_" + k, 1.0)

    f = trace(f)
    yield f(x, "a")
    M.scale_a = 3.0
    yield f(x, "a")


@program(traces=2)
def getmembers(trace: Trace) -> Steps:
    class C:
        def on_a(self, x):
            return x + 1

    c = C()

    def f(x):
        for name, member in inspect.getmembers(c):
            if name.startswith("on_"):
                x = member(x)
        return x

    f = trace(f)
    yield f(x)
    C.on_b = lambda self, x: x * 3
    yield f(x)


@program(traces=3)
def dir_of_object(trace: Trace) -> Steps:
    class C:
        def on_a(self, x):
            return x + 1

    c = C()

    def f(x):
        for name in dir(c):
            if name.startswith("on_"):
                x = getattr(c, name)(x)
        return x

    f = trace(f)
    yield f(x)
    C.on_b = lambda self, x: x * 3
    yield f(x)
    c.on_c = lambda x: x - 7
    yield f(x)


@program(traces=3)
def vars_of_type_of_self(trace: Trace) -> Steps:
    class M:
        step_a = 2.0

        @trace
        def run(self, x):
            for k, v in vars(type(self)).items():
                if k.startswith("step_"):
                    x = x * v
            return x

    m = M()
    yield m.run(x)
    M.step_b = 3.0
    yield m.run(x)
    M.step_a = 5.0
    yield m.run(x)


@program(traces=3)
def mro_dicts(trace: Trace) -> Steps:
    class A:
        hook_a = 2.0

    class B(A):
        pass

    def f(x):
        for c in B.__mro__:
            for k, v in c.__dict__.items():
                if k.startswith("hook_"):
                    x = x * v
        return x

    f = trace(f)
    yield f(x)
    A.hook_c = 3.0
    yield f(x)
    B.hook_c = 7.0
    yield f(x)


@program(traces=1, reports=("__subclasses__ gives the value it had",), frozen=(1, 2))
def type_subclasses(trace: Trace) -> Steps:
    class B:
        pass

    f = trace(lambda x: x * (1 + len(type.__subclasses__(B))))
    yield f(x)

    class C(B):
        pass

    yield f(x)

    class D(B):
        pass

    yield f(x)


@program(traces=3)
def class_sized(trace: Trace) -> Steps:
    class Opts:
        LR = 0.1

    def n():
        return sum(k.isupper() for k in Opts.__dict__)

    f = trace(lambda x: x * n())
    yield f(x)
    Opts.WD = 1
    yield f(x)
    Opts.LR = 5
    yield f(x)


@program(traces=2)
def in_vars(trace: Trace) -> Steps:
    class Opts:
        LR = 0.1

    f = trace(lambda x: x * Opts.MOM if "MOM" in vars(Opts) else x)
    yield f(x)
    Opts.MOM = 3.0
    yield f(x)


@program(traces=2)
def in_dir(trace: Trace) -> Steps:
    m = types.ModuleType("m_r2")
    f = trace(lambda x: x * m.MOM if "MOM" in dir(m) else x)
    yield f(x)
    m.MOM = 3.0
    yield f(x)


@program(traces=2)
def vars_of_module_get(trace: Trace) -> Steps:
    m = types.ModuleType("m_r2")
    m.A = 2.0
    f = trace(lambda x: x * vars(m).get("B", 1.0) * m.__dict__.get("A"))
    yield f(x)
    m.B = 3.0
    yield f(x)
    m.A = 7.0
    yield f(x)


@program(traces=3)
def attributes_by_a_name_under_another_name(trace: Trace) -> Steps:
    box = types.SimpleNamespace(a=1.0, b=2.0)
    name, get = "a", getattr

    @trace
    def f(x, mode=None):
        return x * get(box, name)

    yield f(x)
    box.a = 5.0
    yield f(x)
    name = "b"
    yield f(x)
    box.b = "text"
    yield len(box.b)
    box.b = x
    yield f(x)


@program(traces=2)
def attrgetter_by_a_name(trace: Trace) -> Steps:
    box = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0), c=3.0)
    name = "a.b"
    f = trace(lambda x: x * operator.attrgetter(name)(box))
    yield f(x)
    box.a.b = 5.0
    yield f(x)
    name = "c"
    yield f(x)
    box.c = 7.0
    yield f(x)


@program(traces=2)
def getattr_as_a_default(trace: Trace) -> Steps:
    box = types.SimpleNamespace(a=1.0, b=2.0)
    name = "a"
    f = trace(lambda x, get=getattr: x * get(box, name))
    yield f(x)
    box.a = 5.0
    yield f(x)
    name = "b"
    yield f(x)
    box.b = 7.0
    yield f(x)


@program(traces=1, reports=("sys.modules cannot be followed",), frozen=(1,))
def module_by_its_name(trace: Trace) -> Steps:
    m = types.ModuleType("settings_by_name")
    m.rate = 2.0
    with patch.dict(sys.modules, {"settings_by_name": m}):
        f = trace(lambda x: x * sys.modules["settings_by_name"].rate)
        yield f(x)
        m.rate = 3.0
        yield f(x)


@program(traces=1, reports=("importlib.import_module cannot be followed",), frozen=(1,))
def module_imported_by_its_name(trace: Trace) -> Steps:
    m = types.ModuleType("settings_by_name")
    m.rate = 2.0
    with patch.dict(sys.modules, {"settings_by_name": m}):
        f = trace(lambda x: x * importlib.import_module("settings_by_name").rate)
        yield f(x)
        m.rate = 3.0
        yield f(x)


@program(traces=1, reports=("sys._getframe cannot be followed",), frozen=(1,))
def global_name_of_a_frame(trace: Trace) -> Steps:
    names = {"rate": 2.0, "sys": sys}
    f = trace(eval('lambda x: x * sys._getframe().f_globals["rate"]', names))
    yield f(x)
    names["rate"] = 3.0
    yield f(x)
