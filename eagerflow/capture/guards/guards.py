"""`Guards`: all facts about the outside that a trace relies on, checked again at each call.

The kind of guard for a value is chosen in `eagerflow.capture.guards.guard_choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.access_paths import AccessPath
from eagerflow.capture.guards.guard_kinds import Guard, GuardWriter
from eagerflow.capture.library_code import is_settled
from eagerflow.capture.reads import Read, Reads
from eagerflow.core.tensor import AbstractArray, Tensor

if TYPE_CHECKING:
    from eagerflow.capture.inputs_and_stores import Store
    from eagerflow.capture.modules.walk_assumptions import Structures


#: kinds of guards -> kinds that they replace at their path
_REPLACES: Final = {
    **dict.fromkeys(("value", "identity", "content"), ("number", "tensor", "array")),
    "array": ("content",),
}  # fmt: skip


@final
class Guards:
    """All guards of a trace.

    Args:
        reads: the reads of the function from outside.

    Attributes:
        read: returns the present captured values; None if a guard does not hold. Never raises.
    """

    __slots__ = ("_captured", "_guards", "_root", "_structures", "read")

    read: Callable[[], tuple[Any, ...] | None]

    def __init__(self, reads: Reads) -> None:
        self._root = reads.root
        self._guards = [Guard(read) for read in reads.reads]
        self._captured: tuple[AccessPath, ...] = ()
        self._structures: Structures | None = None
        self._renew()

    def __iter__(self) -> Any:
        return iter(self._guards)

    def _renew(self) -> None:
        """Make the next check generate the code anew."""
        self.read = self._write_and_read

    def check(self) -> bool:
        """Whether all guards hold. Never raises."""
        return self.read() is not None

    def _write_and_read(self) -> tuple[Any, ...] | None:
        try:
            # eagerflow's own code is assumed not to change
            checked = [guard for guard in self._guards if not is_settled(guard.path, guard.kind)]
            last = () if self._structures is None else (self._structures.holds,)
            self.read = read = GuardWriter().write(checked, self._captured, last)
        except Exception:  # a path leads nowhere now
            return None
        return read()

    def explain(self) -> list[str]:
        """Descriptions of the differences; empty if all guards hold."""
        differences: list[str] = []
        told: set[AccessPath] = set()
        for guard in GuardWriter().failing(self._guards):
            if told.isdisjoint((guard.path, *guard.path.owners())):
                told.add(guard.path)
                differences.append(guard.difference(guard.path.get()))
        if self._structures is not None:
            differences += self._structures.differences()
        return differences

    def specialise(self, path: AccessPath, value: Any) -> None:
        """Require exactly ``value`` of the access path of a number, a tensor or an array.

        Args:
            path: one of the access paths.
            value: the value that the trace used: a number, or an array whose elements count from
                now on.
        """
        kind = "value"
        if not isinstance(value, (int, float, complex)):
            kind = "identity" if isinstance(value, AbstractArray) else "content"
        self.add(Read(path, kind, value))

    def add(self, read: Read) -> None:
        """Add a guard; a guard for a value, or for any array, replaces one of the kind there."""
        new, kinds = Guard(read), _REPLACES.get(read.kind, ())
        known = (i for i, g in enumerate(self._guards) if g.path is read.path and g.kind in kinds)
        at = next(known, len(self._guards))
        self._guards[at : at + 1] = [new]
        self._renew()

    def keep_apart(self, reads: Reads, stores: Iterable[Store]) -> None:
        """Require that distinct objects stay so, of the types that a trace changes or compares.

        If two of them became one object, a change of one would show in the other.
        """
        for group in reads.of_types(set(map(_changed, stores))):
            first = next((path for path in group.values() if isinstance(path, AccessPath)), None)
            others = tuple(path for path in group.values() if path is not first)
            if first is not None and others:
                self.add(Read(first, "distinct", others))

    def keep_addresses(self, reads: Reads) -> None:
        """Require the same objects, where code asks for their `id`.

        The guard for the type stays: a tensor is still an input, with any value.
        """
        for path, value in reads.holders if reads.asks_addresses else ():
            if isinstance(path, AccessPath) and not isinstance(value, ModuleType | FunctionType):
                self._guards.append(Guard(Read(path, "identity", value)))
        self._renew()

    def rely(self, structures: Structures) -> None:
        """Set the assumptions about modules, which are checked after all guards."""
        self._structures = structures
        self._renew()

    def capture(self, paths: Iterable[AccessPath]) -> None:
        """Set the access paths of the values that `read` returns."""
        self._captured = tuple(paths)
        self._renew()

    def rebase(self, function: Callable[..., Any]) -> None:
        """Check another function from now on, as when a cell of a notebook was run again.

        All access paths then begin at it. The caller has compared the code.
        """
        self._root.point_to(function)
        for guard in self._guards:
            if guard.kind == "member" and guard.path.parent is self._root:
                guard.expected = guard.path.get()
        self._renew()


def _changed(store: Store) -> type:
    """The type of the object that a store changes."""
    if store.kind == "update":
        return Tensor
    path = store.target.parent if store.kind in ("set", "delete") else store.target
    return type(path.get())
