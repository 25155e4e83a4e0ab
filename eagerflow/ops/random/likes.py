"""Random numbers with the shape, dtype and device of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import DTypeError
from eagerflow.ops.random.continuous import normal, uniform
from eagerflow.ops.random.discrete import randint

if TYPE_CHECKING:
    from eagerflow.ops.names.random import Generator


def normal_like(
    x: TensorLike,
    /,
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`normal` with the shape, dtype and device of ``x``.

    Args:
        x: floating.
        loc: the mean.
        scale: the standard deviation.
        generator: the generator to draw from; the process's own by default.

    >>> ef.random.normal_like(ef.zeros((2, 3))).shape
    (2, 3)
    """
    like = tensor_of(x)
    return normal(
        like.shape, loc=loc, scale=scale, dtype=like.dtype, generator=generator, device=like.device
    )


def uniform_like(
    x: TensorLike,
    /,
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`uniform` with the shape, dtype and device of ``x``.

    Args:
        x: floating.
        low: the lower bound.
        high: the upper bound.
        generator: the generator to draw from; the process's own by default.

    >>> ef.random.uniform_like(ef.zeros((2, 3))).shape
    (2, 3)
    """
    like = tensor_of(x)
    return uniform(
        like.shape, low=low, high=high, dtype=like.dtype, generator=generator, device=like.device
    )


def randint_like(
    x: TensorLike, low: TensorLike, high: TensorLike, /, *, generator: Generator | None = None
) -> Tensor:
    """`randint` with the shape, dtype and device of ``x``.

    Args:
        x: integers.
        low: the smallest result.
        high: one more than the largest result.
        generator: the generator to draw from; the process's own by default.

    Raises:
        DTypeError: ``x`` does not have an integer dtype.

    >>> ef.random.randint_like(ef.zeros(4, dtype=ef.int32), 0, 10).dtype
    int32
    """
    like = tensor_of(x)
    if not like.dtype.is_integer:
        raise DTypeError(
            f"randint_like: {like.dtype.name} is not an integer dtype",
            given=f"x={type_of(like)}",
            hint="whole numbers of that dtype are ef.random.randint(x.shape, low, high)"
            ".astype(x.dtype)",
        )
    return randint(like.shape, low, high, dtype=like.dtype, generator=generator, device=like.device)
