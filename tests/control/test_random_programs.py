"""Random programs of nested branches and loops: plain Python, eager, traced, lowered, derivatives.

A program is a tree of statements over three tensors ``x, y, z`` and the number of the iteration of
the innermost loop, a variable and a generator of random numbers. `plain` runs it with Python's own
``if`` and ``while`` and NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.graph.verify import verify
from tests.exploring import examples
from tests.runtime.graphs import by_entries

# mypy: disable-error-code="no-untyped-def"

#: name -> function of two values and the number of the iteration; bounded, so that loops stay
#: finite none lets values grow, as slopes of what explodes cannot be checked by differences
OPS = {
    "sin": lambda xp, a, b, i: xp.sin(a + b),
    "mul": lambda xp, a, b, i: xp.tanh(a) * b,
    "scale": lambda xp, a, b, i: a * 0.9 + 0.1 * (i + 1),
    "sub": lambda xp, a, b, i: 0.6 * a - 0.4 * b,
    "tanh": lambda xp, a, b, i: xp.tanh(a) + b * 0.1,
}
NAMES = st.integers(0, 2)
_OPS = st.tuples(st.just("op"), st.sampled_from(sorted(OPS)), NAMES, NAMES, NAMES)
_SIMPLE = st.one_of(
    _OPS,
    _OPS,
    st.tuples(st.sampled_from(["write", "read", "draw", "rule"]), NAMES),
)


def _blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _SIMPLE,
        st.tuples(st.just("if"), NAMES, st.sampled_from([-0.5, 0.0, 0.5]), block, block),
        st.tuples(st.just("by iteration"), st.integers(2, 3), block, block),
        st.tuples(st.just("one of"), block, block, block),
        st.tuples(st.just("while"), NAMES, st.integers(0, 4), block, st.booleans()),
        st.tuples(st.just("scan"), st.booleans(), block),
        st.tuples(st.just("map"), block),
        st.tuples(st.just("list"), NAMES, st.integers(0, 3), block),
        st.tuples(st.just("remat"), block),
    )


PROGRAMS = st.lists(st.recursive(_SIMPLE, _blocks, max_leaves=7), min_size=1, max_size=4)
#: where a value is as near to a threshold, numeric derivatives jump
SAFE = 1e-3

V = ef.Variable(ef.zeros(2, dtype=ef.float64))
G = ef.random.Generator(3)


@ef.custom_vjp
def rule(x):
    return ef.sin(x) * 0.9


# it is not the derivative: to be ignored would be seen
rule.defvjp(lambda x: (ef.sin(x) * 0.9, x), lambda x, g: (0.3 * g * ef.cos(x),))


def reset() -> None:
    """The state that programs start from."""
    V.assign(ef.tensor([0.3, -0.2], dtype=ef.float64))
    G.state = {"seed": 3, "ticket": 0}


def kinds(program: Any) -> Iterator[str]:
    """The kinds of all statements."""
    for item in program:
        if isinstance(item, tuple) and isinstance(item[0], str):
            yield item[0]
            yield from kinds(item[1:])
        elif isinstance(item, list):
            yield from kinds(item)


class JumpError(Exception):
    """A value is next to a threshold."""


class Plain:
    """Runs programs on NumPy arrays."""

    def __init__(self) -> None:
        self.variable = V.numpy().copy()

    def run(self, program: Any, state: list[Any], i: int) -> None:
        """Run statements, in place of ``state``."""
        for kind, *rest in program:
            getattr(self, kind.replace(" ", "_").replace("if", "if_").replace("while", "while_"))(
                state, i, *rest
            )

    def op(self, state, i, name, a, b, to):
        state[to] = OPS[name](np, state[a], state[b], i)

    def write(self, state, i, a):
        self.variable = self.variable * 0.5 + state[a]

    def read(self, state, i, a):
        state[a] = np.tanh(state[a] + self.variable)

    def draw(self, state, i, a):
        state[a] = state[a] * 0.9 + G.uniform((2,), dtype=ef.float64).numpy() * 0.1

    def rule(self, state, i, a):
        state[a] = np.sin(state[a]) * 0.9

    def if_(self, state, i, place, limit, yes, no):
        total = state[place].sum()
        if abs(total - limit) < SAFE:
            raise JumpError
        self.run(yes if total > limit else no, state, i)

    def by_iteration(self, state, i, every, yes, no):
        self.run(yes if i % every == 0 else no, state, i)

    def one_of(self, state, i, *blocks):
        self.run(blocks[i % 3], state, i)

    def while_(self, state, i, place, most, body, bounded):
        j = 0
        while j < most and np.abs(state[place]).sum() > 0.1:
            if abs(np.abs(state[place]).sum() - 0.1) < SAFE:
                raise JumpError
            self.run(body, state, j)
            j += 1

    def scan(self, state, i, backwards, body):
        rows = list(state[2])
        found = []
        for row in rows[::-1] if backwards else rows:
            inner = [state[0], state[1], row * np.ones(2)]
            self.run(body, inner, 1)
            state[0], state[1] = inner[0], inner[1]
            found.append(inner[2].sum())
        state[2] = np.stack(found[::-1] if backwards else found)

    def map(self, state, i, body):
        found = []
        for row in state[2]:
            inner = [state[0], state[1], row * np.ones(2)]
            self.run(body, inner, i)
            found.append(inner[2].sum())
        state[2] = np.stack(found)

    def list(self, state, i, place, iterations, body):
        rows = [state[place], np.zeros(2)]
        for j in range(iterations):
            self.run(body, state, j)
            rows[j % 2] = rows[j % 2] * 0.5 + state[place]
        state[place] = rows[0] + rows[1] * 0.3

    def remat(self, state, i, body):
        self.run(body, state, i)


def run(program: Any, state: Any, i: Any) -> Any:
    """Run statements on tensors; gives the new state."""
    x = list(state)
    for kind, *rest in program:
        x = list(RUN[kind](x, i, *rest))
    return tuple(x)


def _set(x, to, value):
    return [value if k == to else old for k, old in enumerate(x)]


def _write(x, i, a):
    V.assign(V * 0.5 + x[a])
    return x


def _draw(x, i, a):
    return _set(x, a, x[a] * 0.9 + G.uniform((2,), dtype=ef.float64) * 0.1)


def _if(x, i, place, limit, yes, no):
    now = tuple(x)
    return ef.cond(x[place].sum() > limit, lambda: run(yes, now, i), lambda: run(no, now, i))


def _by_iteration(x, i, every, yes, no):
    return ef.cond(i % every == 0, lambda *s: run(yes, s, i), lambda *s: run(no, s, i), *x)


def _one_of(x, i, *blocks):
    return ef.switch(i % 3, [lambda *s, b=b: run(b, s, i) for b in blocks], *x)


def _while(x, i, place, most, body, bounded):
    def goes_on(j, *s):
        more = ef.abs(s[place]).sum() > 0.1
        return more if bounded else ef.cond(j < most, lambda: more, lambda: ef.tensor(False))

    _, *found = ef.while_loop(
        goes_on, lambda j, *s: (j + 1, *run(body, s, j)), (0, *x),
        max_iterations=most if bounded else None, recompute=bounded,
    )  # fmt: skip
    return found


def _scan(x, i, backwards, body):
    def iteration(carry, row):
        a, b, c = run(body, (*carry, row * ef.ones(2, dtype=row.dtype)), 1)
        return (a, b), c.sum()

    (a, b), rows = ef.scan(iteration, (x[0], x[1]), x[2], reverse=backwards)
    return [a, b, rows]


def _map(x, i, body):
    def row(v):
        return run(body, (x[0], x[1], v * ef.ones(2, dtype=v.dtype)), i)[2].sum()

    return [x[0], x[1], ef.map(row, x[2])]


def _list(x, i, place, iterations, body):
    def iteration(j, array, *s):
        s = run(body, s, j)
        return j + 1, array.write(j % 2, array.read(j % 2) * 0.5 + s[place]), *s

    array = ef.TensorArray(2, x[place]).write(0, x[place])
    _, array, *x = ef.while_loop(lambda j, *_: j < iterations, iteration, (0, array, *x))
    return _set(x, place, array.stack()[0] + array.read(1) * 0.3)


RUN = {
    "op": lambda x, i, name, a, b, to: _set(x, to, OPS[name](ef, x[a], x[b], i)),
    "write": _write,
    "read": lambda x, i, a: _set(x, a, ef.tanh(x[a] + V)),
    "draw": _draw,
    "rule": lambda x, i, a: _set(x, a, rule(x[a])),
    "if": _if,
    "by iteration": _by_iteration,
    "one of": _one_of,
    "while": _while,
    "scan": _scan,
    "map": _map,
    "list": _list,
    "remat": lambda x, i, body: ef.remat(lambda *s: run(body, s, i))(*x),
}


def _result(program: Any) -> Any:
    def f(x):
        a, b, c = run(program, (x[0], x[1], x[2]), 1)
        return (a * b).sum() + ef.sin(c).sum()

    return f


START = np.array([[0.4, -0.3], [0.8, 0.2], [-0.6, 0.5]])


def _plain(program: Any, start: np.ndarray[Any, Any]) -> float:
    reset()
    state = list(start)
    Plain().run(program, state, 1)
    return float((state[0] * state[1]).sum() + np.sin(state[2]).sum())


def _fresh(f: Any, *args: Any) -> Any:
    """The result from the first state on, as arrays, and the state then."""
    reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a variable is read after it was assigned")
        found = f(*args)
    found = found.to_dense() if isinstance(found, ef.IndexedSlices) else found
    return np.asarray(found), V.numpy().tobytes(), G.state


def _same(a: Any, b: Any, tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(a[0], b[0], rtol=tolerance, atol=tolerance / 1e3)
    assert a[1:] == b[1:]


#: branches in which nothing of what a drawing loop before them gives is read
_WITHOUT_A = [("write", 0)], [("op", "scale", 1, 2, 0), ("op", "mul", 1, 1, 2)], [("rule", 2)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 3))
@example(
    [("scan", False, [("if", 0, 0.0, [("while", 1, 3, [("read", 0)], False)], [("rule", 1)])])], 0
)
@example([("while", 0, 3, [("write", 1), ("remat", [("rule", 0), ("draw", 1)])], True)], 1)
@example(
    [
        (
            "remat",
            [("remat", [("write", 0)]), ("if", 0, -0.5, [("op", "mul", 0, 0, 0)], [("write", 0)])],
        )
    ],
    0,
)
@example([("remat", [("op", "mul", 0, 0, 0), ("if", 0, -0.5, [("write", 0)], [("draw", 2)])])], 0)
@example([("remat", [("remat", [("map", [("write", 0)])])])], 0)
@example([("list", 1, 3, [("one of", [("read", 0)], [("map", [("rule", 2)])], [("write", 0)])])], 2)
@example([("scan", True, [("scan", True, [("draw", 0)]), ("one of", *_WITHOUT_A)])], 1)
def test_programs(program: Any, seed: int) -> None:
    start = START + np.random.default_rng(seed).normal(size=START.shape) * 0.3
    try:
        expected = _plain(program, start)
    except JumpError:
        return
    f, x = _result(program), ef.tensor(start)
    traced = ef.trace(f)
    eager = _fresh(f, x)
    assert abs(float(eager[0]) - expected) < 1e-9 * max(1, abs(expected))
    _same(_fresh(traced, x), eager)
    _check_lowered(traced.graph(x), x, eager)
    slope = _fresh(ef.grad(f), x)
    for grad in (ef.grad(traced), ef.trace(ef.grad(f))):
        _same(_fresh(grad, x), slope, 1e-9)
    _check_lowered(ef.trace(ef.grad(f)).graph(x), x, slope, 1e-9)
    _same(_fresh(ef.trace(ef.grad(f, wrt=V)), x), _fresh(ef.grad(f, wrt=V), x), 1e-9)
    _same(_fresh(ef.trace(_along(f)), x), _fresh(_along(f), x), 1e-9)
    if {"write", "rule"}.isdisjoint(kinds(program)):
        _check_numeric(program, start, slope[0])
    if {"remat", "rule"} <= {*kinds(program)}:
        return  # what is no derivative has no second one: tapes see the rule, or the ops in it
    curve = _fresh(_second(f), x)
    _same(_fresh(_second(traced), x), curve, 1e-8)
    _same(_fresh(ef.trace(_second(f)), x), curve, 1e-8)


def _check_lowered(graph: ef.Graph, x: ef.Tensor, eager: Any, tolerance: float = 0.0) -> None:
    verify(graph)
    assert str(ef.Graph.parse(str(graph), dict(graph.resources))) == str(graph)
    inputs = [x.numpy()]
    lowered = by_entries(graph, lambda node: False)
    _same(_fresh(lambda: lowered(*inputs)[0]), eager, tolerance)
    _same(_fresh(lambda: by_entries(graph.optimise())(*inputs)[0]), eager, tolerance)


def _along(f: Any) -> Any:
    return lambda x: ef.jvp(f, (x,), (ef.cos(x),))[1]


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
