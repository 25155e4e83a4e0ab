"""Normalisation of static arguments of public functions: axes, shapes, numbers.

Errors name the function and show the arguments given, as errors of type rules do.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim
from eagerflow.errors import (
    AxisError,
    DTypeError,
    EagerflowError,
    ShapeError,
    TensorValueError,
    strip,
)
from eagerflow.hardware import Device
from eagerflow.ops.rules.extents import UNKNOWN, is_symbolic
from eagerflow.ops.rules.type_rules import normalize_axes, normalize_axis
from eagerflow.types import Shape
from eagerflow.unknown_names import find_hint

#: the argument ``device`` of public functions; None is the device of the scope
DeviceLike = Device | str | None

#: all axes, by the number of axes; NumPy has at most 64
_ALL = [tuple(range(ndim)) for ndim in range(65)]


def as_index(name: str, what: str, value: Any) -> int:
    """``value`` as an int; a symbolic size is returned unchanged.

    Args:
        name: name of the public function, for messages.
        what: name of the argument, likewise.
        value: an int or an object with ``__index__``.

    Raises:
        DTypeError: ``value`` is no integer.
    """
    if type(value) is int or is_symbolic(value):
        number: int = value  # a Dim supports the arithmetic of an int
        return number
    try:
        return operator.index(value)
    except UNKNOWN:
        raise
    except (TypeError, EagerflowError):
        raise DTypeError(
            f"{name}: {what} must be an integer",
            given=_given(what, value),
            hint=_hint_at_axis(name) if what == "axis" else None,
        ) from None


def _given(what: str, value: Any) -> str:
    return f"{what}={value.type if isinstance(value, Tensor) else repr(value)}"


def _hint_at_axis(name: str) -> str | None:
    """The hint where a value stands in the place of the axis: ``ef.max(x, y)``."""
    return find_hint("axis", name)


def as_number(value: Any) -> Any:
    """A Python number or a size unchanged; a traced number is made static."""
    return value.kind(value) if issubclass(type(value), AbstractNumber) else value


def check_choice(name: str, value: object, choices: Collection[Any], what: str) -> None:
    """Raise unless a value is one of the choices.

    Args:
        name: name of the function, for the error.
        value: the argument given.
        choices: the valid values.
        what: the noun for a choice, with an article.

    Raises:
        TensorValueError: ``value`` is not among ``choices``.
    """
    if value not in choices:
        raise TensorValueError(
            f"{name}: {value!r} is not {what}", expected=", ".join(map(repr, choices))
        )


def _sizes(name: str, what: str, value: Any) -> Shape:
    if type(value) is tuple:
        for d in value:  # a loop, for speed: all small ops run it
            if type(d) is not int:
                break
        else:
            return value
    if isinstance(value, (int, Dim)) or _is_integer_like(value):
        return (as_index(name, what, value),)
    try:
        # elements of an array may look like axes; the letters of a string are not sizes
        if isinstance(value, str) or (what == "axis" and hasattr(value, "shape")):
            raise TypeError
        dims = tuple(value)
    except TypeError:
        raise DTypeError(
            f"{name}: {what} must be an integer or a tuple of integers",
            given=_given(what, value),
            hint=_hint_at_axis(name) if what == "axis" else None,
        ) from None
    return tuple(as_index(name, what, d) for d in dims)


def _is_integer_like(value: Any) -> bool:
    return hasattr(value, "__index__") and not getattr(value, "shape", ())


def as_shape(name: str, shape: Any, *, unknown: bool = False) -> Shape:
    """``shape`` as a tuple of sizes.

    Args:
        name: name of the public function, for messages.
        shape: an int or a sequence of ints.
        unknown: whether -1 stands for a size to be computed from the others.

    Raises:
        DTypeError: ``shape`` does not consist of integers.
        ShapeError: a size is negative.
    """
    sizes = _sizes(name, "shape", shape)
    for size in sizes:
        if type(size) is int and size < 0 and (size != -1 or not unknown):
            raise ShapeError(f"{name}: a size cannot be negative", given=f"shape={sizes}")
    return sizes


def axis_of(name: str, x: Tensor, axis: Any, *, extra: int = 0) -> int:
    """``axis`` of ``x`` counted from the front.

    Args:
        name: name of the public function, for messages.
        x: the tensor.
        axis: an int.
        extra: number of axes of the result beyond those of ``x``, for axes of the result.

    Raises:
        AxisError: the axis is out of range.
    """
    try:
        return normalize_axis(operator.index(as_index(name, "axis", axis)), len(x.shape) + extra)
    except AxisError as error:
        error.reword(f"{name}: {error.wrong}", f"x={type_of(x)}, axis={axis!r}")
        raise strip(error) from None


def axes_of(name: str, x: Tensor, axis: Any, *, extra: int = 0) -> tuple[int, ...]:
    """The axes of ``x`` that ``axis`` names, counted from the front; all for None.

    Args:
        name: name of the public function, for messages.
        x: the tensor.
        axis: an int, a sequence of ints, or None.
        extra: number of axes of the result beyond those of ``x``, for axes of the result.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    ndim = len(x.shape) + extra
    if axis is None:
        return _ALL[ndim]
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    try:
        return normalize_axes(tuple(map(operator.index, _sizes(name, "axis", axis))), ndim)
    except AxisError as error:
        error.reword(f"{name}: {error.wrong}", f"x={type_of(x)}, axis={axis!r}")
        raise strip(error) from None


def matrices_of(name: str, x: TensorLike) -> Tensor:
    """``x`` as a tensor, checked to have two axes at least; NumPy's kernels would take a vector.

    Args:
        name: name of the public function, for messages.
        x: the argument.

    Raises:
        ShapeError: ``x`` has fewer axes.
    """
    matrices = tensor_of(x)
    if matrices.ndim < 2:
        raise ShapeError(
            f"{name}: needs a matrix or a stack of matrices",
            given=str(matrices.type),
            expected="at least two axes",
        )
    return matrices


def sequence_of(name: str, arrays: Any) -> Sequence[TensorLike]:
    """``arrays`` as a sequence with at least one array.

    Raises:
        ShapeError: ``arrays`` is empty.
        DTypeError: ``arrays`` is not a sequence.
    """
    sequence: Sequence[TensorLike]
    try:
        sequence = arrays if isinstance(arrays, (list, tuple)) else tuple(arrays)
    except TypeError:
        raise DTypeError(
            f"{name}: expected a sequence of arrays", given=type(arrays).__name__
        ) from None
    if not sequence:
        raise ShapeError(f"{name}: needs at least one array", given="an empty sequence")
    return sequence
