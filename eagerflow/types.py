"""Dtypes, shapes, types and specs of values; these print one way everywhere: ``f32[8,128]@gpu:0``.

Grammar of a spec, which is a type and a device::

    spec   ::= type [ "@" device ]
    type   ::= dtype "[" dims "]"
    dims   ::= "" | dim ("," dim)*
    dim    ::= integer | name            # a name is a symbolic size
    dtype  ::= "bool" | "i8" | … | "f32" | "bf16" | "c64" | … | "bytes"
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, Final, SupportsIndex, final

import ml_dtypes
import numpy as np

from eagerflow.dims import broadcast, may_equal, same
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.unknown_names import module_dir as _module_dir
from eagerflow_kernels.lists import LIST_DTYPE

#: One size per axis. A size is an int, or in a trace a `eagerflow.dims.Dim`.
Shape = tuple[int, ...]
#: an argument for a shape: one size, or a sequence of sizes
ShapeLike = SupportsIndex | Sequence[SupportsIndex]


#: NumPy's letters (`numpy.dtype.kind`) by the standard's names; lists of tensors have none there
_LETTERS: Final = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "real floating": "f",
    "complex floating": "c",
    "bytes": "S",
    "list": "O",
}


@final
class DType:
    """The type of one element. There is one object per dtype: compare with ``is`` or ``==``.

    ``==`` also accepts NumPy's names of dtypes (``x.dtype == np.float32``, ``== "float32"``).

    Attributes:
        name: the name in the array API standard, such as ``"float32"``.
        short: the name in printed types, such as ``"f32"``.
        category: ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"real floating"``,
            ``"complex floating"`` or ``"bytes"``, the names of the array API standard.
        dtype: NumPy's dtype object (NumPy itself reads it: ``np.zeros(3, ef.float32)``).
        itemsize: bytes per element; for dtype bytes, the size of a reference.

    >>> ef.float32, ef.float32.itemsize, ef.float32 == "float32"
    (float32, 4, True)
    """

    __slots__ = ("category", "dtype", "is_complex", "is_floating", "is_inexact", "is_integer",
                 "is_native", "itemsize", "name", "short")  # fmt: skip

    def __init__(self, name: str, short: str, category: str, dtype: Any) -> None:
        self.name = name
        self.short = short
        self.category = category
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.itemsize = int(self.dtype.itemsize)
        self.is_integer = category in ("signed integer", "unsigned integer")
        self.is_floating = category == "real floating"
        self.is_complex = category == "complex floating"
        self.is_inexact = self.is_floating or self.is_complex
        #: NumPy's own dtype, as opposed to one of ml_dtypes
        self.is_native = self.dtype.isbuiltin == 1  # the kind of float8_e5m2 is "f"

    @property
    def kind(self) -> str:
        """NumPy's letter for the category: ``"b"``, ``"i"``, ``"u"``, ``"f"``, ``"c"``, ``"S"``.

        bfloat16 and the dtypes of 8 bits have an ``"f"``, too, whatever their package says.

        >>> ef.float32.kind, ef.bfloat16.kind, ef.tensor([1]).dtype.kind in "iu"
        ('f', 'f', True)
        """
        return _LETTERS[self.category]

    @property
    def type(self) -> type[Any]:
        """NumPy's scalar type."""
        return self.dtype.type

    @property
    def byteorder(self) -> str:
        """NumPy's sign of the byte order in memory, which is always that of the machine."""
        return self.dtype.byteorder

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType) or other is None:
            return False
        try:
            return as_dtype(other) is self
        except DTypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))


_TABLE: Final = (
    DType("bool", "bool", "bool", np.bool_),
    *(DType(f"int{n}", f"i{n}", "signed integer", f"int{n}") for n in (8, 16, 32, 64)),
    *(DType(f"uint{n}", f"u{n}", "unsigned integer", f"uint{n}") for n in (8, 16, 32, 64)),
    *(DType(f"float{n}", f"f{n}", "real floating", f"float{n}") for n in (16, 32, 64)),
    DType("bfloat16", "bf16", "real floating", ml_dtypes.bfloat16),
    DType("float8_e4m3fn", "f8e4m3fn", "real floating", ml_dtypes.float8_e4m3fn),
    DType("float8_e5m2", "f8e5m2", "real floating", ml_dtypes.float8_e5m2),
    DType("complex64", "c64", "complex floating", np.complex64),
    DType("complex128", "c128", "complex floating", np.complex128),
)

#: the dtype of lists of tensors (`eagerflow.ops.state.lists`): no array has it, and users see it
#: in graphs only. Derivatives flow through lists.
LIST: Final = DType("list", "list", "list", LIST_DTYPE)
LIST.is_inexact = True

