"""Initial values of weights.

All functions but `fans` take ``(shape, *, generator=None, dtype=None)`` and return a tensor.
Initialisers that scale with the number of inputs or outputs of a unit (its *fan*) derive it from
the shape of the weight: ``[out, in]`` of a linear layer, ``[out, in, *window]`` of a convolution.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import module_dir, module_getattr

__all__ = [
    "constant",
    "fans",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Mode = Literal["fan_in", "fan_out"]
_Generator = ef.random.Generator
_Shape = tuple[int, ...]

#: standard deviation of a standard normal distribution truncated at two standard deviations
_TRUNCATED: Final = 0.8796256610342398


def fans(shape: _Shape) -> tuple[int, int]:
    """The numbers of inputs and of outputs of a unit, ``(fan_in, fan_out)``, of a weight's shape.

    Args:
        shape: ``[out, in]`` or ``[out, in, *window]``.

    Raises:
        ShapeError: ``shape`` has fewer than two axes.

    >>> ef.nn.init.fans((16, 3, 5, 5))
    (75, 400)
    """
    if len(shape) < 2:
        raise ShapeError(
            "a weight of this shape has no inputs and outputs to scale by",
            given=str(tuple(shape)),
            expected="[out, in] or [out, in, *window]",
            hint="use ef.nn.init.normal or uniform with a scale of your own",
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


# --- plain ------------------------------------------------------------------------------------


def zeros(
    shape: _Shape, *, generator: _Generator | None = None, dtype: ef.types.DTypeLike = None
) -> ef.Tensor:
    """Zeros, such as for biases.

    >>> ef.nn.init.zeros((2,))
    Tensor([0., 0.], f32[2]@cpu:0)
    """
    return ef.zeros(shape, dtype=dtype)


def ones(
    shape: _Shape, *, generator: _Generator | None = None, dtype: ef.types.DTypeLike = None
) -> ef.Tensor:
    """Ones, such as for the scales of norms.

    >>> ef.nn.init.ones((2,))
    Tensor([1., 1.], f32[2]@cpu:0)
    """
    return ef.ones(shape, dtype=dtype)


def constant(
    shape: _Shape,
    value: float,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """A constant: ``value`` in all elements.

    >>> ef.nn.init.constant((2,), 0.5)
    Tensor([0.5, 0.5], f32[2]@cpu:0)
    """
    return ef.full(shape, value, dtype=dtype or ef.float32)


def uniform(
    shape: _Shape,
    low: float = 0.0,
    high: float = 1.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Uniformly distributed between ``low`` and ``high``.

    >>> x = ef.nn.init.uniform((100,), -0.1, 0.1)
    >>> bool((abs(x) <= 0.1).all())
    True
    """
    return ef.random.uniform(shape, low=low, high=high, generator=generator, dtype=dtype)


