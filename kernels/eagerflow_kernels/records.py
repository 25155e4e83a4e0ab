"""The format of record files, and the diagnosis of damaged records.

A record is laid out as in TensorFlow's TFRecord files: its length (8 bytes, little-endian), the
masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data (4 bytes each).
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
    """Malformed bytes: of a record, a picture, or a number as text."""


def read_record(file: IO[bytes]) -> tuple[bytes, str | None]:
    """The next record, and a diagnosis if it is damaged; damaged data do not end the reading.

    Raises:
        EOFError: there are no more records.
    """
    head = file.read(_HEAD.size)
    if not head:
        raise EOFError
    size, check = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
    if len(head) < _HEAD.size or masked(head[:8]) != check:
        file.seek(0, os.SEEK_END)  # where the next record starts is unknown
        short = len(head) < _HEAD.size
        return b"", "is torn" if short else "has a damaged length, or is not a record"
    data, tail = file.read(size), file.read(_TAIL.size)
    if len(tail) < _TAIL.size:
        return b"", "is torn"
    if masked(data) != _TAIL.unpack(tail)[0]:
        return b"", "is damaged: its checksum is another"
    return data, None


def framed(record: bytes | bytearray | memoryview) -> tuple[bytes, bytes]:
    """The header and the trailer of the data of a record."""
    size = _SIZE.pack(len(record))
    return size + _TAIL.pack(masked(size)), _TAIL.pack(masked(record))
