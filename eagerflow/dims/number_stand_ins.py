"""Base class of stand-ins for Python numbers in a trace, which pass for numbers where they can."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Number
from types import FunctionType
from typing import Any, Final

import numpy as np

#: the NaN objects of libraries, which code may compare by identity
NANS: Final = (math.nan, np.nan)
_ATTRIBUTES: Final = {kind: frozenset(dir(kind)) for kind in (int, float, complex)}
#: ufuncs that keep sizes symbolic, with the operators to call if a NumPy integer is on the left
EXACT_UFUNCS: Final = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod,
}  # fmt: skip


class AbstractAsked:
    """A stand-in for a number that may differ in another run of the graph.

    `isinstance` takes it for a number. The subclass defines its arithmetic; methods of the number,
    and NumPy, *ask* for the number itself, as Python does where it needs an index.

    Attributes:
        kind: the class of the number.
        ask: ``x.ask("float()")`` gives the number itself; the text names the caller for messages.
    """

    __slots__ = ()

    kind: type[int] | type[float] | type[complex]
    ask: Callable[[str], Any]

    @property  # type: ignore[misc]  # `isinstance(x, int)` holds in a trace where it does eagerly
    def __class__(self) -> Any:
        return self.kind

    def __getattr__(self, name: str) -> Any:
        # members besides arithmetic: real, conjugate, is_integer, bit_length, to_bytes, …
        if name not in _ATTRIBUTES[self.kind]:
            raise AttributeError(f"'{self.kind.__name__}' object has no attribute '{name}'")
        return getattr(self.ask(f".{name}"), name)

    def __copy__(self) -> Any:
        return self  # as copies of numbers are

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.ask("NumPy"), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*asked(inputs, "NumPy"), **asked(kwargs, "NumPy"))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*asked(args, "NumPy"), **asked(kwargs, "NumPy"))


def asked(value: Any, what: str, known: frozenset[int] = frozenset()) -> Any:
    """A value with each stand-in replaced by its number, in lists and dicts in place.

    Args:
        value: an argument of a function.
        what: the function, for messages.
        known: the ids of the containers around the value.
    """
    if issubclass(type(value), AbstractAsked):
        return value.ask(what)
    if type(value) is slice:
        return slice(*asked((value.start, value.stop, value.step), what))
    if not isinstance(value, (list, tuple, dict, frozenset)) or id(value) in known:
        return value
    known |= {id(value)}
    before = list(value.items() if isinstance(value, dict) else value)
    after = [asked(v, what, known) for v in before]
    if all(map(operator.is_, before, after)):
        return value
    if isinstance(value, tuple):
        return getattr(type(value), "_make", tuple)(after)
    if isinstance(value, frozenset):
        return frozenset(after)
    if isinstance(value, dict):
        _refill(value, after)
    else:
        value[:] = after
    return value


def _refill(mapping: dict[Any, Any], items: Sequence[tuple[Any, Any]]) -> None:
    if not all(old is new for old, (new, _) in zip(mapping, items, strict=True)):
        mapping.clear()  # not if the keys stay: a loop over it may be under way
    for key, value in items:  # `update` of a `Counter` adds
        mapping[key] = value


def has_a_say(other: Any, method: str) -> bool:
    """Whether the class of a right operand may handle the operator with a stand-in itself.

    Tensors and user-defined classes may; classes in C and registered numbers may not.

    Args:
        other: the operand.
        method: the reflected operator of the class, such as ``"__radd__"``.
    """
    own = getattr(type(other), method, ())
    return (own is None or isinstance(own, FunctionType)) and not isinstance(other, Number)
