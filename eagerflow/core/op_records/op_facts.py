"""The facts that an op states besides its rules, and what families of ops have in common.

Passes, generated code and estimates ask the record of an op; nowhere is a list of op names. What
an op does not state it has from the family of its type rule (`of_family`), else from `GENERAL`.
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

#: where the memory of a result comes from: ``"fresh"`` is an array of its own, ``"same"`` the first
#: input as it is, ``"view"`` the memory of the first input, and ``"either"`` says nothing
Storage = Literal["fresh", "same", "view", "either"]

#: how a result lies in memory, as arrays of NumPy do:
#:
#: - ``"rows"``: by rows (in C order), whatever the inputs are;
#: - ``"elementwise"``: as ufuncs lay theirs, in the order of the axes that the inputs agree on;
#: - ``"input"``: as the first input, ``"last input"``: as the last one;
#: - ``"joined"``: by rows if all inputs do;
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
#: what of the world outside of values and state: ``"unknown"`` may be anything
Reaches = Literal["nothing", "files", "python", "unknown"]
Raised = Sequence[type[BaseException]]
Positions = tuple[int, ...]  # of inputs or outputs, from the end where negative


class Neutral(NamedTuple):
    """An operand that changes nothing: the result has the bits of the other one.

    Attributes:
        numbers: by kind of dtype which number it is; -1 of unsigned integers has all bits set.
        left: whether it may be the first operand as well as the second.
    """

    numbers: Mapping[str, float]
    left: bool = False


class RowSum(NamedTuple):
    """An op that adds its first input to zeros, at the indices that are the second.

    Attributes:
        is_whole: ``is_whole(values, indices, shape, attrs)``, of the shapes of the inputs and of
            the result: whether each index selects a whole row, along the first axis.
        slices: ``slices(values, indices, shape)`` gives the rows that it adds, if they are whole.
    """

    is_whole: Callable[[Shape, Shape, Shape, Mapping[str, Any]], bool]
    slices: Callable[[Tensor, Tensor, Shape], IndexedSlices]


class InlineSite(NamedTuple):
    """Where generated code runs an op.

    Attributes:
        operands: the expressions of the inputs.
        types: of the inputs.
        attrs: the attributes.
        outputs: how many outputs there are.
        bound: names an object: ``bound(value, hint)``.
    """

    operands: Sequence[str]
    types: Sequence[TensorType]
    attrs: Mapping[str, Any]
    outputs: int
    bound: Callable[[Any, str], str]


#: gives the expression, and what it has to stand under (``"with lock: "``); None if there is none
InlineRule = Callable[[InlineSite], tuple[str, str] | None]
#: ``rule(name, operands, outputs)`` gives the statements that do it to the Python list ``name``
StackRule = Callable[[str, Sequence[str], Sequence[str]], Iterator[str]]


class AlgebraFacts(TypedDict, total=False):
    """What holds bit for bit, NaN, infinities and -0.0 included; of ops and of Python's operators.

    Attributes:
        commutative: ``f(x, y)`` is ``f(y, x)``, up to which of two NaNs it is.
        neutral: the operand that changes nothing.
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

    They hold for the portable kernel on a CPU; another kernel is to keep them.

    Attributes:
        precision: ``"exact"`` moves elements and takes every dtype as it is; other ops compute
            the dtypes of ml_dtypes in float32, and ``"accumulate"`` float16 as well.
        takes_bytes: whether inputs may be bytes.
        saved: what the vjp reads the *values* of; of all else it sees dtype and shape only.
            ``"indices"`` are the inputs of integer and bool dtypes.
        cost: the rule of what it costs (`eagerflow.core.op_records.cost_formulas`).
        outputs: how many outputs it has; None for a tuple of as many as the type rule gives. An op
            of one output gives a tensor, any other a tuple.
        elementwise: whether each element is computed from those at its position alone, once the
            inputs are broadcast. So it may be computed block by block, and written into an input
            of the same type that is not needed any more.
        ieee: whether it is one operation of IEEE 754 (or of bits) for each element, so that its
            bits do not depend on how many are computed at a time.
        storage: where the memory of the result comes from.
        order: how the result lies in memory.
        array_scalars: whether kernels give arrays even where a result has no axes.
        fails_on: for what the kernel may raise an error where the type rule takes the types:
            ``"nothing"``; ``"sizes"`` that are symbolic and turn out not to fit; or ``"values"``. A
            function from the attributes to one of them, if it depends on these. For lack of memory
            any may.
        raises: what it raises in an ordinary run, so that programs have handlers for it:
            exceptions, or a function from its attributes to them.
        linear_rows: whether its vjp does the same to each row of a cotangent, and nothing else, so
            that it takes the rows of a sparse one as they are.
        resource: the class that its attribute ``resource`` must be of; None if any will do, or it
            has none.
        reads_variable: whether its result is the value of the variable that is its attribute
            ``resource``, and it does nothing else to state.
        updates: of an op that changes a variable, the name of the op whose result with the old
            value is the new one.
        errors_as: of an op that is only part of public functions, the name with which its errors
            begin where no function of the user's stands around it (in a graph); empty for none.
        with_gradient: of a loss whose gradient is the same op with one more input, the name of the
            op that gives both.
        draws: whether it takes a ticket of the generator that is its attribute ``resource``, and
            does nothing else to state.
        inline: the expression that does what the portable kernel does, in less time than it takes
            to call it.
        on_stack: the statements that do it to a list of Python, in place of a list of which old
            versions stay; its first input and output are the list.
        host_inputs: the inputs whose values the kernel reads in the memory of the host, wherever
            it runs: what decides what is done, such as indices into lists, counts and keys. By
            position, from the end where negative; a function from the attributes, if it depends
            on these.
        host_outputs: the outputs that the kernel makes there. One that makes some there makes all
            of them there, and touches the memory of no device.
        on_host: whether the kernel has to run at once, in the thread that calls, on the arrays as
            they are: it changes state, calls Python or holds lists. So it is for all effects.
        calls_user: whether it calls Python code of the user, which may wait for another step.
        reaches: what it touches besides values and state: files, or objects of Python that are
            no values. What is known to reach nothing may run for another process; an op with an
            effect has to say so.
        holds: whether it takes hold of its resource, until the end of the step at the latest.
        releases: whether it gives its resource back, which a step that fails does as well.
        fill: of an op whose elements are all the same number, which one, from the attributes; the
            function gives None where it is not known.
        sums: whether the result is the sum of the inputs.
        row_sum: of an op that adds rows to zeros, how.
        batch: how it is applied to many rows at once (`batch_rules.py`), or the reason why it
            cannot be. None of a pure op applies it to one row after the other.
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
    array_scalars: bool
    fails_on: FailsOn | Callable[[Mapping[str, Any]], FailsOn]
    raises: Raised | Callable[[Mapping[str, Any]], Raised]
    linear_rows: bool
    resource: type | None
    reads_variable: bool
    updates: str | None
    errors_as: str | None
    with_gradient: str | None
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
    fill: Callable[[Mapping[str, Any]], Any] | None
    sums: bool
    row_sum: RowSum | None
    batch: BatchRule | str | None


