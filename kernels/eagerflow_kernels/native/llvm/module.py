"""Loops as a module of LLVM with one function, a loop of NumPy's.

``void name(char **args, intp *dims, intp *steps, void *data)`` runs in the default floating-point
environment (round to nearest, subnormal numbers kept, exceptions masked), whatever the caller's is,
and leaves the caller's as it was, with its flags. ``data`` is the memory of a pool of threads
(`llvm.thread_pool_code`), which shares out the rows of a call that is worth it, or null.
"""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.llvm.columns import render_columns
from eagerflow_kernels.native.llvm.elementwise import render_elementwise
from eagerflow_kernels.native.llvm.reductions import tree_functions
from eagerflow_kernels.native.llvm.rows import render_rows
from eagerflow_kernels.native.llvm.streams import copy_functions
from eagerflow_kernels.native.llvm.thread_pool_code import FIELDS
from eagerflow_kernels.native.loop_form import BYTES, REDUCTIONS, SOURCES, Loops
from eagerflow_kernels.native.processors import TargetName
from eagerflow_kernels.native.verify import verify, verify_llvm

#: bytes of a register
REGISTERS: Final[dict[TargetName, int]] = {"x86-64-v3": 32, "x86-64-v4": 64, "aarch64": 16}
_MXCSR: Final = 0x1F80  # what a process starts with

_ENTRY: Final = """\
define void @"{name}"(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {{
entry:
  %there = icmp ne ptr %data, null
  br i1 %there, label %look, label %alone
look:
  %rows = load i64, ptr %dims, align 8
  %second = getelementptr i8, ptr %dims, i64 {last}
  %length = load i64, ptr %second, align 8
  %elements = {elements}
  %work = mul i64 %elements, {weight}
  %least.at = getelementptr i8, ptr %data, i64 {least}
  %least = load i64, ptr %least.at, align 8
  %large = icmp sge i64 %work, %least
  %several = icmp sgt i64 %rows, 1
  %worth = and i1 %large, %several
  br i1 %worth, label %share, label %alone
share:
  %parallel = load ptr, ptr %data, align 8
  call void %parallel(
    ptr %data, ptr @run, ptr %args, ptr %dims, ptr %steps, i64 {arrays}, i64 {axes}
  )
  ret void
alone:
  call void @run(ptr %args, ptr %dims, ptr %steps)
  ret void
}}
define internal void @run(ptr %args, ptr %dims, ptr %steps) noinline nounwind {{
"""
_ENTRY_X86: Final = """\
  %saved = alloca i32
  %own = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  store i32 {mxcsr}, ptr %own
  call void @llvm.x86.sse.ldmxcsr(ptr %own)
  call void @body(ptr %args, ptr %dims, ptr %steps)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_ENTRY_ARM: Final = """\
  %control = call i64 @llvm.aarch64.get.fpcr()
  %status = call i64 @llvm.aarch64.get.fpsr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  call void @body(ptr %args, ptr %dims, ptr %steps)
  call void @llvm.aarch64.set.fpsr(i64 %status)
  call void @llvm.aarch64.set.fpcr(i64 %control)
  ret void
}}
declare i64 @llvm.aarch64.get.fpcr()
declare i64 @llvm.aarch64.get.fpsr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.set.fpsr(i64)
"""


def render(loops: Loops, target: TargetName) -> str:
    """The text of the module.

    Args:
        loops: what it computes.
        target: whose registers it uses; results do not depend on it.

    Raises:
        LoopError: the loops, or the text, break a rule (see `verify`).
    """
    verify(loops)
    width = width_for(loops, target)
    declared: set[str] = set()
    sizes = {BYTES[a.kind] for a in (*loops.inputs, *loops.outputs)}
    parts = [_entry(loops, target), copy_functions(sizes, declared)]
    if loops.inner:
        trees = {(t.operation, t.kind) for t in loops.terms if t.operation in REDUCTIONS}
        parts += [tree_functions(*tree, width, declared) for tree in sorted(trees)]
        parts += [render_rows(loops, width, declared), render_columns(loops, width, declared)]
    else:
        parts.append(render_elementwise(loops, width, declared))
    text = "\n".join([*parts, *sorted(declared), ""])
    verify_llvm(text)
    return text


def _entry(loops: Loops, target: TargetName) -> str:
    """The functions ``name`` and ``run``."""
    arrays = len(loops.inputs) + len(loops.outputs)
    return (_ENTRY + (_ENTRY_ARM if target == "aarch64" else _ENTRY_X86)).format(
        name=loops.name, mxcsr=_MXCSR, arrays=arrays, least=FIELDS["least"],
        weight=sum(t.operation not in SOURCES for t in loops.terms) + arrays,
        axes=2 if loops.inner else 1, last=8 if loops.inner else 0,
        elements="mul i64 %rows, %length" if loops.inner else "or i64 %rows, 0",
    )  # fmt: skip


def width_for(loops: Loops, target: TargetName) -> int:
    """How many elements a vector has: a register of the widest kind."""
    kinds = {t.kind for t in loops.terms} | {a.kind for a in (*loops.inputs, *loops.outputs)}
    return REGISTERS[target] // max(4, *(BYTES[kind] for kind in kinds))
