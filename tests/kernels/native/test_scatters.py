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
from eagerflow_kernels.native.op_rules import sums_and_numbers_loops, sums_loops
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


def _doubled(kind: Kind, of_numbers: Kind) -> Loops:
    """Rows, and twice a number of each, to two tables of other sizes; a result for each."""
    b = LoopBuilder(
        [
            LoopArray(kind, True),
            LoopArray("i64"),
            LoopArray(of_numbers, table=True),
            LoopArray(kind, True, table=True),
            LoopArray(of_numbers),
        ]
    )
    place, number = b.load(1), b.load(4)
    numbers = b.scatter(2, b.apply("add", number, number), place)
    return b.build("doubled", [numbers, b.scatter(3, b.load(0), place)])


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
@pytest.mark.parametrize("kinds", [("f32", "f32"), ("f64", "i64"), ("i32", "f64")])
def test_rows_and_numbers_are_added_in_one_pass(kinds: tuple[Kind, Kind]) -> None:
    rng = np.random.default_rng(0)
    loops = _doubled(*kinds)
    functions = [compiled(loops, target) for target in TARGETS]
    for columns in (0, 1, 3, 8, 31, 64, 200):
        values, places, table, _ = _given(rng, kinds[0], 9, columns)
        numbers, totals = (elements(rng, kinds[1], (size,)) for size in (9, 3))
        sums, rows = totals.copy(), table.copy()
        expected = [*interpret(loops, [values, places, sums, rows, numbers], columns), sums, rows]
        assert [bool(x) for x in expected[0]] == [0 <= place < 3 for place in places]
        for function, x in product(functions, layouts(values).values()):
            sums, rows = totals.copy(), table.copy()
            made = [*function(x, places, sums, rows.T, numbers), sums, rows]
            assert all(map(same, made, expected)), columns


@needs_compiler
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("of_numbers", ["float32", "float64", "int64", "int16"])
def test_two_sums_by_the_same_ids(kind: Kind, of_numbers: str) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype(DTYPES[kind]).name
    both: Any = native_kernel("segment_sums", (dtype, of_numbers, "int64"))
    for rows, shape in product((0, 1, 7, 400), _SHAPES):
        values, ids = elements(rng, kind, (rows, *shape)), rng.integers(0, 6, rows)
        numbers = (100 * rng.normal(size=rows)).astype(of_numbers)
        with np.errstate(all="ignore"):
            one = portable.segment_sum(np, values, ids, num_segments=7)
            other = portable.segment_sum(np, numbers, ids, num_segments=7)
            for given, expected in (
                ((values, numbers), (one, other)),
                ((numbers, values), (other, one)),
                ((values, values), (one, one)),
            ):
                made = both(*given, ids, num_segments=7)
                assert all(map(same, made, expected))
                made = portable.segment_sums(np, *given, ids, num_segments=7)
                assert all(map(same, made, expected))
                made = by_scipy.segment_sums(*given, ids, num_segments=7)
                assert all(map(same, made, expected))
                assert all(x.base is None or x.base.nbytes == x.nbytes for x in made)


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
    both: Any = native_kernel("segment_sums", ("float32", "float32", "int64"))
    rows, numbers = np.ones((2, 3), np.float32), np.ones(2, np.float32)
    for bad in ([0, 6], [-1, 0]):
        with pytest.raises(IndexError, match="out of range for 6 segments"):
            both(rows, numbers, np.array(bad), num_segments=6)
    with pytest.raises(ValueError, match="3 ids for 2 values"):
        both(rows, numbers, np.zeros(3, np.int64), num_segments=6)
    with pytest.raises(ValueError, match="2 ids for 1 values"):
        both(rows, numbers[:1], np.zeros(2, np.int64), num_segments=6)


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
    for loops in (sums_loops("f64"), sums_and_numbers_loops("f64", "i64")):
        signature = loops.signature
        assert LoopSignature.read(signature.head) == signature
    with pytest.raises(ValueError, match="axes that no array has"):
        LoopSignature.read("wrong(f64[m]) -> f64")


def _refused(*wrong: str) -> Loops:
    """The loops of a sum with something that loops that add to a table must not have."""
    table = LoopArray("f32", True, table=True)
    b = LoopBuilder([LoopArray("f32", "order" not in wrong), LoopArray("i64"), table, table])
    if "numbers" in wrong:
        b.inputs[2] = LoopArray("f32", table=True)
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
        results.append(b.scatter(2, b.apply("add", x, x), place))
    if "elements" in wrong:
        results.append(x)
    loops = b.build("wrong", results)
    kept = 4 if "other" in wrong else 3
    return Loops(loops.name, loops.inputs[:kept], loops.outputs, loops.terms, loops.results)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("reduction", "not in loops that add to a table"),
        ("low", "cannot be added"),
        ("kind", "not a table of this kind"),
        ("place", "the number of a row of a table"),
        ("table", "not a table of this kind"),
        ("twice", "it adds to a table twice"),
        ("numbers", "the table has one element for a row"),
        ("order", "sizes are not in order"),
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
