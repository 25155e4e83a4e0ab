"""Side effects of a function on Python state outside, found by comparison after its trace.

Before the function runs, a snapshot is made of all that its code can reach, and compared with the
state afterwards. Each change can then be repeated after each run. The snapshot itself:
`capture/snapshot.py`. The choice of stores: `function/new_traces/outside_state.py`.
"""

from __future__ import annotations

from abc import ABC
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final, Generic, NamedTuple, Protocol, final

from eagerflow.capture.access_paths import GONE, AccessPath, Location, Root
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.equality import ATOMS
from eagerflow.capture.library_code import is_library_class
from eagerflow.capture.reads import Read, Reads
from eagerflow.capture.snapshot import Held
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractTracedArray, number_now
from eagerflow.core.tensor import Tensor
from eagerflow.source import Source

_NUMBERS: Final = frozenset({int, float, complex})
#: names that code needs to set attributes or items by other means than statements
_SETTERS: Final = frozenset({"setattr", "vars", "operator", "exec", "eval", "globals",
                             "__dict__", "__setattr__", "__setitem__", "__globals__"})  # fmt: skip
#: methods that change a container
_MUTATORS: Final = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend",
    "extendleft", "insert", "intersection_update", "pop", "popitem", "popleft", "remove",
    "reverse", "rotate", "setdefault", "sort", "symmetric_difference_update", "update",
})  # fmt: skip
#: attributes that Python itself sets in classes and instances
_INTERNAL: Final = frozenset({"__dict__", "__weakref__", "_abc_impl", "__annotations__", "__doc__"})
#: classes of libraries whose methods set no attributes
_WITHOUT_SETTERS: Final = (object, ABC, Generic, Protocol, SimpleNamespace)


class OutsideChange(NamedTuple):
    """A change of a location or a container outside.

    Attributes:
        kind: ``"set"``, ``"delete"``, ``"append"`` or ``"fill"``, as of a `Store`, or ``"memory"``
            of an array, whose elements changed.
        path: the path that was set, or of the container or array.
        old: the old value, `GONE` if there was none.
        new: the new value, `GONE` if there is none; of a container the items.
        text: description of the change, for messages.
        source: the line that most likely made the change.
    """

    kind: str
    path: AccessPath | Root
    old: Any
    new: Any
    text: str
    source: Source | None

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text} at {self.source}"


#: types of objects whose attributes are mostly code
_NAMESPACES: Final = (type, ModuleType, FunctionType)
#: types of stand-ins for inputs, whatever their values
_INPUTS: Final = (AbstractNumber, AbstractTracedArray)
#: descriptions of changes of a container
_DONE: Final = {
    "append": "items are appended", "fill": "items are added, removed or moved",
    "memory": "elements are changed",
}  # fmt: skip


