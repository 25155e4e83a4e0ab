"""Regions: several ops in one call, with the bits of the single ops."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import along_axes, native_ufunc
from eagerflow_kernels.native.fusion import FailedCheckError, FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.interpreter import interpret
from eagerflow_kernels.native.llvm.passes import passes_of
from eagerflow_kernels.native.loop_form import LoopArray
from tests.kernels.native.compiling import TARGETS, elements, layouts, needs_compiler, same, shared

pytestmark = needs_compiler

_ROW, _ELEMENTS = LoopArray("f32"), LoopArray("f32", inner=True)


def _alone(op: str, *arrays: Any) -> Any:
    return native_ufunc(op, *["f32"] * len(arrays))(*arrays)


def test_bias_and_softmax_of_a_product() -> None:
    """The product, a sum of products over an axis, is one region; the ops after it are another."""
    rng = np.random.default_rng(0)
    product = fuse(
        "product",
        [_ELEMENTS, _ELEMENTS],
        [FusedNode("multiply", (0, 1)), FusedNode("sum", (2,))],
        [3],
    )
    rest = fuse(
        "rest", [_ELEMENTS, _ELEMENTS], [FusedNode("add", (0, 1)), FusedNode("softmax", (2,))], [3]
    )
    regions = [(NativeRegion(product, target=t), NativeRegion(rest, target=t)) for t in TARGETS]
    for rows, inner, columns in ((1, 1, 1), (5, 33, 10), (40, 130, 65), (3, 700, 17)):
        x = rng.normal(size=(rows, inner)).astype(np.float32)
        w, bias = elements(rng, "f32", (inner, columns)), elements(rng, "f32", (columns,))
        products = _alone("multiply", x[:, None, :], w.T)
        expected = _alone(
            "add", along_axes(native_ufunc("sum", "f32"))(products, axis=(2,), keepdims=False), bias
        )
        expected = native_ufunc("softmax", "f32")(expected)
        for by_target in regions:
            for layout, given in layouts(w).items():
                for threads in (1, 2, 4):
                    made = shared(by_target[0].ufunc, [x[:, None, :], given.T], threads)
                    assert same(shared(by_target[1].ufunc, [made, bias], threads), expected), (
                        layout,
                        threads,
                    )


#: twenty ops on x (0) and y (1), each applied to the result of the one before
_CHAIN = [
    FusedNode("multiply", (0, 1)), FusedNode("add", (2, 0)), FusedNode("tanh", (3,)),
    FusedNode("multiply", (4, 1)), FusedNode("exp", (5,)), FusedNode("add", (6, 0)),
    FusedNode("reciprocal", (7,)), FusedNode("multiply", (8, 0)), FusedNode("subtract", (9, 1)),
    FusedNode("square", (10,)), FusedNode("add", (11, 1)), FusedNode("sqrt", (12,)),
    FusedNode("multiply", (13, 0)), FusedNode("sigmoid", (14,)), FusedNode("add", (15, 0)),
    FusedNode("multiply", (16, 1)), FusedNode("maximum", (17, 0)), FusedNode("subtract", (18, 1)),
    FusedNode("negative", (19,)), FusedNode("abs", (20,)),
]  # fmt: skip


def _one_by_one(nodes: list[FusedNode], *inputs: Any) -> list[Any]:
    values = list(inputs)
    for node in nodes:
        values.append(_alone(node.op, *(values[x] for x in node.inputs)))
    return values


@pytest.mark.parametrize("target", TARGETS)
def test_twenty_ops(target: Any) -> None:
    rng = np.random.default_rng(0)
    region = NativeRegion(fuse("chain", [_ROW, _ROW], _CHAIN, [21]), target=target)
    for count in (*range(0, 66, 5), 1, 16, 17, 511, 513, 3000):
        x, y = elements(rng, "f32", (count,)), elements(rng, "f32", (count,))
        expected = _one_by_one(_CHAIN, x, y)[-1]
        for given in layouts(x).values() if count else ():
            assert same(region(given, y), expected), count
            assert same(shared(region.ufunc, [given, y], 3), expected), count
    x, y = elements(rng, "f32", (30, 1)), elements(rng, "f32", (77,))
    assert same(region(x, y), _one_by_one(_CHAIN, x, y)[-1])
    assert same(shared(region.ufunc, [x, y], 4), _one_by_one(_CHAIN, x, y)[-1])
    assert same(region(x, np.float32(2)), _one_by_one(_CHAIN, x, np.float32(2))[-1])


@pytest.mark.parametrize("switch", [0, 7, 31, 60])
def test_a_region_that_takes_over_in_the_middle_changes_nothing(switch: int) -> None:
    """Gradient descent on a logistic loss: by ops up to a step, by a region from there on."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=70).astype(np.float32), rng.integers(0, 2, 70).astype(np.float32)
    nodes = [
        FusedNode("multiply", (0, 1)), FusedNode("sigmoid", (3,)), FusedNode("subtract", (4, 2)),
        FusedNode("multiply", (5, 1)), FusedNode("sum", (6,)),
    ]  # fmt: skip
    region = NativeRegion(fuse("slope", [_ROW, _ELEMENTS, _ELEMENTS], nodes, [7]))

    def trained(by_region_from: int) -> list[float]:
        w, weights = np.float32(0), []
        for step in range(61):
            by_region = step >= by_region_from
            slope = region(w, x, y) if by_region else _one_by_one(nodes, w, x, y)[-1]
            w = np.float32(w - np.float32(0.05) * slope)
            weights.append(float(w))
        return weights

    assert trained(switch) == trained(1000)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_rows_of_a_table(target: Any, kind: Any) -> None:
    """Rows are picked from tables of any layout; the ops after that have the bits of single ops."""
    rng = np.random.default_rng(0)
    arrays = [LoopArray("f32", True, table=True), LoopArray(kind), _ELEMENTS]
    nodes = [FusedNode("take", (0, 1)), FusedNode("multiply", (3, 2)), FusedNode("softmax", (4,))]
    loops = fuse("rows", arrays, nodes, [3, 5])
    region = NativeRegion(loops, target=target)
    for count, length, rows in ((3, 1, 1), (5, 33, 20), (2, 700, 65)):
        table, y = elements(rng, "f32", (count, length)), elements(rng, "f32", (length,))
        places = rng.integers(0, count, rows).astype({"i32": "i4", "i64": "i8"}[kind])
        expected = table[places], _alone("softmax", _alone("multiply", table[places], y))
        some = places[:7].tolist()  # rows are independent, the interpreter slow
        defined = interpret(loops, [table.tolist(), some, [y.tolist()] * len(some)])
        assert all(same(rows, whole[:7]) for rows, whole in zip(defined, expected, strict=True))
        for given in layouts(table).values():
            assert all(map(same, shared(region.ufunc, [given.T, places, y], 3), expected))


