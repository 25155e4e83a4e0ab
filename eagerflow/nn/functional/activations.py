"""Activations, with the names and defaults of PyTorch's functions."""

from __future__ import annotations

import sys
from typing import Literal

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.extending import TensorLike

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "normalize",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def as_floating(x: TensorLike) -> ef.Tensor:
    """``x``, integers in float32."""
    """``x`` as a tensor; integers count as float32, complex numbers are refused."""
    tensor = ef.asarray(x)
    if tensor.dtype.name.startswith("complex"):
        raise DTypeError(
            f"{sys._getframe(1).f_code.co_name}: the input is complex",
            given=f"x={tensor.type}",
            expected="a floating dtype",
            hint="take ef.real(x), ef.imag(x) or ef.abs(x) first",
        )
    return tensor if tensor.dtype.is_floating else tensor.astype(ef.float32)


# --- piecewise linear -------------------------------------------------------------------------


def relu(x: TensorLike) -> ef.Tensor:
    """The larger of each element and 0; its derivative at 0 is 0 (Nair and Hinton, 2010).

    Args:
        x: real.

    >>> ef.nn.functional.relu(ef.tensor([-1.0, 0.0, 2.0]))
    Tensor([0., 0., 2.], f32[3]@cpu:0)
    """
    return ef.relu(x)


def hardtanh(x: TensorLike, min_val: float = -1.0, max_val: float = 1.0) -> ef.Tensor:
    """Each element clipped to ``min_val`` and ``max_val``; the derivative at both bounds is 0.

    Args:
        x: floating; integers count as float32.
        min_val: the smallest result.
        max_val: the largest result.

    Raises:
        TensorValueError: ``min_val`` is above ``max_val``.

    >>> ef.nn.functional.hardtanh(ef.tensor([-2.0, 0.5, 2.0]))
    Tensor([-1. ,  0.5,  1. ], f32[3]@cpu:0)
    """
    if min_val > max_val:
        raise TensorValueError(
            "hardtanh: the limits are in the wrong order", given=f"{min_val=}, {max_val=}"
        )
    return ef.hardtanh(x, low=min_val, high=max_val)


def relu6(x: TensorLike) -> ef.Tensor:
    """Each element clipped to the range from 0 to 6 (Krizhevsky, 2010).

    Args:
        x: floating; integers count as float32.

    >>> ef.nn.functional.relu6(ef.tensor([-1.0, 3.0, 8.0]))
    Tensor([0., 3., 6.], f32[3]@cpu:0)
    """
    return hardtanh(x, 0.0, 6.0)


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> ef.Tensor:
    """``x`` above 0, ``negative_slope * x`` below (Maas et al., 2013).

    Args:
        x: floating; integers count as float32.
        negative_slope: the derivative below 0, and at 0.

    >>> ef.nn.functional.leaky_relu(ef.tensor([-1.0, 2.0]))
    Tensor([-0.01,  2.  ], f32[2]@cpu:0)
    """
    return ef.leaky_relu(x, slope=negative_slope)


def prelu(x: TensorLike, weight: TensorLike) -> ef.Tensor:
    """``x`` above 0, ``weight * x`` below, with learned slopes (He et al., 2015).

    Args:
        x: floating; channels along axis 1. Integers count as float32.
        weight: floating, one slope, or one for each channel.

    Raises:
        ShapeError: the number of slopes is neither 1 nor that of the channels.

    >>> ef.nn.functional.prelu(ef.tensor([[-1.0, -1.0], [2.0, 2.0]]), ef.tensor([0.25, 0.5]))
    Tensor([[-0.25, -0.5 ],
            [ 2.  ,  2.  ]], f32[2,2]@cpu:0)
    """
    tensor, slope = as_floating(x), ef.asarray(weight)
    if len(slope.shape) > 1:
        raise ShapeError("prelu: the slopes have several axes", given=f"weight={slope.type}")
    if len(tensor.shape) > 1:
        slope = slope.reshape((-1, *(1,) * (len(tensor.shape) - 2)))
    return ef.where(tensor > 0, tensor, tensor * slope)


def threshold(x: TensorLike, threshold: float, value: float) -> ef.Tensor:
    """``x`` where it is above ``threshold``, ``value`` elsewhere.

    Args:
        x: real.
        threshold: the bound that an element must exceed to stay.
        value: the replacement of all other elements.

    >>> ef.nn.functional.threshold(ef.tensor([0.5, 1.0, 1.5]), 1.0, -1.0)
    Tensor([-1. , -1. ,  1.5], f32[3]@cpu:0)
    """
    tensor = ef.asarray(x)
    return ef.where(tensor <= threshold, value, tensor)


def hardsigmoid(x: TensorLike) -> ef.Tensor:
    """``relu6(x + 3) / 6``: a piecewise linear `sigmoid` (Howard et al., 2019).

    Args:
        x: floating; integers count as float32.

    >>> ef.nn.functional.hardsigmoid(ef.tensor([-4.0, 0.0, 4.0]))
    Tensor([0. , 0.5, 1. ], f32[3]@cpu:0)
    """
    return relu6(as_floating(x) + 3) / 6


