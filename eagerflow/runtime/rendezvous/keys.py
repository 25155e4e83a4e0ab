"""Keys that identify the values sent in a step, and compact sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

#: enclosing loops, the outermost first, each by its name and the iteration, from 0
LoopPath = tuple[tuple[str, int], ...]


class Key(NamedTuple):
    """The name of one value that is sent in one step.

    Attributes:
        step: the number of the step.
        edge: the name of the edge between two partitions, such as ``"y -> cpu:1"``.
        path: the loops that the edge lies in, the outermost first, each by the name of its frame
            and the number of the iteration, counted from 0 upwards.

    >>> from eagerflow.runtime.rendezvous.keys import Key
    >>> print(Key(12, "y -> cpu:1", (("while_loop", 3),)))
    step 12, edge "y -> cpu:1", while_loop[3]
    """

    step: int
    edge: str
    path: LoopPath = ()

    def __str__(self) -> str:
        frames = [f"{frame}[{iteration}]" for frame, iteration in self.path]
        return ", ".join([f"step {self.step}", f'edge "{self.edge}"', *frames])


def key_of(attrs: Mapping[str, Any], step: int, path: LoopPath) -> Key:
    """The key under which a ``Send`` and its ``Recv`` meet, in one step and one iteration.

    Args:
        attrs: the attributes of either node, which have the name of the edge.
        step: the number of the step.
        path: the loops around both nodes, with their present iterations.

    >>> from eagerflow.runtime.rendezvous.keys import key_of
    >>> print(key_of({"edge": "y -> null:1"}, 12, (("while_loop", 3),)))
    step 12, edge "y -> null:1", while_loop[3]
    """
    return Key(step, attrs["edge"], path)


class Route(NamedTuple):
    """The two devices that an edge connects.

    Attributes:
        source: the device of the sender, such as ``"cpu:0"``.
        destination: the device of the receiver, such as ``"cpu:1"``.
    """

    source: str
    destination: str


@final
class KeySet:
    """A set of keys of one step; keys of consecutive iterations take the room of one.

    So values that are sent twice are detected even in a loop of a million iterations.

    >>> from eagerflow.runtime.rendezvous.keys import Key, KeySet
    >>> keys = KeySet()
    >>> for i in range(1000):
    ...     keys.add(Key(1, "y -> cpu:1", (("while_loop", i),)))
    >>> Key(1, "y -> cpu:1", (("while_loop", 7),)) in keys, keys.room
    (True, 1)
    """

    __slots__ = ("_far", "_upto")

    def __init__(self) -> None:
        #: by edge, outer loops and innermost loop: the first iteration not in the set
        self._upto: dict[tuple[str, LoopPath, str], int] = {}
        self._far: set[Key] = set()  # keys behind a gap, and keys outside of loops

    @property
    def room(self) -> int:
        """Number of entries stored."""
        return len(self._upto) + len(self._far)

    def __contains__(self, key: Key) -> bool:
        _, edge, path = key
        if not path:
            return key in self._far
        frame, iteration = path[-1]
        return iteration < self._upto.get((edge, path[:-1], frame), 0) or key in self._far

    def add(self, key: Key) -> None:
        """Add a key."""
        _, edge, path = key
        if not path:
            self._far.add(key)
            return
        frame, iteration = path[-1]
        loop = edge, path[:-1], frame
        upto = self._upto.get(loop, 0)
        if iteration > upto:
            self._far.add(key)
        elif iteration == upto:
            upto += 1
            if self._far:
                while (behind := key._replace(path=(*path[:-1], (frame, upto)))) in self._far:
                    self._far.discard(behind)
                    upto += 1
            self._upto[loop] = upto
