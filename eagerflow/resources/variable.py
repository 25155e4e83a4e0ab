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
from eagerflow.hardware.homes import Home, moved
from eagerflow.resources.containers import DEFAULT, ResourceName
from eagerflow.source import capture
from eagerflow.types import Shape, TensorType


@final
class VariableState:
    """An array of a fixed dtype and shape on a device, from which it may be moved between steps.

    Readers get a view of the array (``data[...]``), never the array itself. So each read is an
    object of its own, and as long as a reader holds one, the array has a second reference and is
    not written into: a value that was read never changes. The elements are in row-major order,
    whatever the value was made from.

    Args:
        data: the initial value.
        lane: its dtype and device.
        trainable: whether tapes watch the reads.
        name: for display.
        identity: its name in a container that several processes share; by default it gets a new
            name in the container of this process.

    Attributes:
        lock: held while the array is read or assigned; assignments that depend on the old value
            hold it from the read to the assignment.
        identity: its name in its container.
        made: the line that made it, None if not known.
        moved: whether it was moved.
        companions: the variables that move with it, including itself; None for none.
    """

    __slots__ = ("__weakref__", "_data", "companions", "device", "dtype", "identity", "lane",
                 "lock", "made", "moved", "name", "shape", "trainable")  # fmt: skip

    def __init__(
        self, data: Any, lane: Lane, trainable: bool, name: str | None,
        identity: ResourceName | None = None,
    ) -> None:  # fmt: skip
        # reentrant: a finaliser that the garbage collector runs in an assignment may read
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
        """Whether other processes may join the variable by its name."""
        return self.identity.container != DEFAULT.name

    def _own(self, data: Any) -> Any:
        """The value to hold: an array in row-major order, or a variable of another process."""
        hold = getattr(data, "held_by", None)
        if hold is not None:
            return hold(self)
        flags = getattr(data, "flags", None)  # arrays of null devices have none
        return data if flags is None or flags.c_contiguous else data.copy()

    def array(self) -> Any:
        """The array itself, for holders of the lock; for a variable of a task, the value."""
        return self._data if self.device.task is None else self.read()

    def read(self) -> Any:
        """A view of the value."""
        with self.lock:
            return self._data[...]

    def store(self, data: Any) -> Any:
        """Replace the value; returns a view of it. The caller holds the lock.

        Args:
            data: an array of the right dtype and shape.
        """
        self._data = data
        return data[...]

    def move(self, data: Any, lane: Lane) -> None:
        """Move to another device. The caller holds the lock, and no running step uses the variable.

        Args:
            data: the value on that device.
            lane: its lane, of the same dtype.
        """
        self.lane, self.device = lane, lane.device
        self._data = self._own(data)
        self.moved = True

    def writable(self) -> Any | None:
        """The array itself if no other handle can see its memory, else None.

        The caller holds the lock, and writes into the array before it releases it. A view of an
        array that owns its memory, or is alone in its home, has a reference to it; for other kinds
        of arrays the result is None, and also while another process reads the home.
        """
        if getrefcount(self._data) > _ALONE or self._data[...].base is not self._data:
            return None
        home = self._data.base
        if home is None:
            self._data = moved(self._data)
        elif type(home) is Home and not home.may_write():
            return None
        return self._data


@final
class Companions:
    """Variables that move together, such as a parameter and its optimiser state.

    Copies of companions are companions, too: the set is copied with the first of them.
    """

    __slots__ = ("__weakref__", "_states")

    def __init__(self) -> None:
        self._states = WeakSet[VariableState]()

    def __iter__(self) -> Iterator[VariableState]:
        return iter(list(self._states))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Companions, ())

    def join(self, state: VariableState) -> None:
        """Add a variable, with its previous companions."""
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
        copies_here: whether `read` copies the values of tasks into this process.
    """

    __slots__ = ("__weakref__", "_locks", "copies_here", "name", "states")

    def __init__(self, states: Sequence[VariableState]) -> None:
        self.states = tuple(states)
        self.copies_here = False
        self.name = "variables"
        self._locks = [s.lock for s in in_order(states)]

    def __repr__(self) -> str:
        return f"{len(self.states)} variables"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold all locks: no other thread reads or assigns the variables within the block."""
        with ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            yield

    def read(self) -> list[Any]:
        """Views of the values at one instant."""
        with self.held():
            values = [state._data[...] for state in self.states]
        if not self.copies_here:
            return values
        devices = [state.device for state in self.states]
        return [
            x if d.task is None else d.backend.copy_out(x, d.index)
            for x, d in zip(values, devices, strict=True)
        ]


def in_order(states: Iterable[VariableState]) -> list[VariableState]:
    """Variables without duplicates, in the global order in which locks are taken.

    With one order no two holders wait for each other, in one process or several.
    """
    return sorted(set(states), key=_identity)


_identity: Final = attrgetter("identity")


def _count(state: VariableState) -> int:
    return getrefcount(state._data)


def _references_when_alone() -> int:
    """The result of `getrefcount` for an array that is held by the slot of a state only."""
    state = VariableState.__new__(VariableState)
    state._data = object()
    return _count(state)


_ALONE: Final = _references_when_alone()
