"""Branches and loops in each other, over three vectors, a variable and a generator.

A program is a list of statements, each a tuple. It is spelled in two ways: with Python's own
``if``, ``while`` and ``for``, or with the functions of `ef`. The first spelling runs on NumPy as
well, where `PLAIN` stands for `ef`: that is what the others are compared with.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from tests.programs.arrays import PURE, STATEMENTS, Named, Writer
from tests.programs.source import function_of, indented

__all__ = ["NAMES", "PROGRAMS", "G", "JumpError", "V", "kinds", "lines_of", "plain", "program",
           "random_program", "reset"]  # fmt: skip

Block = list[Any]
Names = tuple[str, str, str]

#: expressions of two values and the number of the iteration; bounded, so that loops stay finite:
#: none lets values grow, as slopes of what explodes cannot be checked by differences
OPS = {
    "sin": "sin({a} + {b})",
    "mul": "ef.tanh({a}) * {b}",
    "scale": "{a} * 0.9 + 0.1 * ({i} + 1)",
    "sub": "0.6 * {a} - 0.4 * {b}",
    "tanh": "ef.tanh({a}) + {b} * 0.1",
}
#: where a value is as near to a threshold, numeric derivatives jump
SAFE = 1e-3
#: statements on arrays that are smooth, and that NumPy's functions do alike
SMOOTH = sorted({*PURE} & {"joined", "reshaped", "slices", "reduce_all", "transpose"})

V = ef.Variable(ef.zeros(2, dtype=ef.float64))
G = ef.random.Generator(3)


@ef.custom_vjp
def rule(x: Any) -> Any:
    return ef.sin(x) * 0.9


# it is not the derivative: to be ignored would be seen
rule.defvjp(lambda x: (ef.sin(x) * 0.9, x), lambda x, g: (0.3 * g * ef.cos(x),))


def over(x: Any, limit: Any) -> Any:
    return x > limit


#: the globals of programs
NAMES: dict[str, Any] = {"ef": ef, "V": V, "G": G, "rule": rule, "over": over, "sin": ef.sin}


def reset() -> None:
    """The state that programs start from."""
    V.assign(ef.tensor([0.3, -0.2], dtype=ef.float64))
    G.state = {"seed": 3, "ticket": 0}


def kinds(body: Any) -> Iterator[str]:
    """The kinds of all statements."""
    for item in body:
        if isinstance(item, tuple) and isinstance(item[0], str):
            yield item[0]
            yield from kinds(item[1:])
        elif isinstance(item, list):
            yield from kinds(item)


# --- making -------------------------------------------------------------------------------------

_NAME = st.integers(0, 2)
_SIMPLE = st.one_of(
    st.tuples(st.just("op"), st.sampled_from(sorted(OPS)), _NAME, _NAME, _NAME),
    st.tuples(st.just("op"), st.sampled_from(sorted(OPS)), _NAME, _NAME, _NAME),
    st.tuples(st.sampled_from(["write", "read", "draw", "rule", "outer"]), _NAME),
    st.tuples(st.just("arrays"), _NAME, st.sampled_from(SMOOTH), st.integers(0, 5)),
)


def _blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _SIMPLE,
        st.tuples(st.just("if"), _NAME, st.sampled_from([-0.5, 0.0, 0.5]), block, block),
        st.tuples(st.just("by iteration"), st.integers(2, 3), block, block),
        st.tuples(st.just("one of"), block, block, block),
        st.tuples(st.just("while"), _NAME, st.integers(0, 4), block, st.booleans()),
        st.tuples(st.just("scan"), st.booleans(), block),
        st.tuples(st.just("map"), block),
        st.tuples(st.just("list"), _NAME, st.integers(0, 3), block),
        st.tuples(st.just("remat"), block),
    )


PROGRAMS = st.lists(st.recursive(_SIMPLE, _blocks, max_leaves=7), min_size=1, max_size=4)


def random_program(seed: int, effects: bool = True) -> Block:
    """A program for tests that take seeds."""
    source = random.Random(seed)
    simple = ["op", "op", "outer", *(("write", "read", "draw") if effects else ())]
    nested = ["if", "if", "one of", "while", "while", "scan", "list"]

    def block(depth: int) -> Block:
        return [statement(depth) for _ in range(source.randint(1, 4 - depth))]

    def statement(depth: int) -> Any:
        kind = source.choice(simple + nested * (depth < 3))
        name = source.randrange(3)
        match kind:
            case "op":
                return kind, source.choice(sorted(OPS)), name, source.randrange(3), name
            case "if":
                limit = source.choice([-0.5, 0.0, 0.5])
                return kind, name, limit, block(depth + 1), block(depth + 1)
            case "one of":
                return kind, block(depth + 1), block(3), block(3)
            case "while":
                return kind, name, source.randrange(5), block(depth + 1), source.random() < 0.5
            case "scan":
                return kind, source.random() < 0.5, block(depth + 1)
            case "list":
                return kind, name, source.randrange(4), block(depth + 1)
        return kind, name

    return block(0)


# --- spelling -----------------------------------------------------------------------------------


class Speller:
    """Makes lines of statements.

    Args:
        python: whether branches and loops are Python's.
    """

    def __init__(self, python: bool) -> None:
        self.python = python
        self._count = 0

    def block(self, body: Block, x: Names, i: str) -> list[str]:
        """The lines of statements that set the names ``x``, in the iteration ``i``."""
        lines: list[str] = []
        for kind, *rest in body:
            self._count += 1
            spell = getattr(self, kind.replace(" ", "_") + "_")
            lines += spell(str(self._count), x, i, *rest)
        return lines

    def function(self, name: str, given: str, body: list[str], result: str) -> list[str]:
        return [f"def {name}({given}):", *indented([*body, f"return {result}"])]

    def of_block(self, name: str, body: Block, x: Names, i: str) -> list[str]:
        """A function of all values that gives all."""
        return self.function(name, ", ".join(x), self.block(body, x, i), ", ".join(x))

    # --- without blocks ---

    def op_(self, n: str, x: Names, i: str, name: str, a: int, b: int, to: int) -> list[str]:
        return [f"{x[to]} = {OPS[name].format(a=x[a], b=x[b], i=i)}"]

    def arrays_(self, n: str, x: Names, i: str, a: int, name: str, b: int) -> list[str]:
        """A statement of `tests.programs.arrays`, made bounded and a vector again."""
        writer = Writer([Named(x[a], ("k",))], ["0.5"], f"v{n}_")
        STATEMENTS[name](writer, 0, b, b)
        return [*writer.lines, f"{x[a]} = ef.tanh({x[a]} * 0.5 + {writer.values[-1].name}.sum())"]

    def outer_(self, n: str, x: Names, i: str, a: int) -> list[str]:
        """It takes the argument of the program, which is outside of all branches and loops."""
        return [f"{x[a]} = ef.tanh({x[a]} * 0.75 + x[{a}])"]

    def write_(self, n: str, x: Names, i: str, a: int) -> list[str]:
        return [f"V.assign(V * 0.5 + {x[a]})"]

    def read_(self, n: str, x: Names, i: str, a: int) -> list[str]:
        return [f"{x[a]} = ef.tanh({x[a]} + V)"]

    def draw_(self, n: str, x: Names, i: str, a: int) -> list[str]:
        return [f"{x[a]} = {x[a]} * 0.9 + G.uniform((2,), dtype=ef.float64) * 0.1"]

    def rule_(self, n: str, x: Names, i: str, a: int) -> list[str]:
        return [f"{x[a]} = rule({x[a]})"]

    # --- branches ---

    def if_(
        self, n: str, x: Names, i: str, place: int, limit: float, yes: Block, no: Block
    ) -> list[str]:
        test = f"over({x[place]}.sum(), {limit})"
        if self.python:
            return self._if([(test, yes)], no, x, i)
        return [
            *self.of_block(f"yes{n}", yes, x, i),
            *self.of_block(f"no{n}", no, x, i),
            f"now{n} = {', '.join(x)}",
            f"{', '.join(x)} = ef.cond({test}, lambda: yes{n}(*now{n}), lambda: no{n}(*now{n}))",
        ]

    def by_iteration_(
        self, n: str, x: Names, i: str, every: int, yes: Block, no: Block
    ) -> list[str]:
        test = f"{i} % {every} == 0"
        if self.python:
            return self._if([(test, yes)], no, x, i)
        return [
            *self.of_block(f"yes{n}", yes, x, i),
            *self.of_block(f"no{n}", no, x, i),
            f"{', '.join(x)} = ef.cond({test}, yes{n}, no{n}, {', '.join(x)})",
        ]

    def one_of_(self, n: str, x: Names, i: str, *blocks: Block) -> list[str]:
        if self.python:
            tests = [(f"{i} % 3 == {k}", block) for k, block in enumerate(blocks[:2])]
            return self._if(tests, blocks[2], x, i)
        lines = [
            line for k, block in enumerate(blocks)
            for line in self.of_block(f"case{n}_{k}", block, x, i)
        ]  # fmt: skip
        cases = ", ".join(f"case{n}_{k}" for k in range(3))
        return [*lines, f"{', '.join(x)} = ef.switch({i} % 3, [{cases}], {', '.join(x)})"]

    def _if(
        self, tests: Sequence[tuple[str, Block]], otherwise: Block, x: Names, i: str
    ) -> list[str]:
        lines = []
        for k, (test, block) in enumerate(tests):
            lines += [f"{'elif' if k else 'if'} {test}:", *indented(self.block(block, x, i))]
        return [*lines, "else:", *indented(self.block(otherwise, x, i))]

    # --- loops ---

    def while_(
        self, n: str, x: Names, i: str, place: int, most: int, body: Block, bounded: bool
    ) -> list[str]:
        j, everything = f"i{n}", ", ".join(x)
        test = f"over(ef.abs({x[place]}).sum(), 0.1)"
        if self.python:
            return [
                f"{j} = 0",
                f"while {j} < {most} and {test}:",
                *indented([*self.block(body, x, j), f"{j} += 1"]),
            ]
        if bounded:
            goes_on, how = test, f"max_iterations={most}, recompute=True"
        else:
            goes_on = f"ef.cond({j} < {most}, lambda: {test}, lambda: ef.tensor(False))"
            how = f"parallel_iterations={(10, 1, 2)[most % 3]}"
        return [
            *self.function(f"test{n}", f"{j}, {everything}", [], goes_on),
            *self.function(
                f"body{n}", f"{j}, {everything}", self.block(body, x, j), f"{j} + 1, {everything}"
            ),
            f"_, {everything} = ef.while_loop(test{n}, body{n}, (0, {everything}), {how})",
        ]

    def scan_(self, n: str, x: Names, i: str, backwards: bool, body: Block) -> list[str]:
        a, b, c = x
        row = f"row{n}"
        lines = [
            f"{a}, {b} = carry",
            f"{row} = {row} * ef.ones(2, dtype=ef.float64)",
            *self.block(body, (a, b, row), "1"),
        ]
        return [
            *self.function(f"step{n}", f"carry, {row}", lines, f"({a}, {b}), {row}.sum()"),
            f"({a}, {b}), {c} = ef.scan(step{n}, ({a}, {b}), {c}, reverse={backwards})",
        ]

    def map_(self, n: str, x: Names, i: str, body: Block) -> list[str]:
        row, first, second = f"row{n}", f"first{n}", f"second{n}"
        lines = [
            f"{first}, {second} = {x[0]}, {x[1]}",
            f"{row} = {row} * ef.ones(2, dtype=ef.float64)",
            *self.block(body, (first, second, row), i),
        ]
        return [
            *self.function(f"each{n}", row, lines, f"{row}.sum()"),
            f"{x[2]} = ef.map(each{n}, {x[2]})",
        ]

    def list_(
        self, n: str, x: Names, i: str, place: int, iterations: int, body: Block
    ) -> list[str]:
        j, array, everything = f"i{n}", f"array{n}", ", ".join(x)
        written = f"{array}.write({j} % 2, {array}.read({j} % 2) * 0.5 + {x[place]})"
        start = f"{array} = ef.TensorArray(2, {x[place]}).write(0, {x[place]})"
        end = f"{x[place]} = {array}.stack()[0] + {array}.read(1) * 0.3"
        inner = self.block(body, x, j)
        if self.python:
            loop = [f"for {j} in range({iterations}):", *indented([*inner, f"{array} = {written}"])]
            return [start, *loop, end]
        given = f"{j}, {array}, {everything}"
        return [
            *self.function(f"body{n}", given, inner, f"{j} + 1, {written}, {everything}"),
            start,
            f"_, {array}, {everything} = ef.while_loop("
            f"lambda {j}, *_: {j} < {iterations}, body{n}, (0, {array}, {everything}))",
            end,
        ]

    def remat_(self, n: str, x: Names, i: str, body: Block) -> list[str]:
        everything = ", ".join(x)
        return [
            *self.of_block(f"part{n}", body, x, i),
            f"{everything} = ef.remat(part{n})({everything})",
        ]


def lines_of(body: Block, python: bool = False) -> list[str]:
    """A function of the rows of an array, which gives a number."""
    return [
        "def program(x):",
        "    a, b, c = x[0], x[1], x[2]",
        *indented(Speller(python).block(body, ("a", "b", "c"), "1")),
        "    return (a * b).sum() + sin(c).sum()",
    ]


def program(
    body: Block, python: bool = False, names: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The function that a list of statements stands for.

    Args:
        body: the statements.
        python: whether branches and loops are Python's.
        names: globals in the place of `NAMES`.
    """
    return function_of(lines_of(body, python), {**NAMES, **(names or {})})


