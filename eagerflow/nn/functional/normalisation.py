"""Normalisations to mean 0 and variance 1, computed in two passes, at least in float32."""

from __future__ import annotations

import math
from typing import Any

import eagerflow as ef
from eagerflow.errors import ShapeError, VariableError
from eagerflow.extending import TensorLike, maximum, may_equal
from eagerflow.hardware import beside
from eagerflow.nn.functional.activations import as_floating
from eagerflow.nn.functional.op_errors import speaks_for_parts

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


def _scaled(x: ef.Tensor, weight: TensorLike | None, bias: TensorLike | None) -> ef.Tensor:
    if weight is not None:
        x = x * ef.asarray(weight)
    return x if bias is None else x + ef.asarray(bias)


def _by_channel(x: TensorLike | None, ndim: int) -> ef.Tensor | None:
    """A vector of one number per channel, reshaped to broadcast along axis 1."""
    return None if x is None else ef.asarray(x).reshape((-1, *(1,) * (ndim - 2)))


# --- over the last axes -----------------------------------------------------------------------


def _scaled_by_channel(
    x: ef.Tensor, weight: TensorLike | None, bias: TensorLike | None
) -> ef.Tensor:
    ndim = len(x.shape)
    return _scaled(x, _by_channel(weight, ndim), _by_channel(bias, ndim))


def _last_axes(name: str, x: ef.Tensor, shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, ef.Dim)) else tuple(shape)
    count = len(sizes)
    if not count or count > len(x.shape) or not all(map(may_equal, x.shape[-count:], sizes)):
        raise ShapeError(
            f"{name}: the last axes have other sizes",
            given=f"x={x.type}, normalized_shape={sizes}",
            expected="the sizes of the axes to normalise over",
        )
    return tuple(range(-count, 0))


