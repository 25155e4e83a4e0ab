"""Arguments and sizes of sliding windows, for convolution and pooling."""

from __future__ import annotations

from typing import Any

from eagerflow.core.tensor import Tensor, type_of
from eagerflow.dims import minimum, same
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.sizes import surely_less
from eagerflow.types import Shape

Pairs = tuple[tuple[int, int], ...]


def check_axes(name: str, x: Tensor) -> int:
    """The number of axes that a window slides over: the axes after batch and channels.

    Args:
        name: name of the public function, for messages.
        x: ``[n, channels, *sizes]``.

    Raises:
        ShapeError: there are no such axes.
    """
    if x.ndim < 3:
        raise ShapeError(
            f"{name}: there are no axes to slide over",
            given=f"x={type_of(x)}",
            expected="[n, channels, *sizes], with at least one size",
        )
    return x.ndim - 2


def per_axis(name: str, what: str, value: Any, axes: int, least: int = 1) -> Shape:
    """``value`` as one integer per axis.

    Args:
        name: name of the public function, for messages.
        what: name of the argument, likewise.
        value: an int for all axes, or a sequence of ints.
        axes: number of axes.
        least: the smallest integer allowed.

    Raises:
        DTypeError: ``value`` does not consist of integers.
        TensorValueError: their number is not that of the axes, or one is too small.
    """
    if isinstance(value, (list, tuple)):
        numbers = tuple(as_index(name, what, n) for n in value)
    else:
        numbers = (as_index(name, what, value),)
    if len(numbers) == 1:
        numbers *= axes
    if len(numbers) != axes or any(type(n) is int and n < least for n in numbers):
        raise TensorValueError(
            f"{name}: {what} does not fit",
            given=f"{what}={value!r}",
            expected=f"an integer, or {axes} of them, not less than {least}",
        )
    return numbers


def joined(name: str, value: Any, axes: int) -> Pairs:
    """The argument ``padding`` as a pair per axis: the widths before and after it.

    Args:
        name: name of the public function, for messages.
        value: an int for all, an int per axis, or a pair per axis.
        axes: number of axes.

    Raises:
        DTypeError: ``value`` does not consist of integers.
        TensorValueError: their number is not that of the axes, or one is negative.
    """
    if isinstance(value, (list, tuple)) and any(isinstance(n, (list, tuple)) for n in value):
        if len(value) == axes and all(isinstance(n, (list, tuple)) for n in value):
            pairs = [per_axis(name, "padding", pair, 2, 0) for pair in value]
            return tuple((before, after) for before, after in pairs)
        raise DTypeError(
            f"{name}: padding does not fit",
            given=f"padding={value!r}",
            expected=f"an integer, or {axes} of them, or {axes} pairs",
        )
    return tuple((n, n) for n in per_axis(name, "padding", value, axes, 0))


def positions(
    sizes: Shape,
    window: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    *,
    ceil: bool = False,
) -> Shape:
    """The number of positions of a window along each axis.

    Args:
        sizes: sizes of the axes.
        window: sizes of the window.
        stride: distance between positions.
        padding: widths before and after each axis.
        dilation: distance between elements of the window.
        ceil: whether windows that start before the end may reach beyond it.

    Raises:
        ShapeError: the window is surely larger than the padded axis.
    """
    counts: list[Any] = []
    for n, k, s, (before, after), d in zip(sizes, window, stride, padding, dilation, strict=True):
        if same(k, 0):
            raise ShapeError("the window is empty", expected="at least one element on each axis")
        whole, span = n + before + after, d * (k - 1) + 1
        count: Any = (whole - span) // s + 1
        if ceil:
            count = minimum((whole - span + s - 1) // s + 1, (n + before + s - 1) // s)
        if surely_less(count, 1):
            raise ShapeError(
                f"the window is larger than the padded input ({span} and {whole})",
                expected=f"a window of at most {whole} along this axis, dilation included",
                hint="pad more, or let less be cut off before",
            )
        counts.append(count)
    return tuple(counts)
