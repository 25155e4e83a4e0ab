"""Random programs as data: statements over values, numbers and state, and their lines of source.

A statement is a name of `STATEMENTS`, three small integers, which choose among the values at hand
(modulo their number), and its blocks. So every list of statements is a program, and shrinks to a
shorter one. Each value has a *kind*, the names of its axes, by which statements make operands fit,
and a device; sizes differ from call to call. The first three values, of different kinds, are
*carried*: branches and loops change them, and all other values of a block end with the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from itertools import count, dropwhile, islice
from typing import Any, NamedTuple

import eagerflow as ef
from tests.programs.source import function_of, indented

__all__ = ["FIXED", "Named", "Program", "State", "Statement", "Trait", "Writer", "keeps_to_top",
           "kinds", "rule", "statement", "true_rule"]  # fmt: skip

Kind = tuple[str, ...]
Statement = tuple[Any, ...]

#: the size of the axis ``k``, which variables have
FIXED = 3


class Trait(Flag):
    """The properties of a kind of statement."""

    NONE = 0
    PURE = auto()  #: without effects, so it may stand in a function that is differentiated
    SMOOTH = auto()  #: with derivatives of all orders, and bounded
    NUMPY = auto()  #: computed alike by NumPy, see `tests.programs.plain`
    HOME = auto()  #: on the first device, where state is
    TOP = auto()  #: not in blocks, where it would be refused
    PYTHON = auto()  #: a statement of Python that no function of `ef` stands for


class Entry(NamedTuple):
    """A kind of statement: its writer, number of blocks, and traits."""

    write: Callable[..., None]
    blocks: int
    traits: Trait


STATEMENTS: dict[str, Entry] = {}


def statement(traits: Trait = Trait.NONE, blocks: int = 0) -> Any:
    """Register a kind of statement, by the name of the function that writes it."""

    def enter(write: Callable[..., None]) -> Callable[..., None]:
        STATEMENTS[write.__name__.strip("_")] = Entry(write, blocks, traits)
        return write

    return enter


def kinds(body: Sequence[Any]) -> Iterator[str]:
    """The kinds of all statements, including statements in blocks."""
    for kind, _, _, _, *blocks in body:
        yield kind
        for block in blocks:
            yield from kinds(block)


def keeps_to_top(body: Sequence[Any]) -> bool:
    """Whether no statement for `Trait.TOP` alone follows a return that a branch may have taken.

    What stands after such a return is itself a branch, of the graph if the condition is a tensor.
    """
    rest = islice(dropwhile(lambda statement: "return" not in kinds([statement]), body), 1, None)
    return not any(Trait.TOP in STATEMENTS[kind].traits for kind, *_ in rest)


_FIRST = (1.5, [0.5, -1.0, 2.0])


@dataclass
class State:
    """The state outside of a program that it reads and changes."""

    dtype: Any
    variables: list[Any]
    generator: Any
    weight: Any
    rate: float = 0.5
    count: int = 2
    log: list[Any] = field(default_factory=list)

    @staticmethod
    def fresh(dtype: str = "float32") -> State:
        first = [ef.Variable(ef.tensor(x, dtype=dtype)) for x in _FIRST]
        return State(getattr(ef, dtype), [*first, ef.Variable([1, 2, 3])],
                     ef.random.Generator(3), ef.zeros(FIXED, dtype=dtype))  # fmt: skip

    def reset(self) -> None:
        """Reset the same objects to their first values, so that traces of them hold again."""
        for variable, value in zip(self.variables, _FIRST, strict=False):
            variable.assign(ef.tensor(value, dtype=self.dtype))
        self.generator.state = {"seed": 3, "ticket": 0}
        self.weight[...] = ef.tensor([2.0, 0.0, -1.0], dtype=self.dtype)
        self.rate, self.count = 0.5, 2
        self.log.clear()
        ef.random.seed(1)


class Named(NamedTuple):
    """A value of a program: its name, kind and device."""

    name: str
    kind: Kind
    floating: bool = True
    device: int = 0


class Writer:
    """The lines of a block so far, and the names of its values and numbers.

    Attributes:
        here: the device of the statement that is written.
        i: the expression for the number of the iteration.
        python: whether branches and loops are Python's.
        loop: whether a loop of Python is around it in its function.
        result: the expression that its function returns.
    """

    def __init__(self, values: Sequence[Named], numbers: Sequence[str], python: bool) -> None:
        self.values = list(values)
        self.numbers = list(numbers)
        self.python = python
        self.lines: list[str] = []
        self.here, self.i, self.loop, self.result = 0, "1", False, ""
        self.lists = ["kept"]  # the lists of the function
        self._count = count(1)

    @property
    def carried(self) -> list[Named]:
        return self.values[:3]

    @property
    def names(self) -> str:
        """The carried values, as a tuple."""
        return ", ".join(v.name for v in self.carried)

    def inner(self, **changed: Any) -> Writer:
        """A writer for a block, with some attributes changed."""
        writer = Writer(self.values, self.numbers, self.python)
        vars(writer).update(i=self.i, loop=self.loop, result=self.result,
                            lists=self.lists, _count=self._count)  # fmt: skip
        vars(writer).update(changed)
        return writer

    def block(self, body: Sequence[Statement], **changed: Any) -> list[str]:
        """The lines of a block, whose last new value goes into a carried value."""
        w = self.inner(**changed)
        before = len(w.values)
        w.write(body)
        if len(w.values) > before:
            STATEMENTS["set"].write(w, len(w.values), len(w.values) - 1, 2)
        return w.lines or ["pass"]

    def function(self, name: str, body: Sequence[Statement], *, first: Sequence[str] = (),
                 parameters: str = "{}", result: str = "{}", values: Sequence[Named] = (),
                 **changed: Any) -> None:  # fmt: skip
        """Define a function with a block; ``{}`` stands for the carried values in it."""
        inner = self.inner(values=[*(values or self.carried), *self.values[3:]], **changed)
        given, result = parameters.format(inner.names), result.format(inner.names)
        lines = inner.block(body, result=result, loop=False, lists=[])
        self.lines += [f"def {name}({given}):", *indented([*first, *lines, f"return {result}"])]

    def write(self, body: Sequence[Statement]) -> None:
        for kind, a, b, c, *blocks in body:
            entry = STATEMENTS[kind]
            self.here = 0 if Trait.HOME in entry.traits else self.any(a).device
            entry.write(self, a, b, c, *blocks)

    def fresh(self, prefix: str = "v") -> str:
        return f"{prefix}{next(self._count)}"

    def set(self, expression: str) -> str:
        """The name of a new variable that holds the value of an expression."""
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        return name

    def add(self, kind: Kind, expression: str, floating: bool = True) -> None:
        self.values.append(Named(self.set(expression), kind, floating, self.here))

    # --- operands ---

    def any(self, i: int) -> Named:
        return self.values[i % len(self.values)]

    def brought(self, value: Named, floating: bool = True) -> str:
        """A value on the device of the statement, in a floating dtype."""
        x = value.name
        if value.device != self.here:
            x = self.set(f"move({x}, {self.here})")
        return x if value.floating or not floating else self.set(f"{x}.astype(ef.float32)")

    def real(self, i: int) -> tuple[Kind, str]:
        return self.any(i).kind, self.brought(self.any(i))

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
        return (), f"{x}.sum()", f"{y}.sum()"

    def of(self, choices: Sequence[str], i: int, *operands: str) -> str:
        """One of the expressions ``choices``, with its operands."""
        return choices[i % len(choices)].format(*operands, i=self.i)


@ef.custom_vjp
def rule(x: Any) -> Any:
    return ef.sin(x) * 0.9


# not the derivative, so that ignoring the rule would be noticed
rule.defvjp(lambda x: (ef.sin(x) * 0.9, x), lambda x, g: (0.3 * g * ef.cos(x),))


@ef.custom_vjp
def true_rule(x: Any) -> Any:
    """What has a second derivative, the same in all ways to compute it."""
    return ef.sin(x) * 0.9


true_rule.defvjp(lambda x: (ef.sin(x) * 0.9, x), lambda x, g: (0.9 * g * ef.cos(x),))

#: the globals of programs
NAMES: dict[str, Any] = {
    "ef": ef, "rule": rule, "over": lambda x, limit: x > limit,
    "move": lambda x, device: x.to(f"cpu:{device}"),
}  # fmt: skip
_HEAD = (
    'a, (b, (z, flags, c)) = tensors["x"], tensors["rest"]',
    "weight, rate, count = state.weight, state.rate, state.count",
    'number, more = numbers["rate"], numbers["more"][0]',
    "c = move(c, 1)",
    "kept = [b * 2.0]",
)
_VALUES = (
    Named("a", ("n", "m")), Named("b", ("n",)), Named("c", (), device=1),
    Named("z", ("n",), floating=False), Named("flags", ("n", "m"), floating=False),
    Named("weight", ("k",)),
)  # fmt: skip
_NUMBERS = ("number", "more", "rate", "count")


@dataclass(frozen=True)
class Program:
    """Statements, and whether their branches and loops are Python's or functions of `ef`.

    As a function it takes a state, ``{"x", "rest": (y, [z, flags, s])}`` and numbers. What it
    carries and makes is the result, except for values that an early return may have skipped.
    """

    body: list[Statement]
    python: bool = False

    def lines(self) -> list[str]:
        w = Writer(_VALUES, _NUMBERS, self.python)
        returns = "return" in kinds(self.body)
        w.result = result = f'{{"last": c, "all": ([{w.names}], {{}})}}'
        w.write(self.body)
        if not returns:
            made = ", ".join([w.names, *[v.name for v in w.values[len(_VALUES) :]]])
            extra = f'{{"numbers": [{", ".join(w.numbers[2:])}], "kept": sum(kept, b * 0.0)}}'
            result = f'{{"last": c, "all": ([{made}], {extra})}}'
        return ["def program(state, tensors, numbers):",
                *indented([*_HEAD, *w.lines, f"return {result}"])]  # fmt: skip

    def function(self, **names: Any) -> Callable[..., Any]:
        """The program as a function.

        Args:
            names: globals in the place of those of `NAMES`.
        """
        return function_of(self.lines(), {**NAMES, **names})

    def kinds(self) -> set[str]:
        return {*kinds(self.body)}

    def all(self, traits: Trait) -> bool:
        """Whether all statements have some traits."""
        return all(traits in STATEMENTS[kind].traits for kind in self.kinds())
