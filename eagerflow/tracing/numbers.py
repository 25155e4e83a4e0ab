"""Python numbers in a trace: arithmetic with them appends nodes, and is Python's own.

A `TracedNumber` has a value in the call that traces. As soon as Python asks for that value (an
index, formatting), all inputs from which it was computed become *static*: later calls with other
numbers trace again. A comparison is a condition instead (`tracing/number_conditions.py`). Nothing
is computed twice.

Other threads may read a `TracedNumber`, since it replaces a global or an attribute for the duration
of the trace. To them it behaves as the number that it stands for.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from numbers import Number
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, cast, final
from weakref import ref

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.to_tensor import scalar
from eagerflow.dims import Dim, maximum, number_of, same
from eagerflow.dims.number_stand_ins import has_a_say
from eagerflow.errors import TraceError
from eagerflow.graph.number_ops import NUMBER_OPS, NumberOp
from eagerflow.source import Source, capture
from eagerflow.tracing.symbols import asked_in

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor
    from eagerflow.graph.ir import Value
    from eagerflow.hardware import Lane
    from eagerflow.tracing.tracer import Tracer

#: end of the error for a number that differs from iteration to iteration or from branch to branch
VARIES: Final = "of a number that is known only when the graph runs"
_KINDS: Final = frozenset({int, float, complex, bool})
_DIVIDING: Final = frozenset({"/", "//", "%"})


@dataclass(slots=True, eq=False)
class AbstractRoot(ABC):
    """The origin of a number in a trace: a number from outside, a size, or a result.

    Attributes:
        why: the operation that made it static; None as long as it is not.
    """

    why: str | None = field(default=None, init=False)

    @abstractmethod
    def specialise(self, why: str) -> None:
        """Make it static; ``why`` names the operation in Python's terms."""


@final
@dataclass(slots=True, eq=False)
class NumberRoot(AbstractRoot):
    """A number that is an input of the graph.

    Attributes:
        value: the input.
        number: its value in the call that traces.
        captured: whether it is put at an access path, where other threads may read it.
        where: the user's line that made it static.
    """

    value: Value
    number: complex
    captured: bool
    where: Source | None = field(default=None, init=False)

    def specialise(self, why: str) -> None:
        if self.why is None:
            self.why, self.where = asked_in(why), capture(2)


@final
@dataclass(slots=True, eq=False)
class SizeRoot(AbstractRoot):
    """A symbolic size, or an expression of some.

    Attributes:
        dim: the size.
        tracer: the trace that owns the size.
    """

    dim: Dim
    tracer: Tracer

    def specialise(self, why: str) -> None:
        self.why = why
        self.tracer.sizes.ask(self.dim, why)


@final
@dataclass(slots=True, eq=False)
class ResultRoot(AbstractRoot):
    """A number that may differ in another run: of a branch or of an iteration of a loop.

    Attributes:
        value: its value in the graph.
        tracer: of that graph.
    """

    value: Value
    tracer: Tracer

    def specialise(self, why: str) -> None:
        made = self.value.node
        source = made.source if made is not None and isinstance(made.source, Source) else None
        what = "differs from iteration to iteration" if made is None else f"comes from a {made.op}"
        raise TraceError(
            f"{asked_in(why)} {VARIES}",
            given=f"{self.value!r} in {self.tracer.function}, which {what}"
            + (f", at {source}" if source is not None else ""),
            hint="compute with it, compare it, or index a tensor with it; these stay in the graph, "
            "and so does a choice of n rows: x[ef.arange(x.shape[0]) < n]. If Python itself needs "
            "the number, call the function eagerly",
        )


def _binary(name: str) -> tuple[Any, Any]:
    op = NUMBER_OPS[f"python_{name}"]

    def forward(self: TracedNumber, other: Any) -> Any:
        return self._combine(op, self, other)

    def reflected(self: TracedNumber, other: Any) -> Any:
        return self._combine(op, other, self)

    return forward, reflected


def _compared(name: str) -> Any:
    """A comparison: a condition of the trace, or a tensor if only the graph knows the number."""
    op = NUMBER_OPS[f"python_{name}"]

    def method(self: TracedNumber, other: Any) -> Any:
        other = number_of(other) if type(other) is Dim else other
        if not _is_number(other) and not isinstance(other, Number):
            return NotImplemented
        if _is_number(other) and not self.elsewhere and (self.varies or _varies(other)):
            return self.innermost.compare(op.name, self, other)
        decided = self._decide(op, self, other) if _is_number(other) else None
        return decided if decided is not None else self._plainly(op.sign, op.function, self, other)

    return method


def _asked(sign: str, function: Callable[[Any, Any], Any], method: str) -> tuple[Any, Any]:
    """An operator whose result is needed at once, such as ``&``, and the reflected one."""

    def forward(self: TracedNumber, other: Any) -> Any:
        other = number_of(other) if type(other) is Dim else other
        if not _is_number(other) and has_a_say(other, method):
            return NotImplemented
        return self._plainly(sign, function, self, other)

    def reflected(self: TracedNumber, other: Any) -> Any:
        other = number_of(other) if type(other) is Dim else other
        return self._plainly(sign, function, other, self)

    return forward, reflected


