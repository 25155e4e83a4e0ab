"""Cases of the ops that decode bytes. The bytes are made by means other than eagerflow's own:
`struct`, Python's number formatting, PNG written chunk by chunk, messages field by field.
"""

from __future__ import annotations

import hashlib
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.ops.case import ALL, BYTES, COMPLEX, INTEGER, OpCase, Sample, np_dtype

_NONE = "bytes have no derivative"
_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
#: folder for all rows of one process; kept until the process ends
_FOLDER = tempfile.TemporaryDirectory()


def _each(function: Any, *arrays: Any) -> Any:
    """An array of objects: ``function`` applied to the elements of the arrays."""
    out = np.empty(arrays[0].shape, object)
    for place in np.ndindex(*out.shape):
        out[place] = function(*[x[place] for x in arrays])
    return out


def _row(name: str, make: Any, reference: Any, **options: Any) -> OpCase:
    usual: dict[str, Any] = {"dtypes": BYTES, "no_grad": _NONE, "exact": True}
    return OpCase(f"io.{name}", make, reference, **usual | options)


# --- memory of elements -----------------------------------------------------------------------


def _packed(dtype: str, order: str) -> Any:
    """Makes packed bytes of three numbers each."""

    def make(s: Sample) -> tuple[Any, ...]:
        values = s.array(0, 9, (*s.shape, 3), dtype="int64")
        code = order + 3 * _CODES[dtype]
        return _each(lambda row: struct.pack(code, *row), _rows(values)), dtype

    return make


def _rows(values: Any) -> Any:
    """An array of objects whose elements are the rows along the last axis."""
    out = np.empty(values.shape[:-1], object)
    for place in np.ndindex(*out.shape):
        out[place] = tuple(values[place].tolist())
    return out


def _unpacked(order: str) -> Any:
    def reference(x: Any, dtype: str, byte_order: str = "") -> Any:
        if not x.size:
            return np.zeros((*x.shape, 0), dtype)
        rows = [struct.unpack(order + 3 * _CODES[dtype], x[p]) for p in np.ndindex(*x.shape)]
        return np.array(rows, dtype).reshape(*x.shape, 3)

    return reference


def _complex_bytes(s: Sample) -> tuple[Any, ...]:
    values = s.array(shape=(*s.shape, 2), dtype="float64")
    return _each(lambda row: struct.pack(">2f", *row), _rows(values)), "complex64"


def _complex_of(x: Any, dtype: str) -> Any:
    elements = [complex(*struct.unpack(">2f", x[p])) for p in np.ndindex(*x.shape)]
    return np.array(elements, "complex64").reshape(*x.shape, 1 if x.size else 0)


_RAW = [
    *(_row("decode_raw", _packed(dtype, "<"), _unpacked("<"), ops=("decode_raw",), label=dtype)
      for dtype in _CODES),
    *(_row("decode_raw", _packed(dtype, ">"), _unpacked(">"), ops=("decode_raw",),
           kwargs={"byte_order": "big"}, label=f"big_{dtype}")
      for dtype in ("bool", "uint8", "int16", "float32", "float64")),
    _row("decode_raw", _complex_bytes, _complex_of, kwargs={"byte_order": "big"}, plain=True,
         label="big_complex"),
    _row("decode_raw", lambda s: (_each(lambda _: b"\x80?\0@", s.array()), "bfloat16"),
         lambda x, dtype: np.full((*x.shape, 2 if x.size else 0), [1.0, 2.0][: 2 * bool(x.size)],
                                  ml_dtypes.bfloat16), label="bfloat16"),
]  # fmt: skip


# --- numbers that are written out -------------------------------------------------------------


def _written(s: Sample) -> Any:
    numbers = s.array(-9, 9, dtype="float64")
    return _each(lambda x: f" {float(x)!r}\n".replace("e", "E").encode(), numbers)


def _whole(s: Sample) -> Any:
    return _each(lambda x: b"%+d" % x, s.array(0, 99, dtype="int64"))


def _read(x: Any, dtype: str = "float32") -> Any:
    kind = int if dtype in INTEGER else float
    return np.array([kind(x[p]) for p in np.ndindex(*x.shape)], np_dtype(dtype)).reshape(x.shape)