def test_values_on_the_way_can_be_results() -> None:
    rng = np.random.default_rng(0)
    nodes = [FusedNode("exp", (0,)), FusedNode("sum", (1,)), FusedNode("divide", (1, 2))]
    region = NativeRegion(fuse("several", [_ELEMENTS], nodes, [1, 2, 3]))
    x = elements(rng, "f32", (9, 300))
    exponentials, total, quotient = region(x)
    assert same(exponentials, _alone("exp", x))
    assert same(total, _alone("sum", exponentials))
    assert same(quotient, _alone("divide", exponentials, total[:, None]))


def test_layer_norm_takes_three_passes_and_no_memory() -> None:
    rng = np.random.default_rng(0)
    nodes = [
        FusedNode("mean", (0,)), FusedNode("subtract", (0, 3)), FusedNode("square", (4,)),
        FusedNode("mean", (5,)), FusedNode("add", (6, 2)), FusedNode("rsqrt", (7,)),
        FusedNode("multiply", (4, 8)), FusedNode("multiply", (9, 1)),
    ]  # fmt: skip
    loops = fuse("norm", [_ELEMENTS, _ELEMENTS, _ROW], nodes, [10])
    assert [len(p.reductions) for p in passes_of(loops)] == [1, 1, 0]
    assert not any(p.kept for p in passes_of(loops))  # x - mean is cheaper than reading it
    region = NativeRegion(loops)
    x, scale = (
        rng.normal(size=(20, 333)).astype(np.float32),
        rng.normal(size=333).astype(np.float32),
    )
    output = region(x, scale, np.float32(1e-5))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale
    assert np.abs(output - exact).max() < 2e-6
    for given in layouts(x).values():
        assert same(region(given, scale, np.float32(1e-5)), output)


