"""Snapshots of mutable objects: comparison with their later state, and restoring.

The objects in a snapshot are chosen elsewhere: all that code can reach (`capture/reachable.py`),
reads and stores of a traced function (`capture/changes.py`), the containers among the arguments
(`capture/argument_containers.py`).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from operator import is_
from typing import Any, Final, final

from eagerflow.capture.access_paths import (
    GONE,
    AccessPath,
    Location,
    contents,
    instance_dict,
    refill,
)
from eagerflow.capture.equality import ATOMS, same_items, same_value
from eagerflow.core.abstract_symbols import number_now
from eagerflow.core.tree import slots_of

#: kinds of objects with names or keys -> kind of their locations
_KEYED: Final = {"cell": "cell", "attributes": "attribute", "namespace": "item", "dict": "item"}
_CONTAINERS: Final = frozenset({"dict", "list", "deque", "set"})
#: kinds of objects with names -> kind of access paths
_HOW: Final = {"cell": "cell", "attributes": "attribute", "namespace": "global"}


def differs(old: Any, new: Any) -> bool:
    """Whether a location was set: to another object, or to another plain value."""
    return old is not new and not (type(old) in ATOMS and same_value(old, new))


@final
class Held:
    """A mutable object, with a copy of its contents.

    Args:
        kind: ``"cell"``, ``"attributes"``, ``"namespace"``, ``"dict"``, ``"list"``, ``"deque"``,
            or ``"set"``, or ``"memory"`` of an array.
        owner: the object.
        text: its name in messages.
        path: its access path, for the caller.
        names: names that are compared, of attributes and namespaces; it may grow. None for all.
    """

    __slots__ = ("before", "kind", "names", "owner", "path", "text")

    def __init__(
        self, kind: str, owner: Any, text: str, path: Any = None,
        names: Container[str] | None = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.owner = owner
        self.text = text
        self.path = path
        self.names = names
        now = self.now()
        # without running a class's own code for copying
        self.before: Any = _COPY[kind](now)

    @staticmethod
    def of_container(value: Any, text: str, path: Any = None) -> Held | None:
        """The snapshot of a dict, list, deque or set; None for other values."""
        for cls in (dict, list, deque, set):
            if isinstance(value, cls):
                return Held(cls.__name__, value, text, path)
        return None

    def now(self) -> Any:
        """The present contents of the object; not a copy, where these are a container."""
        owner = self.owner
        if self.kind == "cell":
            return {self.text: Location("cell", owner, None, "").get()}
        if self.kind in _CONTAINERS:
            return contents(owner)
        if self.kind != "attributes":
            return owner
        if isinstance(owner, type):
            return dict(owner.__dict__)
        return attributes_of(owner)

    def location(self, key: Any) -> Location:
        """The location of one of the names, keys or items."""
        if self.kind == "cell":
            text = self.text
        elif self.kind in ("attributes", "namespace"):
            text = f"{self.text}.{key}".lstrip(".")
        else:
            text = f"{self.text}[{key!r}]"
        return Location(_KEYED.get(self.kind, "item"), self.owner, key, text)

    def part(self, key: Any) -> AccessPath:
        """The access path of one of the names, keys or items."""
        how = _HOW.get(self.kind, "item")
        known: Any = self.text if how == "cell" else key
        if how == "cell":
            key = self.path.get().__code__.co_freevars.index(self.text)
        text = known if how in ("global", "cell") else self.location(key).text
        return AccessPath(self.path, how, key, text)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """The keys, names or indices in the copy, with the values; none of sets, deques, arrays."""
        if self.kind in _KEYED:
            yield from self.before.items()
        elif self.kind == "list":
            yield from enumerate(self.before)

    def changes(self) -> Iterator[tuple[Location, Any, Any]]:
        """The locations that were set, with the old and the new value.

        A list of another length gives a location of the kind ``"list"`` as well, with all old items
        and the items after them; a deque, set or array, and a dict whose keys have another order,
        give a location of the kind ``"other"`` with the whole contents.
        """
        before, now = self.before, self.now()
        if self.kind in _KEYED:
            for key, old, new in self._pairs(before, now):
                if differs(old, new):
                    yield self.location(key), old, new
            if self.kind == "dict" and _is_reordered(before, now):
                yield Location("other", self.owner, None, self.text), before, now
        elif self.kind == "list":
            if len(before) != len(now) or not all(map(is_, before, now)):
                for i, (old, new) in enumerate(zip(before, now, strict=False)):
                    if differs(old, new):
                        yield self.location(i), old, new
                if len(before) != len(now):
                    location = Location("list", self.owner, None, self.text)
                    yield location, before, now[len(before) :]
        elif not _SAME[self.kind](before, now):
            yield Location("other", self.owner, None, self.text), before, now

    def edits(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """The changes in a form that can be repeated: kind, key, old and new value.

        The kinds are those of a `Store`: ``"set"`` and ``"delete"`` are for one key, ``"append"``
        has the appended items, ``"fill"`` all present contents; and ``"memory"``.
        """
        before, now, changes = self.before, self.now(), list(self.changes())
        if self.kind == "memory":
            yield from (("memory", None, before, now) for _ in changes)
            return
        grown = self.kind in ("list", "deque") and len(now) > len(before)
        if grown and not any(map(differs, before, now)):
            yield "append", None, before, list(now)[len(before) :]
        elif changes and (
            self.kind == "deque" or (self.kind == "list" and len(now) != len(before))
        ):
            yield "fill", None, before, list(now)
        elif changes and self.kind == "set":
            yield "fill", None, before, [number_now(x) for x in now]
        elif self.kind == "dict" and _is_reordered(before, now):
            yield "fill", None, before, {number_now(key): value for key, value in now.items()}
        else:
            for location, old, new in changes:
                yield "delete" if new is GONE else "set", number_now(location.key), old, new

    def _pairs(self, before: Any, now: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Keys that may differ, with old and new values."""
        same = len(before) == len(now) and all(map(is_, now.values(), before.values()))
        if same and list(now) == list(before):  # as of most
            return
        for key in {**before, **now}:
            if self.names is None or key in self.names:
                yield key, before.get(key, GONE), now.get(key, GONE)

    def restore(self, stays: Callable[[Held, Any, Any, Any], bool] | None = None) -> None:
        """Restore the contents from the copy.

        Args:
            stays: ``stays(held, key, old, new)`` says whether a change stays, such as the change
                of another thread.
        """
        owner, before, now = self.owner, self.before, self.now()
        kept = stays or (lambda *_: False)
        if self.kind == "dict":
            before = {k: now[k] if k in now and kept(self, k, v, now[k]) else v
                      for k, v in before.items()}  # fmt: skip
            if list(now) != list(before):
                refill(owner, before)
        if self.kind in _KEYED:
            for key, old, new in list(self._pairs(before, now)):
                if old is not new and not kept(self, key, old, new):
                    # locations that cannot be set were not set
                    with suppress(TypeError, AttributeError, ValueError):
                        self.location(key).set(old)
        elif self.kind == "list":
            if len(before) == len(now):
                pairs = enumerate(zip(before, now, strict=True))
                before = [new if kept(self, i, old, new) else old for i, (old, new) in pairs]
            if len(before) != len(now) or not all(map(is_, before, now)):
                refill(owner, before)
        elif not _SAME[self.kind](before, now):
            (_restore_memory if self.kind == "memory" else refill)(owner, before)


