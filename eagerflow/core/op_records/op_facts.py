"""The facts of ops besides their rules, and the defaults that families of ops share.

Passes, generated code and estimates ask the record of an op, and have no lists of op names. Facts
that an op does not state are those of the family of its type rule (`of_family`), else `GENERAL`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, final

from eagerflow.core.op_records.batch_rules import BatchRule, aligned, shifted
from eagerflow.core.op_records.cost_formulas import FREE, CostRule, moving, per_input
from eagerflow.types import Shape, TensorType

if TYPE_CHECKING:
    from eagerflow.core.indexed_slices import IndexedSlices
    from eagerflow.core.tensor import Tensor

#: the memory of a result: ``"fresh"`` is an array of its own, ``"same"`` the first input as it is,
#: ``"view"`` the memory of the first input, and ``"either"`` is not known
Storage = Literal["fresh", "same", "view", "either"]

#: the memory layout of a result, in NumPy's terms:
#:
#: - ``"rows"``: by rows (in C order), whatever the inputs are;
#: - ``"elementwise"``: as of ufuncs, in the order of the axes that the inputs agree on;
#: - ``"input"``: as the first input, ``"last input"``: as the last one;
#: - ``"joined"``: by rows if all inputs are;
#: - ``"reduced"``: by rows if no input has its axes in another order;
#: - ``"product"``: the same, and by rows in any case for up to two axes;
#: - ``"permuted"``: as the first input, its axes in the order of the attribute ``axes``;
#: - ``"repeated"``: as the first input, repeated by strides of zero;
#: - ``"unknown"``: none of these for certain.
Order = Literal[
    "rows", "elementwise", "input", "last input", "joined", "reduced", "product", "permuted",
    "repeated", "unknown",
]  # fmt: skip

Precision = Literal["exact", "elementwise", "accumulate"]
Saved = Literal["none", "indices", "inputs", "outputs", "all"]
FailsOn = Literal["nothing", "sizes", "values"]
#: the world outside of values and state that an op touches: ``"unknown"`` may be anything
Reaches = Literal["nothing", "files", "python", "unknown"]
Raised = Sequence[type[BaseException]]
Positions = tuple[int, ...]  # of inputs or outputs, from the end where negative


class Neutral(NamedTuple):
    """A neutral operand: the result has the bits of the other operand.

    Attributes:
        numbers: the number by kind of dtype; -1 for unsigned integers has all bits set.
        left: whether it may be the first operand as well as the second.
    """

    numbers: Mapping[str, float]
    left: bool = False


class RowSum(NamedTuple):
    """An op that adds its first input to zeros, at the indices in its second input.

    Attributes:
        is_whole: ``is_whole(values, indices, shape, attrs)``, of the shapes of the inputs and of
            the result: whether each index selects a whole row, along the first axis.
        slices: ``slices(values, indices, shape)`` gives the rows that are added, if whole.
    """

    is_whole: Callable[[Shape, Shape, Shape, Mapping[str, Any]], bool]
    slices: Callable[[Tensor, Tensor, Shape], IndexedSlices]


class InlineSite(NamedTuple):
    """A place in generated code that runs an op.

    Attributes:
        operands: the expressions of the inputs.
        types: of the inputs.
        attrs: the attributes.
        outputs: the number of outputs.
        bound: ``bound(value, hint)`` gives the name of an object in the code.
    """

    operands: Sequence[str]
    types: Sequence[TensorType]
    attrs: Mapping[str, Any]
    outputs: int
    bound: Callable[[Any, str], str]


#: gives the expression, and the block that it needs (``"with lock: "``); None if there is none
InlineRule = Callable[[InlineSite], tuple[str, str] | None]
#: ``rule(name, operands, outputs)`` gives the statements that run the op on a Python list ``name``
StackRule = Callable[[str, Sequence[str], Sequence[str]], Iterator[str]]


class AlgebraFacts(TypedDict, total=False):
    """Identities of ops and Python's operators, bit for bit, NaN, infinities and -0.0 included.

    Attributes:
        commutative: ``f(x, y)`` is ``f(y, x)``, but for the choice between two NaNs.
        neutral: the neutral operand.
        involution: ``f(f(x))`` is ``x``.
        idempotent: ``f(f(x))`` is ``f(x)``; for two inputs, ``f(x, x)`` is ``x``.
    """

    commutative: bool
    neutral: Neutral | None
    involution: bool
    idempotent: bool


@final
class OpFacts(AlgebraFacts, total=False):
    """The facts of an op that `eagerflow.core.op.define` takes.

    They hold for the portable kernel on a CPU; other kernels have to keep them.

    Attributes:
        precision: ``"exact"`` moves elements and takes every dtype as it is; other ops compute
            the dtypes of ml_dtypes in float32, and ``"accumulate"`` float16 as well.
        takes_bytes: whether inputs may be bytes.
        saved: the arguments of which the vjp reads *values*; of others it reads dtype and shape
            only. ``"indices"`` are the inputs of integer and bool dtypes.
        cost: its cost rule (`eagerflow.core.op_records.cost_formulas`).
        outputs: the number of outputs; None for a tuple of as many as the type rule gives. An op
            of one output gives a tensor, any other a tuple.
        elementwise: whether each element is computed from the input elements at its position
            alone, once the inputs are broadcast. So it may be computed block by block, and written
            into an input of the same type that is not needed any more.
        ieee: whether it is one operation of IEEE 754 (or of bits) for each element, so that its
            bits do not depend on the number of elements computed at a time.
        storage: the origin of the memory of the result.
        order: the memory layout of the result.
        parts: whether results may be parts of the rows of the first input, as views.
        array_scalars: whether kernels return arrays even where a result has no axes.
        fails_on: the mistakes for which the kernel may raise an error though the type rule accepts
            the types: ``"nothing"``; ``"sizes"`` that are symbolic and do not fit at run time; or
            ``"values"``. A function from the attributes to one of these, if it depends on them.
            Any kernel may fail for lack of memory.
        raises: the exceptions of an ordinary run, for which programs have handlers: a sequence, or
            a function from its attributes to one.
        linear_rows: whether its vjp does the same to each row of a cotangent, and nothing else, so
            that it takes the rows of a sparse cotangent as they are.
        resource: the class of its attribute ``resource``; None if any will do, or it has no such
            attribute.
        reads_variable: whether its result is the value of the variable that is its attribute
            ``resource``, and it does nothing else to state.
        updates: of an op that changes a variable, the name of the op whose result with the old
            value is the new one.
        errors_as: of an op that is only part of public functions, the name with which its errors
            begin if no public function is on the stack (in a graph); empty for none.
        with_gradient: of a loss whose gradient is the same op with one more input, the name of the
            op that gives both.
        pair: of an op whose inputs are values and indices, the name of the op that computes it for
            two arrays of values by the same indices.
        draws: whether it takes a ticket of the generator that is its attribute ``resource``, and
            does nothing else to state.
        inline: an expression equivalent to the portable kernel that takes less time than a call.
        on_stack: the statements that run the op on a Python list, in place of a list whose old
            versions stay; its first input and output are the list.
        host_inputs: the inputs whose values the kernel reads in the memory of the host, wherever
            it runs, because they decide its work: indices into lists, counts and keys. By
            position, from the end where negative; a function from the attributes, if it depends
            on them.
        host_outputs: the outputs that the kernel makes in the memory of the host. A kernel makes
            either none or all of its outputs there, and then touches the memory of no device.
        on_host: whether the kernel has to run at once, in the calling thread, on the arrays as
            they are: it changes state, calls Python or holds lists. It holds for all effects.
        calls_user: whether it calls Python code of the user, which may wait for another step.
        reaches: the objects that it touches besides values and state: files, or Python objects
            that are no values. An op that reaches nothing may run for another process; an op with
            an effect has to state it.
        holds: whether it acquires its resource, until the end of the step at the latest.
        releases: whether it releases its resource, which a step that fails does as well.
        many: whether its operands are many elements of a resource, as many as their first axis is
            long.
        fill: of an op whose elements all equal one number, a function from the attributes to that
            number, or to None if it is not known.
        sums: whether the result is the sum of the inputs.
        row_sum: of an op that adds rows to zeros, the description of the sum.
        remedy: the usual remedy where a result becomes NaN or infinite, for messages.
        gradient_remedy: likewise in the gradient of the op; empty where it is the same.
        batch: its batching rule (`batch_rules.py`), or the reason why it has none. With None a
            pure op is applied to one row after the other.
    """

    precision: Precision
    takes_bytes: bool
    saved: Saved
    cost: CostRule
    outputs: int | None
    elementwise: bool
    ieee: bool
    storage: Storage
    order: Order
    parts: bool
    array_scalars: bool
    fails_on: FailsOn | Callable[[Mapping[str, Any]], FailsOn]
    raises: Raised | Callable[[Mapping[str, Any]], Raised]
    linear_rows: bool
    resource: type | None
    reads_variable: bool
    updates: str | None
    errors_as: str | None
    with_gradient: str | None
    pair: str | None
    draws: bool
    inline: InlineRule | None
    on_stack: StackRule | None
    host_inputs: Positions | Callable[[Mapping[str, Any]], Positions]
    host_outputs: Positions
    on_host: bool
    calls_user: bool
    reaches: Reaches
    holds: bool
    releases: bool
    many: bool
    fill: Callable[[Mapping[str, Any]], Any] | None
    sums: bool
    row_sum: RowSum | None
    remedy: str
    gradient_remedy: str
    batch: BatchRule | str | None


#: the facts of an op that states nothing
GENERAL: Final[OpFacts] = {
    "commutative": False, "neutral": None, "involution": False, "idempotent": False,
    "precision": "elementwise", "takes_bytes": False, "saved": "all", "cost": moving,
    "outputs": 1, "elementwise": False, "ieee": False, "storage": "either", "order": "unknown",
    "parts": False, "array_scalars": False, "fails_on": "values", "raises": (),
    "linear_rows": False, "resource": None, "reads_variable": False, "updates": None,
    "errors_as": None, "with_gradient": None, "pair": None, "draws": False, "inline": None,
    "on_stack": None,
    "calls_user": False, "host_inputs": (), "host_outputs": (), "on_host": False,
    "reaches": "nothing", "holds": False, "releases": False, "many": False, "fill": None,
    "sums": False, "row_sum": None, "remedy": "", "gradient_remedy": "", "batch": None,
}  # fmt: skip

#: ops that work element by element on inputs of one dtype, with broadcasting
ELEMENTWISE: Final[OpFacts] = {
    "elementwise": True, "storage": "fresh", "order": "elementwise", "fails_on": "sizes",
    "batch": aligned,
}  # fmt: skip

#: ops that combine the elements along some axes
REDUCTION: Final[OpFacts] = {
    "cost": per_input(1), "storage": "fresh", "order": "reduced", "fails_on": "sizes",
    "batch": shifted("axis"),
}  # fmt: skip

#: ops that give elements another position, shape or order, and those that read bytes
MOVING: Final[OpFacts] = {"precision": "exact", "takes_bytes": True, "saved": "none"}

#: ops that return a view of their input
VIEW: Final[OpFacts] = {
    **MOVING, "cost": FREE, "storage": "view", "order": "input", "fails_on": "nothing",
}  # fmt: skip

_INTEGERS: Final = ("signed integer", "unsigned integer")


def neutral(
    truth: int | None, integer: int | None, floating: float | None, *, left: bool = False
) -> Neutral:
    """The neutral operand for bools, integers and floats; None if there is none.

    Complex numbers have no neutral operand: arithmetic mixes their parts.
    """
    kinds = [("bool", truth), *((kind, integer) for kind in _INTEGERS), ("real floating", floating)]
    return Neutral({kind: number for kind, number in kinds if number is not None}, left)


_R = TypeVar("_R", bound=Callable[..., Any])
_FAMILY: Final = "family"


def of_family(family: OpFacts) -> Callable[[_R], _R]:
    """Give ops of the decorated type rule the facts of ``family``, unless they state others."""

    def mark(rule: _R) -> _R:
        rule.__dict__[_FAMILY] = family
        return rule

    return mark


def family_of(rule: Callable[..., Any]) -> OpFacts:
    """The facts that ops of a type rule share."""
    return getattr(rule, _FAMILY, OpFacts())
