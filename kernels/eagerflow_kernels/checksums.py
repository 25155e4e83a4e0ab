"""CRC-32C, the checksum of record files, many bytes at a time.

A CRC is linear: the CRC of a message is the exclusive or of the contributions of its bytes, each of
which depends on the byte and on the number of bytes that follow. So a table of contributions, one
row for each number of bytes that follow, gives the checksum of a block by one look-up per byte, all
in NumPy.
Castagnoli's polynomial: Castagnoli, Braeuer and Herrmann (1993); masks as in TensorFlow's files.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

_POLYNOMIAL: Final = 0x82F63B78
_BLOCK: Final = 1024  # bytes of a block; its table has 1 MB
_ALL: Final = 0xFFFFFFFF
_MASK: Final = 0xA282EAD8


@cache
def _tables() -> tuple[np.ndarray[Any, Any], list[list[int]]]:
    """Contributions of a byte by its position in a block, and of the bytes of a register.

    A register r in front of a block contributes ``blocks[k][byte k of r]`` for each k, as if it
    were the block's first four bytes.
    """
    step = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        step = np.where(step & 1, (step >> 1) ^ np.uint32(_POLYNOMIAL), step >> 1)
    rows = np.empty((_BLOCK, 256), np.uint32)
    rows[0] = step
    for i in range(1, _BLOCK):
        rows[i] = step[rows[i - 1] & 0xFF] ^ (rows[i - 1] >> 8)
    return rows[::-1].copy(), [rows[_BLOCK - 1 - k].tolist() for k in range(4)]


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of ``data``.

    >>> from eagerflow_kernels.checksums import crc32c
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table, blocks = _tables()
    octets = np.frombuffer(data, np.uint8)
    head = len(octets) % _BLOCK
    register = _short(octets[:head], table)
    if len(octets) == head:
        return register ^ _ALL
    positions = np.arange(_BLOCK)
    for first in range(head, len(octets), 64 * _BLOCK):
        part = octets[first : first + 64 * _BLOCK].reshape(-1, _BLOCK)
        for own in np.bitwise_xor.reduce(table[positions, part], axis=1).tolist():
            register = own ^ (
                blocks[0][register & 0xFF]
                ^ blocks[1][register >> 8 & 0xFF]
                ^ blocks[2][register >> 16 & 0xFF]
                ^ blocks[3][register >> 24]
            )
    return register ^ _ALL


def _short(octets: np.ndarray[Any, Any], table: np.ndarray[Any, Any]) -> int:
    """The register after less than a block, which starts with all bits set."""
    register = _ALL
    if len(octets) < 4:  # shorter than the register
        for byte in octets.tolist():
            register = int(table[-1, (register ^ byte) & 0xFF]) ^ register >> 8
        return register
    octets = octets.copy()
    octets[:4] ^= 0xFF  # the initial register, whose bytes are added to the first four
    contributions = table[np.arange(_BLOCK - len(octets), _BLOCK), octets]
    return int(np.bitwise_xor.reduce(contributions))


def masked(data: bytes | bytearray | memoryview) -> int:
    """The masked checksum of record files: a CRC over data with CRCs in it would be weak."""
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + _MASK) & _ALL
