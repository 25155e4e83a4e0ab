"""Maximum and average pooling over one, two and three axes."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from eagerflow.extending import TensorLike
from eagerflow.nn.functional.convolution import Sizes, over_axes

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


@over_axes(1)
def max_pool1d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over one axis; otherwise as `max_pool2d`.

    Args:
        input: real, ``[n, channels, length]`` or ``[channels, length]``.
        kernel_size: the size of the window.
        stride: distance between windows; by default the size of the window.
        padding: number of positions that windows reach beyond both ends, at most half the window,
            dilation included.
        dilation: distance between elements of the window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, positions]``; with ``return_indices`` also int64 of that shape.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> ef.nn.functional.max_pool1d(ef.tensor([[[1.0, 5.0, 2.0]]]), 2, ceil_mode=True)
    Tensor([[[5., 2.]]], f32[1,1,2]@cpu:0)
    """
    return ef.max_pool(
        input, kernel_size, stride=stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode, return_indices=return_indices,
    )  # fmt: skip


@over_axes(2)
def max_pool2d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of an image; NaN if any element is NaN.

    The gradient goes to the first of several largest elements.

    Args:
        input: real, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        kernel_size: the sizes of the window, a number or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of positions that windows reach beyond both ends of each axis, at most half
            the window, dilation included.
        dilation: distance between elements of the window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, height, width]``; with ``return_indices`` also int64 of that shape: the
        positions in each image, in row-major order.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> x = ef.tensor([[[[1.0, 5.0], [7.0, 2.0]]]])
    >>> ef.nn.functional.max_pool2d(x, 2, return_indices=True)
    (Tensor([[[[7.]]]], f32[1,1,1,1]@cpu:0), Tensor([[[[2]]]], i64[1,1,1,1]@cpu:0))
    """
    return ef.max_pool(
        input, kernel_size, stride=stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode, return_indices=return_indices,
    )  # fmt: skip


@over_axes(3)
def max_pool3d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of a volume; otherwise as `max_pool2d`.

    Args:
        input: real, ``[n, channels, depth, height, width]``, with or without the batch axis.
        kernel_size: the sizes of the window, a number or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of positions that windows reach beyond both ends of each axis, at most half
            the window, dilation included.
        dilation: distance between elements of the window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, depth, height, width]``; with ``return_indices`` also int64 of that shape:
        the positions in each volume, in row-major order.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> x = ef.reshape(ef.arange(8.0), (1, 1, 2, 2, 2))
    >>> ef.nn.functional.max_pool3d(x, 2).item()
    7.0
    """
    return ef.max_pool(
        input, kernel_size, stride=stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode, return_indices=return_indices,
    )  # fmt: skip


@over_axes(1)
def avg_pool1d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ef.Tensor:
    """The mean of each window over one axis; otherwise as `avg_pool2d`.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        kernel_size: the size of the window.
        stride: distance between windows; by default the size of the window.
        padding: number of zeros at both ends, at most half a window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums, in place of the number of elements.

    Returns:
        ``[n, channels, positions]``.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> ef.nn.functional.avg_pool1d(ef.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2)
    Tensor([[[3., 3.]]], f32[1,1,2]@cpu:0)
    """
    return ef.avg_pool(
        input, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor_override=divisor_override,
    )  # fmt: skip


@over_axes(2)
def avg_pool2d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ef.Tensor:
    """The mean of each window of an image.

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        kernel_size: the sizes of the window, a number or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of zeros at both ends of each axis, at most half a window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums, in place of the number of elements.

    Returns:
        ``[n, channels, height, width]``.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> ef.nn.functional.avg_pool2d(ef.tensor([[[[1.0, 5.0], [7.0, 3.0]]]]), 2)
    Tensor([[[[4.]]]], f32[1,1,1,1]@cpu:0)
    """
    return ef.avg_pool(
        input, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor_override=divisor_override,
    )  # fmt: skip


