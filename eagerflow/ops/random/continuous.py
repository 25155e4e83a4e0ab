"""Random numbers of continuous distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import Op
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import TensorValueError
from eagerflow.ops.random.argument_order import shape_first
from eagerflow.ops.random.draws import (
    EXPONENTIAL,
    GUMBEL,
    NORMAL,
    TRUNCATED_NORMAL,
    affine,
    draw,
    in_range,
    is_number,
    parameters,
    uniform_draw,
)
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.types import DTypeLike, ShapeLike
from eagerflow_kernels.portable.random import normal_probability

if TYPE_CHECKING:
    from eagerflow.ops.names.random import Generator


@shape_first
@device_wins
def uniform(
    shape: ShapeLike = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Uniform random numbers, from ``low`` (included) to ``high`` (excluded).

    For bounds other than 0 and 1, rounding can yield ``high`` itself.

    Args:
        shape: shape of the result; it broadcasts with the shapes of the bounds.
        low: the lower bound.
        high: the upper bound.
        dtype: a real floating dtype; by default that of the bounds, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of the bounds, else the current device.

    Raises:
        TensorValueError: ``low`` is greater than ``high``.

    >>> ef.random.uniform((2,), generator=ef.random.Generator(1))
    Tensor([0.80898637, 0.7949013 ], f32[2]@cpu:0)
    """
    sizes, made, where, ends = parameters("uniform", shape, dtype, device, low, high)
    refusal = "uniform: low is greater than high, or NaN"
    width = in_range(ends[1] - ends[0], "bounds", refusal, *ends, dtype=made, on=where)
    return affine(uniform_draw(sizes, made, where, generator), ends[0], width)


@shape_first
@device_wins
def normal(
    shape: ShapeLike = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Normally distributed random numbers.

    Args:
        shape: shape of the result; it broadcasts with the shapes of ``loc`` and ``scale``.
        loc: the mean.
        scale: the standard deviation.
        dtype: a real floating dtype; by default that of ``loc`` and ``scale``, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``loc`` and ``scale``, else the current.

    >>> ef.random.normal((2,), generator=ef.random.Generator(1))
    Tensor([ 0.18126683, -0.6253709 ], f32[2]@cpu:0)
    """
    return _scaled("normal", NORMAL, shape, dtype, device, generator, loc, scale)


@device_wins
def truncated_normal(
    shape: ShapeLike = (),
    *,
    lower: float = -2.0,
    upper: float = 2.0,
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Normally distributed random numbers between two bounds.

    Args:
        shape: shape of the result; it broadcasts with the shapes of ``loc`` and ``scale``.
        lower: the lower bound, in standard deviations from the mean.
        upper: the upper bound, likewise.
        loc: the mean before truncation.
        scale: the standard deviation before truncation.
        dtype: a real floating dtype; by default that of ``loc`` and ``scale``, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``loc`` and ``scale``, else the current.

    Raises:
        TensorValueError: ``lower`` is not below ``upper``, or both are so far out that no
            number lies between them.

    >>> x = ef.random.truncated_normal((1000,), upper=1.0)
    >>> bool((x >= -2.0).all()), bool((x <= 1.0).all())
    (True, True)
    """
    if not normal_probability(lower, upper) > 0.0:
        raise TensorValueError(
            "truncated_normal: there is nothing between the bounds",
            given=f"lower={lower}, upper={upper}",
            expected="lower < upper, in standard deviations, at most about 38 off the mean",
        )
    limits = {"lower": float(lower), "upper": float(upper)}
    name = "truncated_normal"
    return _scaled(name, TRUNCATED_NORMAL, shape, dtype, device, generator, loc, scale, **limits)


@shape_first
@device_wins
def exponential(
    shape: ShapeLike = (),
    scale: TensorLike = 1.0,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Exponentially distributed random numbers.

    Args:
        shape: shape of the result; it broadcasts with the shape of ``scale``.
        scale: the mean.
        dtype: a real floating dtype; by default that of ``scale``, float32 for a number.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``scale``, else the current device.

    >>> bool((ef.random.exponential((1000,)) >= 0).all())
    True
    """
    return _scaled("exponential", EXPONENTIAL, shape, dtype, device, generator, 0.0, scale)


@shape_first
@device_wins
def gumbel(
    shape: ShapeLike = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Gumbel-distributed random numbers (of the distribution of maxima).

    Args:
        shape: shape of the result; it broadcasts with the shapes of ``loc`` and ``scale``.
        loc: the mode.
        scale: the scale parameter.
        dtype: a real floating dtype; by default that of ``loc`` and ``scale``, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``loc`` and ``scale``, else the current.

    >>> ef.random.gumbel((3, 2)).shape
    (3, 2)
    """
    return _scaled("gumbel", GUMBEL, shape, dtype, device, generator, loc, scale)


def _scaled(
    name: str, op: Op, shape: Any, dtype: DTypeLike, device: Any, generator: Generator | None,
    loc: TensorLike, scale: TensorLike, **limits: float,
) -> Tensor:  # fmt: skip
    """``loc + scale * draw``, with a draw from the standard form of a distribution."""
    sizes, made, where, (offset, width) = parameters(name, shape, dtype, device, loc, scale)
    if not (is_number(width) and width >= 0):
        refusal = f"{name}: scale is negative or NaN"
        width = in_range(width, "scale", refusal, width, dtype=made, on=where)
    return affine(draw(op, sizes, made, where, generator, **limits), offset, width)
