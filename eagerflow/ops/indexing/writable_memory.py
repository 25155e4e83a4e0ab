"""Whether an array's memory may be written, as far as any other handle could tell."""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Final, final
from weakref import getweakrefcount

from eagerflow.core.stack import stack
from eagerflow.hardware import as_device


@final
class _Slot:
    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = object()


def _references(data: Any) -> int:
    return getrefcount(data)


_slot: Final = _Slot()
#: what `getrefcount` gives in `may_reuse` for a value that one slot holds and no other handle
_ALONE: Final = _references(_slot.data)


_ARRAY: Final = as_device("cpu:0").backend.array_type


def may_reuse(data: Any) -> bool:
    """Whether the caller may write into ``data``, the array in a slot that it owns.

    So it is if nothing else can see the memory: one reference (that slot), no view, no weak
    reference (a tape has one for each value it follows), memory that is the array's own and
    writable, and no interpreter that may have noted the value.

    Args:
        data: given directly as ``may_reuse(handle._data)``: a local variable that holds the array
            would be a second reference.
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