def hardswish(x: TensorLike) -> ef.Tensor:
    """``x * hardsigmoid(x)`` (Howard et al., 2019).

    Args:
        x: floating; integers count as float32.

    >>> ef.nn.functional.hardswish(ef.tensor([-4.0, 1.5, 4.0]))
    Tensor([-0.   ,  1.125,  4.   ], f32[3]@cpu:0)
    """
    tensor = as_floating(x)
    return tensor * hardsigmoid(tensor)


def hardshrink(x: TensorLike, lambd: float = 0.5) -> ef.Tensor:
    """``x`` where its magnitude is above ``lambd``, 0 elsewhere.

    Args:
        x: floating; integers count as float32.
        lambd: the largest magnitude that becomes 0.

    >>> ef.nn.functional.hardshrink(ef.tensor([-1.0, 0.25, 1.0]))
    Tensor([-1.,  0.,  1.], f32[3]@cpu:0)
    """
    tensor = as_floating(x)
    return ef.where(ef.abs(tensor) <= lambd, 0, tensor)


def softshrink(x: TensorLike, lambd: float = 0.5) -> ef.Tensor:
    """Each element moved towards 0 by ``lambd``, at most to 0.

    Args:
        x: floating; integers count as float32.
        lambd: the distance.

    >>> ef.nn.functional.softshrink(ef.tensor([-1.0, 0.25, 1.0]))
    Tensor([-0.5,  0. ,  0.5], f32[3]@cpu:0)
    """
    tensor = as_floating(x)
    moved = ef.where(tensor > 0, tensor - lambd, tensor + lambd)
    return ef.where(ef.abs(tensor) <= lambd, 0, moved)


# --- smooth functions -------------------------------------------------------------------------


def elu(x: TensorLike, alpha: float = 1.0) -> ef.Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below (Clevert et al., 2016).

    Args:
        x: floating; integers count as float32.
        alpha: minus the limit for ever smaller elements.

    >>> ef.round(ef.nn.functional.elu(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.632,  2.   ], f32[2]@cpu:0)
    """
    return ef.elu(x, alpha=alpha)


def selu(x: TensorLike) -> ef.Tensor:
    """`elu` with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.selu(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-1.111,  2.101], f32[2]@cpu:0)
    """
    return ef.elu(x, alpha=_SELU_ALPHA) * _SELU_SCALE


def celu(x: TensorLike, alpha: float = 1.0) -> ef.Tensor:
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` below (Barron, 2017).

    Args:
        x: floating; integers count as float32.
        alpha: minus the limit for ever smaller elements, not 0.

    >>> ef.round(ef.nn.functional.celu(ef.tensor([-1.0, 2.0]), alpha=2.0), 3)
    Tensor([-0.787,  2.   ], f32[2]@cpu:0)
    """
    tensor = as_floating(x)
    # above 0 the argument is replaced: an overflow times a cotangent of 0 would be NaN
    below = ef.expm1(ef.where(tensor > 0, 0, tensor) / alpha) * alpha
    return ef.where(tensor > 0, tensor, below)


def gelu(x: TensorLike, approximate: Literal["none", "tanh"] = "none") -> ef.Tensor:
    """``x`` times the distribution function of the normal distribution (Hendrycks, Gimpel, 2016).

    Args:
        x: floating; integers count as float32.
        approximate: ``"none"`` computes with erf, ``"tanh"`` is the paper's approximation.

    >>> ef.round(ef.nn.functional.gelu(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.159,  1.954], f32[2]@cpu:0)
    """
    return ef.gelu(x, approximate=approximate)


def silu(x: TensorLike) -> ef.Tensor:
    """``x * sigmoid(x)``, also called swish (Elfwing et al., 2018).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.silu(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.269,  1.762], f32[2]@cpu:0)
    """
    return ef.silu(x)


def mish(x: TensorLike) -> ef.Tensor:
    """``x * tanh(softplus(x))`` (Misra, 2020).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.mish(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.303,  1.944], f32[2]@cpu:0)
    """
    tensor = as_floating(x)
    return tensor * ef.tanh(ef.softplus(tensor))


