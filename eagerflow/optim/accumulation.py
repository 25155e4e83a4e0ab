"""Gradient accumulation: one update for several parts of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import eagerflow as ef
from eagerflow.errors import hides_frames
from eagerflow.extending import SIZE, keep_together, put_state, require
from eagerflow.hardware import beside
from eagerflow.optim.optimiser import AbstractOptimiser
from eagerflow.optim.parameters import Parameter

__all__ = ["GradientAccumulation"]


@final
class GradientAccumulation:
    """Updates by the mean of the gradients of several calls, as if their batches were one.

    For batches that do not fit into memory at once: each call of ``update`` adds to sums, and
    every ``steps``-th call updates the variables by the mean of the gradients. For parts of
    equal size and a loss that is a mean, this is the gradient of the whole batch. It runs eagerly
    and in traced steps. A variable without a gradient (None) in one of the parts counts with
    zeros there; sparse gradients are made dense.

    Args:
        optimiser: the optimiser that updates the variables.
        steps: number of calls of ``update`` per update of the variables, at least 1.

    Attributes:
        optimiser: as given; its `lr` and `count` are those of its updates.
        state: the state of the optimiser, the sums under ``"sum."`` and the paths of the variables,
            and ``"calls"``: the number of gradients in the sums.

    Raises:
        TensorValueError: ``steps`` is not at least 1.

    >>> v = ef.Variable([1.0, 2.0])
    >>> optimiser = ef.optim.GradientAccumulation(ef.optim.SGD([v], lr=0.5), steps=2)
    >>> optimiser.update([ef.tensor([1.0, 0.0])])
    >>> v
    Variable([1., 2.], f32[2]@cpu:0)
    >>> optimiser.update([ef.tensor([3.0, 4.0])])
    >>> v
    Variable([0., 1.], f32[2]@cpu:0)
    """

    def __init__(self, optimiser: AbstractOptimiser, steps: int) -> None:
        require("GradientAccumulation", SIZE, steps=steps)
        self.optimiser = optimiser
        self.steps = steps
        self._sums = [_sum_of(p) for p in optimiser.parameters]
        first = optimiser.count
        self._calls = ef.Variable(
            0, dtype=ef.int64, device=first.device, trainable=False, name="calls"
        )
        keep_together(first, self._calls)
        sums = {v.name or "sum": v for v in self._sums}
        self.state: dict[str, ef.Variable] = {**optimiser.state, **sums, "calls": self._calls}

    @hides_frames
    def update(self, gradients: object) -> None:
        """Add gradients to the sums; update the variables if the sums are complete.

        Args:
            gradients: as in the optimiser's ``update``, which raises the same errors, before
                anything is changed.

        >>> v = ef.Variable(1.0)
        >>> optimiser = ef.optim.GradientAccumulation(ef.optim.SGD([v], lr=1.0), steps=1)
        >>> optimiser.update([ef.tensor(0.25)])
        >>> v.value
        Tensor(0.75, f32[]@cpu:0)
        """
        for p, g in self.optimiser.parameters.match(gradients):
            with beside(p.variable):
                dense = g.to_dense() if isinstance(g, ef.IndexedSlices) else g
                self._sums[p.position].assign_add(dense)
        calls = self._calls.assign_add(1)
        ef.cond(calls >= self.steps, self._apply, lambda: None)

    def _apply(self) -> None:
        means = []
        for p, total in zip(self.optimiser.parameters, self._sums, strict=True):
            with beside(p.variable):
                means.append(total.value / self.steps)
                total.assign(ef.zeros_like(total))
        self._calls.assign(0)
        self.optimiser.update(self.optimiser.parameters.tree_of(means))

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Load the `state` of another accumulation around the same kind of optimiser, all or none.

        Args:
            state: values by name, of the same dtypes and shapes.
            strict: whether ``state`` must have a value for each name and no other.

        Raises:
            CheckpointError: values are missing, unknown or do not fit; then nothing is assigned.

        >>> v = ef.Variable([1.0])
        >>> a, b = (ef.optim.GradientAccumulation(ef.optim.SGD([v], 0.1), 2) for _ in range(2))
        >>> a.update([ef.tensor([3.0])])
        >>> b.load_state(a.state)
        >>> b.state["sum.0"].value
        Tensor([3.], f32[1]@cpu:0)
        """
        names = {name: name for name in self.state}
        put_state(self.state, names, state, strict, "GradientAccumulation")

    def __repr__(self) -> str:
        return f"GradientAccumulation({self.optimiser!r}, steps={self.steps})"


def _sum_of(p: Parameter) -> ef.Variable:
    """The variable in which the gradients of a parameter add up."""
    v = p.variable
    zeros = ef.zeros(v.shape, dtype=p.dtype, device=v.device)
    made = ef.Variable(zeros, trainable=False, name=f"sum.{p.path}" if p.path else "sum")
    keep_together(v, made)
    return made
