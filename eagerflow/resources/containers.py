"""Names of resources, by which processes refer to each other's resources.

A resource has a name in a *container* of the *task* that owns it: ``ps:0/shared/w``. The name never
changes, no other resource of the container ever has it, and names have an order, in which locks are
taken. Resources end with their process; the process that is started in its place has another
*incarnation*, so an old name is not mistaken for that of a new resource.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar, final
from weakref import ref

from eagerflow.errors import ResourceError
from eagerflow.resources.kind_words import kind_name

_R = TypeVar("_R")
#: 2020, in milliseconds: incarnations fit 63 bits until 2089
_BEGINNING: Final = 1_577_836_800_000


@final
class ResourceName(NamedTuple):
    """The name of a resource across processes.

    Attributes:
        task: such as ``"ps:0"``; empty for a process that is no task.
        incarnation: of the process that owns the resource.
        container: the name of the container.
        name: of the resource in the container.

    >>> from eagerflow.resources.containers import ResourceName
    >>> print(ResourceName("ps:0", 17, "shared", "encoder/w"))
    ps:0/shared/encoder/w
    """

    task: str
    incarnation: int
    container: str
    name: str

    def __str__(self) -> str:
        return "/".join((self.task, self.container, self.name))


@final
class Process:
    """The identity of this process: its task and incarnation.

    A forked process has another identity; inherited resources keep the names of the parent.
    """

    __slots__ = ("incarnation", "task")

    def __init__(self) -> None:
        self.task = ""
        self.begin()

    def begin(self, task: str | None = None) -> None:
        """Begin another incarnation, and become another task if one is given."""
        self.task = self.task if task is None else task
        # two incarnations of the same millisecond have different process numbers
        moment = time.time_ns() // 1_000_000 - _BEGINNING
        self.incarnation = (moment << 22) | os.getpid() & (1 << 22) - 1


PROCESS: Final = Process()


class _Entry(NamedTuple):
    """A resource of a container.

    Attributes:
        get: gives the resource; None if it is gone.
        what: its kind and type, which joiners must match.
        creator: the client that made it.
    """

    get: Callable[[], Any]
    what: str
    creator: str


@final
class ResourceContainer:
    """Resources by name.

    Args:
        name: of the container.
        owns: whether it keeps its resources alive; else they live as long as others hold them.

    Attributes:
        name: the same.
        owns: the same.

    >>> from eagerflow.resources.containers import ResourceContainer
    >>> from eagerflow.resources.mutex import MutexState
    >>> container = ResourceContainer("shared", owns=True)
    >>> first = container.join("turnstile", "mutex", MutexState, creator="a notebook")
    >>> container.join("turnstile", "mutex", MutexState, creator="another") is first
    True
    """

    __slots__ = ("_entries", "_lock", "_next", "name", "owns")

    def __init__(self, name: str, *, owns: bool = False) -> None:
        self.name = name
        self.owns = owns
        # reentrant: a finaliser that the garbage collector runs here may make a resource
        self._lock = threading.RLock()
        self._next: dict[str, int] = {}  # for each base the number of its next name
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, resource: Any, base: str | None = None) -> ResourceName:
        """Give a resource a name that no other resource of the container has or had.

        Args:
            resource: the resource.
            base: the user's name; by default its kind.

        Returns:
            The name: ``base``, perhaps with a number behind it: ``w#1``.
        """
        base = base or kind_name(type(resource))
        with self._lock:
            count = self._next.get(base, 0)
            self._next[base] = count + 1
            # a base with "#" always gets a number, so that it cannot equal a name of another base
            name = f"{base}#{count}" if count or "#" in base else base
            self._keep(name, resource, "", "")
        return self._named(name)

    def join(self, name: str, what: str, make: Callable[[], _R], *, creator: str) -> _R:
        """The resource of that name, which is made if it does not exist.

        Args:
            name: of the resource.
            what: its kind and type, in words; equal for all joiners.
            make: makes the resource.
            creator: the caller, for messages.

        Raises:
            ResourceError: the resource of that name is of another kind or type.
        """
        with self._lock:
            entry = self._entries.get(name)
            resource = None if entry is None else entry.get()
            if entry is None or resource is None:  # no holder is left
                made = make()
                self._next.setdefault(name, 1)
                self._keep(name, made, what, creator)
                return made
        if entry.what != what:
            raise ResourceError(
                f"{name!r} in the container {self.name!r} is of another kind",
                given=what,
                expected=f"{entry.what}, as made by {entry.creator}",
                hint="use another name, or another container",
            )
        known: _R = resource  # made for the same `what`
        return known

    def _keep(self, name: str, resource: Any, what: str, creator: str) -> None:
        if self.owns:
            get: Callable[[], Any] = partial(_same, resource)
        else:
            get = ref(resource, partial(self._forget, name))
        self._entries[name] = _Entry(get, what, creator)

    def _forget(self, name: str, gone: Any) -> None:
        entry = self._entries.get(name)
        if entry is not None and entry.get is gone:
            del self._entries[name]

    def _named(self, name: str) -> ResourceName:
        return ResourceName(PROCESS.task, PROCESS.incarnation, self.name, name)

    def find(self, name: str) -> Any | None:
        """The resource of that name; None if it is gone or never was."""
        entry = self._entries.get(name)
        return None if entry is None else entry.get()

    def remove(self, name: str) -> None:
        """Release a resource, if it exists. Its name is not given again."""
        with self._lock:
            self._entries.pop(name, None)

    def latest(self, count: int) -> list[tuple[str, Any]]:
        """The resources that were added last, at most ``count``, with their names."""
        with self._lock:
            last = list(islice(reversed(self._entries.items()), max(count, 0)))
        return [(name, entry.get()) for name, entry in last]

    def names(self) -> list[str]:
        """All names, in their order."""
        return sorted(self._entries)

    def clear(self) -> None:
        """Release all resources. Their names are not given again."""
        with self._lock:
            self._entries.clear()

    def restart_lock(self) -> None:
        """Replace the lock in a forked process, which lacks the thread that may have held it."""
        self._lock = threading.RLock()


def _same(value: _R) -> _R:
    return value


#: the container of resources that were not put into another one
DEFAULT: Final = ResourceContainer("default")


def _forked() -> None:
    PROCESS.begin()
    DEFAULT.restart_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