# --- on NumPy -----------------------------------------------------------------------------------


class JumpError(Exception):
    """A value is next to a threshold."""


class PlainVariable:
    """In the place of `V`."""

    __array_ufunc__ = None  # NumPy leaves sums with it to it

    def __init__(self) -> None:
        self.value: Any = V.numpy().copy()

    def assign(self, value: Any) -> None:
        self.value = value

    def __mul__(self, other: Any) -> Any:
        return self.value * other

    def __radd__(self, other: Any) -> Any:
        return other + self.value


class PlainArray:
    """In the place of `ef.TensorArray`."""

    def __init__(self, size: int, like: Any) -> None:
        self.rows = [np.zeros_like(like)] * size

    def write(self, i: int, row: Any) -> PlainArray:
        self.rows = [*self.rows[:i], row, *self.rows[i + 1 :]]
        return self

    def read(self, i: int) -> Any:
        return self.rows[i]

    def stack(self) -> Any:
        return np.stack(self.rows)


def _plain_over(x: Any, limit: float) -> bool:
    if abs(x - limit) < SAFE:
        raise JumpError
    return bool(x > limit)


def _plain_scan(step: Any, carry: Any, rows: Any, reverse: bool) -> Any:
    found = []
    for row in rows[::-1] if reverse else rows:
        carry, y = step(carry, row)
        found.append(y)
    return carry, np.stack(found[::-1] if reverse else found)


PLAIN = SimpleNamespace(
    abs=np.abs, tanh=np.tanh, ones=lambda size, dtype: np.ones(size), stack=np.stack,
    concat=np.concatenate, float64=ef.float64, TensorArray=PlainArray, scan=_plain_scan,
    remat=lambda f: f,
    map=lambda f, rows: np.stack([f(row) for row in rows]),
)  # fmt: skip


def plain(body: Block, start: np.ndarray[Any, Any]) -> float:
    """What a program gives on NumPy, from the first state on."""
    reset()
    draws = SimpleNamespace(
        uniform=lambda *args, **kwargs: G.uniform((2,), dtype=ef.float64).numpy()
    )
    names = {"ef": PLAIN, "V": PlainVariable(), "G": draws, "over": _plain_over, "sin": np.sin,
             "rule": lambda x: np.sin(x) * 0.9}  # fmt: skip
    return float(program(body, python=True, names=names)(start))