_NUMBERS = [
    _row("parse_numbers", lambda s: (_written(s),), _read),
    *(_row("parse_numbers", lambda s, d=dtype: (_written(s), d), _read, label=dtype)
      for dtype in ("float64", "float16", "bfloat16", "float8_e5m2")),
    *(_row("parse_numbers", lambda s, d=dtype: (_whole(s), d), _read, label=dtype)
      for dtype in INTEGER),
    _row("length", lambda s: (s.array(),), lambda x: _each(len, x).astype("int64"),
         ops=("byte_length",)),
]  # fmt: skip


def _table(s: Sample) -> tuple[Any, ...]:
    """Rows of CSV: a number, a text in quotes or without, and a number that may be missing."""
    first, second, lacks = s.array(-9, 9, dtype="int64"), s.array(dtype="float64"), s.array()
    texts = _each(lambda i: b'"a, ""%d"""' % i if i % 2 else b"b%d" % i, first)
    rows = _each(lambda i, t, x, no: b"%d,%s,%s" % (i, t, b"" if no else b"%r" % float(x)),
                 first, texts, second, lacks)  # fmt: skip
    return rows, ("int32", "bytes", "float64")


def _columns(x: Any, dtypes: Any, defaults: Any) -> Any:
    """The three columns of such rows, split field by field."""
    numbers, texts, others = [], [], []
    for place in np.ndindex(*x.shape):
        first, rest = x[place].split(b",", 1)
        text, last = rest.rsplit(b",", 1)
        numbers.append(int(first))
        texts.append(text[1:-1].replace(b'""', b'"') if text.startswith(b'"') else text)
        others.append(float(last) if last else defaults[2])
    words = np.empty(len(texts), object)
    words[:] = texts
    return [np.array(numbers, "int32").reshape(x.shape), words.reshape(x.shape),
            np.array(others, "float64").reshape(x.shape)]  # fmt: skip


_TABLES = [
    _row("decode_csv", _table, _columns, kwargs={"defaults": (None, None, 0.5)}),
    _row("decode_csv", lambda s: (_each(lambda x: x + b";" + x, _whole(s)), ("i64", "f32")),
         lambda x, dtypes, delimiter: [
             _read(_each(lambda row: row.split(b";")[0], x), "int64"),
             _read(_each(lambda row: row.split(b";")[1], x), "float32")],
         kwargs={"delimiter": ";"}, label="semicolon"),
]  # fmt: skip


# --- pictures ---------------------------------------------------------------------------------


