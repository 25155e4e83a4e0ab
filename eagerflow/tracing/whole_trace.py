"""What the trace of a function shares with the traces of its branches and loops.

The symbolic sizes among it have a class of their own, `Sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from eagerflow.core.placeholders import Placeholder
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import LeakedTensorError, TraceError
from eagerflow.graph.ir import Node
from eagerflow.graph.name_scopes import free_name
from eagerflow.source import Source, capture
from eagerflow.tracing.number_conditions import Decisions
from eagerflow.tracing.symbols import asked_in, unknown_size

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


@final
class Sizes:
    """The symbolic sizes of the trace of a whole function, which its parts share.

    Args:
        owner: the number of the trace, by which dims are assigned to it.

    Attributes:
        known: the sizes in the call that traces, by name; without sizes that depend on data.
        static: the names of sizes that Python asked for, with the operation and its line.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self.known: dict[str, int] = {}
        self.static: dict[str, tuple[str, Source | None]] = {}
        self._taken: set[str] = set()

    def add(self, name: str, size: int) -> Dim:
        """A new symbolic size, ``size`` in the call that traces."""
        self.known[name] = size
        return Dim(name, self._owner)

    def fresh(self, base: str) -> Dim:
        """A new name for a size that depends on data."""
        name = free_name(base, self.names)
        self._taken.add(name)
        return Dim(name, self._owner)

    def reserve(self, names: Iterable[str]) -> None:
        """Exclude names for new sizes."""
        self._taken.update(names)

    @property
    def names(self) -> frozenset[str]:
        """The names so far."""
        return frozenset(self.known) | self._taken

    def knows(self, dim: Dim) -> bool:
        """Whether the size is known in the call that traces, as it does not depend on data."""
        return dim.symbols <= self.known.keys()

    def ask(self, dim: Dim, why: str) -> int:
        """The size in the call that traces; it is static from then on."""
        for name in dim.symbols:
            if name not in self.known or self._owner not in dim.owners:
                raise unknown_size(dim, why)
            if name not in self.static:
                self.static[name] = (asked_in(why), capture(2))
        return dim.evaluate(self.known)
