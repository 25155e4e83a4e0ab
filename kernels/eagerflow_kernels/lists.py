"""`ListData`: what a value of dtype list holds, arrays by number; old versions stay as they were.

All versions of a list share one dict, in which the newest is written down. An older one knows what
is different from the next newer one, and takes the dict over when it is used (Baker, "Shallow
binding makes functional arrays fast", 1991). So a loop that pushes or writes pays the same for
each turn however long the list is, and so does the gradient that goes back over it.

Ctrl-C may come between any two instructions. Python looks for it after calls and where loops go
back, never between plain statements without a call, and in no function of C. So what must happen
together, that the dict becomes another version's, is written as such statements, in `_step`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

__all__ = ["LIST_DTYPE", "ListData"]

Array = Any
#: places, each with what is to be there, None for absent
_Changes = tuple[tuple[int, Array | None], ...]

#: so many versions are gone back over in any case
_FAR: Final = 8
#: of a version that is about to get the dict of another; nobody changes it
_NOTHING: Final[dict[int, Array]] = {}
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

    def __init__(
        self, items: dict[int, Array] | None = None, size: int = 0, lock: Any = None
    ) -> None:
        self.size = size
        self._items: dict[int, Array] | None = {} if items is None else items
        self._next: ListData | None = None  # the newer version
        self._undo: _Changes = ()  # what to change of that one
        self._lock = lock or threading.Lock()  # of all versions

    def get(self, index: int) -> Array | None:
        """Element ``index``, None if it is absent."""
        with self._lock:
            return self._newest().get(index)

    def items(self) -> list[tuple[int, Array]]:
        """The elements that are there, with their numbers."""
        with self._lock:
            return [(i, x) for i, x in self._newest().items() if x is not None]

    def __len__(self) -> int:
        """How many elements are there, without those that are absent."""
        with self._lock:
            return len(self._newest())

    def changed(self, places: Sequence[int], values: Sequence[Array | None], size: int) -> ListData:
        """The version with other elements in some places, None for absent."""
        with self._lock:
            self._newest()
            made = ListData(_NOTHING, size, self._lock)
            self._step(made, tuple(zip(places, values, strict=True)))
            return made

    def pushed(self, values: Sequence[Array]) -> ListData:
        """The version with further elements at its end."""
        start = self.size
        places = range(start, start + len(values))
        with self._lock:
            self._newest()
            made = ListData(_NOTHING, places.stop, self._lock)
            self._step(made, tuple(zip(places, values, strict=True)))
            return made

    def popped(self, count: int) -> tuple[ListData, list[Array | None]]:
        """The version without its last elements, and these, None for absent."""
        start = self.size - count
        places = range(start, self.size)
        with self._lock:
            items = self._newest()
            made = ListData(_NOTHING, start, self._lock)
            found = [items.get(i) for i in places]
            self._step(made, tuple([(i, None) for i in places]))
            return made, found

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
        if len(path) > max(_FAR, len(items)):
            return self._apart(items, path)
        for older in reversed(path):
            version._step(older, older._undo)
            version = older
        return items

    def _step(self, other: ListData, changes: _Changes) -> None:
        """Have the dict, which is this version's, be that of ``other``, which differs so.

        The lock is held.
        """
        items = self._items
        assert items is not None
        undo = tuple([(i, items.get(i)) for i, _ in changes])
        # Ctrl-C comes before or after the next seven lines
        items |= changes
        self._undo = undo
        self._items = None
        self._next = other
        other._items = items
        other._next = None
        other._undo = ()
        for i, x in changes:  # until it is gone, None says the same
            if x is None:
                items.pop(i, None)

    def _apart(self, items: dict[int, Array], path: Sequence[ListData]) -> dict[int, Array]:
        """A dict of its own, if the way to the newest version is longer than to copy it.

        So two lists that grew from one do not take its dict from each other at each step.
        """
        items = items.copy()
        for older in reversed(path):
            items |= older._undo
        for i in [i for i, x in items.items() if x is None]:
            del items[i]
        self._items, self._next, self._undo = items, None, ()
        return items
