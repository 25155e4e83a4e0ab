"""Convolutions and transposed convolutions as layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import SIZE, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.checks import check_channels, check_divides, note_precision
from eagerflow.nn.layers.linear import small_bias
from eagerflow.nn.module import Module

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

Sizes = int | tuple[int, ...]


class _AbstractKernels(Module):
    """Base class of convolutions and transposed convolutions."""

    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., ef.Tensor]]
    _transposed: ClassVar[bool] = False

    def _make(
        self, in_channels: int, out_channels: int, groups: int, kernel_size: Sizes, bias: bool,
        dtype: ef.types.DTypeLike, generator: ef.random.Generator | None,
    ) -> None:  # fmt: skip
        """Check the sizes, and make weight and bias."""
        name = type(self).__name__
        require(name, SIZE, in_channels=in_channels, out_channels=out_channels, groups=groups)
        check_divides(name, "groups", groups, in_channels=in_channels, out_channels=out_channels)
        window = self._window(name, kernel_size)
        first, second = out_channels, in_channels
        if self._transposed:
            first, second = second, first
        shape = (first, second // groups, *window)
        weight = init.he_uniform(shape, math.sqrt(5), generator=generator, dtype=dtype)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.groups = groups
        self.weight = ef.Variable(weight, name="weight")
        fans = (out_channels, *shape[1:])
        self.bias = small_bias(fans, generator, dtype) if bias else None

    def _window(self, name: str, kernel_size: Sizes) -> tuple[int, ...]:
        """The size of the window along each axis."""
        axes = self._axes
        sizes = (kernel_size,) * axes if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(sizes) != axes:
            raise TensorValueError(
                f"{name}: the window has another number of axes",
                given=f"kernel_size={kernel_size!r}",
                expected=f"an integer, or {axes} of them",
            )
        for size in sizes:
            require(name, SIZE, kernel_size=size)
        return sizes


class _AbstractConvolution(_AbstractKernels):
    """Base class of `Conv1d`, `Conv2d` and `Conv3d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self._make(in_channels, out_channels, groups, kernel_size, bias, dtype, generator)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        check_channels(self, x, self._axes)
        out = self._function(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )
        note_precision(out, self.weight)
        return out


@final
class Conv1d(_AbstractConvolution):
    """Convolution of sequences (LeCun et al., 1989).

    Input ``[batch, in_channels, length]``, or without the batch axis; output
    ``[batch, out_channels, new length]``. Weight and bias are drawn from U(-k, k) with
    ``k = 1 / sqrt(fan_in)``: He et al. (2015) with a negative slope of √5.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: the length of the windows.
        stride: distance between positions of the window.
        padding: number of zeros at each end, or ``"valid"`` (none), or ``"same"`` (as many as
            keep the length).
        dilation: distance in the input between neighbouring elements of the window.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[out_channels, in_channels / groups, kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.Conv1d(3, 8, 5, padding="same")(ef.ones((2, 3, 20))).shape
    (2, 8, 20)
    """

    _axes = 1
    _function = staticmethod(F.conv1d)


@final
class Conv2d(_AbstractConvolution):
    """Convolution of images (LeCun et al., 1989).

    Input ``[batch, in_channels, height, width]``, or without the batch axis; output
    ``[batch, out_channels, new height, new width]``. Weight and bias are drawn from U(-k, k) with
    ``k = 1 / sqrt(fan_in)``: He et al. (2015) with a negative slope of √5.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: height and width of the windows, or one number for both.
        stride: distance between positions of the window, likewise.
        padding: number of zeros at each side, or ``"valid"`` (none), or ``"same"`` (as many as
            keep the sizes).
        dilation: distance in the input between neighbouring elements of the window.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[out_channels, in_channels / groups, *kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.Conv2d(3, 16, 3, padding=1)(ef.ones((2, 3, 8, 8))).shape
    (2, 16, 8, 8)
    """

    _axes = 2
    _function = staticmethod(F.conv2d)


@final
class Conv3d(_AbstractConvolution):
    """Convolution of volumes and videos (LeCun et al., 1989).

    Input ``[batch, in_channels, depth, height, width]``, or without the batch axis; output
    ``[batch, out_channels, new depth, new height, new width]``. Weight and bias are drawn from
    U(-k, k) with ``k = 1 / sqrt(fan_in)``: He et al. (2015) with a negative slope of √5.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: depth, height and width of the windows, or one number for all.
        stride: distance between positions of the window, likewise.
        padding: number of zeros at each side, or ``"valid"`` (none), or ``"same"`` (as many as
            keep the sizes).
        dilation: distance in the input between neighbouring elements of the window.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[out_channels, in_channels / groups, *kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.Conv3d(3, 16, 3, padding=1)(ef.ones((2, 3, 4, 8, 8))).shape
    (2, 16, 4, 8, 8)
    """

    _axes = 3
    _function = staticmethod(F.conv3d)


class _AbstractTransposed(_AbstractKernels):
    """Base class of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self._make(in_channels, out_channels, groups, kernel_size, bias, dtype, generator)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        check_channels(self, x, self._axes)
        out = self._function(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip
        note_precision(out, self.weight)
        return out


@final
class ConvTranspose1d(_AbstractTransposed):
    """Transposed convolution of sequences (Zeiler et al., 2010): it enlarges by its stride.

    Input ``[batch, in_channels, length]``, or without the batch axis; output ``[batch,
    out_channels, (length - 1) * stride - 2 * padding + dilation * (kernel_size - 1) +
    output_padding + 1]``. Initial values are as in `Conv1d`.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: the length of the windows.
        stride: distance in the output between windows of neighbouring inputs.
        padding: number of elements cropped from the output at each end.
        output_padding: number of elements added at the end; less than stride or dilation.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dilation: distance in the output between neighbouring elements of the window.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[in_channels, out_channels / groups, kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.ConvTranspose1d(8, 3, 4, stride=2, padding=1)(ef.ones((2, 8, 10))).shape
    (2, 3, 20)
    """

    _axes = 1
    _function = staticmethod(F.conv_transpose1d)


@final
class ConvTranspose2d(_AbstractTransposed):
    """Transposed convolution of images (Zeiler et al., 2010): it enlarges by its stride.

    Input ``[batch, in_channels, height, width]``, or without the batch axis; the output has
    ``out_channels``, and along each axis ``(size - 1) * stride - 2 * padding + dilation *
    (kernel_size - 1) + output_padding + 1`` elements. Initial values are as in `Conv2d`.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: height and width of the windows, or one number for both.
        stride: distance in the output between windows of neighbouring inputs, likewise.
        padding: number of elements cropped from the output at each side.
        output_padding: number of elements added at the end of each axis; less than stride or
            dilation.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dilation: distance in the output between neighbouring elements of the window.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[in_channels, out_channels / groups, *kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)(ef.ones((2, 8, 5, 5))).shape
    (2, 3, 10, 10)
    """

    _axes = 2
    _function = staticmethod(F.conv_transpose2d)


@final
class ConvTranspose3d(_AbstractTransposed):
    """Transposed convolution of volumes (Zeiler et al., 2010): it enlarges by its stride.

    Input ``[batch, in_channels, depth, height, width]``, or without the batch axis; the output has
    ``out_channels``, and along each axis ``(size - 1) * stride - 2 * padding + dilation *
    (kernel_size - 1) + output_padding + 1`` elements. Initial values are as in `Conv3d`.

    Args:
        in_channels: number of channels of inputs.
        out_channels: number of channels of outputs.
        kernel_size: depth, height and width of the windows, or one number for all.
        stride: distance in the output between windows of neighbouring inputs, likewise.
        padding: number of elements cropped from the output at each side.
        output_padding: number of elements added at the end of each axis; less than stride or
            dilation.
        groups: number of groups of channels, each convolved separately.
        bias: whether there is a bias.
        dilation: distance in the output between neighbouring elements of the window.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[in_channels, out_channels / groups, *kernel_size]``.
        bias: ``[out_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``groups`` does not divide the channels.

    >>> ef.nn.ConvTranspose3d(8, 3, 4, stride=2, padding=1)(ef.ones((2, 8, 2, 5, 5))).shape
    (2, 3, 4, 10, 10)
    """

    _axes = 3
    _function = staticmethod(F.conv_transpose3d)
