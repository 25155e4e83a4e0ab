"""TensorFlow's ``tf.train.Example``: the bytes of named lists of numbers or of bytes.

This is the one message of protocol buffers that is read and written here::

    Example  { Features features = 1; }
    Features { map<string, Feature> feature = 1; }   # { string key = 1; Feature value = 2; }
    Feature  { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
    …List    { repeated bytes | float | int64 value = 1; }   # numbers packed, or one by one

Source: the encoding of protocol buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from eagerflow_kernels.records import DamagedError

__all__ = ["KINDS", "read_example", "write_example"]

#: the kinds of lists, by the number of their field
KINDS: Final = {1: "bytes", 2: "float32", 3: "int64"}

_VARINT, _LONG, _BLOCK, _SHORT = 0, 1, 2, 5
_ALL: Final = (1 << 64) - 1
_FLOAT: Final = struct.Struct("<f")

Field = tuple[int, int, Any]


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number in groups of 7 bits, and where it ends."""
    found = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise DamagedError("it ends within a number")
        byte = data[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & _ALL, place
        shift += 7


def _fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message: number, kind of encoding, contents."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield number, wire, value
            continue
        if wire == _BLOCK:
            size, place = _varint(data, place)
        elif wire in (_LONG, _SHORT):
            size = 8 if wire == _LONG else 4
        else:
            raise DamagedError(f"it has a field of an unknown encoding, {wire}")
        if place + size > len(data):
            raise DamagedError("it ends within a field")
        yield number, wire, data[place : place + size]
        place += size


def _blocks(data: memoryview, number: int) -> Iterator[memoryview]:
    """The contents of the fields of that number that are messages, texts or bytes."""
    for found, wire, value in _fields(data):
        if found == number and wire == _BLOCK:
            yield value


def read_example(data: bytes) -> dict[str, tuple[str, Sequence[Any]]]:
    """The features of an example: by name the kind, one of `KINDS`, and the values.

    Raises:
        DamagedError: these are not the bytes of an example.
    """
    found: dict[str, tuple[str, Sequence[Any]]] = {}
    for features in _blocks(memoryview(data), 1):
        for entry in _blocks(features, 1):
            name, feature = "", memoryview(b"")
            for number, wire, value in _fields(entry):
                if number == 1 and wire == _BLOCK:
                    name = bytes(value).decode("utf-8", "surrogateescape")
                elif number == 2 and wire == _BLOCK:
                    feature = value
            for number, wire, value in _fields(feature):
                if number in KINDS and wire == _BLOCK:
                    found[name] = KINDS[number], _LISTS[number](value)
    return found


def _bytes_list(data: memoryview) -> list[bytes]:
    return [bytes(value) for value in _blocks(data, 1)]


def _float_list(data: memoryview) -> Sequence[float]:
    parts = []
    for number, wire, value in _fields(data):
        if number == 1 and wire in (_BLOCK, _SHORT):
            if len(value) % 4:
                raise DamagedError("it has a list of floats that is torn")
            parts.append(np.frombuffer(value, "<f4"))
    found: Any = np.concatenate(parts) if parts else ()
    return found  # type: ignore[no-any-return]  # an array is a sequence, but not by its type


def _int_list(data: memoryview) -> list[int]:
    found: list[int] = []
    for number, wire, value in _fields(data):
        if number != 1:
            continue
        if wire == _VARINT:
            found.append(value)
        elif wire == _BLOCK:
            place = 0
            while place < len(value):
                item, place = _varint(value, place)
                found.append(item)
    return [x - (1 << 64) if x >> 63 else x for x in found]


_LISTS: Final[Mapping[int, Any]] = {1: _bytes_list, 2: _float_list, 3: _int_list}


# --- writing ----------------------------------------------------------------------------------


def _coded(value: int) -> bytes:
    value &= _ALL
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, data: bytes) -> bytes:
    return _coded(number << 3 | _BLOCK) + _coded(len(data)) + data


def write_example(features: Mapping[str, tuple[str, Sequence[Any]]]) -> bytes:
    """The bytes of an example, with its features in the order of their names.

    Args:
        features: by name the kind, one of `KINDS`, and the values.
    """
    entries = []
    for name in sorted(features):
        kind, values = features[name]
        number = next(n for n, k in KINDS.items() if k == kind)
        if kind == "bytes":
            inner = b"".join([_block(1, value) for value in values])
        elif kind == "float32":
            inner = _block(1, np.asarray(values, "<f4").tobytes()) if len(values) else b""
        else:
            inner = _block(1, b"".join(map(_coded, map(int, values)))) if len(values) else b""
        feature = _block(number, inner)
        key = name.encode("utf-8", "surrogateescape")
        entries.append(_block(1, _block(1, key) + _block(2, feature)))
    return _block(1, b"".join(entries))
