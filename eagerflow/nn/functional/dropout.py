"""Dropout: zeros at random while a network is trained."""

from __future__ import annotations

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import TensorLike, number_now

__all__ = ["dropout"]


def dropout(
    x: TensorLike,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """Each element 0 with probability ``p``, the others larger, so that the mean stays.

    The gradient has the same zeros (Srivastava et al., 2014). Whole channels of pictures drop by
    ``x * dropout(ef.ones((n, channels, 1, 1)), p)`` (Tompson et al., 2015).

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
    now = number_now(p)  # in a trace, the draw checks those of later calls
    if not 0 <= now <= 1:
        raise TensorValueError(
            "dropout: the probability is out of range", given=f"p={now}", expected="0 to 1"
        )
    tensor = ef.asarray(x)
    if not training:
        return tensor
    if now in (0, 1):
        p = float(p)  # static in a trace, since a graph for any number would draw for nothing
        # the number of a draw is taken all the same: a graph for any number takes it
        ef.random.bits((), generator=generator, device=tensor.device)
        kept = ef.full(tensor.shape, False, device=tensor.device)
        # not new zeros: a derivative flows, and is 0
        return ef.where(kept, tensor, 0) if p else tensor
    kept = ef.random.bernoulli(tensor.shape, 1 - p, generator=generator, device=tensor.device)
    # p // 1 is 0, and 1 where p is: nothing is kept there, and nothing may be divided by 0
    return ef.where(kept, tensor * (1 / (1 - p + p // 1)), 0)
