"""What the trace of a function shares with the traces of its branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from eagerflow.core.placeholders import Placeholder
from eagerflow.core.tensor import Tensor
from eagerflow.errors import LeakedTensorError, TraceError
from eagerflow.graph.ir import Node
from eagerflow.graph.name_scopes import name_of
from eagerflow.tracing.number_conditions import Decisions

if TYPE_CHECKING:
    from eagerflow.tracing.tracer import Tracer


@final
@dataclass(slots=True, eq=False)
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
        carries: the types with which loops ended, for when they are traced again: see
            `eagerflow.control.carry`.
        texts: the texts that show values which only the graph knows.
        raises: the node that raises the exception with which the function ended, if any.
        foreign: the error of another thread that the function let work on its tensors.
    """

    innermost: Tracer | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    resource_names: dict[int, str] = field(default_factory=dict)
    handed_out: list[ref[Any]] = field(default_factory=list)
    own_rules: list[str] = field(default_factory=list)
    looked_at: dict[int, Tensor] = field(default_factory=dict)
    pinned: dict[int, tuple[Tensor, Callable[[], TraceError]]] = field(default_factory=dict)
    stand_ins: tuple[Any, ...] = ()
    decisions: Decisions | None = None
    outside: Any = None
    structures: Any = None
    calls: dict[Any, Any] = field(default_factory=dict)
    carries: dict[Any, Any] = field(default_factory=dict)
    texts: list[Placeholder] = field(default_factory=list)
    raises: Node | None = None
    foreign: LeakedTensorError | None = None

    def name_resource(self, resource: Any) -> None:
        """Give a resource, if there is one, a name by which graphs refer to it."""
        if resource is not None and id(resource) not in self.resource_names:
            name = self.resource_names[id(resource)] = name_of(resource, self.resources)
            self.resources[name] = resource
