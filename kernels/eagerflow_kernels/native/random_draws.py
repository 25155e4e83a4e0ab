"""The callable form of random draws: one kernel for the words of a block and their conversion.

Element i of a draw is made of word i, so results depend neither on the number of threads nor on the
number of elements drawn together. Words and uniform numbers have the bits of the portable library;
normal numbers are near the portable ones, which round angles that are exact here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow_kernels.cpu import random as cpu
from eagerflow_kernels.native.draw_loops import KINDS, RULES
from eagerflow_kernels.native.functions import random_words
from eagerflow_kernels.native.loop_form import Kind

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: words from which on a kernel costs less than NumPy's generator
_WORTH: Final = 512


def draws_by(function: Callable[[str, Kind], Any]) -> dict[str, Callable[..., Any]]:
    """The callable forms of draws.

    Args:
        function: gives the function of NumPy of a draw (`draw_loops`).
    """

    def blocks(
        name: str, kind: Kind, key: Array, count: int, dtype: Any, stream: int = 0
    ) -> Array:  # fmt: skip
        """At least ``count`` elements, with the rest of the last block."""
        each = 32 // np.dtype(dtype).itemsize
        number = -(-count // each)
        out = np.empty((number, each), dtype)
        seed, ticket = key.view(np.int64)
        function(name, kind)(
            np.arange(number), seed, ticket, np.int64(stream), out=tuple(out.T)
        )  # fmt: skip
        return out.reshape(-1)

    def bits(key: Array, *, shape: Shape, dtype: Any, stream: int = 0) -> Array:
        """The words of a draw."""
        count = math.prod(shape)
        if count < _WORTH:
            return cpu.random_bits(key, shape=shape, dtype=dtype, stream=stream)
        size = (count + 1) // 2 if dtype.itemsize == 4 else count
        words = blocks("random_bits", "i64", key, size, np.int64, stream)
        kind = np.dtype(f"<u{dtype.itemsize}")  # the low half comes first
        return words.astype("<i8", copy=False).view(kind)[:count].reshape(shape)

    def draw(name: str) -> Callable[..., Any]:
        def function(key: Array, *, shape: Shape, dtype: Any, **attrs: Any) -> Array:
            kind, count = KINDS[dtype.name], math.prod(shape)
            if attrs.get("digits") not in (None, random_words.DIGITS[kind]):
                return cpu.draw(name, key, shape=shape, dtype=dtype, **attrs)
            return blocks(name, kind, key, count, dtype.dtype)[:count].reshape(shape)

        return function

    return {"random_bits": bits, **{name: draw(name) for name in RULES}}
