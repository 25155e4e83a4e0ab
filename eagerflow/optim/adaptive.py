"""Optimisers that divide by a running measure of the size of gradients, without moments."""

from __future__ import annotations

from typing import final

import eagerflow as ef
from eagerflow.extending import FRACTION, NOT_NEGATIVE, require
from eagerflow.optim.optimiser import AbstractOptimiser, Accumulators, Rate
from eagerflow.optim.parameters import PerVariable, VariableTree

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


@final
class Adagrad(AbstractOptimiser):
    """Adagrad (Duchi, Hazan and Singer, 2011).

    ``s += g**2``, ``v -= lr / (1 + (n - 1) * lr_decay) * g / (sqrt(s) + eps)`` in update ``n``
    of the variable: an update without a gradient for it (None) does not count. A sparse gradient
    changes only its rows.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        lr_decay: decay of the learning rate per update, as in the formula.
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        initial_accumulator_value: initial value of the sum of squares ``s``.
        eps: added to the divisor, which keeps it from zero.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.Adagrad([v], lr=0.5)
    >>> optimiser.update([ef.tensor([3.0, -4.0])])
    >>> v
    Variable([0.5, 2.5], f32[2]@cpu:0)
    """

    _by_rows = True
    _counted = True

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: PerVariable = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        require("Adagrad", NOT_NEGATIVE, lr_decay=lr_decay, eps=eps)
        require("Adagrad", NOT_NEGATIVE, initial_accumulator_value=initial_accumulator_value)
        accumulators = {"sum": initial_accumulator_value}
        super().__init__(variables, lr, weight_decay, lr_scale, accumulators)
        self.lr_decay = lr_decay
        self.eps = eps

    def _scalars(self, lr: ef.Tensor, n: ef.Tensor) -> tuple[ef.Tensor, ...]:
        return (lr / (1 + (n - 1) * self.lr_decay),)

    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        total = accumulators[0].add(ef.square(g))
        return g * scalars[0] / (ef.sqrt(total) + self.eps)


@final
class Adadelta(AbstractOptimiser):
    """Adadelta (Zeiler, 2012).

    ``s = rho * s + (1 - rho) * g**2``, ``d = sqrt((u + eps) / (s + eps)) * g``,
    ``u = rho * u + (1 - rho) * d**2``, ``v -= lr * d``. A sparse gradient is made dense.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        rho: decay rate of the running means.
        eps: keeps the divisor, and the first change, from zero.
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.Adadelta([v], eps=0.1)
    >>> optimiser.update([ef.tensor([3.0, -4.0])])
    >>> ef.round(v, 3)
    Tensor([0.051, 2.97 ], f32[2]@cpu:0)
    """

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: PerVariable = 0.0,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        require("Adadelta", FRACTION, rho=rho)
        require("Adadelta", NOT_NEGATIVE, eps=eps)
        accumulators = {"square_avg": 0.0, "acc_delta": 0.0}
        super().__init__(variables, lr, weight_decay, lr_scale, accumulators)
        self.rho = rho
        self.eps = eps

    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        squares, changes = accumulators
        mean = squares.mean(ef.square(g), self.rho)
        before = changes.value
        change = ef.sqrt(before + self.eps) / ef.sqrt(mean + self.eps) * g
        changes.mean(ef.square(change), self.rho)
        return change * scalars[0]


@final
class RMSprop(AbstractOptimiser):
    """RMSprop (Tieleman and Hinton, 2012), optionally centred (Graves, 2013) and with momentum.

    ``s = alpha * s + (1 - alpha) * g**2``, ``d = g / (sqrt(s) + eps)``; if centred, the square of
    the mean gradient is subtracted from ``s`` in ``d``. Then ``v -= lr * d``, with momentum
    ``b = momentum * b + d``, ``v -= lr * b``. A sparse gradient is made dense.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        alpha: decay rate of the running means.
        eps: added to the divisor, which keeps it from zero.
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        momentum: the part of the momentum buffer ``b`` that is kept.
        centered: divide by the standard deviation of gradients, not by their root mean square.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.RMSprop([v], lr=0.1, alpha=0.75)
    >>> optimiser.update([ef.tensor([3.0, -4.0])])
    >>> v
    Variable([0.8, 2.2], f32[2]@cpu:0)
    """

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: PerVariable = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        require("RMSprop", FRACTION, alpha=alpha)
        require("RMSprop", NOT_NEGATIVE, eps=eps, momentum=momentum)
        names = ["square_avg", *["grad_avg"] * centered, *["momentum_buffer"] * bool(momentum)]
        accumulators = dict.fromkeys(names, 0.0)
        super().__init__(variables, lr, weight_decay, lr_scale, accumulators)
        self.alpha = alpha
        self.eps = eps
        self.momentum = momentum
        self.centered = centered

    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        squares, *rest = accumulators
        spread = squares.mean(ef.square(g), self.alpha)
        if self.centered:
            means, *rest = rest
            mean = means.mean(g, self.alpha)
            # a variance, but for rounding
            spread = ef.maximum(spread - ef.square(mean), 0)
        if not rest:
            return g * scalars[0] / (ef.sqrt(spread) + self.eps)
        buffer = rest[0]
        moved = buffer.set(buffer.value * self.momentum + g / (ef.sqrt(spread) + self.eps))
        return moved * scalars[0]
