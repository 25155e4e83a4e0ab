"""The index of an extreme element of each row, in one pass over rows that lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.interpreter import DTYPES, interpret
from eagerflow_kernels.native.llvm.passes import passes_of
from eagerflow_kernels.native.loop_form import LoopArray, Loops
from eagerflow_kernels.native.op_rules import loops_of
from tests.kernels.native.compiling import TARGETS, elements, layouts, needs_compiler, same, shared

pytestmark = needs_compiler

_OPS = {"argmin": np.argmin, "argmax": np.argmax}


def _passes(loops: Loops) -> int:
    return sum(bool(p.reductions) for p in passes_of(loops, searching=True, joining=True))


@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("op", _OPS)
def test_rows_of_any_length_and_layout(op: str, kind: Any) -> None:
    """The first of equal elements counts, zeros are equal, and a NaN is before all numbers."""
    rng = np.random.default_rng(0)
    loops = loops_of(op, kind)
    assert _passes(loops) == 1
    regions = [NativeRegion(loops, target=target) for target in TARGETS]
    for rows, length in ((70, 1), (33, 2), (40, 7), (17, 16), (50, 17), (9, 300)):
        x = elements(rng, kind, (rows, length))
        x[: rows // 3] = x[: rows // 3, :1]  # all equal
        x[rows // 3 : rows // 2] = np.round(rng.normal(size=(rows // 2 - rows // 3, length)))
        expected = _OPS[op](x, axis=1)
        for region in regions:
            for name, given in layouts(x).items():
                assert same(shared(region.ufunc, [given], 3), expected), (length, name)


@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_rows_of_one_value(op: str, value: float) -> None:
    x = np.full((40, 5), value, np.float32)
    x[20:, 3] = np.nan
    region = NativeRegion(loops_of(op, "f32"))
    assert same(region(x), _OPS[op](x, axis=1))


def test_elements_are_computed_once() -> None:
    """The extreme element of computed ones: its index is that of single ops, and as defined."""
    rng = np.random.default_rng(0)
    arrays = [LoopArray("f32", inner=True), LoopArray("f32", inner=True)]
    nodes = [FusedNode("multiply", (0, 1)), FusedNode("add", (2, 0)), FusedNode("argmin", (3,))]
    loops = fuse("nearest", arrays, nodes, [4])
    assert _passes(loops) == 1
    x, y = elements(rng, "f32", (50, 16)), elements(rng, "f32", (16,))
    with np.errstate(all="ignore"):
        expected = np.argmin(x * y + x, axis=1)
    assert same(NativeRegion(loops)(x, y), expected)
    (defined,) = interpret(loops, [x[:9].tolist(), [y.tolist()] * 9])
    assert same(defined, expected[:9])


@pytest.mark.parametrize("extra", [FusedNode("min", (0,)), FusedNode("sum", (0,))])
def test_another_result_keeps_passes_apart(extra: FusedNode) -> None:
    rng = np.random.default_rng(0)
    nodes = [FusedNode("argmin", (0,)), extra]
    loops = fuse("several", [LoopArray("f32", inner=True)], nodes, [1, 2])
    assert _passes(loops) == 2
    x = rng.normal(size=(40, 9)).astype(DTYPES["f32"])
    index, other = NativeRegion(loops)(x)
    assert same(index, x.argmin(axis=1))
    assert np.allclose(other, getattr(x, extra.op)(axis=1), rtol=1e-5, atol=1e-5)
