"""The files of this process, as a resource, which keeps reads and writes in order."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

from eagerflow.resources.containers import ResourceName

#: the identity of the files; no container of users has such a name
_PLACE: Final = ResourceName("", 0, "&files", "files")
_ENTER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@final
class FileSystem:
    """The resource for all files in graphs, which keep reads and writes of one resource in order.

    Args:
        root: a directory; files outside of it are refused, and links are not followed. None allows
            any file.

    Attributes:
        name: in graphs.
        identity: its name for other processes; each process has files of its own.
        root: the same.
    """

    __slots__ = ("__weakref__", "identity", "name", "root")

    def __init__(self, root: str | None = None) -> None:
        self.name = "files"
        self.identity = _PLACE
        self.root = None if root is None else os.path.realpath(root)

    @contextmanager
    def enter(self, path: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory that a file lies in, and the name of the file there.

        No part of the path can be exchanged meanwhile: each is opened within the one before.

        Raises:
            PermissionError: the file lies outside of the root, or a part of its path is a link.
            OSError: there is no such directory.
        """
        assert self.root is not None
        inside = os.path.join(self.root, path)
        start = os.path.join(self.root, "")
        if not inside.startswith(start):
            raise PermissionError(errno.EACCES, f"it lies outside of {self.root}", path)
        *parts, name = inside.removeprefix(start).split("/")
        if not name or any(part in ("", ".", "..") for part in (*parts, name)):
            raise PermissionError(errno.EACCES, "its name is not a plain file name", path)
        directory = os.open(self.root, _ENTER)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _ENTER, dir_fd=directory)
                except OSError as error:
                    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                        raise OSError(error.errno, error.strerror, path) from None
                    text = f"{part} is a link, which is not followed, or not a directory"
                    raise PermissionError(errno.EACCES, text, path) from None
                os.close(directory)
                directory = inner
            yield directory, name
        finally:
            os.close(directory)

    def open_regular(self, path: str, directory: int, name: str) -> int:
        """A descriptor for reading a file, which must be a regular file and no link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise OSError(error.errno, error.strerror, path) from None
            raise PermissionError(errno.EACCES, "it is a link", path) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PermissionError(errno.EACCES, "it is not a regular file", path)
        return descriptor

    def __repr__(self) -> str:
        return "the files"


FILES: Final = FileSystem()
