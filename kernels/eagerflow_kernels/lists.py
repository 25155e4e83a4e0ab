"""`ListData`: what a value of dtype list holds, arrays by number; old versions stay as they were.

All versions of a list share one dict, in which the newest is written down. An older one knows what
is different from the next newer one, and takes the dict over when it is used (Baker, "Shallow
binding makes functional arrays fast", 1991). So a loop that pushes or writes pays the same for
each iteration however long the list is, and so does the gradient that goes back over it.

Ctrl-C may come between any two instructions. Python looks for it after calls and where loops go
back, never between plain statements without a call, and in no function of C. So what must happen
together, that the dict becomes another version's, is written as such statements, in `_step`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final, final

import numpy as np

Array = Any
#: what is to be at some positions, None for absent; None in place of all of them likewise
_Values = Sequence[Array | None] | None

#: so many versions are gone back over in any case
_FAR: Final = 8
#: of a version that is about to get the dict of another; it is never changed
_NOTHING: Final[dict[int, Array]] = {}
_ABSENT: Final = repeat(None)
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

    __slots__ = ("__weakref__", "_before", "_items", "_lock", "_next", "_positions", "size")

    shape = ()
    ndim = 0
    dtype = LIST_DTYPE

    def __init__(
        self, items: dict[int, Array] | None = None, size: int = 0, lock: Any = None
    ) -> None:
        self.size = size
        self._items: dict[int, Array] | None = {} if items is None else items
        self._next: ListData | None = None  # the newer version
        self._positions: Sequence[int] = ()  # where that one differs
        self._before: _Values = None  # what is there in this one
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

    def changed(
        self, positions: Sequence[int], values: Sequence[Array | None], size: int
    ) -> ListData:
        """The version with other elements at some positions, None for absent."""
        with self._lock:
            items = self._newest()
            made = ListData(_NOTHING, size, self._lock)
            self._step(made, positions, values, list(map(items.get, positions)))
            return made

    def pushed(self, values: Sequence[Array]) -> ListData:
        """The version with further elements at its end."""
        positions = range(self.size, self.size + len(values))
        with self._lock:
            self._newest()
            made = ListData(_NOTHING, positions.stop, self._lock)
            self._step(made, positions, values, None)
            return made

    def popped(self, count: int) -> tuple[ListData, list[Array | None]]:
        """The version without its last elements, and these, None for absent."""
        positions = range(self.size - count, self.size)
        with self._lock:
            items = self._newest()
            made = ListData(_NOTHING, positions.start, self._lock)
            elements = list(map(items.get, positions))
            self._step(made, positions, None, elements)
            return made, elements

    def _newest(self) -> dict[int, Array]:
        """The dict, in which this version is written down now; to be called with the lock held."""
        written = self._items
        if written is not None:
            return written
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
            positions = older._positions
            version._step(older, positions, older._before, list(map(items.get, positions)))
            version = older
        return items

    def _step(
        self, other: ListData, positions: Sequence[int], values: _Values, before: _Values
    ) -> None:
        """Have the dict, which is this version's, be that of ``other``, which differs so.

        The lock is held.

        Args:
            other: the version.
            positions: where it differs.
            values: what is there in it.
            before: what is there in this one; None behind its end only.
        """
        items = self._items
        assert items is not None
        new = zip(positions, _ABSENT if values is None else values, strict=False)
        # Ctrl-C comes before or after the next eight lines
        items |= new
        self._positions = positions
        self._before = before
        self._items = None
        self._next = other
        other._items = items
        other._next = None
        other._before = None
        if values is not None:
            if before is None:
                return
            positions = [i for i, x in zip(positions, values, strict=True) if x is None]
        for i in positions:  # until it is gone, None says the same
            items.pop(i, None)

    def _apart(self, items: dict[int, Array], path: Sequence[ListData]) -> dict[int, Array]:
        """A dict of its own, if the way to the newest version is longer than to copy it.

        So two lists that grew from one do not take its dict from each other at each step.
        """
        items = items.copy()
        for older in reversed(path):
            items |= zip(older._positions, older._before or _ABSENT, strict=False)
        for i in [i for i, x in items.items() if x is None]:
            del items[i]
        self._items, self._next, self._before = items, None, None
        return items
