"""Checksums of tensors: SHA-256 in pieces, concurrently with reading and writing.

The checksum of some bytes is the SHA-256 of the SHA-256 digests of their pieces of 4 MiB, in
order. So several cores share the work on one tensor, while the disk transfers the next piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from typing import Final, final

PIECE: Final = 1 << 22
_SMALL: Final = 1 << 15  # smaller pieces are hashed faster than handed to another thread
_WORKERS: Final = 8


def pieces(data: memoryview) -> Iterator[memoryview]:
    """The pieces of some bytes that the checksum is made of."""
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


def _digest(piece: memoryview) -> bytes:
    return sha256(piece).digest()


@contextmanager
def hashing() -> Iterator[ThreadPoolExecutor]:
    """A pool of threads for checksums; hashing releases the interpreter's lock."""
    others = max(1, (os.cpu_count() or 1) - 1)  # one core reads or writes
    with ThreadPoolExecutor(min(_WORKERS, others), "checksum") as pool:
        yield pool


@final
class Checksum:
    """The checksum of one tensor.

    Args:
        pool: of `hashing`.
    """

    __slots__ = ("_digests", "_pool")

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._digests: list[bytes | Future[bytes]] = []

    def add(self, piece: memoryview) -> None:
        """Add the next of the `pieces`, which must not change until `text` is called."""
        small = len(piece) < _SMALL
        self._digests.append(_digest(piece) if small else self._pool.submit(_digest, piece))

    def text(self) -> str:
        """The checksum in hexadecimal digits."""
        done = [d if isinstance(d, bytes) else d.result() for d in self._digests]
        return sha256(b"".join(done)).hexdigest()