def _is_reordered(before: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Whether the old keys are in another order, or not before all new keys."""
    kept = [key for key in before if key in now]
    return list(now)[: len(kept)] != kept


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance itself, slots included; not a copy, if there are no slots."""
    own = instance_dict(value) or {}
    values = {name: getattr(value, name, GONE) for name in slots_of(type(value))}
    return {**own, **{n: x for n, x in values.items() if x is not GONE}} if values else own


#: classes by their modules and names: a program with an instance has loaded them
_ARRAYS: Final = frozenset({("builtins", "bytearray"), ("array", "array"), ("numpy", "ndarray")})
#: size in bytes above which memory is not compared
_MOST_BYTES: Final = 1 << 20


def is_memory(x: Any) -> bool:
    """Whether ``x`` is a `bytearray`, an `array`, or an array of NumPy, and not a large one."""
    kind = type(x)
    if (kind.__module__, kind.__name__) not in _ARRAYS:
        return False
    try:
        with memoryview(x) as view:
            return not view.readonly and view.nbytes <= _MOST_BYTES
    except (TypeError, ValueError, BufferError):  # of a dtype that no buffer has
        return False


def _same_memory(before: Any, now: Any) -> bool:
    dtype = getattr(now, "dtype", None)
    if dtype is None:
        return bytes(now) == bytes(before)
    if now.shape != before.shape or dtype != before.dtype:
        return False
    if dtype.hasobject:
        return same_items(now.ravel().tolist(), before.ravel().tolist())
    return bool(now.tobytes() == before.tobytes())


def _same_set(before: set[Any], now: set[Any]) -> bool:
    return set(map(id, before)) == set(map(id, now)) or before == now


def _same_deque(before: list[Any], now: Any) -> bool:
    return len(before) == len(now) and not any(map(differs, before, now))


def _restore_memory(owner: Any, before: Any) -> None:
    owner[... if getattr(owner, "shape", None) == () else slice(None)] = before


_COPY: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_KEYED, dict), "list": list, "deque": list, "set": set, "memory": copy.copy,
}  # fmt: skip
_SAME: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "deque": _same_deque, "set": _same_set, "memory": _same_memory,
}  # fmt: skip
