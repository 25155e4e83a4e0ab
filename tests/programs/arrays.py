"""Statements on arrays, numbers and state, as data and as lines of Python.

A statement is a name of `STATEMENTS` and three small integers, which choose among the values at
hand (modulo their number), so that every list is a program and shrinks to a shorter one. Each
value comes with its *kind*, the names of its axes, by which statements make operands fit; sizes
differ from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from tests.programs.source import function_of, indented

__all__ = ["Call", "State", "Statement", "calls", "lines_of", "program", "programs"]

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


class Named(NamedTuple):
    """A value of a program."""

    name: str
    kind: Kind
    floating: bool = True

    @property
    def real(self) -> str:
        """A floating value; in the place of another one, that one converted."""
        return self.name if self.floating else f"{self.name}.astype(ef.float32)"


class Writer:
    """The lines of a program so far, and the names of its values and numbers."""

    def __init__(self, values: Sequence[Named], numbers: Sequence[str], prefix: str = "v") -> None:
        self.values = list(values)
        self.numbers = list(numbers)
        self.prefix = prefix
        self.lines: list[str] = []
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"{self.prefix}{self._count}"

    def set(self, expression: str) -> str:
        """A name for what an expression gives."""
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        return name

    def add(self, kind: Kind, expression: str, floating: bool = True) -> None:
        self.values.append(Named(self.set(expression), kind, floating))

    def any(self, i: int) -> Named:
        return self.values[i % len(self.values)]

    def real(self, i: int) -> tuple[Kind, str]:
        value = self.any(i)
        return value.kind, value.name if value.floating else self.set(value.real)

    def vector(self, i: int) -> tuple[Kind, str]:
        """A floating value with at least one axis."""
        kind, x = self.real(i)
        return (kind, x) if kind else (("one",), self.set(f"{x}.reshape((1,))"))

    def number(self, i: int) -> str:
        return self.numbers[i % len(self.numbers)]

    def pair(self, i: int, j: int) -> tuple[Kind, str, str]:
        """Two floating values with axes that broadcast."""
        (a, x), (b, y) = self.real(i), self.real(j)
        if a == b or not a or not b:
            return a or b, x, y
        if len(a) == 2 and a[1:] == b:
            return a, x, y
        if len(a) == 2 and a[:1] == b:
            return a, x, f"{y}[:, None]"
        if len(a) == len(b) == 1:
            return a + b, f"{x}[:, None]", y
        return (), f"{x}.sum()", f"{y}.mean()"


STATEMENTS: dict[str, Callable[[Writer, int, int, int], None]] = {}
#: those without effects, which have derivatives
PURE: list[str] = []


def statement(function: Callable[[Writer, int, int, int], None]) -> Any:
    STATEMENTS[function.__name__] = function
    return function


def pure(function: Callable[[Writer, int, int, int], None]) -> Any:
    PURE.append(function.__name__)
    return statement(function)


def _of(choices: Sequence[str], i: int, *operands: str) -> str:
    return choices[i % len(choices)].format(*operands)


UNARY = ("negative", "exp", "tanh", "sin", "square", "abs", "stop_gradient", "floor")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@pure
def unary(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    w.add(kind, f"ef.{UNARY[b % len(UNARY)]}({x})")


@pure
def binary(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    w.add(kind, f"ef.{BINARY[c % len(BINARY)]}({x}, {y})")


@pure
def with_number(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    w.add(kind, _of(("{0} * {1}", "{1} - {0}", "{0} + {1}", "{1} / ({0} + 2.5)",
                     "ef.maximum({0}, {1})", "ef.where({0} > {1}, {0}, {1})"),
                    c, x, w.number(b)))  # fmt: skip


@statement
def number_arithmetic(w: Writer, a: int, b: int, c: int) -> None:
    choices = ("{0} + {1}", "{0} * {1}", "{0} - {1}", "-{0}", "abs({1})", "{0} * 0.5 + 1")
    w.numbers.append(w.set(_of(choices, c, w.number(a), w.number(b))))


@statement
def number_of_a_size(w: Writer, a: int, b: int, c: int) -> None:
    n = w.set(f"{w.vector(a)[1]}.shape[0]")
    choices = ("{0}", "{0} + 1", "{0} * {0}", "{0} // 2", "{0} * 0.5", "{0} - 1")
    w.numbers.append(w.set(_of(choices, b, n)))


@statement
def decide_by_a_number(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    w.add(kind, f"{x} * 2 if {w.number(b)} > 0.75 else {x} + 1")


@pure
def reduce_axis(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    axis = b % len(kind)
    rest = kind[:axis] + kind[axis + 1 :]
    w.add(rest, f"ef.{('sum', 'mean', 'prod')[c % 3]}({x}, axis={axis})")


@pure
def reduce_all(w: Writer, a: int, b: int, c: int) -> None:
    w.add((), _of(("{0}.sum()", "{0}.mean()", "({0} * {0}).sum()"), b, w.real(a)[1]))


@pure
def scan(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.{('cumulative_sum', 'flip', 'sort')[b % 3]}({x}, axis=0)")


@pure
def transpose(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind[::-1], f"{x}.T" if len(kind) == 2 else f"{x} * 1")


@pure
def multiply_matrices(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    if len(kind) == 2:
        w.add((kind[0], kind[0]), f"{x} @ {x}.T")
    else:
        w.add((), f"{x} @ {x}")


@pure
def slices(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    parts = ("1:", ":-1", "::2", "-1:", ": {0}.shape[0] // 2", "{0}.shape[0] // 2 :")
    w.add(kind[1:], f"{x}[{_of(parts, b, x)}].sum(axis=0)")


@pure
def reshaped(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    flat = w.set(f"{x}.reshape(({x}.size,))")
    w.add(kind, f"({flat} * {flat}.shape[0]).reshape({x}.shape)")


@pure
def joined(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.concat([{x}, {x} * 2])[{x}.shape[0] :] + ef.stack([{x}, {x}])[0]")


@pure
def choose(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    w.add(kind, f"ef.where({x} > {y}, {x}, {y} * 2)")


@statement
def masked(w: Writer, a: int, b: int, c: int) -> None:
    x = w.vector(a)[1]
    found = w.set(f"{x}[{x} > 0]")
    choices = ("{0}.sum()", "{0}.sum() * {0}.shape[0]", "ef.cumulative_sum({0}).sum()")
    w.add((), _of(choices, b, found))


@statement
def gathered(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    indices = w.set(f"ef.flip(ef.arange({x}.shape[0]), axis=0)")
    w.add(kind, f"{x}[{indices}]" if b % 2 else f"ef.take({x}, {indices}, axis=0)")


@statement
def other_dtypes(w: Writer, a: int, b: int, c: int) -> None:
    value = w.any(a)
    dtype = ("float64", "float32", "int64", "bool")[b % 4]
    w.add(value.kind, f"{value.name}.astype(ef.{dtype})", dtype.startswith("float"))


@statement
def compare(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    choices = ("{0} < {1}", "ef.isfinite({0})", "ef.logical_not({0} >= {1})", "ef.sign({0} * {1})")
    if c % 4 == 1 and x.endswith(".sum()"):
        kind = ()
    elif c % 4 == 1:  # of one operand alone
        kind = w.any(a).kind if not x.endswith("[:, None]") else (*w.any(a).kind, "one")
    w.add(kind, _of(choices, c, x, y), c % 4 == 3)


# --- updates in place -------------------------------------------------------------------------


@statement
def update(w: Writer, a: int, b: int, c: int) -> None:
    """On arguments and on intermediate results: a handle may be several values."""
    value, number = w.any(a), w.number(b)
    if not value.floating:
        return
    if c % 4 == 0:
        line = "{0} *= {1}"
    elif c % 4 == 1 and value.kind:
        line = "{0}[1:] = {1}"
    elif c % 4 == 2 and value.kind:
        line = "{0}[{0} > 0] += 1.0"
    else:
        line = "{0}[...] = {0} * 0.5 + {1}"
    w.lines.append(line.format(value.name, number))
    w.values.append(value)


@statement
def update_the_captured(w: Writer, a: int, b: int, c: int) -> None:
    w.lines.append(f"state.weight[{a % FIXED}] = {w.real(b)[1]}.sum()")
    w.add(("k",), "state.weight")


# --- state --------------------------------------------------------------------------------------


@statement
def read_variable(w: Writer, a: int, b: int, c: int) -> None:
    v = f"state.variables[{a % 3}]"
    w.add(() if a % 3 == 0 else ("k",), f"{v}.value" if b % 2 else f"{v} * 1", a % 3 != 2)


@statement
def assign(w: Writer, a: int, b: int, c: int) -> None:
    v = f"state.variables[{a % 2}]"
    amount = w.set(f"ef.tanh({w.real(b)[1]}.sum()).astype(ef.float32)")
    choices = ("{0}.assign({0} * 0.5 + {1})", "{0}.assign_add({0} * {1})",
               "{0}.assign_sub(ef.ones_like({0}) * {1})")  # fmt: skip
    w.lines.append(_of(choices, c, v, amount))


@statement
def scatter(w: Writer, a: int, b: int, c: int) -> None:
    change = "scatter_add" if c % 2 else "scatter_update"
    value = f"{w.real(b)[1]}.sum().astype(ef.float32)"
    indices = f"ef.tensor([{a % FIXED}, 0])"
    w.lines.append(f"state.variables[1].{change}({indices}, ef.stack([{value}] * 2))")


@statement
def draw(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    source = "state.generator" if b % 2 else "ef.random"
    w.add(kind, f"{source}.{('normal', 'uniform')[c % 2]}({x}.shape)")


@statement
def shuffled(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.random.permutation({x})")


@statement
def remember(w: Writer, a: int, b: int, c: int) -> None:
    w.lines += [f"state.log.append({w.any(a).name})", "state.rate = state.rate + 0.25"]


# --- derivatives --------------------------------------------------------------------------------


def _within(w: Writer, body: Sequence[Statement], x: Named) -> list[str]:
    """The lines that give the sum of what pure statements make of a value, as ``total``."""
    inner = Writer([*w.values, x], w.numbers, f"{w.fresh()}_")
    last = len(inner.values) - 1
    for name, _, b, c in body:
        # the first operand comes from what the value became
        STATEMENTS[name](inner, last, b, c)
        last = len(inner.values) - 1
    return [*inner.lines, f"total = {inner.values[-1].name}.sum()"]


def gradient(w: Writer, how: int, a: int, body: Sequence[Statement]) -> None:
    kind, x = w.real(a)
    f = w.fresh()
    if how % 4 == 1:
        lines = [f"tape.watch({x})", *_within(w, body, Named(x, kind))]
        w.lines += ["with ef.GradientTape() as tape:", *indented(lines),
                    f"slope = tape.gradient(total, {x})"]  # fmt: skip
        w.add(kind, f"ef.zeros_like({x}) if slope is None else slope")
        return
    v = "state.variables[1]"
    start, inner = ([f"x = {v} * 2"], ("k",)) if how % 4 == 3 else ([], kind)
    lines = [*start, *_within(w, body, Named("x", inner)), "return total"]
    w.lines += [f"def {f}({'' if start else 'x'}):", *indented(lines)]
    if how % 4 == 0:
        w.add(kind, f"ef.grad({f})({x})")
        return
    if how % 4 == 2:
        found, inner = w.set(f"ef.jvp({f}, ({x},), (ef.ones_like({x}),))"), ()
    else:
        found = w.set(f"ef.value_and_grad({f}, wrt={v})()")
    w.add((), f"{found}[0]")
    w.add(inner, f"{found}[1]")


# --- whole programs -----------------------------------------------------------------------------

_HEAD = (
    'x, (y, (z, flags, s)) = tensors["x"], tensors["rest"]',
    "weight, rate, count = state.weight, state.rate, state.count",
    'number, more = numbers["rate"], numbers["more"][0]',
)
_VALUES = (
    Named("x", ("n", "m")), Named("y", ("n",)), Named("z", ("n",), floating=False),
    Named("flags", ("n", "m"), floating=False), Named("s", ()), Named("weight", ("k",)),
)  # fmt: skip
_NUMBERS = ("number", "more", "rate", "count")


def lines_of(body: Sequence[Statement]) -> list[str]:
    """A function of a state, ``{"x", "rest": (y, [z, flags, s])}`` and numbers.

    All its values are the result.
    """
    w = Writer(_VALUES, _NUMBERS)
    for name, *operands in body:
        (gradient if name == "gradient" else STATEMENTS[name])(w, *operands)
    made = [value.name for value in w.values[len(_VALUES) :]]
    numbers = ", ".join(w.numbers[2:])
    return [
        "def program(state, tensors, numbers):",
        *indented([*_HEAD, *w.lines]),
        f"    made = [{', '.join(made)}]",
        f'    return {{"last": made[-1:], "all": (made, {{"numbers": [{numbers}], "x": x}})}}',
    ]


def program(body: Sequence[Statement]) -> Callable[..., Any]:
    """The function that a list of statements stands for."""
    return function_of(lines_of(body), {"ef": ef})


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
