"""The interpreter, which defines the loop form, against arithmetic done by other means."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.interpreter import interpret, reduced, rounded
from eagerflow_kernels.native.loop_form import BLOCK, TALLIES, LoopArray, LoopBuilder
from eagerflow_kernels.native.op_rules import loops_of


def _apply(operation: str, kinds: list[Any], operands: list[list[Any]], **more: Any) -> Any:
    b = LoopBuilder([LoopArray(kind) for kind in kinds])
    loops = b.build("f", [b.apply(operation, *(b.load(i) for i in range(len(kinds))), **more)])
    return interpret(loops, operands)[0]


def test_rounding_to_floats_is_that_of_numpy() -> None:
    rng = np.random.default_rng(0)
    for x in rng.normal(size=300) * 10.0 ** rng.integers(-50, 39, 300):
        with np.errstate(all="ignore"):
            assert rounded(Fraction(float(x)), "f32") == float(np.float32(x))
        assert rounded(Fraction(float(x)), "f64") == float(x)
    assert rounded(Fraction(2) ** 128, "f32") == math.inf
    assert rounded(-(Fraction(2) ** 128) + 1, "f32") == -math.inf
    assert math.copysign(1, rounded(Fraction(-1, 2**2000), "f64")) == -1


def test_fma_rounds_once() -> None:
    x, y = 1 + 2.0**-12, 1 + 2.0**-12  # x * y = 1 + 2**-11 + 2**-24, halfway between two floats
    for z, expected in ((0.0, 1 + 2.0**-11), (2.0**-60, 1 + 2.0**-11 + 2.0**-23)):
        assert _apply("fma", ["f32"] * 3, [[x], [y], [z]])[0] == np.float32(expected)
    # in two roundings, to float64 and from there, the last bit is lost
    assert np.float32(np.float64(x) * y + 2.0**-60) == np.float32(1 + 2.0**-11)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((-0.0, 1.0, -0.0), -0.0),
        ((-0.0, 1.0, 0.0), 0.0),
        ((2.0, 3.0, -6.0), 0.0),
        ((math.inf, 0.0, 1.0), math.nan),
        ((math.inf, 1.0, -math.inf), math.nan),
        ((1e308, 10.0, -math.inf), -math.inf),
        ((1e308, 10.0, 0.0), math.inf),
    ],
)
def test_fma_of_zeros_and_infinities(operands: tuple[float, ...], expected: float) -> None:
    (result,) = _apply("fma", ["f64"] * 3, [[x] for x in operands])
    assert np.array_equal(result, expected, equal_nan=True)
    assert np.isnan(expected) or np.signbit(result) == np.signbit(expected)


def test_extremes_order_zeros_and_keep_nan() -> None:
    x, y = [0.0, -0.0, math.nan, 1.0], [-0.0, 0.0, 1.0, math.nan]
    larger = _apply("maximum", ["f32"] * 2, [x, y])
    smaller = _apply("minimum", ["f32"] * 2, [x, y])
    assert list(np.signbit(larger[:2])) == [False, False]
    assert list(np.signbit(smaller[:2])) == [True, True]
    assert np.isnan(larger[2:]).all()
    assert np.isnan(smaller[2:]).all()


def test_conversions_to_integers_saturate() -> None:
    x = [math.nan, math.inf, -math.inf, 3e9, -3e9, -1.9, 1.9]
    integers = _apply("convert", ["f32"], [x], kind="i32")
    assert integers.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 1]
    assert _apply("convert", ["i64"], [[2**32 + 5]], kind="i32").tolist() == [5]


def test_integers_wrap() -> None:
    assert _apply("multiply", ["i32"] * 2, [[2**30], [3]]).tolist() == [3 * 2**30 - 2**32]
    assert _apply("add", ["i64"] * 2, [[2**63 - 1], [1]]).tolist() == [-(2**63)]
    assert _apply("shift_right", ["i32"], [[-8]], by=1).tolist() == [-4]


def _tree(elements: list[str]) -> str:
    """The summation tree as text, by its description: pairs of pairs of blocks, then halves."""

    def block(x: list[str]) -> list[str]:
        tallies = [""] * TALLIES
        for i, e in enumerate(x):
            s = tallies[i % TALLIES]
            tallies[i % TALLIES] = f"({s}+{e})" if s else e
        return tallies

    def pairs(blocks: list[list[str]]) -> list[str]:
        if len(blocks) == 1:
            return blocks[0]
        half = 1 << ((len(blocks) - 1).bit_length() - 1)  # the largest power of 2 below
        return both(pairs(blocks[:half]), pairs(blocks[half:]))

    def both(x: list[str], y: list[str]) -> list[str]:
        return [f"({a}+{b})" if a and b else a or b for a, b in zip(x, y, strict=True)]

    tallies = pairs([block(elements[i : i + BLOCK]) for i in range(0, len(elements), BLOCK)])
    while len(tallies) > 1:
        half = len(tallies) // 2
        tallies = both(tallies[:half], tallies[half:])
    return tallies[0]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 127, 128, 129, 300, 5 * 128 + 3, 7 * 128])
def test_the_tree_of_sums(count: int) -> None:
    rng = np.random.default_rng(count)
    x = rng.normal(size=count).astype(np.float32)
    names = {f"x{i}": v for i, v in enumerate(x)}
    assert reduced("sum", "f32", x) == eval(_tree(list(names)), {}, names)


def test_sums_of_zeros_and_of_nothing() -> None:
    assert np.signbit(reduced("sum", "f32", [np.float32(-0.0)] * 3))
    nothing = reduced("sum", "f32", [])
    assert nothing == 0
    assert not np.signbit(nothing)
    assert reduced("max", "f64", []) == -math.inf


def test_rows_and_their_elements() -> None:
    b = LoopBuilder([LoopArray("f32", inner=True), LoopArray("f32")])
    total = b.apply("multiply", b.reduce("sum", b.load(0)), b.load(1))
    loops = b.build("f", [b.apply("subtract", b.load(0), total), total])
    elements, row = interpret(loops, [[[1, 2], [3, 4]], [10, 100]])
    assert elements.tolist() == [[-29, -28], [-697, -696]]
    assert row.tolist() == [30, 700]


def test_scans_and_places() -> None:
    b = LoopBuilder([LoopArray("f32", inner=True)])
    x = b.load(0)
    scans = [b.scan(name, x) for name in ("running_sum", "running_product", "running_max")]
    elements = [-0.0, 1e8, 1.0, -1e8, math.nan]
    total, product, largest, place = interpret(b.build("f", [*scans, b.index()]), [[elements]])
    # one after the other: 1 is lost beside 1e8
    assert np.array_equal(total[0], [-0.0, 1e8, 1e8, 0.0, math.nan], equal_nan=True)
    assert np.signbit(total[0, 0])
    assert product[0, 1] == 0
    assert np.array_equal(largest[0], [-0.0, 1e8, 1e8, 1e8, math.nan], equal_nan=True)
    assert place[0].tolist() == [0, 1, 2, 3, 4]
    assert interpret(loops_of("argmax", "f32"), [[elements]])[0].tolist() == [4]
    assert interpret(loops_of("argmin", "f32"), [[elements[:4]]])[0].tolist() == [3]
