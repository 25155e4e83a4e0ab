"""Cache keys of static arguments: by value where it can be compared, else by weak identity."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any, Final, final
from weakref import ref

from eagerflow.capture.equality import content_of, same_value
from eagerflow.capture.library_code import is_library_class
from eagerflow.hardware import Device
from eagerflow.tracing.numpy_arrays import is_numpy
from eagerflow.types import DType

_BY_VALUE: Final = frozenset(
    {bool, str, bytes, NoneType, EllipsisType, int, range, DType, Device, type}
)
_BY_IDENTITY: Final = (FunctionType, BuiltinFunctionType, ModuleType, type)


@final
class IdentityKey:
    """A key that is equal to keys of the same object only, and does not keep the object alive.

    Args:
        value: the object.
    """

    __slots__ = ("_hash", "_strong", "_weak")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        self._strong: Any = None
        self._weak: ref[Any] | None = None
        try:
            self._weak = ref(value)
        except TypeError:  # no weak reference: it is kept alive
            self._strong = value

    @property
    def value(self) -> Any:
        """The object, None if it is gone."""
        return self._strong if self._weak is None else self._weak()

    def watch(self, gone: Callable[[], None]) -> Any:
        """Call ``gone`` when the object dies; the caller keeps the returned reference."""
        value = self.value
        return None if self._weak is None or value is None else ref(value, lambda _: gone())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IdentityKey) or other._hash != self._hash:
            return False
        value = self.value
        return value is not None and value is other.value


@final
class _Value:
    """A key of a value that distinguishes ``1``, ``1.0`` and ``True``, unlike ``==``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        value = self.value
        return hash(repr(value) if type(value) in (float, complex) else value)  # NaN is no NaN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and same_value(self.value, other.value)


def static_key(value: Any) -> Any:
    """A hashable key of a static argument.

    Lists, dicts, sets, bytearrays and arrays of NumPy are compared by their items; objects of
    classes that define no equality of their own, and others that cannot be hashed, by identity.
    """
    kind = type(value)
    if kind in _BY_VALUE or kind in (float, complex) or isinstance(value, enum.Enum):
        return IdentityKey(value) if isinstance(value, type) else _Value(value)
    if isinstance(value, _BY_IDENTITY):
        return IdentityKey(value)
    if kind in (list, tuple):
        return (kind, *map(static_key, value))
    if kind is dict:
        return (kind, *[(static_key(k), static_key(v)) for k, v in value.items()])
    if kind is slice:
        return (kind, *map(static_key, (value.start, value.stop, value.step)))
    if kind in (set, frozenset):
        return (kind, frozenset(map(static_key, value)))
    hashes: Any = kind.__hash__
    if kind is bytearray or (hashes is None and is_numpy(value) and not value.dtype.hasobject):
        return content_of(value)
    if hashes is None or hashes is object.__hash__ or not is_library_class(kind):
        return IdentityKey(value)
    try:
        hash(value)
    except Exception:
        return IdentityKey(value)
    return _Value(value)
