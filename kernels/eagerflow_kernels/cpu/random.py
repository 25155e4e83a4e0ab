"""Random draws on CPU by NumPy's Philox, with the bits of `eagerflow_kernels.portable.random`."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels.portable.random import CLAIMS, CONVERSIONS, integers, is_wide
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

_LAST: Final = 2**64 - 1
_CHUNK: Final = 2**15
_UINT64: Final = np.dtype("uint64")


@final
class _Source(threading.local):
    """One bit generator per thread, its state set before each use."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(0)
        self.state: Any = self.philox.state
        self.state["buffer_pos"] = 4  # no words are left over


_source: Final[list[_Source]] = []


def _get_source() -> _Source:
    if not _source:
        _source.append(_Source())  # on first use: it loads numpy.random
    return _source[0]


def _before(stream: int, ticket: int) -> tuple[int, int, int, int]:
    """The counter before (0, stream, ticket, 0): NumPy increments it before each block."""
    if stream:
        return _LAST, stream - 1, ticket, 0
    if ticket:
        return _LAST, _LAST, ticket - 1, 0
    return _LAST, _LAST, _LAST, _LAST


def _start(key: Array, stream: int) -> Callable[[int], Array]:
    """The words of a draw, as a function that returns the next n of them."""
    seed, ticket = key.tolist()
    source = _get_source()
    state = source.state
    state["state"]["counter"][:] = _before(stream, ticket)
    state["state"]["key"][:] = seed, 0
    source.philox.state = state
    return source.philox.random_raw


def _halves(words: Array) -> Array:
    """The low and the high half of each word."""
    halves: Array = words.view(np.uint32)
    return halves if sys.byteorder == "little" else halves.reshape(-1, 2)[:, ::-1].reshape(-1)


def _take(following: Callable[[int], Array], count: int, itemsize: int) -> Array:
    """At least ``count`` words of a size in bytes; an even number if they are narrow."""
    return following(count) if itemsize == 8 else _halves(following((count + 1) // 2))


@special("random_bits", "cpu")
def random_bits(key: Array, *, shape: Shape, dtype: Any, stream: int = 0) -> Array:
    """The words of a draw; see the portable kernel."""
    count = math.prod(shape)
    return _take(_start(key, stream), count, dtype.itemsize)[:count].reshape(shape)


def _draw(
    convert: Callable[..., Array], key: Array, *, shape: Shape, dtype: Any, **attrs: Any
) -> Array:
    """A floating draw, made in chunks that fit the cache; see the portable kernel."""
    count, following, itemsize = math.prod(shape), _start(key, 0), dtype.itemsize
    if count <= _CHUNK:
        bits = _take(following, count + count % 2, itemsize)
        return convert(np, bits, **attrs)[:count].reshape(shape)
    out = np.empty(count, dtype="float32" if itemsize == 4 else "float64")
    for start in range(0, count, _CHUNK):
        part = out[start : start + _CHUNK]
        bits = _take(following, len(part) + len(part) % 2, itemsize)
        part[:] = convert(np, bits, **attrs)[: len(part)]
    return out.reshape(shape)


def draw(name: str, key: Array, *, shape: Shape, dtype: Any, **attrs: Any) -> Array:
    """A floating draw by the name of its op."""
    return _draw(CONVERSIONS[name], key, shape=shape, dtype=dtype, **attrs)


for _name in CONVERSIONS:
    special(_name, "cpu")(partial(draw, _name))


@special("check_parameters", "cpu")
def check_parameters(x: Array, *parameters: Array, claim: str, refusal: str) -> Array:
    """The same values, if the claim holds for the parameters."""
    held: Any
    if not any([p.ndim for p in parameters]):  # noqa: C419 - numbers, for which `all` is fast
        held = CLAIMS[claim](*[p.item() for p in parameters])
    else:
        wide = (p.astype(np.float32) if p.dtype.itemsize < 4 else p for p in parameters)
        held = np.all(CLAIMS[claim](*wide))
    if not held:
        raise ValueError(refusal)
    return x


@special("random_integers", "cpu")
def random_integers(
    key: Array, low: Array, last: Array, *, shape: Shape, wide: bool | None
) -> Array:
    """Uniform on low … last; see the portable kernel."""
    wide = is_wide(low, last) if wide is None else wide
    count = math.prod(shape)
    extra = random_bits(key, shape=(count,), dtype=_UINT64, stream=1) if wide else None
    following = _start(key, 0)
    low, last = (
        x.reshape(-1) if x.size == 1 else np.broadcast_to(x, shape).reshape(-1) for x in (low, last)
    )
    out = np.empty(count, dtype=low.dtype)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        a, b = (x if x.size == 1 else x[part] for x in (low, last))
        bits = following(len(out[part]))
        out[part] = integers(np, a, b, bits, None if extra is None else extra[part])
    return out.reshape(shape)
