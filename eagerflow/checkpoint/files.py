"""Files and folders of checkpoints: locks, durable writing, and leftovers of killed processes.

Their formats: `eagerflow.checkpoint.shards` and `eagerflow.checkpoint.manifest`.

No file is read before a manifest names it, so a checkpoint appears at the moment in which its
manifest is renamed. Only the holder of the lock of a folder writes in it; locks end with their
process, however it ends. For the holder of the lock, files that no manifest names are leftovers.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from eagerflow.errors import CheckpointError

if sys.platform != "win32":
    import fcntl

MANIFEST: Final = "manifest.json"
START: Final = b'{\n "checksum": "'  #: of a manifest
LOCK: Final = ".lock"
#: the names of files that only a manifest makes part of a checkpoint
_OWN: Final = re.compile(r"shard-\d+-of-\d+-[0-9a-f]{8}\.safetensors|manifest-[0-9a-f]{8}\.tmp")
#: the errors of file systems without locks
_NO_LOCKS: Final = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


@final
class Damaged(Exception):
    """Raised for a missing or damaged file or folder of a checkpoint.

    Args:
        path: of the file or folder.
        wrong: the defect, in words.
    """

    def __init__(self, path: Path, wrong: str) -> None:
        super().__init__(f"{path} {wrong}")
        self.path = path
        self.wrong = wrong


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Report failures of the medium of ``path`` as damage."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Damaged(path, f"cannot be read: {error.strerror}") from error


# --- locks --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of a folder.

    Attributes:
        created: whether the folder was made together with the lock.
        exclusive: False on a file system without locks, where other holders are not known.
    """

    created: bool
    exclusive: bool


@contextmanager
def locked(folder: Path, wait: bool = True) -> Iterator[Lock | None]:
    """Hold the lock of ``folder``, which is made if it does not exist.

    Args:
        folder: the folder; its parents are made as well.
        wait: whether to wait for another holder; else the context gives None.

    Raises:
        CheckpointError: ``folder`` is a file.
        OSError: the folder cannot be made or written in.
    """
    created = False
    while True:
        created = _make(folder) or created
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # removed at this moment by the holder of the lock
            continue
        except BaseException:
            if created:
                with suppress(OSError):
                    os.rmdir(folder)
            raise
        try:
            exclusive = _take(descriptor, wait)
            if exclusive is not None and not _is_of(descriptor, folder / LOCK):
                continue
            yield None if exclusive is None else Lock(created, exclusive)
            return
        finally:
            os.close(descriptor)


def _make(folder: Path) -> bool:
    """Make the folder; returns whether it did not exist."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.mkdir(folder)
    except FileExistsError:
        if folder.is_dir():
            return False
        raise _file_in_the_way(folder) from None
    return True


def _take(descriptor: int, wait: bool) -> bool | None:
    """Lock a file; returns whether the file system has locks, None if another process has it."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def _is_of(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


# --- existing files -----------------------------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Refuse to make a checkpoint of a folder that is used for something else.

    Raises:
        CheckpointError: the folder has other files, or is a file.
    """
    try:
        names = set(os.listdir(folder))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise _file_in_the_way(folder) from None
    others = {n for n in names - {LOCK, MANIFEST} if not _OWN.fullmatch(n)}
    ours = MANIFEST in names and (folder / MANIFEST).read_bytes().startswith(START)
    if (others and not ours) or (names == {MANIFEST} and not ours):
        raise CheckpointError(
            f"{folder} is a folder with other things in it",
            given=", ".join(sorted(others or names)[:5]),
            expected="a checkpoint, an empty folder, or a path where nothing is",
        )


def _file_in_the_way(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} is a file",
        expected="a folder, or a path where nothing is: checkpoints are folders",
    )


def named(folder: Path) -> list[str] | None:
    """The files that may belong to the checkpoint in ``folder``; None if it has no manifest."""
    names = os.listdir(folder)
    return [n for n in names if _OWN.fullmatch(n)] if MANIFEST in names else None


# --- writing ------------------------------------------------------------------------------------


def token() -> str:
    """A random token that distinguishes the files of one save from all others."""
    return os.urandom(4).hex()


def shard_name(index: int, count: int, unique: str) -> str:
    """The name of a shard, counted from 0."""
    return f"shard-{index + 1:05}-of-{count:05}-{unique}.safetensors"


def publish(temporary: Path, folder: Path) -> None:
    """Rename the file ``temporary`` to the manifest of ``folder``, atomically."""
    os.replace(temporary, folder / MANIFEST)


def is_published(folder: Path, text: bytes) -> bool:
    """Whether ``text`` is the manifest of ``folder``."""
    try:
        return (folder / MANIFEST).read_bytes() == text
    except FileNotFoundError:
        return False


# --- removing -----------------------------------------------------------------------------------


def remove_left_over(
    folder: Path, keep: Collection[str], among: Collection[str] | None = None
) -> None:
    """Remove files of earlier saves. The caller holds the lock.

    Args:
        folder: of the checkpoint.
        keep: the files that the manifest names.
        among: the candidates, if the lock excludes no other process.
    """
    for name in os.listdir(folder) if among is None else among:
        if _OWN.fullmatch(name) and name not in keep:
            with suppress(FileNotFoundError):
                os.unlink(folder / name)


def remove(folder: Path, unfinished: bool = False) -> None:
    """Remove a checkpoint, the manifest first, unless it is in use.

    Other files in the folder stay, and then so does the folder.

    Args:
        folder: of the checkpoint.
        unfinished: remove it only if it was never finished.
    """
    with locked(folder, wait=False) as lock:
        if lock is None or (unfinished and (folder / MANIFEST).exists()):
            return
        with suppress(FileNotFoundError):
            os.unlink(folder / MANIFEST)
        remove_left_over(folder, ())
        os.unlink(folder / LOCK)
        with suppress(OSError):
            os.rmdir(folder)