#: the dtype of byte strings of any length, such as the contents of files. It is not numeric, so it
#: is not among `DTYPES`; its arrays hold Python's ``bytes``.
BYTES: Final = DType("bytes", "bytes", "bytes", np.object_)

#: every dtype by its name
DTYPES: Final[dict[str, DType]] = {d.name: d for d in _TABLE}
INT64: Final = DTYPES["int64"]
FLOAT32: Final = DTYPES["float32"]
FLOAT64: Final = DTYPES["float64"]

_aliases: Final[dict[Any, DType]] = {
    **{d.name: d for d in _TABLE},
    **{d.short: d for d in _TABLE if d.short not in ("i8", "u8")},
    **{d.dtype: d for d in _TABLE},
    **{d.type: d for d in _TABLE},
    **{d: d for d in _TABLE},
    bool: DTYPES["bool"],
    int: DTYPES["int64"],
    float: DTYPES["float32"],
    complex: DTYPES["complex64"],
    bytes: BYTES,
    np.bytes_: BYTES,
    "bytes": BYTES,
    # names mean the same as types here; NumPy reads them in another way
    "int": DTYPES["int64"],
    "float": DTYPES["float32"],
    "complex": DTYPES["complex64"],
}

_AMBIGUOUS: Final = {"i8": "'int8' or 'int64'", "u8": "'uint8' or 'uint64'"}

_DEFAULTS: Final = {
    "bool": DTYPES["bool"],
    "signed integer": DTYPES["int64"],
    "unsigned integer": DTYPES["uint64"],
    "real floating": DTYPES["float32"],
    "complex floating": DTYPES["complex64"],
}


#: an argument for a dtype (see `as_dtype`); None leaves it open
DTypeLike = DType | np.dtype[Any] | type[Any] | str | None


def as_dtype(value: Any) -> DType:
    """The `DType` that ``value`` names.

    Args:
        value: a `DType`, a name (``"float32"``, ``"f32"``), a NumPy dtype or scalar type, or
            Python's ``bool``, ``int`` (int64), ``float`` (float32), ``complex`` (complex64) or
            ``bytes``.

    Raises:
        DTypeError: there is no such dtype.

    >>> ef.types.as_dtype("f32"), ef.types.as_dtype(int)
    (float32, int64)
    """
    if type(value) is DType:
        return value
    if isinstance(value, str) and value in _AMBIGUOUS:
        raise DTypeError(
            f"{value!r} is ambiguous: 8 bits as types print here, 8 bytes in NumPy",
            hint=f"write {_AMBIGUOUS[value]}",
        )
    try:
        dtype = _aliases.get(value)
    except TypeError:  # unhashable
        dtype = None
    if dtype is None and value is not None:  # NumPy takes None for float64
        with suppress(TypeError, ValueError, SyntaxError):  # strings that are no type string
            dtype = _aliases.get(np.dtype(value))
    if dtype is None:
        hint = None
        if isinstance(value, bool):
            hint = "keepdims= is given by name: x.sum(1, keepdims=True)"
        elif isinstance(value, int):
            hint = "a shape of several sizes is one argument, a tuple: zeros((3, 4))"
        raise DTypeError(
            f"{value!r} is not a dtype that eagerflow has",
            expected=", ".join([*DTYPES, BYTES.name]),
            hint=hint,
        )
    return dtype


def number_dtype(value: Any) -> DType:
    """The dtype of numbers or bool that ``value`` names, as for `as_dtype`.

    Raises:
        DTypeError: there is no such dtype, or it is bytes.
    """
    dtype = as_dtype(value)
    if dtype is BYTES:
        raise DTypeError("numbers cannot be cast to bytes", expected=", ".join(DTYPES))
    return dtype


def default_dtype(kind: str) -> DType:
    """The default dtype of values of a kind (float32, int64, …)."""
    return _DEFAULTS[kind]


# --- promotion ------------------------------------------------------------------------------

_COMPLEX_OF: Final = {"float64": "complex128", "complex128": "complex128"}
_promoted: dict[tuple[DType, DType], DType] = {}


