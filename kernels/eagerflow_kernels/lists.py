"""`ListData`: a persistent list of arrays, the value of dtype list; old versions are unchanged.

All versions of a list share one dict, which holds the newest version. An older version has its
differences from the next newer one, and takes the dict over when it is used (Baker, "Shallow
binding makes functional arrays fast", 1991). So the cost of an iteration of a loop that pushes or
writes does not depend on the length of the list, nor does that of the gradient that goes back.

Ctrl-C may come between any two instructions. Python checks for it after calls and at back edges of
loops, never between plain statements without a call, and in no function of C. So the steps that
must be atomic, the handover of the dict to another version, are such statements, in `_step`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final, final

import numpy as np

Array = Any
#: the elements at some positions, None for absent; None in place of the sequence if all are absent
_Values = Sequence[Array | None] | None

#: number of versions to step back in any case
_FAR: Final = 8
#: the dict of a version that is about to take over that of another; it is never changed
_NOTHING: Final[dict[int, Array]] = {}
_ABSENT: Final = repeat(None)
#: stands for dtype list among NumPy's dtypes; no array has it
LIST_DTYPE: Final = np.dtype([("eagerflow_list", "V1")])


@final
class ListData:
    """One version of a list. An element that is absent counts as zero.

    Attributes:
        size: number of elements, absent ones included.
        shape: empty, as the value has no axes.
        dtype: `LIST_DTYPE`.
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
        self._positions: Sequence[int] = ()  # where the newer version differs
        self._before: _Values = None  # the elements of this version there
        self._lock = lock or threading.Lock()  # of all versions

    def get(self, index: int) -> Array | None:
        """Element ``index``, None if it is absent."""
        with self._lock:
            return self._newest().get(index)

    def items(self) -> list[tuple[int, Array]]:
        """The elements that are not absent, with their indices."""
        with self._lock:
            return [(i, x) for i, x in self._newest().items() if x is not None]

    def __len__(self) -> int:
        """Number of elements that are not absent."""
        with self._lock:
            return len(self._newest())

    def changed(
        self, positions: Sequence[int], values: Sequence[Array | None], size: int
    ) -> ListData:
        """A version with other elements at some positions, None for absent."""
        with self._lock:
            items = self._newest()
            made = ListData(_NOTHING, size, self._lock)
            self._step(made, positions, values, list(map(items.get, positions)))
            return made

    def pushed(self, values: Sequence[Array]) -> ListData:
        """A version with further elements at its end."""
        positions = range(self.size, self.size + len(values))
        with self._lock:
            self._newest()
            made = ListData(_NOTHING, positions.stop, self._lock)
            self._step(made, positions, values, None)
            return made

    def popped(self, count: int) -> tuple[ListData, list[Array | None]]:
        """A version without the last elements, and these elements, None for absent."""
        positions = range(self.size - count, self.size)
        with self._lock:
            items = self._newest()
            made = ListData(_NOTHING, positions.start, self._lock)
            elements = list(map(items.get, positions))
            self._step(made, positions, None, elements)
            return made, elements

    def _newest(self) -> dict[int, Array]:
        """Bring the dict to this version, and return it; to be called with the lock held."""
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
        """Hand the dict of this version over to ``other``, with its differences applied.

        The lock is held.

        Args:
            other: the version that gets the dict.
            positions: where it differs.
            values: the elements of ``other`` there.
            before: the elements of this version there; None only if all are behind its end.
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
        for i in positions:  # until an item is removed, None means absent as well
            items.pop(i, None)

    def _apart(self, items: dict[int, Array], path: Sequence[ListData]) -> dict[int, Array]:
        """Give this version a dict of its own: a copy costs less than the steps to this version.

        So two lists that grew from one do not take its dict from each other at each step.
        """
        items = items.copy()
        for older in reversed(path):
            items |= zip(older._positions, older._before or _ABSENT, strict=False)
        for i in [i for i, x in items.items() if x is None]:
            del items[i]
        self._items, self._next, self._before = items, None, None
        return items
