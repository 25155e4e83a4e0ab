"""Kernels that read and write whole files. Arrays hold Python's bytes, so ``xp`` is NumPy."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from eagerflow_kernels.table import portable

Array = Any  # of objects, which are bytes


@portable("read_file")
def read_file(xp: Any, path: Array, *, resource: Any = None) -> Array:
    """The contents of files.

    Args:
        xp: NumPy.
        path: their names.
        resource: if it has a root, files outside of that directory are refused.
    """
    out = xp.empty(path.shape, object)
    flat = out.reshape(-1)
    for i, name in enumerate(path.reshape(-1).tolist()):
        flat[i] = _contents(os.fsdecode(name), resource)
    return out


def _contents(path: str, resource: Any) -> bytes:
    if getattr(resource, "root", None) is None:
        with open(path, "rb") as file:
            return file.read()
    with resource.enter(path) as (directory, name):
        descriptor = resource.open_regular(path, directory, name)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@portable("write_file")
def write_file(xp: Any, path: Array, contents: Array, *, resource: Any = None) -> tuple[Array, ...]:
    """Write files, each of which appears when it is complete (see `read_file`)."""
    if path.shape != contents.shape:  # before anything is written
        raise ValueError("one name for each of the contents")
    for name, data in zip(path.reshape(-1).tolist(), contents.reshape(-1).tolist(), strict=True):
        target = os.fsdecode(name)
        with _place(target, resource) as (directory, leaf):
            _replace(target, directory, leaf, data)
    return ()


@contextmanager
def _place(target: str, resource: Any) -> Iterator[tuple[int | None, str]]:
    """The place of a file to write: the descriptor of its directory, if rooted, and a name."""
    if getattr(resource, "root", None) is None:
        yield None, target
        return
    with resource.enter(target) as place:
        yield place


def _replace(target: str, directory: int | None, leaf: str, data: bytes) -> None:
    if not _is_replaceable(directory, leaf):  # a device would be replaced
        raise OSError(errno.EINVAL, "it is not a regular file", target)
    part = f"{leaf}.{os.getpid()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
    if directory is not None:
        flags |= os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(part, flags, 0o666, dir_fd=directory), "wb") as file:
            file.write(data)
        os.replace(part, leaf, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part, dir_fd=directory)
        if isinstance(error, OSError):  # a full disk is reported without a name
            text = f"{error.strerror}, of a file of {len(data):,} bytes"
            raise OSError(error.errno, text, target) from None
        raise


def _is_replaceable(directory: int | None, leaf: str) -> bool:
    try:
        # where links are not followed, a link of that name is replaced by the file
        status = os.stat(leaf, dir_fd=directory, follow_symlinks=directory is None)
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) or (directory is not None and stat.S_ISLNK(status.st_mode))
