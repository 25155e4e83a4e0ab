"""Draws of random numbers: the ops, where their keys come from, and their parameters.

What users see is in `eagerflow.ops.random`, which also says what a draw is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from eagerflow.core.convert import TensorLike, as_tensor, tensor_of
from eagerflow.core.op import Op, bind, define
from eagerflow.core.tensor import Tensor
from eagerflow.errors import DTypeError, TensorValueError
from eagerflow.hardware import Device, as_device, current_device
from eagerflow.ops.arguments import as_shape
from eagerflow.ops.elementwise import add, multiply
from eagerflow.ops.promotion import cast, host_check
from eagerflow.resources.generator import GeneratorState
from eagerflow.types import (
    DTYPES,
    DType,
    Shape,
    TensorType,
    as_dtype,
    broadcast_shapes,
    promote_dtypes,
)

if TYPE_CHECKING:
    from eagerflow.ops.random import Generator

__all__ = [
    "BITS",
    "EXPONENTIAL",
    "GUMBEL",
    "INTEGERS",
    "NORMAL",
    "TRUNCATED_NORMAL",
    "UNIFORM",
    "affine",
    "check_scale",
    "default_state",
    "device_of",
    "draw",
    "is_number",
    "key_of",
    "parameters",
    "uniform_draw",
]

_FLOAT32: Final = DTYPES["float32"]
_UINT64: Final = DTYPES["uint64"]
#: significant bits of the floating dtypes
_DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8,
                  "float8_e4m3fn": 4, "float8_e5m2": 3}  # fmt: skip

#: the generator of draws that name none
default_state: Final = GeneratorState()


def _key_type(*, resource: GeneratorState, device: Device | None = None) -> TensorType:
    return TensorType(_UINT64, (2,), device)


def _draw_type(key: TensorType, *, shape: Shape, dtype: DType, **attrs: object) -> TensorType:
    if key.dtype is not _UINT64 or key.shape != (2,):
        raise DTypeError("this is not the key of a draw", expected="u64[2]: seed and ticket")
    return TensorType(dtype, shape, key.device)


def _integers_type(
    key: TensorType, low: TensorType, last: TensorType, *, shape: Shape, wide: bool
) -> TensorType:
    if not low.dtype.is_integer or last.dtype is not low.dtype:
        raise DTypeError("the bounds must be of one integer dtype")
    return _draw_type(key, shape=broadcast_shapes(shape, low.shape, last.shape), dtype=low.dtype)


def _define(name: str) -> Op:
    return define(name, infer=_draw_type, vjp=(None,), saved="none", precision="exact")


_NEXT_KEY: Final = define("next_key", infer=_key_type, vjp=(), effect="writes", precision="exact")
BITS: Final = _define("random_bits")
UNIFORM: Final = _define("random_uniform")
NORMAL: Final = _define("random_normal")
EXPONENTIAL: Final = _define("random_exponential")
GUMBEL: Final = _define("random_gumbel")
TRUNCATED_NORMAL: Final = _define("random_truncated_normal")
INTEGERS: Final = define(
    "random_integers", infer=_integers_type, vjp=(None,) * 3, saved="none", precision="exact"
)


def key_of(generator: Generator | None, device: Device) -> Tensor:
    """The key of one draw, taken from the generator."""
    state = default_state if generator is None else getattr(generator, "_state", None)
    if not isinstance(state, GeneratorState):
        raise DTypeError("generator is no ef.random.Generator", given=type(generator).__name__)
    key: Tensor = bind(_NEXT_KEY, resource=state, device=device)
    return key


def is_number(x: TensorLike) -> bool:
    """Whether ``x`` is a plain Python number."""
    return type(x) is float or type(x) is int


def device_of(device: Device | str | None, tensors: list[Tensor]) -> Device:
    """The device of a draw: the one asked for, else that of its parameters, else the current."""
    if device is not None:
        return as_device(device)
    return tensors[0].device if tensors else current_device()


def _floating(name: str, dtype: Any, tensors: list[Tensor]) -> DType:
    """The dtype of a floating draw: the one asked for, else that of its parameters."""
    if dtype is not None:
        found = as_dtype(dtype)
        if not found.is_floating:
            raise DTypeError(f"{name}: {found.name} is no real floating dtype")
        return found
    common = promote_dtypes(*(t.dtype for t in tensors)) if tensors else _FLOAT32
    return common if common.is_floating else _FLOAT32


def parameters(
    name: str, shape: Any, dtype: Any, device: Device | str | None, *values: TensorLike
) -> tuple[Shape, DType, Device, list[Any]]:
    """Shape, dtype and device of a draw, and its parameters: numbers as they are, or tensors."""
    tensors = [tensor_of(v) for v in values if not is_number(v)]
    made = _floating(name, dtype, tensors)
    where = device_of(device, tensors)
    sizes = broadcast_shapes(as_shape(name, shape), *(t.shape for t in tensors))
    ready = [v if is_number(v) else as_tensor(v, made, where) for v in values]
    return sizes, made, where, ready


def draw(
    op: Op, shape: Shape, dtype: DType, device: Device, generator: Generator | None, **attrs: Any
) -> Tensor:
    """A floating draw; dtypes that are narrower than float32 are rounded from it."""
    made = dtype if dtype.itemsize >= 4 else _FLOAT32
    result: Tensor = bind(op, key_of(generator, device), shape=shape, dtype=made, **attrs)
    return cast(result, dtype)


def uniform_draw(shape: Shape, dtype: DType, device: Device, generator: Generator | None) -> Tensor:
    """Uniform on [0, 1), with as many bits as the dtype has digits."""
    return draw(UNIFORM, shape, dtype, device, generator, digits=_DIGITS[dtype.name])


def affine(values: Tensor, loc: Any, scale: Any) -> Tensor:
    """``loc + scale * values``, without what changes nothing."""
    if not (is_number(scale) and scale == 1):
        values = multiply(values, scale)
    if not (is_number(loc) and loc == 0):
        values = add(values, loc)
    return values


def check_scale(name: str, scale: Any) -> None:
    """Refuse a scale that is negative or NaN."""
    if not (scale >= 0 if is_number(scale) else host_check(lambda x: x >= 0, scale)):
        raise TensorValueError(f"{name}: scale is negative or NaN", given=f"scale={scale}")
