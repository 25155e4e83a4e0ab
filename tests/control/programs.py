"""Functions with branches and loops, each with arguments at which it is smooth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import eagerflow as ef

# mypy: disable-error-code="no-untyped-def"


@dataclass
class Program:
    """A function and its arguments, NumPy arrays for tensors."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    floats: bool = True  # whether there is something to differentiate

    @property
    def name(self) -> str:
        return self.f.__name__


def _array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(seed).normal(size=shape))


def branch(x, w):
    return ef.cond(x.sum() > 0, lambda: ef.sin(x) * w, lambda: x / w)


def branch_with_operands(x, w):
    def one(a, b):
        a += b["w"]
        return {"y": a * a, "n": 1}

    def two(a, b):
        return {"y": a * b["w"], "n": 2}

    result = ef.cond(w.sum() > 100, one, two, x, {"w": w})
    return result["y"] + x, result["n"]


def numbers_of_branches(x, n):
    k = ef.cond(x.sum() > 0, lambda: n + 1, lambda: n * 2)
    half = ef.cond(k > 3, lambda: k / 2, lambda: 0.5)
    return x * k + half, k


def nested_branches(x, w):
    def inner():
        return ef.cond(w.sum() > 0, lambda: x * w, lambda: x - w)

    return ef.cond(x.sum() > 0, inner, lambda: ef.exp(inner()))


def three_branches(x, i):
    return ef.switch(i, [lambda v: v * 2, ef.sin, lambda v: v * v * v], x)


def newton(a):
    def body(x, _):
        new = 0.5 * (x + a / x)
        return new, ef.abs(new - x)

    x, _ = ef.while_loop(lambda x, change: change > 1e-9, body, (a, ef.ones_like(a)))
    return x


def geometric(x, w):
    def body(x, i):
        return x * w + 0.1, i + 1

    return ef.while_loop(lambda x, i: (ef.abs(x).sum() > 0.3) & (i < 30), body, (x, 0))


def branch_in_a_loop(x, w):
    def body(x, i):
        y = ef.cond(i % 2 == 0, lambda: ef.sin(x) * w, lambda: x + w * i)
        return y, i + 1

    return ef.while_loop(lambda x, i: i < 5, body, (x, 0))[0]


def loop_in_a_branch(x, w):
    def loop():
        return ef.while_loop(lambda y: ef.abs(y).sum() > 0.2, lambda y: y * w * 0.5, x)

    return ef.cond(w.sum() > 0, loop, lambda: x)


def loop_in_a_loop(x, n):
    def outer(x, i):
        def inner(y, j):
            return y + ef.sin(x) * j, j + 1

        y, _ = ef.while_loop(lambda y, j: j <= i, inner, (x, 0))
        return y * 0.5, i + 1

    return ef.while_loop(lambda x, i: i < n, outer, (x, 0))[0]


def no_iterations(x, w):
    return ef.while_loop(lambda y: y.sum() > 1e9, lambda y: y * w, x) * w


def swapped(x, w):
    def body(a, b, i):
        return b, a * b + w, i + 1

    a, b, _ = ef.while_loop(lambda a, b, i: i < 4, body, (x, w, 0))
    return a + 2 * b


def bounded(x, w):
    return ef.while_loop(lambda y: True, lambda y: y * w, x, max_iterations=4)


def recomputed(x, w):
    def body(y, i):
        return ef.tanh(y * w) + ef.sin(x), i + 1

    return ef.while_loop(lambda y, i: i < 6, body, (x, 0), recompute=True)[0]


def growing(x, n):
    def body(y, i):
        return ef.concat([y, x * i]), i + 1

    y, _ = ef.while_loop(lambda y, i: i < n, body, (x * 2, 0))
    return (y * y).sum()


def sizes_of_data(x, w):
    y = x[x > -0.9]

    def body(z, i):
        return ef.sin(z) * w.sum() + ef.ones(y.shape, dtype=z.dtype), i + 1

    z, _ = ef.while_loop(lambda z, i: i < 3, body, (y, 0))

    def shorter(z, i):
        z = z[z > -9.0]
        return ef.concat([ef.sin(z) * z, ef.zeros(y.shape, dtype=z.dtype)])[2:], i + 1

    v, _ = ef.while_loop(lambda v, i: i < 2, shorter, (z, 0))
    return (v * v).sum() + z.sum()


def elements(xs):
    def body(i, s):
        return i + 1, s + xs[i] * i

    return ef.while_loop(lambda i, s: i < xs.shape[0], body, (0, 0.0))


