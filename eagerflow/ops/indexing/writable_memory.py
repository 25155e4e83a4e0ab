"""Check whether an array's memory may be written without effect on other handles."""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Final, final
from weakref import getweakrefcount

from eagerflow.core.interpreter import stack
from eagerflow.hardware import as_device


@final
class _Slot:
    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = object()


def _references(data: Any) -> int:
    return getrefcount(data)


_slot: Final = _Slot()
#: result of `getrefcount` in `may_reuse` for a value that only one slot holds
_ALONE: Final = _references(_slot.data)


_ARRAY: Final = as_device("cpu:0").backend.array_type


def may_reuse(data: Any) -> bool:
    """Whether the caller may write into ``data``, the array in a slot that the caller owns.

    True if nothing else can see the memory: one reference (that slot), no view, no weak
    reference (a tape has one for each value it follows), memory that is the array's own and
    writable, and no interpreter that may have noted the value.

    Args:
        data: the array, passed directly as ``may_reuse(handle._data)``: a local variable that
            holds the array would be a second reference.
    """
    return (
        getrefcount(data) <= _ALONE
        and type(data) is _ARRAY
        and not stack.installed
        and data.base is None
        and (flags := data.flags).owndata
        and flags.writeable
        and not getweakrefcount(data)
    )
