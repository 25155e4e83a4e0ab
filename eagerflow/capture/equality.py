"""Comparison of the user's values. Exceptions of the user's code are caught, not raised."""

from __future__ import annotations

import operator
from typing import Any, Final

#: types of plain values, which are compared
ATOMS: Final = frozenset({bool, str, bytes, type(None), type(...), int, float, complex})
_FLOATS: Final = (float, complex)


def is_plain(x: Any) -> bool:
    """Whether ``x`` is a plain value, or an immutable container of plain values only."""
    return type(x) in ATOMS or (type(x) in (tuple, frozenset) and all(map(is_plain, x)))


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are of one type and equal; distinguishes 0.0 and -0.0, and two NaNs.

    In containers Python compares a NaN by identity.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in _FLOATS:
        return a == b and repr(a) == repr(b)
    if kind is tuple or kind is frozenset:
        return len(a) == len(b) and same_items(list(a), list(b))
    if getattr(kind, "__eq__", None) is object.__eq__:
        return False
    try:
        return (a == b) is True
    except Exception:
        return False


def same_items(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists have the same values, in the same order."""
    if len(a) != len(b):
        return False
    return all(map(operator.is_, a, b)) or all(map(same_value, a, b))


def content_of(array: Any) -> Any:
    """The content of an array as a value: equal for arrays that code cannot tell apart."""
    if isinstance(array, bytearray):
        return type(array), bytes(array)
    data = array.tobytes()
    if array.dtype.hasobject:
        data = array.ravel().tolist()
    mask = getattr(array, "mask", None)  # of a masked array
    return (
        type(array), array.dtype, array.shape, array.strides, data,
        None if mask is None else bytes(mask.tobytes()),
    )  # fmt: skip
