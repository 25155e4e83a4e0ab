"""The state of a variable: one array that assignments replace or write into."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from sys import getrefcount
from typing import Any, Final, final
from weakref import WeakSet

from eagerflow.hardware import Lane
from eagerflow.resources.containers import DEFAULT, ResourceName
from eagerflow.source import capture
from eagerflow.types import Shape, TensorType


@final
class VariableState:
    """An array of a fixed dtype and shape on a device, from which it may be moved between steps.

    Readers get a view of the array (``data[...]``), never the array itself. So each read is an
    object of its own, and as long as a reader holds one, the array has a second reference and is
    not written into: a value that was read never changes. Its elements lie by rows, whatever it
    was made from.

    Args:
        data: the first value.
        lane: its dtype and device.
        trainable: whether tapes watch the reads.
        name: for display.
        identity: its name in a container that several processes share; by default it gets a new one
            in that of this process.

    Attributes:
        lock: held while the array is read or assigned; assignments that depend on the value
            before hold it from one to the other.
        identity: its name in its container.
        made: the line that made it, None if that is not known.
        moved: whether it was moved.
        companions: the variables that move with it, itself among them; None for none.
    """

    __slots__ = ("__weakref__", "_data", "companions", "device", "dtype", "identity", "lane",
                 "lock", "made", "moved", "name", "shape", "trainable")  # fmt: skip

    def __init__(
        self, data: Any, lane: Lane, trainable: bool, name: str | None,
        identity: ResourceName | None = None,
    ) -> None:  # fmt: skip
        # a finaliser that the collector runs in the middle of an assignment may read: no deadlock
        self.lock = threading.RLock()
        self.lane = lane
        self.dtype = lane.dtype
        self.device = lane.device
        self.shape: Shape = data.shape
        self.trainable = trainable
        self.name = name
        self.identity = identity or DEFAULT.add(self, name)
        self.made = capture()
        self.moved = False
        self.companions: Companions | None = None
        self._data = self._own(data)

    def __repr__(self) -> str:
        kind = TensorType(self.dtype, self.shape).on(self.device)
        return f"variable {kind}" if self.name is None else f"variable {self.name!r} {kind}"

    @property
    def is_shared(self) -> bool:
        """Whether other processes know it by its name."""
        return self.identity.container != DEFAULT.name

    def _own(self, data: Any) -> Any:
        """The value as it is held: by rows; of another process, by a variable there."""
        hold = getattr(data, "held_by", None)
        if hold is not None:
            return hold(self)
        flags = getattr(data, "flags", None)  # what stands for no values has none
        return data if flags is None or flags.c_contiguous else data.copy()

    def array(self) -> Any:
        """The array itself, for who holds the lock; of a variable of a task, the value."""
        return self._data if self.device.task is None else self.read()

    def read(self) -> Any:
        """A view of the value."""
        with self.lock:
            return self._data[...]

    def store(self, data: Any) -> Any:
        """Replace the value; gives a view of it. The caller holds the lock.

        Args:
            data: an array of the right dtype and shape.
        """
        self._data = data
        return data[...]

    def move(self, data: Any, lane: Lane) -> None:
        """Go to another device. The caller holds the lock, and no step runs that uses it.

        Args:
            data: the value there.
            lane: of the same dtype.
        """
        self.lane, self.device = lane, lane.device
        self._data = self._own(data)
        self.moved = True

    def writable(self) -> Any | None:
        """The array itself if no other handle can see its memory, else None.

        The caller holds the lock. A view of an array that owns its memory has a reference to it;
        of arrays that do not work so, nothing is known.
        """
        if getrefcount(self._data) <= _ALONE and self._data[...].base is self._data:
            return self._data
        return None


@final
class Companions:
    """Variables that move together, such as a parameter and what an optimiser keeps beside it.

    Of copies it makes companions, too: it is copied with the first of them.
    """

    __slots__ = ("__weakref__", "_states")

    def __init__(self) -> None:
        self._states = WeakSet[VariableState]()

    def __iter__(self) -> Iterator[VariableState]:
        return iter(list(self._states))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Companions, ())

    def join(self, state: VariableState) -> None:
        """Take a variable in, with its companions of before."""
        for one in (state, *(state.companions or ())):
            self._states.add(one)
            one.companions = self


@final
class VariableGroup:
    """Several variables, to be read at one instant.

    Args:
        states: the variables.

    Attributes:
        states: the same.
        name: for display.
    """

    __slots__ = ("__weakref__", "_locks", "name", "states")

    def __init__(self, states: Sequence[VariableState]) -> None:
        self.states = tuple(states)
        self.name = "variables"
        self._locks = [s.lock for s in in_order(states)]

    def __repr__(self) -> str:
        return f"{len(self.states)} variables"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the block no other thread reads or assigns one of them."""
        with ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            yield

    def read(self) -> list[Any]:
        """Views of the values. While they are taken none is assigned."""
        with self.held():
            return [state._data[...] for state in self.states]


def in_order(states: Iterable[VariableState]) -> list[VariableState]:
    """Variables, each once, in the order in which all holders of several of their locks take them.

    With one order, no two holders wait for each other, be they of one process or of several.
    """
    return sorted(set(states), key=_identity)


_identity: Final = attrgetter("identity")


def _count(state: VariableState) -> int:
    return getrefcount(state._data)


def _references_when_alone() -> int:
    """What `getrefcount` gives for an array that the slot of a state holds and no other handle."""
    state = VariableState.__new__(VariableState)
    state._data = object()
    return _count(state)


_ALONE: Final = _references_when_alone()
