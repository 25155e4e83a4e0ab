"""Derivatives around, inside and across traced functions."""

from __future__ import annotations

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@program(traces=1)
def traced_inside_grad(trace: Trace) -> Steps:
    @trace
    def loss(x, rate):
        return (ef.sin(x) * x * rate).sum()

    yield ef.grad(loss)(x, 0.5), loss(x, 0.5)
    yield ef.grad(loss)(x * 2, 3.0)
    yield ef.value_and_grad(loss)(x, 3.0)


@program(traces=1)
def grad_inside_traced(trace: Trace) -> Steps:
    scale = 2.0

    @trace
    def f(x):
        return ef.grad(lambda x: (ef.exp(x) * scale).sum())(x), ef.value_and_grad(ef.sum)(x)

    yield f(x)
    scale = 5.0
    yield f(x + 1)


@program(traces=1)
def grad_is_traced(trace: Trace) -> Steps:
    f = trace(ef.grad(lambda x, y: (x * y * y).sum(), argnums=(0, 1)))
    yield f(x, x + 1)
    yield f(x * 3, x)


@program(traces=2)
def traced_in_grad_in_traced(trace: Trace) -> Steps:
    @trace
    def inner(x):
        return (x * x * x).sum()

    @trace
    def outer(x):
        return ef.grad(inner)(x) + ef.grad(lambda x: ef.grad(inner)(x).sum())(x)

    yield outer(x), inner(x)
    yield outer(x + 1)


@program(traces=1)
def training_with_variables(trace: Trace) -> Steps:
    w, b = ef.Variable([0.5, -0.5]), ef.Variable(0.0)

    @trace
    def step(x, y, rate):
        def loss(x, y):
            return ((x * w + b - y) ** 2).mean()

        value, (dw, db) = ef.value_and_grad(loss, wrt=[w, b])(x, y)
        w.assign_sub(dw * rate)
        b.assign_sub(db * rate)
        return value

    for k in range(4):
        yield step(x, x * 3, 0.1 / (k + 1)), w, b


@program(traces=1)
def gradient_tape_inside(trace: Trace) -> Steps:
    v = ef.Variable([3.0, 4.0])

    @trace
    def f(x):
        with ef.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = (x * x * v).sum()
        return tape.gradient(y, x), tape.gradient(y, v), y

    yield f(x)
    v.assign([1.0, -1.0])
    yield f(x * 2)


@program(traces=1)
def gradient_tape_around(trace: Trace) -> Steps:
    v = ef.Variable([3.0, 4.0])
    f = trace(lambda x: (x * ef.tanh(v)).sum())
    for k in range(3):
        with ef.GradientTape() as tape:
            tape.watch(x)
            y = f(x) * (k + 1)
        yield y, tape.gradient(y, [x, v])
    yield f(x)


@program(traces=1)
def jvp_around_and_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        y, dy = ef.jvp(ef.sin, (x,), (x * 2,))
        return y * dy

    yield f(x)
    yield ef.jvp(f, (x,), (ef.ones(2),))


@program(traces=1)
def stop_gradient_inside(trace: Trace) -> Steps:
    f = trace(lambda x: (x * ef.stop_gradient(x)).sum())
    yield ef.grad(f)(x), f(x)


@program(traces=1)
def custom_vjp_inside(trace: Trace) -> Steps:
    @ef.custom_vjp
    def clipped(x):
        return x * 3

    clipped.defvjp(lambda x: (x * 3, x), lambda x, g: (ef.clip(g, -0.1, 0.1) * x,))
    f = trace(lambda x: clipped(x).sum())
    yield f(x), ef.grad(f)(x)
    yield f(x + 1), ef.grad(f)(x + 1)


@program(traces=1)
def update_in_place_under_grad(trace: Trace) -> Steps:
    @trace
    def f(x):
        y = x * 2
        y[0] = y[1] * x[0]
        y += 1
        return (y * y).sum()

    yield ef.grad(f)(x), f(x)
    yield ef.grad(f)(x * 3)


@program(traces=1)
def gradient_of_a_captured_tensor(trace: Trace) -> Steps:
    weight = ef.tensor([2.0, 3.0])
    f = trace(lambda x: (x * weight).sum())

    def loss(w):
        nonlocal weight
        before, weight = weight, w
        try:
            return f(x) ** 2
        finally:
            weight = before

    yield ef.grad(loss)(ef.tensor([5.0, 6.0])), f(x)


@program(traces=1)
def sizes_under_grad(trace: Trace) -> Steps:
    f = trace(lambda x: (x * x).mean() * x.shape[0])
    for n in (3, 3, 3):
        yield ef.grad(f)(ef.arange(n, dtype=ef.float32))


@program(traces=2)
def other_sizes_under_grad(trace: Trace) -> Steps:
    f = trace(lambda x: (x[1:] * x[:-1]).sum() / (x.shape[0] + 1))
    for n in (3, 5, 2, 1, 0, 8):
        yield ef.grad(f)(ef.arange(n, dtype=ef.float32))


@program(traces=1)
def first_call_under_a_tape(trace: Trace) -> Steps:
    f = trace(lambda x, k: ef.exp(x) * k)
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 2.0)
    yield y, tape.gradient(y, x)
    yield f(x, 3.0), np.asarray(f(x, 4.0))


@program(traces=1)
def jacobian_of_traced(trace: Trace) -> Steps:
    f = trace(lambda x: ef.stack([x[0] * x[1], x[0] + x[1]]))
    yield ef.jacobian(f)(x), ef.hessian(lambda x: f(x).sum())(x)


@program(traces=1)
def remat_inside(trace: Trace) -> Steps:
    block = ef.remat(lambda x: ef.sin(ef.exp(x)))
    f = trace(lambda x: block(block(x)).sum())
    yield f(x), ef.grad(f)(x)
    yield f(x * 0.5), ef.grad(f)(x * 0.5)