def normal(
    shape: _Shape,
    loc: float = 0.0,
    scale: float = 1.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Normally distributed around ``loc`` with the standard deviation ``scale``.

    >>> ef.nn.init.normal((3, 4), scale=0.02).shape
    (3, 4)
    """
    return ef.random.normal(shape, loc=loc, scale=scale, generator=generator, dtype=dtype)


def truncated_normal(
    shape: _Shape,
    loc: float = 0.0,
    scale: float = 1.0,
    lower: float = -2.0,
    upper: float = 2.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Normally distributed, truncated to two bounds.

    Args:
        shape: shape of the result.
        loc: the mean before truncation.
        scale: the standard deviation before truncation.
        lower: the lower bound, in standard deviations from ``loc``.
        upper: the upper bound, likewise.
        generator: the generator to draw from; the process's own by default.
        dtype: a real floating dtype; float32 by default.

    >>> x = ef.nn.init.truncated_normal((100,), scale=0.02)
    >>> bool((abs(x) <= 0.04).all())
    True
    """
    return ef.random.truncated_normal(
        shape, lower=lower, upper=upper, loc=loc, scale=scale, generator=generator, dtype=dtype
    )


# --- scaled with the fan ----------------------------------------------------------------------


def _symmetric(
    shape: _Shape, variance: float, generator: Any, dtype: ef.types.DTypeLike
) -> ef.Tensor:
    bound = math.sqrt(3.0 * variance)
    return uniform(shape, -bound, bound, generator=generator, dtype=dtype)


def _per(count: float) -> float:
    """The reciprocal of a fan; for a fan of 0 there is nothing to draw."""
    return 1.0 / max(count, 1.0)


def glorot_uniform(
    shape: _Shape,
    gain: float = 1.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Uniform with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Keeps the variance of signals and gradients about the same through tanh layers.

    >>> bound = (6 / (30 + 20)) ** 0.5
    >>> bool((abs(ef.nn.init.glorot_uniform((30, 20))) <= bound).all())
    True
    """
    return _symmetric(shape, 2.0 * gain**2 * _per(sum(fans(shape))), generator, dtype)


def glorot_normal(
    shape: _Shape,
    gain: float = 1.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Normal with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    >>> ef.nn.init.glorot_normal((30, 20)).shape
    (30, 20)
    """
    scale = gain * math.sqrt(2.0 * _per(sum(fans(shape))))
    return normal(shape, scale=scale, generator=generator, dtype=dtype)


def _he_variance(shape: _Shape, negative_slope: float, mode: Mode) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise TensorValueError(
            f"{mode!r} is not a mode", given=repr(mode), expected="'fan_in' or 'fan_out'",
            hint="'fan_in' keeps the variance of signals, 'fan_out' that of gradients",
        )  # fmt: skip
    return 2.0 / (1.0 + negative_slope**2) * _per(fans(shape)[mode == "fan_out"])


def he_uniform(
    shape: _Shape,
    negative_slope: float = 0.0,
    mode: Mode = "fan_in",
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Uniform with variance ``2 / ((1 + negative_slope²) fan)`` (He et al., 2015).

    Keeps the variance of signals through layers with ReLU.

    Args:
        shape: shape of the weight.
        negative_slope: the slope of a leaky ReLU below 0.
        mode: ``"fan_in"`` keeps the variance of signals, ``"fan_out"`` that of gradients.
        generator: the generator to draw from; the process's own by default.
        dtype: a real floating dtype; float32 by default.

    >>> bool((abs(ef.nn.init.he_uniform((30, 24))) <= 0.5).all())
    True
    """
    return _symmetric(shape, _he_variance(shape, negative_slope, mode), generator, dtype)


def he_normal(
    shape: _Shape,
    negative_slope: float = 0.0,
    mode: Mode = "fan_in",
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """Normal with variance ``2 / ((1 + negative_slope²) fan)`` (He et al., 2015); as `he_uniform`.

    >>> ef.nn.init.he_normal((30, 20), mode="fan_out").shape
    (30, 20)
    """
    scale = math.sqrt(_he_variance(shape, negative_slope, mode))
    return normal(shape, scale=scale, generator=generator, dtype=dtype)


def lecun_uniform(
    shape: _Shape, *, generator: _Generator | None = None, dtype: ef.types.DTypeLike = None
) -> ef.Tensor:
    """Uniform with variance ``1 / fan_in`` (LeCun et al., 1998).

    >>> bool((abs(ef.nn.init.lecun_uniform((30, 12))) <= 0.5).all())
    True
    """
    return _symmetric(shape, _per(fans(shape)[0]), generator, dtype)


def lecun_normal(
    shape: _Shape, *, generator: _Generator | None = None, dtype: ef.types.DTypeLike = None
) -> ef.Tensor:
    """Normal with variance ``1 / fan_in``, truncated at two standard deviations.

    For self-normalising networks (LeCun et al., 1998; Klambauer et al., 2017).

    >>> ef.nn.init.lecun_normal((30, 20)).shape
    (30, 20)
    """
    scale = math.sqrt(_per(fans(shape)[0])) / _TRUNCATED
    return truncated_normal(shape, scale=scale, generator=generator, dtype=dtype)


def orthogonal(
    shape: _Shape,
    gain: float = 1.0,
    *,
    generator: _Generator | None = None,
    dtype: ef.types.DTypeLike = None,
) -> ef.Tensor:
    """A random orthogonal matrix, uniformly distributed (Saxe et al., 2014).

    The rows of ``[out, in * window]`` are orthonormal, or the columns if there are more rows.

    Args:
        shape: shape of the weight; axes after the first count as one.
        gain: factor of the matrix.
        generator: the generator to draw from; the process's own by default.
        dtype: a real floating dtype; float32 by default.

    >>> q = ef.nn.init.orthogonal((3, 5), generator=ef.random.Generator(0))
    >>> bool(ef.allclose(q @ q.T, ef.eye(3), atol=1e-6))
    True
    """
    fans(shape)
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    q, r = ef.linalg.qr(normal(tall, generator=generator, dtype=dtype))
    # with a positive diagonal the factorisation is unique, and q is uniformly distributed
    q = q * ef.where(ef.linalg.diagonal(r) < 0, -1, 1).astype(q.dtype)
    return ef.reshape(gain * (q if rows >= columns else q.T), shape)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal

__getattr__ = module_getattr("eagerflow.nn.init", globals())
__dir__ = module_dir(globals())
