"""Random programs of nested branches and loops: plain Python, eager, traced, and its derivatives.

A program is a tree of statements over three tensors ``x, y, z`` and the number of the turn of the
innermost loop. `plain` runs it with Python's own ``if`` and ``while`` and NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eagerflow as ef

# mypy: disable-error-code="no-untyped-def"

#: name -> function of two values and the number of the turn; bounded, so that loops stay finite
#: none lets values grow, as slopes of what explodes cannot be checked by differences
OPS = {
    "sin": lambda xp, a, b, i: xp.sin(a + b),
    "mul": lambda xp, a, b, i: xp.tanh(a) * b,
    "scale": lambda xp, a, b, i: a * 0.9 + 0.1 * (i + 1),
    "sub": lambda xp, a, b, i: 0.6 * a - 0.4 * b,
    "tanh": lambda xp, a, b, i: xp.tanh(a) + b * 0.1,
}
NAMES = st.integers(0, 2)
_OPS = st.tuples(st.just("op"), st.sampled_from(sorted(OPS)), NAMES, NAMES, NAMES)


def _blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _OPS,
        st.tuples(st.just("if"), NAMES, st.sampled_from([-0.5, 0.0, 0.5]), block, block),
        st.tuples(st.just("by turn"), st.integers(2, 3), block, block),
        st.tuples(st.just("while"), NAMES, st.integers(0, 4), block),
        st.tuples(st.just("scan"), st.booleans(), block),
    )


PROGRAMS = st.lists(st.recursive(_OPS, _blocks, max_leaves=7), min_size=1, max_size=4)
#: where a value is as near to a threshold, numeric derivatives jump
SAFE = 1e-3


class JumpError(Exception):
    """A value is next to a threshold."""


def plain(program: Any, state: list[Any], i: int) -> None:
    """Run statements on NumPy arrays, in place of ``state``."""
    for kind, *rest in program:
        if kind == "op":
            name, a, b, to = rest
            state[to] = OPS[name](np, state[a], state[b], i)
        elif kind == "if":
            place, limit, yes, no = rest
            total = state[place].sum()
            if abs(total - limit) < SAFE:
                raise JumpError
            plain(yes if total > limit else no, state, i)
        elif kind == "by turn":
            every, yes, no = rest
            plain(yes if i % every == 0 else no, state, i)
        elif kind == "while":
            place, most, body = rest
            j = 0
            while j < most and np.abs(state[place]).sum() > 0.1:
                if abs(np.abs(state[place]).sum() - 0.1) < SAFE:
                    raise JumpError
                plain(body, state, j)
                j += 1
        else:
            backwards, body = rest
            rows = list(state[2])
            found = []
            for row in rows[::-1] if backwards else rows:
                inner = [state[0], state[1], row * np.ones(2)]
                plain(body, inner, 1)
                state[0], state[1] = inner[0], inner[1]
                found.append(inner[2].sum())
            state[2] = np.stack(found[::-1] if backwards else found)


def run(program: Any, state: Any, i: Any) -> Any:
    """Run statements on tensors; gives the new state."""
    x = list(state)
    for kind, *rest in program:
        if kind == "op":
            name, a, b, to = rest
            x[to] = OPS[name](ef, x[a], x[b], i)
        elif kind == "if":
            place, limit, yes, no = rest
            now = tuple(x)
            x = list(
                ef.cond(
                    x[place].sum() > limit,
                    lambda now=now, yes=yes: run(yes, now, i),
                    lambda now=now, no=no: run(no, now, i),
                )
            )
        elif kind == "by turn":
            every, yes, no = rest
            x = list(
                ef.cond(i % every == 0, lambda *s, yes=yes: run(yes, s, i),
                        lambda *s, no=no: run(no, s, i), *x)
            )  # fmt: skip
        elif kind == "while":
            x = _while(rest, x)
        else:
            x = _scan(rest, x)
    return tuple(x)


def _while(rest: Any, x: list[Any]) -> list[Any]:
    place, most, body = rest

    def goes_on(j, *s):
        return ef.cond(j < most, lambda: ef.abs(s[place]).sum() > 0.1, lambda: ef.tensor(False))

    _, *found = ef.while_loop(goes_on, lambda j, *s: (j + 1, *run(body, s, j)), (0, *x))
    return found


def _scan(rest: Any, x: list[Any]) -> list[Any]:
    backwards, body = rest

    def turn(carry, row):
        a, b, c = run(body, (*carry, row * ef.ones(2, dtype=row.dtype)), 1)
        return (a, b), c.sum()

    (a, b), rows = ef.scan(turn, (x[0], x[1]), x[2], reverse=backwards)
    return [a, b, rows]


def _result(program: Any) -> Any:
    def f(x):
        a, b, c = run(program, (x[0], x[1], x[2]), 1)
        return (a * b).sum() + ef.sin(c).sum()

    return f


START = np.array([[0.4, -0.3], [0.8, 0.2], [-0.6, 0.5]])


def _plain(program: Any, start: np.ndarray[Any, Any]) -> float:
    state = list(start)
    plain(program, state, 1)
    return float((state[0] * state[1]).sum() + np.sin(state[2]).sum())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 3))
def test_programs(program: Any, seed: int) -> None:
    start = START + np.random.default_rng(seed).normal(size=START.shape) * 0.3
    try:
        expected = _plain(program, start)
    except JumpError:
        return
    f, x = _result(program), ef.tensor(start)
    traced = ef.trace(f)
    eager = f(x)
    assert abs(float(eager) - expected) < 1e-9 * max(1, abs(expected))
    assert traced(x).numpy().tobytes() == eager.numpy().tobytes()
    slope = ef.grad(f)(x).numpy()
    for grad in (ef.grad(traced), ef.trace(lambda x: ef.grad(f)(x))):
        np.testing.assert_allclose(grad(x).numpy(), slope, rtol=1e-9, atol=1e-12)
    _check_numeric(program, start, slope)
    curve = _second(f)(x).numpy()
    np.testing.assert_allclose(_second(traced)(x).numpy(), curve, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ef.trace(_second(f))(x).numpy(), curve, rtol=1e-8, atol=1e-10)


def _second(f: Any) -> Any:
    return lambda x: ef.grad(lambda x: ef.sin(ef.grad(f)(x)).sum())(x)


def _check_numeric(program: Any, start: np.ndarray[Any, Any], slope: Any) -> None:
    direction = np.cos(np.arange(start.size)).reshape(start.shape)
    eps = 1e-6
    try:
        ends = [_plain(program, start + direction * e) for e in (eps, -eps)]
    except JumpError:
        return
    numeric = (ends[0] - ends[1]) / (2 * eps)
    found = float((slope * direction).sum())
    assert abs(found - numeric) < 1e-5 * max(1, abs(numeric))
