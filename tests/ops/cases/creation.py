"""Cases of the ops that create arrays, and of those that change dtype or device."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import eagerflow as ef
from tests.ops.case import (
    ALL,
    BYTES,
    COMPLEX,
    FLOAT8,
    FLOATING,
    INTEGER,
    REAL,
    OpCase,
    Sample,
    np_dtype,
)

DTYPES = ALL + FLOAT8
MOVED = DTYPES + BYTES
MATRICES = ("matrix", "strided")
_NONE = "takes no array"

# a second device, which stays usable though the setting is restored
with ef.config(cpu_devices=2):
    OTHER = ef.hardware.as_device("cpu:1")


def _one(s: Sample):
    return (s.array(),)


def _filled(shape, value):
    """Nested lists of one value, as an array."""
    made = value
    for size in reversed(shape):
        made = [made] * size
    return np.array(made).reshape(shape)


def _described(name, make, reference, dtypes, **options):
    """A row per dtype for a function with the argument ``dtype``."""
    kwargs = options.pop("kwargs", {})
    return [
        OpCase(name, make, reference, kwargs={**kwargs, "dtype": d}, plain=True, dtypes=(d,),
               label=f"{options.get('label', '')}{d}", no_grad=_NONE,
               **{k: v for k, v in options.items() if k != "label"})
        for d in dtypes
    ]  # fmt: skip


def _rounded(values, s_dtype):
    return np.array([float(v) for v in values]).astype(np_dtype(s_dtype)).astype(np.float64)


# --- from a description ---------------------------------------------------------------------

_FILLED = [
    *_described("zeros", lambda s: (s.shape,), lambda shape: _filled(shape, 0), DTYPES,
                exact=True),
    *_described("empty", lambda s: (s.shape,), lambda shape: _filled(shape, 0), ("float32",),
                exact=True, ops=("zeros",)),
    *_described("ones", lambda s: (s.shape,), lambda shape: _filled(shape, 1), DTYPES,
                exact=True, ops=("full",)),
    *_described("full", lambda s: (s.shape, 3), lambda shape, v: _filled(shape, 3),
                REAL + COMPLEX + FLOAT8, exact=True),
    *_described("full", lambda s: (s.shape, 2), lambda shape, v: _filled(shape, True), ("bool",),
                exact=True),
    *_described("full", lambda s: (s.shape, 1 - 2j), lambda shape, v: _filled(shape, v), COMPLEX,
                exact=True, label="complex_"),
    OpCase("full", lambda s: ((2, *s.shape), s.array()), lambda shape, v: np.stack([v, v]),
           dtypes=MOVED, grad=(1,), exact=True, ops=("broadcast_to",), label="array"),
    OpCase("zeros_like", _one, lambda x: _filled(x.shape, 0), dtypes=DTYPES, exact=True,
           no_grad="constant", ops=("zeros",)),
    OpCase("empty_like", _one, lambda x: _filled(x.shape, 0), dtypes=("float32",), exact=True,
           no_grad="constant", ops=("zeros",)),
    OpCase("ones_like", _one, lambda x: _filled(x.shape, 1), dtypes=DTYPES, exact=True,
           no_grad="constant", ops=("full",)),
    OpCase("full_like", lambda s: (s.array(), 2), lambda x, v: _filled(x.shape, 2), dtypes=REAL,
           exact=True, no_grad="constant", ops=("full",)),
]  # fmt: skip


def _eye(rows, columns, k):
    return np.array([[float(j - i == k) for j in range(columns)] for i in range(rows)]).reshape(
        rows, columns
    )


def _triangle(x, keep):
    out = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        if keep(place[-1] - place[-2]):
            out[place] = x[place]
    return out


_MATRICES = [
    *_described("eye", lambda s: (2, 4), lambda m, n: _eye(2, 4, 1), DTYPES, kwargs={"k": 1},
                layouts=("matrix",), exact=True),
    *_described("eye", lambda s: (3,), lambda n: _eye(3, 3, 0), ("float32",), layouts=("matrix",),
                exact=True, label="square_"),
    *_described("eye", lambda s: (3, 2), lambda m, n: _eye(3, 2, -5), ("int64",),
                kwargs={"k": -5}, layouts=("matrix",), exact=True, label="outside_"),
    *(OpCase(name, lambda s: (s.array(shape=(2, 3, 4)),), reference, kwargs={"k": k}, plain=True,
             dtypes=DTYPES, grad=(0,), layouts=MATRICES, exact=True, specials=k == 0,
             label=f"k{k}")
      for k in (-1, 0, 2)
      for name, reference in (("tril", lambda x, k=k: _triangle(x, lambda d: d <= k)),
                              ("triu", lambda x, k=k: _triangle(x, lambda d: d >= k)))),
    OpCase("meshgrid", lambda s: (s.array(shape=(3,)), s.array(shape=(2,)), s.array(shape=(4,))),
           lambda x, y, z: [
               np.array([[[(x[j], y[i], z[k])[n] for k in range(4)] for j in range(3)]
                         for i in range(2)]) for n in range(3)],
           dtypes=DTYPES, grad=(0, 1, 2), exact=True, layouts=("vector", "strided"),
           ops=("broadcast_to", "reshape")),
    OpCase("meshgrid", lambda s: (s.array(shape=(3,)), s.array(shape=(2,))),
           lambda x, y, indexing: [np.array([[x[i] for j in range(2)] for i in range(3)]),
                                   np.array([[y[j] for j in range(2)] for i in range(3)])],
           kwargs={"indexing": "ij"}, dtypes=DTYPES, grad=(0, 1), exact=True,
           layouts=("vector",), ops=("broadcast_to", "reshape"), label="ij"),
]  # fmt: skip

# --- ranges ---------------------------------------------------------------------------------


def _arange(start, stop, step):
    """The range, computed exactly in fractions."""
    values, value = [], Fraction(start)
    while (value < stop) if step > 0 else (value > stop):
        values.append(float(value))
        value += Fraction(step)
    return np.array(values)


def _linspace(start, stop, num, endpoint=True):
    parts = max(num - 1 if endpoint else num, 1)
    return np.array([start + (stop - start) * Fraction(i, parts) for i in range(num)]).astype(float)


def _between(x, y, num):
    return np.array([x * (1 - i / (num - 1)) + y * (i / (num - 1)) for i in range(num)])


_RANGES = [
    *_described("arange", lambda s: (1, 12, 3), _arange, REAL + FLOAT8, layouts=("vector",)),
    *_described("arange", lambda s: (5,), lambda n: _arange(0, 5, 1), ("int64",), exact=True,
                layouts=("vector",), label="stop_"),
    *_described("arange", lambda s: (3, -4, -2), _arange, ("int8", "int64", "float32"), exact=True,
                layouts=("vector",), label="down_"),
    *_described("arange", lambda s: (0.25, 3.0, 0.375), _arange, FLOATING, layouts=("vector",),
                label="fractions_"),
    *_described("arange", lambda s: (0.5, 4.5, 1.0), lambda *a: np.arange(4), INTEGER,
                layouts=("vector",), exact=True, label="truncates_"),
    *_described("arange", lambda s: (4, 1), lambda a, b: np.zeros(0), ("int32", "float32"),
                layouts=("vector",), label="none_"),
    *_described("linspace", lambda s: (1, 5, 7), _linspace, FLOATING + FLOAT8,
                layouts=("vector",)),
    *_described("linspace", lambda s: (-2, 3, 4), lambda a, b, n: _linspace(a, b, n, False),
                FLOATING, kwargs={"endpoint": False}, layouts=("vector",), label="open_"),
    *_described("linspace", lambda s: (0, 5, 4), lambda a, b, n: np.floor(_linspace(a, b, n)),
                INTEGER, layouts=("vector",), exact=True, label="integers_"),
    *_described("linspace", lambda s: (1, 1 + 4j, 3), lambda *a: np.array([1, 1 + 2j, 1 + 4j]),
                COMPLEX, layouts=("vector",), label="complex_"),
    *_described("linspace", lambda s: (2, 3, 1), lambda a, b, n: np.array([2.0]), FLOATING,
                layouts=("vector",), exact=True, label="single_"),
    OpCase("linspace", lambda s: (s.array(), s.array(), 3), _between,
           dtypes=("float32", "float64", "bfloat16", *COMPLEX), grad=(0, 1), label="tensors",
           ops=("linspace",)),
    *_described("logspace", lambda s: (0, 2, 5), lambda a, b, n: np.array(
        [math.pow(10, x) for x in _linspace(a, b, n)]), FLOATING, layouts=("vector",),
                ops=("linspace", "pow")),
    *_described("logspace", lambda s: (0, 3, 3), lambda a, b, n: np.array([1.0, 2.0, 4.0]),
                ("float32",), kwargs={"base": 2.0, "endpoint": False}, layouts=("vector",),
                ops=("linspace", "pow"), label="base_"),
]  # fmt: skip

# --- copies, dtypes, devices ----------------------------------------------------------------


def _same(x, *rest):
    return np.array(x.tolist(), x.dtype if x.dtype == object else None).reshape(x.shape)


def _cast(x, dtype):
    """The array converted element by element with Python's numbers."""
    kind = np_dtype(dtype)
    convert = {"b": bool, "i": int, "u": int, "c": complex}.get(kind.kind, float)
    return np.array([convert(v) for v in x.ravel().tolist()], dtype=kind).reshape(x.shape)


