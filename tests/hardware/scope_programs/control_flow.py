"""Programs with device scopes: branches, loops and calls."""

from __future__ import annotations

import eagerflow as ef
from tests.hardware.scope_programs.table import FIRST, INVARIANT, PREDICATE, STRAIGHT, program, x, y

# --- control flow -------------------------------------------------------------------------------


@program("1", "0>1")
def a_branch_of_tensors(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a * 2
            return ef.cond(b.sum() > 100, lambda: b + 1, lambda: b - 1)

    return wrap(f)(x())


@program("1", "0>1", traced="0>1 1>0", why=(PREDICATE,))
def a_branch_that_moves(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            return ef.cond(b.sum() > 100, lambda: b + 1, lambda: b - a)

    return wrap(f)(x(), y())


@program("1", "0>1")
def a_loop_in_a_scope(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a + 0
            while b.sum() < 100:
                b = b * 2
            return b

    return wrap(f)(x())


@program("1", "0>1")
def a_loop_that_begins_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            for _ in range(3):
                a = a * 2
            return a

    return wrap(f)(x())


@program("1 1", "0>1")
def a_while_loop_that_begins_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            total = ef.zeros(())
            while total < 20:
                a = a * 2
                total = total + a[0]
            return a, total

    return wrap(f)(x())


@program("2", "0>2 1>2 1>2 1>2 2>1 2>1 2>1 2>1",
         traced="0>2 0>1 1>2 1>2 2>1 1>2 1>2 2>1 1>2 1>2 2>1 1>2",
         why=(PREDICATE, STRAIGHT))  # fmt: skip
def a_loop_whose_iterations_end_elsewhere(wrap):
    def f(a):  # the predicate is computed where the loop carries its value
        a = a.to("cpu:2")
        with ef.device("cpu:1"):
            while a.sum() < 40:
                a = (a * 2).to("cpu:2")
        return a

    return wrap(f)(x())


@program("2", "0>1 1>2", traced="0>1 1>2 1>0 1>2", why=(PREDICATE,))
def branches_that_both_end_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * 2).to("cpu:2") if a.sum() > 1 else a.to("cpu:2")

    return wrap(f)(x())


@program("2 1", "0>1 1>2 2>1 1>2 2>1 2>1", traced="0>1 1>2 1>2 2>1 1>2 2>1 2>1", why=(FIRST,))
def what_a_scan_stacks(wrap):
    def f(a):
        def step(total, i):
            total = (total + i).to("cpu:2")
            return total, total

        with ef.device("cpu:1"):
            return ef.scan(step, a[0], ef.arange(2.0))

    return wrap(f)(x())


@program("1", "0>1 0>1")
def what_a_loop_does_not_change_moves_once(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            c = b * 1
            while c.sum() < 100:
                c = c * a + 1
            return c

    return wrap(f)(x(), x() * 2)


@program("0", "0>1 1>0")
def a_gradient_through_such_a_loop(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            total = b * 2
            while total.sum() < 500:
                total = total * ef.exp(a)
            return total.sum()

    return wrap(ef.grad(f))(x(), y())


@program("2", "1>2 1>2 1>2", traced="0>2 0>2 0>2 0>2 1>2", why=(PREDICATE, INVARIANT))
def a_scope_in_a_loop(wrap):
    def f(b, i):
        total = ef.zeros(3, device="cpu:2")
        while i < 3:
            i = i + 1
            with ef.device("cpu:2"):
                total = total + b
        return total

    return wrap(f)(y(), ef.tensor(0))


@program("1", "0>1 0>1")
def a_branch_within_a_loop(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            c = b * 1
            while c.sum() < 100:
                c = c * a if c[0] > 3 else c + 1
            return c

    return wrap(f)(x(), x() * 2)


@program("1 2", "0>1 0>2")
def calls_as_nodes(wrap):
    def inner(a):
        return ef.exp(a) * a

    def f(a):
        with ef.device("cpu:1"):
            b = ef.call(inner, a)
        with ef.device("cpu:2"):
            return b, ef.call(inner, a)

    return wrap(f)(x())


@program("0 1")
def calls_as_nodes_follow_their_arguments(wrap):
    def inner(a):
        return ef.exp(a) * a

    return wrap(lambda a, b: (ef.call(inner, a), ef.call(inner, b)))(x(), y())


@program("1 1", "0>1")
def a_scan(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.scan(lambda c, b: (c + b, c * b), ef.zeros(()), a * 1)

    return wrap(f)(x())


# --- calls --------------------------------------------------------------------------------------


@program("1", "0>1")
def a_call_in_a_scope(wrap):
    f = wrap(lambda a: ef.exp(a) + a)
    with ef.device("cpu:1"):
        return f(x())


@program("1 2 1", "0>1 0>2 0>1")
def a_call_in_each_of_several_scopes(wrap):
    f = wrap(lambda a: a * 2)
    results = []
    for name in ("cpu:1", "cpu:2", "cpu:1"):
        with ef.device(name):
            results.append(f(x()))
    return results


@program("1", "0>1")
def a_nested_call(wrap):
    inner = wrap(lambda a: a * a)

    def f(a):
        with ef.device("cpu:1"):
            return inner(a) + 1

    return wrap(f)(x())


@program("2", "0>2")
def a_nested_call_in_two_scopes(wrap):
    inner = wrap(lambda a: a * a)

    def f(a):
        with ef.device("cpu:2"):
            return inner(a) + 1

    with ef.device("cpu:1"):
        return wrap(f)(x())


@program("0", "0>1 1>0")
def a_call_under_a_tape(wrap):
    f = wrap(lambda a: (a * a).sum())
    with ef.device("cpu:1"):
        return ef.grad(f)(x())


@program("1", "0>1")
def a_call_in_a_profile(wrap):
    f = wrap(lambda a: a * 2)
    with ef.device("cpu:1"), ef.profile():
        return f(x())
