"""Philox4x64-10 and what draws make of it, in plain Python: the reference of the random ops."""

from __future__ import annotations

import math
from statistics import NormalDist

MASK = 2**64 - 1


def block(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """One block of four words, as in the paper."""
    c = list(counter)
    k = list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [(b >> 64) ^ c[1] ^ k[0], b & MASK, (a >> 64) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B97F4A7C15) & MASK, (k[1] + 0xBB67AE8584CAA73B) & MASK]
    return tuple(c)


def words(seed: int, ticket: int, count: int, width: int = 64, stream: int = 0) -> list[int]:
    """The words of a draw."""
    whole = (count + 1) // 2 if width == 32 else count
    blocks = (block((i, stream, ticket, 0), (seed, 0)) for i in range((whole + 3) // 4))
    found = [word for four in blocks for word in four]
    if width == 32:
        found = [half for word in found for half in (word & (2**32 - 1), word >> 32)]
    return found[:count]


def positive(word: int, width: int) -> float:
    """Uniform on (0, 1]."""
    return (word + 0.5) * 2.0**-width


def uniforms(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Uniform on [0, 1)."""
    digits = {32: 24, 64: 53}[width]
    return [(w >> (width - digits)) * 2.0**-digits for w in words(seed, ticket, count, width)]


def normals(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Standard normal, by Box and Muller."""
    drawn = words(seed, ticket, count + count % 2, width)
    out = []
    for a, b in zip(drawn[0::2], drawn[1::2], strict=True):
        radius = math.sqrt(-2.0 * math.log(positive(a, width)))
        angle = 2.0 * math.pi * b * 2.0**-width
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


def exponentials(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Exponential with mean 1."""
    return [abs(math.log(positive(w, width))) for w in words(seed, ticket, count, width)]


def gumbels(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Standard Gumbel."""
    limit = 1.0 - 2.0 ** {32: -24, 64: -53}[width]
    drawn = [min(positive(w, width), limit) for w in words(seed, ticket, count, width)]
    return [-math.log(-math.log1p(-u)) for u in drawn]


def truncated_normals(
    seed: int, ticket: int, count: int, width: int, lower: float, upper: float
) -> list[float]:
    """Standard normal between bounds, by inversion of the lower tail."""
    normal, sign = NormalDist(), 1.0
    if lower > 0.0:
        lower, upper, sign = -upper, -lower, -1.0
    below, to = (0.5 * math.erfc(-x / math.sqrt(2.0)) for x in (lower, upper))
    drawn = [positive(w, width) for w in words(seed, ticket, count, width)]
    out = [normal.inv_cdf(below + (to - below) * u) for u in drawn]
    return [sign * min(max(x, lower), upper) for x in out]


def integer(low: int, high: int, word: int, extra: int) -> int:
    """Uniform on low … high - 1."""
    count = high - low
    if count <= 2**32:
        return low + (count * word >> 64)
    return low + (count * ((word << 64) + extra) >> 128)
