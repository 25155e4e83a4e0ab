"""What a function did to the Python world outside while it was traced, and how it is undone.

Before the function runs, what its code can reach is copied, one level deep; afterwards the two are
compared. A value that was stored can be stored there again after each run; what was done to a
container, such as appending, can only be told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple, final

from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.compare import same_items, same_value
from eagerflow.capture.paths import GONE, AccessPath, Root, instance_dict
from eagerflow.capture.reads import Holder, Read, Reads
from eagerflow.capture.setters import set_by_library, sets_computed_names
from eagerflow.source import Source

__all__ = ["Mutation", "Rebinding", "Watch", "substituted", "watching"]

_NUMBERS: Final = frozenset({int, float, complex})
_ATOMS: Final = frozenset({bool, str, bytes, type(None), type(...), int, float, complex})
#: names without which no code sets attributes or items by other means than statements
_SETTERS: Final = frozenset({"setattr", "vars", "operator", "exec", "eval", "globals",
                             "__dict__", "__setattr__", "__setitem__", "__globals__"})  # fmt: skip
#: methods that change a container
_MUTATORS: Final = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend",
    "extendleft", "insert", "intersection_update", "pop", "popitem", "popleft", "remove",
    "reverse", "rotate", "setdefault", "sort", "symmetric_difference_update", "update",
})  # fmt: skip


class Rebinding(NamedTuple):
    """An access path that leads to another value. ``path.set(new)`` does it again.

    Attributes:
        path: what was set.
        old: what was there, `GONE` if nothing.
        new: what is there now, `GONE` if nothing.
        text: what happened, in the user's words.
        source: the line that most likely did it.
    """

    path: AccessPath
    old: Any
    new: Any
    text: str
    source: Source | None

    def undo(self) -> None:
        """Put back what was there."""
        _put(self.path, self.old)

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text} at {self.source}"


class Mutation(NamedTuple):
    """A container that was changed otherwise than by setting an item.

    Attributes:
        path: of the container.
        value: the container.
        text: what happened, in the user's words.
        source: the line that most likely did it.
        appended: what was appended to a list to which nothing else was done, so that it can be
            done again.
    """

    path: AccessPath | Root
    value: Any
    text: str
    source: Source | None
    appended: list[Any] | None = None

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text} at {self.source}"


class _Entries(NamedTuple):
    """The copy of a namespace: names with what they held, as access paths or keys of an object."""

    holder: Holder
    read: Callable[[], dict[str, Any]]
    before: dict[str, Any]


@final
class Watch:
    """The state of the reachable world at one moment.

    Args:
        reads: what the function can reach.
        extra: more containers to watch, each with its text.

    Attributes:
        kept: the containers, by id, whose changes stay.
    """

    def __init__(self, reads: Reads, extra: Iterable[tuple[str, Any]] = ()) -> None:
        self._reads = reads
        self.kept: set[int] = set()
        self._stored = {key for s in reads.sites for key in facts_of(s.code).stores}
        names = {name for s in reads.sites for name in s.code.co_names}
        self._by_any_means = bool(names & (_SETTERS | _MUTATORS))
        self._by_computed_names = any(sets_computed_names(s.code) for s in reads.sites) or any(
            r.value is setattr or r.value is delattr for r in reads.reads
        )
        self._stores_items = any(facts_of(s.code).subscript_store for s in reads.sites)
        self._paths: list[tuple[AccessPath, Any]] = [(p, p.get()) for p in self._stored_names()]
        self._known = {
            (id(r.path.parent), r.path.how, r.path.key): r.path
            for r in reads.reads if r.path.how in ("global", "attribute", "dict")
        }  # fmt: skip
        self._entries = [_entries(h, self._stored) for h in (*reads.objects, *reads.classes)]
        containers = [*reads.containers, *[Holder(Root(v, text), v) for text, v in extra]]
        self._containers = [(h, _copy(h.value)) for h in containers]
        self._arrays = [(Holder(r.path, r.value), r.value.copy()) for r in reads.of_kind("content")]

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

    # --- comparing ---

    def changes(self) -> tuple[list[Rebinding], list[Mutation]]:
        """What is not as it was: names that were rebound, and containers that were changed."""
        all_changes: list[Rebinding | Mutation] = [
            self._rebound(path, old, path.get())
            for path, old in self._paths
            if _differs(old, path.get())
        ]
        for holder, read, before in self._entries:
            now = read()
            for name in {**before, **now}:
                old, new = before.get(name, GONE), now.get(name, GONE)
                if _differs(old, new) and not self._is_left(holder.value, name):
                    all_changes.append(self._rebound(self._attribute(holder, name), old, new))
        for holder, before in self._containers:
            all_changes += self._container_changes(holder, before)
        for holder, before in self._arrays:
            if not _same_array(holder.value, before):
                all_changes.append(self._mutated(holder, "changed elements"))
        changes = [c for c in all_changes if isinstance(c, Rebinding)]
        return changes, [c for c in all_changes if isinstance(c, Mutation)]

    def _attribute(self, holder: Holder, name: str) -> AccessPath:
        for how in ("attribute", "dict"):
            known = self._known.get((id(holder.path), how, name))
            if known is not None and not known.fixed:  # those of classes are read-only
                return known
        return AccessPath(holder.path, "attribute", name, f"{holder.path.text}.{name}".lstrip("."))

    def _rebound(self, path: AccessPath, old: Any, new: Any) -> Rebinding:
        verb = "is deleted" if new is GONE else "is set"
        key = path.text if path.how == "cell" else path.key
        source = self._store(path.how, key)
        return Rebinding(path, old, new, f"{path.described} {verb}", source)

    def _mutated(self, holder: Holder, what: str, appended: list[Any] | None = None) -> Mutation:
        text = f"{holder.path.text or 'the function'}: {what}, only while tracing"
        return Mutation(holder.path, holder.value, text, self._mutator(holder.path), appended)

    def _container_changes(self, holder: Holder, before: Any) -> Iterator[Rebinding | Mutation]:
        now = holder.value
        if isinstance(now, (set, frozenset)):
            if now != before:
                yield self._mutated(holder, _counted(len(now - before), len(before - now)))
        elif isinstance(now, dict):
            lost = before.keys() - now.keys()
            if lost:
                yield self._mutated(holder, _counted(0, len(lost)))
            for key, new in now.items():
                old = before.get(key, GONE)
                if _differs(old, new) and not self._is_of_others(old, new):
                    yield self._item(holder, key, old, new)
        elif len(now) != len(before):
            appended = _appended(before, now) if type(now) is list else None
            yield self._mutated(holder, _grown(list(before), list(now)), appended)
        elif isinstance(now, deque) and any(map(_differs, before, now)):
            yield self._mutated(holder, "replaced items")
        else:
            for i, (old, new) in enumerate(zip(before, now, strict=True)):
                if _differs(old, new) and not self._is_of_others(old, new):
                    yield self._item(holder, i, old, new)

    def _is_left(self, owner: Any, name: str) -> bool:
        """Whether the change of an attribute does not count: another thread set it."""
        if _is_internal(name):
            return True
        if self._by_computed_names or ("attribute", name) in self._stored:
            return False
        return not set_by_library(owner, name)

    def _is_of_others(self, old: Any, new: Any) -> bool:
        """Whether another thread made a number an item: nothing in the code here can have.

        What the code here computes of a number in a trace is none.
        """
        if type(old) not in _NUMBERS or type(new) not in _NUMBERS or self._by_any_means:
            return False
        return not self._stores_items

    def _item(self, holder: Holder, key: Any, old: Any, new: Any) -> Rebinding:
        path = AccessPath(holder.path, "item", key, f"{holder.path.text}[{key!r}]")
        source = self._subscript(holder.path) or self._mutator(holder.path)
        return Rebinding(path, old, new, f"{path.text} is set", source)

    def unproven(self) -> list[Read]:
        """Guards for what code stores to, and where the same plain value is as before.

        Whether the function stored it, or did not get there, cannot be told. Both are right as
        long as that value is there when a call begins.
        """
        entries: list[tuple[AccessPath, Any]] = list(self._paths)
        for holder, _, before in self._entries:
            entries += [
                (self._attribute(holder, name), value)
                for name, value in before.items()
                if ("attribute", name) in self._stored and not isinstance(holder.value, type)
            ]
        entries += self._stored_items()
        return [
            Read(path, "value", old)
            for path, old in entries
            if type(old) in _ATOMS and path.get() is old
        ]

    def _stored_items(self) -> Iterator[tuple[AccessPath, Any]]:
        """The items of containers that code sets by a constant subscript, as they were."""
        stored = {
            load.stored[0]
            for loads in self._reads.loads.values() for _, load in loads if load.stored
        }  # fmt: skip
        for (path, value), before in self._containers:
            if not isinstance(value, (list, dict)):
                continue
            keys = before if isinstance(before, dict) else range(len(before))
            for key in stored:
                if key in keys:
                    yield AccessPath(path, "item", key, f"{path.text}[{key!r}]"), before[key]

    # --- the lines ---

    def _store(self, how: str, name: Any) -> Source | None:
        kind = "attribute" if how in ("dict", "base") else how
        for code, _, _ in self._reads.sites:
            offset = facts_of(code).stores.get((kind, name))
            if offset is not None:
                return Source(code, offset)
        return None

    def _subscript(self, path: AccessPath | Root) -> Source | None:
        codes = {id(s.code): s.code for s in self._reads.sites}
        near = [c for c, _ in self._reads.loads_of(path)] if isinstance(path, AccessPath) else []
        if isinstance(path, AccessPath):
            for code, load in self._reads.loads_of(path):
                if load.stored:
                    return Source(code, load.offset)
        for code in (*near, *codes.values()):
            offset = facts_of(code).subscript_store
            if offset is not None:
                return Source(code, offset)
        return None

    def _mutator(self, path: AccessPath | Root) -> Source | None:
        """The call of a method that changes containers, best of the one at ``path``."""
        if isinstance(path, AccessPath):
            for code, load in self._reads.loads_of(path):
                if _MUTATORS.intersection(load.attributes[:1]):
                    return Source(code, load.offset)
        for site in self._reads.sites:
            for load in facts_of(site.code).loads:
                if load.kind == "attribute" and load.name in _MUTATORS:
                    return Source(site.code, load.offset)
        source = self._subscript(path)
        if source is None and isinstance(path, AccessPath):
            source = next((Source(c, load.offset) for c, load in self._reads.loads_of(path)), None)
        return source

    # --- undoing ---

    def _with_others(self, value: Any, before: Any) -> Any:
        """What a container held before, with what other threads have put there since."""
        if isinstance(value, dict):
            for key, old in before.items():
                if self._is_of_others(old, new := value.get(key)):
                    before[key] = new
        elif type(value) is list and len(value) == len(before):
            for i, (old, new) in enumerate(zip(before, value, strict=True)):
                if self._is_of_others(old, new):
                    before[i] = new
        return before

    def restore(self) -> None:
        """Put everything back as it was."""
        for holder, before in self._containers:
            if id(holder.value) not in self.kept:
                _restore_container(holder.value, self._with_others(holder.value, before))
        for holder, read, before in self._entries:
            now = read()
            for name in {**before, **now}:
                old = before.get(name, GONE)
                new = now.get(name, GONE)
                if old is not new and not self._is_left(holder.value, name):
                    _quietly(self._attribute(holder, name), holder.value, old)
        for path, old in self._paths:
            if path.get() is not old:
                _put(path, old)
        for holder, before in self._arrays:
            if not _same_array(holder.value, before):
                holder.value[...] = before


def _entries(holder: Holder, stored: set[tuple[str, str]]) -> _Entries:
    """A copy of the attributes of an object. Of modules and functions, of those that code sets."""
    value = holder.value
    if isinstance(value, (ModuleType, FunctionType)):
        names = frozenset(name for kind, name in stored if kind == "attribute")

        def read() -> dict[str, Any]:
            own = vars(value)
            return {n: own[n] for n in names & own.keys()}
    elif isinstance(value, type):

        def read() -> dict[str, Any]:
            return dict(value.__dict__)
    else:
        slots = _slots(type(value))

        def read() -> dict[str, Any]:
            entries = dict(instance_dict(value) or {})
            for name in slots:
                held = getattr(value, name, GONE)
                if held is not GONE:
                    entries[name] = held
            return entries

    return _Entries(holder, read, read())


def _slots(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        for name, member in base.__dict__.items()
        if isinstance(member, MemberDescriptorType)
    ]


def _is_internal(name: str) -> bool:
    """Whether Python itself puts this into classes and instances."""
    return name in ("__dict__", "__weakref__", "_abc_impl", "__annotations__", "__doc__")


def _differs(old: Any, new: Any) -> bool:
    if old is new:
        return False
    return not (type(old) in _ATOMS and same_value(old, new))


def _same_array(now: Any, before: Any) -> bool:
    if isinstance(now, bytearray):
        return bool(now == before)
    if now.shape != before.shape or now.dtype != before.dtype:
        return False
    if now.dtype.hasobject:
        return same_items(now.ravel().tolist(), before.ravel().tolist())
    same: bool = now.tobytes() == before.tobytes()
    return same


def _copy(value: Any) -> Any:
    """The items of a container, without what a class of the user makes of copying."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return set(value)
    return list(value)


