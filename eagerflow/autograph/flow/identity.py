"""`is` and `id` of numbers in converted code, where a stand-in takes the place of a number."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.failures.handlers import missed
from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.source import capture

_NUMBERS: Final = (int, float, complex)
#: the first and the last int of which CPython has a single object
_FIRST, _LAST = -5, 256


@operator
def is_(a: Any, b: Any) -> bool:
    """``a is b``; for numbers the identity of Python's objects, not of their stand-ins."""
    if a is b or not (issubclass(type(a), AbstractAsked) or issubclass(type(b), AbstractAsked)):
        return a is b
    kind = _kind(a)
    if kind not in _NUMBERS or kind is not _kind(b):
        return False
    if not (a == b or (a != a and b != b)):
        return False
    if kind is int and bool(a >= _FIRST) and bool(a <= _LAST):
        return True
    note("`is` of equal numbers gives the answer it had while tracing", "compare them by ==")
    a, b = (x.ask("is") if issubclass(type(x), AbstractAsked) else x for x in (a, b))
    return a is b


@operator
def is_not(a: Any, b: Any) -> bool:
    """``a is not b``."""
    return not is_(a, b)


def note(what: str, instead: str) -> None:
    """Warn of a use at the line of the user's code, when the trace is done."""
    missed.setdefault(tracer_here().root, []).append(f"{what}, at {capture()}; {instead}")


def _kind(x: Any) -> Any:
    return x.kind if issubclass(type(x), AbstractAsked) else type(x)
