"""Adam and its descendants."""

from __future__ import annotations

from typing import final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import FRACTION, NOT_NEGATIVE, require
from eagerflow.optim.optimiser import AbstractOptimiser, Accumulators, Rate
from eagerflow.optim.parameters import PerVariable, VariableTree

__all__ = ["Adam", "AdamW"]


class AbstractAdam(AbstractOptimiser):
    """Optimisers with bias-corrected running means of the gradient and of its square."""

    _by_rows = True
    _counted = True

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: PerVariable = 0.0,
        amsgrad: bool = False,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        what = type(self).__name__
        if not (isinstance(betas, tuple | list) and len(betas) == 2):
            raise TensorValueError(
                f"{what}: betas are not two numbers",
                given=f"betas={betas!r}",
                expected="two numbers from 0 to 1, 1 excluded, such as (0.9, 0.999)",
            )
        require(what, FRACTION, **{f"betas[{i}]": beta for i, beta in enumerate(betas)})
        require(what, NOT_NEGATIVE, eps=eps)
        names = ("exp_avg", "exp_avg_sq", *("max_exp_avg_sq",) * amsgrad)
        super().__init__(variables, lr, weight_decay, lr_scale, dict.fromkeys(names, 0.0))
        self.betas = tuple(betas)
        self.eps = eps
        self.amsgrad = amsgrad

    def _scalars(self, lr: ef.Tensor, n: ef.Tensor) -> tuple[ef.Tensor, ...]:
        beta1, beta2 = self.betas
        # in float32, 1 - 0.999**n would lose three digits of seven
        root = ef.sqrt(1 - beta2**n)
        return lr, lr / (1 - beta1**n) * root, self.eps * root

    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        means, squares, *largest = accumulators
        _, step, eps = scalars
        beta1, beta2 = self.betas
        # the squares first: then g is free, and its memory can be used again
        square = squares.mean(ef.square(g), beta2)
        mean = means.mean(g, beta1)
        if largest:
            square = largest[0].set(ef.maximum(largest[0].value, square))
        # the root of the corrected squares is root / sqrt(1 - beta2**n); that factor is in the
        # numbers, as in section 2 of the paper. For rows, eps is not scaled.
        return mean / (ef.sqrt(square) + (self.eps if means.indices is not None else eps)) * step


@final
class Adam(AbstractAdam):
    """Adam (Kingma and Ba, 2015), or AMSGrad (Reddi, Kale and Kumar, 2018).

    ``m = b1 * m + (1 - b1) * g``, ``s = b2 * s + (1 - b2) * g**2``, and in update ``n``
    ``v -= lr * m / (1 - b1**n) / (sqrt(s / (1 - b2**n)) + eps)``. An update without a gradient for
    a variable (None) does not count in its ``n``.

    A sparse gradient changes only its rows of variable and means, as PyTorch's ``SparseAdam``,
    which does not correct ``eps``: it is ``eps / sqrt(1 - b2**n)`` above.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        betas: decay rates of the running means of gradients and of their squares.
        eps: added to the divisor, which keeps it from zero.
        weight_decay: this part of the variable is added to its gradient. A number, or a function
            ``(path, variable) -> number``.
        amsgrad: divide by the largest ``s`` so far.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> weight = ef.Variable([1.0, 2.0], name="weight")
    >>> optimiser = ef.optim.Adam({"weight": weight}, lr=0.1)
    >>> optimiser.update({"weight": ef.tensor([3.0, -4.0])})
    >>> weight
    Variable([0.9, 2.1], f32[2]@cpu:0, name='weight')
    >>> list(optimiser.state)
    ['exp_avg.weight', 'exp_avg_sq.weight', 'counts', 'count']
    """


@final
class AdamW(AbstractAdam):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019).

    ``v -= lr * weight_decay * v`` beside the change that Adam makes. Of a sparse gradient, only
    its rows decay.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, ….
        lr: the learning rate, a number or a schedule.
        betas: decay rates of the running means of gradients and of their squares.
        eps: added to the divisor, which keeps it from zero.
        weight_decay: ``lr`` times this part of the variable is subtracted. A number, or a
            function ``(path, variable) -> number``, which can leave out biases and scales.
        amsgrad: divide by the largest ``s`` so far.
        lr_scale: factor of the learning rate; also ``(path, variable) -> number``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable has no floating dtype.

    >>> weight, bias = ef.Variable([[1.0, 2.0]]), ef.Variable([1.0])
    >>> optimiser = ef.optim.AdamW(
    ...     [weight, bias], lr=0.1, weight_decay=lambda path, v: 0.5 if v.ndim > 1 else 0
    ... )
    >>> optimiser.update([ef.zeros((1, 2)), ef.zeros(1)])
    >>> weight.value, bias.value
    (Tensor([[0.95, 1.9 ]], f32[1,2]@cpu:0), Tensor([1.], f32[1]@cpu:0))
    """

    _decoupled = True

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: PerVariable = 1e-2,
        amsgrad: bool = False,
        *,
        lr_scale: PerVariable = 1.0,
    ) -> None:
        super().__init__(variables, lr, betas, eps, weight_decay, amsgrad, lr_scale=lr_scale)
