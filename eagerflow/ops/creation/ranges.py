"""Creation of patterned arrays: ranges, grids, identity matrices."""

from __future__ import annotations

import math
from operator import index
from typing import Any

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import bind, functions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim, maximum
from eagerflow.errors import DTypeError, ShapeError, TensorValueError, TraceError
from eagerflow.hardware import Device, as_device, home_of
from eagerflow.ops.creation.arrays import creating
from eagerflow.ops.rules.arguments import DeviceLike, as_index, as_number, as_shape, check_choice
from eagerflow.ops.rules.extents import check_not_negative
from eagerflow.ops.rules.promotion import cast, promote_floating
from eagerflow.ops.rules.type_rules import REAL
from eagerflow.types import (
    DTYPES,
    DType,
    DTypeLike,
    TensorType,
    broadcast_shapes,
    default_dtype,
    number_dtype,
)

__all__ = ["arange", "eye", "linspace", "logspace", "meshgrid"]

_FLOAT = default_dtype("real floating")
_COMPLEX = default_dtype("complex floating")
_INT = default_dtype("signed integer")


def _number(name: str, what: str, value: Any) -> Any:
    """A user's argument as a Python number."""
    if type(value) in (int, float, complex, Dim):
        return value
    if issubclass(type(value), AbstractNumber):
        return as_number(value)
    if isinstance(value, bool):
        return int(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        return _item(name, what, value)
    if isinstance(value, (int, float, complex)):
        return value
    raise DTypeError(f"{name}: {what} must be a number", given=f"{what}={value!r}")


def _item(name: str, what: str, value: Any) -> Any:
    """The number of a tensor; in a trace, an error that says what a loop runs over."""
    try:
        return value.item()
    except TraceError as error:
        if type(error) is not TraceError:  # of a trace that has ended
            raise
        loop = "a loop of the graph over a tensor n is `for i in range(n)`; " * (name == "arange")
        raise TraceError(
            f"{name}: {what} is a tensor whose value is known only when the graph runs",
            given=error.given,
            expected="a number, as it gives the size of the result",
            hint=f"{loop}elements below a bound are ef.arange(length) < n",
        ) from None


def _arange_type(*, size: int, dtype: DType, device: Device, **attrs: object) -> TensorType:
    return TensorType(dtype, (size,))


_arange = creating("arange", _arange_type)


def arange(
    start: TensorLike,
    /,
    stop: TensorLike | None = None,
    step: TensorLike = 1,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
) -> Tensor:
    """Values from ``start`` up to, not including, ``stop``.

    Args:
        start: the first value; without ``stop`` it is the end, and values begin at 0.
        stop: the end, not included.
        step: the distance between values; may be negative.
        dtype: real; by default int64 if all arguments are integers, else float32.
        device: device of the result; by default the current device.

    Raises:
        TensorValueError: the step is 0, or an argument is not finite.
        DTypeError: the dtype is not real.

    >>> ef.arange(2, 10, 3)
    Tensor([2, 5, 8], i64[3]@cpu:0)
    """
    if stop is None:
        start, stop = 0, start
    integral = type(start) is int and type(stop) is int and type(step) is int
    if not integral:
        start, stop = _number("arange", "start", start), _number("arange", "stop", stop)
        step = _number("arange", "step", step)
        integral = all(isinstance(v, (int, Dim)) for v in (start, stop, step))
        if type(step) is Dim:  # the size depends on its sign
            step = index(step)
        if not integral:
            start, stop = _known(start), _known(stop)
    out_dtype = (_INT if integral else _FLOAT) if dtype is None else number_dtype(dtype)
    if out_dtype.category not in REAL:
        raise DTypeError(f"arange: no rule for {out_dtype.short}", expected="a real dtype")
    return bind(
        _arange,
        start=start,
        stop=stop,
        step=step,
        size=_length(start, stop, step),
        dtype=out_dtype,
        device=as_device(device),
    )


def _known(value: Any) -> Any:
    """The value of a symbolic size: no expression gives the size of a floating range."""
    return index(value) if type(value) is Dim else value


def _length(start: Any, stop: Any, step: Any) -> Any:
    if type(start) is int and type(stop) is int and type(step) is int and step:
        return max(0, -((start - stop) // step))
    if (type(start) is Dim or type(stop) is Dim) and step:
        return maximum(0, -((start - stop) // step))
    given = f"start={start}, stop={stop}, step={step}"
    if isinstance(start, complex) or isinstance(stop, complex) or isinstance(step, complex):
        raise DTypeError("arange: the arguments must be real", given=given)
    if step == 0:
        raise TensorValueError("arange: the step is 0", given=given)
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -((start - stop) // step))
    try:
        return max(0, math.ceil((stop - start) / step))
    except (ValueError, OverflowError):
        raise TensorValueError("arange: the arguments must be finite", given=given) from None


def _linspace_type(*, num: int, dtype: DType, device: Device, **attrs: object) -> TensorType:
    check_not_negative(num)
    return TensorType(dtype, (num,))


_linspace = creating("linspace", _linspace_type)


def linspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` values evenly spaced from ``start`` to ``stop``.

    Args:
        start: the first value: a real or complex number, or a tensor (gradients flow into it, and
            the values lie along a new first axis).
        stop: the last value, or without ``endpoint`` the value after it.
        num: number of values.
        dtype: float32 by default, complex64 if a bound is complex. Integers are rounded down.
        device: device of the result; by default that of a bound that is a tensor, else the current
            device.
        endpoint: whether ``stop`` is among the values.

    Raises:
        DTypeError: a bound is complex, and the dtype is not.

    >>> ef.linspace(0, 1, 5)
    Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], f32[5]@cpu:0)
    """
    count = as_index("linspace", "num", num)
    if isinstance(start, AbstractArray) or isinstance(stop, AbstractArray):
        return _between(start, stop, count, dtype, endpoint)
    first, last = _number("linspace", "start", start), _number("linspace", "stop", stop)
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    default = _COMPLEX if is_complex else _FLOAT
    out_dtype = default if dtype is None else number_dtype(dtype)
    if is_complex and not out_dtype.is_complex:
        raise DTypeError(f"linspace: complex bounds do not give {out_dtype.name}")
    return bind(
        _linspace,
        start=first,
        stop=last,
        num=count,
        endpoint=bool(endpoint),
        dtype=out_dtype,
        device=as_device(device),
    )


def _between(
    start: TensorLike, stop: TensorLike, num: int, dtype: DTypeLike, endpoint: bool
) -> Tensor:
    """`linspace` of tensors."""
    first, last = promote_floating(start, stop)
    ramp = linspace(0, 1, num, dtype=first.dtype, device=home_of(first.device), endpoint=endpoint)
    lead = (num, *(1 for _ in broadcast_shapes(first.shape, last.shape)))
    part = functions["reshape"](ramp, lead)
    # weights of both bounds: the last value is exactly `stop`
    rest = 1 - part
    result = first * rest + last * part
    if dtype is None:
        return result
    out_dtype = number_dtype(dtype)
    return cast(functions["floor"](result) if out_dtype.is_integer else result, out_dtype)


@device_wins
def logspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int = 50,
    *,
    base: float = 10.0,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` values from ``base**start`` to ``base**stop``, evenly spaced on a log scale.

    Args:
        start: the first exponent.
        stop: the last exponent, or without ``endpoint`` the exponent after it.
        num: number of values.
        base: base of the powers.
        dtype: float32 by default, complex64 if an exponent is complex.
        device: device of the result; by default the current device.
        endpoint: whether ``base**stop`` is among the values.

    >>> ef.logspace(0, 2, 3)
    Tensor([  1.,  10., 100.], f32[3]@cpu:0)
    """
    numbers = not any(isinstance(v, AbstractArray) for v in (start, stop))
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wide = DTYPES["complex128" if is_complex else "float64"] if numbers else None
    exponents = linspace(start, stop, num, device=device, endpoint=endpoint, dtype=wide)
    powers = base**exponents
    if dtype is not None:
        return cast(powers, number_dtype(dtype))
    return cast(powers, _COMPLEX if is_complex else _FLOAT) if numbers else powers


# --- grids and matrices ---------------------------------------------------------------------


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids from coordinate vectors.

    Args:
        arrays: one-dimensional, any dtype.
        indexing: ``"xy"`` (the first two axes of the grids exchanged) or ``"ij"``.

    Returns:
        A grid for each vector, all of one shape.

    Raises:
        TensorValueError: ``indexing`` is unknown.
        ShapeError: the number of axes of an array is not 1.

    >>> ef.meshgrid(ef.tensor([1, 2]), ef.tensor([3, 4, 5]), indexing="ij")[1]
    Tensor([[3, 4, 5],
            [3, 4, 5]], i64[2,3]@cpu:0)
    """
    check_choice("meshgrid", indexing, ("xy", "ij"), "an indexing")
    vectors = [tensor_of(x) for x in arrays]
    for x in vectors:
        if x.ndim > 1:
            raise ShapeError("meshgrid: takes vectors", given=str(x.type))
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    sizes = [x.size for x in vectors]
    shape = tuple(sizes[order.index(i)] for i in range(len(vectors)))
    grids = []
    for x, axis in zip(vectors, order, strict=True):
        lone = tuple(x.size if i == axis else 1 for i in range(len(vectors)))
        grids.append(functions["broadcast_to"](functions["reshape"](x, lone), shape))
    return tuple(grids)


def _eye_type(*, rows: int, columns: int, dtype: DType, device: Device, k: int) -> TensorType:
    check_not_negative(rows, columns)
    return TensorType(dtype, (rows, columns))


_eye = creating("eye", _eye_type, fails_on="nothing")


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike = None,
    *,
    device: DeviceLike = None,
) -> Tensor:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: number of rows.
        n_cols: number of columns; by default the number of rows.
        k: the diagonal: 0 is the main one, positive above it, negative below it.
        dtype: float32 by default.
        device: device of the result; by default the current device.

    >>> ef.eye(2, 3)
    Tensor([[1., 0., 0.],
            [0., 1., 0.]], f32[2,3]@cpu:0)
    """
    rows, columns = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    return bind(
        _eye,
        rows=rows,
        columns=columns,
        k=as_index("eye", "k", k),
        dtype=_FLOAT if dtype is None else number_dtype(dtype),
        device=as_device(device),
    )
