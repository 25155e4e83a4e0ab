"""A file system that fails, or kills the process, at a chosen call, and remembers all calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, final

#: the calls of `eagerflow.checkpoint.files` that change something
CHANGES = ("mkdir", "open", "write", "fsync", "replace", "unlink", "rmdir")


@final
class Disk:
    """Stands for the module ``os``.

    Args:
        count: which call of `CHANGES` goes wrong, counted from 0.
        wrong: what happens then.
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
    """The disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted() -> None:
    """The user pressed a key."""
    raise KeyboardInterrupt
