"""Arrays of one row that all rows of the loops read: the same bits as with an array of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.interpreter import interpret
from eagerflow_kernels.native.loop_form import LoopArray, LoopBuilder, Loops, LoopSignature
from eagerflow_kernels.native.loop_text import show
from eagerflow_kernels.native.verify import LoopError, verify
from tests.kernels.native.compiling import TARGETS, elements, layouts, needs_compiler, same, shared

pytestmark = needs_compiler

_NODES = [
    FusedNode("multiply", (0, 1)), FusedNode("add", (3, 2)), FusedNode("max", (4,)),
    FusedNode("subtract", (4, 5)), FusedNode("argmin", (6,)),
]  # fmt: skip


def _loops(kind: Any, *, is_shared: bool) -> Loops:
    rows, row = LoopArray(kind, inner=True), LoopArray(kind, inner=True, shared=is_shared)
    return fuse("parts", [rows, row, row], _NODES, [6, 5, 7])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_rows_of_any_length_and_layout(target: Any, kind: Any) -> None:
    rng = np.random.default_rng(0)
    region = NativeRegion(_loops(kind, is_shared=True), target=target)
    apart = NativeRegion(_loops(kind, is_shared=False), target=target)
    for rows, length in ((300, 1), (40, 7), (150, 16), (50, 17), (3, 5), (9, 600)):
        x = elements(rng, kind, (rows, length))
        one, two = elements(rng, kind, (2, length))
        expected = apart(x, one, two)
        for name, given in layouts(x).items():
            for row in (one, np.repeat(one, 3)[::3], one[::-1].copy()[::-1]):
                made = shared(region.ufunc, [given, row, two], 3)
                assert all(map(same, made, expected)), (length, name)


def test_the_interpreter_agrees() -> None:
    rng = np.random.default_rng(0)
    loops = _loops("f32", is_shared=True)
    x, one, two = elements(rng, "f32", (20, 9)), *elements(rng, "f32", (2, 9))
    defined = interpret(loops, [x.tolist(), [one.tolist()] * 20, [two.tolist()] * 20])
    assert all(map(same, NativeRegion(loops)(x, one, two), defined))


def test_text_and_signature() -> None:
    loops = _loops("f32", is_shared=True)
    assert loops.signature.head == "parts(f32[n], f32[=n], f32[=n]) -> f32[n], f32, i64"
    assert LoopSignature.read(loops.signature.head) == loops.signature
    assert show(loops).startswith(f"loops {loops.signature.head}:")


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (LoopArray("f32", shared=True), "has the inner axis"),
        (LoopArray("f32", inner=True, table=True, shared=True), "has the inner axis"),
    ],
)
def test_a_shared_array_has_only_the_inner_axis(array: LoopArray, why: str) -> None:
    b = LoopBuilder([array, LoopArray("f32", inner=True)])
    with pytest.raises(LoopError, match=why):
        verify(b.build("wrong", [b.load(1)]))


def test_regions_share_the_rows_of_vectors() -> None:
    """A vector beside a matrix is one row; a matrix has rows, a column one element for each."""

    @ef.trace(compile="now")
    def f(x: Any, column: Any, bias: Any) -> Any:
        return ef.argmin((x + column) * bias, axis=1)

    rng = np.random.default_rng(0)
    given = [ef.tensor(rng.normal(size=n).astype("f4")) for n in ((40, 8), (40, 1), (8,))]
    least = f(*given)
    assert "(f32[n], f32, f32[=n]) -> i64" in f.ir("loops")
    x, column, bias = (t.numpy() for t in given)
    assert same(least.numpy(), np.argmin((x + column) * bias, axis=1))
