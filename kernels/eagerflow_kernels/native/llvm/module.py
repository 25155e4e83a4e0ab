"""The LLVM module of loops, with one function: an inner loop of a function of NumPy.

``void name(char **args, intp *dims, intp *steps, void *data)`` runs in the default floating-point
environment (round to nearest, subnormal numbers kept, exceptions masked), whatever the caller's is,
and restores the caller's, with its flags. ``data`` is the memory of a pool of threads
(`llvm.thread_pool_code`), which share the rows of a large call, or null; for a kernel that can be
ended it is its control (`native.control`), which has the address of the pool.
"""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.llvm.columns import render_columns
from eagerflow_kernels.native.llvm.elementwise import render_elementwise
from eagerflow_kernels.native.llvm.passes import vector_kinds
from eagerflow_kernels.native.llvm.reductions import tree_functions
from eagerflow_kernels.native.llvm.rows import has_columns, render_rows
from eagerflow_kernels.native.llvm.scatters import elements_of, render_scatters
from eagerflow_kernels.native.llvm.short_rows import render_short_rows
from eagerflow_kernels.native.llvm.streams import copy_functions
from eagerflow_kernels.native.llvm.thread_pool_code import CONTROL, FIELDS, QUANTUM
from eagerflow_kernels.native.llvm.ticks import tick_function
from eagerflow_kernels.native.loop_form import BYTES, REDUCTIONS, Loops, scatters, weight_of
from eagerflow_kernels.native.processors import TargetName
from eagerflow_kernels.native.verify import verify, verify_llvm

#: bytes of a register
REGISTERS: Final[dict[TargetName, int]] = {"x86-64-v3": 32, "x86-64-v4": 64, "aarch64": 16}
_MXCSR: Final = 0x1F80  # the value at the start of a process
_MANY: Final = (1 << 63) - 1  # more rows than there can be

_ENTRY: Final = """\
define void @"{name}"(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {{
entry:
  {pool}
  %there = icmp ne ptr %pool, null
  br i1 %there, label %look, label %alone
look:
  %rows = load i64, ptr %dims, align 8
  %second = getelementptr i8, ptr %dims, i64 {last}
  %length = load i64, ptr %second, align 8
  %elements = {elements}
  %work = mul i64 %elements, {weight}
  %least.at = getelementptr i8, ptr %pool, i64 {least}
  %least = load i64, ptr %least.at, align 8
  %large = icmp sge i64 %work, %least
  %several = icmp sgt i64 %rows, {alone}
  %worth = and i1 %large, %several
  br i1 %worth, label %share, label %alone
share:
  %parallel = load ptr, ptr %pool, align 8
  call void %parallel(
    ptr %pool, ptr @run, ptr %args, ptr %dims, ptr %steps, i64 {arrays}, i64 {axes}, ptr {control}
  )
  ret void
alone:
  call void @run(ptr %args, ptr %dims, ptr %steps, ptr {control})
  ret void
}}
define internal void @run(ptr %args, ptr %dims, ptr %steps, ptr %control) noinline nounwind {{
"""
_ENTRY_X86: Final = """\
  %saved = alloca i32
  %own = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  store i32 {mxcsr}, ptr %own
  call void @llvm.x86.sse.ldmxcsr(ptr %own)
  call void @body(ptr %args, ptr %dims, ptr %steps, ptr %control)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_ENTRY_ARM: Final = """\
  %mode = call i64 @llvm.aarch64.get.fpcr()
  %status = call i64 @llvm.aarch64.get.fpsr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  call void @body(ptr %args, ptr %dims, ptr %steps, ptr %control)
  call void @llvm.aarch64.set.fpsr(i64 %status)
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}}
declare i64 @llvm.aarch64.get.fpcr()
declare i64 @llvm.aarch64.get.fpsr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.set.fpsr(i64)
"""


#: the first steps of an entry with a control: it resets the counters if Python has requested it
_BEGIN: Final = """\
%begin.at = getelementptr i8, ptr %data, i64 {begin}
  %begins = load i8, ptr %begin.at, align 1
  %anew = icmp ne i8 %begins, 0
  br i1 %anew, label %begin, label %known
begin:
  %done.at = getelementptr i8, ptr %data, i64 {done}
  %next.at = getelementptr i8, ptr %data, i64 {next}
  store i64 0, ptr %done.at, align 8
  store i64 {quantum}, ptr %next.at, align 8
  store i8 0, ptr %begin.at, align 1
  br label %known
known:
  %pool = load ptr, ptr %data, align 8"""


def render(loops: Loops, target: TargetName, *, controlled: bool = False) -> str:
    """The text of the module.

    Args:
        loops: the computation.
        target: the processor, whose registers it uses; results do not depend on it.
        controlled: whether the kernel counts its work, and can be ended.

    Raises:
        LoopError: the loops, or the text, break a rule (see `verify`).
    """
    verify(loops)
    width = width_for(loops, target)
    declared: set[str] = set()
    sizes = {BYTES[a.kind] for a in (*loops.inputs, *loops.outputs)}
    parts = [_entry(loops, target, controlled), copy_functions(sizes, declared)]
    weight = weight_of(loops) if controlled else 0
    if weight:
        parts.append(tick_function())
    if scatters(loops):
        parts.append(render_scatters(loops, width, declared))
    elif loops.inner:
        trees = {(t.operation, t.kind) for t in loops.terms if t.operation in REDUCTIONS}
        parts += [tree_functions(*tree, width, declared) for tree in sorted(trees)]
        parts.append(render_rows(loops, width, declared, weight))
        if has_columns(loops):
            parts.append(render_columns(loops, width, declared, weight))
            parts.append(render_short_rows(loops, declared))
    else:
        parts.append(render_elementwise(loops, width, declared, weight))
    text = "\n".join([*parts, *sorted(declared), ""])
    verify_llvm(text)
    return text


def _entry(loops: Loops, target: TargetName, controlled: bool) -> str:
    """The functions ``name`` and ``run``."""
    arrays = len(loops.inputs) + len(loops.outputs)
    begin = _BEGIN.format(
        begin=CONTROL["begin"], done=CONTROL["done"], next=CONTROL["next"], quantum=QUANTUM
    )
    return (_ENTRY + (_ENTRY_ARM if target == "aarch64" else _ENTRY_X86)).format(
        name=loops.name, mxcsr=_MXCSR, arrays=arrays, least=FIELDS["least"],
        weight=weight_of(loops), control="%data" if controlled else "null",
        pool=begin if controlled else "%pool = getelementptr i8, ptr %data, i64 0",
        axes=2 if loops.inner else 1, last=8 if loops.inner else 0,
        alone=_MANY if scatters(loops) else 1,
        elements="mul i64 %rows, %length" if loops.inner else "or i64 %rows, 0",
    )  # fmt: skip


def width_for(loops: Loops, target: TargetName) -> int:
    """Number of elements of a vector: a register of the widest kind of vectors in the loops."""
    if scatters(loops):
        kinds = elements_of(loops)
    elif loops.inner:
        kinds = vector_kinds(loops)
    else:
        kinds = {t.kind for t in loops.terms} | {a.kind for a in (*loops.inputs, *loops.outputs)}
    return REGISTERS[target] // max(4, *(BYTES[kind] for kind in kinds))
