"""The results of programs on NumPy: a reference that is independent of the project."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import eagerflow as ef
from tests.programs.language import Program, State

__all__ = ["JumpError", "plain"]

#: the distance to a threshold within which numeric derivatives jump
SAFE = 1e-3


class JumpError(Exception):
    """A value is next to a threshold."""


class Variable:
    """A stand-in for `ef.Variable`."""

    __array_ufunc__ = None  # NumPy leaves arithmetic to this class

    def __init__(self, variable: Any) -> None:
        self.value: Any = variable.numpy().copy()

    def __mul__(self, other: Any) -> Any:
        return self.value * other

    __rmul__ = __mul__

    def assign(self, value: Any) -> None:
        self.value = value

    def assign_add(self, value: Any) -> None:
        self.value = self.value + value

    def assign_sub(self, value: Any) -> None:
        self.value = self.value - value


class Array:
    """A stand-in for `ef.TensorArray`."""

    def __init__(self, size: int, like: Any) -> None:
        self.rows = [np.zeros_like(like)] * size

    def write(self, i: int, row: Any) -> Array:
        self.rows = [*self.rows[:i], row, *self.rows[i + 1 :]]
        return self

    def read(self, i: int) -> Any:
        return self.rows[i]

    def stack(self) -> Any:
        return np.stack(self.rows)


class Draws:
    """A stand-in for a generator, or for `ef.random`."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return lambda shape, dtype: getattr(self.source, name)(shape, dtype="float64").numpy()


def _over(x: Any, limit: Any) -> bool:
    if abs(x - limit) < SAFE:
        raise JumpError
    return bool(x > limit)


def _scan(step: Any, carry: Any, rows: Any, reverse: bool) -> Any:
    outputs = []
    for row in rows[::-1] if reverse else rows:
        carry, y = step(carry, row)
        outputs.append(y)
    return carry, np.stack(outputs[::-1] if reverse else outputs)


class Namespace(SimpleNamespace):
    """A stand-in for `ef`: its own attributes, and else NumPy's functions of the same names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


PLAIN = Namespace(
    concat=np.concatenate, cumulative_sum=np.cumsum, TensorArray=Array, scan=_scan,
    remat=lambda f: f, map=lambda f, rows: np.stack([f(row) for row in rows]),
    random=Draws(ef.random),
)  # fmt: skip
_NAMES = {"ef": PLAIN, "over": _over, "move": lambda x, device: x,
          "rule": lambda x: np.sin(x) * 0.9}  # fmt: skip


def plain(program: Program, tensors: Any, numbers: Any) -> list[Any]:
    """The floating results of a program that starts at the first state, and its variables after."""
    state = State.fresh("float64")
    state.reset()
    state.variables = [Variable(v) for v in state.variables]
    state.generator, state.weight = Draws(state.generator), state.weight.numpy()
    state.dtype = np.float64
    y, (z, flags, s) = tensors["rest"]
    arrays = {"x": np.asarray(tensors["x"]), "rest": (
        np.asarray(y), [np.asarray(z), np.asarray(flags), np.float64(s)])}  # fmt: skip
    # both spellings do the same; this one needs no functions of `ef`
    results = Program(program.body, python=True).function(**_NAMES)(state, arrays, numbers)
    return [*results["all"][0], *[v.value for v in state.variables]]
