"""Shapes with symbolic sizes: queries of type rules, and sizes of slices.

No function here asks for the value of a size. Conditions that need values are left to the kernel,
which sees the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow.dims import Dim, maximum, minimum, same, unknown
from eagerflow.errors import DimError, LeakedTensorError, ShapeError, TraceError
from eagerflow.types import Shape

#: errors on a request of Python for an integer that is unknown while tracing
UNKNOWN = (TraceError, LeakedTensorError, DimError)

#: hint where the values of a condition are not known
WITH_WHERE = "call it on a device that holds data, or use where(), which keeps the shape"

Slice = tuple[int | None, int | None, int | None]


def is_symbolic(size: Any) -> bool:
    """Whether a size is symbolic."""
    return type(size) is Dim


def unknown_size(why: str, whose: str, instead: str = "call it on a device that holds data") -> Any:
    """A size that depends on the elements of an input.

    Args:
        why: the explanation for messages.
        whose: the input.
        instead: the hint where the elements are not known.
    """
    return unknown("k", why, f"the values of {whose} are not known here: {instead}")


def joined_shape(shapes: Sequence[Shape]) -> Shape:
    """The joint shape of shapes that are equal at run time: the best known value of each size."""
    first, *rest = shapes
    for shape in rest:
        first = tuple([b if is_symbolic(a) else a for a, b in zip(first, shape, strict=True)])
    return first


def with_size(shape: Shape, axis: int, size: int) -> Shape:
    """``shape`` with the size of one axis replaced."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def check_not_negative(*sizes: int) -> None:
    """Refuse a negative size.

    Raises:
        ShapeError: a known size is negative.
    """
    for size in sizes:
        if type(size) is int and size < 0:
            raise ShapeError("a size cannot be negative")


# --- slices ---------------------------------------------------------------------------------


def _position(index: Any, size: Any) -> Any:
    """``index`` counted from the front; an index before the front may stay negative."""
    if type(index) is int:
        return index if index >= 0 else size + index
    if same(maximum(index, 0), index):
        return index
    # 1 for an index that is not negative, else 0
    from_front = minimum(maximum(index + 1, 0), 1)
    return index + size * (1 - from_front)


def position_within(index: Any, size: Any) -> Any:
    """The position at which a bound of a slice cuts an axis, from 0 to ``size``."""
    if type(index) is int and type(size) is int:
        return min(max(index + size if index < 0 else index, 0), size)
    return minimum(maximum(_position(index, size), 0), size)


def slice_size(item: Slice, size: Any) -> Any:
    """The number of positions that a slice selects; valid for every size, 0 and 1 included.

    Args:
        item: the bounds and the step, which is a known integer.
        size: size of the axis.
    """
    start, stop, step = item
    step = 1 if step is None else step
    if not any(map(is_symbolic, (size, start, stop))):
        return len(range(*slice(start, stop, step).indices(size)))
    span = _span_down(start, stop, size) if step < 0 else _span_up(start, stop, size)
    distance = abs(step)
    return span if distance == 1 else (span + (distance - 1)) // distance


def _span_up(start: Any, stop: Any, size: Any) -> Any:
    """The number of positions from ``start`` up to ``stop``.

    A start beyond the end, or a stop before the front, leaves none: only other bounds are clipped.
    """
    if stop is None and type(start) is int and start < 0:
        return minimum(size, -start)
    end = size if stop is None else minimum(_position(stop, size), size)
    begin = 0 if start is None else maximum(_position(start, size), 0)
    return maximum(end - begin, 0)


def _span_down(start: Any, stop: Any, size: Any) -> Any:
    """The number of positions from ``start`` down to ``stop``."""
    begin = size - 1 if start is None else minimum(_position(start, size), size - 1)
    end = -1 if stop is None else maximum(_position(stop, size), -1)
    return maximum(begin - end, 0)