def png(pixels: Any) -> bytes:
    """A PNG file, built chunk by chunk, of a picture ``[height, width, 1 | 3 | 4]``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))  # fmt: skip

    height, width, depth = pixels.shape
    colours = {1: 0, 3: 2, 4: 6}[depth]
    rows = b"".join([b"\0" + row.tobytes() for row in pixels])
    head = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))  # fmt: skip


def _colours(data: bytes, depth: int) -> Any:
    """The elements of a picture of the row, derived from its name, which is a number."""
    rng = np.random.default_rng(int.from_bytes(data, "little"))
    return rng.integers(0, 256, (3, 2, depth), dtype=np.uint8)


def _names(s: Sample) -> Any:
    return _each(lambda x: hashlib.sha256(x).digest()[:4], s.array())


_ALBUM: dict[bytes, bytes] = {}


def _pictures(depth: int) -> Any:
    def picture(name: bytes) -> bytes:
        data = png(_colours(name, depth))
        _ALBUM[data] = name
        return data

    return lambda s: (_each(picture, _names(s)),)


def _elements(depth: int, wanted: int, known: bool = True) -> Any:
    def reference(x: Any, **options: Any) -> Any:
        if not x.size:
            return np.zeros((*x.shape, 0, 0, wanted if known else 0), np.uint8)
        pictures = [_colours(_ALBUM[x[p]], depth) for p in np.ndindex(*x.shape)]
        if wanted == 4 and depth == 3:
            pictures = [np.concatenate([y, np.full((3, 2, 1), 255, np.uint8)], 2) for y in pictures]
        if wanted == 3 and depth == 1:
            pictures = [np.repeat(y, 3, 2) for y in pictures]
        return np.stack(pictures).reshape(*x.shape, 3, 2, wanted)

    return reference


_PICTURES = [
    *(_row("decode_image", _pictures(depth), _elements(depth, wanted),
           kwargs={"channels": wanted}, label=f"{depth}_to_{wanted}")
      for depth, wanted in ((3, 3), (1, 1), (4, 4), (1, 3), (3, 4))),
    _row("decode_image", _pictures(4), _elements(4, 4, False), kwargs={"channels": None},
         label="own"),
    _row("decode_image", _pictures(3), lambda x, dtype: (
        _elements(3, 3)(x).astype(np.float32) / np.float32(255)),
         kwargs={"dtype": "float32"}, label="floating"),
    _row("decode_image", _pictures(3), lambda x, size: (
        _elements(3, 3)(x) if x.size else np.zeros((*x.shape, 3, 2, 3), np.uint8)),
         kwargs={"size": (3, 2)}, label="size"),
]  # fmt: skip


# --- examples ---------------------------------------------------------------------------------


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a message; data must be shorter than 128 bytes."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def message(**features: bytes) -> bytes:
    """A serialised example, of features that are serialised already."""
    entries = [field(1, field(1, k.encode()) + field(2, v)) for k, v in features.items()]
    return field(1, b"".join(entries))


def _example(i: int) -> bytes:
    """A serialised example: a number i, two floats not packed, and i words."""
    return message(
        label=field(3, field(1, bytes([i]))),
        pair=field(2, b"".join([bytes([1 << 3 | 5]) + struct.pack("<f", x) for x in (i, 0.5)])),
        words=field(1, b"".join([field(1, b"w%d" % k) for k in range(i)])),
    )


def _examples(s: Sample) -> Any:
    return _each(_example, s.array(0, 4, dtype="int64"))


_FEATURES = {"label": "i64[]", "pair": "f32[2]", "words": "bytes[n]", "more": "i64[1]"}


def _parsed(x: Any, features: Any, defaults: Any) -> Any:
    places = list(np.ndindex(*x.shape))
    labels = {_example(i): i for i in range(4)}
    numbers = [labels[x[p]] for p in places]
    most = max(numbers, default=0)
    words = np.empty((len(places), most), object)
    for i, number in enumerate(numbers):
        words[i] = [b"w%d" % k if k < number else b"" for k in range(most)]
    columns = [np.array(numbers, "int64"), np.array([[n, 0.5] for n in numbers], "float32"), words,
               np.full((len(places), 1), 7)]  # fmt: skip
    inner = [(), (2,), (most,), (1,)]
    return [y.reshape(x.shape + rest) for y, rest in zip(columns, inner, strict=True)]


def _same_features(got: Any, want: Any) -> None:
    for g, w in zip(got.values(), want, strict=True):
        assert g.shape == w.shape
        assert g.tolist() == w.tolist()


def _same_example(got: Any, want: Any) -> None:
    assert got.item() == want


_EXAMPLES = [
    _row("parse_example", lambda s: (_examples(s), _FEATURES), _parsed,
         kwargs={"defaults": {"more": 7}}, compare=_same_features),
    *(_row("encode_example", lambda s: ({"x": s.array(0, 9)},),
           lambda features: _written_example(features["x"]), dtypes=(dtype,),
           compare=_same_example, layouts=("vector", "strided", "0d"), label=dtype)
      for dtype in ALL + BYTES if dtype not in COMPLEX),
]  # fmt: skip


def _written_example(x: Any) -> bytes:
    values = x.ravel().tolist()
    if x.dtype == object:
        return message(x=field(1, b"".join([field(1, v) for v in values])))
    if x.dtype.kind in "iub":
        return message(x=field(3, field(1, bytes(map(int, values)))))
    return message(x=field(2, field(1, struct.pack(f"<{len(values)}f", *values))))


# --- files ------------------------------------------------------------------------------------


def _files(s: Sample) -> tuple[Any, ...]:
    def written(data: bytes) -> bytes:
        path = Path(_FOLDER.name, hashlib.sha256(data).hexdigest())
        path.write_bytes(data)
        return str(path).encode()

    return (_each(written, s.array()),)


_FILES = [
    _row("read_file", _files, lambda x: _each(lambda p: Path(p.decode()).read_bytes(), x)),
]

CASES = _RAW + _NUMBERS + _TABLES + _PICTURES + _EXAMPLES + _FILES
