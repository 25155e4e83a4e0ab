"""NumPy arrays that tell whether NumPy itself, or Python, looks at their elements.

While a function is traced, the arrays that it reads from outside are views of this class. What
eagerflow makes a tensor of is an input of the graph; what NumPy computes with is frozen in it, so
the content has to be compared at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

#: attributes that say nothing of the elements, or that conversions ask for
_SAFE: Final = frozenset({
    "__array_function__", "__array_interface__", "__array_priority__", "__array_struct__",
    "__array_ufunc__", "__class__", "__dict__", "__dlpack__", "__tensor__", "dtype", "looked",
    "mask", "ndim", "shape", "size",
})  # fmt: skip


@final
class _Note:
    """Shared by an array and the views of it."""

    __slots__ = ("looked",)

    def __init__(self) -> None:
        self.looked = False


@final
class WatchedArray(np.ndarray[Any, Any]):
    """A view of an array; make one with `of`.

    Attributes:
        looked: whether NumPy or Python looked at the elements.
    """

    _note: _Note

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> WatchedArray:
        """A view of ``array`` whose elements were not looked at yet."""
        view: WatchedArray = array.view(WatchedArray)
        object.__getattribute__(view, "__dict__")["_note"] = _Note()
        return view

    @property
    def looked(self) -> bool:
        """Whether NumPy or Python looked at the elements."""
        return _note_of(self).looked

    def __array_finalize__(self, source: Any) -> None:
        note = _note_of(source) if isinstance(source, WatchedArray) else _Note()
        note.looked = True  # a view, a slice or a copy
        object.__getattribute__(self, "__dict__")["_note"] = note

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        given = kwargs.get("out")
        result = getattr(ufunc, method)(
            *in_arguments(inputs, _plain), **in_arguments(kwargs, _plain)
        )
        return result if given is None else given[0] if len(given) == 1 else given

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*in_arguments(args, _plain), **in_arguments(kwargs, _plain))

    def __getattribute__(self, name: str) -> Any:
        if name not in _SAFE:
            _note_of(self).looked = True
        return super().__getattribute__(name)

    def __getitem__(self, key: Any) -> Any:
        return _plain(self)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        _plain(self)[key] = value

    def __iter__(self) -> Any:
        return iter(_plain(self))

    def __len__(self) -> int:
        return len(_plain(self))

    def __reduce__(self) -> Any:
        return _plain(self).__reduce__()


def _note_of(array: Any) -> _Note:
    note = object.__getattribute__(array, "__dict__").get("_note")
    return _Note() if note is None else note


def _plain(x: Any) -> Any:
    """The array itself, which is looked at from now on."""
    if isinstance(x, WatchedArray):
        _note_of(x).looked = True
        return np.asarray(x).view(np.ndarray)
    return x


def in_arguments(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments of a NumPy function with others in the place of those that ``change`` knows."""
    if isinstance(value, (list, tuple)):
        changed = [in_arguments(v, change) for v in value]
        return tuple(changed) if isinstance(value, tuple) else changed
    if isinstance(value, dict):
        return {k: in_arguments(v, change) for k, v in value.items()}
    return change(value)
