"""Random programs: lists of statements that one interpreter runs, eagerly or under a trace.

A statement is a name of `STATEMENTS` and three small integers, which choose among the values at
hand (modulo their number), so that every list is a program and shrinks to a shorter one. Each
value comes with its *kind*, the names of its axes, by which statements make operands fit; sizes
differ from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef

# mypy: disable-error-code="no-untyped-def"

Kind = tuple[str, ...]
Statement = tuple[Any, ...]

#: the size of the axis ``k``, which variables have
FIXED = 3
SIZES = st.sampled_from([0, 1, 2, 3, 5])
NUMBERS = st.sampled_from([0.0, -0.0, 0.5, -1.25, 3.0, 1e-3, 1e30])
INTS = st.sampled_from([0, 1, 2, 3, -2, 40])


@dataclass
class State:
    """What a program reads and changes outside."""

    variables: list[ef.Variable]
    generator: ef.random.Generator
    weight: ef.Tensor
    rate: float = 0.5
    count: int = 2
    log: list[Any] = field(default_factory=list)

    @staticmethod
    def fresh() -> State:
        return State(
            [ef.Variable(1.5), ef.Variable([0.5, -1.0, 2.0]), ef.Variable([1, 2, 3])],
            ef.random.Generator(3),
            ef.tensor([2.0, 0.0, -1.0]),
        )


class Machine:
    """The values of a program so far."""

    def __init__(self, state: State, numbers: Sequence[Any]) -> None:
        self.state = state
        self.numbers: list[Any] = [*numbers, state.rate, state.count]
        self.values: list[tuple[Kind, Any]] = []

    def add(self, kind: Kind, x: Any) -> None:
        self.values.append((kind, x))

    def any(self, i: int) -> tuple[Kind, Any]:
        return self.values[i % len(self.values)]

    def real(self, i: int) -> tuple[Kind, Any]:
        """A floating value; in the place of another one, that one converted."""
        kind, x = self.any(i)
        return kind, x if x.dtype.is_floating else x.astype(ef.float32)

    def vector(self, i: int) -> tuple[Kind, Any]:
        """A floating value with at least one axis."""
        kind, x = self.real(i)
        return (kind, x) if kind else (("one",), x.reshape((1,)))

    def number(self, i: int) -> Any:
        return self.numbers[i % len(self.numbers)]

    def pair(self, i: int, j: int) -> tuple[Kind, Any, Any]:
        """Two floating values with axes that broadcast."""
        a, x = self.real(i)
        b, y = self.real(j)
        if a == b or not a or not b:
            return a or b, x, y
        if len(a) == 2 and a[1:] == b:
            return a, x, y
        if len(a) == 2 and a[:1] == b:
            return a, x, y[:, None]
        if len(a) == len(b) == 1:
            return a + b, x[:, None], y
        return (), x.sum(), y.mean()


STATEMENTS: dict[str, Callable[[Machine, int, int, int], None]] = {}
#: those without effects, which have derivatives
PURE: list[str] = []


def statement(function: Callable[[Machine, int, int, int], None]) -> Any:
    STATEMENTS[function.__name__] = function
    return function


def pure(function: Callable[[Machine, int, int, int], None]) -> Any:
    PURE.append(function.__name__)
    return statement(function)


UNARY = (ef.negative, ef.exp, ef.tanh, ef.sin, ef.square, ef.abs, ef.stop_gradient, ef.floor)
BINARY = (ef.add, ef.subtract, ef.multiply, ef.divide, ef.maximum, ef.minimum)


@pure
def unary(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.real(a)
    m.add(kind, UNARY[b % len(UNARY)](x))


@pure
def binary(m: Machine, a: int, b: int, c: int) -> None:
    kind, x, y = m.pair(a, b)
    m.add(kind, BINARY[c % len(BINARY)](x, y))


@pure
def with_number(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.real(a)
    k = m.number(b)
    m.add(
        kind, [x * k, k - x, x + k, k / (x + 2.5), ef.maximum(x, k), ef.where(x > k, x, k)][c % 6]
    )


@statement
def number_arithmetic(m: Machine, a: int, b: int, c: int) -> None:
    p, q = m.number(a), m.number(b)
    m.numbers.append([p + q, p * q, p - q, -p, abs(q), p * 0.5 + 1][c % 6])


@statement
def number_of_a_size(m: Machine, a: int, b: int, c: int) -> None:
    n = m.vector(a)[1].shape[0]
    m.numbers.append([n, n + 1, n * n, n // 2, n * 0.5, n - 1][b % 6])


@statement
def decide_by_a_number(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.real(a)
    m.add(kind, x * 2 if m.number(b) > 0.75 else x + 1)


@pure
def reduce_axis(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    axis = b % len(kind)
    rest = kind[:axis] + kind[axis + 1 :]
    m.add(rest, (ef.sum(x, axis=axis), ef.mean(x, axis=axis), ef.prod(x, axis=axis))[c % 3])


@pure
def reduce_all(m: Machine, a: int, b: int, c: int) -> None:
    _, x = m.real(a)
    m.add((), [x.sum(), x.mean(), (x * x).sum()][b % 3])


@pure
def scan(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    m.add(kind, [ef.cumulative_sum(x, axis=0), ef.flip(x, axis=0), ef.sort(x, axis=0)][b % 3])


@pure
def transpose(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    m.add(kind[::-1], x.T if len(kind) == 2 else x * 1)


@pure
def multiply_matrices(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    if len(kind) == 2:
        m.add((kind[0], kind[0]), x @ x.T)
    else:
        m.add((), x @ x)


@pure
def slices(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    part = [x[1:], x[:-1], x[::2], x[-1:], x[: x.shape[0] // 2], x[x.shape[0] // 2 :]][b % 6]
    m.add(kind[1:], part.sum(axis=0))


@pure
def reshaped(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    flat = x.reshape((x.size,))
    m.add(kind, (flat * flat.shape[0]).reshape(x.shape))


@pure
def joined(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    both = ef.concat([x, x * 2])
    m.add(kind, both[x.shape[0] :] + ef.stack([x, x])[0])


@pure
def choose(m: Machine, a: int, b: int, c: int) -> None:
    kind, x, y = m.pair(a, b)
    m.add(kind, ef.where(x > y, x, y * 2))


@statement
def masked(m: Machine, a: int, b: int, c: int) -> None:
    _, x = m.vector(a)
    found = x[x > 0]
    m.add((), [found.sum(), found.sum() * found.shape[0], ef.cumulative_sum(found).sum()][b % 3])


@statement
def gathered(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    indices = ef.flip(ef.arange(x.shape[0]), axis=0)
    m.add(kind, x[indices] if b % 2 else ef.take(x, indices, axis=0))


@statement
def other_dtypes(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.any(a)
    m.add(kind, x.astype((ef.float64, ef.float32, ef.int64, ef.bool)[b % 4]))


@statement
def compare(m: Machine, a: int, b: int, c: int) -> None:
    kind, x, y = m.pair(a, b)
    m.add(kind, (x < y, ef.isfinite(x), ef.logical_not(x >= y), ef.sign(x * y))[c % 4])


# --- updates in place -------------------------------------------------------------------------


@statement
def update(m: Machine, a: int, b: int, c: int) -> None:
    """On arguments and on intermediate results: a handle may be several values."""
    kind, x = m.any(a)
    value = m.number(b)
    if not x.dtype.is_floating:
        return
    if c % 4 == 0:
        x *= value
    elif c % 4 == 1 and kind:
        x[1:] = value
    elif c % 4 == 2 and kind:
        x[x > 0] += 1.0
    else:
        x[...] = x * 0.5 + value
    m.add(kind, x)


@statement
def update_the_captured(m: Machine, a: int, b: int, c: int) -> None:
    m.state.weight[a % FIXED] = m.real(b)[1].sum()
    m.add(("k",), m.state.weight)


# --- state --------------------------------------------------------------------------------------


@statement
def read_variable(m: Machine, a: int, b: int, c: int) -> None:
    v = m.state.variables[a % 3]
    m.add(() if a % 3 == 0 else ("k",), v.value if b % 2 else v * 1)


@statement
def assign(m: Machine, a: int, b: int, c: int) -> None:
    v = m.state.variables[a % 2]
    _, x = m.real(b)
    amount = ef.tanh(x.sum()).astype(ef.float32)
    if c % 3 == 0:
        v.assign(v * 0.5 + amount)
    elif c % 3 == 1:
        v.assign_add(v * amount)
    else:
        v.assign_sub(ef.ones_like(v) * amount)


@statement
def scatter(m: Machine, a: int, b: int, c: int) -> None:
    v = m.state.variables[1]
    change = v.scatter_add if c % 2 else v.scatter_update
    change(ef.tensor([a % FIXED, 0]), ef.stack([m.real(b)[1].sum().astype(ef.float32)] * 2))


@statement
def draw(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.real(a)
    source = m.state.generator if b % 2 else ef.random
    m.add(kind, (source.normal(x.shape), source.uniform(x.shape))[c % 2])


@statement
def shuffled(m: Machine, a: int, b: int, c: int) -> None:
    kind, x = m.vector(a)
    m.add(kind, ef.random.permutation(x))


@statement
def remember(m: Machine, a: int, b: int, c: int) -> None:
    m.state.log.append(m.any(a)[1])
    m.state.rate = m.state.rate + 0.25


# --- derivatives --------------------------------------------------------------------------------


def within(m: Machine, body: Sequence[Statement], kind: Kind, x: Any) -> Any:
    """The sum of what pure statements make of a value."""
    inner = Machine(m.state, m.numbers)
    inner.values = [*m.values, (kind, x)]
    last = len(inner.values) - 1
    for name, _, b, c in body:
        # the first operand comes from what the value became
        STATEMENTS[name](inner, last, b, c)
        last = len(inner.values) - 1
    return inner.values[-1][1].sum()


def gradient(m: Machine, how: int, a: int, body: Sequence[Statement]) -> None:
    kind, x = m.real(a)
    if how % 4 == 0:
        m.add(kind, ef.grad(lambda x: within(m, body, kind, x))(x))
    elif how % 4 == 1:
        with ef.GradientTape() as tape:
            tape.watch(x)
            y = within(m, body, kind, x)
        g = tape.gradient(y, x)
        m.add(kind, ef.zeros_like(x) if g is None else g)
    elif how % 4 == 2:
        y, dy = ef.jvp(lambda x: within(m, body, kind, x), (x,), (ef.ones_like(x),))
        m.add((), y)
        m.add((), dy)
    else:
        v = m.state.variables[1]
        y, g = ef.value_and_grad(lambda: within(m, body, ("k",), v * 2), wrt=v)()
        m.add((), y)
        m.add(("k",), g)


# --- whole programs -----------------------------------------------------------------------------


def execute(body: Sequence[Statement], state: State, tensors: Any, numbers: Any) -> Any:
    """Run a program on ``{"x", "rest": (y, [z, flags, s])}``; all its values are the result."""
    m = Machine(state, [numbers["rate"], *numbers["more"]])
    y, (z, flags, s) = tensors["rest"]
    m.add(("n", "m"), tensors["x"])
    m.add(("n",), y)
    m.add(("n",), z)
    m.add(("n", "m"), flags)
    m.add((), s)
    m.add(("k",), state.weight)
    for name, *operands in body:
        if name == "gradient":
            gradient(m, *operands)
        else:
            STATEMENTS[name](m, *operands)
    made = [x for _, x in m.values[6:]]
    return {"last": made[-1:], "all": (made, {"numbers": m.numbers[2:], "x": tensors["x"]})}


@dataclass(frozen=True)
class Call:
    """The arguments of one call, as numbers from which they are made."""

    n: int
    m: int
    rate: float
    count: int
    seed: int
    captured: float

    def arguments(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(self.seed)
        x = rng.choice([-1.5, 0.0, 0.25, 1.0, 2.0], (self.n, self.m)).astype(np.float32)
        y = rng.normal(size=self.n)
        z = rng.integers(-3, 4, self.n)
        flags = rng.integers(0, 2, (self.n, self.m)).astype(bool)
        tensors = {
            "x": ef.tensor(x),
            "rest": (ef.tensor(y), [ef.tensor(z), ef.tensor(flags), ef.tensor(0.5)]),
        }
        return tensors, {"rate": self.rate, "more": (self.count,)}


operand = st.integers(0, 11)
simple = st.tuples(st.sampled_from(sorted(STATEMENTS)), operand, operand, operand)
derivative = st.tuples(
    st.just("gradient"), st.integers(0, 3), operand,
    st.lists(st.tuples(st.sampled_from(PURE), operand, operand, operand), min_size=1, max_size=4),
)  # fmt: skip
programs = st.lists(st.one_of(simple, simple, simple, derivative), min_size=1, max_size=10)
calls = st.lists(
    st.builds(Call, SIZES, SIZES, NUMBERS, INTS, st.integers(0, 9), NUMBERS), min_size=3, max_size=3
)
