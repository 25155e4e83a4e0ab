"""Compiles all callable kernels: ``python -m eagerflow_kernels.native.llvm.build [FOLDER]``.

With a folder it compiles for all targets, as the build of a wheel does; without one for this
machine, into the cache on disk, as checkouts do. Its only dependency is llvmlite.
"""

from __future__ import annotations

import sys
from pathlib import Path

from eagerflow_kernels.native.disk_cache import LIBRARY, key_of, shared
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.llvm.joint_call_code import render_joint_call
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.llvm.thread_pool_code import render_pool
from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.op_rules import callable_loops
from eagerflow_kernels.native.processors import (
    TARGETS,
    TargetName,
    best_target,
    file_of,
    targets,
)


def write(folder: Path) -> None:
    """Write a file of kernels for each target.

    Args:
        folder: the folder of the files; it is made if it does not exist.

    Raises:
        NoCompilerError: llvmlite is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for target in TARGETS:
        (folder / file_of(target)).write_bytes(library(target))


def keep() -> None:
    """Store the kernels of these sources for this machine in the cache of this user.

    Raises:
        NoCompilerError: llvmlite is not installed, or there is no code for this processor.
    """
    target = best_target()
    key = key_of(LIBRARY, target)
    if shared().load(key) is None:
        shared().store(key, library(target))


def library(target: TargetName) -> bytes:
    """All callable kernels for a target, in the form of a file.

    Raises:
        NoCompilerError: llvmlite is not installed.
    """
    loops = list(callable_loops())
    texts = [render_pool(), render_joint_call(), *(render(x, target) for x in loops)]
    image = Image.joined(machine_code(text, target) for text in texts)
    heads = {x.name: x.signature.head for x in loops}
    return image.packed(heads.get(name, name) for name in image.entries)


def main(arguments: list[str]) -> None:
    """The entry point of ``python -m``."""
    if arguments:
        write(Path(arguments[0]))
    elif targets():
        keep()


if __name__ == "__main__":
    main(sys.argv[1:])
