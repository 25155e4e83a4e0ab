"""Equal bits of kernels: interpreted or compiled, for all strides, lengths, threads, callers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import along_axes, native_ufunc
from eagerflow_kernels.native.constant_folding import fold_constants
from eagerflow_kernels.native.fusion import FusedNode, fuse
from eagerflow_kernels.native.interpreter import DTYPES, interpret
from eagerflow_kernels.native.loop_form import (
    FLOATS,
    INTEGERS,
    OPERATIONS,
    SCANS,
    Kind,
    LoopArray,
    LoopBuilder,
    Loops,
)
from eagerflow_kernels.native.op_rules import OPS, loops_of
from eagerflow_kernels.native.verify import verify
from tests.kernels.native.compiling import (
    TARGETS,
    FloatState,
    elements,
    layouts,
    needs_compiler,
    run,
    same,
    shared,
)

pytestmark = needs_compiler

_TAILS: Final = (*range(66), 127, 128, 129, 300, 400, 511, 512, 513, 1100)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["reciprocal", "exp", "log", "tanh", "sigmoid"])
def test_elementwise(name: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    functions = [native_ufunc(name, kind, target=t) for t in TARGETS]
    loops = loops_of(name, kind)
    for count in _TAILS:
        x = elements(rng, kind, (count,))
        expected = functions[0](x)
        if count < 40:
            assert same(expected, interpret(loops, [x])[0])
        for function, (layout, given) in product(functions, layouts(x).items()):
            assert same(function(given), expected), (count, layout)
    plane = elements(rng, kind, (37, 70))
    expected = functions[0](plane)
    for function, (layout, given) in product(functions, layouts(plane).items()):
        assert same(function(given), expected), layout
        assert same(shared(function, [given], 2), expected)
        assert same(shared(function, [given], 4), expected)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    "name",
    ["sum", "max", "mean", "logsumexp", "softmax", "log_softmax", "argmax", "argmin",
     "cumulative_sum", "cumulative_prod"],
)  # fmt: skip
def test_along_an_axis(name: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    functions = [native_ufunc(name, kind, target=t) for t in TARGETS]
    loops = loops_of(name, kind)
    for count in _TAILS:
        for rows in (1, 7, 70) if count < 130 else (2,):
            x = elements(rng, kind, (rows, count))
            expected = functions[0](x)
            if count < 20 and rows == 7 and count:
                assert same(expected, interpret(loops, [x])[0])
            for function, (layout, given) in product(functions, layouts(x).items()):
                assert same(function(given), expected), (rows, count, layout)
            assert same(shared(functions[0], [x], 4), expected)


@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_sums_over_axes(axis: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = elements(rng, "f32", (9, 31, 140))
    kept = [i for i in range(3) if i not in axis]
    rows = x.transpose(*kept, *axis).reshape(*(x.shape[i] for i in kept), -1)
    expected = native_ufunc("sum", "f32")(np.ascontiguousarray(rows))
    for target, order in product(TARGETS, ["C", "F", "K"]):
        total = along_axes(native_ufunc("sum", "f32", target=target))
        given = np.array(
            x.transpose(1, 0, 2) if order == "K" else x, order="C" if order == "K" else order
        )
        given = given.transpose(1, 0, 2) if order == "K" else given
        assert same(total(given, axis=axis, keepdims=False), expected)
        kept_dims = total(given, axis=axis, keepdims=True)
        assert kept_dims.shape == tuple(1 if i in axis else d for i, d in enumerate(x.shape))
        assert same(kept_dims.reshape(np.shape(expected)), expected)


def test_overlapping_elements() -> None:
    x = np.arange(40, dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, 30)
    assert same(native_ufunc("sum", "f32")(windows), native_ufunc("sum", "f32")(windows.copy()))
    repeated = np.broadcast_to(np.float32(3), (5, 33))
    for name in ("exp", "softmax", "sum"):
        assert same(native_ufunc(name, "f32")(repeated), native_ufunc(name, "f32")(repeated.copy()))


def test_results_may_lie_where_inputs_do() -> None:
    rng = np.random.default_rng(0)
    for name in ("exp", "softmax"):
        function = native_ufunc(name, "f32")
        x = elements(rng, "f32", (5, 700))
        expected = function(x)
        assert same(function(x, out=x), expected)
        for shift in (1, 3):
            x = elements(rng, "f32", (1, 700))
            expected = function(x[:, :-shift])
            assert same(function(x[:, :-shift], out=x[:, shift:]), expected)


@pytest.mark.parametrize("name", ["exp", "softmax", "log_softmax"])
@pytest.mark.parametrize("target", TARGETS)
def test_results_may_lie_apart(name: str, target: Any) -> None:
    rng = np.random.default_rng(0)
    function = native_ufunc(name, "f32", target=target)
    for count in (1, 15, 17, 600):
        x = elements(rng, "f32", (6, count))
        expected = function(x)
        for out in layouts(np.full((6, count), 7, np.float32)).values():
            assert same(function(x, out=out), expected)
            assert same(out, expected)


# --- callers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exp", "reciprocal", "sum", "softmax"])
def test_flushing_of_subnormals_by_the_caller_changes_nothing(name: str) -> None:
    function = native_ufunc(name, "f32")
    x = np.array([[1e-40, 3e-39, -2e-45, 1e-38], [-100.0, -103.0, 3e38, -95.0]], np.float32)
    expected = function(x)
    state = FloatState()
    before = state.read()
    flushing = before | 0x8040  # FTZ, DAZ
    state.write(flushing)
    try:
        result = function(x)
        after = state.read()
    finally:
        state.write(before)
    assert same(result, expected)
    assert after == flushing
    if name == "sum":
        assert expected[0] != 0  # a subnormal number


def test_rounding_of_the_caller_changes_nothing_and_stays() -> None:
    x = np.linspace(-3, 3, 300, dtype=np.float32)
    expected = native_ufunc("tanh", "f32")(x)
    state = FloatState()
    before = state.read()
    upwards = before & ~0x6000 | 0x4000
    state.write(upwards)
    try:
        result = native_ufunc("tanh", "f32")(x)
        after = state.read()
    finally:
        state.write(before)
    assert same(result, expected)
    assert after == upwards


def test_no_warning() -> None:
    x = np.array([0.0, -1.0, np.inf, np.nan, 1e308, -1e308, 5e-324])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for name in (
            "reciprocal",
            "exp",
            "log",
            "sqrt",
            "tanh",
            "sigmoid",
            "sum",
            "softmax",
            "mean",
        ):
            for kind in FLOATS:
                with np.errstate(all="ignore"):
                    given = x.astype(np.float32 if kind == "f32" else np.float64)
                native_ufunc(name, kind)(given)
                native_ufunc(name, kind)(given[:0])


# --- random loops -----------------------------------------------------------------------------

_SEEDS: Final = 8
#: operations with kinds that are translated alike; random terms alone leave most of them out
_DEALT: Final = [
    (operation, alike)
    for operation, of in sorted(OPERATIONS.items())
    for kinds in (FLOATS, INTEGERS, ("bool",))
    if operation != "convert" and (alike := [kind for kind in kinds if kind in of.kinds])
]


def _random_loops(rng: np.random.Generator, inner: bool, dealt: Sequence[Any]) -> Loops:
    """Loops of random terms over arrays of random kinds.

    Among their results are terms of the operations that are ``dealt``, each of given kinds.
    """
    kinds: list[Kind] = [*FLOATS, *INTEGERS, "bool"]
    arrays = [LoopArray(rng.choice(kinds), inner and bool(rng.integers(2))) for _ in range(3)]
    arrays.append(LoopArray("f32", inner))
    b = LoopBuilder(arrays)
    terms = [b.load(i) for i in range(4)] + ([b.index()] if inner else [])
    for kind in FLOATS:
        terms.append(b.constant(float(rng.choice([0.5, -3.0, 0.0, np.inf])), kind))
    certain = [_term_of(rng, b, terms[:4], name, str(rng.choice(kinds))) for name, kinds in dealt]
    while len(terms) < 24:
        made = _random_term(rng, b, terms, kinds)
        if made is not None:
            terms.append(made)
        if inner and rng.random() < 0.15 and b.kind(terms[-1]) != "bool":
            terms.append(b.reduce(str(rng.choice(["sum", "max", "min"])), terms[-1]))
        if inner and rng.random() < 0.15 and b.kind(terms[-1]) != "bool":
            terms.append(b.scan(str(rng.choice(sorted(SCANS))), terms[-1]))
    results = [int(x) for x in rng.choice(terms[6:], 3, replace=False)] + [terms[-1], *certain]
    inners = [bool(inner and (b.terms[x].inner or rng.integers(2))) for x in results]
    loops = b.build("random", results, inners)
    verify(loops)
    return loops


def _random_term(
    rng: np.random.Generator, b: LoopBuilder, terms: list[int], kinds: list[Kind]
) -> int | None:
    operation = str(rng.choice(sorted(OPERATIONS)))
    of = OPERATIONS[operation]
    if operation == "convert":
        return b.apply("convert", int(rng.choice(terms)), kind=rng.choice(kinds))
    kind = str(rng.choice(of.kinds))
    fitting = [x for x in terms if b.kind(x) == kind]
    bools = [x for x in terms if b.kind(x) == "bool"]
    if not fitting or (operation == "select" and not bools):
        return None
    operands = [int(rng.choice(fitting)) for _ in range(of.operands)]
    if operation == "select":
        operands[0] = int(rng.choice(bools))
    return _applied(rng, b, operation, operands)


def _term_of(
    rng: np.random.Generator, b: LoopBuilder, loaded: list[int], operation: str, kind: str
) -> int:
    """A term of one operation and kind, of elements of different arrays."""
    chosen = rng.choice(loaded, OPERATIONS[operation].operands, replace=False)
    operands = [b.apply("convert", int(x), kind=kind) for x in chosen]
    if operation == "select":
        operands[0] = b.apply("convert", int(chosen[0]), kind="bool")
    return _applied(rng, b, operation, operands)


def _applied(rng: np.random.Generator, b: LoopBuilder, operation: str, operands: list[int]) -> int:
    kind = b.kind(operands[-1])
    if operation in ("bits", "copysign") and kind in FLOATS:
        operands[-1] = _without_nan(b, operands[-1])
    by = int(rng.integers(1, 31)) if operation.startswith("shift") else 0
    return b.apply(operation, *operands, by=by)


def _without_nan(b: LoopBuilder, x: int) -> int:
    """The term, with zero where it is NaN, since sign and payload of NaN are undefined."""
    return b.apply("select", b.apply("equal", x, x), x, b.constant(0.0, b.kind(x)))


def _check_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inner = bool(seed % 2)
    loops = _random_loops(rng, inner, _DEALT[seed % _SEEDS :: _SEEDS])
    if inner and not any(a.inner for a in loops.inputs):
        return
    folded = fold_constants(loops)
    for rows, length in ((3, 37), (35, 13), (2, 150)) if inner else ((3, 1), (70, 1)):
        given = [
            elements(rng, a.kind, (rows, length) if a.inner else (rows,)) for a in loops.inputs
        ]
        expected = interpret(loops, given)
        for target in TARGETS:
            for arrays in (given, [np.asfortranarray(x) for x in given]):
                results = run(folded, *arrays, target=target)
                for x, y in zip(results, expected, strict=True):
                    assert same(x, y), (seed, rows, length, target)


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_loops(seed: int) -> None:
    _check_random(seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(_SEEDS, 1000 + _SEEDS, 100))
def test_many_random_loops(first: int) -> None:
    for seed in range(first, first + 100):
        _check_random(seed)


@pytest.mark.parametrize("kind", FLOATS)
def test_operations_on_constants(kind: Kind) -> None:
    """No value of constants is left to LLVM, which lost the NaN of this minimum (seed 470)."""
    x, zero, least, quotient, smaller, total = range(6)
    nodes = [
        FusedNode("minimum", (zero, zero)),
        FusedNode("divide", (zero, least)),
        FusedNode("minimum", (zero, quotient)),
        FusedNode("add", (x, smaller)),
    ]
    loops = fuse("smaller", [LoopArray(kind)], nodes, [smaller, total], constants=[(kind, 0)])
    for target in TARGETS:
        for result in run(loops, np.ones(70, DTYPES[kind]), target=target):
            assert np.isnan(result).all()


@pytest.mark.parametrize("name", ["add", "maximum", "less", "square", "rsqrt", "relu"])
def test_arithmetic_is_that_of_numpy(name: str) -> None:
    rng = np.random.default_rng(3)
    x, y = elements(rng, "f32", (3, 200)), elements(rng, "f32", (200,))
    references: dict[str, Any] = {
        "add": lambda: x + y,
        "maximum": lambda: np.where(np.isnan(x), x, np.maximum(x, y)),
        "less": lambda: x < y,
        "square": lambda: x * x,
        "rsqrt": lambda: 1 / np.sqrt(x),
        "relu": lambda: np.maximum(x, np.float32(0)),
    }
    with np.errstate(all="ignore"):
        expected = references[name]()
    inputs = OPS[name].inputs
    result = native_ufunc(name, *["f32"] * inputs)(*(x, y)[:inputs])
    assert np.array_equal(result, expected, equal_nan=expected.dtype.kind == "f")


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("axis", [0, 1])
def test_running_totals_are_those_of_numpy(kind: Kind, axis: int) -> None:
    rng = np.random.default_rng(4)
    x = elements(rng, kind, (70, 333))
    for name, function in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
        with np.errstate(all="ignore"):
            expected = function(x, axis=axis)
        for target, given in product(TARGETS, layouts(x).values()):
            assert same(native_ufunc(name, kind, target=target)(given, axis=axis), expected)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, "bool"])
def test_places_of_extremes_are_those_of_numpy(kind: Kind) -> None:
    rng = np.random.default_rng(5)
    x = elements(rng, kind, (40, 200))
    x = np.round(x) if kind in FLOATS else x  # so that some elements are equal
    for name, function in (("argmax", np.argmax), ("argmin", np.argmin)):
        for target, (axis, given) in product(TARGETS, enumerate((x.T, x))):
            assert same(run(loops_of(name, kind), given, target=target)[0], function(x, axis=axis))


@pytest.mark.parametrize("kind", ["f32", "f64", "i32"])
def test_the_first_place_is_found_wherever_it_is(kind: Kind) -> None:
    """The first place is at each index of short rows, and near ends of vectors of longer ones."""
    for length in (1, 7, 33, 65, 513, 1100):
        places = [i for i in range(length) if length < 70 or i % 128 in (0, 1, 31, 127)]
        x = np.zeros((len(places), length), DTYPES[kind])
        for row, place in zip(x, places, strict=True):
            row[place] = row[(place + length) // 2] = -1  # and an equal one behind it
        for target, given in product(
            TARGETS, (x, np.asfortranarray(x), x[:, ::-1].copy()[:, ::-1])
        ):
            assert run(loops_of("argmin", kind), given, target=target)[0].tolist() == places


@pytest.mark.parametrize("length", [1, 3, 8, 13, 16, 17])
@pytest.mark.parametrize("rows", [15, 16, 130, 257])
def test_short_rows_with_values_of_rows_and_of_columns(rows: int, length: int) -> None:
    """Elements of one, two, four and eight bytes; arrays that are shared by all rows."""
    kinds: tuple[Kind, ...] = ("f32", "f32", "bool", "f16", "f64")
    b = LoopBuilder([LoopArray(k, inner=i != 1) for i, k in enumerate(kinds)])
    x, of_row, chosen, low, double = (
        b.apply("convert", b.load(i), kind="f32") if kind in ("f16", "f64") else b.load(i)
        for i, kind in enumerate(kinds)
    )
    y = b.apply("select", chosen, b.apply("add", x, of_row), b.apply("multiply", low, double))
    total = b.reduce("sum", y)
    rest = b.apply("subtract", y, total)
    results = [total, rest, b.apply("convert", rest, kind="f16"), b.apply("less", rest, x)]
    loops = b.build("mixed", [*results, b.reduce("max", rest)])
    verify(loops)
    rng = np.random.default_rng(length)
    given = [
        elements(rng, kind, (rows, length) if i != 1 else (rows,)) for i, kind in enumerate(kinds)
    ]
    row = np.broadcast_to(elements(rng, "f64", (length,)), (rows, length))
    given[4] = row  # the same for all rows
    expected = run(loops, *[np.asfortranarray(x) for x in given], target=TARGETS[0])
    if rows * length < 300:
        for x, y in zip(interpret(loops, given), expected, strict=True):
            assert same(x, y)
    for target in TARGETS:
        apart = [np.repeat(g, 2, 0)[::2] for g in given]
        for arrays in (given, apart, [g[::-1].copy()[::-1] for g in given]):
            for x, y in zip(run(loops, *arrays, target=target), expected, strict=True):
                assert same(x, y)


@pytest.mark.parametrize("length", [0, 1, 40, 600])
def test_where_nothing_fulfils_a_condition_the_place_is_the_size(length: int) -> None:
    b = LoopBuilder([LoopArray("f32", inner=True), LoopArray("f32")])
    met = b.apply("less", b.load(0), b.load(1))
    first = b.reduce("min", b.apply("select", met, b.index(), b.size("i64")))
    loops = b.build("first", [first])
    x = np.linspace(1, 0, 3 * length, dtype="f4").reshape(3, length)
    bounds = np.array([-1, 2, 0.5], "f4")
    (expected,) = interpret(loops, [x, bounds])
    for target in TARGETS:
        assert same(run(loops, x, bounds, target=target)[0], expected)
    assert expected[0] == (length or np.iinfo("i8").max)
