"""The state of a random number generator: a seed and the number of draws taken from it."""

from __future__ import annotations

import os
import threading
from operator import index
from typing import Final, final

from eagerflow.errors import TensorValueError
from eagerflow.resources.containers import DEFAULT

_LIMIT: Final = 2**64


def _word(what: str, value: object) -> int:
    """``value``, if it is an unsigned 64-bit int; else raises."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LIMIT:
        raise TensorValueError(
            f"{what} does not fit", given=f"{value!r}", expected="an int from 0 to 2**64 - 1"
        )
    return index(value)  # a number of a trace stays itself


@final
class GeneratorState:
    """A seed and a counter of tickets, one for each draw; (seed, ticket) is the key of the draw.

    Args:
        seed: 0 to 2**64 - 1; taken from the operating system if not given.

    Attributes:
        identity: its name in its container.

    Raises:
        TensorValueError: the seed is no such number.
    """

    __slots__ = ("__weakref__", "_lock", "_seed", "_ticket", "identity")

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._ticket = 0
        self.identity = DEFAULT.add(self)
        self._seed = int.from_bytes(os.urandom(8)) if seed is None else _word("the seed", seed)

    def reserve(self, count: int = 1) -> tuple[int, int]:
        """Take ``count`` consecutive tickets for this caller; returns the seed and the first."""
        with self._lock:
            ticket = self._ticket
            self._ticket = (ticket + count) % _LIMIT
            return self._seed, ticket

    def get(self) -> tuple[int, int]:
        """The seed and the ticket of the next draw."""
        with self._lock:
            return self._seed, self._ticket

    def set(self, seed: int, ticket: int = 0) -> None:
        """Set the seed and the ticket of the next draw.

        Raises:
            TensorValueError: the seed or the ticket does not fit 64 bits.
        """
        seed, ticket = _word("the seed", seed), _word("the ticket", ticket)
        with self._lock:
            self._seed, self._ticket = seed, ticket
