"""Names that may stay unbound: bound in one branch, or in a loop that may have no iteration."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.capture.access_paths import GONE, Location
from eagerflow.errors import TraceError
from eagerflow.ops.state.variables import Variable
from eagerflow.tracing.tracer import Tracer

#: errors for names that are unbound in a trace, by name
_reasons: Final[WeakKeyDictionary[Tracer, dict[str, TraceError]]] = WeakKeyDictionary()
_NAME: Final = re.compile(r"'([^']+)'")


def forget_name(tracer: Tracer, location: Location, error: TraceError) -> None:
    """Leave a variable unbound; its use raises ``error``, or its earlier error if it has one."""
    reasons = _reasons.setdefault(tracer.root, {})
    if location.key not in reasons or location.get() is not GONE:
        reasons[location.key] = error
    location.set(GONE)


def unbound_reason(tracer: Tracer, error: NameError) -> TraceError | None:
    """The error for an unbound name, if a branch or a loop on tensors is the reason."""
    match = _NAME.search(str(error))
    return _reasons.get(tracer.root, {}).get(match[1]) if match else None


def early_read(error: NameError) -> TraceError | None:
    """The error for a variable that a branch or an iteration reads before it is bound elsewhere.

    Args:
        error: as Python raised it, with its traceback.
    """
    match, trace = _NAME.search(str(error)), error.__traceback__
    if match is None or trace is None:
        return None
    name = match[1]
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame, line = trace.tb_frame, trace.tb_lineno
    owner = _owner(frame, name)
    lines = sorted(_binds(owner, name)) if owner is not None else []
    if owner is None or not lines:
        return None
    elsewhere = [n for n in lines if n != line] or lines
    later = [n for n in elsewhere if n > line] or elsewhere
    return TraceError(
        f"{name} is read where it may not be bound yet",
        given=f"read at {line_text(frame.f_code, line)}\n    and bound at "
        f"{line_text(owner, later[0])}",
        expected="a value on every path: all branches are traced, and loops may have no iteration",
        hint=_advice(name, frame.f_globals),
    )


def _advice(name: str, outside: Mapping[str, Any]) -> str:
    """What to do about a name that is bound too late, given the global names."""
    if isinstance(outside.get(name), Variable):
        return (
            f"an assignment makes {name} a name of the function; the variable outside is changed "
            f"by {name}.assign_add(...) and {name}.assign(...)"
        )
    return f"bind it before: {name} = ..."


def _owner(frame: FrameType, name: str) -> CodeType | None:
    """The code of the running function that owns the variable of a name; None without one."""
    inner, outer = frame.f_code, frame
    while name not in outer.f_code.co_cellvars or not _holds(outer.f_code, inner):
        if outer.f_back is None:
            return None
        outer = outer.f_back
    return outer.f_code


def _holds(code: CodeType, inner: CodeType) -> bool:
    """Whether ``inner`` is ``code``, or nested in it."""
    return code is inner or any(
        _holds(one, inner) for one in code.co_consts if isinstance(one, CodeType)
    )


def _binds(code: CodeType, name: str) -> Iterator[int]:
    """The lines that bind a variable, in functions within ``code`` as well."""
    line = code.co_firstlineno
    for one in dis.get_instructions(code):
        line = one.starts_line or line
        if one.opname in ("STORE_DEREF", "STORE_FAST") and one.argval == name:
            yield line
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and name in inner.co_freevars:
            yield from _binds(inner, name)
