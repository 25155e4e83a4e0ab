"""Python's arithmetic on numbers, in graphs: the table of operators with their facts.

A node ``python_add`` adds two numbers as Python does. Tracing appends such nodes
(`eagerflow.tracing.numbers`), passes compute them, generated code spells them out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.core.op_records.op_facts import Neutral, neutral

if TYPE_CHECKING:
    from typing import Unpack

    from eagerflow.core.op_records.op_facts import AlgebraFacts

Number = type[int] | type[float] | type[complex]
#: gives the kind of the result from the kinds of the operands
KindRule = Callable[[Sequence[Number]], Number]
#: the order of kinds: two numbers of different kinds give the wider one
RANKS: Final[dict[Number, int]] = {int: 0, float: 1, complex: 2}


def _widest(kinds: Sequence[Number]) -> Number:
    return max(kinds, key=RANKS.__getitem__)


def _quotient(kinds: Sequence[Number]) -> Number:
    return _widest([*kinds, float])


def _magnitude(kinds: Sequence[Number]) -> Number:
    return float if kinds[0] is complex else kinds[0]


@final
@dataclass(frozen=True, slots=True, eq=False)
class NumberOp:
    """An operator of Python, or a conversion.

    Attributes:
        method: the name of its special method, without underscores.
        sign: its symbol.
        function: computes the result.
        source: its expression, with ``{0}`` and ``{1}`` for the operands.
        kind: the rule of the kind of its result; None for a comparison, which gives a bool.
        same: whether it gives its operand as it is, if the result is of the same kind.
        widens: whether the result may be of a wider kind than the rule says, as ``2 ** -1`` is.
        commutative, neutral, involution, idempotent: as of ops.
    """

    method: str
    sign: str
    function: Callable[..., Any]
    source: str
    kind: KindRule | None
    same: bool = False
    widens: bool = False
    commutative: bool = False
    neutral: Neutral | None = None
    involution: bool = False
    idempotent: bool = False

    @property
    def name(self) -> str:
        """The op of the nodes."""
        return f"python_{self.method}"

    @property
    def arity(self) -> int:
        """The number of operands."""
        return 2 if "{1}" in self.source else 1

    @property
    def compares(self) -> bool:
        """Whether it gives a bool."""
        return self.kind is None

    @property
    def reflected(self) -> str:
        """The special method of the right operand's class."""
        return f"__{_REFLECTED.get(self.method) or f'r{self.method}'}__"


_REFLECTED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _infix(
    method: str, sign: str, kind: KindRule | None = _widest, *, widens: bool = False,
    **facts: Unpack[AlgebraFacts],
) -> NumberOp:  # fmt: skip
    function = getattr(operator, method)
    return NumberOp(method, sign, function, f"{{0}} {sign} {{1}}", kind, widens=widens, **facts)


def _converted(kind: Number) -> NumberOp:
    name = kind.__name__
    return NumberOp(name, f"{name}()", kind, f"{name}({{0}})", lambda kinds: kind, same=True)


_TABLE: Final[Sequence[NumberOp]] = (
    _converted(int),
    _converted(float),
    _converted(complex),
    NumberOp("neg", "-", operator.neg, "-{0}", _widest, involution=True),
    NumberOp("pos", "+", operator.pos, "+{0}", _widest, same=True),
    NumberOp("abs", "abs()", abs, "abs({0})", _magnitude, idempotent=True),
    NumberOp("max", "max()", max, "max({0}, {1})", _widest),
    NumberOp("min", "min()", min, "min({0}, {1})", _widest),
    _infix("add", "+", commutative=True, neutral=neutral(None, 0, -0.0, left=True)),
    _infix("sub", "-", neutral=neutral(None, 0, 0.0)),
    _infix("mul", "*", commutative=True, neutral=neutral(None, 1, 1.0, left=True)),
    _infix("floordiv", "//", neutral=neutral(None, 1, None)),
    _infix("mod", "%"),
    _infix("truediv", "/", _quotient, neutral=neutral(None, None, 1.0)),
    _infix("pow", "**", widens=True, neutral=neutral(None, 1, None)),
    *(_infix(name, sign, None) for name, sign in (
        ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="),
    )),
)  # fmt: skip

#: by the op of the node
NUMBER_OPS: Final = {op.name: op for op in _TABLE}
