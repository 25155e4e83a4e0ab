"""Rules of random draws: Philox4x64-10, and the conversion of its words (see `portable.random`).

A kernel makes one block: four words of 64 bits. Products of 64-bit words are composed of products
of their halves, which vectors of every processor have.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.float_writer import FloatWriter
from eagerflow_kernels.native.functions.logarithms import log
from eagerflow_kernels.native.functions.trigonometric import cosine, sine, whole_and_rest
from eagerflow_kernels.native.loop_form import Kind, LoopBuilder
from eagerflow_kernels.philox import MULTIPLIERS, ROUNDS, WEYL

_HALF: Final = 2**32 - 1
_WORD: Final = 2**64 - 1
#: the bits of 2**52 and 2**84: a half in the last digits has the unit 1, or 2**32
_LOW: Final = 0x4330000000000000
_HIGH: Final = 0x4530000000000000
#: significant bits of the kinds
DIGITS: Final[dict[Kind, int]] = {"f32": 24, "f64": 53}


def _number(b: LoopBuilder, bits: int) -> int:
    return b.bit_pattern(bits & _WORD, "i64")


def _low(b: LoopBuilder, x: int) -> int:
    """The lower half of a word."""
    return b.apply("and", x, _number(b, _HALF))


def _high(b: LoopBuilder, x: int) -> int:
    """The upper half of a word."""
    return _low(b, b.apply("shift_right", x, by=32))


def _product(b: LoopBuilder, x: int, factor: int) -> tuple[int, int]:
    """The high and the low word of the product of a word and a constant."""
    x0, x1 = _low(b, x), _high(b, x)
    y0, y1 = _number(b, factor & _HALF), _number(b, factor >> 32)
    first = b.apply("multiply", x0, y0)
    middle = b.apply("add", b.apply("multiply", x1, y0), _high(b, first))
    carry = b.apply("add", b.apply("multiply", x0, y1), _low(b, middle))
    high = b.apply("add", b.apply("multiply", x1, y1), _high(b, middle))
    low = b.apply("or", b.apply("shift_left", carry, by=32), _low(b, first))
    return b.apply("add", high, _high(b, carry)), low


def words(b: LoopBuilder, block: int, seed: int, ticket: int, stream: int) -> tuple[int, ...]:
    """The four words of a block: Philox of (block, stream, ticket, 0) with the key (seed, 0)."""
    c0, c1, c2, c3 = block, stream, ticket, _number(b, 0)
    for i in range(ROUNDS):
        key0 = b.apply("add", seed, _number(b, i * WEYL[0]))
        key1 = _number(b, i * WEYL[1])
        high0, low0 = _product(b, c0, MULTIPLIERS[0])
        high1, low1 = _product(b, c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            b.apply("xor", b.apply("xor", high1, c1), key0), low1,
            b.apply("xor", b.apply("xor", high0, c3), key1), low0,
        )  # fmt: skip
    return c0, c1, c2, c3


def _halves(b: LoopBuilder, of: tuple[int, ...]) -> list[int]:
    """Words of 32 bits: the low and then the high half of each."""
    return [half(b, word) for word in of for half in (_low, _high)]


def _float_of(b: LoopBuilder, x: int) -> int:
    """An unsigned word as a float64, rounded once."""
    low = b.apply("bits", b.apply("or", _low(b, x), _number(b, _LOW)))
    high = b.apply("bits", b.apply("or", _high(b, x), _number(b, _HIGH)))
    high = b.apply("subtract", high, b.constant(2.0**84, "f64"))
    return b.apply("add", high, b.apply("subtract", low, b.constant(2.0**52, "f64")))


def _float_of_half(b: LoopBuilder, x: int) -> int:
    """A word of 32 bits as a float64."""
    low = b.apply("bits", b.apply("or", x, _number(b, _LOW)))
    return b.apply("subtract", low, b.constant(2.0**52, "f64"))


def _as_numbers(b: LoopBuilder, of: tuple[int, ...], kind: Kind, drop: int = 0) -> list[int]:
    """The words for elements of a kind, as float64, without their last ``drop`` bits."""
    parts = _halves(b, of) if kind == "f32" else list(of)
    kept = _number(b, (_HALF if kind == "f32" else _WORD) >> drop)
    if drop:
        parts = [b.apply("and", b.apply("shift_right", x, by=drop), kept) for x in parts]
    return [_float_of_half(b, x) if kind == "f32" else _float_of(b, x) for x in parts]


def uniform(b: LoopBuilder, of: tuple[int, ...], kind: Kind) -> tuple[int, ...]:
    """Numbers uniform on [0, 1): the first bits of each word."""
    digits = DIGITS[kind]
    numbers = _as_numbers(b, of, kind, drop=(32 if kind == "f32" else 64) - digits)
    scale = b.constant(2.0**-digits, "f64")
    return tuple([b.apply("convert", b.apply("multiply", x, scale), kind=kind) for x in numbers])


def normal(b: LoopBuilder, of: tuple[int, ...], kind: Kind) -> tuple[int, ...]:
    """Standard normal numbers by Box and Muller: words 2i and 2i+1 give elements 2i and 2i+1."""
    numbers = _as_numbers(b, of, kind)
    results: list[int] = []
    for first, second in zip(numbers[0::2], numbers[1::2], strict=True):
        results += _pair(b, first, second, kind)
    return tuple(results)


def _pair(b: LoopBuilder, first: int, second: int, kind: Kind) -> list[int]:
    """Two normal numbers: the radius in the kind's own arithmetic, the angle in right angles."""
    bits = 32 if kind == "f32" else 64
    x = b.apply("convert", first, kind=kind)
    of, w = FloatWriter(b, x), FloatWriter(b, second)
    positive = of.multiply(of.add(x, of.number(0.5)), of.number(2.0**-bits))
    radius = b.apply("sqrt", of.multiply(log(b, positive), of.number(-2.0)))
    quarters = w.multiply(second, w.number(math.ldexp(4.0, -bits)))
    whole = b.apply("round", quarters)
    angle = whole_and_rest(w, whole, w.subtract(quarters, whole))
    return [
        of.multiply(radius, b.apply("convert", part(w, angle), kind=kind))
        for part in (cosine, sine)
    ]
