"""Maximum, average and adaptive pooling as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, final

import eagerflow as ef
from eagerflow.nn import functional as F
from eagerflow.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip

Sizes = int | tuple[int, ...]


class _AbstractMaxPool(Module):
    """Base class of `MaxPool1d`, `MaxPool2d` and `MaxPool3d`."""

    _function: ClassVar[Callable[..., ef.Tensor]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.ceil_mode = ceil_mode

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return self._function(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )


@final
class MaxPool1d(_AbstractMaxPool):
    """The largest element of each window of a sequence.

    Input ``[batch, channels, length]``, or without the batch axis; output likewise.

    Args:
        kernel_size: the length of windows.
        stride: distance between windows; by default their length.
        padding: number of positions that windows may reach beyond each end, at most half of
            their length, dilation included.
        dilation: distance between elements of a window.
        ceil_mode: whether windows that reach beyond the end count, too.

    >>> ef.nn.MaxPool1d(2)(ef.tensor([[1.0, 3.0, 2.0, 0.0]]))
    Tensor([[3., 2.]], f32[1,2]@cpu:0)
    """

    _function = staticmethod(F.max_pool1d)


@final
class MaxPool2d(_AbstractMaxPool):
    """The largest element of each window of an image.

    Input ``[batch, channels, height, width]``, or without the batch axis; output likewise.

    Args:
        kernel_size: height and width of windows, or one number for both.
        stride: distance between windows; by default their sizes.
        padding: number of positions that windows may reach beyond each side, at most half of
            their size, dilation included.
        dilation: distance between elements of a window.
        ceil_mode: whether windows that reach beyond the end count, too.

    >>> ef.nn.MaxPool2d(2)(ef.ones((2, 3, 8, 8))).shape
    (2, 3, 4, 4)
    """

    _function = staticmethod(F.max_pool2d)


@final
class MaxPool3d(_AbstractMaxPool):
    """The largest element of each window of a volume.

    Input ``[batch, channels, depth, height, width]``, or without the batch axis; output likewise.

    Args:
        kernel_size: depth, height and width of windows, or one number for all.
        stride: distance between windows; by default their sizes.
        padding: number of positions that windows may reach beyond each side, at most half of
            their size, dilation included.
        dilation: distance between elements of a window.
        ceil_mode: whether windows that reach beyond the end count, too.

    >>> ef.nn.MaxPool3d(2)(ef.ones((2, 3, 4, 8, 8))).shape
    (2, 3, 2, 4, 4)
    """

    _function = staticmethod(F.max_pool3d)


class _AbstractAvgPool(Module):
    """Base class of `AvgPool1d`, `AvgPool2d` and `AvgPool3d`."""

    _function: ClassVar[Callable[..., ef.Tensor]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return self._function(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


@final
class AvgPool1d(_AbstractAvgPool):
    """The mean of each window of a sequence.

    Input ``[batch, channels, length]``, or without the batch axis; output likewise.

    Args:
        kernel_size: the length of windows.
        stride: distance between windows; by default their length.
        padding: number of zeros at each end, at most half the length of a window.
        ceil_mode: whether windows that reach beyond the end count, too.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums; by default the number of elements.

    >>> ef.nn.AvgPool1d(2)(ef.tensor([[1.0, 3.0, 2.0, 0.0]]))
    Tensor([[2., 1.]], f32[1,2]@cpu:0)
    """

    _function = staticmethod(F.avg_pool1d)


@final
class AvgPool2d(_AbstractAvgPool):
    """The mean of each window of an image.

    Input ``[batch, channels, height, width]``, or without the batch axis; output likewise.

    Args:
        kernel_size: height and width of windows, or one number for both.
        stride: distance between windows; by default their sizes.
        padding: number of zeros at each side, at most half the size of a window.
        ceil_mode: whether windows that reach beyond the end count, too.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums; by default the number of elements.

    >>> ef.nn.AvgPool2d(2)(ef.ones((2, 3, 8, 8))).shape
    (2, 3, 4, 4)
    """

    _function = staticmethod(F.avg_pool2d)


@final
class AvgPool3d(_AbstractAvgPool):
    """The mean of each window of a volume.

    Input ``[batch, channels, depth, height, width]``, or without the batch axis; output likewise.

    Args:
        kernel_size: depth, height and width of windows, or one number for all.
        stride: distance between windows; by default their sizes.
        padding: number of zeros at each side, at most half the size of a window.
        ceil_mode: whether windows that reach beyond the end count, too.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divisor of the sums; by default the number of elements.

    >>> ef.nn.AvgPool3d(2)(ef.ones((2, 3, 4, 8, 8))).shape
    (2, 3, 2, 4, 4)
    """

    _function = staticmethod(F.avg_pool3d)


class _AbstractAdaptivePool(Module):
    """Base class of layers that pool to a given number of positions."""

    _function: ClassVar[Callable[..., ef.Tensor]]

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        self.output_size = output_size

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return self._function(x, self.output_size)


@final
class AdaptiveAvgPool1d(_AbstractAdaptivePool):
    """Average pooling of a sequence to a given length.

    Input ``[batch, channels, length]``, or without the batch axis; output
    ``[batch, channels, output_size]``.

    Args:
        output_size: number of positions.

    >>> ef.nn.AdaptiveAvgPool1d(1)(ef.ones((2, 3, 7))).shape
    (2, 3, 1)
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


