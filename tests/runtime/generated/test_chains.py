"""Chains: equal to the ops one by one, and variables are never half changed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.runtime.generated import chains
from eagerflow_kernels import table

ROWS, COLUMNS = 7, 11


@pytest.fixture(params=["whole", "by blocks"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs chains over small arrays, whole or by blocks."""
    by_blocks(monkeypatch, request.param == "by blocks")
    return str(request.param)


def by_blocks(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    monkeypatch.setattr(chains, "_CACHE", 0 if wanted else 1 << 40)
    monkeypatch.setattr(chains, "_BLOCK", 64)


def text(function: Any) -> str:
    source: str = function.ir("python")
    return source


def momentum(weight: ef.Variable, mean: ef.Variable, g: ef.Tensor, rate: ef.Tensor) -> ef.Tensor:
    new = mean.assign_add((g - mean.value) * 0.1)
    weight.assign_sub(ef.sqrt(ef.square(new) + 1) * rate)
    return new


def variables(dtype: Any = ef.float32) -> list[ef.Variable]:
    rng = np.random.default_rng(0)
    return [ef.Variable(ef.tensor(rng.normal(size=(ROWS, COLUMNS)), dtype=dtype)) for _ in range(2)]


def drawn(seed: int, dtype: Any = ef.float32) -> ef.Tensor:
    return ef.tensor(np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)), dtype=dtype)


def compare(step: Callable[..., Any], *arguments: tuple[Any, ...], dtype: Any = ef.float32) -> Any:
    """Run the step eagerly and traced on equal variables; gives the traced function."""
    eager, traced = variables(dtype), variables(dtype)
    function = ef.trace(lambda *given: step(*traced, *given))
    for given_ in arguments:
        want, got = step(*eager, *given_), function(*given_)
        for a, b in zip(eager, traced, strict=True):
            assert np.array_equal(a.numpy(), b.numpy())
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, got)), strict=True):
            assert np.array_equal(a.numpy(), b.numpy())
            assert a.numpy().strides == b.numpy().strides
    return function


@pytest.mark.parametrize("dtype", [ef.float32, ef.float64])
def test_equal_to_the_ops_one_by_one(mode: str, dtype: Any) -> None:
    rate = ef.tensor(0.01, dtype=dtype)
    function = compare(momentum, *((drawn(i, dtype), rate) for i in range(5)), dtype=dtype)
    assert "def chain1(" in text(function)
    assert ("sweep" in text(function)) == (mode == "by blocks")


def test_arrays_in_another_order_go_op_by_op(mode: str) -> None:
    turned = ef.permute_dims(ef.tensor(drawn(3).numpy().T.copy()), (1, 0))
    assert not turned.numpy().flags.c_contiguous
    function = compare(momentum, (turned, ef.tensor(0.1)), (drawn(1), ef.tensor(0.1)))
    assert "return plain2(" in text(function)


def test_values_that_somebody_holds_stay(mode: str) -> None:
    weight, mean = variables()
    function = ef.trace(lambda g: momentum(weight, mean, g, ef.tensor(0.1)))
    function(drawn(0))
    held = [weight.value, mean.value]
    copies = [x.numpy().copy() for x in held]
    result = function(drawn(1))
    kept = result.numpy().copy()
    function(drawn(2))
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(held, copies, strict=True))
    assert np.array_equal(result.numpy(), kept)
    assert not np.array_equal(mean.value.numpy(), copies[1])


def test_an_old_value_that_is_read_later(mode: str) -> None:
    def step(a: ef.Variable, b: ef.Variable, g: ef.Tensor) -> Any:
        old = a.value
        new = a.assign_add((g - old) * 0.5 + g)
        return old * g, new, b.assign_sub(ef.abs(g * 2 - old) / 3)

    compare(step, *((drawn(i),) for i in range(3)))


def test_a_value_that_is_wanted_outside(mode: str) -> None:
    def step(a: ef.Variable, b: ef.Variable, g: ef.Tensor) -> Any:
        x = (g - a.value) * 0.5
        y = ef.square(x) + g
        a.assign_add(y)
        return x, ef.matmul(y, ef.permute_dims(b.value, (1, 0)))

    compare(step, *((drawn(i),) for i in range(3)))


def test_a_value_that_is_used_again_and_again(mode: str) -> None:
    def step(a: ef.Variable, b: ef.Variable, g: ef.Tensor) -> Any:
        x = ef.square(g) * 2
        y = x + g
        z = x * y - y
        a.assign_add(z - x)
        return b.assign_sub(x / (ef.abs(y) + 1) * z)

    compare(step, *((drawn(i),) for i in range(3)))


