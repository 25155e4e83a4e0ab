"""Kernels of random ops: Philox4x64-10, and the conversion of its bits.

A draw is a pure function of its key (seed, ticket). Its words of 64 bits come from the blocks
Philox(counter=(block, stream, ticket, 0), key=(seed, 0)) with block = 0, 1, …, four words each;
its words of 32 bits are the low and then the high half of each of them. Element i of a draw, in
C order, is made of word i. (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
1, 2, 3. SC '11.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from eagerflow_kernels.philox import MULTIPLIERS, ROUNDS, WEYL
from eagerflow_kernels.table import Array, portable

Shape = tuple[int, ...]

_HALF: Final = 2**32 - 1
_FLOAT: Final = {4: "float32", 8: "float64"}


def _multiply(a: Array, b: Array | int) -> tuple[Array, Array]:
    """The high and the low word of the product of 64-bit words, from products of their halves."""
    a0, a1, b0, b1 = a & _HALF, a >> 32, b & _HALF, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    carry = a0 * b1 + (middle & _HALF)
    return a1 * b1 + (middle >> 32) + (carry >> 32), a * b


def philox(counter: tuple[Array, ...], key: tuple[Array, Array]) -> tuple[Array, ...]:
    """One block for each counter.

    Args:
        counter: the four words of the counters, uint64 arrays that broadcast.
        key: the two words of the keys, likewise. (Not scalars: NumPy warns where they overflow.)

    Returns:
        The four words of the blocks.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(c0, MULTIPLIERS[0])
        high1, low1 = _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return c0, c1, c2, c3


@portable("set_key")
def set_key(xp: Any, *, resource: Any, seed: int, ticket: int) -> Array:
    """Set the generator to a seed and ticket; the result is the key."""
    resource.set(seed, ticket)
    return xp.asarray([seed, ticket], dtype=xp.uint64)


@portable("next_key")
def next_key(xp: Any, *, resource: Any) -> Array:
    """The key of one draw: the generator's seed and a ticket that no other draw gets."""
    return xp.asarray(resource.reserve(), dtype="uint64")


