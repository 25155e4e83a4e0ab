"""Number of traces of the bodies of nested loops; earlier knowledge changes no result."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError

# mypy: disable-error-code="no-untyped-def"

#: only the tests see the counter
pytestmark = pytest.mark.filterwarnings("ignore:.*builtins.seen:eagerflow.errors.TraceWarning")

DEPTH = 6


def numbers(depth, x):
    """Sums that begin with a Python number, beside a number that no iteration changes."""
    if depth == 0:
        next(builtins.seen)
        return x

    def body(s, i, fixed):
        return s + fixed * numbers(depth - 1, x), i + 1, fixed

    return ef.while_loop(lambda s, i, fixed: i < 2, body, (0.0, 0, 2))[0]


def scanned(depth, x):
    if depth == 0:
        next(builtins.seen)
        return x

    def iteration(s, part):
        return s + scanned(depth - 1, x * part), None

    return ef.scan(iteration, 0, ef.tensor([1.0, 2.0]))[0]


def branched(depth, x):
    """With branches between the loops."""
    if depth == 0:
        next(builtins.seen)
        return x

    def body(s, i):
        more = ef.cond(x > 0, lambda: branched(depth - 1, x), lambda: x * 2)
        return s + more, i + 1

    return ef.while_loop(lambda s, i: i < 2, body, (0.0, 0))[0]


def grown(depth, x):
    """Sizes that iterations change."""
    if depth == 0:
        next(builtins.seen)
        return ef.stack([x, x])

    def body(s, i):
        return ef.concat([s, grown(depth - 1, x)]), i + 1

    return ef.while_loop(lambda s, i: i < 2, body, (ef.ones(1), 0))[0]


def indexed(depth, x):
    """A number that Python asks for, as it makes a shape of it, and that no iteration changes."""
    if depth == 0:
        next(builtins.seen)
        return x

    def body(s, i, n):
        return s + indexed(depth - 1, x) * ef.ones((n,)).sum(), i + 1, n

    return ef.while_loop(lambda s, i, n: i < 2, body, (x, 0, 3))[0]


@pytest.mark.parametrize("f", [numbers, scanned, branched, grown, indexed])
def test_the_number_of_traces_grows_with_the_depth_alone(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = ef.tensor(0.5)
    counts = []
    for depth in (1, 2, 3, DEPTH):
        # there, a trace does not mind that it counts
        monkeypatch.setattr(builtins, "seen", itertools.count(), raising=False)
        value = ef.trace(lambda x, depth=depth: f(depth, x))(x)
        counts.append(next(builtins.seen))
        assert value.numpy().tobytes() == f(depth, x).numpy().tobytes()
    per_level = counts[1] - counts[0]
    assert counts[3] - counts[2] <= (DEPTH - 3) * max(per_level, 1)


def test_pythons_own_loops() -> None:
    def f(n, x):
        a = 0.0
        for _ in range(n):
            b = 0.0
            for _ in range(n):
                c = 0.0
                for _ in range(n):
                    d = 0.0
                    while d < 3:
                        d = d + x
                    c = c + d
                b = b + c
            a = a + b
        return a

    for n in (0, 1, 3):
        x = ef.tensor(0.75)
        assert float(ef.trace(f)(ef.tensor(n), x)) == float(f(n, x))


def test_what_was_known_may_be_wrong() -> None:
    """An inner loop that does something else when it is traced again: as if nothing was known."""

    def f(x):
        def outer(s, i):
            is_number = not isinstance(s, ef.Tensor)  # only in the first trace of this body

            def inner(t, j):
                return (t + x if is_number else t + 1.0), j + 1

            return s + ef.while_loop(lambda t, j: j < 2, inner, (0.0, 0))[0] * x, i + 1

        return ef.while_loop(lambda s, i: i < 3, outer, (0.0, 0))[0]

    assert float(ef.trace(f)(ef.tensor(2.0))) == 3 * 2.0 * 2.0

    def g(x):
        def outer(s, i):
            is_number = not isinstance(s, ef.Tensor)

            def inner(t, j):
                return (t + x if is_number else t + x.astype(ef.float64)), j + 1

            (t, _) = ef.while_loop(lambda t, j: j < 2, inner, (0.0, 0))
            return s + t.astype(ef.float32), i + 1

        return ef.while_loop(lambda s, i: i < 3, outer, (0.0, 0))[0]

    assert float(ef.trace(g)(ef.tensor(2.0))) == 12.0


def test_another_loop_in_its_place_begins_anew() -> None:
    """In the second trace of the outer body, its inner loop is one that keeps a number."""

    def f(x):
        def outer(s, i):
            def grows(t, j):
                return t + x, j + 1

            def stays(t, j):
                return t + 1.0, j + 1

            inner = grows if not isinstance(s, ef.Tensor) else stays
            t, _ = ef.while_loop(lambda t, j: j < 2, inner, (0.0, 0))
            return s + t * x, isinstance(t, ef.Tensor)

        return ef.while_loop(lambda s, is_tensor: s < 3, outer, (0.0, True))

    total, is_tensor = ef.trace(f)(ef.tensor(2.0))
    assert (float(total), bool(is_tensor)) == (4.0, False)


def test_calls_of_one_loop_do_not_tell_each_other_their_types() -> None:
    def summed(k):
        return ef.while_loop(lambda s, i: i < 3, lambda s, i: (s + k, i + 1), (0.0, 0))[0]

    def f(x):
        return summed(x), summed(0.1), summed(x)

    got = ef.trace(f)(ef.tensor(0.1))
    assert type(got[1]) is float
    assert [float(y) for y in got] == [float(y) for y in f(ef.tensor(0.1))]


def test_errors_are_those_of_a_trace_that_knows_nothing() -> None:
    def f(x):
        def outer(s, i):
            t, _ = ef.while_loop(lambda t, j: j < 2, lambda t, j: (t + x, j + 1), (0.0, 0))
            return s + t, ef.stack([t, t])

        return ef.while_loop(lambda s, i: s < 3, outer, (0.0, 0))[0]

    with pytest.raises(TraceError, match="changes the type of the carry at"):
        ef.trace(f)(ef.tensor(2.0))
