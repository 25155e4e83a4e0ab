"""Refusal of loops and rendered text that leave a result undefined."""

from __future__ import annotations

import pytest

from eagerflow_kernels.native.llvm.module import REGISTERS, render
from eagerflow_kernels.native.loop_form import LoopArray, Loops, Term
from eagerflow_kernels.native.op_rules import OPS, loops_of
from eagerflow_kernels.native.verify import LoopError, verify, verify_llvm

_LOAD = Term("load", "f32", False)


def _loops(*terms: Term, result: int = -1) -> Loops:
    body = (_LOAD, *terms)
    number = len(body) - 1 if result < 0 else result
    return Loops("f", (LoopArray("f32"),), (LoopArray("f32"),), body, (number,))


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Term("add", "f32", False, (0, 1)), "does not come before"),
        (Term("add", "f32", False, (0,)), "takes 2 operands"),
        (Term("add", "f64", False, (0, 0)), "the result is of kind f32"),
        (Term("add", "f32", True, (0, 0)), "varies as its operands do"),
        (Term("add", "f32", False, (0, 0), 1), "takes no constant"),
        (Term("and", "f32", False, (0, 0)), "kinds are not taken"),
        (Term("select", "f32", False, (0, 0, 0)), "first operand is a bool"),
        (Term("less", "f32", False, (0, 0)), "the result is of kind bool"),
        (Term("bits", "f32", False, (0,)), "the result is of kind i32"),
        (Term("sum", "f64", False, (0,)), "one number of its own kind"),
        (Term("pick", "f32", True, (0,)), "has one number, an i64"),
        (Term("sum", "f32", True, (0,)), "one value per row"),
        (Term("running_sum", "f32", False, (0,)), "one value per element"),
        (Term("running_max", "f64", True, (0,)), "one number of its own kind"),
        (Term("index", "i64", False), "an i64 of an element"),
        (Term("index", "i32", True), "an i64 of an element"),
        (Term("load", "f32", False, (), 1), "no such input"),
        (Term("load", "f64", False), "the input is of another kind"),
        (Term("constant", "f32", False, (), 1 << 32), "too many bits"),
        (Term("size", "bool", False), "a size is a number"),
        (Term("power", "f32", False, (0, 0)), "an unknown operation"),
        (Term("load", "f8", False), "an unknown kind"),  # type: ignore[arg-type]  # on purpose
        (Term("add", "f16", False, (0, 0)), "the result is of kind f32"),
        (Term("constant", "bf16", False), "only arrays of this kind"),
    ],
)
def test_terms(term: Term, message: str) -> None:
    with pytest.raises(LoopError, match=message):
        verify(_loops(term))


def test_shifts_are_by_fewer_bits_than_there_are() -> None:
    bits = Term("bits", "i32", False, (0,))
    verify(_loops(bits, Term("shift_left", "i32", False, (1,), 31), result=0))
    with pytest.raises(LoopError, match="fewer bits"):
        verify(_loops(bits, Term("shift_left", "i32", False, (1,), 32), result=0))


def test_results() -> None:
    terms = (Term("load", "f32", True),)
    inner = (LoopArray("f32", inner=True),)
    with pytest.raises(LoopError, match="one place per row"):
        verify(Loops("f", inner, (LoopArray("f32"),), terms, (0,)))
    with pytest.raises(LoopError, match="no result of kind f64"):
        verify(Loops("f", inner, (LoopArray("f64"),), terms, (0,)))
    with pytest.raises(LoopError, match="1 results, 0 outputs"):
        verify(Loops("f", inner, (), terms, (0,)))


@pytest.mark.parametrize(
    "line",
    [
        "%x = fadd contract float %a, %b",
        "%x = fmul fast <8 x float> %a, %b",
        "%x = add nsw i64 %a, %b",
        "%x = sdiv i32 %a, %b",
        "%x = fptosi float %a to i32",
        "%x = call float @llvm.fmuladd.f32(float %a, float %b, float %c)",
        "%x = insertelement <8 x float> poison, float %a, i32 0",
        "call void @llvm.trap()",
        "unreachable",
    ],
)
def test_text_that_leaves_a_result_open(line: str) -> None:
    with pytest.raises(LoopError, match="leaves the result open"):
        verify_llvm(f"  %a = fadd float %b, %c\n  {line}\n")
    verify_llvm("  %x = call i32 @llvm.fptosi.sat.i32.f32(float %a)\n  %a = fadd float %b, %c\n")


@pytest.mark.parametrize("target", sorted(REGISTERS))
@pytest.mark.parametrize("name", ["add", "exp", "log", "tanh", "sum", "max", "softmax"])
def test_rendered_text_passes(name: str, target: str) -> None:
    text = render(loops_of(name, *["f64"] * OPS[name].inputs), target)
    assert f'@"{name}_f64"' in text
