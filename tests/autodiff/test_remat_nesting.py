"""`remat` in itself, in branches and in loops, around assignments: eager and traced agree."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import eagerflow as ef


def _map(f):
    return lambda x: ef.map(f, x * ef.ones(2, dtype=x.dtype)).sum()


def _scan(f):
    def step(carry, row):
        return f(carry) * 0.5, f(row)

    def run(x):
        last, rows = ef.scan(step, x, x * ef.ones(2, dtype=x.dtype))
        return last + rows.sum()

    return run


def _while(f, **options):
    def step(i, x):
        return i + 1, f(x) * 0.7

    return lambda x: ef.while_loop(lambda i, x: i < 2, step, (0, x), **options)[1]


AROUND = {
    "remat": ef.remat,
    "map": _map,
    "scan": _scan,
    "cond": lambda f: lambda x: ef.cond(x > -100.0, lambda: f(x), lambda: x),
    "while": _while,
    "recomputing while": lambda f: _while(f, recompute=True),
    "trace": ef.trace,
}

#: from the inside out: all nestings with two of `remat` or more, and a deep one
NESTINGS = [names for names in itertools.product(AROUND, repeat=3) if names.count("remat") >= 2] + [
    ("remat", "map", "remat", "while", "remat", "remat")
]

X = ef.tensor(0.4, dtype=ef.float64)
V = ef.Variable(0.3, dtype=ef.float64)


def _assigns(x):
    V.assign(V * 0.5 + x)
    return ef.sin(x)


def _assigns_and_reads(x):
    V.assign(V * 0.5 + x)
    return ef.sin(x) * V * x


def _all_same(functions) -> None:
    """The results, and what the variable holds after."""
    results = []
    for f in functions:
        V.assign(0.3)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="a variable is read after it was assigned")
            results.append((float(f(X)), float(V)))
    for one in results[1:]:
        np.testing.assert_allclose(one, results[0], rtol=1e-12)


@pytest.mark.parametrize("inner", [_assigns, _assigns_and_reads])
@pytest.mark.parametrize("names", NESTINGS, ids=" in ".join)
def test_eager_and_traced_are_the_same(names, inner) -> None:
    f = plain = inner
    for name in names:
        f = AROUND[name](f)
        plain = plain if name == "remat" else AROUND[name](plain)
    traced = ef.trace(f)
    _all_same([plain, f, traced])
    _all_same([ef.grad(plain), ef.grad(f), ef.grad(traced), ef.trace(ef.grad(f))])
    _all_same([g(ef.grad(f, wrt=V)) for g in (lambda g: g, ef.trace)])


@pytest.mark.parametrize("outer", ["map", "cond", "while"])
def test_second_derivatives_and_forward_mode(outer) -> None:
    f = AROUND[outer](ef.remat(ef.remat(_map(_assigns_and_reads))))
    curve = [ef.grad(lambda x, g=g: ef.grad(g)(x) * x) for g in (f, ef.trace(f))]
    _all_same([*curve, ef.trace(curve[0])])
    along = [lambda x, g=g: ef.jvp(g, (x,), (x,))[1] for g in (f, ef.trace(f))]
    _all_same([*along, ef.trace(along[0])])
