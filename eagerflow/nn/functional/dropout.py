"""Dropout: zeros at random while a network is trained."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import TensorLike, number_now

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d"]


def _dropped(
    name: str,
    x: TensorLike,
    p: Any,
    training: bool,
    axes: int,
    generator: ef.random.Generator | None,
) -> ef.Tensor:
    """``x`` with zeros at random; elements along the last ``axes`` share one draw."""
    tensor = ef.asarray(x)
    count = len(tensor.shape)
    if axes and count not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name}: expected {axes + 1} or {axes + 2} axes",
            given=f"x={tensor.type}",
            hint="channels come before the axes of a picture, samples before the channels",
        )
    now = number_now(p)  # in a trace, the draw checks those of later calls
    if not 0 <= now <= 1:
        raise TensorValueError(
            f"{name}: the probability is out of range", given=f"p={now}", expected="0 to 1"
        )
    if not training:
        return tensor
    shape = (*tensor.shape[: count - axes], *(1,) * axes)
    if now in (0, 1):
        p = float(p)  # static in a trace, since a graph for any number would draw for nothing
        # the number of a draw is taken all the same: a graph for any number takes it
        ef.random.bits((), generator=generator, device=tensor.device)
        # not new zeros: a derivative flows, and is 0
        return ef.where(ef.full(shape, p == 0, device=tensor.device), tensor, 0) if p else tensor
    kept = ef.random.bernoulli(shape, 1 - p, generator=generator, device=tensor.device)
    # p // 1 is 0, and 1 where p is: nothing is kept there, and nothing may be divided by 0
    return ef.where(kept, tensor * (1 / (1 - p + p // 1)), 0)


def dropout(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Each element 0 with probability ``p``, the others larger, so that the mean stays.

    The gradient has the same zeros (Srivastava et al., 2014).

    Args:
        x: floating.
        p: the probability of a zero, from 0 to 1. In a traced function it may differ from call
            to call; a trace made with 0 or 1 is for that.
        training: whether to do anything.
        generator: where to take the draw from; the process's own by default.

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
    """Whole channels 0 with probability ``p``, the others larger (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, L]`` or ``[C, L]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to do anything.
        generator: where to take the draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: another number of axes.

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
    """Whole channels 0 with probability ``p``, the others larger (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, H, W]`` or ``[C, H, W]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to do anything.
        generator: where to take the draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: another number of axes.

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
    """Whole channels 0 with probability ``p``, the others larger (Tompson et al., 2015).

    Args:
        x: floating, ``[N, C, D, H, W]`` or ``[C, D, H, W]``.
        p: the probability of a zero, from 0 to 1.
        training: whether to do anything.
        generator: where to take the draw from; the process's own by default.

    Raises:
        TensorValueError: ``p`` is out of range.
        ShapeError: another number of axes.

    >>> x = ef.nn.functional.dropout3d(ef.ones((2, 5, 2, 2, 2)), generator=ef.random.Generator(1))
    >>> bool((x == x[:, :, :1, :1, :1]).all())
    True
    """
    return _dropped("dropout3d", x, p, training, 3, generator)
