"""Comparisons of Python numbers: a trace serves all numbers that give the same answers."""

from __future__ import annotations

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, attempt, program

# mypy: disable-error-code="no-untyped-def, assignment"

x = ef.tensor([1.0, 2.0])


@program(traces=2)
def every_step(trace: Trace) -> Steps:
    st = {"step": 0, "log": 0}

    @trace
    def f(x):
        st["step"] += 1
        if st["step"] % 3 == 0:
            st["log"] += 1
            return x * 2
        return x + st["step"]

    for _ in range(10):
        yield f(x), st


@program(traces=2)
def argument_step(trace: Trace) -> Steps:
    @trace
    def f(x, step):
        return x * 2 if step % 3 == 0 else x * step

    for i in range(8):
        yield f(x, i)


@program(traces=2)
def warm(trace: Trace) -> Steps:
    cfg = {"warmup": 3}

    @trace
    def f(x, step):
        if step < cfg["warmup"]:
            return x * (step / cfg["warmup"])
        return x

    for i in range(6):
        yield f(x, i)
    cfg["warmup"] = 10
    for i in range(6):
        yield f(x, i)


@program(traces=3)
def early(trace: Trace) -> Steps:
    class S:
        best = float("inf")
        wait = 0

    s = S()

    @trace
    def ev(x, v):
        if v < s.best:
            s.best = v
            s.wait = 0
        else:
            s.wait += 1
        return x * s.wait

    for v in [3.0, 2.0, 2.5, 2.6, 1.0, 5.0, 0.5, float("nan"), 0.1]:
        yield ev(x, v), s.best, s.wait


