"""Translation of a term to instructions of LLVM, for one element or for a vector of them."""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.llvm.emitter import Emitter, Names, suffix, type_of
from eagerflow_kernels.native.loop_form import (
    BITS,
    BYTES,
    FLOATS,
    INTEGERS,
    Kind,
    Term,
    bits_of,
    value_of,
)

_INSTRUCTIONS: Final = {
    "add": ("fadd", "add"),
    "subtract": ("fsub", "sub"),
    "multiply": ("fmul", "mul"),
    "divide": ("fdiv", ""),
    "and": ("", "and"),
    "or": ("", "or"),
    "xor": ("", "xor"),
    "equal": ("fcmp oeq", "icmp eq"),
    "not_equal": ("fcmp une", "icmp ne"),
    "less": ("fcmp olt", "icmp slt"),
    "less_equal": ("fcmp ole", "icmp sle"),
}
_EXTREMES: Final = {"maximum": "ogt", "minimum": "olt"}
_INTRINSICS: Final = {
    "absolute": ("fabs", ""),
    "ceil": ("ceil", ""),
    "copysign": ("copysign", ""),
    "floor": ("floor", ""),
    "fma": ("fma", ""),
    "maximum": ("", "smax"),
    "minimum": ("", "smin"),
    "round": ("roundeven", ""),
    "sqrt": ("sqrt", ""),
    "trunc": ("trunc", ""),
}


def constant(bits: int, kind: Kind, width: int) -> str:
    """The text of a constant; a float is written as the bits of the float64 of its value."""
    if kind in FLOATS:
        text = f"0x{bits_of(value_of(bits, kind), 'f64'):016X}"
    elif kind == "bool":
        text = "true" if bits else "false"
    else:
        text = str(bits)
    if width == 1:
        return text
    return f"<{', '.join([f'{type_of(kind, 1)} {text}'] * width)}>"


def combine(e: Emitter, operation: str, kind: Kind, width: int, x: str, y: str) -> str:
    """An operation of a reduction on two values."""
    return apply(e, Term(operation, kind, False), (kind, kind), width, (x, y))


def apply(e: Emitter, term: Term, kinds: tuple[Kind, ...], width: int, operands: Names) -> str:
    """The value of a term that is an operation.

    Args:
        e: the emitter of the function.
        term: the term to write.
        kinds: of its operands.
        width: number of elements of a vector.
        operands: their values.
    """
    operation, kind = term.operation, kinds[-1]
    of = type_of(kind, width)
    if operation in _INSTRUCTIONS:
        instruction = _INSTRUCTIONS[operation][kind not in FLOATS]
        return e.value(f"{instruction} {of} {operands[0]}, {operands[1]}")
    if operation in _EXTREMES and kind in FLOATS:
        return _extreme(e, operation, kind, width, *operands)
    if operation in _INTRINSICS:
        name = f"llvm.{_INTRINSICS[operation][kind not in FLOATS]}.{suffix(kind, width)}"
        given = ", ".join(f"{of} {x}" for x in operands)
        return e.call(of, name, given, ", ".join([of] * len(operands)))
    if operation == "negative":
        return e.value(f"fneg {of} {operands[0]}")
    if operation in ("shift_left", "shift_right"):
        instruction = "shl" if operation == "shift_left" else "ashr"
        return e.value(f"{instruction} {of} {operands[0]}, {constant(term.constant, kind, width)}")
    if operation == "select":
        condition = type_of("bool", width)
        x, y = operands[1:]
        return e.value(f"select {condition} {operands[0]}, {of} {x}, {of} {y}")
    if operation == "bits":
        return e.value(f"bitcast {of} {operands[0]} to {type_of(BITS[kind], width)}")
    return convert(e, kind, term.kind, width, operands[0])


def _extreme(e: Emitter, operation: str, kind: Kind, width: int, x: str, y: str) -> str:
    """The larger, or the smaller, of two floats; NaN if either is; -0 is below 0.

    LLVM's own code for that is twice as long, which adds to the latency of tallies. The operands
    are compared in both orders, one instruction of x86-64 each; the results differ in bits only for
    zeros of both signs and for NaN: one of them is the negative zero, one is the NaN.
    """
    of, whole = type_of(kind, width), type_of(BITS[kind], width)
    condition = type_of("bool", width)

    def first(x: str, y: str) -> str:
        comparison = e.value(f"fcmp {_EXTREMES[operation]} {of} {x}, {y}")
        chosen = e.value(f"select {condition} {comparison}, {of} {x}, {of} {y}")
        return e.value(f"bitcast {of} {chosen} to {whole}")

    one, other = first(x, y), first(y, x)
    if operation == "minimum":
        bits = e.value(f"or {whole} {one}, {other}")
    else:
        unordered = e.value(f"sext {condition} {e.value(f'fcmp uno {of} {x}, {y}')} to {whole}")
        bits = e.value(f"or {whole} {e.value(f'and {whole} {one}, {other}')}, {unordered}")
    return e.value(f"bitcast {whole} {bits} to {of}")


def convert(e: Emitter, kind: Kind, to: Kind, width: int, x: str) -> str:
    """A value converted to another kind."""
    of, target = type_of(kind, width), type_of(to, width)
    if kind == to:
        return x
    if kind == "bf16":
        return _from_bfloat16(e, width, x)
    if to == "bf16":
        return _to_bfloat16(e, width, x)
    if to == "bool":
        comparison = "fcmp une" if kind in FLOATS else "icmp ne"
        return e.value(f"{comparison} {of} {x}, {constant(0, kind, width)}")
    if kind in FLOATS and to in INTEGERS:
        name = f"llvm.fptosi.sat.{suffix(to, width)}.{suffix(kind, width)}"
        return e.call(target, name, f"{of} {x}", of)
    if kind == "bool":
        instruction = "uitofp" if to in FLOATS else "zext"
    elif kind in INTEGERS:
        instruction = "sitofp" if to in FLOATS else "sext" if to == "i64" else "trunc"
    else:
        instruction = "fpext" if BYTES[to] > BYTES[kind] else "fptrunc"
    return e.value(f"{instruction} {of} {x} to {target}")


def _from_bfloat16(e: Emitter, width: int, x: str) -> str:
    """A bfloat16 as a float32: its bits are the upper half."""
    whole, of = type_of("i32", width), type_of("f32", width)
    bits = e.value(f"zext {type_of('bf16', width)} {x} to {whole}")
    bits = e.value(f"shl {whole} {bits}, {constant(16, 'i32', width)}")
    return e.value(f"bitcast {whole} {bits} to {of}")


def _to_bfloat16(e: Emitter, width: int, x: str) -> str:
    """A float32 as the nearest bfloat16, ties to even; a NaN stays a NaN."""
    whole, of, low = type_of("i32", width), type_of("f32", width), type_of("bf16", width)

    def number(value: int) -> str:
        return constant(value, "i32", width)

    bits = e.value(f"bitcast {of} {x} to {whole}")
    even = e.value(f"and {whole} {e.value(f'lshr {whole} {bits}, {number(16)}')}, {number(1)}")
    up = e.value(f"add {whole} {e.value(f'add {whole} {bits}, {number(0x7FFF)}')}, {even}")
    nan = e.value(f"fcmp uno {of} {x}, {x}")
    quiet = e.value(
        f"select {type_of('bool', width)} {nan}, {whole} {number(0x7FC0_0000)}, {whole} {up}"
    )
    return e.value(f"trunc {whole} {e.value(f'lshr {whole} {quiet}, {number(16)}')} to {low}")