def test_what_takes_long_is_computed_once() -> None:
    """The softmax times y, and its derivative: exponentials are kept in the last result's row."""
    nodes = [
        FusedNode("softmax", (0,)), FusedNode("multiply", (2, 1)), FusedNode("sum", (3,)),
        FusedNode("multiply", (2, 4)), FusedNode("subtract", (3, 5)),
    ]  # fmt: skip
    loops = fuse("gradient", [_ELEMENTS, _ELEMENTS], nodes, [3, 6])
    *_, wide, third, last = passes_of(loops)
    exponentials = loops.terms[wide.reductions[0]].operands[0]
    assert wide.stores == ((1, exponentials),)
    assert third.kept[exponentials] == last.kept[exponentials] == 1
    x, y = np.random.default_rng(0).normal(size=(2, 5, 300)).astype(np.float32)
    weighed, slope = NativeRegion(loops)(x, y)
    share = _alone("softmax", x)
    assert np.array_equal(weighed, share * y)
    assert np.array_equal(slope, share * y - share * _alone("sum", share * y)[:, None])


def test_a_check_that_fails_names_itself_and_the_row() -> None:
    nodes = [FusedNode("less_equal", (1, 0)), FusedNode("less", (0, 2)), FusedNode("sqrt", (0,))]
    region = NativeRegion(fuse("root", [_ROW, _ROW, _ROW], nodes, [5], checks=[3, 4]), checked=True)
    x = np.array([[1.0, 4.0, 9.0], [16.0, 25.0, 36.0]], np.float32)
    low, high = np.float32(0), np.float32(100)
    assert region(x, low, high).tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(FailedCheckError, match=r"check 1 failed at \(1, 2\)") as failed:
        region(np.where(x == 36, -1, x).astype(np.float32), low, high)
    assert (failed.value.check, failed.value.place) == (1, (1, 2))
    with pytest.raises(FailedCheckError, match="check 2"):
        region(x, low, np.float32(20))


def test_a_check_of_elements_names_the_row() -> None:
    nodes = [FusedNode("less_equal", (1, 0)), FusedNode("sum", (0,))]
    region = NativeRegion(fuse("total", [_ELEMENTS, _ROW], nodes, [3], checks=[2]), checked=True)
    x = np.ones((7, 300), np.float32)
    assert region(x, np.float32(0)).tolist() == [300] * 7
    x[5, 299] = -1
    with pytest.raises(FailedCheckError, match=r"check 1 failed at \(5,\)"):
        region(x, np.float32(0))


def test_other_threads_run_meanwhile() -> None:
    """The GIL is released: Python code runs from the beginning of a long call to its end."""
    region = NativeRegion(fuse("chain", [_ROW, _ROW], _CHAIN, [21]))
    x = np.ones(4_000_000, np.float32)
    region(x, x)
    begun, seen = threading.Event(), 0
    ended: list[bool] = []

    def call() -> None:
        begun.set()
        region(x, x)
        ended.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    while not ended:
        seen += 1
    thread.join()
    assert seen > 10


def test_many_threads_in_one_region() -> None:
    rng = np.random.default_rng(0)
    region = NativeRegion(fuse("chain", [_ROW, _ROW], _CHAIN, [21]))
    arrays = [elements(rng, "f32", (5000,)) for _ in range(8)]
    expected = [region(x, x) for x in arrays]
    results: list[Any] = [None] * 8

    def call(i: int) -> None:
        for _ in range(20):
            results[i] = shared(region.ufunc, [arrays[i]] * 2, 2)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(same(x, y) for x, y in zip(results, expected, strict=True))
