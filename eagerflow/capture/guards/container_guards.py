"""The items of containers that code reads: those named by constant subscripts, or all."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.access_paths import AccessPath, Root, contents, joined, read_item
from eagerflow.capture.code_facts import Load
from eagerflow.capture.equality import ATOMS, is_plain
from eagerflow.capture.library_code import is_bare_class, is_library_class
from eagerflow.capture.reads import Finding, Reads

if TYPE_CHECKING:
    from eagerflow.capture.guards.guard_choice import Collector


#: maximum number of items of a container that are guarded
LIMIT: Final = 1000
#: number of items from which a container of plain values is compared as a whole
_LONG: Final = 32
_SETS: Final = (set, frozenset)

#: types of dicts whose methods run no code of the user
_TESTED: Final = (dict, OrderedDict, defaultdict)
#: methods that change a container without reading it, whatever it holds
_BLIND: Final = frozenset({"append", "extend"})

_NAMED: Final = frozenset({"attribute", "dict"})
#: depth of nested subscripts at which mentions are no longer followed
_DEEP: Final = 8

#: mention of a container in code: kind and name, and the subscripts from there
_Mention = tuple[str, str, tuple[Any, ...]]


@final
@dataclass(slots=True, eq=False)
class _Container:
    """A container, with its uses in code.

    Attributes:
        path: the path by which it was reached first.
        value: the container.
        mentions: the mentions of it in code.
        owners: the containers that hold it as an item, with its keys there.
        unnamed: whether it can be reached without a name.
        whole: whether it may be iterated, passed on, or indexed by non-constant keys.
        visited: the keys of the items visited.
        missed: whether an item that code names is missing.
        tested: the keys of a dict whose presence code tests.
    """

    path: AccessPath | Root
    value: Any
    mentions: set[_Mention] = field(default_factory=set)
    owners: list[tuple[_Container, Any]] = field(default_factory=list)
    unnamed: bool = False
    whole: bool = False
    visited: set[Any] = field(default_factory=set)
    missed: bool = False
    tested: set[Any] = field(default_factory=set)

    @property
    def as_one(self) -> bool:
        """Whether the container is compared as a whole and not item by item."""
        if isinstance(self.value, _SETS):
            return True
        held = contents(self.value)
        items = held.values() if isinstance(held, dict) else held
        return _LONG <= len(held) <= LIMIT and all(type(x) in ATOMS for x in items)

    def follow_owners(self) -> bool:
        """Extend the mentions by those of the owners; return whether that added any."""
        before = len(self.mentions) + self.whole
        for owner, key in self.owners:
            self.unnamed = self.unnamed or owner.unnamed
            for kind, name, keys in list(owner.mentions):
                if len(keys) < _DEEP:
                    self.mentions.add((kind, name, (*keys, key)))
                else:
                    self.unnamed = True
        self.whole = self.whole or self.unnamed
        return len(self.mentions) + self.whole != before


@final
class CapturedContainers:
    """The containers that were found.

    Args:
        visitor: the collector, which knows the reachable code.

    Attributes:
        changes: number of additions.
    """

    def __init__(self, visitor: Collector) -> None:
        self._visitor = visitor
        self._containers: dict[int, _Container] = {}
        self._new: list[_Container] = []
        self.changes = 0

    def add(self, path: AccessPath | Root, value: Any) -> None:
        """Note a container."""
        self._containers[id(value)] = _Container(path, value, whole=isinstance(value, _SETS))
        self.widen(path, value)

    def widen(self, path: AccessPath | Root, value: Any) -> None:
        """Note another path to a value that may be a container."""
        known = self._containers.get(id(value))
        if known is None or known.value is not value:
            return
        self._new.append(known)
        self.changes += 1
        if not isinstance(path, AccessPath):
            known.unnamed = True
        elif path.how == "item":
            owner = self._containers.get(id(path.parent.get()))
            if owner is None:
                known.unnamed = True
            else:
                known.owners.append((owner, path.key))
        elif path.how == "cell" and not path.fixed:
            known.mentions.add(("cell", path.text, ()))
        elif path.how == "global" or (path.how in _NAMED and _has_names(path)):
            # code in the module reads a global name, other code an attribute of the module
            known.mentions |= {("global", path.key, ()), ("attribute", path.key, ())}
        else:
            known.unnamed = True

    def new_items(self, *, whole: bool) -> Iterator[tuple[AccessPath, Any]]:
        """The items that are read and were not yielded before, of all containers or of new ones."""
        containers, self._new = list(self._containers.values()) if whole else self._new, []
        for one in containers:
            escapes = self._visitor.escapes.take(one.value)
            one.unnamed = one.unnamed or escapes
            self.changes += one.follow_owners()
            if isinstance(one.value, _SETS):
                continue
            keys = self._keys(one)
            if one.whole:
                held = contents(one.value)
                if len(held) > LIMIT or one.as_one:
                    continue
                keys = list(held) if isinstance(held, dict) else range(len(held))
            for key in keys:
                if key not in one.visited:
                    one.visited.add(key)
                    for item in _item(one, key):
                        if escapes:
                            self._visitor.escapes.take_part(item[1], one.value)
                        yield item

    def _keys(self, one: _Container) -> Any:
        """The keys of constant subscripts; sets ``whole`` if code uses the whole container."""
        named: list[Any] = []
        # a list with both assigned and appended items is refilled as a whole
        is_set = grows = False
        for kind, name, steps in one.mentions:
            if self._visitor.every or name in self._visitor.asked:
                one.whole = True
            for _, load in self._visitor.reads.loads.get((kind, name), ()):
                keys, n = load.keys, len(steps)
                if keys[:n] == steps and len(keys) > n:
                    named.append(keys[n])
                elif steps[: len(keys)] == keys:
                    if load.tested and keys == steps and type(one.value) in _TESTED:
                        one.tested.update(load.tested)
                        if load.attributes and load.tested[0] in one.value:  # of get()
                            named.append(load.tested[0])
                    elif load.tested and keys != steps and not _gets(load, steps[len(keys)]):
                        continue
                    elif not _is_blind(one, load, steps):
                        one.whole = True
                    elif keys == steps:
                        is_set, grows = is_set or bool(load.stored), grows or not load.stored
        one.whole = one.whole or (is_set and grows)
        return named

    def finish(self, reads: Reads) -> None:
        """Add the guards of containers that are used as a whole, and of tested keys."""
        for one in self._containers.values():
            if not one.whole and not one.missed:
                held = one.tested & one.value.keys() if one.tested else one.tested
                if held:
                    reads.add(one.path, "holding", frozenset(held))
                if one.tested - held:
                    reads.add(one.path, "lacking", frozenset(one.tested - held))
                continue
            length = len(contents(one.value))
            if length > LIMIT:
                reads.findings.append(_too_long(one, reads))
            if one.as_one:
                reads.add(one.path, "items", one.value)
                if isinstance(one.value, _SETS) and not all(map(is_plain, contents(one.value))):
                    reads.findings.append(_set_of_objects(one, reads))
            elif isinstance(one.value, dict) and length <= LIMIT:
                reads.add(one.path, "keys", one.value)
            else:
                reads.add(one.path, "length", one.value)


def _has_names(path: AccessPath) -> bool:
    """Whether an attribute is read only by code of the user that names it."""
    cls = type(path.parent.get())
    return not path.key.startswith("__") and (
        cls is type or is_bare_class(cls) or not is_library_class(cls)
    )


def _is_blind(one: _Container, load: Load, steps: tuple[Any, ...]) -> bool:
    """Whether a load reads nothing of the container, but perhaps stores items in it."""
    if load.stored:
        return True
    grows = isinstance(one.value, (list, deque)) and getattr(one.value, "maxlen", None) is None
    return grows and load.keys == steps and not _BLIND.isdisjoint(load.attributes[:1])


def _gets(load: Load, key: Any) -> bool:
    """Whether a load may read the item with this key, and not only test for its presence."""
    return bool(load.attributes) and (type(key) not in ATOMS or load.tested[0] == key)


def _item(one: _Container, key: Any) -> Iterator[tuple[AccessPath, Any]]:
    fixed = isinstance(one.value, tuple)
    path = AccessPath(one.path, "item", key, joined(one.path.text, f"[{key!r}]"), fixed)
    try:
        value = read_item(one.value, key)
    except LookupError:
        if type(one.value) in _TESTED:
            one.tested.add(key)
        else:
            one.missed = True
        return
    except TypeError:
        return
    if not isinstance(one.value, (list, tuple, dict, deque)):
        return
    yield path, value


def _too_long(one: _Container, reads: Reads) -> Finding:
    length = len(contents(one.value))
    return Finding(
        "unwatched", f"{one.path.text}: a {type(one.value).__name__} of {length:,} items",
        "is too long to be compared at each call: only changes of its length are seen",
        "pass it as an argument, or as a tensor", reads.line_of(one.path),
    )  # fmt: skip


def _set_of_objects(one: _Container, reads: Reads) -> Finding:
    return Finding(
        "unwatched", f"{one.path.text}: a set of objects",
        "is compared, but not the attributes of its objects", "use a list or a dict",
        reads.line_of(one.path),
    )  # fmt: skip
