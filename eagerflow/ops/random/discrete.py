"""Discrete random draws: bits, integers, bools, categories, permutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from eagerflow.core.abstract_symbols import AbstractTracedArray
from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import bind
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, scalar, tensor_of
from eagerflow.dims import Dim
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.hardware import Device
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.ordering.sort import argsort
from eagerflow.ops.random.argument_order import shape_first
from eagerflow.ops.random.draws import (
    BITS,
    GUMBEL,
    INTEGERS,
    device_of,
    draw,
    in_range,
    is_deferred,
    key_of,
    parameters,
    uniform_draw,
)
from eagerflow.ops.reduction.totals import argmax
from eagerflow.ops.rules.arguments import DeviceLike, as_index, as_shape, axis_of
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.shape.reshape_and_transpose import moveaxis
from eagerflow.types import FLOAT32, DType, DTypeLike, ShapeLike, as_dtype, broadcast_shapes

if TYPE_CHECKING:
    from eagerflow.ops.names.random import Generator


@device_wins
def bits(
    shape: ShapeLike = (),
    *,
    dtype: DTypeLike = "uint32",
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Uniformly distributed random bits.

    Args:
        shape: shape of the result.
        dtype: uint32 or uint64.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default the current device.

    Raises:
        DTypeError: the dtype is neither uint32 nor uint64.

    >>> ef.random.bits(generator=ef.random.Generator(1), dtype="uint64")
    Tensor(14663341350739098444, u64[]@cpu:0)
    """
    out_dtype, where = as_dtype(dtype), device_of(device, [])
    if out_dtype.name not in ("uint32", "uint64"):
        raise DTypeError("bits: the dtype must be uint32 or uint64", given=out_dtype.name)
    return bind(
        BITS, key_of(generator, where), shape=as_shape("bits", shape), dtype=out_dtype, stream=0
    )


_ORDER: Final = "the shape comes first: randint((5,), 0, 10)"