def promote_dtypes(*dtypes: DType) -> DType:
    """The dtype that all of ``dtypes`` promote to (array API standard, "Type promotion").

    Beyond the standard: bool with another dtype gives the other one; an integer with a floating
    dtype gives the floating one; two 16-bit floats of different kinds give float32.

    Raises:
        DTypeError: two dtypes have no common dtype (int64 with uint64, two kinds of float8).

    >>> ef.types.promote_dtypes(ef.int8, ef.uint8), ef.types.promote_dtypes(ef.int64, ef.float32)
    (int16, float32)
    """
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if dtype is not result:
            pair = (result, dtype)
            promoted = _promoted.get(pair)
            if promoted is None:
                promoted = _promoted[pair] = _promote(*pair)
            result = promoted
    return result


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a is BYTES or b is BYTES:
        number = b if a is BYTES else a
        raise DTypeError(
            f"bytes and {number.name} have no common dtype",
            hint="ef.io.parse_numbers and ef.io.decode_raw make numbers of bytes",
        )
    if b.category == "bool":
        return a
    if a.category == "bool":
        return b
    if a.is_integer and b.is_integer:
        return _promote_integers(a, b)
    if a.is_integer:
        return b
    if b.is_integer:
        return a
    if a.is_complex or b.is_complex:
        wide = any(d.name in _COMPLEX_OF for d in (a, b))
        return DTYPES["complex128" if wide else "complex64"]
    if a.itemsize == b.itemsize:
        if a.itemsize == 2:
            return DTYPES["float32"]
        raise DTypeError(
            f"{a.name} and {b.name} have no common dtype", hint="convert one with .astype(...)"
        )
    return a if a.itemsize > b.itemsize else b


def _promote_integers(a: DType, b: DType) -> DType:
    if a.category == b.category:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.category == "signed integer" else (b, a)
    size = max(signed.itemsize, 2 * unsigned.itemsize)
    if size > 8:
        raise DTypeError(
            f"{a.name} and {b.name} have no common dtype",
            hint="no integer dtype holds both; convert one with .astype(...)",
        )
    return DTYPES[f"int{8 * size}"]


# --- shapes ---------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that ``shapes`` broadcast to (array API standard, "Broadcasting").

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> ef.types.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    result = shapes[0]
    for shape in shapes[1:]:
        if shape is not result:
            result = _broadcast(result, shape)
    return result


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal for all values of the names in them; resolves no size.

    >>> n = ef.Dim("n")
    >>> ef.types.same_shape((n, 3), (n, 3)), ef.types.same_shape((n, 3), (4, 3))
    (True, False)
    """
    if len(a) != len(b):
        return False
    # the same object first: small ints are, and it costs least
    return all(x is y or same(x, y) for x, y in zip(a, b, strict=True))


def may_be_same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes may be equal, as far as symbolic sizes are known.

    >>> n = ef.Dim("n")
    >>> ef.types.may_be_same_shape((n, 3), (4, 3)), ef.types.may_be_same_shape((n, 3), (n + 1, 3))
    (True, False)
    """
    return len(a) == len(b) and all(map(may_equal, a, b))


def _broadcast(a: Shape, b: Shape) -> Shape:
    if len(a) < len(b):
        a, b = b, a
    offset = len(a) - len(b)
    dims: list[Any] = list(a)
    for i, size in enumerate(b):
        other = a[offset + i]
        if other is size:
            continue
        if type(other) is not int or type(size) is not int:
            dims[offset + i] = broadcast(other, size)
        elif other == 1:
            dims[offset + i] = size
        elif size not in (1, other):
            raise ShapeError(
                "shapes cannot be broadcast together",
                given=f"{a} and {b}",
                expected="sizes that are equal or 1, aligned at the last axis",
            )
    return tuple(dims)


@final
@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a value, as type rules take it: dtype and shape, without the device.

    >>> ef.types.TensorType(ef.float32, (8, 128))
    f32[8,128]
    """

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype.short}[{','.join(str(d) for d in self.shape)}]"

    __repr__ = __str__

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    def like(self, shape: Shape | None = None, dtype: DType | None = None) -> TensorType:
        """The same type with another shape or dtype."""
        return TensorType(
            self.dtype if dtype is None else dtype,
            self.shape if shape is None else shape,
        )

    def on(self, device: Any) -> TensorSpec:
        """The spec of a value of this type on a device.

        >>> ef.types.TensorType(ef.float32, (8, 128)).on("gpu:0")
        f32[8,128]@gpu:0
        """
        return TensorSpec(self, device)


def text_of(type: Any, device: Any) -> str:
    """The text of a type and a device: ``f32[8,128]@gpu:0``.

    Args:
        type: of a value.
        device: of the value; None if not known, and for numbers.
    """
    return str(type) if device is None else f"{type}@{device}"


@final
@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The type and the device of a value.

    >>> spec = ef.ones((8, 128)).type
    >>> spec, spec.type, spec.device
    (f32[8,128]@cpu:0, f32[8,128], Device('cpu:0'))
    """

    type: TensorType
    device: Any = None  # a Device or its name; this layer does not know the class

    def __str__(self) -> str:
        return text_of(self.type, self.device)

    __repr__ = __str__

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The shape."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.type.nbytes

    def like(self, shape: Shape | None = None, dtype: DType | None = None) -> TensorSpec:
        """The same spec with another shape or dtype."""
        return TensorSpec(self.type.like(shape, dtype), self.device)


__dir__ = _module_dir(globals())
