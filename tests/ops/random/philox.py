"""Philox4x64-10 and the distributions based on it, in plain Python: the random ops' reference."""

from __future__ import annotations

import math
from statistics import NormalDist

MASK = 2**64 - 1


def block(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """A block of four words, as in the paper."""
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
    integers = [word for four in blocks for word in four]
    if width == 32:
        integers = [half for word in integers for half in (word & (2**32 - 1), word >> 32)]
    return integers[:count]


def positive(word: int, width: int) -> float:
    """A number uniform on (0, 1], of one word."""
    return (word + 0.5) * 2.0**-width


def uniforms(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Numbers uniform on [0, 1)."""
    digits = {32: 24, 64: 53}[width]
    return [(w >> (width - digits)) * 2.0**-digits for w in words(seed, ticket, count, width)]


def normals(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Standard normal numbers, by Box and Muller."""
    drawn = words(seed, ticket, count + count % 2, width)
    out = []
    for a, b in zip(drawn[0::2], drawn[1::2], strict=True):
        radius = math.sqrt(-2.0 * math.log(positive(a, width)))
        angle = 2.0 * math.pi * b * 2.0**-width
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


def exponentials(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Exponential numbers with mean 1."""
    return [abs(math.log(positive(w, width))) for w in words(seed, ticket, count, width)]


def gumbels(seed: int, ticket: int, count: int, width: int) -> list[float]:
    """Standard Gumbel numbers."""
    limit = 1.0 - 2.0 ** {32: -24, 64: -53}[width]
    drawn = [min(positive(w, width), limit) for w in words(seed, ticket, count, width)]
    return [-math.log(-math.log1p(-u)) for u in drawn]


def truncated_normals(
    seed: int, ticket: int, count: int, width: int, lower: float, upper: float
) -> list[float]:
    """Standard normal numbers between bounds, by inversion of the lower tail."""
    normal, sign = NormalDist(), 1.0
    if lower > 0.0:
        lower, upper, sign = -upper, -lower, -1.0
    below, to = (0.5 * math.erfc(-x / math.sqrt(2.0)) for x in (lower, upper))
    drawn = [positive(w, width) for w in words(seed, ticket, count, width)]
    out = [normal.inv_cdf(below + (to - below) * u) for u in drawn]
    return [sign * min(max(x, lower), upper) for x in out]


def integer(low: int, high: int, word: int, extra: int) -> int:
    """An integer uniform on low … high - 1."""
    count = high - low
    if count <= 2**32:
        return low + (count * word >> 64)
    return low + (count * ((word << 64) + extra) >> 128)


def gammas(seed: int, ticket: int, concentrations: list[float]) -> list[float]:
    """Gamma numbers with scale 1, by Marsaglia and Tsang."""
    drawn = _Streams(seed, ticket, len(concentrations))
    return [_gamma(drawn, i, a) for i, a in enumerate(concentrations)]


def poissons(seed: int, ticket: int, rates: list[float]) -> list[int]:
    """Poisson numbers, by inversion below a rate of 30 and by Hörmann's PTRS from there on."""
    drawn = _Streams(seed, ticket, len(rates))
    return [_rejected(drawn, i, r) if r >= 30 else _inverted(drawn, i, r)
            for i, r in enumerate(rates)]  # fmt: skip


class _Streams:
    """The words of each stream of a draw."""

    def __init__(self, seed: int, ticket: int, count: int) -> None:
        self._key = seed, ticket, count
        self._words: dict[int, list[int]] = {}

    def word(self, i: int, stream: int) -> int:
        if stream not in self._words:
            self._words[stream] = words(*self._key, 64, stream)
        return self._words[stream][i]

    def unit(self, i: int, stream: int) -> float:
        return positive(self.word(i, stream), 64)


def _gamma(drawn: _Streams, i: int, a: float) -> float:
    d = (a + 1 if a < 1 else a) - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for k in range(64):
        radius = math.sqrt(-2 * math.log(drawn.unit(i, 1 + 3 * k)))
        x = radius * math.cos(2 * math.pi * drawn.word(i, 2 + 3 * k) * 2.0**-64)
        v, u = (1 + c * x) ** 3, drawn.unit(i, 3 + 3 * k)
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v * (drawn.unit(i, 0) ** (1 / a) if a < 1 else 1)
    raise AssertionError("no round was accepted")


def _inverted(drawn: _Streams, i: int, rate: float) -> int:
    u, k, probability = (drawn.word(i, 0) >> 11) * 2.0**-53, 0, math.exp(-rate)
    total = probability
    while u >= total:
        k += 1
        probability *= rate / k
        total += probability
    return k


def _rejected(drawn: _Streams, i: int, rate: float) -> int:
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    for n in range(64):
        u, v = drawn.unit(i, 1 + 2 * n) - 0.5, drawn.unit(i, 2 + 2 * n)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        below = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
        if below <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return k
    raise AssertionError("no round was accepted")