def _positive(s: Sample):
    """An array of values that every dtype can hold."""
    return s.array(0.0, 8.0)


_REAL_TARGETS = ("bool", "int8", "int64", "uint8", "float16", "float32", "bfloat16",
                 "float8_e4m3fn", "float8_e5m2", "complex64")  # fmt: skip

_COPIES = [
    OpCase("copy", _one, _same, dtypes=MOVED, grad=(0,), exact=True, specials=True),
    OpCase("tensor", _one, _same, dtypes=MOVED, grad=(0,), exact=True, ops=("copy",)),
    OpCase("tensor", lambda s: ([[s.array(shape=()), 1.0], [2, s.array(shape=())]],),
           lambda rows: np.array([[v.item() if hasattr(v, "item") else v for v in row]
                                  for row in rows]),
           dtypes=("float64", "complex128"), grad=(0,), exact=True, layouts=("0d",),
           ops=("stack",), label="of_tensors", fixed="tensors without axes"),
    OpCase("asarray", _one, _same, kwargs={"copy": True}, plain=True, dtypes=MOVED, grad=(0,),
           exact=True, ops=("copy",)),
    OpCase("from_dlpack", _one, _same, dtypes=DTYPES, grad=(0,), exact=True, ops=("identity",)),
    OpCase("to_device", lambda s: (s.array(), OTHER), _same, dtypes=MOVED, grad=(0,), exact=True,
           ops=("transfer",)),
    *(OpCase("astype", lambda s, t=target: (_positive(s), t), _cast,
             dtypes=tuple(d for d in DTYPES if d not in COMPLEX), exact=True,
             grad=(0,) if target == "complex64" else (), no_grad="" if target == "complex64" else
             "its own dtype is not float64", ops=("cast",), label=f"to_{target}")
      for target in _REAL_TARGETS if target != "complex64"),
    OpCase("astype", lambda s: (_positive(s), "complex128"), _cast,
           dtypes=tuple(d for d in DTYPES if d not in COMPLEX), exact=True, grad=(0,),
           ops=("cast",), label="to_complex128"),
    OpCase("astype", lambda s: (_positive(s), "float64"), _cast, dtypes=("bool", *REAL),
           exact=True, grad=(0,), ops=("cast", "copy"), label="to_float64"),
    OpCase("astype", lambda s: (s.array(), "complex64"), lambda x, t: x.astype(np.complex64),
           dtypes=COMPLEX, no_grad="single precision", ops=("cast",), label="complex"),
    OpCase("astype", lambda s: (s.array() * np.array([0, 1, 1j, 0])[: s.shape[-1]], "bool"),
           lambda x, t: np.array([v != 0 for v in x.ravel().tolist()]).reshape(x.shape),
           dtypes=COMPLEX, no_grad="bool", layouts=("matrix",), ops=("cast",),
           label="complex_to_bool"),
]  # fmt: skip

CASES = _FILLED + _MATRICES + _RANGES + _COPIES
