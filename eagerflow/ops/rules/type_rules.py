"""Shared type rules. A rule takes types and attributes, and returns types or raises.

Messages here do not name the op: `eagerflow.core.infer` adds its name and inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack

from eagerflow.core.op import Effect, Op, define
from eagerflow.core.op_records.cost_formulas import per_output
from eagerflow.core.op_records.op_facts import ELEMENTWISE, OpFacts, of_family
from eagerflow.dims import may_equal
from eagerflow.errors import AxisError, DeviceError, DTypeError
from eagerflow.hardware import Device
from eagerflow.hardware.device_rules import common_device
from eagerflow.resources.kind_words import class_of, kind_name
from eagerflow.types import DTYPES, DType, Shape, TensorType, broadcast_shapes

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor

    Vjp = Callable[..., Tensor | None] | None

BOOL: Final = frozenset({"bool"})
INTEGER: Final = frozenset({"signed integer", "unsigned integer"})
INTEGER_OR_BOOL: Final = INTEGER | BOOL
FLOATING: Final = frozenset({"real floating"})
COMPLEX: Final = frozenset({"complex floating"})
INEXACT: Final = FLOATING | COMPLEX
REAL: Final = INTEGER | FLOATING
NUMERIC: Final = REAL | COMPLEX
ANY: Final = NUMERIC | BOOL
BYTE_STRINGS: Final = frozenset({"bytes"})
ALL: Final = ANY | BYTE_STRINGS


def of_state(*devices: Any, resource: Any, **attrs: Any) -> Any:
    """The device rule of ops on state: the device of the state, on which inputs must be."""
    where: Device | None = resource.device
    if where is None:  # for state without a device
        return common_device(*devices, **attrs)
    for device in devices:
        if device is not None and device != where:
            kind, made = kind_name(class_of(resource)), getattr(resource, "made", None)
            raise DeviceError(
                f"the {kind} is on {where}, the value is not",
                expected=None if made is None else f"a value where the {kind} is, made at {made}",
                hint=f"move it with .to('{where}')",
            )
    return where


def effect_op(
    name: str,
    kind: type,
    infer: Callable[..., Any],
    effect: Effect,
    *,
    devices: Callable[..., Any] = of_state,
    **facts: Unpack[OpFacts],
) -> Op:
    """Define an op that passes values to or from a resource of that kind, unchanged.

    It reaches no files and no Python objects, unless ``facts`` say so.
    """
    exact: OpFacts = {"precision": "exact", "resource": kind, "reaches": "nothing", **facts}
    return define(
        name, infer=infer, devices=devices, nondifferentiable=True, effect=effect, **exact
    )


@of_family({"host_outputs": (0,)})
def count_type(*, resource: Any, device: Device | None = None) -> TensorType:
    """The type rule of ops that count the contents of a resource."""
    return TensorType(DTYPES["int64"], ())


def nothing_type(*, resource: Any, device: Device | None = None) -> tuple[TensorType, ...]:
    """The type rule of ops that only change a resource, without outputs."""
    return ()


def cancelled_type(
    *, resource: Any, failure: str | None = None, device: Device | None = None
) -> tuple[TensorType, ...]:
    """The type of an op that closes a resource, perhaps for a failure that later errors quote."""
    return ()


def check_kind(type_: TensorType, kinds: frozenset[str]) -> None:
    """Refuse a dtype whose kind is not among ``kinds``."""
    if type_.dtype.category not in kinds:
        names = [d.short for d in DTYPES.values() if d.category in kinds]
        # integers become floats where no integers are taken
        widens = type_.dtype.category in INTEGER_OR_BOOL and "f32" in names and not kinds & INTEGER
        raise DTypeError(
            f"no rule for {type_.dtype.short}",
            expected=", ".join(names),
            hint="x.astype(ef.float32)" if widens else None,
        )


def check_same_dtype(first: TensorType, *others: TensorType) -> None:
    """Refuse inputs of different dtypes."""
    for other in others:
        if other.dtype is not first.dtype:
            raise DTypeError("the dtypes differ", expected=f"{first.dtype.short} for all")


def elementwise(
    kinds: frozenset[str] = ANY, dtype: DType | None = None
) -> Callable[..., TensorType]:
    """The type rule of elementwise ops on inputs of one dtype, with broadcasting.

    Args:
        kinds: the kinds of dtype that the op takes.
        dtype: dtype of the result, if it is not that of the inputs.

    >>> from eagerflow.extending import INEXACT, elementwise
    >>> elementwise(INEXACT)(ef.ones((2, 1)).type, ef.ones(3).type).shape
    (2, 3)
    """

    @of_family(ELEMENTWISE)
    def rule(first: TensorType, *rest: TensorType, **attrs: object) -> TensorType:
        check_kind(first, kinds)
        check_same_dtype(first, *rest)
        shape = first.shape
        if rest:
            shape = broadcast_shapes(shape, *(t.shape for t in rest))
        return first.like(shape=shape, dtype=dtype)

    return rule


def unary(
    name: str, kinds: frozenset[str], vjp: Vjp, *, flops: float = 1, **facts: Unpack[OpFacts]
) -> Op:
    """Define an elementwise op on one input.

    Args:
        name: name of the op.
        kinds: the kinds of dtype that it takes; the output has the dtype of the input.
        vjp: the vjp rule of the input.
        flops: number of operations per element.
        facts: its further facts (see `eagerflow.core.op.define`).

    >>> from eagerflow.extending import FLOATING, bind, portable, times, unary
    >>> @portable("my_softsign")
    ... def softsign(xp, x):
    ...     return x / (1 + xp.abs(x))
    >>> slope = times(lambda out, x: 1 / (1 + ef.abs(x)) ** 2)
    >>> my_softsign = unary("my_softsign", FLOATING, slope, saved="inputs")
    >>> ef.grad(lambda x: bind(my_softsign, x))(ef.tensor(1.0))
    Tensor(0.25, f32[]@cpu:0)
    """
    costly: OpFacts = {"cost": per_output(flops), **facts}
    return define(name, infer=elementwise(kinds), vjp=(vjp,), **costly)


def binary(
    name: str, kinds: frozenset[str], by_x1: Vjp, by_x2: Vjp, *, flops: float = 1,
    **facts: Unpack[OpFacts],
) -> Op:  # fmt: skip
    """Define an elementwise op on two inputs of one dtype, which broadcast.

    Args:
        name: name of the op.
        kinds: the kinds of dtype that it takes; the output has the dtype of the inputs.
        by_x1: the vjp rule of the first input, None without a derivative.
        by_x2: the vjp rule of the second input, likewise.
        flops: number of operations per element of the output.
        facts: its further facts.

    >>> from eagerflow.extending import REAL, binary, bind, portable, sum_to_like
    >>> @portable("my_gap")
    ... def gap(xp, x1, x2):
    ...     return x1 - 2 * x2
    >>> by_x1 = lambda g, out, x1, x2: sum_to_like(g, x1)
    >>> by_x2 = lambda g, out, x1, x2: sum_to_like(-2 * g, x2)
    >>> my_gap = binary("my_gap", REAL, by_x1, by_x2, saved="inputs")
    >>> bind(my_gap, ef.ones(3), ef.ones(1))
    Tensor([-1., -1., -1.], f32[3]@cpu:0)
    """
    costly: OpFacts = {"cost": per_output(flops), **facts}
    return define(name, infer=elementwise(kinds), vjp=(by_x1, by_x2), **costly)


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part of ``dtype``."""
    return DTYPES[dtype.name.replace("complex128", "float64").replace("complex64", "float32")]


def normalize_axis(axis: int, ndim: int) -> int:
    """``axis`` counted from the front.

    Raises:
        AxisError: the axis is out of range.
    """
    if not -ndim <= axis < ndim:
        expected = f"{-ndim} to {ndim - 1}" if ndim else "none: the tensor has no axes"
        raise AxisError(f"axis {axis} is out of range", expected=expected)
    return axis + ndim if axis < 0 else axis


def normalize_axes(axis: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """All axes that ``axis`` names, counted from the front.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    axes = tuple(normalize_axis(a, ndim) for a in axis)
    if len(set(axes)) != len(axes):
        raise AxisError(f"axis {axis} names an axis twice")
    return axes


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing over ``axes`` (counted from the front)."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def repeats_to(shape: Shape, whole: Shape) -> bool:
    """Whether an array of ``shape`` broadcasts to the shape ``whole``, as far as known."""
    lead = len(whole) - len(shape)
    return lead >= 0 and all(
        may_equal(a, 1) or may_equal(a, b) for a, b in zip(shape, whole[lead:], strict=True)
    )