def _unary(name: str) -> Any:
    op = NUMBER_OPS[f"python_{name}"]

    def method(self: TracedNumber) -> Any:
        if self.elsewhere:
            return op.function(self.ask(name))
        return self.innermost.number(op.name, op.function(self.number), self)

    return method


def _converted(what: str, function: Callable[..., Any]) -> Any:
    def method(self: TracedNumber, *args: Any) -> Any:
        return function(self.ask(what), *args)

    return method


def _spelled(what: str, function: Callable[..., str]) -> Any:
    """A text of a number; a placeholder if only the graph knows the number."""

    def method(self: TracedNumber, *args: Any) -> str:
        if not self.varies or self.elsewhere or not self.tracer.is_alive:
            return function(self.ask(what), *args)
        return self.tracer.text(self, self.kind.__name__, lambda x: function(x, *args))

    return method


@final
class TracedNumber(AbstractNumber):
    """A Python number in a trace.

    Attributes:
        tracer: the trace.
        value: its value in the graph.
        number: the number in the call that traces.
        roots: the origins from which it was computed.
    """

    __slots__ = ("kind", "number", "roots", "tracer", "value")

    def __init__(
        self, tracer: Tracer, value: Value, number: complex, roots: tuple[AbstractRoot, ...]
    ) -> None:
        self.tracer = tracer
        self.value = value
        self.number = number
        self.kind = type(number)
        self.roots = roots
        tracer.whole.handed_out.append(ref(self))

    @property
    def elsewhere(self) -> bool:
        """Whether the current thread is not the thread of the trace."""
        return get_ident() != self.tracer.thread

    def ask(self, what: str) -> Any:
        """The number itself; static from then on."""
        if self.elsewhere:
            root = self.roots[0]
            if type(root) is NumberRoot and root.captured and root.value is self.value:
                return self.number  # read at its access path: the trace does not depend on the read
            return self.fix("its use in another thread")
        self.tracer.check_alive(what)
        return self.fix(what)

    def fix(self, what: str) -> Any:
        """As `ask`, before the function runs."""
        # a number that varies is refused before anything that it was computed from is static
        for root in sorted(self.roots, key=lambda root: type(root) is not ResultRoot):
            root.specialise(what)
        return self.number

    @property
    def varies(self) -> bool:
        return any(type(root) is ResultRoot for root in self.roots)

    @property
    def innermost(self) -> Tracer:
        """The part of its trace that is under way, such as a branch or the body of a loop."""
        return self.tracer.whole.innermost or self.tracer

    def to_tensor(self, lane: Lane) -> Tensor:
        if self.elsewhere:
            return scalar(self.ask("arithmetic with tensors"), lane)
        return self.innermost.number_tensor(self, lane)

    def _combine(self, op: NumberOp, a: Any, b: Any) -> Any:
        sign, function = op.sign, op.function
        forward = a is self
        other = b if forward else a
        if type(other) is Dim:
            other = number_of(other)
            a, b = (a, other) if forward else (other, b)
        if op.widens and type(b) is int and b < 0 and type(_number(a)) is int:
            b = float(b)  # as Python: 2 ** -1 is 2.0 ** -1.0
        known = type(other) is TracedNumber or type(other) in _KINDS
        if not known and forward and has_a_say(other, op.reflected):
            return NotImplemented
        if not known or self.elsewhere or (op.widens and not _keeps_kind(a, b)):
            return self._plainly(sign, function, a, b)
        if not self._settle(op, b):
            return self._plainly(sign, function, a, b)
        try:
            result = function(_number(a), _number(b))
        except ArithmeticError as error:  # a number that varies may be another in the run
            if not (_varies(a) or _varies(b)):  # code that catches the error decides by the number
                if self._is_decided(op, error):
                    raise
                return self._plainly(sign, function, a, b)
            result = function(type(_number(a))(1), type(_number(b))(1))
        return self.innermost.number(op.name, result, a, b)

    def _settle(self, op: NumberOp, b: Any) -> bool:
        """Make a possible error in a `try` a condition; return False if that takes the numbers."""
        decisions = self.tracer.whole.decisions
        if decisions is None or not decisions.handlers or self.varies or _varies(b):
            return True
        if op.sign in _DIVIDING:
            bool(b)  # whether it is zero is a condition
        return op.sign != "**"

    def _is_decided(self, op: NumberOp, error: ArithmeticError) -> bool:
        """Whether a condition of the trace says that an operation raises this error."""
        decisions = self.tracer.whole.decisions
        handled = decisions is not None and decisions.handlers > 0
        return handled and op.sign in _DIVIDING and isinstance(error, ZeroDivisionError)

    def _decide(self, op: NumberOp | None, *operands: Any) -> bool | None:
        """The answer to a question of Python, if the trace can keep it as a condition."""
        decisions = self.tracer.whole.decisions
        if decisions is None or self.elsewhere:
            return None
        self.tracer.check_alive("bool()" if op is None else op.sign)
        return decisions.note(op, operands)

    def _plainly(self, sign: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """The result of Python with the number itself, or Python's own error."""
        other = b if a is self else a
        what = f"{sign} {other!r}" if type(other) in _KINDS else sign
        return function(plain(a, what), plain(b, what))

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("truediv")
    __floordiv__, __rfloordiv__ = _binary("floordiv")
    __mod__, __rmod__ = _binary("mod")
    _power, __rpow__ = _binary("pow")
    __neg__ = _unary("neg")
    __pos__ = _unary("pos")
    __abs__ = _unary("abs")

    def __bool__(self) -> bool:
        decided = self._decide(None, self)
        return bool(self.ask("bool()")) if decided is None else decided

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return self._power(exponent)
        return pow(self.ask("pow()"), plain(exponent, "pow()"), plain(modulus, "pow()"))

    def __divmod__(self, other: Any) -> Any:
        return self._divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._divmod(other, self)

    def _divmod(self, a: Any, b: Any) -> Any:
        a, b = [number_of(x) if type(x) is Dim else x for x in (a, b)]
        if self.elsewhere or not (_is_number(a) and _is_number(b)):
            if a is self and has_a_say(b, "__rdivmod__"):
                return NotImplemented
            return self._plainly("divmod()", divmod, a, b)
        try:
            divmod(_number(a), _number(b))  # its errors have texts of their own
        except ArithmeticError:
            return self._plainly("divmod()", divmod, a, b)
        return a // b, a % b

    __eq__ = _compared("eq")
    __ne__ = _compared("ne")
    __lt__ = _compared("lt")
    __le__ = _compared("le")
    __gt__ = _compared("gt")
    __ge__ = _compared("ge")
    __and__, __rand__ = _asked("&", operator.and_, "__rand__")
    __or__, __ror__ = _asked("|", operator.or_, "__ror__")
    __xor__, __rxor__ = _asked("^", operator.xor, "__rxor__")
    __lshift__, __rlshift__ = _asked("<<", operator.lshift, "__rlshift__")
    __rshift__, __rrshift__ = _asked(">>", operator.rshift, "__rrshift__")
    __invert__ = _converted("~", operator.invert)
    __hash__ = _converted("hash()", hash)
    __int__ = _converted("int()", int)
    __index__ = _converted("its use as an index or a size", operator.index)
    __float__ = _converted("float()", float)
    __complex__ = _converted("complex()", complex)
    __round__ = _converted("round()", round)
    __trunc__ = _converted("int()", int)
    __floor__ = _converted("floor()", lambda x: x.__floor__())
    __ceil__ = _converted("ceil()", lambda x: x.__ceil__())
    __format__ = _spelled("formatting", format)
    __str__ = _spelled("str()", str)
    __repr__ = _spelled("repr()", repr)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.kind, (self.ask("pickling"),)


def extreme(function: Callable[..., Any], values: Sequence[Any]) -> TracedNumber | None:
    """`max` or `min` of numbers of a trace, as a number of the trace.

    None if there are none, or if they are of several kinds: the kind would depend on the values.
    """
    values = [number_of(x) if type(x) is Dim else x for x in values]
    traced = next((x for x in values if type(x) is TracedNumber), None)
    if traced is None or traced.elsewhere or traced.kind is complex or len(values) < 2:
        return None
    if any(type(_number(x)) is not traced.kind for x in values):
        return None

    def better(a: Any, b: Any) -> Any:
        result = function(_number(a), _number(b))
        if type(a) is type(b) is traced.kind:
            return result
        return traced.innermost.number(f"python_{function.__name__}", result, a, b)

    return cast("TracedNumber", reduce(better, values))


def _number(x: Any) -> Any:
    return x.number if type(x) is TracedNumber else x


def plain(x: Any, what: str) -> Any:
    """A number itself, static from then on; anything else as it is."""
    return x.ask(what) if type(x) is TracedNumber else x


def _varies(x: Any) -> bool:
    return type(x) is TracedNumber and x.varies


def _is_number(x: Any) -> bool:
    return type(x) is TracedNumber or type(x) in _KINDS


def _is_positive(x: Any) -> bool:
    """Whether a number is zero or more in each call: a constant, or a size."""
    if type(x) is not TracedNumber:
        return bool(x >= 0)
    made, root = x.value.node, x.roots[0]
    if made is None or made.op != "python_size" or type(root) is not SizeRoot:
        return False
    return same(maximum(root.dim, 0), root.dim)


def _keeps_kind(base: Any, exponent: Any) -> bool:
    """Whether the kind of a power is known: 2 ** -1 is a float, (-1) ** 0.5 complex.

    Args:
        base: a number, traced or not.
        exponent: likewise.
    """
    kinds = type(_number(base)), type(_number(exponent))
    if complex in kinds:
        return True
    if kinds[1] is float:
        whole = type(exponent) is float and exponent.is_integer()
        return whole or _is_positive(base)
    return kinds[0] is float or _is_positive(exponent)
