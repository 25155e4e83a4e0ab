"""Kernels shipped with the package as machine code, so that no user waits for a compiler.

`llvm.build` makes them when a wheel is built, one file for each target; `shipped` reads the file of
a target. A checkout has no such files, which would become stale: `make` stores the kernels of its
sources in the cache on disk, and missing kernels are compiled when they are requested.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final, final

from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.loop_form import LoopSignature
from eagerflow_kernels.native.machine_code import ALIGNMENT, Image
from eagerflow_kernels.native.processors import (
    NoCompilerError,
    TargetName,
    best_target,
    file_of,
)

#: not a `Path`: `pathlib` would load modules for URLs
_FOLDER: Final = os.path.join(os.path.dirname(__file__), "objects")


@final
class ShippedKernels:
    """The kernels of one file.

    Args:
        data: its contents.

    Attributes:
        code: the kernels, and the functions of the pool of threads.
    """

    __slots__ = ("_heads", "code")

    def __init__(self, data: bytes) -> None:
        image, self._heads = Image.unpacked(data)
        self.code = MachineCode(image)

    def find(self, name: str) -> tuple[LoopSignature, int, MachineCode] | None:
        """The signature, address and owner of a kernel; None if the file does not have it."""
        head = self._heads.get(name)
        if head is None:
            return None
        return LoopSignature.read(head), self.code.address(name), self.code


@cache
def shipped(target: TargetName) -> ShippedKernels | None:
    """The kernels for a target; None if there are none.

    Raises:
        NoCompilerError: the system does not allow programs to map code.
    """
    try:
        with open(os.path.join(_FOLDER, file_of(target)), "rb") as file:
            data: bytes | None = file.read()
    except OSError:
        data = _kept(target)
    return None if data is None else ShippedKernels(data)


def _kept(target: TargetName) -> bytes | None:
    """The kernels that `llvm.build.keep` has stored for these sources; None if there are none."""
    disk = import_module("eagerflow_kernels.native.disk_cache")
    data: bytes | None = disk.shared().load(disk.key_of(disk.LIBRARY, target))
    return data


def library_target() -> TargetName:
    """The target of the callable kernels of this process.

    Raises:
        NoCompilerError: there are no kernels: they were not shipped and there is no compiler, there
            is no code for this processor, or the system does not allow programs to map code.
    """
    target = best_target()
    if shipped(target) is None:
        if not has_compiler():
            raise NoCompilerError(
                "this checkout has no native kernels, and needs llvmlite to make some "
                "(pip install 'eagerflow[native]')"
            )
        MachineCode(Image(bytes(ALIGNMENT), {}))  # raises now if code cannot be mapped
    return target


def has_compiler() -> bool:
    """Whether llvmlite is installed, which compiles regions; it is not loaded."""
    return find_spec("llvmlite") is not None
