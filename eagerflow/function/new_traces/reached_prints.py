"""Which calls of `print` a trace has reached, and so which of them print only while tracing."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from typing import final

from eagerflow.autograph.conversion.convert import why_not
from eagerflow.autograph.flow.builtins import printing_lines
from eagerflow.capture.reads import Finding
from eagerflow.source import Source
from eagerflow.tracing.tracer import Tracer


@final
class ReachedPrints:
    """The places where code names `print`, in a trace that converts its function.

    A call that the trace does not reach prints nothing: what Python decides by is guarded, so that
    the calls that reach it have another trace.

    Attributes:
        places: the places, as findings.
        ran: the ids of code objects with such places that ran without being converted.
    """

    def __init__(self) -> None:
        self.places: list[Finding] = []
        self.ran: set[int] = set()

    @property
    def codes(self) -> frozenset[int]:
        """The ids of the code objects with such places."""
        return frozenset(id(one.source.code) for one in self.places if one.source is not None)

    def once(self, tracer: Tracer) -> Iterator[Finding]:
        """The places that print only while tracing, once the function has run."""
        lines = printing_lines(tracer)
        for place in self.places:
            source = place.source
            # where nothing was printed, it is for certain only if every call is heard of
            otherwise = source is not None and not self._is_unheard(source)
            if source is None or not lines.get((source.file, source.line), otherwise):
                yield place

    def _is_unheard(self, source: Source) -> bool:
        """Whether `print` may be called without notice: by other code, or by code as written."""
        as_written = id(source.code) in self.ran or why_not(source.code) is not None
        return as_written or not _is_called(source)


def _is_called(source: Source) -> bool:
    """Whether the instruction loads a global name in order to call its value."""
    load = next(one for one in dis.get_instructions(source.code) if one.offset == source.offset)
    return load.opname == "LOAD_GLOBAL" and bool((load.arg or 0) & 1)  # it pushes a NULL as well
