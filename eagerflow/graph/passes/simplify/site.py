"""The node at which a rule of simplification is tried, and what a rule may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import copysign
from typing import Any, Final, TypeVar, final

from eagerflow.core.op import Op, find_op
from eagerflow.core.tensor import Tensor
from eagerflow.graph.ir import Value
from eagerflow.graph.kinds import NumberType
from eagerflow.graph.number_ops import NUMBER_OPS, NumberOp
from eagerflow.graph.passes.memory_order import Memory, MemoryLayout, is_flat
from eagerflow.graph.passes.rewrite import Form, Rewriter
from eagerflow.types import BYTES, DType, TensorType, same_shape

#: gives what the node may be replaced by: a value of the same type, or another form; or None
Rule = Callable[["RuleSite"], Value | Form | None]
_R = TypeVar("_R", bound=Rule)

#: patterns, by op
rules: Final[dict[str, list[Rule]]] = {}
#: what follows from facts
fact_rules: Final[list[Rule]] = []
_KINDS: Final[dict[type[complex], str]] = {
    int: "signed integer", float: "real floating", complex: "complex floating",
}  # fmt: skip
#: elements of a constant that are compared with each other
_SMALL: Final = 1024


def rule(*ops: str) -> Callable[[_R], _R]:
    """Make the decorated function a rule for nodes of ``ops``; of all ops if none is named."""

    def register(function: _R) -> _R:
        if not ops:
            fact_rules.append(function)
        for op in ops:
            rules.setdefault(op, []).append(function)
        return function

    return register


@final
class NodesBefore:
    """What was done to the nodes before the one that is looked at.

    Attributes:
        rewriter: the changes.
    """

    __slots__ = ("_forms", "_memory", "rewriter")

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self._forms: list[tuple[Form, tuple[Value, ...]]] = []  # not looked at by `_memory`
        self._memory: Memory | None = None

    def add(self, form: Form, outputs: tuple[Value, ...]) -> None:
        """Note what computes the outputs of the next node."""
        self._forms.append((form, outputs))

    def memory(self) -> Memory:
        """How their values lie in memory; found when a rule asks, as few do."""
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory()
        for form, outputs in self._forms:
            memory.see(form, outputs)
        self._forms.clear()
        return memory


@final
class RuleSite:
    """The node at which a rule is tried, as it is after what was done before.

    Attributes:
        op: its op.
        facts: the record of the op.
        inputs: its inputs.
        attrs: its attributes.
        output: its output.
    """

    __slots__ = ("_before", "attrs", "facts", "inputs", "op", "output")

    def __init__(self, form: Form, output: Value, before: NodesBefore) -> None:
        self.op, self.inputs, self.attrs = form
        self.facts = facts_of(form.op)
        self.output = output
        self._before = before

    @property
    def memory(self) -> Memory:
        """How the values before it lie in memory."""
        return self._before.memory()

    @property
    def kind(self) -> str:
        """The kind of dtype of the output; for a number that of the tensor which it would be."""
        kind = self.output.type
        return kind.dtype.kind if isinstance(kind, TensorType) else _KINDS[kind.kind]

    @property
    def dtype(self) -> DType | None:
        """The dtype of the output; None for a number."""
        kind = self.output.type
        return kind.dtype if isinstance(kind, TensorType) else None

    def maker(self, value: Value, *ops: str) -> Form | None:
        """What computes ``value``, if it is one of ``ops``."""
        node = value.node
        if node is None or node.control_inputs:  # readers of the value wait for these too
            return None
        rewriter = self._before.rewriter
        if node.op not in ops and node not in rewriter.forms:
            return None
        form = rewriter.form(node)
        return form if form.op in ops else None

    def constant(self, value: Value) -> Any:
        """The one number that all elements of ``value`` are; None if they are not known."""
        node = value.node
        if node is None or node.control_inputs:
            return None
        form = self._before.rewriter.form(node)
        if form.op == "constant":
            constant = form.attrs.get("value")
            if isinstance(constant, Tensor):
                return _uniform(constant)
            return constant if isinstance(constant, (int, float, complex)) else None
        op = find_op(form.op)
        if op is not None and op.fill is not None:
            return op.fill(form.attrs)
        if op is not None and op.order == "repeated" and is_flat(form.inputs[0]):
            return self.constant(form.inputs[0])
        return None

    def is_like(self, value: Value) -> bool:
        """Whether ``value`` has the type of the output, and is on its device."""
        a, b = value.type, self.output.type
        if value.device != self.output.device:
            return False
        if isinstance(a, NumberType) or isinstance(b, NumberType):
            return a == b
        return a is b or (a.dtype is b.dtype and same_shape(a.shape, b.shape))

    def view(self, value: Value) -> Value | None:
        """``value``, as what is the same memory; None if the type differs."""
        return value if self.is_like(value) else None

    def copy(self, value: Value, others: Iterable[Value] | None = None) -> Value | None:
        """``value``, as what a ufunc computes the same elements of.

        None if the type differs, or perhaps the layout.

        Args:
            value: what may stand for the output.
            others: what else the ufunc takes; by default the other inputs.
        """
        if not self.is_like(value):
            return None
        if isinstance(value.type, NumberType):
            return value
        rest = [v for v in self.inputs if v is not value] if others is None else others
        return value if self.memory.lies_like(value, rest) else None

    def rows(self, value: Value) -> Value | None:
        """``value``, as what a kernel copies row by row."""
        lies = isinstance(value.type, NumberType) or self.memory.layout(value) == MemoryLayout.ROWS
        return value if lies and self.is_like(value) else None


def _uniform(tensor: Tensor) -> Any:
    """The number that all elements are, of small tensors; None if they differ."""
    if not tensor.device.holds_data:
        return None
    if not 0 < tensor.size <= _SMALL or tensor.dtype is BYTES:
        return None
    array = tensor.numpy()
    first = array[(0,) * array.ndim]
    data = array.tobytes()
    return first.item() if data == data[: array.itemsize] * array.size else None


def facts_of(op: str) -> Op | NumberOp | None:
    """The record of an op, or of an operator of Python."""
    return NUMBER_OPS.get(op) or find_op(op)


def is_number(value: Any, number: float) -> bool:
    """Whether a constant is this number, and zero of this sign."""
    if value is None or value != number:
        return False
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return number != 0 or all(copysign(1, part) == copysign(1, number) for part in parts)


def gives_input(facts: Op | NumberOp) -> bool:
    """Whether nothing but differentiation tells the op from its input of the same type."""
    if isinstance(facts, NumberOp):
        return facts.same
    return facts.storage == "same" and facts.effect == "pure" and facts.fails_on == "nothing"
