"""Random orders, each a function of a seed and some numbers: the same on every machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.errors import TensorValueError

_WORD: Final = 2**64
_BLOCK: Final = 1024  # draws at once


def generator(seed: int, *numbers: int) -> ef.random.Generator:
    """A generator whose draws depend on ``seed`` and ``numbers`` and nothing else."""
    for number in _words_of(numbers):
        made = ef.random.Generator(seed)
        made.state = {"seed": seed, "ticket": number}
        seed = int(ef.random.bits(dtype="uint64", generator=made, device="cpu:0"))
    return ef.random.Generator(seed)


def _words_of(numbers: tuple[int, ...]) -> Iterator[int]:
    """Numbers as words below 2**64: epochs of nested endless datasets exceed that."""
    for number in numbers:
        yield number % _WORD
        while number := number // _WORD:
            yield number % _WORD


@final
class Seed:
    """A seed that is given, or drawn from the generator of ``ef.random`` on first use."""

    __slots__ = ("_lock", "_value", "given")

    def __init__(self, value: int | None) -> None:
        if value is not None:
            ef.random.Generator(value)  # raises if it is no seed
        self._value = value
        self.given = value is not None
        self._lock = threading.Lock()

    @property
    def value(self) -> int:
        """The number."""
        with self._lock:
            if self._value is None:  # 63 bits, so that it fits into i64 as well
                self._value = int(ef.random.bits(dtype="uint64", device="cpu:0")) >> 1
            return self._value

    def check(self, value: int) -> None:
        """Refuse a position that belongs to another seed."""
        if self.given and value != self._value:
            raise TensorValueError(
                "this position belongs to a dataset with another seed",
                given=f"seed {value}",
                expected=f"seed {self._value}",
            )

    def adopt(self, value: int) -> None:
        """Continue with the seed of a saved position."""
        with self._lock:
            self._value = value

    def __str__(self) -> str:
        return str(self._value) if self.given else "None"


def words_of(draws: ef.random.Generator) -> Iterator[int]:
    """The 64-bit words that a generator draws."""
    while True:
        block = ef.random.bits((_BLOCK,), dtype="uint64", generator=draws, device="cpu:0")
        yield from block.numpy().tolist()


def permutation(count: int, size: int | None, draws: ef.random.Generator) -> np.ndarray[Any, Any]:
    """The numbers below ``count`` in random order.

    Args:
        count: the number of numbers.
        size: of the shuffle buffer; None for all at once.
        draws: the generator that decides.
    """
    if size is None:
        return ef.random.permutation(count, generator=draws, device="cpu:0").numpy()
    held, words = list(range(min(size, count))), words_of(draws)
    order = []
    for following, word in zip(range(size, count), words, strict=False):  # as `ShuffleStore` does
        chosen = word % size
        order.append(held[chosen])
        held[chosen] = held[-1]
        held[-1] = following
    while held:
        chosen = next(words) % len(held)
        held[chosen], held[-1] = held[-1], held[chosen]
        order.append(held.pop())
    return np.array(order, np.int64)
