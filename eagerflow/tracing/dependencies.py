"""`control_dependencies`: control edges of the nodes that are traced in a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from eagerflow.core import tree
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import TraceError
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer, current_tracer


@final
class control_dependencies:
    """Make the nodes traced within a ``with`` block wait for values.

    Reads and assignments of a variable are in the order of the program anyway; this is for effects
    that no value and no variable connects. In eager code it does nothing, since ops run in order.

    Args:
        values: a tree of tensors of the traced function, such as the results of assignments.

    Raises:
        TraceError: a leaf of the tree is no tensor.

    >>> v = ef.Variable(0.0)
    >>> @ef.trace
    ... def f(x):
    ...     done = v.assign(x)
    ...     with ef.control_dependencies([done]):
    ...         return x * 2
    >>> [n.name for n in f.graph(ef.tensor(1.0)).nodes[-1].control_inputs]
    ['assign']
    """

    def __init__(self, values: object) -> None:
        self._values: list[Tensor] = []
        for x in tree.leaves(list(values) if isinstance(values, Iterator) else values):
            if not isinstance(x, AbstractArray):
                raise TraceError(
                    "control_dependencies takes tensors",
                    given=type(x).__name__,
                    hint="an assignment gives its new value: with ef.control_dependencies("
                    "[v.assign(x)])",
                )
            if isinstance(x, Tensor):  # not of a variable: its reads and assignments are in order
                self._values.append(x)
        self._before: list[tuple[Tracer | None, Any]] = []

    def __enter__(self) -> None:
        tracer = current_tracer()
        before = tracer.effects.extra if tracer is not None else ()
        self._before.append((tracer, before))
        if tracer is not None:
            values = [
                x._data.value
                for x in self._values
                if type(x._data) is Symbol and x._data.tracer is tracer
            ]
            nodes = [v.node for v in values if v.node is not None]
            tracer.effects.extra = tuple(dict.fromkeys([*before, *nodes]))

    def __exit__(self, *raised: object) -> None:
        tracer, before = self._before.pop()
        if tracer is not None:
            tracer.effects.extra = before
