"""Compiles all callable kernels for all targets: ``python -m eagerflow_kernels.native.llvm.build``.

It runs when a wheel is built, and needs llvmlite alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.llvm.thread_pool_code import render_pool
from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.op_rules import callable_loops
from eagerflow_kernels.native.processors import TARGETS, file_of


def write(folder: Path) -> None:
    """Write a file of kernels for each target.

    Args:
        folder: where the files go; it is made if it is not there.

    Raises:
        NoCompilerError: llvmlite is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loops = list(callable_loops())
    for target in TARGETS:
        texts = [render_pool(), *(render(x, target) for x in loops)]
        image = Image.joined(machine_code(text, target) for text in texts)
        heads = {x.name: x.signature.head for x in loops}
        data = image.packed(heads.get(name, name) for name in image.entries)
        (folder / file_of(target)).write_bytes(data)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
