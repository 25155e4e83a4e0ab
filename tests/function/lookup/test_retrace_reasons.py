"""The texts of reasons and warnings for traces that objects among the arguments need."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import RetraceWarning


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


def drawn(generator: Any, x: Any) -> Any:
    return x + ef.random.normal((3,), generator=generator) * generator.uniform((3,))


def _texts(traced: Any, arguments: list[tuple[Any, ...]]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while arguments:  # dropped as in a loop of a user
            traced(*arguments.pop(0))
            gc.collect()
    return [str(w.message) for w in caught if w.category is RetraceWarning]


def test_a_new_generator_in_each_call_is_warned_of() -> None:
    traced = ef.trace(drawn)
    (text,) = _texts(traced, [(ef.random.Generator(seed), ef.ones(3)) for seed in range(5)])
    assert "drawn was traced 3 times because generator is another Generator: the earlier" in text
    assert "keep one generator and set its state before the call: generator.state = {'seed'" in text
    assert "generator is another Generator" in traced.explain()


def test_generators_that_live_on_are_warned_of_too() -> None:
    generators = [ef.random.Generator(seed) for seed in range(5)]
    (text,) = _texts(ef.trace(drawn), [(g, ef.ones(3)) for g in generators])
    assert "3 times because of generator; generator: now Generator(seed=2, ticket=" in text
    assert "keep one generator and set its state before the call: generator.state = {'seed'" in text


def test_draws_come_from_the_generator_that_is_passed() -> None:
    traced = ef.trace(lambda a, b: a.normal((2,)) + 10 * b.normal((2,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for seeds in [(1, 2), (3, 4), (5, 5), (1, 2)]:
            (a, b), (c, d) = [[ef.random.Generator(s) for s in seeds] for _ in range(2)]
            assert traced(a, b).tolist() == (c.normal((2,)) + 10 * d.normal((2,))).tolist()
            assert (a.state, b.state) == (c.state, d.state)
            assert traced(a, a).tolist() == (c.normal((2,)) + 10 * c.normal((2,))).tolist()
            assert a.state == c.state


def test_the_remedy_for_generators_needs_one_trace() -> None:
    traced, one = ef.trace(drawn), ef.random.Generator(0)
    for seed in (3, 4, 5):
        one.state = {"seed": seed, "ticket": 0}
        expected = drawn(ef.random.Generator(seed), ef.ones(3)).tolist()
        assert traced(one, ef.ones(3)).tolist() == expected
    assert len(traced.traces) == 1


def test_other_objects_may_come_one_after_another() -> None:
    traced = ef.trace(lambda settings, x: x * settings.rate, name="f")
    assert not _texts(traced, [(Settings(0.1 * i), ef.ones(3)) for i in range(5)])
    assert "settings is another Settings: the earlier one is gone" in traced.explain()


def test_other_objects_that_live_on_are_warned_of() -> None:
    every = [Settings(0.1 * i) for i in range(5)]
    traced = ef.trace(lambda settings, x: x * settings.rate, name="f")
    (text,) = _texts(traced, [(settings, ef.ones(3)) for settings in every])
    assert "keep one Settings and set its attributes, which each call reads" in text


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_traces_that_went_with_objects_are_folded_into_a_sentence() -> None:
    traced = ef.trace(lambda settings, x: x * settings.rate, name="f")
    for i in range(6):
        traced(Settings(float(i)), ef.ones(3))
        gc.collect()
    assert "more traces like these, because settings is another Settings, " in traced.explain()


def test_a_value_read_from_outside_is_named_with_the_line_that_reads_it() -> None:
    class Net:
        mode = "a"

        def step(self, x: Any) -> Any:
            return x + len(self.mode)  # the line

    net = Net()
    traced = ef.trace(net.step)
    for Net.mode in ("a", "bb"):
        traced(ef.ones(3))
    Net.mode = "ccc"
    with pytest.warns(RetraceWarning, match=r"because of Net\.mode") as caught:
        traced(ef.ones(3))
    (text,) = [str(w.message) for w in caught]
    assert "read at " in text
    assert "len(self.mode)  # the line; its value is part of the graph: keep it, or pass" in text
