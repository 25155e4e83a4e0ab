"""Gradient descent, optionally with momentum."""

from __future__ import annotations

from typing import final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import NOT_NEGATIVE, require
from eagerflow.optim.optimiser import AbstractOptimiser, Accumulators, Rate
from eagerflow.optim.parameters import PerVariable, VariableTree

__all__ = ["SGD", "Momentum"]


class AbstractDescent(AbstractOptimiser):
    """Descent along the negative gradient, or along a running sum of gradients."""

    _additive = True
    _complex = True

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: PerVariable = 0.0,
        nesterov: bool = False,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        what = type(self).__name__
        require(what, NOT_NEGATIVE, momentum=momentum)
        if nesterov and (not momentum or dampening):
            raise TensorValueError(
                f"{what}: nesterov needs momentum, and no dampening",
                given=f"momentum={momentum}, dampening={dampening}",
            )
        accumulators = {"momentum_buffer": 0.0} if momentum else {}
        self._counted = bool(momentum and dampening)
        super().__init__(variables, lr, weight_decay, lr_scale, accumulators)
        self.momentum = momentum
        self.dampening = dampening
        self.nesterov = nesterov
        self._by_rows = not momentum

    def _scalars(self, lr: ef.Tensor, n: ef.Tensor) -> tuple[ef.Tensor, ...]:
        if self._counted:  # the first gradient of a variable is not dampened
            return lr, ef.where(n == 1, 1.0, ef.asarray(1.0 - self.dampening, dtype=ef.float64))
        return (lr,)

    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        lr, *share = scalars
        for buffer in accumulators:
            moved = buffer.set(buffer.value * self.momentum + (g * share[0] if share else g))
            g = g + moved * self.momentum if self.nesterov else moved
        return g * lr


@final
class SGD(AbstractDescent):
    """Stochastic gradient descent (Robbins and Monro, 1951), optionally with momentum.

    With ``g`` the gradient and the weight decay: ``b = momentum * b + (1 - dampening) * g``, then
    ``v -= lr * b`` (``v -= lr * (g + momentum * b)`` for Nesterov's), and ``v -= lr * g`` without
    momentum. A sparse gradient changes only its rows; with momentum it is made dense.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        momentum: the part of the momentum buffer that is kept.
        dampening: the part of the gradient that is left out, except of a variable's first one.
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        nesterov: use Nesterov momentum (1983; in this form, Sutskever et al., 2013).
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.SGD([v], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimiser.update([ef.ones(2)])
    >>> v
    Variable([0.71, 1.71], f32[2]@cpu:0)
    """


@final
class Momentum(AbstractDescent):
    """Gradient descent with momentum (Polyak, 1964): `SGD` with other defaults.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        momentum: the part of the momentum buffer that is kept.
        nesterov: use Nesterov momentum (1983; in this form, Sutskever et al., 2013).
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.Momentum([v], lr=0.1, nesterov=True)
    >>> optimiser.update([ef.ones(2)])
    >>> v
    Variable([0.81, 1.81], f32[2]@cpu:0)
    """

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-3,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: PerVariable = 0.0,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        super().__init__(variables, lr, momentum, 0.0, weight_decay, nesterov, lr_scale=lr_scale)
