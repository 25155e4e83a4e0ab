"""Runs converted functions. To import this is to define the operators that they call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eagerflow.autograph.calls import call
from eagerflow.autograph.convert import why_not
from eagerflow.autograph.handlers import Escaped, catching
from eagerflow.autograph.lists import as_lists
from eagerflow.autograph.loops import for_, while_
from eagerflow.autograph.raising import belongs_to_graph, raise_in_graph
from eagerflow.autograph.reading import NO_SOURCE
from eagerflow.autograph.reductions import reduced
from eagerflow.autograph.regions import tracer_here
from eagerflow.autograph.standard import printed
from eagerflow.autograph.texts import shown, text
from eagerflow.autograph.unbound import unbound_reason
from eagerflow.errors import EagerflowError, TraceError, hide_frames, relocate
from eagerflow.source import Source

__all__ = ["call", "catching", "for_", "printed", "reduced", "run", "shown", "text", "while_"]


def run(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what may be converted within a trace.

    Raises:
        TraceError: it uses a name that only one branch on a tensor binds, or the truth of a
            tensor where no graph can have it.
    """
    try:
        return _as_lists(function(*args, **kwargs), function)
    except Escaped as escaped:
        raise escaped.error from None
    except NameError as error:
        reason = unbound_reason(tracer_here(), error)
        if reason is None:
            raise
        hide_frames(error)
        raise reason from error
    except TraceError as error:
        if error.wrong.startswith("bool()") and isinstance(error.source, Source):
            error.hint = _remedy(error.source)
            relocate(error, error.source)
        raise
    except EagerflowError:
        raise
    except Exception as error:
        if not belongs_to_graph(error):
            raise
        raise_in_graph(error)
        return None


def _as_lists(result: Any, function: Any) -> Any:
    """A result with lists in the place of those that loops of the graph made.

    Raises:
        TraceError: one has a length that depends on data.
    """
    code = getattr(function, "__code__", None)
    return as_lists(
        result,
        "a traced function returns a list of which only the graph knows how long it is",
        "return ef.stack(list)",
        None if code is None else Source(code, 0),
    )


def _remedy(source: Source) -> str:
    """What to do where Python asks for the truth of a tensor after all."""
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
