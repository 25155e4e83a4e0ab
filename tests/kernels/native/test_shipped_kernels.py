"""Kernels shipped as machine code: linking, packing, lookup and execution."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eagerflow_kernels.native import executable_memory, processors, shipped_kernels
from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.llvm import build
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.llvm.linker import LinkError, link
from eagerflow_kernels.native.llvm.thread_pool_code import render_pool
from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.op_rules import loops_of
from eagerflow_kernels.native.processors import TARGETS, NoCompilerError, TargetName, best_target
from eagerflow_kernels.native.shipped_kernels import ShippedKernels
from eagerflow_kernels.native.ufuncs import ufunc_of
from tests.kernels.native.compiling import needs_compiler

_KERNELS = [loops_of("exp", "f32"), loops_of("softmax", "f64"), loops_of("leaky_relu", "f32")]


def test_images_are_packed_and_joined() -> None:
    one, two = Image(b"a" * 70, {"f": 3}), Image(b"b" * 10, {"g": 0}, alignment=4096)
    both = Image.joined([one, two])
    assert both.entries == {"f": 3, "g": 4096}
    assert both.code == b"a" * 70 + bytes(4096 - 70) + b"b" * 10
    image, heads = Image.unpacked(both.packed(["g(f32) -> f32", "f"]))
    assert (image.code, image.entries) == (both.code, both.entries)
    assert heads == {"f": "f", "g": "g(f32) -> f32"}
    with pytest.raises(ValueError, match="two functions are called f"):
        Image.joined([one, one])
    with pytest.raises(ValueError, match="no image"):
        Image.unpacked(b"garbage")


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
def test_the_pool_has_code_for_all_targets(target: TargetName) -> None:
    assert machine_code(render_pool(), target).entries.keys() == {
        "pool_parallel", "control_poll",
    }  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("declare void @other()\ndefine void @f() {\n call void @other()\n ret void\n}", "'other'"),
        (
            "@x = internal global i64 1\ndefine i64 @f() {\n %v = load i64, ptr @x\n"
            " %w = add i64 %v, 1\n store i64 %w, ptr @x\n ret i64 %v\n}",
            "data that is written to",
        ),
    ],
)
def test_code_that_needs_more_than_itself_is_refused(text: str, what: str) -> None:
    with pytest.raises(LinkError, match=what):
        machine_code(text, best_target())


def test_only_elf_is_linked() -> None:
    with pytest.raises(LinkError, match="no little-endian ELF"):
        link(b"MZ" * 100)


@needs_compiler
def test_kernels_are_written_for_all_targets_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "callable_loops", lambda: iter(_KERNELS))
    build.write(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == set(map(processors.file_of, TARGETS))
    package = ShippedKernels((tmp_path / processors.file_of(best_target())).read_bytes())
    assert package.find("log_f32") is None
    for loops in _KERNELS:
        kernel = package.find(loops.name)
        assert kernel is not None
        assert kernel[0] == loops.signature
    kernel = package.find("exp_f32")
    assert kernel is not None
    assert ufunc_of(*kernel)(np.float32(0)) == 1


_ALONE = """
import sys
sys.modules["llvmlite"] = None
from pathlib import Path
import numpy as np
from eagerflow_kernels.native import shipped_kernels
shipped_kernels._FOLDER = {folder!r}
import eagerflow as ef
ef.config(kernels="native")
f = ef.trace(lambda x: ef.exp(x) * 2, compile="now")
x = ef.zeros(3)
print(ef.exp(x), f(x))
print("that needs llvmlite" in str(f.explain()))
print("but none of graphs" in ef.hardware.kernel_library.described())
print([m for m in sys.modules if m.startswith("eagerflow_kernels.native.llvm.c")])
"""


@needs_compiler
def test_without_a_compiler_what_is_shipped_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = [*_KERNELS, loops_of("multiply", "f32", "f32")]
    monkeypatch.setattr(build, "callable_loops", lambda: iter(loops))
    build.write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _ALONE.format(folder=str(tmp_path))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "[1. 1. 1.] [2. 2. 2.]\nTrue\nTrue\n[]\n", done.stderr


@needs_compiler
def test_code_is_mapped_where_python_has_no_files_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    code = MachineCode(machine_code("define i32 @f() {\n ret i32 7\n}", best_target()))
    assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("f"))() == 7


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_mapped_code_keeps_no_descriptor() -> None:
    """A process has as many images as compiled functions; the number of descriptors is limited."""
    image = machine_code("define i32 @f() {\n ret i32 7\n}", best_target())
    code = MachineCode(image)
    where = f"{code.address('f'):x}"[:-3]

    def lines(path: str, part: str) -> list[str]:
        return [line for line in Path(path).read_text().splitlines() if part in line]

    held = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.exists()]
    assert not any("eagerflow-kernels" in one for one in held)
    assert lines("/proc/self/maps", f"{where}000-")
    del code
    assert not lines("/proc/self/maps", f"{where}000-")


@needs_compiler
def test_a_system_that_maps_no_code_is_known_before_the_first_op(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(code: bytes) -> None:
        raise OSError(errno.EPERM, "not permitted")

    (tmp_path / processors.file_of(best_target())).write_bytes(Image(b"code", {"f": 0}).packed())
    monkeypatch.setattr(shipped_kernels, "_FOLDER", tmp_path)
    monkeypatch.setattr(executable_memory, "_mapped", refuse)
    shipped_kernels.shipped.cache_clear()
    try:
        with pytest.raises(NoCompilerError, match="the system refuses to map machine code"):
            shipped_kernels.library_target()
    finally:
        shipped_kernels.shipped.cache_clear()


_V3 = "abm avx avx2 bmi1 bmi2 cx16 f16c fma lahf_lm movbe popcnt sse4_1 sse4_2 ssse3 xsave fpu sse2"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", _V4, ("x86-64-v4", "x86-64-v3")),
        ("x86_64", _V4.replace("avx512dq", ""), ("x86-64-v3",)),
        ("x86_64", _V3, ("x86-64-v3",)),
        ("x86_64", _V3.replace("fma", ""), ()),
        # some virtual machines hide abm, whose code then counts wrongly instead of failing
        ("x86_64", _V4.replace("abm", ""), ()),
        ("x86_64", "", ()),
        ("aarch64", "", ("aarch64",)),
        ("riscv64", "", ()),
    ],
)
def test_a_processor_that_is_not_known_has_no_target(
    machine: str, flags: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors.platform, "machine", lambda: machine)
    monkeypatch.setattr(processors.sys, "platform", "linux")
    monkeypatch.setattr(processors, "_flags", lambda: frozenset(flags.split()))
    processors.targets.cache_clear()
    try:
        assert processors.targets() == expected
        if not expected:
            with pytest.raises(NoCompilerError, match="AVX2 and FMA, or AArch64"):
                shipped_kernels.library_target()
    finally:
        processors.targets.cache_clear()
