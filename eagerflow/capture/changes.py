"""What a function did to the Python world outside while it was traced.

Before the function runs there is a snapshot of what its code can reach; afterwards the two are
compared. What was stored can be stored there again after each run, and a container can be filled
again. The snapshot itself: `capture/snapshot.py`; what is stored again: `function/surroundings.py`.
"""

from __future__ import annotations

from abc import ABC
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final, Generic, NamedTuple, Protocol, final

from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.library import is_library_class
from eagerflow.capture.paths import GONE, AccessPath, Location, Root
from eagerflow.capture.reads import Read, Reads
from eagerflow.capture.snapshot import ATOMS, Held, differs
from eagerflow.core.symbols import AbstractNumber, AbstractTracedArray, number_now
from eagerflow.core.tensor import Tensor
from eagerflow.source import Source

_NUMBERS: Final = frozenset({int, float, complex})
#: names without which no code sets attributes or items by other means than statements
_SETTERS: Final = frozenset({"setattr", "vars", "operator", "exec", "eval", "globals",
                             "__dict__", "__setattr__", "__setitem__", "__globals__"})  # fmt: skip
#: methods that change a container
_MUTATORS: Final = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend",
    "extendleft", "insert", "intersection_update", "pop", "popitem", "popleft", "remove",
    "reverse", "rotate", "setdefault", "sort", "symmetric_difference_update", "update",
})  # fmt: skip
#: what Python itself puts into classes and instances
_INTERNAL: Final = frozenset({"__dict__", "__weakref__", "_abc_impl", "__annotations__", "__doc__"})
#: classes of libraries whose methods set no attributes
_WITHOUT_SETTERS: Final = (object, ABC, Generic, Protocol, SimpleNamespace)


class OutsideChange(NamedTuple):
    """Something outside that is not as it was.

    Attributes:
        kind: ``"set"``, ``"delete"``, ``"append"`` or ``"fill"``, as of a `Store`, or ``"memory"``
            of an array, whose elements changed.
        path: what was set, or the container or array.
        old: what was there, `GONE` if nothing.
        new: what is there now, `GONE` if nothing; of a container the items.
        text: what happened, in the user's words.
        source: the line that most likely did it.
    """

    kind: str
    path: AccessPath | Root
    old: Any
    new: Any
    text: str
    source: Source | None

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text} at {self.source}"


#: what stands for inputs, whatever their values
_INPUTS: Final = (AbstractNumber, AbstractTracedArray)
#: what is said of a container
_DONE: Final = {
    "append": "items are appended", "fill": "items are added, removed or moved",
    "memory": "elements are changed",
}  # fmt: skip