def _counted(added: int, removed: int) -> str:
    parts = []
    if added:
        parts.append(f"added {added} item{'s' * (added > 1)}")
    if removed:
        parts.append(f"removed {removed} item{'s' * (removed > 1)}")
    return ", ".join(parts)


def _appended(before: list[Any], now: list[Any]) -> list[Any] | None:
    """What was added at the end, if nothing else was done."""
    same = len(now) > len(before) and all(a is b for a, b in zip(before, now, strict=False))
    return now[len(before) :] if same else None


def _grown(before: list[Any], now: list[Any]) -> str:
    count = len(now) - len(before)
    if count > 0:
        if all(a is b for a, b in zip(before, now, strict=False)):
            return f"appended {count} item{'s' * (count > 1)}"
        return _counted(count, 0)
    return _counted(0, -count)


def _restore_container(value: Any, before: Any) -> None:
    if isinstance(value, dict):
        if list(value) != list(before):
            dict.clear(value)
            dict.update(value, before)
        for key, old in before.items():
            if dict.__getitem__(value, key) is not old:
                dict.__setitem__(value, key, old)
    elif isinstance(value, set):
        if value != before:
            set.clear(value)
            set.update(value, before)
    elif isinstance(value, list):
        if len(value) != len(before) or any(a is not b for a, b in zip(value, before, strict=True)):
            list.__setitem__(value, slice(None), before)
    elif isinstance(value, deque) and list(value) != before:
        deque.clear(value)
        deque.extend(value, before)


def _quietly(path: AccessPath, owner: Any, old: Any) -> None:
    """Put an attribute back into ``owner``, to which the path may lead no more."""
    _put(AccessPath(Root(owner), "attribute", path.key, path.text), old)


def _put(path: AccessPath, old: Any) -> None:
    try:
        path.set(old)
    except (TypeError, AttributeError, ValueError):  # what cannot be set was not set
        return


@contextmanager
def watching(reads: Reads, extra: Iterable[tuple[str, Any]] = ()) -> Iterator[Watch]:
    """Watch the reachable world; at the end of the block everything is put back as it was.

    Args:
        reads: what the function can reach.
        extra: more containers to watch, each with its text.
    """
    watch = Watch(reads, extra)
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
