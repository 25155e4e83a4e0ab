"""Numeric checks of derivatives: directional, in float64 and complex128, on NumPy arrays.

Everything goes by the real inner product ``<a, b> = Re(sum(conj(a) * b))``: a vjp is right if
``<pull(c), t> == <c, D>`` for random cotangents ``c`` and directions ``t``, where ``D`` is the
numeric derivative of the function along ``t``. This covers complex numbers as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.autodiff import vjp_jvp
from eagerflow.core import tree

#: step of the differences; truncation and rounding errors are both near 1e-12 in float64
EPS = 1e-4
#: weights of a central difference of fourth order at 1 and 2 steps
_WEIGHTS = ((1, 8 / 12), (2, -1 / 12))
RTOL = 1e-6


def tensors(args: Any) -> Any:
    """The tree with its NumPy arrays as tensors; all else as it is."""
    return tree.map(lambda x: ef.tensor(x) if isinstance(x, np.ndarray) else x, args)


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """The leaves of a result as NumPy arrays (sparse gradients made dense)."""
    return [np.asarray(x) for x in tree.leaves(result)]


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real inner product of two lists of arrays."""
    return float(sum(np.sum(np.real(np.conj(x) * y)) for x, y in zip(a, b, strict=True)))


def inexact(x: Any) -> bool:
    """Whether an array has derivatives."""
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def direction(x: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A random array like ``x``."""
    values: Any = rng.standard_normal(x.shape)
    if x.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(x.shape)
    return np.asarray(values).astype(x.dtype)


class Function:
    """A function of the floating leaves of some arguments, all else held fixed.

    Args:
        f: takes and gives trees of tensors.
        args: its arguments, NumPy arrays for tensors.
        wrt: the positions of the arguments to differentiate by.
    """

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int]) -> None:
        self.f = f
        self.args = list(args)
        self.wrt = tuple(wrt)
        self.leaves, self.treedef = tree.flatten([self.args[i] for i in self.wrt])
        self.places = [i for i, x in enumerate(self.leaves) if inexact(x)]
        assert self.places, "no floating argument to differentiate by"
        self.point = [self.leaves[i] for i in self.places]

    def __call__(self, *point: Any) -> list[Any]:
        """The floating outputs, as a list of tensors."""
        leaves = list(self.leaves)
        for i, x in zip(self.places, point, strict=True):
            leaves[i] = x
        args = list(self.args)
        for i, arg in zip(self.wrt, tree.unflatten(self.treedef, leaves), strict=True):
            args[i] = arg
        result = self.f(*tensors(args))
        return [y for y in tree.leaves(result) if y.dtype.is_inexact]

    def derivative(self, ts: Sequence[Any], eps: float) -> list[Any]:
        """The numeric derivative of the outputs along a direction."""
        total: list[Any] = []
        for steps, weight in _WEIGHTS:
            for sign in (1, -1):
                moved = [
                    np.asarray(x + sign * steps * eps * t)
                    for x, t in zip(self.point, ts, strict=True)
                ]
                ys = [sign * weight / eps * y for y in arrays(self(*moved))]
                total = [a + y for a, y in zip(total, ys, strict=True)] if total else ys
        return total


def assert_near(got: float, want: float, scale: float, rtol: float, what: str) -> None:
    """Assert that two numbers are equal within a tolerance relative to ``scale``."""
    assert abs(got - want) <= rtol * max(scale, 1.0), f"{what}: {got} is not {want} (numeric)"


def norm(a: Sequence[Any]) -> float:
    """The length of a list of arrays as one vector."""
    return float(np.sqrt(inner(a, a)))


def numeric_vjp_check(
    f: Callable[..., Any],
    args: Sequence[Any],
    wrt: Sequence[int],
    rng: np.random.Generator,
    order: int = 1,
    *,
    eps: float = EPS,
    rtol: float = RTOL,
    samples: int = 2,
    forward: bool = True,
) -> None:
    """Check reverse mode, and forward mode with it, against numeric derivatives.

    Args:
        f: takes tensors, gives a tensor or a tree of them.
        args: the arguments; NumPy arrays (also within lists, tuples, dicts) become tensors.
        wrt: the positions of the arguments whose float64 and complex128 arrays are checked.
        rng: for directions and cotangents.
        order: 2 checks the derivative of the gradient as well, 3 that one's, and so on.
        eps: step of the central differences.
        rtol: tolerance, relative to the lengths of the vectors involved (at least 1).
        samples: how many random directions.
        forward: whether forward mode is checked too.
    """
    function = Function(f, args, wrt)
    point = [ef.tensor(x) for x in function.point]
    value, pull = vjp_jvp.vjp(function, *point)
    outputs = arrays(value)
    for _ in range(samples):
        ts = [direction(x, rng) for x in function.point]
        cs = [direction(y, rng) for y in outputs]
        numeric = function.derivative(ts, eps)
        gs = arrays(pull([ef.tensor(c) for c in cs]))
        for x, g in zip(function.point, gs, strict=True):
            assert (g.shape, g.dtype) == (x.shape, x.dtype), "a gradient is not like its argument"
        scale = norm(cs) * norm(numeric) + norm(gs) * norm(ts)
        assert_near(inner(gs, ts), inner(cs, numeric), scale, rtol, "vjp")
        if forward:
            _, tangent = vjp_jvp.jvp(function, point, [ef.tensor(t) for t in ts])
            got = arrays(tangent)
            for y, d in zip(outputs, got, strict=True):
                assert (d.shape, d.dtype) == (y.shape, y.dtype), "a tangent is not like its value"
            gap = norm([a - b for a, b in zip(got, numeric, strict=True)])
            assert_near(gap, 0.0, norm(numeric) + norm(ts), rtol, "jvp")
    if order > 1:
        weights = [ef.tensor(direction(y, rng)) for y in outputs]

        def gradient(*xs: Any) -> Any:
            return vjp_jvp.vjp(function, *xs)[1](weights)

        numeric_vjp_check(
            gradient, function.point, range(len(function.point)), rng, order - 1,
            eps=eps, rtol=10 * rtol, samples=1, forward=forward,
        )  # fmt: skip
