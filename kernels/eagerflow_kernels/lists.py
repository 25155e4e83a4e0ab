"""`ListData`: what a value of dtype list holds, arrays by number; old versions stay as they were.

All versions of a list share one dict, in which the newest is written down. An older one knows what
is different from the next newer one, and takes the dict over when it is used (Baker, "Shallow
binding makes functional arrays fast", 1991). So a loop that pushes or writes pays the same for
each turn however long the list is, and so does the gradient that goes back over it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

__all__ = ["LIST_DTYPE", "ListData"]

Array = Any

#: what stands for the dtype where NumPy's are looked up; no array has it
LIST_DTYPE: Final = np.dtype([("eagerflow_list", "V1")])


@final
class ListData:
    """One version of a list. An element that is absent counts as zero.

    Attributes:
        size: how many elements there are, absent ones included.
        shape: no axes, as the value has none.
        dtype: as of an array.
    """

    __slots__ = ("__weakref__", "_items", "_lock", "_next", "_undo", "size")

    shape = ()
    ndim = 0
    dtype = LIST_DTYPE

    def __init__(self, items: dict[int, Array] | None = None, size: int = 0) -> None:
        self.size = size
        self._items: dict[int, Array] | None = {} if items is None else items
        self._next: ListData | None = None  # the newer version
        self._undo: Sequence[tuple[int, Any]] = ()  # what to change of that one
        self._lock = threading.Lock()  # of all versions

    def get(self, index: int) -> Array | None:
        """Element ``index``, None if it is absent."""
        with self._lock:
            return self._newest().get(index)

    def items(self) -> list[tuple[int, Array]]:
        """The elements that are there, with their numbers."""
        with self._lock:
            return list(self._newest().items())

    def __len__(self) -> int:
        """How many elements are there, without those that are absent."""
        with self._lock:
            return len(self._newest())

    def changed(self, changes: Sequence[tuple[int, Array | None]], size: int) -> ListData:
        """The version with other elements in some places, None for absent."""
        with self._lock:
            items = self._newest()
            made = ListData(items, size)
            made._lock = self._lock
            self._undo = _change(items, changes)
            self._items, self._next = None, made
            return made

    def _newest(self) -> dict[int, Array]:
        """The dict, in which this version is written down now; to be called with the lock held."""
        found = self._items
        if found is not None:
            return found
        path = []
        version = self
        while version._items is None:
            path.append(version)
            assert version._next is not None
            version = version._next
        items = version._items
        for older in reversed(path):
            version._undo = _change(items, older._undo)
            version._items, version._next = None, older
            version = older
        self._items, self._next, self._undo = items, None, ()
        return items


def _change(items: dict[int, Array], changes: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Change a dict; gives what changes it back."""
    undo = []
    for index, item in changes:
        undo.append((index, items.pop(index, None)))
        if item is not None:
            items[index] = item
    undo.reverse()
    return undo
