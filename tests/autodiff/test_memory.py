"""Values that a gradient does not need are freed at once, and a tape leaves no garbage."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import eagerflow as ef

X = ef.ones(1000)


@pytest.fixture(autouse=True)
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_intermediate_values_live_as_long_as_a_rule_needs_them() -> None:
    with ef.GradientTape() as tape:
        tape.watch(X)
        total = X + 1.0
        total_data = weakref.ref(total._data)
        square = total * total
        square_data = weakref.ref(square._data)
        y = (square + square).sum()
        del total, square
        assert total_data() is not None  # multiply reads it
        assert square_data() is None  # add and sum read no values
    tape.gradient(y, X)
    assert total_data() is None


def test_a_tape_forgets_after_gradient() -> None:
    with ef.GradientTape() as tape:
        tape.watch(X)
        h = ef.exp(X)
        data = weakref.ref(h._data)
        y = h.sum()
        del h
    assert data() is not None
    tape.gradient(y, X)
    assert data() is None


def test_a_result_does_not_keep_its_tape() -> None:
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(X)
        h = ef.exp(X)
        data = weakref.ref(h._data)
        y = h.sum()
        del h
    gone = weakref.ref(tape)
    del tape
    assert gone() is None
    assert data() is None
    assert float(y) == pytest.approx(1000 * np.e)


def test_records_are_let_go_during_the_backward_pass() -> None:
    alive: list[weakref.ref] = []
    most = []

    @ef.custom_vjp
    def probe(x):
        return x * 1.0

    def bwd(residuals, g):
        most.append(sum(r() is not None for r in alive))
        return (g,)

    probe.defvjp(lambda x: (probe(x), None), bwd)

    def f(x):
        for _ in range(5):
            x = ef.exp(probe(x * 0.1))
            alive.append(weakref.ref(x._data))
        return x.sum()

    ef.grad(f)(X)
    assert most == [4, 3, 2, 1, 0]


def test_results_of_transforms_keep_nothing() -> None:
    held = []

    def f(x):
        h = ef.exp(x)
        held.append(weakref.ref(h._data))
        return (h * h).sum()

    value, gradient = ef.value_and_grad(f)(X)
    value2, tangent = ef.jvp(f, (X,), (X,))
    hessian = ef.hessian(lambda x: f(x * X[0]))(ef.ones(3))
    assert all(r() is None for r in held)
    del value, gradient, value2, hessian
    freed = weakref.ref(tangent._data)
    del tangent
    assert freed() is None


def test_a_value_of_jvp_does_not_keep_its_tangent() -> None:
    value, tangent = ef.jvp(lambda x: x * 2, (X,), (X,))
    freed = weakref.ref(tangent._data)
    del tangent
    assert freed() is None
    assert value.shape == (1000,)


LOOPS = {
    "tape": lambda x: tape_step(x),
    "grad": lambda x: ef.grad(lambda x: (ef.exp(x) * x).sum())(x),
    "grad of grad": lambda x: ef.grad(lambda x: ef.grad(lambda x: (x**3).sum())(x).sum())(x),
    "jvp": lambda x: ef.jvp(lambda x: ef.exp(x) * x, (x,), (x,)),
    "jvp of grad": lambda x: ef.jvp(ef.grad(lambda x: (x**3).sum()), (x,), (x,)),
    "vjp": lambda x: ef.vjp(ef.exp, x)[1](x),
    "remat": lambda x: ef.grad(lambda x: ef.remat(lambda y: ef.exp(y) * x)(x).sum())(x),
    "remat in remat": lambda x: ef.grad(nested(x))(x),
    "error": lambda x: refused(x),
    "in place": lambda x: ef.grad(updating)(x),
}


def nested(x):
    inner = ef.remat(lambda y: ef.log_softmax(y * x))
    return lambda x: ef.remat(lambda y: ef.exp(inner(y)) * ef.logsumexp(y))(x).sum()


def tape_step(x) -> None:
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = (ef.exp(x) * x).sum()
    tape.gradient(y, x)


def refused(x) -> None:
    try:
        ef.grad(lambda x: ef.argmax(ef.exp(x)).astype(ef.float32))(x)
    except ef.errors.GradientError:
        return
    raise AssertionError


def updating(x):
    x += 1.0
    x[0] = 2.0
    return (x * x).sum()


@pytest.mark.parametrize("name", LOOPS)
def test_loops_need_no_collector(name: str) -> None:
    step = LOOPS[name]
    step(X)
    gc.collect()
    tracemalloc.start()
    try:
        step(X)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            step(X)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 50 * 1000  # Python's own free lists; one array has 4,000 bytes
    assert left_to_the_collector() == []


def left_to_the_collector() -> list[str]:
    """The types of eagerflow's objects in garbage cycles."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [t.__name__ for t in map(type, gc.garbage) if t.__module__.startswith("eagerflow")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_a_tensor_that_is_watched_often_does_not_grow() -> None:
    x = ef.ones(3)
    for _ in range(100):
        tape_step(x)
    length, mark = 0, x._mark
    while mark is not None:
        length, mark = length + 1, mark[2]
    assert length <= 1