@final
class AdaptiveAvgPool2d(_AbstractAdaptivePool):
    """Average pooling of an image to given sizes.

    Input ``[batch, channels, height, width]``, or without the batch axis; output
    ``[batch, channels, *output_size]``.

    Args:
        output_size: height and width of the output, or one number for both; None keeps the size
            of an axis.

    >>> ef.nn.AdaptiveAvgPool2d(1)(ef.ones((2, 3, 7, 5))).shape
    (2, 3, 1, 1)
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


@final
class AdaptiveAvgPool3d(_AbstractAdaptivePool):
    """Average pooling of a volume to given sizes.

    Input ``[batch, channels, depth, height, width]``, or without the batch axis; output
    ``[batch, channels, *output_size]``.

    Args:
        output_size: depth, height and width of the output, or one number for all; None keeps the
            size of an axis.

    >>> ef.nn.AdaptiveAvgPool3d(1)(ef.ones((2, 3, 4, 7, 5))).shape
    (2, 3, 1, 1, 1)
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


@final
class AdaptiveMaxPool1d(_AbstractAdaptivePool):
    """Maximum pooling of a sequence to a given length.

    Input ``[batch, channels, length]``, or without the batch axis; output
    ``[batch, channels, output_size]``.

    Args:
        output_size: number of positions.

    >>> ef.nn.AdaptiveMaxPool1d(1)(ef.ones((2, 3, 7))).shape
    (2, 3, 1)
    """

    _function = staticmethod(F.adaptive_max_pool1d)


@final
class AdaptiveMaxPool2d(_AbstractAdaptivePool):
    """Maximum pooling of an image to given sizes.

    Input ``[batch, channels, height, width]``, or without the batch axis; output
    ``[batch, channels, *output_size]``.

    Args:
        output_size: height and width of the output, or one number for both; None keeps the size
            of an axis.

    >>> ef.nn.AdaptiveMaxPool2d(1)(ef.ones((2, 3, 7, 5))).shape
    (2, 3, 1, 1)
    """

    _function = staticmethod(F.adaptive_max_pool2d)


@final
class AdaptiveMaxPool3d(_AbstractAdaptivePool):
    """Maximum pooling of a volume to given sizes.

    Input ``[batch, channels, depth, height, width]``, or without the batch axis; output
    ``[batch, channels, *output_size]``.

    Args:
        output_size: depth, height and width of the output, or one number for all; None keeps the
            size of an axis.

    >>> ef.nn.AdaptiveMaxPool3d(1)(ef.ones((2, 3, 4, 7, 5))).shape
    (2, 3, 1, 1, 1)
    """

    _function = staticmethod(F.adaptive_max_pool3d)
