"""The cache of a traced function: its traces, by the keys of the calls that may use them.

It is bounded, and weak where its keys are the user's objects.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, final
from weakref import ref

from eagerflow.capture.static_keys import IdentityKey
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.function.lookup.call_arguments import Call
from eagerflow.function.lookup.shortcuts import Shortcuts

#: maximum number of traces that a function keeps
MOST_TRACES: Final = 128
_FEW: Final = MOST_TRACES // 4


@final
class TraceGroup:
    """The traces of one key: calls that differ in sizes and numbers only.

    Attributes:
        entries: the traces, the most recently used first.
        sizes: for each tensor among the arguments its shape, None for sizes that have differed.
    """

    __slots__ = ("entries", "sizes", "watches")

    def __init__(self) -> None:
        self.entries: list[CacheEntry] = []
        self.watches: list[Any] = []  # weak references with callbacks at the death of objects
        self.sizes: tuple[tuple[int | None, ...], ...] | None = None

    def widen(self, call: Call) -> tuple[tuple[int | None, ...], ...]:
        """Note the sizes of a call; sizes that differ from earlier ones become symbolic."""
        shapes = call.shapes
        if self.sizes is None:
            self.sizes = shapes
        else:
            self.sizes = tuple(
                tuple([a if a == b else None for a, b in zip(old, new, strict=True)])
                for old, new in zip(self.sizes, shapes, strict=True)
            )
        return self.sizes


@final
class Cache:
    """All traces of a function, by key.

    Args:
        shortcuts: cleared whenever a trace is dropped, so that none leads to a dropped trace.
    """

    def __init__(self, shortcuts: Shortcuts) -> None:
        self._groups: OrderedDict[Any, TraceGroup] = OrderedDict()
        self._shortcuts = shortcuts
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return sum(len(g.entries) for g in self._groups.values())

    def entries(self) -> Iterator[CacheEntry]:
        """All traces, the most recently used first."""
        for group in reversed(list(self._groups.values())):
            yield from group.entries

    def group(self, call: Call) -> TraceGroup | None:
        """The traces of a call's key."""
        group = self._groups.get(call.key)
        if group is not None and len(self._groups) > _FEW:  # the order matters near the limit
            with self._lock:
                if call.key in self._groups:
                    self._groups.move_to_end(call.key)
        return group

    def add(self, call: Call, entry: CacheEntry) -> None:
        """Keep a trace; drop the least recently used ones where there are too many."""
        with self._lock:
            group = self.ensure(call.key)
            group.entries = [entry, *group.entries]  # others may be reading the old list
            self._groups.move_to_end(call.key)
            while len(self) > MOST_TRACES:
                oldest = next(iter(self._groups.values()))
                if oldest.entries:
                    oldest.entries = oldest.entries[:-1]
                    self._shortcuts.clear()
                if not oldest.entries and len(self._groups) > 1:
                    self._groups.popitem(last=False)

    def ensure(self, key: Any) -> TraceGroup:
        """The group of a key, made if there is none."""
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = TraceGroup()
                here = ref(self)
                for item in _identities(key):
                    group.watches.append(item.watch(lambda: _forget(here, key)))
            return group

    def prefer(self, group: TraceGroup, entry: CacheEntry) -> None:
        """Move ``entry`` to the front of its group."""
        with self._lock:
            if entry in group.entries:
                group.entries = [entry, *[e for e in group.entries if e is not entry]]

    def tidy(self, call: Call) -> None:
        """Drop the group of a call whose trace failed, if it is empty."""
        with self._lock:
            group = self._groups.get(call.key)
            if group is not None and not group.entries:
                del self._groups[call.key]

    def groups(self) -> list[tuple[Any, TraceGroup]]:
        """All keys with their traces."""
        return list(self._groups.items())

    def take(self, key: Any, group: TraceGroup, entry: CacheEntry) -> None:
        """Keep a trace taken over from another function under this key."""
        with self._lock:
            mine = self.ensure(key)
            mine.sizes = group.sizes
            mine.entries = [*mine.entries, entry]

    def clear(self) -> None:
        """Drop all traces."""
        with self._lock:
            self._groups.clear()
            self._shortcuts.clear()

    def forget(self, is_stale: Callable[[CacheEntry], bool]) -> list[CacheEntry]:
        """Drop stale traces, and return them."""
        with self._lock:
            self._shortcuts.clear()
            stale = [entry for entry in self.entries() if is_stale(entry)]
            for group in self._groups.values():
                group.entries = [entry for entry in group.entries if entry not in stale]
            return stale

    def drop(self, key: Any) -> None:
        """Drop the traces of a key."""
        # by identity: an object that has died is equal to nothing
        for stored in [k for k in list(self._groups) if k is key]:
            self._groups.pop(stored, None)
        self._shortcuts.clear()


def _forget(cache: ref[Cache], key: Any) -> None:
    referent = cache()
    if referent is not None:
        referent.drop(key)


def _identities(key: Any) -> Iterator[IdentityKey]:
    if isinstance(key, IdentityKey):
        yield key
    elif isinstance(key, (tuple, frozenset)):
        for item in key:
            yield from _identities(item)
