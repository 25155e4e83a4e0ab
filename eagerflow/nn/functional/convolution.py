"""Convolution over one and two axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerflow as ef
from eagerflow.errors import ShapeError
from eagerflow.extending import TensorLike
from eagerflow.nn.functional.messages import speaks_for_parts

__all__ = ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"]

Sizes = int | tuple[int, ...]


def over_axes(
    name: str, input: TensorLike, axes: int, function: Callable[[ef.Tensor], ef.Tensor]
) -> ef.Tensor:
    """``function`` of ``[n, channels, *sizes]``; of one sample without a batch likewise.

    Args:
        name: of the public function, for messages.
        input: ``[n, channels, *sizes]`` or ``[channels, *sizes]``.
        axes: how many sizes there are.
        function: keeps the axis of the batch.

    Raises:
        ShapeError: other axes.
    """
    tensor = ef.asarray(input)
    if tensor.ndim == axes + 2:
        return function(tensor)
    if tensor.ndim != axes + 1:
        sizes = ", ".join(("height", "width")[-axes:] if axes == 2 else ("length",))
        raise ShapeError(
            f"{name}: the input has {tensor.ndim} axes",
            given=f"input={tensor.type}",
            expected=f"[n, channels, {sizes}], or [channels, {sizes}]",
        )
    return ef.squeeze(function(ef.expand_dims(tensor, axis=0)), axis=0)


def _convolved(
    name: str, axes: int, op: Callable[..., ef.Tensor], input: TensorLike, weight: TensorLike,
    bias: TensorLike | None, **settings: Any,
) -> ef.Tensor:  # fmt: skip
    def convolve(x: ef.Tensor) -> ef.Tensor:
        out = op(x, weight, **settings)
        return out if bias is None else out + ef.reshape(bias, (-1,) + (1,) * axes)

    return over_axes(name, input, axes, convolve)


@speaks_for_parts
def conv1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ef.Tensor:
    """Convolution over one axis, as `conv2d` does it over two.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        weight: floating, ``[outputs, channels/groups, kernel]``.
        bias: floating, ``[outputs]``, or none.
        stride: from one position of the kernel to the next.
        padding: how many zeros at both ends, ``"valid"`` (none) or ``"same"``.
        dilation: from one element of the kernel to the next.
        groups: how many parts the channels fall into.

    Returns:
        ``[n, outputs, positions]``.

    Raises:
        ShapeError: the shapes do not fit, or the kernel is larger than the padded input.

    >>> x = ef.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    >>> ef.nn.functional.conv1d(x, ef.tensor([[[1.0, 10.0]]]), ef.tensor([0.5]))
    Tensor([[[21.5, 32.5, 43.5]]], f32[1,1,3]@cpu:0)
    """
    return _convolved(
        "conv1d", 1, ef.convolution, input, weight, bias,
        stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


@speaks_for_parts
def conv2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ef.Tensor:
    """Convolution of pictures: sums of products with a kernel that slides over them.

    As networks use the word: the kernel is not turned around (LeCun et al., 1998).

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        weight: floating, ``[outputs, channels/groups, kernel height, kernel width]``.
        bias: floating, ``[outputs]``, or none.
        stride: from one position of the kernel to the next; a number, or one per axis.
        padding: how many zeros at both ends of each axis, ``"valid"`` (none) or ``"same"``,
            which keeps the sizes (with even kernels, one more zero is at the end).
        dilation: from one element of the kernel to the next.
        groups: how many parts the channels fall into, each with its own part of the outputs; as
            many as channels for a depthwise convolution.

    Returns:
        ``[n, outputs, height, width]``.

    Raises:
        ShapeError: the shapes do not fit, or the kernel is larger than the padded input.

    >>> x = ef.ones((1, 1, 3, 3))
    >>> ef.nn.functional.conv2d(x, ef.ones((1, 1, 3, 3)), padding="same")
    Tensor([[[[4., 6., 4.],
              [6., 9., 6.],
              [4., 6., 4.]]]], f32[1,1,3,3]@cpu:0)
    """
    return _convolved(
        "conv2d", 2, ef.convolution, input, weight, bias,
        stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


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
    """Transposed convolution over one axis, as `conv_transpose2d` does it over two.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        weight: floating, ``[channels, outputs/groups, kernel]``.
        bias: floating, ``[outputs]``, or none.
        stride: from one position of the kernel to the next, in the result.
        padding: how much of the result is left out at both ends.
        output_padding: how much is added to the result at the end.
        groups: how many parts the channels fall into.
        dilation: from one element of the kernel to the next.

    Returns:
        ``[n, outputs, length]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x = ef.tensor([[[1.0, 2.0]]])
    >>> ef.nn.functional.conv_transpose1d(x, ef.tensor([[[1.0, 10.0]]]), stride=2)
    Tensor([[[ 1., 10.,  2., 20.]]], f32[1,1,4]@cpu:0)
    """
    return _convolved(
        "conv_transpose1d", 1, ef.convolution_transpose, input, weight, bias, stride=stride,
        padding=padding, output_padding=output_padding, dilation=dilation, groups=groups,
    )  # fmt: skip


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
    """The transpose of `conv2d`: each element of the input adds a multiple of the kernel.

    Used to make pictures larger (Zeiler et al., 2010).

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        weight: floating, ``[channels, outputs/groups, kernel height, kernel width]``.
        bias: floating, ``[outputs]``, or none.
        stride: from one position of the kernel to the next, in the result.
        padding: how much of the result is left out at both ends of each axis.
        output_padding: how much is added to the result at the end of each axis.
        groups: how many parts the channels fall into.
        dilation: from one element of the kernel to the next.

    Returns:
        ``[n, outputs, height, width]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> x = ef.ones((1, 8, 4, 4))
    >>> ef.nn.functional.conv_transpose2d(x, ef.ones((8, 3, 4, 4)), stride=2, padding=1).shape
    (1, 3, 8, 8)
    """
    return _convolved(
        "conv_transpose2d", 2, ef.convolution_transpose, input, weight, bias, stride=stride,
        padding=padding, output_padding=output_padding, dilation=dilation, groups=groups,
    )  # fmt: skip