def test_inside_of_loops(mode: str) -> None:
    def step(a: ef.Variable, b: ef.Variable, g: ef.Tensor) -> Any:
        def iteration(i: ef.Tensor, x: ef.Tensor) -> Any:
            a.assign_add((x - a.value) * 0.1 + x)
            return i + 1, ef.sqrt(ef.square(x) + 1) * 0.5 - x

        return ef.while_loop(lambda i, x: i < 4, iteration, (ef.tensor(0), g))[1]

    compare(step, *((drawn(i),) for i in range(3)))


def test_long_programs(mode: str) -> None:
    def step(a: ef.Variable, b: ef.Variable, g: ef.Tensor) -> Any:
        for i in range(60):
            a.assign_add((g - a.value) * (1 / (i + 2)) + g)
            b.assign_sub(ef.sin(a.value) * g + ef.negative(g) / 3)
        return a.value

    compare(step, (drawn(0),), (drawn(1),))


def test_somebody_s_own_kernel_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    by_blocks(monkeypatch, wanted=True)
    calls = []

    def square(x: Any) -> Any:
        calls.append(x.shape)
        return x * x

    assert ("square", "cpu", None) not in table._special
    table.special("square", "cpu")(square)
    try:
        compare(momentum, (drawn(0), ef.tensor(0.1)))
    finally:
        table.remove("square", "cpu", None)
    assert calls == [(ROWS, COLUMNS)] * 2


def test_no_update_of_several_threads_is_lost(mode: str) -> None:
    a, b = (ef.Variable(ef.zeros((ROWS, COLUMNS))) for _ in range(2))

    @ef.trace
    def up(x: ef.Tensor) -> None:
        a.assign_add(x * 2 - x)
        b.assign_sub(x + x * 0)

    @ef.trace
    def down(x: ef.Tensor) -> None:
        b.assign_add(x * 4 - x * 3)
        a.assign_add(ef.square(x) * 1 + x * 0)

    one = ef.ones((ROWS, COLUMNS))
    up(one), down(one)

    def work(step: Any) -> None:
        for _ in range(200):
            step(one)

    threads = [threading.Thread(target=work, args=(step,)) for step in (up, down, up, down)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bool(ef.all(a.value == 802.0))
    assert bool(ef.all(b.value == 0.0))


@pytest.mark.slow
def test_ctrl_c_leaves_no_variable_half_changed() -> None:
    a, b = (ef.Variable(ef.zeros(1 << 20)) for _ in range(2))

    @ef.trace
    def step(x: ef.Tensor) -> None:
        y = a.assign_add(x * 2 - x + 0 * a.value)
        b.assign_add(y - b.value + x * 0)

    one = ef.ones(1 << 20)
    step(one)
    assert "sweep" in text(step)
    caught = 0
    for i in range(100):
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.00013 * i)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            while True:
                step(one)
        except KeyboardInterrupt:
            caught += 1
        finally:
            signal.signal(signal.SIGALRM, before)
        for v in (a, b):
            values = v.value.numpy()
            assert (values == values[0]).all()
    assert caught == 100


# --- random chains ------------------------------------------------------------------------------

_UNARY = ("abs", "negative", "square", "sqrt")
_BINARY = ("add", "subtract", "multiply", "divide")
_ASSIGNMENTS = ("assign_add", "assign_sub")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(_UNARY), st.integers(0, 9)),
        st.tuples(st.sampled_from(_BINARY), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.sampled_from(_ASSIGNMENTS), st.integers(0, 1), st.integers(0, 9)),
        st.tuples(st.just("read"), st.integers(0, 1)),
    ),
    min_size=3,
    max_size=25,
)


@pytest.mark.parametrize("wanted", [False, True])
@given(program=_STEPS, kept=st.lists(st.integers(0, 30), max_size=3), size=st.integers(1, 70))
def test_random_chains(wanted: bool, program: Any, kept: list[int], size: int) -> None:
    def run(states: list[ef.Variable], x: ef.Tensor, one: ef.Tensor) -> tuple[ef.Tensor, ...]:
        values = [x, one]
        for op, *places in program:
            if op == "read":
                values.append(states[places[0]].value)
            elif op in ("assign_add", "assign_sub"):
                delta = values[-1 - places[1] % len(values)]
                values.append(getattr(states[places[0]], op)(delta * ef.ones(size)))
            else:
                operands = [values[-1 - p % len(values)] for p in places]
                values.append(getattr(ef, op)(*operands))
        return tuple(values[k % len(values)] for k in kept)

    x, one = ef.tensor(np.linspace(-2, 2, size), dtype=ef.float32), ef.tensor(0.75)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        by_blocks(patch, wanted)
        first = [[ef.Variable(x), ef.Variable(x * 3)] for _ in range(2)]
        traced = ef.trace(lambda a, b: run(first[1], a, b))
        for _ in range(2):
            want, got = run(first[0], x, one), traced(x, one)
            for a, b in zip((*want, *first[0]), (*got, *first[1]), strict=True):
                assert np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
