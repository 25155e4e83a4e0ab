"""Record files: how a record lies in a file, and what is wrong with one that is damaged.

A record is, as in TensorFlow's TFRecord files: its length (8 bytes, little-endian), the masked
CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data (4 bytes each).
"""

from __future__ import annotations

import os
import struct
from typing import IO, Final, final

from eagerflow_kernels.checksums import masked

_HEAD: Final = struct.Struct("<QI")
_TAIL: Final = struct.Struct("<I")
_SIZE: Final = struct.Struct("<Q")


@final
class DamagedError(ValueError):
    """Bytes that are not what they should be: a record, a picture, a number that is written out."""


def read_record(file: IO[bytes]) -> tuple[bytes, str | None]:
    """The next record, and what is wrong with it. Behind wrong data, the next one is there.

    Raises:
        EOFError: there is none.
    """
    head = file.read(_HEAD.size)
    if not head:
        raise EOFError
    size, check = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
    if len(head) < _HEAD.size or masked(head[:8]) != check:
        file.seek(0, os.SEEK_END)  # where the next record starts is unknown
        short = len(head) < _HEAD.size
        return b"", "is torn" if short else "has a damaged length, or is no record"
    data, tail = file.read(size), file.read(_TAIL.size)
    if len(tail) < _TAIL.size:
        return b"", "is torn"
    if masked(data) != _TAIL.unpack(tail)[0]:
        return b"", "is damaged: its checksum is another"
    return data, None


def framed(record: bytes | bytearray | memoryview) -> tuple[bytes, bytes]:
    """What stands before and behind the data of a record."""
    size = _SIZE.pack(len(record))
    return size + _TAIL.pack(masked(size)), _TAIL.pack(masked(record))
