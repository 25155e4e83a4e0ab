"""Kernels for AArch64, run by an emulator: equal to the bits of x86-64."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import compiled
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.loop_form import Loops
from eagerflow_kernels.native.machine_code import ALIGNMENT, Image
from eagerflow_kernels.native.op_rules import callable_loops
from tests.kernels.native.compiling import elements, needs_compiler, same

Array = np.ndarray[Any, Any]

_EMULATOR: Final = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
pytestmark = [
    needs_compiler,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(_EMULATOR is None, reason="there is no qemu-aarch64"),
]

_BASE: Final = 0x400000
#: a function that calls Linux, ``system(number, *arguments)``: seven moves, ``svc 0`` and ``ret``
_SYSTEM: Final = _BASE + 0x1000
_CALL: Final = struct.pack(
    "<9I",
    *(0xAA0003E0 | source << 16 | to for source, to in enumerate((8, *range(6)))),
    0xD4000001, 0xD65F03C0,
)  # fmt: skip
_CODE: Final = _BASE + 0x2000
_FLUSHING: Final = 1 << 24  # FPCR.FZ
_MEMORY: Final = 1 << 24
#: eight numbers each for the call and `dims`, then steps, then arguments
_HEADER: Final = 8 * (8 + 8 + 96 + 48)

#: reads a call, makes it with flushing of subnormal numbers on, and writes the resulting memory:
#: 222, 63, 64 and 93 are mmap, read, write and exit of Linux
_PROGRAM: Final = f"""
define void @_start() nounwind {{
  %system = inttoptr i64 {_SYSTEM} to ptr
  %at = call i64 %system(i64 222, i64 0, i64 {_MEMORY}, i64 3, i64 34, i64 -1, i64 0)
  br label %more
more:
  %got = phi i64 [0, %0], [%upto, %more]
  %to = add i64 %at, %got
  %n = call i64 %system(i64 63, i64 0, i64 %to, i64 {_MEMORY}, i64 0, i64 0, i64 0)
  %upto = add i64 %got, %n
  %end = icmp sle i64 %n, 0
  br i1 %end, label %call, label %more
call:
  %memory = inttoptr i64 %at to ptr
  %address = load i64, ptr %memory
  %function = inttoptr i64 %address to ptr
  %dims = getelementptr i64, ptr %memory, i64 8
  %steps = getelementptr i64, ptr %memory, i64 16
  %args = getelementptr i64, ptr %memory, i64 112
  br label %pointers
pointers:
  %i = phi i64 [0, %call], [%next, %pointers]
  %place = getelementptr i64, ptr %args, i64 %i
  %offset = load i64, ptr %place
  %pointer = add i64 %offset, %at
  store i64 %pointer, ptr %place
  %next = add i64 %i, 1
  %last = icmp eq i64 %next, 48
  br i1 %last, label %run, label %pointers
run:
  call void @llvm.aarch64.set.fpcr(i64 {_FLUSHING})
  call void @llvm.aarch64.set.fpsr(i64 0)
  call void %function(ptr %args, ptr %dims, ptr %steps, ptr null)
  %control = call i64 @llvm.aarch64.get.fpcr()
  %status = call i64 @llvm.aarch64.get.fpsr()
  %kept = getelementptr i64, ptr %memory, i64 1
  store i64 %control, ptr %kept
  %flags = getelementptr i64, ptr %memory, i64 2
  store i64 %status, ptr %flags
  %w = call i64 %system(i64 64, i64 1, i64 %at, i64 %got, i64 0, i64 0, i64 0)
  %x = call i64 %system(i64 93, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  ret void
}}
declare i64 @llvm.aarch64.get.fpcr()
declare i64 @llvm.aarch64.get.fpsr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.set.fpsr(i64)
"""


def _program(image: Image) -> bytes:
    """An executable of Linux: one segment with an image, at a page boundary."""
    start = _CODE + image.entries["_start"]
    size = 0x1000 + len(image.code)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 183, 1, start, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0x1000, _SYSTEM, _SYSTEM, size, size, 0x1000)
    return (head + segment).ljust(0x1000, b"\0") + _CALL.ljust(0x1000, b"\0") + image.code


class _Emulated:
    """Kernels in a program for AArch64, run by the emulator."""

    def __init__(self, loops: list[Loops], folder: Path) -> None:
        images = [machine_code(render(x, "aarch64"), "aarch64") for x in loops]
        self.image = Image.joined([machine_code(_PROGRAM, "aarch64"), *images])
        assert all(at % 4 == 0 for at in self.image.entries.values())
        self.path = folder / "kernels"
        self.path.write_bytes(_program(self.image))
        self.path.chmod(0o755)

    def __call__(self, loops: Loops, arrays: list[Array]) -> list[Array]:
        """The outputs; inputs have one element per row, or a row of elements."""
        rows = arrays[0].shape[0]
        length = next((x.shape[1] for x in arrays if x.ndim == 2), 0)
        shapes = [(rows, length) if a.inner else (rows,) for a in loops.outputs]
        kinds = {"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "bool": "?"}
        results = [
            np.full(shape, 7, kinds[a.kind]) for shape, a in zip(shapes, loops.outputs, strict=True)
        ]
        whole = [*arrays, *results]
        steps = [x.strides[0] for x in whole] + [x.strides[1] for x in whole if x.ndim == 2]
        memory, places = bytearray(_HEADER), []
        for x in whole:
            memory.extend(bytes(-len(memory) % ALIGNMENT))
            places.append(len(memory))
            memory += x.tobytes()
        numbers = [_CODE + self.image.entries[loops.name], *[0] * 7, rows, length]
        numbers += [0] * 6 + steps + [0] * (96 - len(steps)) + places
        struct.pack_into(f"<{len(numbers)}q", memory, 0, *numbers)
        done = subprocess.run(
            [str(_EMULATOR), str(self.path)], input=bytes(memory), capture_output=True, check=True,
            timeout=60,
        ).stdout  # fmt: skip
        assert struct.unpack_from("<2q", done, 8) == (_FLUSHING, 0)
        made = zip(places[len(arrays) :], results, strict=True)
        return [np.frombuffer(done, x.dtype, x.size, at).reshape(x.shape) for at, x in made]


def test_all_kernels_have_the_bits_of_x86(tmp_path: Path) -> None:
    loops = list(callable_loops())
    run = _Emulated(loops, tmp_path)
    rng = np.random.default_rng(0)
    for x in loops:
        here = compiled(x)
        for rows, length in ((1, 0), (5, 3), (67, 19), (3, 333)):
            if not x.inner:
                rows, length = 2 * rows + length, 0
            given = [
                elements(rng, a.kind, (rows, length) if a.inner else (rows,)) for a in x.inputs
            ]
            with np.errstate(all="ignore"):
                expected = here(*given)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for a, b in zip(run(x, given), expected, strict=True):
                assert same(a, b), (x.name, rows, length)
