"""Atomic, durable writing of files, and the errors of files that cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from eagerflow.errors import FileError

_ADVICE: Final = {
    errno.ENOSPC: "free some space on this disk, or choose another place",
    errno.EDQUOT: "the quota of this user is used up: free some space, or choose another place",
    errno.EFBIG: "files may not be that large here: see `ulimit -f`, or choose another place",
    errno.EROFS: "this file system is read-only: choose another place",
    errno.EIO: "the disk may be failing: choose another place",
}


def advice(error: OSError) -> str | None:
    """The advice for an error of the disk; None for other errors."""
    return _ADVICE.get(error.errno) if error.errno is not None else None


def unwritable(
    error: OSError, what: str, path: str | os.PathLike[str], kept: str, size: int | None = None
) -> OSError:
    """The error to raise for a system error, which may not even name the file.

    Args:
        error: of the system. An error with a class of its own, such as PermissionError, is
            returned, with a note.
        what: the function that writes.
        path: the user's name of the file or folder.
        kept: the state of the files now, in words.
        size: the number of bytes to be written, if known.

    >>> from eagerflow.extending import unwritable
    >>> error = unwritable(OSError(27, "File too large"), "save", "a.bin", "nothing was written")
    >>> error.wrong
    'save: a.bin cannot be written: File too large'
    """
    if type(error) is not OSError:
        error.add_note(f"{what}: while {os.fspath(path)} was written; {kept}")
        return error
    given = [] if size is None else [f"{size:,} bytes to write"]
    if error.errno == errno.ENOSPC:
        with suppress(OSError, AttributeError):  # Windows has no `statvfs`
            disk = os.statvfs(os.path.dirname(path) or ".")
            given.append(f"{disk.f_bavail * disk.f_frsize:,} bytes free")
    hint = advice(error)
    failure = FileError(
        f"{what}: {os.fspath(path)} cannot be written: {error.strerror or error}",
        given=", ".join(given) or None,
        hint=kept if hint is None else f"{hint}; {kept}",
    )
    failure.errno, failure.strerror, failure.filename = error.errno, error.strerror, os.fspath(path)
    return failure


@contextmanager
def replaced(
    what: str, path: str | os.PathLike[str], size: int | None = None, *, mode: int = 0o666,
    follows: bool = True,
) -> Iterator[Callable[[Any], Any]]:  # fmt: skip
    """Give a function that appends bytes to a new file, which replaces ``path`` at the block's end.

    If the block raises, an existing file stays as it was. A device is written to directly.

    Args:
        what: the function that writes, for the error.
        path: of the file.
        size: the number of bytes of the file, if known.
        mode: its permissions from the first moment on, without those masked by the umask.
        follows: whether to replace the target of a link, and not the link.

    Raises:
        FileError: the file cannot be written, as on a full disk.

    >>> import pathlib, tempfile
    >>> from eagerflow.extending import replaced
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.bin")
    ...     with replaced("save", path) as write:
    ...         _ = write(b"whole")
    ...     path.read_bytes()
    b'whole'
    """
    target = os.path.realpath(path) if follows else os.path.abspath(path)
    folder, name = os.path.split(target)
    there = os.path.exists(target)
    direct = there and not (os.path.isfile(target) or os.path.isdir(target))
    part = target if direct else os.path.join(folder, f".{name}.{os.urandom(4).hex()}.part")
    kept = "the earlier file is intact" if there and not direct else "nothing was written"

    def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except OSError as error:
            if error.filename is not None:
                error.filename = os.fspath(path)  # not the name of the temporary file
            raise unwritable(error, what, path, kept, size) from None

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    file = attempt(partial(open, part, "wb" if direct else "xb", opener=create))
    try:
        yield lambda data: attempt(file.write, data)
        attempt(file.flush)
        if not direct:
            attempt(os.fsync, file.fileno())
        attempt(file.close)
        if not direct:
            attempt(os.replace, part, target)
    except BaseException:
        with suppress(OSError):
            file.close()
        if not direct:
            with suppress(OSError):
                os.unlink(part)
        raise


@contextmanager
def new_file(
    path: str | os.PathLike[str], mode: int = 0o666
) -> Iterator[Callable[[memoryview | bytes], None]]:
    """Give a function that appends to a new file, which is on the disk when the block ends.

    Args:
        path: of the file, which must not exist, not even as a link.
        mode: its permissions from the first moment on, without those masked by the umask.

    Raises:
        FileExistsError: the file exists.

    >>> import pathlib, tempfile
    >>> from eagerflow.extending import new_file, sync_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.bin")
    ...     with new_file(path) as write:
    ...         write(b"whole")
    ...     sync_folder(folder)
    ...     path.read_bytes()
    b'whole'
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def write(data: memoryview | bytes) -> None:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(descriptor, rest) :]

    try:
        yield write
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync the names of the files of ``folder`` to the disk, so that they survive a crash.

    >>> from eagerflow.extending import sync_folder
    >>> sync_folder(".")
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
