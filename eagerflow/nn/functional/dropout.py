"""Dropout: random zeros during training."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import TensorLike, number_now
from eagerflow.hardware import home_of

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d"]


def _dropped(
    name: str,
    x: TensorLike,
    p: Any,
    training: bool,
    axes: int,
    generator: ef.random.Generator | None,
) -> ef.Tensor:
    """``x`` with random zeros; elements along the last ``axes`` axes share one draw."""
    tensor = ef.asarray(x)
    count = len(tensor.shape)
    if axes and count not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name}: expected {axes + 1} or {axes + 2} axes",
            given=f"x={tensor.type}",
            hint="channels come before the axes of a picture, samples before the channels",
        )
    now = number_now(p)  # in a trace, the draw checks the values of later calls
    if not 0 <= now <= 1:
        raise TensorValueError(
            f"{name}: the probability is out of range", given=f"p={now}", expected="0 to 1"
        )
    if not training:
        return tensor
    shape = (*tensor.shape[: count - axes], *(1,) * axes)
    if now in (0, 1):
        p = float(p)  # static in a trace: a graph for any number would draw in vain
        # a ticket is taken all the same, as in a graph for any number
        ef.random.bits((), generator=generator, device=home_of(tensor.device))
        # not constant zeros: a derivative flows, and is 0
        keeps = ef.full(shape, p == 0, device=home_of(tensor.device))
        return ef.where(keeps, tensor, 0) if p else tensor
    kept = ef.random.bernoulli(shape, 1 - p, generator=generator, device=home_of(tensor.device))
    # p // 1 is 0, or 1 if p is 1: then nothing is kept, and the division by 0 is avoided
    return ef.where(kept, tensor * (1 / (1 - p + p // 1)), 0)


def dropout(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Set each element to 0 with probability ``p``, and scale the others by ``1 / (1 - p)``.

    The gradient has the same zeros (Srivastava et al., 2014).

    Args:
        x: floating.
        p: the probability of a zero, from 0 to 1. In a traced function it may differ from call
            to call; 0 and 1 have traces of their own.
        training: whether to drop elements; else ``x`` is returned.
        generator: the generator to draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.

    >>> x = ef.nn.functional.dropout(ef.ones(1000), p=0.25, generator=ef.random.Generator(1))
    >>> ef.unique_values(x), bool(abs(x.mean() - 1) < 0.05)
    (Tensor([0.       , 1.3333334], f32[2]@cpu:0), True)
    """
    return _dropped("dropout", x, p, training, 0, generator)


def dropout1d(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Set whole channels to 0 with probability ``p``, and scale the others (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, L]`` or ``[C, L]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to drop elements; else ``x`` is returned.
        generator: the generator to draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: ``x`` has another number of axes.

    >>> x = ef.nn.functional.dropout1d(ef.ones((2, 5, 3)), generator=ef.random.Generator(1))
    >>> bool((x == x[:, :, :1]).all())
    True
    """
    return _dropped("dropout1d", x, p, training, 1, generator)


def dropout2d(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Set whole channels to 0 with probability ``p``, and scale the others (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, H, W]`` or ``[C, H, W]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to drop elements; else ``x`` is returned.
        generator: the generator to draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: ``x`` has another number of axes.

    >>> x = ef.nn.functional.dropout2d(ef.ones((2, 5, 3, 3)), generator=ef.random.Generator(1))
    >>> bool((x == x[:, :, :1, :1]).all())
    True
    """
    return _dropped("dropout2d", x, p, training, 2, generator)


def dropout3d(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Set whole channels to 0 with probability ``p``, and scale the others (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, D, H, W]`` or ``[C, D, H, W]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to drop elements; else ``x`` is returned.
        generator: the generator to draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: ``x`` has another number of axes.

    >>> x = ef.nn.functional.dropout3d(ef.ones((2, 5, 2, 2, 2)), generator=ef.random.Generator(1))
    >>> bool((x == x[:, :, :1, :1, :1]).all())
    True
    """
    return _dropped("dropout3d", x, p, training, 3, generator)