@portable("random_bits")
def random_bits(xp: Any, key: Array, *, shape: Shape, dtype: Any, stream: int = 0) -> Array:
    """The words of a draw; ``stream`` distinguishes several draws of one key."""
    count = math.prod(shape)
    narrow = dtype.itemsize == 4
    size = (count + 1) // 2 if narrow else count
    block = xp.arange((size + 3) // 4, dtype="uint64")
    key = xp.asarray(key)  # from the memory of the host
    seed, ticket = key[:1], key[1:]
    zero = xp.zeros_like(seed)
    four = philox((block, zero + stream, ticket, zero), (seed, zero))
    words = xp.stack(four, axis=-1).reshape(-1)
    if narrow:
        words = xp.stack((words & _HALF, words >> 32), axis=-1).reshape(-1).astype("uint32")
    return words[:count].reshape(shape)


# --- parameters -----------------------------------------------------------------------------

#: conditions on the parameters of draws
CLAIMS: Final[dict[str, Callable[..., Any]]] = {
    "scale": lambda x: x >= 0,
    "positive": lambda x: x > 0,
    "probability": lambda x: (x >= 0) & (x <= 1),
    "bounds": lambda a, b: a <= b,
    "logits": lambda x: x.max(-1) > -math.inf if x.size else True,
}


@portable("check_parameters")
def check_parameters(xp: Any, x: Array, *parameters: Array, claim: str, refusal: str) -> Array:
    """The same values; the parameters are not checked, since that would wait for them."""
    return x


# --- floating ---------------------------------------------------------------------------------


def _uniform(xp: Any, bits: Array, *, digits: int) -> Array:
    """Numbers uniform on [0, 1), from the first ``digits`` bits."""
    values = (bits >> (8 * bits.dtype.itemsize - digits)).astype(_FLOAT[bits.dtype.itemsize])
    values *= 2.0**-digits
    return values


def _positive(bits: Array) -> Array:
    """Numbers uniform on (0, 1], from all bits, rounded, so that small values are accurate."""
    values = bits.astype(_FLOAT[bits.dtype.itemsize])
    values += 0.5
    values *= 2.0 ** (-8 * bits.dtype.itemsize)
    return values


def _normal(xp: Any, bits: Array) -> Array:
    """Standard normal numbers by Box and Muller: words 2i and 2i+1 give elements 2i and 2i+1."""
    radius = xp.log(_positive(bits[0::2]))
    radius *= -2.0
    radius = xp.sqrt(radius)
    angle = bits[1::2].astype(radius.dtype)
    angle *= 2.0 * math.pi / 2.0 ** (8 * bits.dtype.itemsize)
    out = xp.empty(bits.shape, dtype=radius.dtype)
    out[0::2] = radius * xp.cos(angle)
    out[1::2] = radius * xp.sin(angle)
    return out


def _exponential(xp: Any, bits: Array) -> Array:
    """Exponential numbers with mean 1, by inversion from the end that resolves large values."""
    return xp.abs(xp.log(_positive(bits)))


def _gumbel(xp: Any, bits: Array) -> Array:
    """Standard Gumbel numbers, by inversion from the end that resolves large values."""
    uniform = _positive(bits)
    limit = 1.0 - 2.0 ** (-24 if bits.dtype.itemsize == 4 else -53)
    return -xp.log(-xp.log1p(-xp.minimum(uniform, limit)))


#: Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988): the coefficients of numerator
#: and denominator, highest power first, for |p - 1/2| <= 0.425, and beyond it for
#: r = sqrt(-log(min(p, 1 - p))) up to 5 and above 5
_CENTRE: Final = (
    (2.50908_09287_30122_6727e3, 3.34305_75583_58812_8105e4, 6.72657_70927_00870_0853e4,
     4.59219_53931_54987_1457e4, 1.37316_93765_50946_1125e4, 1.97159_09503_06551_4427e3,
     1.33141_66789_17843_7745e2, 3.38713_28727_96366_6080e0),
    (5.22649_52788_52854_5610e3, 2.87290_85735_72194_2674e4, 3.93078_95800_09271_0610e4,
     2.12137_94301_58659_5867e4, 5.39419_60214_24751_1077e3, 6.87187_00749_20579_0830e2,
     4.23133_30701_60091_1252e1, 1.0),
)  # fmt: skip
_NEAR: Final = (
    (7.74545_01427_83414_07640e-4, 2.27238_44989_26918_45833e-2, 2.41780_72517_74506_11770e-1,
     1.27045_82524_52368_38258e0, 3.64784_83247_63204_60504e0, 5.76949_72214_60691_40550e0,
     4.63033_78461_56545_29590e0, 1.42343_71107_49683_57734e0),
    (1.05075_00716_44416_84324e-9, 5.47593_80849_95344_94600e-4, 1.51986_66563_61645_71966e-2,
     1.48103_97642_74800_74590e-1, 6.89767_33498_51000_04550e-1, 1.67638_48301_83803_84940e0,
     2.05319_16266_37758_82187e0, 1.0),
)  # fmt: skip
_FAR: Final = (
    (2.01033_43992_92288_13265e-7, 2.71155_55687_43487_57815e-5, 1.24266_09473_88078_43860e-3,
     2.65321_89526_57612_30930e-2, 2.96560_57182_85048_91230e-1, 1.78482_65399_17291_33580e0,
     5.46378_49111_64114_36990e0, 6.65790_46435_01103_77720e0),
    (2.04426_31033_89939_78564e-15, 1.42151_17583_16445_88870e-7, 1.84631_83175_10054_68180e-5,
     7.86869_13114_56132_59100e-4, 1.48753_61290_85061_48525e-2, 1.36929_88092_27358_05310e-1,
     5.99832_20655_58879_37690e-1, 1.0),
)  # fmt: skip


def _ratio(coefficients: tuple[tuple[float, ...], ...], x: Array) -> Array:
    """The quotient of two polynomials."""
    numerator = denominator = x * 0.0
    for a, b in zip(*coefficients, strict=True):
        numerator = numerator * x + a
        denominator = denominator * x + b
    return numerator / denominator


def _normal_quantile(xp: Any, p: Array) -> Array:
    """The inverse of the standard normal distribution function, to double precision."""
    centred = p - 0.5
    central = centred * _ratio(_CENTRE, 0.180625 - centred * centred)
    r = xp.sqrt(-xp.log(xp.minimum(p, 1.0 - p)))
    outer = xp.where(r <= 5.0, _ratio(_NEAR, r - 1.6), _ratio(_FAR, r - 5.0))
    return xp.where(xp.abs(centred) <= 0.425, central, xp.sign(centred) * outer)


def _truncated_normal(xp: Any, bits: Array, *, lower: float, upper: float) -> Array:
    """Standard normal numbers between two bounds, by inversion in double precision."""
    mirrored = lower > 0.0  # the distribution function resolves only its lower tail
    a, b = (-upper, -lower) if mirrored else (lower, upper)
    below, inside = normal_probability(-math.inf, a), normal_probability(a, b)
    uniform = bits.astype("float64") + 0.5
    p = uniform * (inside * 2.0 ** (-8 * bits.dtype.itemsize)) + below
    values = xp.clip(_normal_quantile(xp, xp.minimum(p, 1.0 - 2.0**-53)), a, b)
    if mirrored:
        values = -values
    return values.astype(_FLOAT[bits.dtype.itemsize])


def normal_probability(lower: float, upper: float) -> float:
    """The probability of a standard normal value between two bounds."""
    if lower > 0.0:
        lower, upper = -upper, -lower
    return 0.5 * (math.erfc(-upper / math.sqrt(2.0)) - math.erfc(-lower / math.sqrt(2.0)))


#: conversions of the words of a floating draw, an even number of them, to its elements
CONVERSIONS: Final[dict[str, Callable[..., Array]]] = {
    "random_uniform": _uniform,
    "random_normal": _normal,
    "random_exponential": _exponential,
    "random_gumbel": _gumbel,
    "random_truncated_normal": _truncated_normal,
}


def _draw(
    convert: Callable[..., Array], xp: Any, key: Array, *, shape: Shape, dtype: Any, **attrs: Any
) -> Array:
    """A floating draw: float32 from words of 32 bits, float64 from words of 64 bits."""
    count = math.prod(shape)
    kind = f"uint{8 * dtype.itemsize}"
    bits = random_bits(xp, key, shape=(count + count % 2,), dtype=xp.dtype(kind))
    return convert(xp, bits, **attrs)[:count].reshape(shape)


for _name, _convert in CONVERSIONS.items():
    portable(_name)(partial(_draw, _convert))


# --- integers ---------------------------------------------------------------------------------


@portable("random_integers")
def random_integers(
    xp: Any, key: Array, low: Array, last: Array, *, shape: Shape, wide: bool | None
) -> Array:
    """Integers uniform on low … last; see `integers`. If ``wide`` is None, the bounds decide."""
    wide = is_wide(low, last) if wide is None else wide
    kind = xp.dtype("uint64")
    draws = [random_bits(xp, key, shape=shape, dtype=kind, stream=i) for i in range(1 + wide)]
    return integers(xp, low, last, *draws)


def is_wide(low: Array, last: Array) -> bool:
    """Whether the range from ``low`` to ``last`` has more than 2**32 values."""
    span: int = last.item() - low.item()
    if span < 0:
        raise ValueError("low must be less than high")
    return span > _HALF


def integers(xp: Any, low: Array, last: Array, bits: Array, extra: Array | None = None) -> Array:
    """Integers uniform on low … last: low plus the integer part of (last - low + 1) · bits / 2**64.

    If the range has more than 2**32 values, the words are (bits, extra), of 128 bits, and the
    divisor is 2**128: no value is favoured by more than one part in 2**32.
    """
    if bool(xp.any(low > last)):
        raise ValueError("low must be less than high")
    shape, dtype = bits.shape, low.dtype
    bits = bits.reshape(-1) if not shape else bits
    low, last = (x.reshape(x.shape or (1,)).astype("uint64") for x in (low, last))
    span = last - low
    value = _scale(span, bits)
    if extra is not None:
        wide = _scale_wide(span, bits, extra.reshape(bits.shape))
        value = xp.where(span > _HALF, wide, value)
    value += low
    return value.astype(dtype).reshape(shape)


def _scale(span: Array, bits: Array) -> Array:
    """The integer part of (span + 1) · bits / 2**64, for span < 2**32."""
    count = span + 1
    value = bits & _HALF
    value *= count
    value >>= 32
    value += (bits >> 32) * count
    value >>= 32
    return value


def _scale_wide(span: Array, bits: Array, extra: Array) -> Array:
    """The integer part of (span + 1) · (bits · 2**64 + extra) / 2**128."""
    high0, low0 = _multiply(extra, span)
    high1, low1 = _multiply(bits, span)
    carry = (low0 + extra < extra).astype("uint64")
    for part in (high0, bits, carry):
        low1 = low1 + part
        high1 = high1 + (low1 < part).astype("uint64")
    return high1
