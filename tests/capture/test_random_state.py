"""Generators that are set or made inside of traced functions."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import TensorValueError, TraceError


def _runs(make, *args):
    """The results of three calls from one seed, and the state of the generator afterwards."""
    ef.random.seed(5)
    f = make()
    results = [[y.tolist() for y in f(*args)] for _ in range(3)]
    return results, ef.random.default_generator().state


def _seeded():
    def f(x):
        a = ef.random.normal((2,))
        ef.random.seed(7)
        b = ef.random.uniform((2,))
        return a, b, x + ef.random.normal((2,))

    return f


def _own_generator():
    def f(x):
        g = ef.random.Generator(3)
        return g.normal((2,)) + x, g.normal((2,))

    return f


def _state_set():
    g = ef.random.Generator(3)

    def f(x):
        a = g.normal((2,))
        g.state = {"seed": 4, "ticket": 9}
        return a, g.normal((2,)) * x

    return f


@pytest.mark.parametrize("make", [_seeded, _own_generator, _state_set])
def test_each_run_sets_the_generator_as_eager_code_does(make) -> None:
    x = ef.tensor([1.0, 2.0])
    assert _runs(lambda: ef.trace(make()), x) == _runs(make, x)


def test_a_seed_that_does_not_fit_is_refused_while_tracing() -> None:
    @ef.trace
    def f(x):
        ef.random.seed(-1)
        return x

    before = ef.random.default_generator().state
    with pytest.raises(TensorValueError, match="the seed does not fit"):
        f(ef.tensor(1.0))
    assert ef.random.default_generator().state == before


def test_a_state_that_is_read_would_be_frozen() -> None:
    @ef.trace
    def f(x):
        return x + ef.random.default_generator().state["ticket"]

    with pytest.raises(TraceError, match="known only when the graph runs"):
        f(ef.tensor(1.0))


def test_tracing_takes_no_tickets() -> None:
    @ef.trace
    def f(x):
        return x + ef.random.normal((2,))

    ef.random.seed(0)
    f.graph(ef.tensor([1.0, 2.0]))
    assert ef.random.default_generator().state == {"seed": 0, "ticket": 0}


def test_a_step_takes_its_tickets_in_one_go() -> None:
    @ef.trace
    def f(x):
        return x + ef.random.normal((2,)), ef.random.uniform((3,))

    ef.random.seed(0)
    f(ef.tensor([1.0, 2.0]))
    assert ef.random.default_generator().state == {"seed": 0, "ticket": 2}
