"""Decisions of Python by numbers of a trace, kept as conditions of the trace.

``if step % 100 == 0`` needs a trace for each of the two answers, not for each step: the number
stays an input, and a trace serves all numbers for which its conditions hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.graph.number_ops import NUMBER_OPS

if TYPE_CHECKING:
    from eagerflow.graph.ir import Value
    from eagerflow.graph.number_ops import NumberOp
    from eagerflow.tracing.numbers import NumberRoot

#: maximum number of conditions on one number, which is static beyond it, as in a loop of Python
#: that counts with the number
MOST: Final = 16
#: maximum number of operators in one condition, likewise
_LONG: Final = 32
_BITS: Final = 64
#: conditions which say that two numbers differ
_UNEQUAL: Final = {
    (NUMBER_OPS["python_eq"].source.format("{0}", "{1}"), False),
    (NUMBER_OPS["python_ne"].source.format("{0}", "{1}"), True),
}


class Condition(NamedTuple):
    """A condition that later calls check.

    Attributes:
        text: the question as an expression, with ``{0}``, ``{1}``, … for the numbers.
        sources: the origins of its numbers: indices of leaves, or access paths.
        result: the required answer.
        described: the question with the users' names of the numbers.
    """

    text: str
    sources: tuple[Any, ...]
    result: bool
    described: str

    @property
    def fails(self) -> str:
        """The expression of the negated condition.

        Unequal numbers must be two objects: to containers, one NaN object is equal to itself.
        """
        fails = f"({self.text}) is not {self.result}"
        return f"{fails} or {{0}} is {{1}}" if (self.text, self.result) in _UNEQUAL else fails


class Answer(NamedTuple):
    """The answer to one question of Python about numbers.

    Attributes:
        text: the question, as in `Condition`.
        roots: the numbers.
        result: the answer.
    """

    text: str
    roots: tuple[NumberRoot, ...]
    result: bool

    def condition(
        self, source_of: Callable[[NumberRoot], Any], name_of: Callable[[NumberRoot], str]
    ) -> Condition | None:
        """What later calls have to check; None if all the numbers are static.

        Args:
            source_of: returns the origin of a number.
            name_of: returns the users' name of it.
        """
        live = [root for root in self.roots if root.why is None]
        if not live:
            return None
        at = [_spelled(r.number) if r.why else f"{{{live.index(r)}}}" for r in self.roots]
        described = self.text.format(*map(name_of, self.roots))
        return Condition(self.text.format(*at), tuple(map(source_of, live)), self.result, described)


@final
@dataclass(slots=True, eq=False)
class Decisions:
    """The decisions of one trace.

    Attributes:
        handlers: number of `try` blocks under way, whose handlers decide by errors.
        catches: whether there was such a block.
        answers: the answers so far, by question and numbers.
    """

    handlers: int = 0
    catches: bool = False
    answers: dict[tuple[Any, ...], Answer] = field(default_factory=dict, init=False)
    _counts: dict[int, int] = field(default_factory=dict, init=False)  # by id of the number

    def note(self, op: NumberOp | None, operands: Sequence[Any]) -> bool | None:
        """Note and return the answer to a comparison, or the truth of one operand.

        None if the numbers have to be static: they are already, there are too many conditions, or
        the question is no expression of numbers that are inputs.
        """
        roots = [r for x in operands if stands_for_number(x) for r in x.roots]
        if any(not hasattr(r, "number") for r in roots):  # sizes, which have rules of their own
            return None
        expression = _Expression({r.value: r for r in roots})
        texts = [expression.of(x) for x in operands]
        used = tuple(expression.roots)
        if None in texts or all(root.why is not None for root in used):
            return None
        text = f"bool({texts[0]})" if op is None else op.source.format(*texts)
        key = (text, *map(id, used))
        known = self.answers.get(key)
        if known is None:
            counts = [self._counts.get(id(root), 0) + 1 for root in used]
            if max(counts) > MOST:
                return None
            self._counts.update(zip(map(id, used), counts, strict=True))
            numbers = [x.number if stands_for_number(x) else x for x in operands]
            result = bool(numbers[0] if op is None else op.function(*numbers))
            known = self.answers[key] = Answer(text, used, result)
        return known.result


def stands_for_number(x: Any) -> bool:
    """Whether ``x`` is a stand-in for a number, which `isinstance` takes for the number itself."""
    return issubclass(type(x), AbstractNumber)


@final
class _Expression:
    """Writes numbers of a trace as expressions of inputs.

    Args:
        known: the numbers that are inputs, by their values in the graph.

    Attributes:
        roots: the inputs named, in the order of their numbers in the text.
    """

    def __init__(self, known: dict[Value, NumberRoot]) -> None:
        self._known = known
        self._length = 0
        self.roots: list[NumberRoot] = []

    def of(self, x: Any) -> str | None:
        """The text of an operand; None if it has none, such as a NaN, whose identity counts."""
        if stands_for_number(x):
            return self._of_value(x.value)
        return _spelled(x) if x == x else None

    def _of_value(self, value: Value) -> str | None:
        root = self._known.get(value)
        if root is not None:
            if root not in self.roots:
                self.roots.append(root)
            return f"{{{self.roots.index(root)}}}"
        node = value.node
        self._length += 1
        if node is None or self._length > _LONG:
            return None
        if node.op == "constant":
            return _spelled(node.attrs["value"])
        op = NUMBER_OPS.get(node.op)
        texts = [self._of_value(v) for v in node.inputs] if op is not None else [None]
        return None if op is None or None in texts else f"({op.source.format(*texts)})"


def _spelled(x: Any) -> str | None:
    """A plain number as an operand in an expression, in parentheses where needed."""
    if type(x) is bool:
        return repr(x)
    if type(x) is int:  # `repr` refuses ints of thousands of digits
        text = repr(x) if x.bit_length() <= _BITS else hex(x)
        return f"({text})" if x < 0 else text
    if type(x) is float:  # -0.0 ** 0 is -(0.0 ** 0)
        return repr(x) if math.isfinite(x) and math.copysign(1.0, x) > 0 else f"float('{x!r}')"
    if type(x) is complex:
        return f"complex({_spelled(x.real)}, {_spelled(x.imag)})"
    return None


def checker(conditions: Sequence[Condition]) -> Callable[[Sequence[Any]], bool]:
    """A function that says whether all conditions hold, given the leaves of the arguments.

    The sources of the conditions are indices of leaves, and access paths.
    """
    names: dict[str, Any] = {}
    lines = []
    for condition in conditions:
        places = []
        for source in condition.sources:
            place = f"leaves[{source}]"
            if type(source) is not int:
                place = f"p{len(names)}()"
                names[place[:-2]] = source.get
            places.append(place)
        lines.append(f"  if {condition.fails.format(*places)}: return False\n")
    lines.append("  return True\n except Exception: return False\n")
    module = compile(f"def holds(leaves):\n try:\n{''.join(lines)}", "<conditions>", "exec")
    code = next(c for c in module.co_consts if isinstance(c, CodeType))
    return FunctionType(code, names)
