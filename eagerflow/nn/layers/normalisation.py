"""Normalisation layers: with statistics of the batch, or of each sample."""

from __future__ import annotations

from typing import Any, final

import eagerflow as ef
from eagerflow.extending import SIZE, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.checks import check_channels, check_divides
from eagerflow.nn.module import Module

__all__ = ["BatchNorm", "GroupNorm", "LayerNorm", "RMSNorm"]


def _scale(shape: Any, dtype: ef.types.DTypeLike) -> ef.Variable:
    return ef.Variable(init.ones(shape, dtype=dtype), name="weight")


def _shift(shape: Any, dtype: ef.types.DTypeLike) -> ef.Variable:
    return ef.Variable(init.zeros(shape, dtype=dtype), name="bias")


@final
class BatchNorm(Module):
    """Normalises each channel with the mean and variance of the batch (Ioffe and Szegedy, 2015).

    Input and output ``[batch, num_features, ...]``. In training mode the statistics are those of
    the batch, and running statistics follow them; after ``eval()`` running statistics are used.
    Initially scales are ones and shifts zeros.

    Args:
        num_features: number of channels, the size of axis 1.
        eps: added to variances.
        momentum: weight of a batch in the running statistics. None: these are the mean over all
            batches.
        affine: whether to scale and shift by trainable variables.
        track_running_stats: whether there are running statistics; else statistics of the batch
            are used in both modes.
        dtype: dtype of the variables; float32 by default.

    Attributes:
        weight: the scales ``[num_features]``, or None.
        bias: the shifts ``[num_features]``, or None.
        running_mean: a buffer ``[num_features]``, or None.
        running_var: a buffer ``[num_features]``, or None; of unbiased variances.
        num_batches_tracked: a buffer, the number of batches in the running statistics, or None.

    Raises:
        TensorValueError: a size is less than 1.

    >>> layer = ef.nn.BatchNorm(3)
    >>> y = layer(ef.random.normal((8, 3, 5, 5), loc=4.0))
    >>> bool(abs(y.mean(axis=(0, 2, 3))).max() < 1e-5)
    True
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
    ) -> None:
        require("BatchNorm", SIZE, num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.weight = _scale(num_features, dtype) if affine else None
        self.bias = _shift(num_features, dtype) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            zeros, ones = ef.zeros(num_features, dtype=dtype), ef.ones(num_features, dtype=dtype)
            self.running_mean = ef.Variable(zeros, trainable=False, name="running_mean")
            self.running_var = ef.Variable(ones, trainable=False, name="running_var")
            count, name = ef.zeros((), dtype=ef.int64), "num_batches_tracked"
            self.num_batches_tracked = ef.Variable(count, trainable=False, name=name)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        check_channels(self, x)
        training = self.training or self.running_mean is None
        count = self.num_batches_tracked if self.training else None
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.momentum is None and count is not None and self.running_mean is not None:
            # not in the dtype of the input: in bfloat16, 1 - 1/257 is 1
            momentum = 1.0 / (count + 1).astype(self.running_mean.dtype)
        out = F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            training=training, momentum=momentum, eps=self.eps,
        )  # fmt: skip
        if count is not None:  # afterwards: a refused input does not count
            count.assign_add(1)
        return out


@final
class LayerNorm(Module):
    """Normalises each sample over its last axes (Ba, Kiros and Hinton, 2016).

    Input and output ``[..., *normalized_shape]``. Initially scales are ones and shifts zeros.

    Args:
        normalized_shape: the sizes of the axes to normalise over, or the size of the last axis.
        eps: added to variances.
        elementwise_affine: whether to scale and shift by trainable variables.
        bias: whether to shift.
        dtype: dtype of the variables; float32 by default.

    Attributes:
        weight: the scales, of ``normalized_shape``, or None.
        bias: the shifts, likewise.

    Raises:
        TensorValueError: a size is less than 1.

    >>> y = ef.nn.LayerNorm(4)(ef.tensor([[1.0, 2.0, 3.0, 4.0]]))
    >>> bool(abs(y.mean()) < 1e-6), bool(abs(y.std() - 1) < 1e-4)
    (True, True)
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
    ) -> None:
        sizes = _sizes("LayerNorm", normalized_shape)
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight = _scale(sizes, dtype) if elementwise_affine else None
        self.bias = _shift(sizes, dtype) if elementwise_affine and bias else None

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)


@final
class RMSNorm(Module):
    """Divides each sample by its root mean square over the last axes (Zhang and Sennrich, 2019).

    Input and output ``[..., *normalized_shape]``. Scales are ones at first.

    Args:
        normalized_shape: the sizes of the axes to normalise over, or the size of the last axis.
        eps: added to mean squares; by default the machine epsilon of the dtype.
        elementwise_affine: whether to scale by a trainable variable.
        dtype: dtype of the variable; float32 by default.

    Attributes:
        weight: the scales, of ``normalized_shape``, or None.

    Raises:
        TensorValueError: a size is less than 1.

    >>> ef.nn.RMSNorm(2)(ef.tensor([[3.0, 3.0]]))
    Tensor([[1., 1.]], f32[1,2]@cpu:0)
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
    ) -> None:
        sizes = _sizes("RMSNorm", normalized_shape)
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight = _scale(sizes, dtype) if elementwise_affine else None

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, eps=self.eps)


def _sizes(name: str, shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else shape
    for size in sizes:
        require(name, SIZE, normalized_shape=size)
    return sizes


@final
class GroupNorm(Module):
    """Normalises groups of channels of each sample (Wu and He, 2018).

    Input and output ``[batch, num_channels, ...]``. Initially scales are ones and shifts zeros.

    Args:
        num_groups: number of groups; it divides ``num_channels``. As many as channels make
            instance normalisation, a single group makes layer normalisation.
        num_channels: number of channels, the size of axis 1.
        eps: added to variances.
        affine: whether to scale and shift channels by trainable variables.
        dtype: dtype of the variables; float32 by default.

    Attributes:
        weight: the scales ``[num_channels]``, or None.
        bias: the shifts ``[num_channels]``, or None.

    Raises:
        TensorValueError: a size is less than 1, or ``num_groups`` does not divide ``num_channels``.

    >>> ef.nn.GroupNorm(2, 6)(ef.random.normal((4, 6, 5, 5))).shape
    (4, 6, 5, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
    ) -> None:
        require("GroupNorm", SIZE, num_groups=num_groups, num_channels=num_channels)
        check_divides("GroupNorm", "num_groups", num_groups, num_channels=num_channels)
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.weight = _scale(num_channels, dtype) if affine else None
        self.bias = _shift(num_channels, dtype) if affine else None

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)
