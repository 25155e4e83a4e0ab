"""Classes and modules that are asked for all their names, which may be more later."""

from __future__ import annotations

import inspect
import types

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


@program(traces=3)
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


@program(traces=3)
def subclasses_deep(trace: Trace) -> Steps:
    class B:
        scale = 1.0

    class C(B):
        scale = 2.0

    def every(c):
        for s in c.__subclasses__():
            yield s
            yield from every(s)

    def f(x):
        for s in every(B):
            x = x * s.scale
        return x

    f = trace(f)
    yield f(x)

    class D(C):
        scale = 3.0

    yield f(x)

    class E(D):
        scale = 5.0

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


@program(traces=4, reports=("traced 3 times",))
def subclass_by_name(trace: Trace) -> Steps:
    class L:
        pass

    class Relu(L):
        def __call__(self, x):
            return ef.maximum(x, 0)

    def make(name):
        return {c.__name__.lower(): c for c in L.__subclasses__()}.get(name)

    def f(x, name):
        c = make(name)
        return x * 10 if c is None else c()(x)

    f = trace(f)
    yield f(x, "relu"), f(x, "twice")

    class Twice(L):
        def __call__(self, x):
            return x * 2

    yield f(x, "relu"), f(x, "twice")


@program(traces=3, reports=("traced 3 times",))
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
