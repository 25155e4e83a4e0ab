"""Client-side proxies of the values and variables that tasks hold."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

if TYPE_CHECKING:
    from eagerflow.cluster.remote.tasks import RemoteTask
    from eagerflow.hardware import Device

_PLAIN: Final = type(...)


@final
class RemoteArray:
    """A value that a task holds for the lifetime of this object.

    Its dtype and shape are known here. Python code that asks for elements waits for them.

    Attributes:
        task: the task that holds the value.
        handle: the number of the value there.
        device: the value's device, one of the task's.
        dtype: dtype of the elements.
        shape: the size of each axis.
        origin: the elements, of a small value sent from here; None for all other values.
    """

    __slots__ = ("__weakref__", "device", "dtype", "handle", "origin", "shape", "task")

    __array_ufunc__ = None
    base = None

    def __init__(
        self, task: RemoteTask, handle: int, device: Device, dtype: np.dtype[Any],
        shape: tuple[int, ...], origin: np.ndarray[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.task, self.handle, self.device = task, handle, device
        self.dtype, self.shape = dtype, shape
        self.origin = origin

    def __del__(self) -> None:
        self.task.free(self.handle)

    def is_at(self, task: RemoteTask) -> bool:
        """Whether a task holds the value; a small value sent from here is sent again if need be."""
        if self.task is not task and self.origin is not None and self.task.task == task.task:
            self.handle, self.task = task.put_again(self.origin, self.device), task
        return self.task is task

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"RemoteArray({self.dtype}{list(self.shape)} at {self.device})"

    def held_by(self, variable: Any) -> RemoteVariable:
        """Make a variable at the task with this value.

        Args:
            variable: the variable's state in this process.
        """
        return self.task.make_variable(variable, self)

    def __getitem__(self, key: Any) -> NoReturn:
        raise TypeError("elements of an array in another process are read by ops")

    # --- reading, which waits ---

    def read(self) -> np.ndarray[Any, Any]:
        """The elements."""
        return self.task.fetch(self) if self.origin is None else self.origin.copy()

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self.read().item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.read().tolist()

    def __bool__(self) -> bool:
        return bool(self.read())

    def __int__(self) -> int:
        return int(self.read())

    def __float__(self) -> float:
        return float(self.read())

    def __index__(self) -> int:
        return self.read().__index__()

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"the elements are in the process of {self.task.task}")


@final
class RemoteVariable:
    """The stand-in for a variable's array in this process: its value is at a task.

    Attributes:
        task: the task that holds the variable.
        identity: the variable's name in this process.
        place: its container and its name there.
        device: its device, one of the task's.
        dtype: dtype of the elements.
        shape: the size of each axis.
    """

    __slots__ = ("device", "dtype", "identity", "place", "shape", "task")

    def __init__(self, task: RemoteTask, device: Device, state: Any) -> None:
        self.task, self.device, self.identity = task, device, state.identity
        self.place: tuple[str, str] = state.identity.container, state.identity.name
        self.dtype, self.shape = state.dtype.dtype, state.shape

    def __del__(self) -> None:
        self.task.drop_resource(self.place)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return int(prod(self.shape) * self.dtype.itemsize)

    def __getitem__(self, key: Any) -> RemoteArray:
        assert type(key) is _PLAIN
        return self.task.read_variable(self)
