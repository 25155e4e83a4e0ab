"""Activations that are ops; all activations are in `eagerflow.nn.functional`."""

from __future__ import annotations

import math
from typing import Literal

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.ops.elementwise.arithmetic import clip
from eagerflow.ops.elementwise.hyperbolic import tanh
from eagerflow.ops.elementwise.logic import logical_or
from eagerflow.ops.elementwise.powers_and_logarithms import exp, square
from eagerflow.ops.elementwise.special import sigmoid
from eagerflow.ops.rules.arguments import as_number, check_choice
from eagerflow.ops.rules.gradients import times, where
from eagerflow.ops.rules.promotion import floating
from eagerflow.ops.rules.type_rules import FLOATING, REAL, unary

__all__ = ["elu", "gelu", "hardtanh", "leaky_relu", "relu", "silu", "softplus"]

# NaN passes g
_relu = unary("relu", REAL, lambda g, out, x: where(out <= 0, 0, g), saved="outputs")


def relu(x: TensorLike, /) -> Tensor:
    """The larger of each element and 0; its derivative at 0 is 0 (Nair and Hinton, 2010).

    Args:
        x: real.

    >>> ef.relu(ef.tensor([-1.0, 0.0, 2.0]))
    Tensor([0., 0., 2.], f32[3]@cpu:0)
    """
    return bind(_relu, tensor_of(x))


_leaky_relu = unary(
    "leaky_relu",
    FLOATING,
    lambda g, out, x, *, slope: where(x > 0, g, g * slope),
    saved="inputs",
)


def leaky_relu(x: TensorLike, /, *, slope: float = 0.01) -> Tensor:
    """``x`` above 0, ``slope * x`` below; at 0 the derivative is the slope (Maas et al., 2013).

    Args:
        x: floating; integers count as float32.
        slope: the derivative below 0.

    >>> ef.leaky_relu(ef.tensor([-1.0, 2.0]))
    Tensor([-0.01,  2.  ], f32[2]@cpu:0)
    """
    return bind(_leaky_relu, floating(x), slope=float(as_number(slope)))


# NaN passes g
_hardtanh = unary(
    "hardtanh",
    FLOATING,
    lambda g, out, x, *, low, high: where(logical_or(x <= low, x >= high), 0, g),
    saved="inputs",
)


def hardtanh(x: TensorLike, /, *, low: float = -1.0, high: float = 1.0) -> Tensor:
    """``x`` limited to a range; at its ends the derivative is 0, unlike that of `clip`.

    Args:
        x: floating; integers count as float32.
        low: the smallest result.
        high: the largest result.

    >>> ef.hardtanh(ef.tensor([-2.0, 0.5, 2.0]))
    Tensor([-1. ,  0.5,  1. ], f32[3]@cpu:0)
    """
    limits = {"low": float(as_number(low)), "high": float(as_number(high))}
    return bind(_hardtanh, floating(x), **limits)


def _elu_vjp(g: Tensor, out: Tensor, x: Tensor, *, alpha: float) -> Tensor:
    above = x > 0
    # the exponential itself: for very negative x, `out + alpha` would be only rounding errors
    slope = exp(where(above, 0, x)) * alpha
    return where(above, g, g * slope)


_elu = unary("elu", FLOATING, _elu_vjp, saved="inputs", flops=32)


def elu(x: TensorLike, /, *, alpha: float = 1.0) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below (Clevert et al., 2016).

    Args:
        x: floating; integers count as float32.
        alpha: minus the limit for ever smaller elements.

    >>> ef.round(ef.elu(ef.tensor([-1.0, 0.0, 2.0])), 3)
    Tensor([-0.632,  0.   ,  2.   ], f32[3]@cpu:0)
    """
    return bind(_elu, floating(x), alpha=float(as_number(alpha)))


_softplus = unary("softplus", FLOATING, times(lambda out, x: sigmoid(x)), saved="inputs", flops=40)


def softplus(x: TensorLike, /) -> Tensor:
    """log(1 + exp(x)), without overflow and precise for small results.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.softplus(ef.tensor([-1.0, 0.0, 100.0])), 3)
    Tensor([  0.313,   0.693, 100.   ], f32[3]@cpu:0)
    """
    return bind(_softplus, floating(x))


# --- ops with an attribute for the order of the derivative ----------------------------------


def _silu_vjp(g: Tensor, out: Tensor, x: Tensor, *, order: int) -> Tensor:
    if order == 0:
        return g * bind(_silu, x, order=1)
    s = sigmoid(x)
    bend = x * (1 - s * 2) + 2
    return g * (s * (1 - s) * bend)


_silu = unary("silu", FLOATING, _silu_vjp, saved="inputs", flops=40)


def silu(x: TensorLike, /) -> Tensor:
    """``x * sigmoid(x)``, also called swish (Elfwing et al., 2018).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.silu(ef.tensor([-1.0, 0.0, 2.0])), 3)
    Tensor([-0.269,  0.   ,  1.762], f32[3]@cpu:0)
    """
    return bind(_silu, floating(x), order=0)


def _gelu_bend(x: Tensor, approximate: str) -> Tensor:
    """The second derivative of gelu; 0 for large magnitudes, where squares could overflow."""
    if approximate == "none":
        x = clip(x, -40.0, 40.0)
        bell = exp(square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
        return bell * (2 - square(x))
    x = clip(x, -10.0, 10.0)
    a, c = 0.044715, math.sqrt(2 / math.pi)
    t = tanh(x * (square(x) * (a * c) + c))
    slope = square(x) * (3 * a * c) + c
    inner = slope + square(x) * (3 * a * c)
    inner = inner - x * t * square(slope)
    return (1 - square(t)) * inner


def _gelu_vjp(g: Tensor, out: Tensor, x: Tensor, *, approximate: str, order: int) -> Tensor:
    if order == 0:
        return g * bind(_gelu, x, approximate=approximate, order=1)
    return g * _gelu_bend(x, approximate)


_gelu = unary("gelu", FLOATING, _gelu_vjp, saved="inputs", flops=40, order="unknown")


def gelu(x: TensorLike, /, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """``x`` times the distribution function of the normal distribution (Hendrycks, Gimpel, 2016).

    Args:
        x: floating; integers count as float32.
        approximate: ``"none"`` computes with erf, ``"tanh"`` is the paper's approximation.

    Raises:
        TensorValueError: ``approximate`` is unknown.

    >>> ef.round(ef.gelu(ef.tensor([-1.0, 0.0, 2.0])), 3)
    Tensor([-0.159,  0.   ,  1.954], f32[3]@cpu:0)
    """
    check_choice("gelu", approximate, ("none", "tanh"), "a way to approximate")
    return bind(_gelu, floating(x), approximate=approximate, order=0)
