"""Draws of random numbers: ops, keys, and checks of parameters.

The public namespace is `eagerflow.ops.names.random`, which also defines draws.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from eagerflow.core.interpreter import is_traced
from eagerflow.core.moves_to_scopes import device_for
from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import aligned, each_row
from eagerflow.core.op_records.cost_formulas import per_output
from eagerflow.core.op_records.op_facts import OpFacts, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, scalar, tensor_of
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import DTypeError, TensorValueError
from eagerflow.hardware import Device, as_device, current_device
from eagerflow.ops.indexing.where_and_nonzero import where
from eagerflow.ops.rules.arguments import DeviceLike, as_index, as_shape
from eagerflow.ops.rules.promotion import cast, host_check
from eagerflow.resources.generator import GeneratorState
from eagerflow.types import (
    DTYPES,
    FLOAT32,
    FLOAT64,
    DType,
    DTypeLike,
    Shape,
    TensorType,
    as_dtype,
    broadcast_shapes,
    promote_dtypes,
)
from eagerflow_kernels.portable.random import CLAIMS

if TYPE_CHECKING:
    from eagerflow.ops.names.random import Generator

_UINT64: Final = DTYPES["uint64"]
#: significant bits of the floating dtypes
_DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8,
                  "float8_e4m3fn": 4, "float8_e5m2": 3}  # fmt: skip

#: the generator of draws without a generator argument
default_state: Final = GeneratorState()


_OF_GENERATOR: Final[OpFacts] = {
    "precision": "exact", "resource": GeneratorState, "host_outputs": (0,),
}  # fmt: skip


@of_family(_OF_GENERATOR)
def _key_type(*, resource: GeneratorState, device: Device | None = None) -> TensorType:
    return TensorType(_UINT64, (2,))


@of_family(_OF_GENERATOR)
def _set_key_type(
    *, resource: GeneratorState, seed: Any, ticket: Any, device: Device | None = None
) -> TensorType:
    return _key_type(resource=resource, device=device)


@of_family({"precision": "exact", "storage": "fresh", "host_inputs": (0,)})
def draw_type(key: TensorType, *, shape: Shape, dtype: DType, **attrs: object) -> TensorType:
    """The type rule of draws."""
    if key.dtype is not _UINT64 or key.shape != (2,):
        raise DTypeError("the operand is not the key of a draw", expected="u64[2]: seed and ticket")
    return TensorType(dtype, shape)


def _integers_type(
    key: TensorType, low: TensorType, last: TensorType, *, shape: Shape, wide: bool | None
) -> TensorType:
    if not low.dtype.is_integer or last.dtype is not low.dtype:
        raise DTypeError("the bounds must be of one integer dtype")
    return draw_type(key, shape=broadcast_shapes(shape, low.shape, last.shape), dtype=low.dtype)


_NEXT_KEY: Final = define(
    "next_key", infer=_key_type, vjp=(), effect="writes", draws=True, reaches="nothing"
)
#: for traces only, where setting a generator is a node of the graph
_SET_KEY: Final = define(
    "set_key", infer=_set_key_type, vjp=(), effect="fence", outputs=None, reaches="nothing"
)
_drawing = partial(define, infer=draw_type, vjp=(None,))
BITS: Final = _drawing("random_bits", cost=per_output(20), batch=each_row)
UNIFORM: Final = _drawing("random_uniform", cost=per_output(20), batch=each_row)
NORMAL: Final = _drawing("random_normal", cost=per_output(100), batch=each_row)
EXPONENTIAL: Final = _drawing("random_exponential", cost=per_output(50), batch=each_row)
GUMBEL: Final = _drawing("random_gumbel", cost=per_output(50), batch=each_row)
TRUNCATED_NORMAL: Final = _drawing("random_truncated_normal", cost=per_output(100), batch=each_row)
INTEGERS: Final = define(
    "random_integers",
    infer=_integers_type,
    vjp=(None,) * 3,
    precision="exact",
    cost=per_output(20),
    host_inputs=(0,),
    batch=each_row,
)


def set_state(state: GeneratorState, seed: Any, ticket: Any = 0) -> None:
    """Set seed and next ticket of a generator; in a traced function, in each run."""
    if is_traced():
        seed, ticket = as_index("seed", "the seed", seed), as_index("seed", "the ticket", ticket)
        GeneratorState(seed).set(seed, ticket)  # refuses invalid values now
        bind(_SET_KEY, resource=state, seed=seed, ticket=ticket, device=current_device())
    else:
        state.set(seed, ticket)


def key_of(generator: Generator | None, device: Device) -> Tensor:
    """The key of a draw, taken from the generator."""
    state = default_state if generator is None else getattr(generator, "_state", None)
    if not isinstance(state, GeneratorState):
        raise DTypeError("generator is not an ef.random.Generator", given=type(generator).__name__)
    return bind(_NEXT_KEY, resource=state, device=device)


def is_number(x: object) -> TypeGuard[float]:
    """Whether ``x`` is a plain Python number, whose value is known."""
    return type(x) is float or type(x) is int


def is_deferred(x: object) -> bool:
    """Whether ``x`` is a number or a size known only at run time."""
    return issubclass(type(x), AbstractAsked)


def is_weak(x: TensorLike) -> bool:
    """Whether ``x`` is a plain number or a size, known now or only at run time.

    Such numbers are weak: they take the dtype of their tensor partner.

    >>> from eagerflow.extending import is_weak
    >>> is_weak(2.0), is_weak(ef.Dim("n")), is_weak(ef.tensor(2.0))
    (True, True, False)
    """
    return is_number(x) or is_deferred(x)


def device_of(device: DeviceLike, tensors: list[Tensor]) -> Device:
    """The device of a draw: as requested, else that of its parameters, else the current device."""
    if device is not None:
        return as_device(device)
    return device_for(*tensors)


def _floating(name: str, dtype: DTypeLike, tensors: list[Tensor]) -> DType:
    """The dtype of a floating draw: as requested, else that of its parameters."""
    if dtype is not None:
        out_dtype = as_dtype(dtype)
        if not out_dtype.is_floating:
            raise DTypeError(f"{name}: {out_dtype.name} is not a real floating dtype")
        return out_dtype
    common = promote_dtypes(*(t.dtype for t in tensors)) if tensors else FLOAT32
    return common if common.is_floating else FLOAT32


def parameters(
    name: str, shape: Any, dtype: DTypeLike, device: DeviceLike, *values: TensorLike
) -> tuple[Shape, DType, Device, list[Any]]:
    """Shape, dtype and device of a draw, and its parameters: unchanged numbers, or tensors."""
    tensors = [tensor_of(v) for v in values if not is_weak(v)]
    made = _floating(name, dtype, tensors)
    where = device_of(device, tensors)
    sizes = broadcast_shapes(as_shape(name, shape), *(t.shape for t in tensors))
    ready = [v if is_weak(v) else as_tensor(v, made, where) for v in values]
    return sizes, made, where, ready


def draw(
    op: Op, shape: Shape, dtype: DType, device: Device, generator: Generator | None, **attrs: Any
) -> Tensor:
    """A floating draw; in dtypes narrower than float32, a rounded float32 draw."""
    made = dtype if dtype.itemsize >= 4 else FLOAT32
    result = bind(op, key_of(generator, device), shape=shape, dtype=made, **attrs)
    return cast(result, dtype)


def uniform_draw(shape: Shape, dtype: DType, device: Device, generator: Generator | None) -> Tensor:
    """A uniform draw from [0, 1), with as many random bits as the dtype has digits."""
    return draw(UNIFORM, shape, dtype, device, generator, digits=_DIGITS[dtype.name])


def affine(values: Tensor, loc: Any, scale: Any) -> Tensor:
    """``loc + scale * values``, without additions and products by neutral operands."""
    if not (is_number(scale) and scale == 1):
        values = values * scale
    if is_number(loc) and loc == 0:
        return values
    moved: Tensor = values + loc
    if not is_deferred(loc):
        return moved
    # adding 0 would turn -0 into 0, so a number that is 0 is not added
    exact = scalar(loc, values.device.lanes[FLOAT64])
    return where(exact != 0.0, moved, values)


# --- checks of parameters ---------------------------------------------------------------------


_check_parameters: Final = define(
    "check_parameters",
    infer=lambda x, *parameters, claim, refusal: x,
    vjp=lambda i, g, out, x, *parameters, claim, refusal: None if i else g,
    saved="none",
    precision="exact",
    array_scalars=True,
    batch=aligned,
)


def in_range(x: Any, claim: str, refusal: str, *parameters: Any, dtype: DType, on: Device) -> Any:
    """``x``, with a check of the parameters of a draw, as far as the host can see them.

    Args:
        x: the value that the draw is computed with.
        claim: the name of the condition: ``"scale"``, ``"positive"``, ``"probability"``,
            ``"bounds"`` or ``"logits"``.
        refusal: the error's first line.
        parameters: numbers and tensors; parameters known only at run time are checked then.
        dtype: the dtype in which numbers are checked.
        on: the device on which numbers are checked.

    Raises:
        TensorValueError: the condition does not hold.

    >>> from eagerflow.extending import in_range
    >>> def scaled(x, scale):
    ...     wrong = "scaled: the scale is negative"
    ...     return x * in_range(scale, "scale", wrong, scale, dtype=x.dtype, on=x.device)
    >>> scaled(ef.ones(2), 2.0).tolist(), ef.trace(scaled)(ef.ones(2), 2.0).tolist()
    ([2.0, 2.0], [2.0, 2.0])
    >>> scaled(ef.ones(2), -1.0)
    Traceback (most recent call last):
    eagerflow.errors.TensorValueError: scaled: the scale is negative
      got: -1.0
      at: ...
    """
    if not is_traced() or all(map(is_number, parameters)):
        if not host_check(CLAIMS[claim], *parameters):
            raise TensorValueError(refusal, given=", ".join(map(str, parameters)))
        return x
    lane = on.lanes[dtype]
    first, *rest = (scalar(v, lane) if is_weak(v) else v for v in (x, *parameters))
    return bind(_check_parameters, first, *rest, claim=claim, refusal=refusal)
