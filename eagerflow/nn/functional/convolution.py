"""Convolution over one, two and three axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import eagerflow as ef
from eagerflow.errors import ShapeError
from eagerflow.extending import TensorLike, tree
from eagerflow.nn.functional.op_errors import speaks_for_parts

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip

Sizes = int | tuple[int, ...]
#: names of the spatial axes in messages, by their number
_SIZES: Final = {1: "length", 2: "height, width", 3: "depth, height, width"}
_P = ParamSpec("_P")
_R = TypeVar("_R")


def over_axes(axes: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function of ``[n, channels, *sizes]`` also take one sample without a batch axis.

    Errors of the function, and of the ops that it is made of, name the function.

    Args:
        axes: number of spatial axes.
    """

    def widened(function: Callable[..., Any]) -> Any:
        @speaks_for_parts
        @wraps(function)
        def call(input: TensorLike, *args: Any, **settings: Any) -> Any:
            x = ef.asarray(input)
            if x.ndim == axes + 2:
                return function(x, *args, **settings)
            if x.ndim != axes + 1:
                sizes = _SIZES[axes]
                raise ShapeError(
                    f"{function.__name__}: the input has {x.ndim} axes",
                    given=f"input={x.type}",
                    expected=f"[n, channels, {sizes}], or [channels, {sizes}]",
                )
            batch = function(ef.expand_dims(x, axis=0), *args, **settings)
            return tree.map(lambda made: ef.squeeze(made, axis=0), batch)

        return call

    return widened


def _shifted(x: ef.Tensor, bias: TensorLike | None) -> ef.Tensor:
    """``x`` with the bias of each channel added."""
    return x if bias is None else x + ef.reshape(bias, (-1,) + (1,) * (x.ndim - 2))


@over_axes(1)
def conv1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ef.Tensor:
    """Convolution over one axis; otherwise as `conv2d`.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        weight: floating, ``[outputs, channels/groups, window]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window.
        padding: number of zeros at each end, ``"valid"`` (none) or ``"same"``.
        dilation: distance between elements of the window.
        groups: number of groups of channels, each convolved separately.

    Returns:
        ``[n, outputs, positions]``.

    Raises:
        ShapeError: the shapes do not fit, or the window is larger than the padded input.

    >>> x = ef.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    >>> ef.nn.functional.conv1d(x, ef.tensor([[[1.0, 10.0]]]), ef.tensor([0.5]))
    Tensor([[[21.5, 32.5, 43.5]]], f32[1,1,3]@cpu:0)
    """
    out = ef.convolution(
        input, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return _shifted(out, bias)


@over_axes(2)
def conv2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ef.Tensor:
    """Convolution of images: sums of products with a window of weights that slides over them.

    As usual in networks it is cross-correlation: the window is not flipped (LeCun et al., 1998).

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        weight: floating, ``[outputs, channels/groups, window height, window width]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window; a number, or one per axis.
        padding: number of zeros at both ends of each axis, ``"valid"`` (none) or ``"same"``,
            which keeps the sizes (with even windows, one more zero is at the end).
        dilation: distance between elements of the window.
        groups: number of groups of channels, each with its own part of the outputs; as many as
            channels for a depthwise convolution.

    Returns:
        ``[n, outputs, height, width]``.

    Raises:
        ShapeError: the shapes do not fit, or the window is larger than the padded input.

    >>> x = ef.ones((1, 1, 3, 3))
    >>> ef.nn.functional.conv2d(x, ef.ones((1, 1, 3, 3)), padding="same")
    Tensor([[[[4., 6., 4.],
              [6., 9., 6.],
              [4., 6., 4.]]]], f32[1,1,3,3]@cpu:0)
    """
    out = ef.convolution(
        input, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return _shifted(out, bias)


@over_axes(3)
def conv3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ef.Tensor:
    """Convolution over three axes, such as those of volumes and videos; otherwise as `conv2d`.

    Args:
        input: floating, ``[n, channels, depth, height, width]``, with or without the batch axis.
        weight: floating, ``[outputs, channels/groups, *window]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window; a number, or one per axis.
        padding: number of zeros at both ends of each axis, ``"valid"`` (none) or ``"same"``.
        dilation: distance between elements of the window.
        groups: number of groups of channels, each convolved separately.

    Returns:
        ``[n, outputs, depth, height, width]``.

    Raises:
        ShapeError: the shapes do not fit, or the window is larger than the padded input.

    >>> x = ef.ones((1, 2, 3, 3, 3))
    >>> ef.nn.functional.conv3d(x, ef.ones((1, 2, 2, 3, 3)))
    Tensor([[[[[36.]],
    <BLANKLINE>
              [[36.]]]]], f32[1,1,2,1,1]@cpu:0)
    """
    out = ef.convolution(
        input, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return _shifted(out, bias)


@over_axes(1)
def conv_transpose1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> ef.Tensor:
    """Transposed convolution over one axis; otherwise as `conv_transpose2d`.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        weight: floating, ``[channels, outputs/groups, window]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window in the result.
        padding: number of elements cropped from the result at each end.
        output_padding: number of elements added to the result at the end.
        groups: number of groups of channels, each convolved separately.
        dilation: distance between elements of the window.

    Returns:
        ``[n, outputs, length]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x = ef.tensor([[[1.0, 2.0]]])
    >>> ef.nn.functional.conv_transpose1d(x, ef.tensor([[[1.0, 10.0]]]), stride=2)
    Tensor([[[ 1., 10.,  2., 20.]]], f32[1,1,4]@cpu:0)
    """
    out = ef.convolution_transpose(
        input, weight, stride=stride, padding=padding, output_padding=output_padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    return _shifted(out, bias)


@over_axes(2)
def conv_transpose2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> ef.Tensor:
    """The transpose of `conv2d`: each element of the input adds a multiple of the window.

    Used to enlarge images (Zeiler et al., 2010).

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        weight: floating, ``[channels, outputs/groups, window height, window width]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window in the result.
        padding: number of elements cropped from the result at both ends of each axis.
        output_padding: number of elements added to the result at the end of each axis.
        groups: number of groups of channels, each convolved separately.
        dilation: distance between elements of the window.

    Returns:
        ``[n, outputs, height, width]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x = ef.ones((1, 8, 4, 4))
    >>> ef.nn.functional.conv_transpose2d(x, ef.ones((8, 3, 4, 4)), stride=2, padding=1).shape
    (1, 3, 8, 8)
    """
    out = ef.convolution_transpose(
        input, weight, stride=stride, padding=padding, output_padding=output_padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    return _shifted(out, bias)


@over_axes(3)
def conv_transpose3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> ef.Tensor:
    """Transposed convolution over three axes; otherwise as `conv_transpose2d`.

    Args:
        input: floating, ``[n, channels, depth, height, width]``, with or without the batch axis.
        weight: floating, ``[channels, outputs/groups, *window]``.
        bias: floating, ``[outputs]``, or none.
        stride: distance between positions of the window in the result.
        padding: number of elements cropped from the result at both ends of each axis.
        output_padding: number of elements added to the result at the end of each axis.
        groups: number of groups of channels, each convolved separately.
        dilation: distance between elements of the window.

    Returns:
        ``[n, outputs, depth, height, width]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x = ef.ones((1, 4, 2, 3, 3))
    >>> ef.nn.functional.conv_transpose3d(x, ef.ones((4, 1, 2, 2, 2)), stride=2).shape
    (1, 1, 4, 6, 6)
    """
    out = ef.convolution_transpose(
        input, weight, stride=stride, padding=padding, output_padding=output_padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    return _shifted(out, bias)