@final
class Watch:
    """The state of the reachable world at one moment.

    Args:
        reads: what the function can reach.

    Attributes:
        kept: the containers, by id, whose changes stay.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.kept: set[int] = set()
        self._stored = {key for s in reads.sites for key in facts_of(s.code).stores}
        names = {name for s in reads.sites for name in s.code.co_names}
        self._by_any_means = bool(names & (_SETTERS | _MUTATORS))
        self._by_computed_names = any(facts_of(s.code).computed_stores for s in reads.sites) or any(
            r.kind != "member" and (r.value is setattr or r.value is delattr) for r in reads.reads
        )
        self._stores_items = any(facts_of(s.code).subscript_store for s in reads.sites)
        self._paths: list[tuple[AccessPath, Any]] = [(p, p.get()) for p in self._stored_names()]
        self._known = {
            (id(r.path.parent), r.path.how, r.path.key): r.path
            for r in reads.reads if r.path.how in ("global", "attribute", "dict")
        }  # fmt: skip
        attributes = frozenset(name for kind, name in self._stored if kind == "attribute")
        self._entries = [
            # of modules and functions, those that code sets
            Held("attributes", value, path.text, path,
                 attributes if isinstance(value, (ModuleType, FunctionType)) else None)
            for path, value in (*reads.objects, *reads.classes)
        ]  # fmt: skip
        held = (Held.of_container(value, path.text, path) for path, value in reads.containers)
        self._containers = [one for one in held if one is not None]
        self._arrays = [
            Held("memory", r.value, r.path.text, r.path) for r in reads.of_kind("content")
        ]

    def _stored_names(self) -> Iterator[AccessPath]:
        """The global names and cells that reachable code sets."""
        done: set[Any] = set()
        for code, function, path in self._reads.sites:
            free = function.__code__.co_freevars
            for kind, name in facts_of(code).stores:
                key: Any = (id(function.__globals__), name)
                if kind == "cell" and name in free:
                    key = (id(function.__closure__[free.index(name)]), "cell")
                if key in done or kind == "attribute" or (kind == "cell" and name not in free):
                    continue
                done.add(key)
                slot: Any = name if kind == "global" else free.index(name)
                yield AccessPath(path, kind, slot, name)

    def read_at(self, location: Location) -> Read | None:
        """The read of a location which is as it was, if it is one of the world outside."""
        now = location.get()
        for path, old in self._paths:
            if now is old and path.location().identity == location.identity:
                return _read(path, old)
        for held in (*self._entries, *self._containers):
            if held.owner is location.owner and isinstance(held.before, dict):
                old = held.before.get(location.key, GONE)
                if now is old is not GONE:
                    attribute = held.kind == "attributes"
                    path = self._attribute(held, location.key) if attribute else AccessPath(
                        held.path, "item", location.key, held.location(location.key).text
                    )  # fmt: skip
                    return _read(path, old)
        return None

    # --- comparing ---

    def changes(self) -> Iterator[OutsideChange]:
        """What is not as it was."""
        for path, old in self._paths:
            if differs(old, path.get()):
                yield self._rebound(path, old, path.get())
        for held in self._entries:
            for location, old, new in held.changes():
                if not self._is_left(held.owner, location.key):
                    yield self._rebound(self._attribute(held, location.key), old, new)
        for held in self._containers:
            for kind, key, old, new in held.edits():
                if kind in ("append", "fill"):
                    yield self._mutated(held, kind, new)
                elif not self._is_of_others(old, new):
                    yield self._item(held, key, old, new)
        for held in self._arrays:
            if any(held.changes()):
                yield self._mutated(held, "memory", held.owner)

    def _attribute(self, held: Held, name: str) -> AccessPath:
        for how in ("attribute", "dict"):
            known = self._known.get((id(held.path), how, name))
            if known is not None and not known.fixed:  # those of classes are read-only
                return known
        return AccessPath(held.path, "attribute", name, held.location(name).text)

    def _rebound(self, path: AccessPath, old: Any, new: Any) -> OutsideChange:
        key = path.text if path.how == "cell" else path.key
        return _set(path, path.described, old, new, self._store(path.how, key))

    def _mutated(self, held: Held, kind: str, new: Any) -> OutsideChange:
        text = f"{held.text or 'the function'}: {_DONE[kind]}"
        source = self._changer(held.path, item=False)
        return OutsideChange(kind, held.path, held.before, new, text, source)

    def _is_left(self, owner: Any, name: str) -> bool:
        """Whether the change of an attribute does not count: another thread set it."""
        if name in _INTERNAL:
            return True
        if self._by_computed_names or ("attribute", name) in self._stored:
            return False
        return not _set_by_library(owner, name)

    def _is_of_others(self, old: Any, new: Any) -> bool:
        """Whether another thread made a number an item: nothing in the code here can have.

        What the code here computes of a number in a trace is none.
        """
        if type(number_now(old)) not in _NUMBERS or type(new) not in _NUMBERS:
            return False
        if self._by_any_means:
            return False
        return not self._stores_items

    def _item(self, held: Held, key: Any, old: Any, new: Any) -> OutsideChange:
        path = AccessPath(held.path, "item", key, held.location(key).text)
        return _set(path, path.text, old, new, self._changer(held.path, item=True))

    def unproven(self, changes: Sequence[OutsideChange]) -> list[Read]:
        """Guards for what changes rely on, and for what code stores to without a change.

        Whether the function stored the very value that was there, or did not get there, cannot
        be told. Both are right as long as that value is there when a call begins.
        """
        entries: list[tuple[AccessPath, Any]] = list(self._paths)
        for held in self._entries:
            entries += [
                (self._attribute(held, name), value)
                for name, value in held.before.items()
                if ("attribute", name) in self._stored and not isinstance(held.owner, type)
            ]
        entries += self._stored_items()
        return [*_relied_on(changes)] + [
            Read(path, "value" if type(old) in ATOMS else "identity", old)
            for path, old in entries
            if path.get() is old is not GONE and not issubclass(type(old), _INPUTS)
        ]

    def _stored_items(self) -> Iterator[tuple[AccessPath, Any]]:
        """The items of containers that code sets by a constant subscript, as they were."""
        stored = {
            load.stored[0]
            for loads in self._reads.loads.values() for _, load in loads if load.stored
        }  # fmt: skip
        for held in self._containers:
            for key, value in held.entries():
                if key in stored:
                    yield AccessPath(held.path, "item", key, held.location(key).text), value

    # --- the lines ---

    def _store(self, how: str, name: Any) -> Source | None:
        kind = "attribute" if how in ("dict", "base") else how
        stores = ((s.code, facts_of(s.code).stores.get((kind, name))) for s in self._reads.sites)
        return _first(stores)

    def _changer(self, path: AccessPath | Root, *, item: bool) -> Source | None:
        """What changes a container: where it is named, best; of items, better a subscript."""
        near = self._reads.loads_of(path) if isinstance(path, AccessPath) else ()
        codes = [*(code for code, _ in near), *(site.code for site in self._reads.sites)]
        stored = [(code, load.offset) for code, load in near if load.stored]
        stored += [(code, facts_of(code).subscript_store) for code in codes]
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
        """Put everything back as it was, but for what other threads have put there since."""
        for held in self._containers:
            if id(held.owner) not in self.kept:
                held.restore(lambda _, key, old, new: self._is_of_others(old, new))
        for held in self._entries:
            held.restore(lambda held, name, old, new: self._is_left(held.owner, name))
        for path, old in self._paths:
            if path.get() is not old:
                with suppress(TypeError):  # what cannot be set was not set
                    path.set(old)
        for held in self._arrays:
            if id(held.owner) not in self.kept:
                held.restore()


def _first(offsets: Iterable[tuple[CodeType, int | None]]) -> Source | None:
    """The line of the first offset there is."""
    return next((Source(code, offset) for code, offset in offsets if offset is not None), None)


def _set_by_library(owner: Any, name: str) -> bool:
    """Whether methods or descriptors of a library may set an attribute: their code is not seen."""
    if isinstance(owner, (type, ModuleType, FunctionType)):
        return False
    classes = [c for c in type(owner).__mro__ if c not in _WITHOUT_SETTERS]
    return any(map(is_library_class, classes)) or any(
        hasattr(type(c.__dict__[name]), "__get__")
        and not isinstance(c.__dict__[name], (FunctionType, MemberDescriptorType))
        for c in classes
        if name in c.__dict__
    )


def _read(path: AccessPath, value: Any) -> Read | None:
    """How what is not read by name is compared, or that it is an input."""
    if type(value) is Tensor:
        return Read(path, "tensor", value)
    return Read(path, "value", value) if type(value) in ATOMS else None


def _relied_on(changes: Sequence[OutsideChange]) -> Iterator[Read]:
    """What has to be there to be taken away, and the length of lists of which items are set.

    An item is set by its number, which the code may have counted from the end.
    """
    for kind, path, old, *_ in changes:
        if not isinstance(path, AccessPath):
            continue
        owner = path.parent.get()
        if kind == "delete":
            yield Read(path, "type", number_now(old))
        elif kind == "set" and isinstance(owner, (list, deque)):
            where: Any = path.parent  # a root is checked likewise
            yield Read(where, "size", len(owner))


def _set(path: AccessPath, name: str, old: Any, new: Any, source: Source | None) -> OutsideChange:
    kind, verb = ("delete", "is deleted") if new is GONE else ("set", "is set")
    return OutsideChange(kind, path, old, new, f"{name} {verb}", source)


@contextmanager
def watching(reads: Reads) -> Iterator[Watch]:
    """Watch the reachable world; at the end of the block everything is put back as it was.

    Args:
        reads: what the function can reach.
    """
    watch = Watch(reads)
    try:
        yield watch
    finally:
        watch.restore()


@contextmanager
def substituted(pairs: Sequence[tuple[AccessPath, Any]]) -> Iterator[None]:
    """Substitute other objects at access paths for the time of the block.

    At its end each path leads to its old value again, unless another was stored in the block.

    Args:
        pairs: access paths, and the objects to store there.
    """
    before: list[tuple[AccessPath, Any, Any]] = []
    try:
        for path, value in pairs:
            old = path.get()
            path.set(value)
            before.append((path, old, value))
        yield
    finally:
        for path, old, value in reversed(before):
            if path.get() is value:
                path.set(old)
