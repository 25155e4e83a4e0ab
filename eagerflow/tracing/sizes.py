"""The symbolic sizes of a trace: their names, and their values in the call that traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from eagerflow.dims import Dim
from eagerflow.graph.name_scopes import free_name
from eagerflow.source import Source, capture, function_called
from eagerflow.tracing.symbols import unknown_size


def asked_in(what: str) -> str:
    """An operation that needs a number, with the function of eagerflow that uses it, if any.

    The user's line shows ``ef.arange(n)``, and nothing that looks like the operation, ``int()``.
    """
    function = function_called()
    return what if function is None else f"{what} in {function}"


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
