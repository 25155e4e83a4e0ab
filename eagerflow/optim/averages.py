"""Averages of variables over the course of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import eagerflow as ef
from eagerflow.errors import hides_frames
from eagerflow.extending import FRACTION, keep_together, put_state, require
from eagerflow.hardware import beside
from eagerflow.optim.parameters import VariableTree, named_variables, working_dtype

__all__ = ["ExponentialMovingAverage"]


@final
class ExponentialMovingAverage:
    """Exponential moving averages of variables; they often generalise better (Polyak, 1992).

    ``average = decay * average + (1 - decay) * variable`` in each `update`; the averages start at
    the values of the variables at construction. Averages of variables of 16 bits are float32.

    Args:
        variables: a tree of variables: ``model.parameters``, a list, a dict, ….
        decay: the part of the averages that is kept, from 0 to 1, 1 excluded.

    Attributes:
        state: the averages by the paths of the variables; for checkpoints.

    Raises:
        TensorValueError: ``decay`` is out of its range, or ``variables`` is no tree of variables.

    >>> v = ef.Variable([1.0, 2.0])
    >>> average = ef.optim.ExponentialMovingAverage({"v": v}, decay=0.75)
    >>> _ = v.assign([5.0, 2.0])
    >>> average.update()
    >>> average.state["v"].value
    Tensor([2., 2.], f32[2]@cpu:0)
    >>> with average.applied():
    ...     print(v.value)
    [2. 2.]
    >>> v.value
    Tensor([5., 2.], f32[2]@cpu:0)
    """

    def __init__(self, variables: VariableTree, decay: float = 0.999) -> None:
        require("ExponentialMovingAverage", FRACTION, decay=decay)
        self.decay = decay
        self._variables, _ = named_variables("ExponentialMovingAverage", variables)
        self.state: dict[str, ef.Variable] = {}
        for path, v in self._variables.items():
            value = v.value.astype(working_dtype(v))
            average = ef.Variable(value, trainable=False, name=path or "average")
            keep_together(v, average)
            self.state[path] = average

    @hides_frames
    def update(self) -> None:
        """Add the present values to the averages; eagerly, or in a traced step after the update.

        >>> v = ef.Variable(0.0)
        >>> average = ef.optim.ExponentialMovingAverage([v], decay=0.5)
        >>> _ = v.assign(1.0)
        >>> average.update()
        >>> average.state["0"].value
        Tensor(0.5, f32[]@cpu:0)
        """
        for v, average in self._pairs():
            with beside(v):
                difference = v.value.astype(average.dtype) - average.value
                average.assign_add(difference * (1 - self.decay))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block, the variables have the values of the averages; then their own again.

        >>> v = ef.Variable(1.0)
        >>> with ef.optim.ExponentialMovingAverage([v]).applied():
        ...     print(v.value)
        1.
        """
        own = [v.value for v, _ in self._pairs()]
        try:
            for v, average in self._pairs():
                v.assign(average.value.astype(v.dtype))
            yield
        finally:
            for (v, _), value in zip(self._pairs(), own, strict=True):
                v.assign(value)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Load averages, all or none.

        Args:
            state: values by path, of the same dtypes and shapes.
            strict: whether ``state`` must have a value for each path and no other.

        Raises:
            CheckpointError: values are missing, unknown or do not fit; then nothing is assigned.

        >>> v = ef.Variable([1.0])
        >>> average = ef.optim.ExponentialMovingAverage([v])
        >>> average.load_state({"0": ef.tensor([7.0])})
        >>> average.state["0"].value
        Tensor([7.], f32[1]@cpu:0)
        """
        names = {path: path for path in self.state}
        put_state(self.state, names, state, strict, "ExponentialMovingAverage")

    def _pairs(self) -> Iterator[tuple[ef.Variable, ef.Variable]]:
        return zip(self._variables.values(), self.state.values(), strict=True)

    def __repr__(self) -> str:
        count = len(self.state)
        return f"ExponentialMovingAverage({count} variables, decay={self.decay})"