def rnn(xs, w):
    def step(h, x):
        h = ef.tanh(h @ w + x)
        return h, (h.sum(), h * 2)

    h, (a, b) = ef.scan(step, ef.zeros(3, dtype=xs.dtype), xs)
    return h.sum() + (a * a).sum() + (b * xs).sum()


def backwards(xs, w):
    def step(carry, x):
        y = carry["h"] * w + x
        return {"h": y, "n": carry["n"] + 1}, y

    carry, ys = ef.scan(step, {"h": xs[0] * 0, "n": 0}, xs, reverse=True)
    return carry["h"], ys, carry["n"]


def powers(x, n):
    _, ys = ef.scan(lambda c, _: (c * x, c), x, None, length=5)
    return ys * n


def scan_in_a_scan(xs, w):
    def outer(c, x):
        d, ys = ef.scan(lambda d, v: (d + v * c, d * v), c, x)
        return d * w, ys.sum()

    return ef.scan(outer, w, xs)


def mapped(xs, w):
    return ef.map(lambda x: ef.sin(x["a"]) * w + x["b"].sum(), {"a": xs, "b": xs[:, :1]})


def array_of_tensors(xs, n):
    array = ef.TensorArray(0, xs[0], dynamic=True)

    def body(i, array):
        return i + 1, array.write(i, xs[i] * i)

    _, array = ef.while_loop(lambda i, array: i < n, body, (0, array))
    other = ef.TensorArray(xs.shape[0], xs[0]).unstack(xs * xs)
    return array.stack().sum(axis=0) * other.read(1) + array.read(0)


def lists_in_branches(xs, w):
    array = ef.TensorArray(3, xs[0])
    array = ef.cond(w.sum() > 0, lambda: array.write(1, xs[0] * w), lambda: array)
    return array.stack()


def gradient_inside(x, w):
    def body(y, i):
        return y - 0.1 * ef.grad(lambda v: (ef.sin(v) * w).sum())(y), i + 1

    return ef.while_loop(lambda y, i: i < 4, body, (x, 0))[0]


def integers(x):
    def body(x, n):
        return ef.cond(x % 2 == 0, lambda: x // 2, lambda: 3 * x + 1), n + 1

    return ef.while_loop(lambda x, n: x != 1, body, (x, 0))


def flags(xs):
    def body(i, flag, where):
        hit = xs[i] > 0.5
        return i + 1, hit, ef.where(hit, i, where)

    return ef.while_loop(lambda i, flag, where: ~flag & (i < 5), body, (0, ef.tensor(False), -1))


_X, _W = _array(3, seed=1), _array(3, seed=2) + 0.5
_XS, _M = _array(4, 3, seed=3), _array(3, 3, seed=4)

PROGRAMS = [
    Program(branch, (_X, _W)),
    Program(branch, (-_X, _W)),
    Program(branch_with_operands, (_X, _W)),
    Program(branch_with_operands, (_X, _W + 100)),
    Program(numbers_of_branches, (np.abs(_X), 3)),
    Program(numbers_of_branches, (-np.abs(_X), 1)),
    Program(nested_branches, (np.abs(_X), _W)),
    Program(nested_branches, (-np.abs(_X), -np.abs(_W))),
    *[Program(three_branches, (_X, i)) for i in range(3)],
    Program(three_branches, (_X, np.asarray(1)), floats=False),
    Program(newton, (np.asarray(7.5),)),
    Program(geometric, (_X, np.asarray(0.7))),
    Program(branch_in_a_loop, (_X, _W)),
    Program(loop_in_a_branch, (_X, np.asarray(0.9))),
    Program(loop_in_a_branch, (_X, np.asarray(-0.9))),
    Program(loop_in_a_loop, (_X, 4)),
    Program(no_iterations, (_X, _W)),
    Program(swapped, (_X, _W)),
    Program(bounded, (_X, _W)),
    Program(recomputed, (_X, _W)),
    Program(growing, (_X, 3)),
    Program(sizes_of_data, (_X, _W)),
    Program(elements, (_X,)),
    Program(rnn, (_XS, _M)),
    Program(backwards, (_XS, _W)),
    Program(powers, (_X, 2.5)),
    Program(scan_in_a_scan, (_array(2, 3, seed=5), np.asarray(0.8))),
    Program(mapped, (_XS, np.asarray(0.8))),
    Program(array_of_tensors, (_XS, 3)),
    Program(lists_in_branches, (_XS, _W)),
    Program(lists_in_branches, (_XS, -np.abs(_W))),
    Program(gradient_inside, (_X, _W)),
    Program(integers, (np.asarray(27),), floats=False),
    Program(flags, (_array(5, seed=7),), floats=False),
]
