"""The loop form: its builder, and its text."""

from __future__ import annotations

import math
from typing import Any

import pytest

from eagerflow_kernels.native.functions.arithmetic import nearest
from eagerflow_kernels.native.loop_form import (
    LoopArray,
    LoopBuilder,
    LoopSignature,
    bits_of,
    value_of,
)
from eagerflow_kernels.native.loop_text import show
from eagerflow_kernels.native.op_rules import OPS, loops_of
from eagerflow_kernels.native.verify import verify


def test_a_term_is_written_once() -> None:
    b = LoopBuilder([LoopArray("f32")])
    x = b.load(0)
    assert b.apply("multiply", x, x) == b.apply("multiply", x, x)
    assert b.constant(2.0, x) == b.constant(2.0, "f32") != b.constant(2.0, "f64")
    assert b.constant(0.0, x) != b.constant(-0.0, x)


def test_what_no_result_needs_is_left_out() -> None:
    b = LoopBuilder([LoopArray("f32")])
    x = b.load(0)
    b.apply("sqrt", x)
    loops = b.build("double", [b.apply("add", x, x)])
    assert [t.operation for t in loops.terms] == ["load", "add"]


def test_a_term_of_elements_makes_its_results_elements() -> None:
    b = LoopBuilder([LoopArray("f32", inner=True), LoopArray("f32")])
    x, y = b.load(0), b.load(1)
    assert b.terms[b.apply("add", x, y)].inner
    assert not b.terms[b.apply("add", b.reduce("sum", x), y)].inner
    assert b.build("sum", [b.reduce("sum", x)]).inner
    assert not LoopBuilder([LoopArray("f32")]).build("none", []).inner


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -math.inf, 2.0**-149, 16777215.0])
def test_constants_are_exact(value: float) -> None:
    for kind in ("f32", "f64"):
        back = value_of(bits_of(value, kind), kind)
        assert back == value
        assert math.copysign(1, back) == math.copysign(1, value)


def test_a_constant_that_would_be_rounded_is_refused() -> None:
    assert bits_of(0.1, "f64") == 0x3FB999999999999A
    with pytest.raises(ValueError, match="no f32"):
        bits_of(0.1, "f32")


def test_text() -> None:
    assert show(loops_of("mean", "f32")) == "\n".join(
        [
            "loops mean_f32(f32[n]) -> f32:",
            "  %0 = load 0: f32[n]",
            "  %1 = sum %0: f32",
            "  %2 = size: f32",
            "  %3 = divide %1 %2: f32",
            "  return %3",
        ]
    )


_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "cast": {"kind": "f64"}, "silu": {"order": 1}, "gelu": {"approximate": "none", "order": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_is_verified_and_shown(name: str) -> None:
    op = OPS[name]
    for kind in op.kinds:
        kinds = ("bool", *[kind] * (op.inputs - 1)) if op.condition else (kind,) * op.inputs
        loops = loops_of(name, *kinds, **_ATTRIBUTES.get(name, {}))
        verify(loops)
        assert len(show(loops).splitlines()) == len(loops.terms) + 2


def test_an_op_is_not_native_for_every_kind() -> None:
    with pytest.raises(KeyError, match="exp is not native for i32"):
        loops_of("exp", "i32")
    with pytest.raises(KeyError, match="add is not native for f32, f64"):
        loops_of("add", "f32", "f64")


def test_a_signature_is_read_back() -> None:
    for loops in (loops_of("add", "f32", "f32"), loops_of("standardize", "f64")):
        assert LoopSignature.read(loops.signature.head) == loops.signature
    with pytest.raises(ValueError, match="'f31' is no kind"):
        LoopSignature.read("f(f31) -> f32")


def test_numbers_that_a_kind_cannot_hold_are_infinite() -> None:
    b = LoopBuilder([LoopArray("f32")])
    assert nearest(b, -1e300, b.load(0)) == b.constant(-math.inf, "f32")
    assert nearest(b, 0.1, b.load(0)) == b.constant(0.10000000149011612, "f32")
