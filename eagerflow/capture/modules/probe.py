"""`probe`: a fast check that the parts of an object still hold the very same objects.

The check is generated code, as guards are: see `eagerflow.capture.guards.guard_kinds`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, final

from eagerflow.capture.access_paths import AccessPath, Root, contents
from eagerflow.capture.equality import ATOMS
from eagerflow.capture.guards.guard_kinds import Guard, GuardWriter
from eagerflow.capture.reads import Read
from eagerflow.ops.state.variables import Variable
from eagerflow.types import DType

#: types of plain values, which are compared
PLAIN: Final = ATOMS | {range, slice, DType}


def probe(root: Any, kind: type, flags: frozenset[str]) -> Callable[[], Any]:
    """A function that returns None if a part may have changed, so that a full walk is needed.

    It keeps no part alive. Values that the walk does not enter, such as a count, may be replaced.

    Args:
        root: where `eagerflow.capture.modules.walk` begins.
        kind: the class of parts.
        flags: names of attributes of parts that are compared, whatever their values.
    """
    parts = _Parts(kind, flags)
    parts.visit(Root(root, weak=True), root)
    while parts.pending:
        parts.visit(*parts.pending.popleft())
    return GuardWriter().write(parts.guards, ())


@final
class _Parts:
    """The guards of parts, each of which is visited once."""

    def __init__(self, kind: type, flags: frozenset[str]) -> None:
        self.guards: list[Guard] = []
        self.pending: deque[tuple[AccessPath, Any]] = deque()
        self._kind = kind
        self._flags = flags
        self._seen: set[int] = set()

    def visit(self, path: AccessPath | Root, value: Any) -> None:
        part = isinstance(value, self._kind)
        if part or isinstance(value, Variable):
            self._guard(path, "identity", value)
        if id(value) in self._seen or isinstance(value, Variable):
            return
        self._seen.add(id(value))
        if part:
            entries = AccessPath(path, "attribute", "__dict__", "")
            self._guard(entries, "names", vars(value))
            self._add(entries, "item", vars(value).items(), self._flags)
        elif isinstance(value, dict):
            self._guard(path, "names", value)
            self._add(path, "item", contents(value).items())
        elif isinstance(value, (list, tuple)):
            self._guard(path, "length", value)
            self._add(path, "item", enumerate(contents(value)))
        else:
            self._guard(path, "type", value)
            names = value.__dataclass_fields__
            self._add(path, "attribute", [(name, getattr(value, name, None)) for name in names])

    def _add(
        self, path: AccessPath | Root, how: str, items: Iterable[tuple[Any, Any]],
        flags: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        for key, value in items:
            entry = AccessPath(path, how, key, "")
            if self._is_walked(value):
                self.pending.append((entry, value))
            elif key in flags:
                self._guard(entry, "value" if type(value) in PLAIN else "identity", value)
            else:
                self._guard(entry, "unless", (value, self._is_walked))

    def _guard(self, path: AccessPath | Root, kind: str, value: Any) -> None:
        if isinstance(path, AccessPath):
            self.guards.append(Guard(Read(path, kind, value)))

    def _is_walked(self, value: Any) -> bool:
        """Whether `eagerflow.capture.modules.walk` yields or enters a value."""
        return isinstance(value, (self._kind, Variable, dict, list, tuple)) or (
            hasattr(type(value), "__dataclass_fields__")
        )
