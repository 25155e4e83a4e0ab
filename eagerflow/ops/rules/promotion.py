"""Promotion of the operands of a public function to one dtype, before its op is bound.

Ops themselves are strict: they take inputs of one dtype. Python numbers are weak: they take the
dtype of their tensor partner, and change only its kind (an int tensor with a float gives
float32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.interpreter import stack
from eagerflow.core.moves_to_scopes import device_of, lane_here
from eagerflow.core.op import OPS_OF_BYTES, bind, define
from eagerflow.core.op_records.op_facts import InlineSite
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, scalar, tensor_of
from eagerflow.dims import Dim
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import DTypeError, TensorValueError
from eagerflow.hardware import Device
from eagerflow.hardware.device_scopes import all_open
from eagerflow.ops.rules.remedies import CAST
from eagerflow.types import (
    BYTES,
    DTYPES,
    FLOAT32,
    DType,
    DTypeLike,
    TensorType,
    as_dtype,
    default_dtype,
    promote_dtypes,
)

_KINDS = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
_RANK = dict(zip(_KINDS, (0, 1, 1, 2, 3), strict=True))
_KIND_ORDER = dict(zip(_KINDS, (0, 2, 1, 3, 4), strict=True))
_WEAK_DTYPES = (DTYPES["bool"], *(default_dtype(k) for k in _KINDS[1:] if k != _KINDS[2]))
_WEAK = (bool, int, float, complex, list, tuple)  # types without a dtype of their own
_HALF_AND_SINGLE = {DTYPES["float16"], FLOAT32}
_WEAK_RANK: dict[type, int] = {bool: 0, int: 1, Dim: 1, float: 2, complex: 3}


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    if dtype is BYTES:
        raise DTypeError("numbers cannot be cast to bytes", hint=OPS_OF_BYTES)
    return x.like(dtype=dtype)


def _inline(at: InlineSite) -> tuple[str, str] | None:
    dtypes = {at.types[0].dtype, at.attrs["dtype"]}
    # kernels drop imaginary parts, and are faster than NumPy between half and single
    if at.types[0].dtype.dtype.kind == "c" or dtypes == _HALF_AND_SINGLE:
        return None
    return f"{at.operands[0]}.astype({at.bound(at.attrs['dtype'].dtype, 'dtype')})", ""


_cast = define(
    "cast",
    infer=_cast_type,
    vjp=(lambda g, out, x, *, dtype: cast(g, x.dtype) if x.dtype.is_inexact else None,),
    jvp=lambda t, out, x, *, dtype: cast(t[0], dtype) if dtype.is_inexact else None,
    saved="none",
    precision="exact",
    elementwise=True,
    storage="fresh",
    order="elementwise",
    fails_on="nothing",
    linear_rows=True,
    inline=_inline,
    remedy=CAST,
)


def cast(x: Tensor, dtype: DType) -> Tensor:
    """``x`` with another dtype; ``x`` itself if it has this dtype."""
    if x.dtype is dtype:
        return x
    if dtype is BYTES or x.dtype is BYTES:
        raise DTypeError(
            "bytes and numbers cannot be cast to each other",
            given=f"{x.type} to {dtype.short}",
            hint=OPS_OF_BYTES,
        )
    return bind(_cast, x, dtype=dtype)


def is_python_number(x: object) -> bool:
    """Whether ``x`` is a weak number; traced numbers and sizes included."""
    return type(x) in _WEAK_RANK or issubclass(type(x), AbstractNumber)


def _weak_rank(x: object) -> int | None:
    """The rank of a weak number; None for values with a dtype of their own."""
    kind = type(x)
    rank = _WEAK_RANK.get(kind)
    if rank is None and isinstance(x, AbstractNumber):
        return _WEAK_RANK[x.kind]
    return rank


def fits_kind(dtype: DType, into: DType) -> bool:
    """Whether values of ``dtype`` may be assigned to an array of ``into``: NumPy's "same kind".

    Kinds ascend from bool over unsigned and signed integers and floats to complex numbers; within
    a kind, integers wrap and floats are rounded.
    """
    if dtype is BYTES or into is BYTES:
        return dtype is into
    return _KIND_ORDER[dtype.category] <= _KIND_ORDER[into.category]


def weak_fits(value: TensorLike, into: DType) -> bool:
    """`fits_kind` for numbers and sequences, whose integers fit both kinds of integers."""
    try:
        dtype = promoted_dtype((value,))
        if dtype is BYTES or into is BYTES:
            return dtype is into
        rank = _RANK[dtype.category]
    except TensorValueError:  # a sequence with an integer that only uint64 or no dtype can hold
        rank = 1
    return rank <= _RANK[into.category]


def kept_tensor(
    value: TensorLike, dtype: DType, device: Device, whose: str, owner: object = None
) -> Tensor:
    """A value as the tensor kept by state, whose dtype numbers and sequences take.

    Args:
        value: a tensor, which is returned unchanged, or a value that converts to a tensor.
        dtype: dtype of the state.
        device: device of the state.
        whose: description of the holder of the dtype, for the error.
        owner: the state, for the error.

    Raises:
        DTypeError: the dtype cannot hold these numbers.
    """
    if isinstance(value, AbstractArray):
        return tensor_of(value)
    if type(value) not in _WEAK and not issubclass(type(value), AbstractAsked):
        # an array of another library could be written into later
        return as_tensor(value, None, device, copy=True)
    if not weak_fits(value, dtype):
        raise DTypeError(
            f"{whose} {dtype.short} cannot hold {promoted_dtype((value,)).short}",
            given=repr(value) if owner is None else f"{owner!r}, value={value!r}",
            hint="convert the value first",
        )
    return as_tensor(value, dtype, device)


def known_number(x: Any) -> Any:
    """A traced number made static: its value in this call; other values unchanged.

    For code whose path depends on the number; another number causes a retrace.
    """
    if type(x) is Dim:
        return int(x)
    return x.kind(x) if issubclass(type(x), AbstractNumber) else x


def host_check(holds: Callable[..., Any], *values: Any) -> bool:
    """Whether a condition on parameters holds, as far as known without waiting.

    Numbers and tensors in host memory are checked; for all others the answer is true, since
    reading them would wait for their device.

    Args:
        holds: the condition, from numbers or arrays to a bool or an array of bools.
        values: numbers and tensors.
    """
    readable = []
    for x in values:
        if type(x) is Tensor:
            lane = x._lane
            if (
                lane.symbolic
                or lane.device.backend.kind != "cpu"
                or type(x._data) is not lane.array_type
            ):
                return True
            x = x._data if lane.dtype.is_native else x._data.astype("float32")
        readable.append(x)
    truth = holds(*readable)
    return bool(truth.all()) if hasattr(truth, "all") else bool(truth)


def operands(*args: TensorLike) -> tuple[Tensor, ...]:
    """The operands as tensors; other values go to the device of the op."""
    device = device_of(*args)
    return tuple(
        tensor_of(x) if isinstance(x, AbstractArray) else as_tensor(x, device=device) for x in args
    )


def promoted_dtype(args: Iterable[TensorLike]) -> DType:
    """The dtype that the operands promote to together."""
    weak, strong = -1, None
    for x in args:
        rank = _weak_rank(x)
        if rank is not None:
            weak = max(weak, rank)
        else:
            dtype = tensor_of(x).dtype
            strong = dtype if strong is None else promote_dtypes(strong, dtype)
    if strong is None:
        return _WEAK_DTYPES[max(weak, 0)]
    if strong is BYTES:
        return strong if weak < 0 else promote_dtypes(strong, _WEAK_DTYPES[weak])
    if weak <= _RANK[strong.category]:
        return strong
    if weak == 3:
        return DTYPES["complex128" if strong.name == "float64" else "complex64"]
    return default_dtype(("bool", "signed integer", "real floating")[weak])


def promote(*args: TensorLike, dtype: DType | None = None) -> tuple[Tensor, ...]:
    """The operands as tensors of one dtype.

    Args:
        args: tensors and values that convert to tensors; Python numbers are weak.
        dtype: a dtype to use instead of the promoted one.

    Raises:
        DTypeError: there is no common dtype.

    >>> from eagerflow.extending import promote
    >>> [x.dtype for x in promote(ef.ones(2), ef.ones(2, dtype=ef.float64), 3)]
    [float64, float64, float64]
    """
    first = args[0] if args else None
    if type(first) is Tensor and (dtype is None or first.dtype is dtype):
        lane = first._lane
        if all(type(x) is Tensor and x._lane is lane for x in args):  # the usual case
            return args  # type: ignore[return-value]  # they are tensors
    device = device_of(*args)
    args = tuple(_strong(x, device) for x in args)
    if dtype is None:
        dtype = promoted_dtype(args)
    return tuple(_to(x, dtype, device) for x in args)


def _strong(x: TensorLike, device: Device | None) -> TensorLike:
    """A weak number unchanged, other values as tensors; host data goes to ``device``."""
    if is_python_number(x):
        return x
    return tensor_of(x) if isinstance(x, AbstractArray) else as_tensor(x, device=device)


def _to(x: TensorLike, dtype: DType, device: Device | None) -> Tensor:
    if type(x) is Tensor:
        return cast(x, dtype)
    return as_tensor(x, dtype) if device is None else scalar(x, device.lanes[dtype])


def pair(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, ...]:
    """`promote` for two operands; returns at once if no conversion is needed."""
    if type(x1) is Tensor:
        lane = x1._lane
        if type(x2) is Tensor:
            if x2._lane is lane:
                return x1, x2
        elif type(x2) in lane.weak:
            if stack.scoped and lane.device is not all_open.home:
                lane = lane_here(lane)
            return x1, scalar(x2, lane)
    elif type(x2) is Tensor and type(x1) in x2._lane.weak:
        lane = x2._lane
        if stack.scoped and lane.device is not all_open.home:
            lane = lane_here(lane)
        return scalar(x1, lane), x2
    return promote(x1, x2)


def floating(x: TensorLike, dtype: DTypeLike = None) -> Tensor:
    """``x`` as a tensor; bools and integers become floating, other dtypes are unchanged.

    Args:
        x: a tensor, or a value that converts to one.
        dtype: dtype that ``x`` is converted to first; None keeps its dtype.

    >>> from eagerflow.extending import floating
    >>> floating([1, 2])
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    tensor = x if type(x) is Tensor else as_tensor(x)
    if dtype is not None:
        tensor = cast(tensor, as_dtype(dtype))
    if tensor._lane.dtype.is_inexact:
        return tensor
    return cast(tensor, default_dtype("real floating"))


def promote_floating(*args: TensorLike) -> tuple[Tensor, ...]:
    """The operands as tensors of one floating or complex dtype; integers count as float32.

    Raises:
        DTypeError: there is no common dtype.
    """
    tensors = pair(*args) if len(args) == 2 else promote(*args)
    if tensors[0]._lane.dtype.is_inexact:
        return tensors
    return promote(*args, dtype=default_dtype("real floating"))


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, in float32 if its dtype is narrower: for formulas with cancellation."""
    return x if x.dtype.itemsize >= 4 else cast(x, FLOAT32)
