"""Kernels that come with the package as machine code, so that nobody waits for a compiler.

`llvm.build` makes them when a wheel is built, one file for each target; `shipped` reads the file of
a target. A checkout has none, since they would grow old there: `make` keeps those of its sources in
the cache on disk, and what is not there is compiled when it is wanted.
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

#: `pathlib` would load what reads URLs
_FOLDER: Final = os.path.join(os.path.dirname(__file__), "objects")


@final
class ShippedKernels:
    """The kernels of one file.

    Args:
        data: what is in it.

    Attributes:
        code: the kernels, and the functions of the pool of threads.
    """

    __slots__ = ("_heads", "code")

    def __init__(self, data: bytes) -> None:
        image, self._heads = Image.unpacked(data)
        self.code = MachineCode(image)

    def find(self, name: str) -> tuple[LoopSignature, int, MachineCode] | None:
        """How a kernel is called, where it begins and what keeps it; None if it is not there."""
        head = self._heads.get(name)
        if head is None:
            return None
        return LoopSignature.read(head), self.code.address(name), self.code


@cache
def shipped(target: TargetName) -> ShippedKernels | None:
    """The kernels for a target; None if there are none.

    Raises:
        NoCompilerError: the system lets no program map code.
    """
    try:
        with open(os.path.join(_FOLDER, file_of(target)), "rb") as file:
            data: bytes | None = file.read()
    except OSError:
        data = _kept(target)
    return None if data is None else ShippedKernels(data)


def _kept(target: TargetName) -> bytes | None:
    """What `llvm.build.keep` has made of these very sources; None if it has not."""
    disk = import_module("eagerflow_kernels.native.disk_cache")
    data: bytes | None = disk.shared().load(disk.key_of(disk.LIBRARY, target))
    return data


def library_target() -> TargetName:
    """What the callable kernels of this process are for.

    Raises:
        NoCompilerError: there are none: neither came they with the package nor is there a compiler,
            there is no code for this processor, or the system lets no program map code.
    """
    target = best_target()
    if shipped(target) is None:
        if not has_compiler():
            raise NoCompilerError(
                "this checkout has no native kernels, and needs llvmlite to make some "
                "(pip install 'eagerflow[native]')"
            )
        MachineCode(Image(bytes(ALIGNMENT), {}))  # what will be compiled can be mapped
    return target


def has_compiler() -> bool:
    """Whether llvmlite is installed, which compiles regions; it is not loaded."""
    return find_spec("llvmlite") is not None