@shape_first
@device_wins
def randint(
    shape: ShapeLike,
    low: TensorLike,
    high: TensorLike,
    *,
    dtype: DTypeLike = "int64",
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Uniform random integers, from ``low`` (included) to ``high`` (excluded).

    Args:
        shape: shape of the result; it broadcasts with the shapes of the bounds.
        low: the smallest result, an integer or a tensor of integers.
        high: one more than the largest result, likewise.
        dtype: an integer dtype that holds the bounds.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of the bounds, else the current device.

    Raises:
        TensorValueError: ``low`` is not less than ``high``, or a bound does not fit the dtype.
        DTypeError: the dtype is no integer dtype.

    >>> bool((ef.random.randint((1000,), -3, 3) < 3).all())
    True
    """
    out_dtype = as_dtype(dtype)
    if not out_dtype.is_integer:
        raise DTypeError(f"randint: {out_dtype.name} is not an integer dtype")
    if isinstance(high, tuple):  # NumPy and PyTorch take the shape last
        raise ShapeError("randint: a bound is a tuple", given=f"{high=}", hint=_ORDER)
    tensors = [
        tensor_of(b) for b in (low, high) if isinstance(b, AbstractArray) or not _is_index(b)
    ]
    where = device_of(device, tensors)
    sizes = broadcast_shapes(as_shape("randint", shape), *(t.shape for t in tensors))
    wide = out_dtype.itemsize == 8 if tensors else _wide(low, high)
    ends = (_bound(low, out_dtype, where), _bound(high, out_dtype, where, less=1))
    return bind(INTEGERS, key_of(generator, where), *ends, shape=sizes, wide=wide)


def _is_index(x: object) -> bool:
    if type(x) is int:
        return True
    if is_deferred(x):
        return isinstance(x, (int, Dim))
    if issubclass(type(x), AbstractTracedArray):
        return False
    return hasattr(x, "__index__") and not getattr(x, "shape", ())


def _wide(low: Any, high: Any) -> bool | None:
    """Whether there are more than 2**32 values between bounds; None if only known at run time."""
    if is_deferred(low) or is_deferred(high):
        return None
    low, high = as_index("randint", "low", low), as_index("randint", "high", high)
    if low >= high:
        raise TensorValueError(
            "randint: low must be less than high", given=f"{low=}, {high=}", hint=_ORDER
        )
    return bool(high - low > 2**32)


def _bound(x: Any, dtype: DType, device: Device, *, less: int = 0) -> Tensor:
    if is_deferred(x) and _is_index(x):
        return scalar(x - less, device.lanes[dtype])
    if _is_index(x) and not isinstance(x, AbstractArray):
        return scalar(as_index("randint", "bound", x) - less, device.lanes[dtype])
    tensor = tensor_of(x)
    if not tensor.dtype.is_integer:
        raise DTypeError("randint: the bounds must be integers", given=str(type_of(tensor)))
    tensor = as_tensor(tensor, dtype, device)
    return tensor - less if less else tensor


@device_wins
def bernoulli(
    shape: ShapeLike = (),
    p: TensorLike = 0.5,
    *,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """True with probability ``p``, else False.

    Args:
        shape: shape of the result; it broadcasts with the shape of ``p``.
        p: the probability, from 0 to 1.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``p``, else the current device.

    Raises:
        TensorValueError: ``p`` is not between 0 and 1.

    >>> ef.random.bernoulli((3,), 1.0)
    Tensor([ True,  True,  True], bool[3]@cpu:0)
    """
    shape, dtype, where, (p,) = parameters("bernoulli", shape, None, device, p)
    refusal = "bernoulli: p is not a probability"
    p = in_range(p, "probability", refusal, p, dtype=dtype, on=where)
    if dtype.itemsize < 4:
        dtype = FLOAT32
    drawn: Tensor = uniform_draw(shape, dtype, where, generator) < p
    return drawn


@device_wins
def categorical(
    shape: ShapeLike,
    logits: TensorLike,
    *,
    axis: int = -1,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Random indices along an axis of ``logits``, index i with probability softmax(logits)[i].

    Args:
        shape: shape of the result; it broadcasts with the shape of ``logits`` without the axis.
        logits: log-probabilities, not necessarily normalised.
        axis: the axis of the categories.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``logits``.

    Returns:
        int64 indices.

    Raises:
        TensorValueError: logits are NaN, or all logits of a draw are -inf.

    >>> ef.random.categorical((3,), ef.tensor([0.0, -float("inf")]))
    Tensor([0, 0, 0], i64[3]@cpu:0)
    """
    tensor = tensor_of(logits)
    axis = axis_of("categorical", tensor, axis)
    tensor = moveaxis(tensor, axis, -1)
    _, dtype, where, (tensor,) = parameters("categorical", (), None, device, tensor)
    if dtype.itemsize < 4:
        dtype, tensor = FLOAT32, cast(tensor, FLOAT32)
    refusal = "categorical: logits are NaN, or all of a draw are -inf"
    tensor = in_range(tensor, "logits", refusal, tensor, dtype=dtype, on=where)
    sizes = broadcast_shapes(as_shape("categorical", shape), tensor.shape[:-1])
    noise = draw(GUMBEL, (*sizes, tensor.shape[-1]), dtype, where, generator)
    return argmax(noise + tensor, axis=-1)


@device_wins
def permutation(
    x: TensorLike, *, generator: Generator | None = None, device: DeviceLike = None
) -> Tensor:
    """A random permutation of the integers 0 to ``x - 1``, or of ``x`` along its first axis.

    Args:
        x: an integer, or an array with at least one axis.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``x``, else the current device.

    Raises:
        DTypeError: ``x`` has no axes and is no integer.

    >>> ef.sort(ef.random.permutation(4))
    Tensor([0, 1, 2, 3], i64[4]@cpu:0)
    """
    if _is_index(x):
        where = device_of(device, [tensor_of(x)] if isinstance(x, AbstractArray) else [])
        return _order((as_index("permutation", "x", x),), where, generator)
    tensor = tensor_of(x)
    if not tensor.shape:
        raise DTypeError("permutation: x has no axes", given=str(type_of(tensor)))
    tensor = as_tensor(tensor, None, device_of(device, [tensor]))
    order = _order(tensor.shape[:1], tensor.device, generator)
    return take(tensor, order, axis=0)


def _order(shape: Any, device: Device, generator: Generator | None) -> Tensor:
    return argsort(
        bits(as_shape("permutation", shape), dtype="uint64", generator=generator, device=device)
    )
