"""Programs with device scopes: derivatives."""

from __future__ import annotations

import eagerflow as ef
from tests.hardware.scope_programs.table import program, x, y


@program("0", "0>1 1>0")
def a_gradient_comes_back(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * a).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_gradient_of_a_traced_function(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * a).sum()

    return ef.grad(wrap(f))(x())


@program("0 1", "0>1 1>0")
def a_gradient_within_a_scope(wrap):
    def f(a, b):
        return (a * a * b).sum()

    def slopes(a, b):
        with ef.device("cpu:1"):
            return ef.grad(f, argnums=(0, 1))(a, b)

    return wrap(slopes)(x(), y())


@program("0 0", "0>1 1>0 0>1 1>0")
def a_value_used_in_and_outside(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = ef.exp(a) * a
        return (b.to("cpu:0") * a).sum()

    return wrap(ef.value_and_grad(f))(x())


@program("0 0", "0>1 1>0 0>1 1>0")
def a_second_derivative(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.exp(a * a).sum()

    return wrap(ef.value_and_grad(lambda b: ef.grad(f)(b).sum()))(x())


@program("0", "0>1 1>0")
def a_tape_inside_of_a_scope(wrap):
    def f(a):
        with ef.device("cpu:1"), ef.GradientTape() as tape:
            tape.watch(a)
            b = (a * a).sum()
        return tape.gradient(b, a)

    return wrap(f)(x())


@program("0", "0>1 1>0")
def a_tape_around_a_scope(wrap):
    def f(a):
        with ef.GradientTape() as tape:
            tape.watch(a)
            with ef.device("cpu:1"):
                b = (a * a).sum()
        with ef.device("cpu:2"):
            return tape.gradient(b, a)

    return wrap(f)(x())


@program("1 1", "0>1 0>1")
def forward_mode(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a * a

    return wrap(lambda a: ef.jvp(f, (a,), (ef.ones(3),)))(x())


@program("0 1", "0>1 0>1 1>0")
def cotangents_are_moved(wrap):
    def f(a, g):
        with ef.device("cpu:1"):
            value, pull = ef.vjp(lambda b: b * b, a)
            return pull(g)[0], value

    return wrap(f)(x(), x())


@program("0", "0>1 1>0")
def rematerialisation(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.remat(lambda b: ef.exp(b) * b)(a * 1).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_rule_of_ones_own(wrap):
    @ef.custom_vjp
    def cube(a):
        return a * a * a

    def forward(a):
        square = a * a
        return square * a, square

    cube.defvjp(forward, lambda square, g: (3 * square * g * ef.ones(3),))

    def f(a):
        with ef.device("cpu:1"):
            return cube(a).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_gradient_of_a_loop(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a * 1
            for _ in range(3):
                b = ef.sin(b) * b
            return b.sum()

    return wrap(ef.grad(f))(x())