@program(traces=4)
def truth(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * k if k else x + 1

    for k in (0, 1, 2, 0, -1, 0.0, 0.5, -0.0):
        yield f(x, k)


@program(traces=2)
def zero_division(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * 2 if 10 % k == 0 else x

    yield f(x, 2)
    yield f(x, 5)
    yield f(x, 3)
    yield attempt(f, x, 0)
    yield f(x, 10)
    yield f(x, 7)


@program(traces=6)
def counting_loop(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        while k > 0:
            x = x * 2
            k -= 1
        return x

    for k in (1, 2, 3, 40, 3, 41, -2, -3):
        yield f(x, k)


@program(traces=2)
def nan_compare(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * 2 if k != k else x * k

    for k in (1.0, float("nan"), 2.0, float("inf"), float("nan")):
        yield f(x, k)


@program(traces=3)
def chain_compare(trace: Trace) -> Steps:
    lim = [0.0, 1.0]

    @trace
    def f(x, k):
        return x * k if lim[0] <= k <= lim[1] else x

    for k in (0.5, 0.7, -1.0, 2.0, 1.0):
        yield f(x, k)
    lim[1] = 3.0
    yield f(x, 2.0)


@program(traces=3)
def stored_bool(trace: Trace) -> Steps:
    st = {"done": False, "n": 0}

    @trace
    def f(x):
        st["n"] += 1
        st["done"] = st["n"] >= 3
        return x, st["n"] > 2, [st["n"] == 2]

    for _ in range(5):
        yield f(x), st


@program(traces=4)
def in_list(trace: Trace) -> Steps:
    ms = [3, 5]
    st = {"lr": 1.0}

    @trace
    def f(x, e):
        if e in ms:
            st["lr"] *= 0.1
        return x * st["lr"]

    for e in range(7):
        yield f(x, e), st
    ms.append(7)
    yield f(x, 7), st


@program(traces=2)
def defaults(trace: Trace) -> Steps:
    @trace
    def f(x, k, lim=3):
        return x * k if k > lim else x

    for k in (1, 2, 4, 5):
        yield f(x, k)
    yield f(x, 5, 9)
    yield f(x, 5, lim=2)
    yield f(x, 5)
    yield f(x, 2)


@program(traces=4, reports=("traced 3 times",))
def in_branch(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        if x.sum() > 0:
            y = k * 2
            if y > 5:
                x = x * y
        return x

    for k in (1, 2, 3, 4, 2):
        yield f(x, k)
        yield f(-x, k)


@program(traces=2)
def in_graph_loop(trace: Trace) -> Steps:
    @trace
    def f(x, n, k):
        i = 0
        for _ in range(n):
            if k > 2:
                x = x + k
            i += 1
        return x, i

    for k in (1, 2, 3, 4):
        yield f(x, ef.tensor(3), k)


@program(traces=3)
def sorted_by_numbers(trace: Trace) -> Steps:
    ws = {"a": 3.0, "b": 2.0, "c": 1.0}

    @trace
    def f(x):
        for k in sorted(ws, key=ws.get):
            x = x * 2 + ws[k]
        return x

    yield f(x)
    ws["a"] = 4.0
    yield f(x)
    ws["a"] = 0.5
    yield f(x)
    ws["c"] = 9.0
    yield f(x)


@program(traces=5, reports=("traced 3 times",))
def int_or_float(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * k if k > 2 else x

    for k in (3, 3.0, 4, 4.5, 1, 1.0, True):
        yield f(x, k)


@program(traces=2)
def grads(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        def loss(x):
            return (x**2 * k).sum() if k > 1 else (x * k).sum()

        return ef.grad(loss)(x)

    for k in (2.0, 3.0, 0.5, 0.25):
        yield f(x, k)


@program(traces=2)
def outer_grad(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return (x**2 * k).sum() if k > 1 else (x * k).sum()

    for k in (2.0, 3.0, 0.5, 0.25, 4.0):
        yield ef.grad(f)(x, k)


@program(traces=4, reports=("traced 3 times",))
def then_static(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        if k > 2:
            x = x + 1
        for _ in range(k):
            x = x * 2
        return x

    for k in (1, 2, 3, 3, 4, 1):
        yield f(x, k)


@program(traces=5, reports=("traced 3 times",))
def two_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        return x * a if a < b else x * b

    for a, b in ((1, 2), (3, 4), (4, 3), (2, 2), (1.0, 2.0), (1, 2.5), (3, 2.5)):
        yield f(x, a, b)


@program(traces=1)
def state_after_failure(trace: Trace) -> Steps:
    st = {"n": 0}

    @trace
    def f(x):
        st["n"] += 1
        if st["n"] % 2 == 0:
            raise ValueError(f"bad {st['n']}")
        return x * st["n"]

    for _ in range(6):
        yield attempt(f, x), st


@program(traces=1)
def assert_number(trace: Trace) -> Steps:
    @trace
    def f(x, lr):
        assert lr > 0, f"lr {lr}"
        return x * lr

    yield f(x, 0.1)
    yield f(x, 0.2)
    yield attempt(f, x, -0.1)
    yield f(x, 0.3)


@program(traces=3)
def changed_between(trace: Trace) -> Steps:
    cfg = {"k": 1}

    @trace
    def f(x):
        return x * cfg["k"] if cfg["k"] < 5 else x

    for k in (1, 2, 7, 8, 3, "s", 2.5):
        cfg["k"] = k
        yield attempt(f, x)[:1] if k == "s" else f(x)


@program(traces=6)
def match_number(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        match k:
            case 0:
                return x
            case 1 | 2:
                return x * 2
            case int() if k > 10:
                return x * k
            case _:
                return x - k

    for k in (0, 1, 2, 3, 4, 11, 12, 3.5):
        yield f(x, k)


@program(traces=4)
def clip_if(trace: Trace) -> Steps:
    st = {"s": 1.0}

    @trace
    def f(x, g):
        st["s"] = st["s"] * 2 if g < 1 else st["s"] / 2
        if st["s"] > 4:
            st["s"] = 4.0
        if not st["s"] > 0.25:
            st["s"] = 0.25
        return x * st["s"]

    for g in (0.5, 0.5, 0.5, 2, 2, 2, 2, 2, 2, 0.1):
        yield f(x, float(g)), st


@program(traces=2)
def powers_of_negative_zero(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * 2 if (-0.0) ** k > 0 else x)
    for k in (2, 0, 3, 0):
        yield f(x, k)


@program(traces=4)
def number_beyond_any_dtype_that_becomes_static(trace: Trace) -> Steps:
    f = trace(lambda x, big, k: (x * 2 if big == k else x, str(big)))
    for big, k in ((2**70, 3), (2**70, 2**70), (2**70, 4), (3, 3), (3, 4)):
        yield f(x, big, k)


@program(traces=3)
def complex_number_that_becomes_static(trace: Trace) -> Steps:
    f = trace(lambda x, z, k: (x * 2 if z == k else x, str(z)))
    for z, k in ((1j, 3), (2 + 0j, 2), (2 + 0j, 4), (2 + 0j, 2), (1j, 7)):
        yield f(x, z, k)


@program(traces=2)
def limits_beyond_any_dtype(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * 2 if k > 10**5000 else x)
    for k in (1, 2, 10**4000, 10**5001, -(10**5001), 10**5002):
        yield f(x, k)


@program(traces=2)
def errors_that_are_caught(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        try:
            r = 1 / k
        except ZeroDivisionError:
            r = 5
        return x * 2 if r > 1 else x

    for k in (0, 3, 2, 0, -1):
        yield f(x, k)


@program(traces=2)
def errors_of_divmod_that_are_caught(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        try:
            r, _ = divmod(7, k)
        except ZeroDivisionError:
            r = 5
        return x * r

    for k in (0, 3, 2, 7):
        yield f(x, k)


@program(traces=2)
def numbers_too_large_that_are_caught(trace: Trace) -> Steps:
    limits = {"scale": 10**400}

    @trace
    def f(x):
        try:
            return x * (limits["scale"] * 0.5)
        except OverflowError:
            return x

    yield f(x)
    limits["scale"] = 3
    yield f(x)
    limits["scale"] = 4
    yield f(x)
