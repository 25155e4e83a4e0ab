"""The interpreters installed in all threads, as flags that the fast path of ops reads first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.hardware.device_scopes import all_open

if TYPE_CHECKING:
    from eagerflow.core.interpreter import AbstractInterpreter


@final
class _Stack:
    """The flags and hooks of the fast path.

    Attributes:
        installed: whether any thread has an interpreter installed.
        scoped: whether any thread has a device scope open.
        engaged: whether ``installed`` or ``scoped``: the flag that the fast path reads.
        refusing: whether any thread refuses to move operands.
        execute: runs an op on the device of its inputs (filled by `eagerflow.core.execute`).
        resolve: finds the kernel for inputs on one lane, and remembers it (likewise).
        monitored: whether there is a monitor in any thread.
        monitor: the top of the process-wide monitors, if any.
        transforms: the transforms that are installed, each with its thread.
        monitors: the monitors that see ops; the monitors of the process are one entry.
        move: moves the inputs of an op to the device where it runs in the open device scope
            (filled by `eagerflow.core.moves_to_scopes`).
    """

    __slots__ = ("engaged", "execute", "installed", "lock", "monitor", "monitored",
                 "monitors", "move", "refusing", "resolve", "scoped", "transforms")  # fmt: skip

    def __init__(self) -> None:
        self.installed = self.scoped = self.engaged = self.refusing = False
        self.transforms: dict[AbstractInterpreter, int] = {}  # with the threads
        self.monitors: set[object] = set()
        self.monitored = False
        self.lock = threading.Lock()
        self.monitor: AbstractInterpreter | None = None
        self.execute: Callable[[Any, Sequence[Any], dict[str, Any]], Any]
        self.resolve: Callable[[Any, Sequence[Any], dict[str, Any], Any], Any]
        self.move: Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]

    @property
    def total(self) -> int:
        """The number of interpreters installed, in all threads together."""
        return len(self.monitors) + len(self.transforms)

    def hold(self, transform: AbstractInterpreter) -> None:
        """Register a transform as installed."""
        with self.lock:
            self.transforms[transform] = get_ident()
            self.installed = self.engaged = True

    def release(self, *transforms: AbstractInterpreter) -> None:
        """Unregister transforms; called again if Ctrl-C may have ended the first call."""
        with self.lock:
            for one in transforms:
                self.transforms.pop(one, None)
            self._look()

    def hold_monitor(self, monitor: object) -> None:
        """Register a monitor, or the entry for the monitors of the process."""
        with self.lock:
            self.monitors.add(monitor)
            self._look()

    def release_monitor(self, monitor: object) -> None:
        """Unregister a monitor; called again if Ctrl-C may have ended the first call."""
        with self.lock:
            self.monitors.discard(monitor)
            self._look()

    def _look(self) -> None:
        self.monitored = bool(self.monitors)
        self.installed = self.total > 0
        self.engaged = self.installed or self.scoped

    def note_scopes(self, some_open: bool) -> None:
        """Note whether any thread has a device scope open."""
        with self.lock:
            self.scoped = some_open
            self.engaged = self.installed or self.scoped


stack: Final = _Stack()
all_open.tell = stack.note_scopes
