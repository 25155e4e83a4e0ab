"""Rows that are added to the rows of a table: equal bits in every form, and refused loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.cpu import segment as by_scipy
from eagerflow_kernels.native.callable_ops import compiled, native_kernel
from eagerflow_kernels.native.interpreter import DTYPES, interpret
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.loop_form import (
    FLOATS,
    INTEGERS,
    Kind,
    LoopArray,
    LoopBuilder,
    Loops,
    LoopSignature,
)
from eagerflow_kernels.native.op_rules import sums_loops
from eagerflow_kernels.native.verify import LoopError, verify
from eagerflow_kernels.portable import segment as portable
from tests.kernels.native.compiling import (
    TARGETS,
    elements,
    layouts,
    needs_compiler,
    same,
    shared,
)

_SHAPES = ((), (1,), (3, 5), (64,), (200,), (0,))


def _scaled(kind: Kind) -> Loops:
    """Each row times a number of its own, plus the index of the element, and two results."""
    b = LoopBuilder(
        [
            LoopArray(kind, True),
            LoopArray("i32"),
            LoopArray(kind, True, table=True),
            LoopArray(kind),
        ]
    )
    place = b.apply("convert", b.load(1), kind="i64")
    x = b.apply("multiply", b.load(0), b.load(3))
    x = b.apply("add", x, b.apply("convert", b.index(), kind=kind))
    return b.build("scaled", [b.scatter(2, x, place), b.apply("add", b.load(3), b.size(kind))])


def _given(rng: np.random.Generator, kind: Kind, rows: int, columns: int) -> list[Any]:
    values, numbers = elements(rng, kind, (rows, columns)), elements(rng, kind, (rows,))
    return [values, rng.integers(-1, 6, rows), elements(rng, kind, (5, columns)), numbers]


def _table_of(function: np.ufunc, given: list[Any], threads: int = 1) -> list[Any]:
    """The table after a call, and the results."""
    table = given[2].copy()
    made = shared(function, [*given[:2], table.T, *given[3:]], threads)
    return [table, *(made if isinstance(made, tuple) else (made,))]


@needs_compiler
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_compiled_as_interpreted(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    loops = _scaled(kind)
    functions = [compiled(loops, target) for target in TARGETS]
    for columns in (0, 1, 2, 3, 7, 8, 15, 16, 31, 33, 63, 64, 65, 200):
        values, places, table, numbers = _given(rng, kind, 9, columns)
        given = [values, places.astype("i4"), table, numbers]
        changed = table.copy()
        expected = [changed, *interpret(loops, [*given[:2], changed, numbers], columns)]
        for function, (layout, x) in product(functions, layouts(values).items()):
            made = _table_of(function, [x, *given[1:]])
            assert all(map(same, made, expected)), (columns, layout)
        assert all(map(same, _table_of(functions[0], given, threads=4), expected))


@needs_compiler
@pytest.mark.parametrize("kind", FLOATS)
def test_sums_of_segments_are_those_of_the_portable_library(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype(DTYPES[kind])
    sums: Any = native_kernel("segment_sum", (dtype.name, "int64"))
    for rows, shape in product((0, 1, 7, 400), _SHAPES):
        values, ids = elements(rng, kind, (rows, *shape)), rng.integers(0, 6, rows)
        with np.errstate(all="ignore"):
            expected = portable.segment_sum(np, values, ids, num_segments=7)
            assert same(sums(values, ids, num_segments=7), expected)
            assert same(by_scipy.segment_sum(values, ids, num_segments=7), expected)
            backwards = values[::-1].copy()[::-1], ids[::-1].copy()[::-1]
        assert same(sums(*backwards, num_segments=7), expected)
        assert same(sums(np.asfortranarray(values), ids, num_segments=7), expected)


@needs_compiler
def test_ids_out_of_range() -> None:
    sums: Any = native_kernel("segment_sum", ("float32", "int64"))
    for bad in ([0, 6], [-1, 0]):
        with pytest.raises(IndexError, match="out of range for 6 segments"):
            sums(np.ones((2, 3), np.float32), np.array(bad), num_segments=6)
    with pytest.raises(ValueError, match="3 ids for 2 values"):
        sums(np.ones((2, 3), np.float32), np.zeros(3, np.int64), num_segments=6)


@needs_compiler
def test_the_gradient_of_picked_rows() -> None:
    rng = np.random.default_rng(0)
    kernel: Any = native_kernel("index_scatter", ("float32", "int64"))
    value, places = elements(rng, "f32", (3000, 8)), rng.integers(-40, 40, 3000)
    expected = np.zeros((40, 8), np.float32)
    with np.errstate(all="ignore"):
        np.add.at(expected, places, value)
    assert same(kernel(value, places, key=("array", ":"), shape=(40, 8)), expected)


def test_heads_with_tables_are_read() -> None:
    signature = sums_loops("f64").signature
    assert LoopSignature.read(signature.head) == signature


def _refused(*wrong: str) -> Loops:
    """The loops of a sum with something that loops that add to a table must not have."""
    table = LoopArray("f32", True, table=True)
    b = LoopBuilder([LoopArray("f32", True), LoopArray("i64"), table, table])
    x, place = b.load(0), b.load(1)
    if "reduction" in wrong:
        x = b.reduce("sum", x)
    if "low" in wrong:
        x = b.apply("convert", x, kind="f16")
    if "kind" in wrong:
        x = b.apply("convert", x, kind="f64")
    if "place" in wrong:
        place = b.apply("convert", place, kind="i32")
    results = [b.scatter(0 if "table" in wrong else 2, x, place)]
    if "twice" in wrong:
        results.append(b.scatter(3, x, place))
    if "elements" in wrong:
        results.append(x)
    loops = b.build("wrong", results)
    kept = 4 if {"twice", "other"} & set(wrong) else 3
    return Loops(loops.name, loops.inputs[:kept], loops.outputs, loops.terms, loops.results)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("reduction", "not in loops that add to a table"),
        ("low", "cannot be added"),
        ("kind", "not a table of this kind"),
        ("place", "the number of a row of a table"),
        ("table", "not a table of this kind"),
        ("twice", "it adds to 2 tables"),
        ("other", "another table"),
        ("elements", "its output has elements"),
    ],
)
def test_refused(wrong: str, message: str) -> None:
    verify(_refused())
    with pytest.raises(LoopError, match=message):
        verify(_refused(wrong))
    with pytest.raises(LoopError, match=message):
        render(_refused(wrong), "x86-64-v3")
