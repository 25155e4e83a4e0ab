"""The cache of machine code on disk.

Each file is one kernel for one kind of processor, named by a digest of its sources. A file is
created atomically, and begins with a digest of the rest; a file that does not match is not used.
Failures here are no errors: then a kernel is compiled once more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final

#: the most bytes of all files together; beyond it the oldest are deleted
_MOST: Final = 64 << 20
_DIGEST: Final = 32
_SUFFIX: Final = ".kernel"
#: stands for the loops of all callable kernels together, in `key_of`
LIBRARY: Final = "all callable kernels"


@final
class DiskCache:
    """Machine code in a folder.

    Args:
        folder: the folder, made at the first store. With None nothing is kept.
        most: the most bytes that the files may take.
    """

    __slots__ = ("_folder", "_most")

    def __init__(self, folder: Path | None, most: int = _MOST) -> None:
        self._folder, self._most = folder, most

    def load(self, key: str) -> bytes | None:
        """The code stored under a key; None if missing, damaged, or not in a private folder."""
        if self._folder is None:
            return None
        path = self._folder / (key + _SUFFIX)
        try:
            if not _is_private(self._folder):
                return None
            whole = path.read_bytes()
        except OSError:
            return None
        digest, code = whole[:_DIGEST], whole[_DIGEST:]
        if digest != sha256(code).digest():
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # marks the file as used, so that others are deleted first
            os.utime(path)
        return code

    def store(self, key: str, code: bytes) -> None:
        """Store machine code under a key."""
        import tempfile  # noqa: PLC0415 - most processes only read, and it loads archivers

        folder = self._folder
        if folder is None:
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(folder):
                return
            number, name = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(sha256(code).digest() + code)
                os.replace(name, folder / (key + _SUFFIX))
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
            self._tidy(folder)
        except OSError:  # full, or not to be written
            pass

    def _tidy(self, folder: Path) -> None:
        """Delete the oldest files, also leftovers of killed processes, beyond the size limit."""
        files = []
        for entry in os.scandir(folder):
            with suppress(OSError):  # another process deletes as well
                status = entry.stat()
                files.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._most:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size


def _is_private(folder: Path) -> bool:
    """Whether no other user can put machine code into a folder, which would run as this user.

    Raises:
        OSError: there is no such folder.
    """
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


@cache
def shared() -> DiskCache:
    """The cache of this user; one that keeps nothing if their home folder is unknown."""
    base = os.environ.get("EAGERFLOW_CACHE")
    if not base:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(home):  # the working directory may belong to another user
            return DiskCache(None)
        base = os.path.join(home, "eagerflow")
    return DiskCache(Path(base) / "kernels")


def key_of(loops: str, target: str) -> str:
    """The name of the machine code of loops in the cache.

    Args:
        loops: their text.
        target: the processor.
    """
    return sha256("\0".join((loops, target, _compiler())).encode()).hexdigest()


@cache
def _compiler() -> str:
    """A digest of the compiler: the sources of this package, and the version of llvmlite.

    The version is read from its file: `importlib.metadata` takes 15 ms to load.
    """
    paths = sorted(Path(__file__).parent.rglob("*.py"))
    compiler = find_spec("llvmlite")
    if compiler is not None and compiler.origin is not None:
        paths.append(Path(compiler.origin).with_name("_version.py"))
    digest = sha256()
    for path in paths:
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()