@over_axes(3)
def avg_pool3d(
    input: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ef.Tensor:
    """The mean of each window of a volume; otherwise as `avg_pool2d`.

    Args:
        input: floating, ``[n, channels, depth, height, width]``, with or without the batch axis.
        kernel_size: the sizes of the window, a number or one per axis.
        stride: distance between windows; by default the sizes of the window.
        padding: number of zeros at both ends of each axis, at most half a window.
        ceil_mode: whether windows that start before the end may reach further beyond it.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums, in place of the number of elements.

    Returns:
        ``[n, channels, depth, height, width]``.

    Raises:
        ShapeError: the window is larger than the padded input.

    >>> x = ef.reshape(ef.arange(8.0), (1, 1, 2, 2, 2))
    >>> ef.nn.functional.avg_pool3d(x, 2).item()
    3.5
    """
    return ef.avg_pool(
        input, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor_override=divisor_override,
    )  # fmt: skip


@over_axes(1)
def adaptive_avg_pool1d(input: TensorLike, output_size: Sizes) -> ef.Tensor:
    """The means of windows that divide one axis into a given number of positions.

    Args:
        input: floating, ``[n, channels, length]`` or ``[channels, length]``.
        output_size: number of positions.

    Returns:
        ``[n, channels, output_size]``.

    >>> ef.nn.functional.adaptive_avg_pool1d(ef.tensor([[[1.0, 3.0, 8.0]]]), 2)
    Tensor([[[2. , 5.5]]], f32[1,1,2]@cpu:0)
    """
    return ef.adaptive_avg_pool(input, output_size)


@over_axes(2)
def adaptive_avg_pool2d(input: TensorLike, output_size: Sizes) -> ef.Tensor:
    """The means of windows that divide an image into a given number of positions.

    Args:
        input: floating, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        output_size: number of positions, one number or one per axis; None keeps a size. 1 gives
            the mean of each image.

    Returns:
        ``[n, channels, *output_size]``.

    >>> ef.nn.functional.adaptive_avg_pool2d(ef.tensor([[[[1.0, 5.0], [7.0, 3.0]]]]), 1)
    Tensor([[[[4.]]]], f32[1,1,1,1]@cpu:0)
    """
    return ef.adaptive_avg_pool(input, output_size)


@over_axes(3)
def adaptive_avg_pool3d(input: TensorLike, output_size: Sizes) -> ef.Tensor:
    """The means of windows that divide a volume into a given number of positions.

    Args:
        input: floating, ``[n, channels, depth, height, width]``, with or without the batch axis.
        output_size: number of positions, one number or one per axis; None keeps a size.

    Returns:
        ``[n, channels, *output_size]``.

    >>> x = ef.reshape(ef.arange(8.0), (1, 1, 2, 2, 2))
    >>> ef.nn.functional.adaptive_avg_pool3d(x, (2, 1, 1)).flatten()
    Tensor([1.5, 5.5], f32[2]@cpu:0)
    """
    return ef.adaptive_avg_pool(input, output_size)


@over_axes(1)
def adaptive_max_pool1d(input: TensorLike, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of windows that divide one axis into a given number of positions.

    Args:
        input: real, ``[n, channels, length]`` or ``[channels, length]``.
        output_size: number of positions.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, output_size]``; with ``return_indices`` also int64 of that shape.

    >>> ef.nn.functional.adaptive_max_pool1d(ef.tensor([[[1.0, 3.0, 8.0]]]), 2)
    Tensor([[[3., 8.]]], f32[1,1,2]@cpu:0)
    """
    return ef.adaptive_max_pool(input, output_size, return_indices=return_indices)


@over_axes(2)
def adaptive_max_pool2d(input: TensorLike, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of windows that divide an image into a given number of positions.

    Args:
        input: real, ``[n, channels, height, width]`` or ``[channels, height, width]``.
        output_size: number of positions, one number or one per axis; None keeps a size.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, *output_size]``; with ``return_indices`` also int64 of that shape.

    >>> ef.nn.functional.adaptive_max_pool2d(ef.tensor([[[[1.0, 5.0], [7.0, 3.0]]]]), (1, None))
    Tensor([[[[7., 5.]]]], f32[1,1,1,2]@cpu:0)
    """
    return ef.adaptive_max_pool(input, output_size, return_indices=return_indices)


@over_axes(3)
def adaptive_max_pool3d(input: TensorLike, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of windows that divide a volume into a given number of positions.

    Args:
        input: real, ``[n, channels, depth, height, width]``, with or without the batch axis.
        output_size: number of positions, one number or one per axis; None keeps a size.
        return_indices: whether to return the positions of the elements as well.

    Returns:
        ``[n, channels, *output_size]``; with ``return_indices`` also int64 of that shape.

    >>> x = ef.reshape(ef.arange(8.0), (1, 1, 2, 2, 2))
    >>> ef.nn.functional.adaptive_max_pool3d(x, (2, 1, 1)).flatten()
    Tensor([3., 7.], f32[2]@cpu:0)
    """
    return ef.adaptive_max_pool(input, output_size, return_indices=return_indices)
