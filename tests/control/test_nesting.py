"""Nodes with subgraphs in other traces, under monitors, in files, in profiles, and in `remat`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph.verify import verify
from eagerflow.runtime import Executable
from tests.control.programs import PROGRAMS
from tests.control.programs import Program as Case
from tests.control.test_programs import IDS, same
from tests.numeric import tensors

# mypy: disable-error-code="no-untyped-def"


@pytest.mark.parametrize("case", PROGRAMS, ids=IDS)
def test_a_traced_function_in_another(case: Case) -> None:
    """With symbolic sizes inside, which stand for others, or for numbers, outside."""
    inner = ef.trace(case.f)
    args = tensors(case.args)
    longer = [ef.concat([x, x]) if type(x) is ef.Tensor and x.shape else x for x in args]
    inner(*args)
    try:
        inner(*longer)
    except ef.errors.EagerflowError:
        return  # not all programs take other sizes
    for given in (args, longer):
        outer = ef.trace(lambda *args: inner(*args))
        same(outer(*given), case.f(*given))
        verify(outer.graph(*given))


@pytest.mark.parametrize("case", PROGRAMS, ids=IDS)
def test_monitors_see_each_op(case: Case) -> None:
    args = tensors(case.args)
    expected = ef.trace(case.f)(*args)
    with ef.config(check_nan=True, verify=True):
        same(ef.trace(case.f)(*args), expected)


def loop(x, w):
    def body(y, i):
        return ef.cond(i % 2 == 0, lambda: ef.sin(y) * w, lambda: y + w[:1]), i + 1

    return ef.while_loop(lambda y, i: i < 4, body, (x, 0))[0]


def test_sizes_move_into_another_trace() -> None:
    """A name that the inner trace gave is another size outside, or none at all."""

    def f(x, w):
        def body(y, i):
            z = ef.concat([y, ef.ones(w.shape[0])])
            return z[: y.shape[0]] * ef.zeros(x.shape[0]).sum() + y[y > -9.0][
                : y.shape[0]
            ] * 2, i + 1

        return ef.while_loop(lambda y, i: i < 2, body, (x, 0))[0]

    inner = ef.trace(f)
    for n, m in ((2, 3), (4, 5)):
        inner(ef.ones(n), ef.ones(m))
    outer = ef.trace(lambda a, b: inner(ef.concat([a, a]), b) + inner(a, b).sum())
    for n, m in ((2, 3), (4, 5), (1, 7)):
        a, b = ef.arange(1.0 * n), ef.ones(m)
        same(outer(a, b), f(ef.concat([a, a]), b) + f(a, b).sum())
        verify(outer.graph(a, b))
    same(ef.trace(lambda: inner(ef.ones(3), ef.ones(2)))(), f(ef.ones(3), ef.ones(2)))


def test_a_file(tmp_path: Path) -> None:
    x, w = ef.ones(3), ef.arange(3.0)
    graph = ef.trace(lambda x, w: ef.value_and_grad(lambda x: loop(x, w).sum())(x)).graph(x, w)
    graph.save(tmp_path / "f.graph")
    again = ef.Graph.load(tmp_path / "f.graph")
    assert str(again).split("#")[0] == str(graph).split("#")[0]
    for a, b in zip(
        Executable(again)(x._data, w._data), Executable(graph)(x._data, w._data), strict=True
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_profiles_show_the_nodes_of_iterations() -> None:
    traced = ef.trace(loop)
    traced(ef.ones(3), ef.ones(3))
    with ef.profile() as profile:
        traced(ef.ones(3), ef.ones(3))
    assert "sin" in str(profile)


def test_pictures() -> None:
    graph = ef.trace(loop).graph(ef.ones(3), ef.ones(3))
    assert "while_loop" in graph.to_dot()
    assert "<svg" in graph.to_svg()
    assert str(graph.diff())


@pytest.mark.parametrize("traced", [False, True])
def test_remat(traced: bool) -> None:
    x, w = ef.sin(ef.arange(3.0)), ef.arange(3.0) + 0.5

    def slope(f: Any) -> Any:
        grad = lambda x, w: ef.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w)
        return (ef.trace(grad) if traced else grad)(x, w)

    for a, b in zip(slope(ef.remat(loop)), slope(loop), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_custom_vjp_around_a_loop() -> None:
    """Its own rule holds, eagerly and in a trace; the loop in it is differentiated by nobody."""
    doubled = ef.custom_vjp(loop)
    doubled.defvjp(lambda x, w: (loop(x, w), w), lambda w, g: (g * 2 * w, None))
    x, w = ef.ones(3), ef.arange(3.0)

    def f(x):
        return doubled(x, w).sum()

    for g in (f, ef.trace(f)):
        np.testing.assert_array_equal(ef.grad(g)(x).numpy(), [0, 2, 4])
    np.testing.assert_array_equal(ef.trace(lambda x: ef.grad(f)(x))(x).numpy(), [0, 2, 4])


def test_a_tape_in_a_body_over_a_tape_outside() -> None:
    def f(x):
        def body(y, i):
            inner = ef.grad(
                lambda v: ef.while_loop(lambda v: v.sum() < 9, lambda v: v * v, v).sum()
            )
            return y * 0.5 + 0.001 * inner(y + 1.5), i + 1

        return ef.while_loop(lambda y, i: i < 3, body, (x, 0))[0].sum()

    x = ef.tensor([0.5, 0.75], dtype=ef.float64)
    expected = ef.grad(f)(x)
    for g in (ef.grad(ef.trace(f)), ef.trace(ef.grad(f))):
        np.testing.assert_allclose(g(x).numpy(), expected.numpy(), rtol=1e-9)


def test_threads_do_not_disturb_each_other() -> None:
    x, w = ef.sin(ef.arange(3.0)), ef.arange(3.0) + 0.5
    traced = ef.trace(lambda x, w: ef.grad(lambda x: loop(x, w).sum())(x))
    expected = traced(x, w).numpy().tobytes()
    with ThreadPoolExecutor(4) as pool:
        gradients = list(pool.map(lambda _: traced(x, w).numpy().tobytes(), range(40)))
    assert set(gradients) == {expected}


def test_threads_share_a_generator() -> None:
    """Each draw of each loop has a ticket of its own, and none is left out."""
    generator = ef.random.Generator(7)
    expected = {float(generator.uniform((), dtype=ef.float64)) for _ in range(400)}
    generator.state = {"seed": 7, "ticket": 0}

    def draws(n):
        array = ef.TensorArray(0, ef.tensor(0.0, dtype=ef.float64), dynamic=True)

        def body(i, array):
            x = ef.cond(
                i % 2 == 0,
                lambda: generator.uniform((), dtype=ef.float64),
                lambda: generator.uniform((), dtype=ef.float64),
            )
            return i + 1, array.write(i, x)

        return ef.while_loop(lambda i, _: i < n, body, (0, array))[1].stack()

    traced = ef.trace(draws)
    traced.graph(50)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: traced(50).numpy().tolist(), range(8)))
    assert {x for run in runs for x in run} == expected
    assert generator.state["ticket"] == 400


def _long(x, w, count):
    """Loops among many ops, with as many in their bodies."""

    def body(y, i):
        for k in range(count):
            y = ef.sin(y) * w + (k % 3) * 0.1
        return y, i + 1

    for k in range(count):
        x = x * 1.01 + 0.01 * k
    y, n = ef.while_loop(lambda y, i: i < 3, body, (x, 0))
    for k in range(count):
        y = ef.cond(y.sum() > k, lambda y=y: y * 0.9, lambda y=y: y + x * 0.1)
    z, rows = ef.scan(lambda c, r: (c + r * y[0], c), y, x)
    for _ in range(count):
        z = ef.tanh(z) + rows.sum(axis=0)
    return z * n


@pytest.mark.filterwarnings("ignore:.*is unrolled:eagerflow.errors.TraceWarning")
def test_long_programs() -> None:
    x, w = ef.sin(ef.arange(3.0)), ef.tensor(0.9)
    for count in (3, 90, 300):
        traced = ef.trace(lambda x, w, count=count: _long(x, w, count))
        assert traced(x, w).numpy().tobytes() == _long(x, w, count).numpy().tobytes()
        assert traced(x, w).numpy().tobytes() == _long(x, w, count).numpy().tobytes()
    slope = ef.grad(lambda x: _long(x, w, 90).sum())(x)
    gradient = ef.grad(lambda x: ef.trace(lambda x: _long(x, w, 90))(x).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), slope.numpy(), rtol=1e-4, atol=1e-5)


def test_an_accumulator_is_updated_in_place() -> None:
    """From the second iteration on, and never where somebody else holds it."""
    x = ef.sin(ef.arange(20_000.0))

    def f(start, x):
        def body(s, i, rows):
            s = s + x * i
            return s, i + 1, ef.cond(i == 2, lambda: s, lambda: rows)

        s, _, third = ef.while_loop(lambda s, i, rows: i < 5, body, (start, 0, start))
        _, ys = ef.scan(lambda c, i: (c + x, c), start, ef.arange(3))
        return s, third, ys

    start = ef.ones(20_000)
    before = start.numpy().tobytes()
    expected = f(start, x)
    traced = ef.trace(f)
    for _ in range(2):
        for a, b in zip(traced(start, x), expected, strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
    assert start.numpy().tobytes() == before
