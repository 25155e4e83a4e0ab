"""A file system that fails, or kills the process, at a chosen call, and records all calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, final

#: the calls of `eagerflow.checkpoint.files` that change the disk
CHANGES = ("mkdir", "open", "write", "fsync", "replace", "unlink", "rmdir")


@final
class Disk:
    """A stand-in for the module ``os``.

    Args:
        count: the index of the call, among those of ``names``, at which ``wrong`` is called.
        wrong: raises the failure, or kills the process.
        names: the calls that are counted.
    """

    def __init__(
        self,
        count: int = -1,
        wrong: Callable[[], None] = lambda: None,
        names: tuple[str, ...] = CHANGES,
    ) -> None:
        self.count = count
        self.wrong = wrong
        self.names = names
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in self.names:
            return function

        def call(*args: Any, **options: Any) -> Any:
            what = os.readlink(f"/proc/self/fd/{args[0]}") if type(args[0]) is int else args[-1]
            what = str(args[0]) if name in ("mkdir", "open", "unlink", "rmdir") else str(what)
            self.calls.append((name, what))
            if len(self.calls) == self.count + 1:
                self.wrong()
            return function(*args, **options)

        return call


def full() -> None:
    """Fail as on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted() -> None:
    """Fail as after Ctrl-C."""
    raise KeyboardInterrupt