#: what holds of an op that states nothing
GENERAL: Final[OpFacts] = {
    "commutative": False, "neutral": None, "involution": False, "idempotent": False,
    "precision": "elementwise", "takes_bytes": False, "saved": "all", "cost": moving,
    "outputs": 1, "elementwise": False, "ieee": False, "storage": "either", "order": "unknown",
    "array_scalars": False, "fails_on": "values", "raises": (), "linear_rows": False,
    "resource": None, "reads_variable": False, "updates": None, "errors_as": None,
    "with_gradient": None, "draws": False, "inline": None, "on_stack": None, "calls_user": False,
    "host_inputs": (), "host_outputs": (), "on_host": False,
    "reaches": "nothing", "holds": False, "releases": False, "fill": None, "sums": False,
    "row_sum": None, "batch": None,
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

#: those that look at an array in another way
VIEW: Final[OpFacts] = {
    **MOVING, "cost": FREE, "storage": "view", "order": "input", "fails_on": "nothing",
}  # fmt: skip

_INTEGERS: Final = ("signed integer", "unsigned integer")


def neutral(
    truth: int | None, integer: int | None, floating: float | None, *, left: bool = False
) -> Neutral:
    """The operand that changes nothing, for bools, integers and floats; None if there is none.

    For complex numbers there is none: arithmetic mixes their parts.
    """
    kinds = [("bool", truth), *((kind, integer) for kind in _INTEGERS), ("real floating", floating)]
    return Neutral({kind: number for kind, number in kinds if number is not None}, left)


_R = TypeVar("_R", bound=Callable[..., Any])
_FAMILY: Final = "family"


def of_family(family: OpFacts) -> Callable[[_R], _R]:
    """Let ops of the decorated type rule have the facts of ``family`` unless they state others."""

    def mark(rule: _R) -> _R:
        rule.__dict__[_FAMILY] = family
        return rule

    return mark


def family_of(rule: Callable[..., Any]) -> OpFacts:
    """The facts that ops of a type rule have in common."""
    return getattr(rule, _FAMILY, OpFacts())