def softplus(x: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> ef.Tensor:
    """``log(1 + exp(beta * x)) / beta``: a smooth `relu` (Dugas et al., 2001).

    Args:
        x: floating; integers count as float32.
        beta: sharpness of the bend.
        threshold: where ``beta * x`` is above this, the result is ``x``. (PyTorch avoids overflow
            in this way; here nothing overflows.)

    >>> ef.round(ef.nn.functional.softplus(ef.tensor([-1.0, 0.0, 30.0]), beta=2.0), 3)
    Tensor([ 0.063,  0.347, 30.   ], f32[3]@cpu:0)
    """
    tensor = as_floating(x)
    scaled = tensor * beta
    return ef.where(scaled > threshold, tensor, ef.softplus(scaled) / beta)


def softsign(x: TensorLike) -> ef.Tensor:
    """``x / (1 + abs(x))`` (Turian et al., 2009).

    Args:
        x: floating; integers count as float32.

    >>> ef.nn.functional.softsign(ef.tensor([-1.0, 3.0]))
    Tensor([-0.5 ,  0.75], f32[2]@cpu:0)
    """
    tensor = as_floating(x)
    return tensor / (ef.abs(tensor) + 1)


def tanh(x: TensorLike) -> ef.Tensor:
    """The hyperbolic tangent.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.tanh(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.762,  0.964], f32[2]@cpu:0)
    """
    return ef.tanh(x)


def tanhshrink(x: TensorLike) -> ef.Tensor:
    """``x - tanh(x)``.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.tanhshrink(ef.tensor([-1.0, 2.0])), 3)
    Tensor([-0.238,  1.036], f32[2]@cpu:0)
    """
    tensor = as_floating(x)
    return tensor - ef.tanh(tensor)


def sigmoid(x: TensorLike) -> ef.Tensor:
    """The logistic function 1 / (1 + exp(-x)).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.sigmoid(ef.tensor([0.0, 2.0])), 3)
    Tensor([0.5  , 0.881], f32[2]@cpu:0)
    """
    return ef.sigmoid(x)


def logsigmoid(x: TensorLike) -> ef.Tensor:
    """The logarithm of `sigmoid`, without underflow.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.nn.functional.logsigmoid(ef.tensor([0.0, -1000.0])), 3)
    Tensor([   -0.693, -1000.   ], f32[2]@cpu:0)
    """
    return -ef.softplus(-as_floating(x))


# --- along an axis ----------------------------------------------------------------------------


def glu(x: TensorLike, axis: int = -1) -> ef.Tensor:
    """The first half along an axis, times the `sigmoid` of the second (Dauphin et al., 2017).

    Args:
        x: floating; integers count as float32.
        axis: the axis, of even size.

    Raises:
        ShapeError: the size is odd.

    >>> ef.nn.functional.glu(ef.tensor([3.0, 5.0, 0.0, 100.0]))
    Tensor([1.5, 5. ], f32[2]@cpu:0)
    """
    first, second = ef.split(as_floating(x), 2, axis=axis)
    return first * ef.sigmoid(second)


def softmax(x: TensorLike, axis: int = -1, dtype: ef.types.DTypeLike = None) -> ef.Tensor:
    """exp(x) over its sum along an axis: numbers from 0 to 1 that add up to 1.

    Args:
        x: floating; integers count as float32.
        axis: the axis along which the results add up to 1.
        dtype: dtype of the computation and of the result.

    >>> ef.nn.functional.softmax(ef.tensor([[1.0, 1.0], [0.0, 1000.0]]), axis=1)
    Tensor([[0.5, 0.5],
            [0. , 1. ]], f32[2,2]@cpu:0)
    """
    return ef.softmax(x if dtype is None else ef.astype(ef.asarray(x), dtype), axis=axis)


def log_softmax(x: TensorLike, axis: int = -1, dtype: ef.types.DTypeLike = None) -> ef.Tensor:
    """The logarithm of `softmax`, precise also where that is next to 0 or 1.

    Args:
        x: floating; integers count as float32.
        axis: the axis along which the exponentials of the results add up to 1.
        dtype: dtype of the computation and of the result.

    >>> ef.nn.functional.log_softmax(ef.tensor([0.0, -1000.0]))
    Tensor([    0., -1000.], f32[2]@cpu:0)
    """
    return ef.log_softmax(x if dtype is None else ef.astype(ef.asarray(x), dtype), axis=axis)


def softmin(x: TensorLike, axis: int = -1, dtype: ef.types.DTypeLike = None) -> ef.Tensor:
    """`softmax` of ``-x``.

    Args:
        x: floating; integers count as float32.
        axis: the axis along which the results add up to 1.
        dtype: dtype of the computation and of the result.

    >>> ef.nn.functional.softmin(ef.tensor([0.0, 1000.0]))
    Tensor([1., 0.], f32[2]@cpu:0)
    """
    return softmax(-as_floating(x), axis, dtype)


def normalize(x: TensorLike, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> ef.Tensor:
    """Vectors divided by their norms; a vector of zeros stays zero.

    Args:
        x: floating; integers count as float32.
        p: the order of the norm.
        axis: the axis of the vectors.
        eps: lower bound of the divisor.

    >>> ef.nn.functional.normalize(ef.tensor([[3.0, 4.0], [0.0, 0.0]]))
    Tensor([[0.6, 0.8],
            [0. , 0. ]], f32[2,2]@cpu:0)
    """
    tensor = as_floating(x)
    norm = ef.linalg.vector_norm(tensor, axis=axis, ord=p, keepdims=True)
    return tensor / ef.where(norm < eps, eps, norm)