@final
class Watch:
    """The state that a function can reach, before it is traced.

    Args:
        reads: the reads of the function.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._stored = {key for s in reads.sites for key in facts_of(s.code).stores}
        names = {name for s in reads.sites for name in s.code.co_names}
        self._by_any_means = bool(names & (_SETTERS | _MUTATORS))
        self._sets_by_name = any(facts_of(s.code).sets_by_name for s in reads.sites) or any(
            r.kind != "member" and (r.value is setattr or r.value is delattr) for r in reads.reads
        )
        self._by_computed_names = self._sets_by_name or any(
            facts_of(s.code).computed_stores for s in reads.sites
        )
        self._stores_items = any(facts_of(s.code).subscript_store for s in reads.sites)
        self._known = {
            (id(r.path.parent), r.path.how, r.path.key): r.path
            for r in reads.reads if r.path.how in ("global", "attribute", "dict")
        }  # fmt: skip
        attributes = frozenset(name for kind, name in self._stored if kind == "attribute")
        arrays = [(r.path, r.value) for r in reads.of_kind("content")]
        held = [Held.of_container(value, path.text, path) for path, value in reads.containers]
        self._subscripts = [one for loads in reads.loads.values() for one in loads if one[1].stored]
        #: containers first: they may be the ``__dict__`` of an object
        self._held = [
            *(one for one in held if one is not None),
            *(
                # of modules and functions, the attributes that code sets
                Held("attributes", value, path.text, path,
                     attributes if isinstance(value, (ModuleType, FunctionType)) else None)
                for path, value in (*reads.objects, *reads.classes)
            ),
            *self._names(),
            *(Held("memory", value, path.text, path) for path, value in arrays),
        ]  # fmt: skip

    def _names(self) -> Iterator[Held]:
        """The global names and cells that reachable code sets."""
        names: dict[int, tuple[Any, AccessPath | Root, set[str]]] = {}
        cells: set[int] = set()
        for code, function, path in self._reads.sites:
            stores = facts_of(code).stores
            namespace = function.__globals__
            stored = {name for kind, name in stores if kind == "global"}
            if stored:
                names.setdefault(id(namespace), (namespace, path, set()))[2].update(stored)
            free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            for name, cell in free:
                if ("cell", name) in stores and id(cell) not in cells:
                    cells.add(id(cell))
                    yield Held("cell", cell, name, path)
        for namespace, path, stored in names.values():
            yield Held("namespace", namespace, "", path, stored)

    def read_at(self, location: Location) -> Read | None:
        """The read of an unchanged location outside; None for others."""
        now, same = location.get(), location.identity
        for held in self._held:
            key = held.text if held.kind == "cell" else location.key
            if held.owner is location.owner and held.kind not in ("memory", "set"):
                old = dict(held.entries()).get(key, GONE)
                if now is old is not GONE and held.location(key).identity[:2] == same[:2]:
                    return _read(self._part(held, key), old)
        return None

    # --- comparing ---

    def changes(self) -> Iterator[OutsideChange]:
        """The changes since the snapshot."""
        for held in self._held:
            for kind, key, old, new in held.edits():
                if kind not in ("set", "delete"):
                    yield self._mutated(held, kind, new)
                elif not self._is_left(held, key, old, new):
                    path = self._part(held, key)
                    yield _set(path, old, new, self._setter(held, path))

    def _part(self, held: Held, key: Any) -> AccessPath:
        for how in ("attribute", "dict") if held.kind == "attributes" else ():
            known = self._known.get((id(held.path), how, key))
            if known is not None and not known.fixed:  # paths through classes are read-only
                return known
        return held.part(key)

    def _setter(self, held: Held, path: AccessPath) -> Source | None:
        if path.how == "item":
            return self._changer(held.path, item=True)
        kind = "attribute" if path.how in ("dict", "base") else path.how
        key = path.text if kind == "cell" else path.key
        return _first((s.code, facts_of(s.code).stores.get((kind, key))) for s in self._reads.sites)

    def _mutated(self, held: Held, kind: str, new: Any) -> OutsideChange:
        text = f"{held.text or 'the function'}: {_DONE[kind]}"
        source = self._changer(held.path, item=False)
        return OutsideChange(kind, held.path, held.before, new, text, source)

    def _is_left(self, held: Held, key: Any, old: Any, new: Any) -> bool:
        """Whether a change is ignored and left as it is: Python or another thread made it."""
        if held.kind == "attributes":
            if key in _INTERNAL:
                return True
            if self._by_computed_names or ("attribute", key) in self._stored:
                return False
            return not _set_by_library(held.owner, key)
        if held.kind in ("namespace", "cell", "memory"):
            return False
        # this code cannot have stored a number there; numbers that it computes are symbolic
        if type(number_now(old)) not in _NUMBERS or type(new) not in _NUMBERS:
            return False
        return not (self._by_any_means or self._stores_items)

    def unproven(self, changes: Sequence[OutsideChange]) -> list[Read]:
        """Guards for preconditions of changes, and for locations that code may set but did not.

        Whether the function stored the very value that was there, or did not reach the statement,
        is not known. Both are right as long as that value is there when a call begins.
        """
        entries = [
            (self._part(held, key), old)
            for held in self._held
            for key, old in held.entries()
            if self._may_set(held, key)
        ]
        known = {id(value): path for path, value in self._reads.holders}
        return [*_relied_on(changes)] + [
            self._unchanged(path, old, known.get(id(old)))
            for path, old in entries
            if path.get() is old is not GONE and not issubclass(type(old), _INPUTS)
        ]

    def _unchanged(self, path: AccessPath, old: Any, known: AccessPath | Root | None) -> Read:
        """The guard for an unchanged value, which may have been stored from another known path."""
        if known is not None and not _is_same(path, known):
            return Read(path, "alias", known)
        return Read(path, "value" if type(old) in ATOMS else "identity", old)

    def _may_set(self, held: Held, key: Any) -> bool:
        """Whether code may set a location: a store names it, or names are made at run time."""
        if held.kind == "attributes":
            by_any_name = self._sets_by_name and not isinstance(held.owner, _NAMESPACES)
            return by_any_name or ("attribute", key) in self._stored
        if held.kind in ("namespace", "cell"):
            return held.names is None or key in held.names
        return any(x.stored[:1] == (key,) for _, x in self._subscripts)

    # --- the lines ---

    def _changer(self, path: AccessPath | Root, *, item: bool) -> Source | None:
        """The line that changes a container: best where it is named; of items, a subscript."""
        near = self._reads.loads_of(path) if isinstance(path, AccessPath) else ()
        codes = [*(code for code, _ in near), *(site.code for site in self._reads.sites)]
        stored: list[tuple[CodeType, int | None]] = [(c, x.offset) for c, x in near if x.stored]
        stored += [(code, facts_of(code).subscript_store) for code in codes]
        called: list[tuple[CodeType, int | None]]
        called = [(c, x.offset) for c, x in near if _MUTATORS.intersection(x.attributes[:1])]
        called += [
            (code, load.offset)
            for code in codes
            for load in facts_of(code).loads
            if load.kind == "attribute" and load.name in _MUTATORS
        ]
        if item:
            return _first(stored + called)
        return _first([*called, *stored, *((code, load.offset) for code, load in near)])

    # --- undoing ---

    def restore(self) -> None:
        """Restore the state, but for changes made by other threads meanwhile."""
        for held in self._held:
            held.restore(self._is_left)


def _is_same(path: AccessPath, other: AccessPath | Root) -> bool:
    """Whether two paths lead to one name, attribute or item."""
    if not isinstance(other, AccessPath):
        return False
    try:
        return path.location().identity == other.location().identity
    except TypeError:  # it cannot be set
        return False


def _first(offsets: Iterable[tuple[CodeType, int | None]]) -> Source | None:
    """The line of the first offset that is not None."""
    return next((Source(code, offset) for code, offset in offsets if offset is not None), None)


def _set_by_library(owner: Any, name: str) -> bool:
    """Whether methods or descriptors of a library, which are not analysed, may set an attribute."""
    if isinstance(owner, _NAMESPACES):
        return False
    classes = [c for c in type(owner).__mro__ if c not in _WITHOUT_SETTERS]
    return any(map(is_library_class, classes)) or any(
        hasattr(type(c.__dict__[name]), "__get__")
        and not isinstance(c.__dict__[name], (FunctionType, MemberDescriptorType))
        for c in classes
        if name in c.__dict__
    )


def _read(path: AccessPath, value: Any) -> Read | None:
    """The read of a value not read by name: an input or a plain value; None for others."""
    if type(value) is Tensor:
        return Read(path, "tensor", value)
    return Read(path, "value", value) if type(value) in ATOMS else None


def _relied_on(changes: Sequence[OutsideChange]) -> Iterator[Read]:
    """Guards for values that are deleted, and for the length of lists in which items are set.

    An item is set by its index, which the code may have counted from the end.
    """
    for kind, path, old, *_ in changes:
        if not isinstance(path, AccessPath):
            continue
        owner = path.parent.get()
        if kind == "delete":
            yield Read(path, "type", number_now(old))
        elif kind == "set" and isinstance(owner, (list, deque)):
            where: Any = path.parent  # a root is checked likewise
            yield Read(where, "length", owner)


def _set(path: AccessPath, old: Any, new: Any, source: Source | None) -> OutsideChange:
    kind, verb = ("delete", "is deleted") if new is GONE else ("set", "is set")
    return OutsideChange(kind, path, old, new, f"{path.described} {verb}", source)


@contextmanager
def substituted(pairs: Sequence[tuple[AccessPath, Any]]) -> Iterator[None]:
    """Substitute other objects at access paths for the time of the block.

    At its end each path leads to its old value again, unless another was stored in the block.

    Args:
        pairs: access paths, and the objects to store there.
    """
    before = [(path, path.get()) for path, _ in pairs]
    try:
        for path, value in pairs:
            path.set(value)
        yield
    finally:
        put_back(pairs, before)


def put_back(
    pairs: Sequence[tuple[AccessPath, Any]], before: Sequence[tuple[AccessPath, Any]]
) -> None:
    """Restore the old values at access paths where the substitutes are still there.

    Args:
        pairs: access paths, and the substitutes stored there.
        before: the same access paths, with the old values.
    """
    for (path, value), (_, old) in zip(reversed(pairs), reversed(before), strict=True):
        if path.get() is value is not old:
            path.set(old)
