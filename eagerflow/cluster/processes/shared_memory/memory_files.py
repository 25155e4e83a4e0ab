"""Files without names (``memfd``), their seals, and maps of them.

Maps of Python's `mmap` keep a descriptor each, so maps are made by the C library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Any, Final
from weakref import finalize

import numpy as np

from eagerflow.errors import ProtocolError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
IS_THERE: Final = hasattr(os, "memfd_create")
#: <linux/fcntl.h>; Python names them from 3.13 on
ADD_SEALS: Final = getattr(fcntl, "F_ADD_SEALS", 1033)
_GET_SEALS: Final = getattr(fcntl, "F_GET_SEALS", 1034)
_SEAL, _SHRINK, _GROW, _WRITE, _FUTURE_WRITE = 0x1, 0x2, 0x4, 0x8, 0x10
#: seals of a file that nobody can change any more
FIXED: Final = _SHRINK | _GROW | _WRITE
#: seals of a file that only its maker can write into, by a map made before
KEPT_SEALS: Final = _SHRINK | _GROW | _FUTURE_WRITE
#: <linux/mman.h>
_HUGE_PAGES: Final = 14
_POPULATE_READ: Final = 22
_POPULATE_WRITE: Final = 23

_libc: Final = ctypes.CDLL(None, use_errno=True)
_mmap: Final = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
]  # fmt: skip
_munmap: Final = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise: Final = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED: Final = ctypes.c_void_p(-1).value


def new_file() -> int:
    """The descriptor of a new, empty file."""
    return os.memfd_create("eagerflow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def write(file: int, data: memoryview, start: int) -> None:
    """Write bytes into a file."""
    while data:
        written = os.pwrite(file, data[: 1 << 30], start)
        data, start = data[written:], start + written


def seal(file: int, seals: int) -> None:
    """Seal a file for good.

    Raises:
        OSError: the system does not know such a seal.
    """
    fcntl.fcntl(file, ADD_SEALS, seals | _SEAL)


def new_kept(size: int) -> tuple[int, Bytes]:
    """A new file of some size, and its bytes, which this map alone can change.

    Raises:
        OSError: there is no memory, no descriptor, or no such seal.
    """
    file = new_file()
    try:
        os.ftruncate(file, size)
        memory = _mapped(file, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED)
        where = memory.ctypes.data
        _madvise(where, size, _HUGE_PAGES)  # only a wish
        if _madvise(where, size, _POPULATE_WRITE) and ctypes.get_errno() != errno.EINVAL:
            raise OSError(ctypes.get_errno(), "no memory for a slab")  # a write would end us
        seal(file, KEPT_SEALS)
    except BaseException:  # Ctrl-C as well
        os.close(file)
        raise
    return file, memory


def new_fixed(size: int, parts: Sequence[tuple[int, Bytes]]) -> int:
    """The descriptor of a new file of some size, which nobody can change any more.

    Args:
        size: its size.
        parts: its bytes, each with its offset; the rest is 0.

    Raises:
        OSError: there is no memory, no descriptor, or no such seal.
    """
    file = new_file()
    try:
        os.ftruncate(file, size)
        for start, data in parts:
            write(file, data.data, start)
        seal(file, FIXED | KEPT_SEALS)
    except BaseException:  # Ctrl-C as well
        os.close(file)
        raise
    return file


def check(file: int, size: int, needed: int, most: int) -> bool:
    """Check a received file before it is mapped; whether nobody can change it.

    Args:
        file: its descriptor.
        size: its size as a message says.
        needed: the seals that it needs.
        most: the limit of its size.

    Raises:
        ProtocolError: the file is not sealed, or has another size.
    """
    try:
        seals = fcntl.fcntl(file, _GET_SEALS)
    except OSError:
        seals = 0
    if seals & needed != needed:
        raise ProtocolError("a slab is not sealed", given=f"seals {seals}")
    there = os.fstat(file).st_size
    if there != size or not 0 < size <= most:
        raise ProtocolError(
            "a slab has another size than its message says",
            given=f"{there} bytes",
            expected=f"{size}, at most {most}",
        )
    return seals & FIXED == FIXED


def map_privately(file: int, size: int) -> Bytes:
    """The bytes of a file that nobody changes; what is written here is seen here alone.

    Raises:
        ProtocolError: the file cannot be mapped.
    """
    return _received(file, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE)


def map_to_read(file: int, size: int, is_fixed: bool) -> Bytes:
    """The bytes of a file, to be read alone: no array of them can be made writable.

    Args:
        file: its descriptor.
        size: its size.
        is_fixed: whether nobody can change it; else its maker may go on doing so.

    Raises:
        ProtocolError: the file cannot be mapped.
    """
    shared = mmap.MAP_PRIVATE if is_fixed else mmap.MAP_SHARED  # fixed ones: from Linux 6.7 on
    mapped = _received(file, size, mmap.PROT_READ, shared)
    _madvise(mapped.ctypes.data, size, _POPULATE_READ)  # else pages come one by one
    read_only: Bytes = np.frombuffer(mapped.data.toreadonly(), np.uint8)
    return read_only


def _received(file: int, size: int, access: int, flags: int) -> Bytes:
    try:
        return _mapped(file, size, access, flags)
    except OSError as error:
        raise ProtocolError(f"a slab cannot be mapped: {error.strerror}") from None


def _mapped(file: int, size: int, access: int, flags: int) -> Bytes:
    where = _mmap(None, size, access, flags, file, 0)
    if where is None or where == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    held = (ctypes.c_uint8 * size).from_address(where)
    finalize(held, _munmap, where, size).atexit = False
    mapped: Bytes = np.ctypeslib.as_array(held)
    return mapped
