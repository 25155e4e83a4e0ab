"""Algebraic simplification that keeps every bit, of NaN, infinities and -0.0 too.

A rule follows from a fact that ops state, or is a pattern of some ops: of values, as ``x * 1``, or
of shapes and axes. Which numbers are neutral, and for which dtypes, is a fact of each op
(`eagerflow.core.op_records.op_facts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import copysign, prod
from typing import Any, Final, TypeVar, final

from eagerflow.core.op import Op, find_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, same
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.number_ops import NUMBER_OPS, NumberOp
from eagerflow.graph.passes.memory_layout import Memory, MemoryLayout, is_flat
from eagerflow.graph.passes.rewrite import Form, Report, Rewriter, shown
from eagerflow.graph.value_types import NumberType
from eagerflow.types import BYTES, DType, TensorType, same_shape

#: gives the replacement of a node: a value of the same type, or another form; or None
Rule = Callable[["_RuleSite"], Value | Form | None]
_R = TypeVar("_R", bound=Rule)

#: patterns, by op
_rules: Final[dict[str, list[Rule]]] = {}
#: rules that follow from facts of ops
_fact_rules: Final[list[Rule]] = []
_KINDS: Final[dict[type[complex], str]] = {
    int: "signed integer", float: "real floating", complex: "complex floating",
}  # fmt: skip
#: elements up to which a constant is checked for being uniform
_SMALL: Final = 1024
#: the greatest number of rewrites of one node
_LIMIT: Final = 100


def simplify(graph: Graph) -> tuple[Graph, Report]:
    """Apply the rules to each node, until none fits. Nodes with control edges stay."""
    rewriter = Rewriter("simplify", graph)
    before = _NodesBefore(rewriter)
    for node in graph.nodes:
        if node.attrs:
            rewriter.inside(node, simplify)
        form = rewriter.form(node)
        if len(node.outputs) == 1 and not node.control_inputs and has_rules(form.op):
            last = _apply(form, node, before)
            if last is None:
                continue
            form = last
        before.add(form, node.outputs)
    return rewriter.finish()


def _apply(form: Form, node: Node, before: _NodesBefore) -> Form | None:
    """The final form of ``node``; None if it is replaced by a value."""
    (output,) = node.outputs
    first, rewriter = form, before.rewriter
    for _ in range(_LIMIT):
        replacement = _first(_RuleSite(form, output, before))
        if isinstance(replacement, Value):
            text = f"{shown(node)} = {node.op} is %{replacement.name}"
            rewriter.drop(node, (replacement,), text)
            return None
        if replacement is None:
            break
        form = replacement
    if form is not first:
        taken = ", ".join([f"%{v.name}" for v in form.inputs])
        rewriter.put(node, (form,), f"{shown(node)} = {node.op} is {form.op}({taken})")
    return form


def has_rules(op: str) -> bool:
    """Whether any rule may fit nodes of ``op``."""
    if op in _rules:
        return True
    facts = _facts_of(op)
    return facts is not None and (
        facts.neutral is not None or facts.involution or facts.idempotent or _gives_input(facts)
    )


def _first(site: _RuleSite) -> Value | Form | None:
    for each in chain(_fact_rules, _rules.get(site.op, ())):
        replacement = each(site)
        if replacement is not None:
            return replacement
    return None


# --- where a rule is tried ----------------------------------------------------------------------


@final
class _NodesBefore:
    """The forms of the nodes before the current one.

    Attributes:
        rewriter: the changes so far.
    """

    __slots__ = ("_forms", "_memory", "rewriter")

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self._forms: list[tuple[Form, tuple[Value, ...]]] = []  # not seen by `_memory` yet
        self._memory: Memory | None = None

    def add(self, form: Form, outputs: tuple[Value, ...]) -> None:
        """Note the form that computes the outputs of the next node."""
        self._forms.append((form, outputs))

    def memory(self) -> Memory:
        """The memory layouts of their values, computed on demand, as few rules ask."""
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory()
        for form, outputs in self._forms:
            memory.see(form, outputs)
        self._forms.clear()
        return memory


@final
class _RuleSite:
    """The node that a rule is tried on, after the changes so far.

    Attributes:
        op: its op.
        facts: the record of the op.
        inputs: its inputs.
        attrs: its attributes.
        output: its output.
    """

    __slots__ = ("_before", "attrs", "facts", "inputs", "op", "output")

    def __init__(self, form: Form, output: Value, before: _NodesBefore) -> None:
        self.op, self.inputs, self.attrs = form
        self.facts = _facts_of(form.op)
        self.output = output
        self._before = before

    @property
    def memory(self) -> Memory:
        """The memory layouts of the values before the node."""
        return self._before.memory()

    @property
    def kind(self) -> str:
        """The kind of dtype of the output; for a number that of a tensor made from it."""
        kind = self.output.type
        return kind.dtype.category if isinstance(kind, TensorType) else _KINDS[kind.kind]

    @property
    def dtype(self) -> DType | None:
        """The dtype of the output; None for a number."""
        kind = self.output.type
        return kind.dtype if isinstance(kind, TensorType) else None

    def maker(self, value: Value, *ops: str) -> Form | None:
        """The form that computes ``value``, if its op is one of ``ops``."""
        node = value.node
        if node is None or node.control_inputs:  # consumers of the value wait for these too
            return None
        rewriter = self._before.rewriter
        if node.op not in ops and node not in rewriter.forms:
            return None
        form = rewriter.form(node)
        return form if form.op in ops else None

    def constant(self, value: Value) -> Any:
        """The number that all elements of ``value`` equal; None if unknown or not uniform."""
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
        """``value``, if it can replace an output that is the same memory; None if types differ."""
        return value if self.is_like(value) else None

    def copy(self, value: Value, others: Iterable[Value] | None = None) -> Value | None:
        """``value``, if it can replace the output of a ufunc with the same elements.

        None if the type differs, or the layout may differ.

        Args:
            value: the candidate for the output.
            others: the other operands of the ufunc; by default the other inputs.
        """
        if not self.is_like(value):
            return None
        if isinstance(value.type, NumberType):
            return value
        rest = [v for v in self.inputs if v is not value] if others is None else others
        return value if self.memory.lies_like(value, rest) else None

    def rows(self, value: Value) -> Value | None:
        """``value``, if it can replace an output that a kernel copies row by row; else None."""
        lies = isinstance(value.type, NumberType) or self.memory.layout(value) == MemoryLayout.ROWS
        return value if lies and self.is_like(value) else None


def _uniform(tensor: Tensor) -> Any:
    """The number that all elements of a small tensor equal; None if they differ."""
    if not tensor.device.holds_data:
        return None
    if not 0 < tensor.size <= _SMALL or tensor.dtype is BYTES:
        return None
    array = tensor.numpy()
    first = array[(0,) * array.ndim]
    data = array.tobytes()
    return first.item() if data == data[: array.itemsize] * array.size else None


def _facts_of(op: str) -> Op | NumberOp | None:
    """The record of an op, or of an operator of Python."""
    return NUMBER_OPS.get(op) or find_op(op)


def is_number(value: Any, number: float) -> bool:
    """Whether a constant equals ``number``; zeros of other signs differ."""
    if value is None or value != number:
        return False
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return number != 0 or all(copysign(1, part) == copysign(1, number) for part in parts)


def _gives_input(facts: Op | NumberOp) -> bool:
    """Whether, but for differentiation, the op returns its input if the type is the same."""
    if isinstance(facts, NumberOp):
        return facts.same
    return facts.storage == "same" and facts.effect == "pure" and facts.fails_on == "nothing"


# --- rules that follow from facts ---------------------------------------------------------------


def _rule(*ops: str) -> Callable[[_R], _R]:
    """Register the decorated function as a rule for nodes of ``ops``, by default of all ops."""

    def register(function: _R) -> _R:
        if not ops:
            _fact_rules.append(function)
        for op in ops:
            _rules.setdefault(op, []).append(function)
        return function

    return register


@_rule()
def with_neutral(at: _RuleSite) -> Value | None:
    """``x + 0``, ``1 * x``, ``x & -1`` and others with a neutral operand."""
    neutral = None if at.facts is None else at.facts.neutral
    number = None if neutral is None else neutral.numbers.get(at.kind)
    if neutral is None or number is None:
        return None
    if at.dtype is not None and at.kind == "unsigned integer":
        number %= 1 << 8 * at.dtype.itemsize
    x, y = at.inputs
    if is_number(at.constant(y), number):
        return at.copy(x)
    return at.copy(y) if neutral.left and is_number(at.constant(x), number) else None


@_rule()
def twice(at: _RuleSite) -> Value | None:
    """``--x`` and other involutions applied twice."""
    if at.facts is None or not at.facts.involution:
        return None
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(inner.inputs[0], ())


@_rule()
def again(at: _RuleSite) -> Value | None:
    """``abs(abs(x))``, ``maximum(x, x)`` and other idempotent ops."""
    if at.facts is None or not at.facts.idempotent:
        return None
    if len(at.inputs) == 2:
        return at.copy(at.inputs[0]) if at.inputs[0] is at.inputs[1] else None
    inner = at.maker(at.inputs[0], at.op)
    return None if inner is None else at.copy(at.inputs[0])


@_rule()
def nothing(at: _RuleSite) -> Value | None:
    """``+x``, ``float(x)`` of a float, and ops that matter for differentiation only."""
    given = at.facts is not None and _gives_input(at.facts)
    return at.view(at.inputs[0]) if given else None


# --- rules: choices -----------------------------------------------------------------------------


@_rule("where")
def decided(at: _RuleSite) -> Value | None:
    """``where`` with a constant condition, or equal alternatives."""
    condition, x, y = at.inputs
    if x is y:
        return at.copy(x)
    truth = at.constant(condition)
    return None if truth is None else at.copy(x if truth else y)


@_rule("copy")
def copied(at: _RuleSite) -> Value | None:
    """``copy``, which is not needed, as values do not change."""
    return at.rows(at.inputs[0])


# --- rules: shapes ------------------------------------------------------------------------------


@_rule("reshape")
def own_shape(at: _RuleSite) -> Value | None:
    """``reshape`` to the shape that the input has."""
    return at.view(at.inputs[0]) if at.attrs.get("copy") is None else None


@_rule("reshape")
def reshaped_twice(at: _RuleSite) -> Form | None:
    """``reshape`` of the result of another op that only changes the shape of the same memory."""
    inner = at.maker(at.inputs[0], "reshape", "expand_dims", "squeeze")
    if inner is None or at.attrs.get("copy") is not None or inner.attrs.get("copy") is not None:
        return None
    (x,) = inner.inputs
    if not same(prod(x.type.shape), prod(at.inputs[0].type.shape)):
        return None  # whether the first reshape is possible is known at run time only
    # a copy made by the first reshape would have changed the order of the elements
    view = (
        inner.op != "reshape"
        or at.memory.layout(x) == MemoryLayout.ROWS
        or len(x.type.shape) <= 1
        or refines(at.inputs[0].type.shape, x.type.shape)
    )
    return Form("reshape", (x,), at.attrs) if view else None


def refines(fine: Sequence[Size], coarse: Sequence[Size]) -> bool:
    """Whether ``fine`` splits the axes of ``coarse`` and joins none.

    >>> from eagerflow.graph.passes.simplify import refines
    >>> refines((2, 3, 1, 4), (6, 4)), refines((8, 3), (2, 4, 3)), refines((2, 12), (6, 4))
    (True, False, False)
    """
    rest = list(fine)
    for size in coarse:
        product: Any = 1
        while not same(product, size):
            if not rest:
                return False
            product = product * rest.pop(0)
    return all(same(size, 1) for size in rest)


@_rule("broadcast_to", "sum_to")
def shape_already(at: _RuleSite) -> Value | None:
    """``broadcast_to`` or ``sum_to`` the shape that the input has."""
    return at.view(at.inputs[0])


# --- rules: axes --------------------------------------------------------------------------------


@_rule("permute_dims")
def permuted(at: _RuleSite) -> Value | Form | None:
    """The identity permutation of axes, and the composition of two permutations."""
    axes: tuple[int, ...] = at.attrs["axes"]
    if axes == tuple(range(len(axes))):
        return at.view(at.inputs[0])
    inner = at.maker(at.inputs[0], "permute_dims")
    if inner is None:
        return None
    before = inner.attrs["axes"]
    return Form("permute_dims", inner.inputs, {"axes": tuple([before[a] for a in axes])})


@_rule("concat")
def one_part(at: _RuleSite) -> Value | None:
    """``concat`` of one array."""
    return at.rows(at.inputs[0]) if len(at.inputs) == 1 else None
