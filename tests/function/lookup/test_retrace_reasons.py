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


def _weighted(obs: Any, rewards: Any) -> Any:
    """The first axis of ``rewards`` is static, that of ``obs`` is not."""
    return obs.sum() * len(range(rewards.shape[0]))


def test_a_call_is_compared_with_the_trace_from_which_it_differs_least() -> None:
    traced = ef.trace(_weighted)
    sizes = (60, 15, 17, 60, 13)  # the trace for 60 alone fixes `obs`, and was used last before 13
    calls: list[tuple[Any, ...]] = [(ef.ones((n, 3)), ef.ones(n)) for n in sizes]
    (text,) = _texts(traced, calls)
    assert "traced 3 times because of rewards; rewards: now f32[13]" in text
    assert "static: axis 0 of rewards = 13" in text
    why = traced.explain().rpartition("why: ")[2].partition("\n")[0]
    assert why.startswith("rewards: now f32[13]")
    assert "obs" not in why


def test_what_is_read_from_outside_is_blamed_where_it_alone_differs() -> None:
    class Net:
        mode = "a"

    traced = ef.trace(lambda x: x * len(Net.mode) * len(range(x.shape[0])), name="f")
    for n in (3, 4, 3):  # the trace that was used last differs in the size and in the mode
        traced(ef.ones(n))
    Net.mode = "b"
    traced(ef.ones(4))
    assert "mode: was 'a', now 'b'" in traced.explain().rpartition("why: ")[2]


def over_arange(x: Any, steps: Any) -> Any:
    for i in ef.arange(steps + 1):
        x = x * 0.5 + i
    return x


def over_range(x: Any, steps: Any) -> Any:
    for i in range(steps + 1):
        x = x * 0.5 + i
    return x


def test_the_remedy_for_a_loop_over_arange_is_one_over_range() -> None:
    (text,) = _texts(ef.trace(over_arange), [(ef.ones(2), n) for n in (2, 3, 4)])
    assert "static: steps=4, because of int() in arange at " in text
    assert "to keep steps symbolic, pass ef.tensor(steps), and write range in place of ef.a" in text
    remedied = ef.trace(over_range)
    for n in (2, 3, 4, 50):
        assert remedied(ef.ones(2), ef.tensor(n)).tolist() == over_arange(ef.ones(2), n).tolist()
    assert len(remedied.traces) == 1


def test_a_tensor_that_is_passed_twice_is_named() -> None:
    """Also where the call before had other sizes, which are no reason: there is a trace for all."""

    @ef.trace
    def f(x, s):
        return x.sum() + (s[0] * s[1]).sum()

    for n in (8, 9, 10):
        f(ef.ones(n), (ef.ones(n), ef.ones(n)))
    z = ef.ones(8)
    f(ef.ones(8), (z, z))
    assert len(f.traces) == 3
    assert f.traces[-1].reason == (
        "s[1] is s[0] now: an update of one in place would show in the other"
    )

    @ef.trace
    def g(a, b):
        return a + b

    g(z, z)
    g(z, ef.ones(8))
    assert g.traces[-1].reason.startswith("b was a, and is not now: ")

    @ef.trace
    def h(a, b, c):
        return a + b + c

    h(z, z, ef.ones(8))
    h(z, z, z)  # b was a before, too
    assert h.traces[-1].reason.startswith("c is a now: ")


def test_a_text_that_changes_has_a_remedy() -> None:
    traced = ef.trace(lambda x, tag: x + 1.0)
    (text,) = _texts(traced, [(ef.ones(2), f"step {i}") for i in range(4)])
    assert "tag: now 'step 2', before 'step" in text
    assert "a text is part of the graph, and each other text makes a trace: leave it out" in text
