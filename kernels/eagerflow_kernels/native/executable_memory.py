"""Images of machine code in memory, ready to run."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.processors import NoCompilerError

#: MFD_CLOEXEC of Linux
_CLOSE_ON_EXEC: Final = 1


@final
class MachineCode:
    """An image that is mapped, ready to run; the mapping ends with this object.

    Args:
        image: the image to map.

    Raises:
        NoCompilerError: the system does not allow programs to map code.
    """

    __slots__ = ("_address", "_entries", "_memory")

    def __init__(self, image: Image) -> None:
        self._entries = image.entries
        mapped = _mapped_on_mac if sys.platform == "darwin" else _mapped
        try:
            self._memory, self._address = mapped(image.code)
        except OSError as error:
            raise NoCompilerError(f"the system refuses to map machine code: {error}") from error

    def address(self, name: str) -> int:
        """The address of a function.

        Raises:
            KeyError: there is no function of that name.
        """
        return self._address + self._entries[name]


@final
class _Mapping:
    """A mapping of the system, which ends with this object.

    Python's own maps would keep a file descriptor for each compiled function.
    """

    def __init__(self, system: Any, address: int, size: int) -> None:
        where = ctypes.c_void_p(address), ctypes.c_size_t(size)
        self._unmap: Callable[[], object] = partial(system.munmap, *where)

    def __del__(self) -> None:
        self._unmap()


def _map(size: int, access: int, flags: int, file: int) -> tuple[_Mapping, int]:
    """A mapping and its address; ``file`` is -1 for an anonymous mapping."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    address = system.mmap(None, ctypes.c_size_t(size), access, flags, file, ctypes.c_int64(0))
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return _Mapping(system, address, size), address


def _mapped(code: bytes) -> tuple[_Mapping, int]:
    """A private mapping that can be read and run, and never could be written.

    It maps a file in memory, so that the kernel of the system keeps instruction caches coherent.
    """
    file = _file_in_memory("eagerflow-kernels")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(code)
        return _map(len(code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file)
    finally:
        os.close(file)


def _file_in_memory(name: str) -> int:
    """The descriptor of a new file that has no place on disk.

    Pythons that are built for old systems, such as the builds of uv and conda, lack the call: then
    the C library is called.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    create = getattr(ctypes.CDLL(None, use_errno=True), "memfd_create", None)
    file = -1 if create is None else int(create(name.encode(), _CLOSE_ON_EXEC))
    if file < 0:
        code = errno.ENOSYS if create is None else ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return file


def _mapped_on_mac(code: bytes) -> tuple[_Mapping, int]:
    """A mapping as `_mapped` makes it, on systems that run only signed files, by ``MAP_JIT``."""
    system = ctypes.CDLL(None)
    map_jit, everything = 0x0800, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory, address = _map(
        len(code), everything, mmap.MAP_PRIVATE | mmap.MAP_ANON | map_jit, file=-1
    )
    system.pthread_jit_write_protect_np(0)
    try:
        ctypes.memmove(address, code, len(code))
    finally:
        system.pthread_jit_write_protect_np(1)
    system.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(len(code)))
    return memory, address
