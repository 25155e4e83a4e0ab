"""Errors for numbers of a trace whose types C code or a library refuses, as not Python's own."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final

from eagerflow.capture.library_code import is_library
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import EagerflowError, TraceError
from eagerflow.source import Source, is_framework_frame, variables_of

_STAND_IN: Final = re.compile(r"\b(TracedNumber|Dim)\b")
#: Python's errors that do not name the type: for `__hash__`, ``"%*d"`` and `str.translate`
_UNTYPED: Final = frozenset({
    "__hash__ method should return an integer", "* wants int",
    "character mapping must return integer, None or str",
})  # fmt: skip


def refused_number(error: TypeError) -> TraceError | None:
    """The error in the user's terms for a refused number of a trace; None for other errors.

    Args:
        error: as it leaves the traced function.
    """
    if isinstance(error, EagerflowError):
        return None
    last, source = None, None
    trace = error.__traceback__
    while trace is not None:
        if not is_framework_frame(trace.tb_frame):
            last = trace
            if not is_library(trace.tb_frame.f_globals):
                source = Source(trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next
    message = str(error)
    if last is None or not (_STAND_IN.search(message) or message in _UNTYPED or _has_number(last)):
        return None
    return TraceError(
        "a function needs a Python number, and gets a number of the trace",
        given=_STAND_IN.sub("traced number", message),
        hint="pass a plain number, int(n) or float(n): then each number has a trace of its own",
        source=source,
    )


def _has_number(trace: TracebackType) -> bool:
    """Whether the library code that raised has a number of a trace among its variables."""
    frame = trace.tb_frame
    return is_library(frame.f_globals) and any(
        issubclass(type(x), AbstractAsked) for x in variables_of(frame).values()
    )
