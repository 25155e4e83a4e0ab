"""TensorFlow's ``tf.train.Example``: the bytes of named lists of numbers or of bytes.

The only message of protocol buffers that is read and written here is::

    Example  { Features features = 1; }
    Features { map<string, Feature> feature = 1; }   # { string key = 1; Feature value = 2; }
    Feature  { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
    …List    { repeated bytes | float | int64 value = 1; }   # numbers packed, or one by one

Source: the encoding of protocol buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from eagerflow_kernels.records import DamagedError

#: the kinds of lists, by the number of their field
KINDS: Final = {1: "bytes", 2: "float32", 3: "int64"}

_VARINT, _LONG, _BLOCK, _SHORT = 0, 1, 2, 5
_ALL: Final = (1 << 64) - 1

#: number, wire type, and begin and end of the contents; for a varint, its value twice
Field = tuple[int, int, int, int]


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number in groups of 7 bits, and the position of its end."""
    number = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        if byte < 0x80:
            return (number | byte << shift) & _ALL, position
        number |= (byte & 0x7F) << shift
        shift += 7
    raise DamagedError("it ends within a number")


def _fields(data: bytes, position: int, end: int) -> list[Field]:
    """The fields of the message in a part of ``data``."""
    fields: list[Field] = []
    while position < end:
        # nearly all tags and lengths are one byte: decoded here, which halves the time
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = _varint(data, position - 1, end)
        wire = tag & 7
        if wire == _BLOCK and position < end and data[position] < 0x80:
            size, position = data[position], position + 1
        elif wire == _BLOCK:
            size, position = _varint(data, position, end)
        elif wire == _VARINT:
            value, position = _varint(data, position, end)
            fields.append((tag >> 3, wire, value, value))
            continue
        elif wire in (_LONG, _SHORT):
            size = 8 if wire == _LONG else 4
        else:
            raise DamagedError(f"it has a field of an unknown encoding, {wire}")
        start, position = position, position + size
        if position > end:
            raise DamagedError("it ends within a field")
        fields.append((tag >> 3, wire, start, position))
    return fields


def read_example(data: bytes) -> dict[str, tuple[str, Sequence[Any]]]:
    """The features of an example: by name the kind, one of `KINDS`, and the values.

    Raises:
        DamagedError: these are not the bytes of an example.
    """
    features: dict[str, tuple[str, Sequence[Any]]] = {}
    for number, wire, start, end in _fields(data, 0, len(data)):
        if number != 1 or wire != _BLOCK:
            continue
        for inner, kind, first, last in _fields(data, start, end):
            if inner == 1 and kind == _BLOCK:
                _read_entry(data, first, last, features)
    return features


def _read_entry(data: bytes, start: int, end: int, features: dict[str, Any]) -> None:
    """Add one name with its feature."""
    name, position = "", (0, 0)
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire == _BLOCK:
            name = data[first:last].decode("utf-8", "surrogateescape")
        elif number == 2 and wire == _BLOCK:
            position = first, last
    for number, wire, first, last in _fields(data, *position):
        if number in KINDS and wire == _BLOCK:
            features[name] = KINDS[number], _LISTS[number](data, first, last)


def _bytes_list(data: bytes, start: int, end: int) -> list[bytes]:
    fields = _fields(data, start, end)
    return [data[a:b] for number, wire, a, b in fields if number == 1 and wire == _BLOCK]


def _float_list(data: bytes, start: int, end: int) -> Sequence[float]:
    values: list[float] = []
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire in (_BLOCK, _SHORT):
            if (last - first) % 4:
                raise DamagedError("it has a list of floats that is torn")
            values += np.frombuffer(data[first:last], "<f4").tolist()
    return values


def _int_list(data: bytes, start: int, end: int) -> list[int]:
    values: list[int] = []
    for number, wire, first, last in _fields(data, start, end):
        if number != 1:
            continue
        if wire == _VARINT:
            values.append(first)
        elif wire == _BLOCK:
            while first < last:
                item, first = _varint(data, first, last)
                values.append(item)
    return [x - (1 << 64) if x >> 63 else x for x in values]


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
