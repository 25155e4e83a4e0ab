"""Runs converted functions. To import this is to define the operators that they call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eagerflow.autograph.calls import call
from eagerflow.autograph.convert import why_not
from eagerflow.autograph.loops import for_, while_
from eagerflow.autograph.regions import tracer_here, unbound_reason
from eagerflow.autograph.standard import printed
from eagerflow.errors import TraceError, relocate
from eagerflow.source import Source

__all__ = ["call", "for_", "printed", "run", "while_"]


def run(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what may be converted within a trace.

    Raises:
        TraceError: it uses a name that only one branch on a tensor binds, or the truth of a
            tensor where no graph can have it.
    """
    try:
        return function(*args, **kwargs)
    except NameError as error:
        reason = unbound_reason(tracer_here().root, error)
        if reason is None:
            raise
        raise reason from error
    except TraceError as error:
        if error.wrong.startswith("bool()") and isinstance(error.source, Source):
            error.hint = _remedy(error.source)
            relocate(error, error.source)
        raise


def _remedy(source: Source) -> str:
    """What to do where Python asks for the truth of a tensor after all."""
    reason = why_not(source.code)
    ways = "choose with ef.where(condition, a, b) or ef.cond(condition, f, g)"
    if reason is not None:
        return f"{source.function} is not converted, because {reason}; {ways}"
    return (
        "in an `if`, a `while` or an `and` it would become a part of the graph; elsewhere (in a "
        f"comprehension, `match`, max(), sorted(), a class body) Python needs its value: {ways}"
    )
