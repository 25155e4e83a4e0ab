"""The table of native ops by name, with their rules and kinds.

The names are the ops'. An op that is not in the table, or not for some kinds, has its portable
kernel in every form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, final

from eagerflow_kernels.native.draw_loops import DRAWS, draw_loops
from eagerflow_kernels.native.functions import (
    activations,
    arithmetic,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logarithms,
    powers,
    rows,
    special,
    trigonometric,
)
from eagerflow_kernels.native.loop_form import (
    FLOATS,
    INTEGERS,
    LOW,
    Kind,
    LoopArray,
    LoopBuilder,
    Loops,
)

Rule = Callable[..., Any]


@final
@dataclass(frozen=True, slots=True)
class NativeOp:
    """The native form of an op.

    Attributes:
        name: of the op.
        rule: ``rule(builder, *terms, **attributes)`` gives the term of the result.
        inputs: number of inputs.
        kinds: the possible kinds of the inputs, the same for all.
        along_axis: whether the op runs along an axis: a reduction, or an op that contains one.
        keeps_axis: whether its result has that axis.
        needs_elements: whether an axis without elements is an error.
        condition: whether the first input is a bool.
        takes: the attributes of the op that the rule takes, with their possible values.
        numbers: the attributes that are numbers, which the rule takes as terms.
        hands_on: whether its result is its input in another shape.
        picks: whether its inputs are a table and numbers of its rows.
    """

    name: str
    rule: Rule
    inputs: int = 1
    kinds: tuple[str, ...] = FLOATS
    along_axis: bool = False
    keeps_axis: bool = False
    needs_elements: bool = False
    condition: bool = False
    takes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    hands_on: bool = False
    picks: bool = False


_NUMBERS: Final = (*FLOATS, *INTEGERS)
_ALL: Final = (*_NUMBERS, "bool")

_OPS: Final = (
    NativeOp("add", arithmetic.add, 2, _NUMBERS),
    NativeOp("subtract", arithmetic.subtract, 2, _NUMBERS),
    NativeOp("multiply", arithmetic.multiply, 2, _NUMBERS),
    NativeOp("divide", arithmetic.divide, 2),
    NativeOp("reciprocal", arithmetic.reciprocal),
    NativeOp("negative", arithmetic.negative, 1, _NUMBERS),
    NativeOp("abs", arithmetic.absolute, 1, _NUMBERS),
    NativeOp("square", arithmetic.square, 1, _NUMBERS),
    NativeOp("sqrt", arithmetic.sqrt),
    NativeOp("rsqrt", arithmetic.rsqrt),
    NativeOp("maximum", arithmetic.maximum, 2, _NUMBERS),
    NativeOp("minimum", arithmetic.minimum, 2, _NUMBERS),
    NativeOp("clip", arithmetic.clip, 3, _NUMBERS),
    NativeOp("clip_min", arithmetic.maximum, 2, _NUMBERS),
    NativeOp("clip_max", arithmetic.minimum, 2, _NUMBERS),
    NativeOp("sign", arithmetic.sign, 1, _NUMBERS),
    NativeOp("copysign", arithmetic.copysign, 2),
    NativeOp("relu", activations.relu),
    NativeOp("hardtanh", arithmetic.clip, numbers=("low", "high")),
    NativeOp("leaky_relu", activations.leaky_relu, numbers=("slope",)),
    NativeOp("silu", activations.silu, takes={"order": (0, 1)}),
    NativeOp("gelu", activations.gelu, takes={"approximate": ("none", "tanh"), "order": (0, 1)}),
    NativeOp("round", arithmetic.round_to_even),
    NativeOp("floor", arithmetic.floor),
    NativeOp("ceil", arithmetic.ceil),
    NativeOp("trunc", arithmetic.trunc),
    NativeOp("equal", arithmetic.equal, 2, _ALL),
    NativeOp("not_equal", arithmetic.not_equal, 2, _ALL),
    NativeOp("less", arithmetic.less, 2, _NUMBERS),
    NativeOp("less_equal", arithmetic.less_equal, 2, _NUMBERS),
    NativeOp("greater", arithmetic.greater, 2, _NUMBERS),
    NativeOp("greater_equal", arithmetic.greater_equal, 2, _NUMBERS),
    NativeOp("logical_and", arithmetic.logical_and, 2, _ALL),
    NativeOp("logical_or", arithmetic.logical_or, 2, _ALL),
    NativeOp("logical_not", arithmetic.logical_not, 1, _ALL),
    NativeOp("logical_xor", arithmetic.logical_xor, 2, _ALL),
    NativeOp("isnan", arithmetic.isnan),
    NativeOp("isinf", arithmetic.isinf),
    NativeOp("isfinite", arithmetic.isfinite),
    NativeOp("where", arithmetic.where, 3, _ALL, condition=True),
    NativeOp("cast", arithmetic.cast, 1, _ALL),
    NativeOp("broadcast_to", arithmetic.same, 1, _ALL, hands_on=True),
    NativeOp("expand_dims", arithmetic.same, 1, _ALL, hands_on=True),
    NativeOp("reshape", arithmetic.same, 1, _ALL, hands_on=True),
    NativeOp("squeeze", arithmetic.same, 1, _ALL, hands_on=True),
    NativeOp("exp", exponential.exp),
    NativeOp("log", logarithms.log),
    NativeOp("tanh", hyperbolic.tanh),
    NativeOp("sigmoid", activations.sigmoid),
    NativeOp("expm1", exponential.expm1),
    NativeOp("log1p", logarithms.log1p),
    NativeOp("softplus", special.softplus),
    NativeOp("elu", special.elu, numbers=("alpha",)),
    NativeOp("erf", special.erf),
    NativeOp("erfc", special.erfc),
    NativeOp("sin", trigonometric.sin, 1, ("f32",)),
    NativeOp("cos", trigonometric.cos, 1, ("f32",)),
    NativeOp("tan", trigonometric.tan, 1, ("f32",)),
    NativeOp("pow", powers.power, 2, ("f32",)),
    NativeOp("asin", inverse_trigonometric.asin, 1, ("f32",)),
    NativeOp("acos", inverse_trigonometric.acos, 1, ("f32",)),
    NativeOp("atan", inverse_trigonometric.atan, 1, ("f32",)),
    NativeOp("atan2", inverse_trigonometric.atan2, 2, ("f32",)),
    NativeOp("sinh", hyperbolic.sinh, 1, ("f32",)),
    NativeOp("cosh", hyperbolic.cosh),
    NativeOp("asinh", hyperbolic.asinh, 1, ("f32",)),
    NativeOp("acosh", hyperbolic.acosh, 1, ("f32",)),
    NativeOp("atanh", hyperbolic.atanh, 1, ("f32",)),
    NativeOp("exp2", exponential.exp2),
    NativeOp("log2", logarithms.log2),
    NativeOp("log10", logarithms.log10, 1, ("f32",)),
    NativeOp("cbrt", powers.cbrt, 1, ("f32",)),
    NativeOp("hypot", powers.hypot, 2, ("f32",)),
    NativeOp("logaddexp", logarithms.logaddexp, 2, ("f32",)),
    NativeOp("sum", rows.total, along_axis=True),
    NativeOp("sum_to", rows.total, along_axis=True),
    NativeOp("prod", rows.product, along_axis=True),
    NativeOp("any", rows.any_of, 1, _ALL, along_axis=True),
    NativeOp("all", rows.all_of, 1, _ALL, along_axis=True),
    NativeOp("var", rows.variance, along_axis=True, numbers=("correction",)),
    NativeOp("std", rows.deviation, along_axis=True, numbers=("correction",)),
    NativeOp("max", rows.largest, along_axis=True, needs_elements=True),
    NativeOp("min", rows.smallest, along_axis=True, needs_elements=True),
    NativeOp("mean", rows.mean, along_axis=True),
    NativeOp("argmax", rows.first_largest, 1, _ALL, along_axis=True, needs_elements=True),
    NativeOp("argmin", rows.first_smallest, 1, _ALL, along_axis=True, needs_elements=True),
    NativeOp("count_nonzero", rows.count_nonzero, 1, _ALL, along_axis=True),
    NativeOp("take", rows.picked, 2, _NUMBERS, along_axis=True, keeps_axis=True, picks=True),
    NativeOp("cumulative_sum", rows.running_total, along_axis=True, keeps_axis=True),
    NativeOp("cumulative_prod", rows.running_product, along_axis=True, keeps_axis=True),
    NativeOp("softmax", rows.softmax, along_axis=True, keeps_axis=True),
    NativeOp("log_softmax", rows.log_softmax, along_axis=True, keeps_axis=True),
    NativeOp("logsumexp", rows.logsumexp, along_axis=True),
    NativeOp("standardize", rows.standardize, along_axis=True, keeps_axis=True, numbers=("eps",)),
)

OPS: Final[dict[str, NativeOp]] = {op.name: op for op in _OPS}


def loops_of(name: str, *kinds: Kind, **attributes: Any) -> Loops:
    """The loops of a single op, for its callable form.

    Args:
        name: of the op.
        kinds: of its inputs.
        attributes: arguments of its rule.

    Raises:
        KeyError: the op is not native for these kinds.

    >>> from eagerflow_kernels.native.loop_text import show
    >>> print(show(loops_of("reciprocal", "f64")))
    loops reciprocal_f64(f64) -> f64:
      %0 = load 0: f64
      %1 = constant 0x1.0000000000000p+0: f64
      %2 = divide %1 %0: f64
      return %2
    """
    op = OPS[name]
    values = kinds[1:] if op.condition else kinds
    right = (
        len(kinds) == op.inputs and len(set(values)) == 1 and set(values) <= set(op.kinds)
        and (not op.condition or kinds[0] == "bool")
    )  # fmt: skip
    if not right:
        raise KeyError(f"{name} is not native for {', '.join(kinds)}")
    arrays = [LoopArray(kind, inner=op.along_axis) for kind in kinds]
    if op.picks:
        arrays = [LoopArray(kinds[0], inner=True, table=True), LoopArray("i64")]
    arrays += [LoopArray(kinds[-1]) for _ in op.numbers]
    b = LoopBuilder(arrays)
    numbers = {number: b.load(op.inputs + i) for i, number in enumerate(op.numbers)}
    made = op.rule(b, *(b.load(i) for i in range(op.inputs)), **numbers, **attributes)
    called = name_of(name, *kinds, **attributes)
    return b.build(called, list(made) if isinstance(made, tuple) else [made])


def name_of(name: str, *kinds: Kind, **attributes: Any) -> str:
    """The name of the loops of a single op.

    >>> name_of("silu", "f32", order=1)
    'silu_f32_1'
    """
    return "_".join([name, *kinds[-1:], *map(str, attributes.values())])


def apply_op(
    b: LoopBuilder,
    name: str,
    terms: Sequence[int],
    attributes: Mapping[str, Any],
    rounds: Kind | None = None,
) -> list[int]:
    """The terms of the results of an op on terms; low kinds are computed in float32.

    Args:
        b: the builder of the loops.
        name: of the op.
        terms: its inputs.
        attributes: arguments of its rule; numbers become constants of the kind of the first input.
        rounds: the low kind that results in float32 are rounded to.
    """
    op = OPS[name]
    terms = [b.apply("convert", x, kind="f32") if b.kind(x) in LOW else x for x in terms]
    given = {
        key: arithmetic.nearest(b, value, terms[0]) if key in op.numbers else value
        for key, value in attributes.items()
    }
    made = op.rule(b, *terms, **given)
    results = list(made) if isinstance(made, tuple) else [made]
    if rounds is None:
        return results
    return [b.apply("convert", x, kind=rounds) if b.kind(x) == "f32" else x for x in results]


#: casts of float16, with the kinds of operand and result; NumPy converts element by element
HALF_CASTS: Final[dict[str, tuple[Kind, Kind]]] = {
    "widen": ("f16", "f32"),
    "narrow": ("f32", "f16"),
}


def half_cast_loops(name: str) -> Loops:
    """The loops of a cast between float16 and float32."""
    given, made = HALF_CASTS[name]
    b = LoopBuilder([LoopArray(given)])
    return b.build(f"{name}_f16", [b.apply("convert", b.load(0), kind=made)])


#: kinds whose ops have a callable form
CALLED: Final[tuple[Kind, ...]] = ("f32", "f64")
#: ops that only select or move bits or count, and casts, which NumPy's `astype` does
PORTABLE: Final = frozenset({
    "all", "any", "argmax", "argmin", "count_nonzero", "where", "cast", "copysign", "isfinite",
    "isinf", "isnan", "logical_and", "logical_not", "logical_or", "logical_xor",
    *(op.name for op in OPS.values() if op.hands_on or op.picks),
})  # fmt: skip

#: callable ops that are single operations of IEEE 754, or select or round by one
_SAME_BITS: Final = frozenset({
    "add", "subtract", "multiply", "divide", "reciprocal", "negative", "abs", "square", "sqrt",
    "sign", "round", "floor", "ceil", "trunc", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal",
})  # fmt: skip
_KINDS: Final[Mapping[str, Kind]] = {"float16": "f32", "float32": "f32", "float64": "f64"}


def has_own_bits(name: str, dtypes: Sequence[str]) -> bool:
    """Whether the native kernel of an op may differ from NumPy's function in the last bits.

    Args:
        name: of the op.
        dtypes: the names of the dtypes of its inputs.

    >>> has_own_bits("exp", ["float32"]), has_own_bits("sin", ["float64"])
    (True, False)
    """
    op = OPS.get(name)
    if op is None or name in PORTABLE or name in _SAME_BITS or len(set(dtypes)) != 1:
        return False
    return _KINDS.get(dtypes[0]) in op.kinds


def callable_loops() -> Iterator[Loops]:
    """The loops of all callable forms."""
    for kind in CALLED:
        for op in OPS.values():
            if op.name not in PORTABLE and kind in op.kinds:
                for values in product(*op.takes.values()):
                    attributes = dict(zip(op.takes, values, strict=True))
                    yield loops_of(op.name, *[kind] * op.inputs, **attributes)
        for name in LOSSES:
            yield loss_loops(name, kind)
        yield sums_loops(kind)
    for kinds in SUMMED:
        yield sums_and_numbers_loops(*kinds)
    for name, kind in DRAWS:
        yield draw_loops(name, kind)
    yield from map(half_cast_loops, HALF_CASTS)


#: the name of the loops that add rows to the rows of a table, and of those that add a number of
#: each row to another table besides
SUMS: Final = "sums_of_segments"
SUMS_AND_NUMBERS: Final = "sums_of_segments_and_numbers"
#: the kinds of the rows and of the numbers
SUMMED: Final[tuple[tuple[Kind, Kind], ...]] = (
    ("f32", "f32"), ("f32", "i64"), ("f64", "f64"), ("f64", "i64"),
)  # fmt: skip


def sums_loops(kind: Kind) -> Loops:
    """The loops that add rows to the rows of a table: values, their places, the table.

    Their result is, for each row, whether the table has its place.
    """
    b = LoopBuilder([LoopArray(kind, True), LoopArray("i64"), LoopArray(kind, True, table=True)])
    return b.build(name_of(SUMS, kind), [b.scatter(2, b.load(0), b.load(1))])


def sums_and_numbers_loops(kind: Kind, of_numbers: Kind) -> Loops:
    """The loops that add rows, and a number of each, to two tables at the same places.

    They take rows, numbers, places, and the tables. Their result is, for each row, whether both
    tables have its place.
    """
    b = LoopBuilder([
        LoopArray(kind, True), LoopArray(of_numbers), LoopArray("i64"),
        LoopArray(kind, True, table=True), LoopArray(of_numbers, table=True),
    ])  # fmt: skip
    place = b.load(2)
    there = b.apply("and", b.scatter(3, b.load(0), place), b.scatter(4, b.load(1), place))
    return b.build(name_of(f"{SUMS_AND_NUMBERS}_{kind}", of_numbers), [there])


#: parts of losses, with the index of their first result among those of `rows.shares_and_losses`
LOSSES: Final = {"shares_and_losses": 0, "losses": 1}


def loss_loops(name: str, kind: Kind) -> Loops:
    """The loops of a part of a loss, which is in no region."""
    b = LoopBuilder([LoopArray(kind, inner=True), LoopArray(kind)])
    results = rows.shares_and_losses(b, b.load(0), b.load(1))
    return b.build(name_of(name, kind), list(results[LOSSES[name] :]))
