"""Loops that count down over a symbolic size are loops of the graph, as those that count up."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import pytest

import eagerflow as ef


def in_reverse(r):
    out, g = ef.zeros_like(r), 0.0 * r.sum()
    for t in reversed(range(len(r))):
        g = r[t] + 0.5 * g
        out[t] = g
    return (out * out).sum()


def by_a_negative_step(r):
    out, g = ef.zeros_like(r), 0.0 * r.sum()
    for t in range(r.shape[0] - 1, -1, -1):
        g = r[t] * (t + 1) + 0.5 * g
        out[t] = g
    return (out * out).sum()


def by_twos(r):
    g = 0.0 * r.sum()
    for t in range(len(r) - 1, 0, -2):
        g = r[t] * r[t - 1] + 0.5 * g
    return g


def with_an_end_of_its_own(r):
    g = 0.0 * r.sum()
    for t in reversed(range(1, len(r))):
        if g > 20:
            break
        g = r[t] - r[t - 1] + 1.5 * g + 1
    return g


def by_an_index_from_the_end(r):
    g = 0.0 * r.sum()
    for t in range(len(r)):
        g = r[len(r) - 1 - t] + 0.5 * g
    return g


def enumerated(r):
    g = 0.0 * r.sum()
    for k, t in enumerate(reversed(range(len(r)))):
        g = r[t] * k + 0.5 * g
    return g


@pytest.mark.parametrize(
    "function",
    [in_reverse, by_a_negative_step, by_twos, with_an_end_of_its_own, by_an_index_from_the_end,
     enumerated],
)  # fmt: skip
def test_a_second_trace_is_for_all_lengths(function) -> None:
    traced, slope = ef.trace(function), ef.trace(ef.grad(function))
    for n in (6, 9, 3, 6, 1, 12, 2, 7):
        r = ef.sin(ef.arange(n) + 1.0)
        assert traced(r).tolist() == function(r).tolist()
        assert slope(r).tolist() == pytest.approx(ef.grad(function)(r).tolist(), abs=1e-6)
        assert ef.grad(traced)(r).tolist() == pytest.approx(slope(r).tolist(), abs=1e-6)
    assert len(traced.traces) == len(slope.traces) == 2
    assert not traced.traces[1].static


@pytest.mark.parametrize("function", [in_reverse, by_a_negative_step, by_twos])
def test_other_transformations_fit_all_lengths_too(function) -> None:
    traced = ef.trace(function)
    pushed = ef.trace(lambda r: ef.jvp(function, (r,), (ef.cos(r),)))
    batched = ef.trace(ef.vmap(function))
    second = ef.trace(lambda r: ef.hvp(function, (r,), (ef.cos(r),))[0])
    for n in (6, 9, 3, 7):
        r = ef.sin(ef.arange(n) + 1.0)
        expected = [x.item() for x in ef.jvp(function, (r,), (ef.cos(r),))]
        assert [x.item() for x in pushed(r)] == pytest.approx(expected, rel=1e-5)
        given = [x.item() for x in ef.jvp(traced, (r,), (ef.cos(r),))]
        assert given == pytest.approx(expected, rel=1e-5)
        rows = ef.stack([r, 2 * r])
        apart = [function(r).item(), function(2 * r).item()]
        assert batched(rows).tolist() == pytest.approx(apart, rel=1e-5)
        twice = ef.hvp(function, (r,), (ef.cos(r),))[0].tolist()
        assert second(r).tolist() == pytest.approx(twice, rel=1e-4, abs=1e-5)
    assert [len(one.traces) for one in (traced, pushed, batched, second)] == [2] * 4
