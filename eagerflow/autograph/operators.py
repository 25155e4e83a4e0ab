"""How converted functions end. Importing this module defines the operators that they call."""

from __future__ import annotations

import re
from opcode import opmap
from types import CodeType
from typing import Any, Final

# these define operators, and replacements for functions
import eagerflow.autograph.flow.builtins
import eagerflow.autograph.flow.explicit  # noqa: F401 - likewise
from eagerflow.autograph.conversion.convert import operators, why_not
from eagerflow.autograph.conversion.source_code import NO_SOURCE
from eagerflow.autograph.failures.handlers import Escaped
from eagerflow.autograph.failures.raising import belongs_to_graph, raise_in_graph
from eagerflow.autograph.failures.refused_numbers import refused_number
from eagerflow.autograph.flow.conditionals import Raised
from eagerflow.autograph.tracking.blocks import Again
from eagerflow.autograph.tracking.unbound import unbound_reason
from eagerflow.autograph.values.lists import NeedsArray, as_lists
from eagerflow.core.op import functions
from eagerflow.errors import TraceError, hide_frames, relocate
from eagerflow.source import Source
from eagerflow.tracing.tracer import Tracer

#: exceptions that the handlers of the user do not catch
setattr(operators, "passing", (Escaped, Again, NeedsArray, Raised))  # noqa: B010 - as the others

_RETURN: Final = opmap["RETURN_VALUE"]
_OF_MATH: Final = re.compile(r"\bmath\.(\w+)\(")


def leave_to_graph(error: BaseException, tracer: Tracer) -> bool:
    """Let the graph raise an exception of a traced function that only a run can raise.

    Args:
        error: the exception, which is being handled.
        tracer: the trace.

    Returns:
        Whether the graph raises it.

    Raises:
        TraceError: the function uses a name that only one branch on a tensor binds, or the truth of
            a tensor where that cannot be in a graph; or code of a library refuses a number of the
            trace.
    """
    if isinstance(error, Escaped):
        raise error.error from None
    reason = _reason(error, tracer)
    if reason is not None:
        hide_frames(error)
        raise reason from error
    belongs = belongs_to_graph(error)
    if belongs:
        raise_in_graph(error)
        tracer.whole.raises = tracer.graph.nodes[-1]
    return belongs


def _reason(error: BaseException, tracer: Tracer) -> TraceError | None:
    """The error in the user's words, if the trace is the reason for an exception of Python."""
    if isinstance(error, NameError):
        return unbound_reason(tracer, error)
    if isinstance(error, TraceError):
        if error.wrong.startswith(("bool()", "float()")) and isinstance(error.source, Source):
            remedy = _remedy if error.wrong.startswith("bool()") else _for_tensors
            error.hint = remedy(error.source) or error.hint
            relocate(error, error.source)
        return None
    return refused_number(error) if isinstance(error, TypeError) else None


def result_with_lists(result: Any, function: Any) -> Any:
    """A function's result, with Python's lists in place of those that loops of the graph made.

    Raises:
        TraceError: the length of a list depends on data.
    """
    code = getattr(function, "__code__", None)
    return as_lists(
        result,
        "a traced function returns a list whose length only the graph knows",
        "return ef.stack(list)",
        None if code is None else _returning(code),
    )


def _returning(code: CodeType) -> Source:
    """The line where a function returns; if there are several, its first line."""
    ends = [2 * i for i, op in enumerate(code.co_code[::2]) if op == _RETURN]
    if len(ends) == 1:
        return Source(code, ends[0])
    # the instructions that bind cells have no line
    return Source(code, next((start for start, _, line in code.co_lines() if line), 0))


def _for_tensors(source: Source) -> str | None:
    """The advice for a line that calls functions of Python's ``math``, which ask for a number."""
    called = dict.fromkeys(_OF_MATH.findall(source.text))
    ours = [f"ef.{name}" for name in called if name in functions]
    return f"use {', '.join(ours)}, which takes tensors" if ours else None


def _remedy(source: Source) -> str:
    """The advice where Python asks for the truth of a tensor after all."""
    reason = why_not(source.code)
    ways = "choose with ef.where(condition, a, b) or ef.cond(condition, f, g)"
    if reason == NO_SOURCE:
        ways = f"write it in a file, in IPython or in a notebook, or {ways}"
    if reason is not None:
        return f"{source.function} is not converted, because {reason}; {ways}"
    if "sorted(" in source.text or ".sort(" in source.text:
        return "sort in the graph: ef.sort(ef.stack(xs)), ef.argsort(...)"
    return (
        "in an `if`, a `while` or an `and` it would become a part of the graph; elsewhere (in "
        "`match`, filter(), a set, a property, a class body) Python needs its value: " + ways
    )