@speaks_for_parts
def layer_norm(
    x: TensorLike,
    normalized_shape: int | tuple[int, ...],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> ef.Tensor:
    """Normalise to mean 0 and variance 1 over the last axes of each sample (Ba et al., 2016).

    Args:
        x: floating, ``[..., *normalized_shape]``; integers count as float32.
        normalized_shape: the sizes of the axes to normalise over.
        weight: factors of the result, of shape ``normalized_shape``.
        bias: added to the scaled result, likewise.
        eps: added to the variance, against division by 0.

    Raises:
        ShapeError: the last axes of ``x`` have other sizes.

    >>> ef.round(ef.nn.functional.layer_norm(ef.tensor([[1.0, 3.0], [0.0, 20.0]]), 2), 3)
    Tensor([[-1.,  1.],
            [-1.,  1.]], f32[2,2]@cpu:0)
    """
    tensor = as_floating(x)
    axes = _last_axes("layer_norm", tensor, normalized_shape)
    return _scaled(ef.standardize(tensor, axes, eps=eps)[0], weight, bias)


def rms_norm(
    x: TensorLike,
    normalized_shape: int | tuple[int, ...],
    weight: TensorLike | None = None,
    eps: float | None = None,
) -> ef.Tensor:
    """Normalise to mean square 1 over the last axes of each sample (Zhang and Sennrich, 2019).

    Args:
        x: floating, ``[..., *normalized_shape]``; integers count as float32.
        normalized_shape: the sizes of the axes to normalise over.
        weight: factors of the result, of shape ``normalized_shape``.
        eps: added to the mean square; by default the machine epsilon of the dtype.

    Raises:
        ShapeError: the last axes of ``x`` have other sizes.

    >>> ef.round(ef.nn.functional.rms_norm(ef.tensor([3.0, 4.0]), 2), 3)
    Tensor([0.849, 1.131], f32[2]@cpu:0)
    """
    tensor = as_floating(x)
    axes = _last_axes("rms_norm", tensor, normalized_shape)
    if eps is None:
        eps = float(ef.finfo(tensor.dtype).eps)
    # squares overflow in float16, and have few digits in bfloat16
    wide = tensor.astype(ef.float32) if tensor.dtype.itemsize < 4 else tensor
    size = ef.mean(ef.square(wide), axis=axes, keepdims=True)
    return _scaled((wide * ef.rsqrt(size + eps)).astype(tensor.dtype), weight, None)


# --- over samples, or parts of them -----------------------------------------------------------


def _channel_axis(name: str, x: ef.Tensor, least: int) -> None:
    if len(x.shape) < least:
        raise ShapeError(
            f"{name}: expected at least {least} axes",
            given=f"x={x.type}",
            hint="samples come along axis 0, channels along axis 1",
        )


@speaks_for_parts
def batch_norm(
    x: TensorLike,
    running_mean: ef.Variable | TensorLike | None,
    running_var: ef.Variable | TensorLike | None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> ef.Tensor:
    """Normalise each channel to mean 0 and variance 1 (Ioffe and Szegedy, 2015).

    In training, mean and variance are those of this batch; running statistics, if given, move
    towards them (an empty batch does not move them), the running variance towards the unbiased
    estimate. Otherwise the running mean and variance are used.

    Args:
        x: floating, ``[N, C, ...]``.
        running_mean: ``[C]``, or None; in training a variable, which is assigned.
        running_var: likewise.
        weight: factors of the result, ``[C]``.
        bias: added to the scaled result, likewise.
        training: whether to use the statistics of this batch.
        momentum: weight of this batch in the running mean and variance.
        eps: added to the variance, against division by 0.

    Raises:
        TensorValueError: in training, there is only one value per channel.
        ShapeError: running mean and variance are needed and not given.
        VariableError: in training, running mean or variance is no variable.

    >>> mean, var = ef.Variable(ef.zeros(1)), ef.Variable(ef.ones(1))
    >>> x = ef.tensor([[1.0], [3.0]])
    >>> ef.round(ef.nn.functional.batch_norm(x, mean, var, training=True), 3)
    Tensor([[-1.],
            [ 1.]], f32[2,1]@cpu:0)
    >>> ef.round(mean, 3), ef.round(var, 3)
    (Tensor([0.2], f32[1]@cpu:0), Tensor([1.1], f32[1]@cpu:0))
    """
    tensor = as_floating(x)
    _channel_axis("batch_norm", tensor, 2)
    axes = (0, *range(2, len(tensor.shape)))
    if training:
        out = _by_input("batch_norm", tensor, axes, running_mean, running_var, momentum, eps)
    else:
        out = _by_running("batch_norm", tensor, running_mean, running_var, eps)
    return _scaled_by_channel(out, weight, bias)


def _by_input(
    name: str, x: ef.Tensor, axes: tuple[int, ...], running_mean: Any, running_var: Any,
    momentum: float, eps: float,
) -> ef.Tensor:  # fmt: skip
    """``x`` normalised by its own statistics along ``axes``; running statistics move to these."""
    for running in (running_mean, running_var):
        if running is not None and not isinstance(running, ef.Variable):
            raise VariableError(
                f"{name}: the running mean and variance must be variables in training",
                given=type(running).__name__,
                expected="ef.Variable, or None to keep no statistics",
            )
    out, mean, var = ef.standardize(x, axes, eps=eps, least=2)
    count = math.prod(x.shape[a] for a in sorted({0, *axes}))
    if 0 not in axes:
        mean, var = ef.mean(mean, axis=0), ef.mean(var, axis=0)
    _move(running_mean, mean, momentum, count)
    _move(running_var, var * _unbiased(x, axes), momentum, count)
    return out


def _unbiased(x: ef.Tensor, axes: tuple[int, ...]) -> float:
    """The factor that turns a biased variance into an unbiased one."""
    count: Any = math.prod(x.shape[a] for a in axes)
    factor: float = count / maximum(count - 1, 1)  # one element is refused, but in empty batches
    return factor


def _by_running(
    name: str, x: ef.Tensor, mean: TensorLike | None, var: TensorLike | None, eps: float
) -> ef.Tensor:
    if mean is None or var is None:
        raise ShapeError(
            f"{name}: the running mean and variance are missing",
            expected="both, unless the statistics of the batch are used",
        )
    ndim = len(x.shape)
    centre, spread = _by_channel(mean, ndim), _by_channel(var, ndim)
    assert centre is not None
    assert spread is not None
    # in the dtype of `x`, as with the statistics of the batch
    return ((x - centre) * ef.rsqrt(spread + eps)).astype(x.dtype)


def _move(running: object, value: ef.Tensor, momentum: float, count: Any) -> None:
    """Move a running statistic towards a value; no derivative flows through this.

    Args:
        running: the variable.
        value: the value to move towards.
        momentum: the weight of the value.
        count: number of elements behind the value; if 0, the variable keeps its value.
    """
    if not isinstance(running, ef.Variable) or (type(count) is int and not count):
        return
    new = ef.stop_gradient(value).reshape(running.shape).astype(running.dtype)
    with beside(running):
        moved = running * (1 - momentum) + new * momentum
        if isinstance(count, ef.Dim):
            moved = ef.where(ef.asarray(count) == 0, running, moved)
        running.assign(moved)


@speaks_for_parts
def instance_norm(
    x: TensorLike,
    running_mean: ef.Variable | TensorLike | None = None,
    running_var: ef.Variable | TensorLike | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> ef.Tensor:
    """Normalise each channel of each sample to mean 0 and variance 1 (Ulyanov et al., 2016).

    Running statistics move as in `batch_norm`; an empty batch does not move them.

    Args:
        x: floating, ``[N, C, ...]`` with at least three axes.
        running_mean: ``[C]``, or None; if ``use_input_stats`` a variable, which moves towards the
            mean over the samples.
        running_var: likewise, of the unbiased variances.
        weight: factors of the result, ``[C]``.
        bias: added to the scaled result, likewise.
        use_input_stats: whether to use the statistics of the samples; else the running ones.
        momentum: weight of these samples in the running mean and variance.
        eps: added to the variance, against division by 0.

    Raises:
        TensorValueError: there is only one value per mean and variance.
        ShapeError: running mean and variance are needed and not given.
        VariableError: running mean or variance is to be assigned and is no variable.

    >>> ef.round(ef.nn.functional.instance_norm(ef.tensor([[[1.0, 3.0], [0.0, 20.0]]])), 3)
    Tensor([[[-1.,  1.],
             [-1.,  1.]]], f32[1,2,2]@cpu:0)
    """
    tensor = as_floating(x)
    _channel_axis("instance_norm", tensor, 3)
    axes = tuple(range(2, len(tensor.shape)))
    if use_input_stats:
        out = _by_input("instance_norm", tensor, axes, running_mean, running_var, momentum, eps)
    else:
        out = _by_running("instance_norm", tensor, running_mean, running_var, eps)
    return _scaled_by_channel(out, weight, bias)


@speaks_for_parts
def group_norm(
    x: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> ef.Tensor:
    """Normalise each group of channels of each sample to mean 0 and variance 1 (Wu and He, 2018).

    Args:
        x: floating, ``[N, C, ...]``.
        num_groups: number of groups; it divides the number of channels.
        weight: factors of the result, ``[C]``.
        bias: added to the scaled result, likewise.
        eps: added to the variance, against division by 0.

    Raises:
        ShapeError: ``num_groups`` does not divide the number of channels.

    >>> ef.round(ef.nn.functional.group_norm(ef.tensor([[1.0, 3.0, 0.0, 20.0]]), 2), 3)
    Tensor([[-1.,  1., -1.,  1.]], f32[1,4]@cpu:0)
    """
    tensor = as_floating(x)
    _channel_axis("group_norm", tensor, 2)
    samples, channels, *rest = tensor.shape
    if type(channels) is int and (num_groups < 1 or channels % num_groups):
        raise ShapeError(
            f"group_norm: {num_groups} groups do not divide {channels} channels",
            given=f"x={tensor.type}, num_groups={num_groups}",
        )
    grouped = tensor.reshape((samples, num_groups, channels // num_groups * math.prod(rest)))
    out = ef.standardize(grouped, -1, eps=eps)[0].reshape(tensor.shape)
    return _scaled_by_channel(out, weight, bias)


def local_response_norm(
    x: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> ef.Tensor:
    """Each element over a power of the mean square of its neighbours (Krizhevsky et al., 2012).

    Args:
        x: floating, ``[N, C, ...]``.
        size: number of neighbouring channels, with the element's own in the middle.
        alpha: factor of the mean square, in which missing channels count as 0.
        beta: the exponent.
        k: added to the scaled mean square, before the power is taken.

    Raises:
        ShapeError: ``size`` is not positive.

    >>> from eagerflow.nn import functional as F
    >>> ef.round(F.local_response_norm(ef.tensor([[3.0, 4.0, 0.0]]), 2, alpha=1.0, beta=1.0), 3)
    Tensor([[0.545, 0.296, 0.   ]], f32[1,3]@cpu:0)
    """
    tensor = as_floating(x)
    _channel_axis("local_response_norm", tensor, 2)
    if size < 1:
        raise ShapeError("local_response_norm: size is not positive", given=f"size={size}")
    around = [(0, 0)] * len(tensor.shape)
    around[1] = (size // 2, (size - 1) // 2)
    squares = ef.pad(ef.square(tensor), around)
    channels = tensor.shape[1]
    total = squares[:, :channels]
    for shift in range(1, size):
        total = total + squares[:, shift : shift + channels]
    return tensor / (total * (alpha / size) + k) ** beta
