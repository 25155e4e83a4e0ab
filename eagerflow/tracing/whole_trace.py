"""What the trace of a function shares with the traces of its branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from eagerflow.core.placeholders import Placeholder
from eagerflow.core.tensor import Tensor
from eagerflow.errors import LeakedTensorError, TraceError
from eagerflow.graph.ir import Node
from eagerflow.tracing.number_conditions import Decisions

if TYPE_CHECKING:
    from eagerflow.tracing.tracer import Tracer


@final
class WholeTrace:
    """The state of a trace and of all its parts.

    Attributes:
        innermost: the part that is under way, if the function runs.
        resources: the resources that graphs refer to, by their names there.
        resource_names: the names, by id of the resource.
        handed_out: weak references to all tensors' data and numbers that belong to it.
        own_rules: the names of composites with derivatives of their own, which the graph lacks.
        looked_at: the concrete tensors whose elements Python has seen, by id of their data.
        pinned: the handles that must not be updated in place, each with the maker of an error.
        stand_ins: the stand-ins for tensors and containers among the function's arguments.
        decisions: the decisions of Python by numbers; None if such numbers become static.
        outside: the interface with state outside of the function, while that runs.
        structures: the results of walks over the parts of objects, if there were any.
        calls: the shared graphs of functions (`ef.call`).
        texts: the texts that show values which only the graph knows.
        raises: the node that raises the exception with which the function ended, if any.
        foreign: the error of another thread that the function let work on its tensors.
    """

    def __init__(self) -> None:
        self.innermost: Tracer | None = None
        self.resources: dict[str, Any] = {}
        self.resource_names: dict[int, str] = {}
        self.handed_out: list[ref[Any]] = []
        self.own_rules: list[str] = []
        self.looked_at: dict[int, Tensor] = {}
        self.pinned: dict[int, tuple[Tensor, Callable[[], TraceError]]] = {}
        self.stand_ins: tuple[Any, ...] = ()
        self.decisions: Decisions | None = None
        self.outside: Any = None
        self.structures: Any = None
        self.calls: dict[Any, Any] = {}
        self.texts: list[Placeholder] = []
        self.raises: Node | None = None
        self.foreign: LeakedTensorError | None = None

    def forget(self) -> None:
        """Drop references to tensors, objects of the user and graphs."""
        self.pinned, self.looked_at, self.structures, self.outside = {}, {}, None, None
        self.calls, self.stand_ins = {}, ()
        self.texts.clear()  # the texts refer to this list
