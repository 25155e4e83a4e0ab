"""Results of `functools.lru_cache`, which only the cache may hold: traces do not follow them.

A list, a dict or an object that a cached function gives is checked when the trace ends. If it
then holds values of the trace, an eager call would have changed it, but runs would not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import wrappers
from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.autograph.values.texts import is_symbolic
from eagerflow.capture.reachable import CACHED, Reachable
from eagerflow.core import interpreter
from eagerflow.errors import TraceError
from eagerflow.source import Source, capture
from eagerflow.tracing.tracer import Tracer


class _Given(NamedTuple):
    """The result of a cached function in a trace.

    Attributes:
        value: the result.
        before: the contents of the result at that time.
        name: of the function.
        source: of the first call.
    """

    value: Any
    before: Reachable
    name: str
    source: Source | None


#: by trace, by the ids of the results
cached_results: Final[WeakKeyDictionary[Tracer, dict[int, _Given]]] = WeakKeyDictionary()


def _remembering(function: Any) -> Callable[..., Any]:
    """A function with a cache, whose results the trace under way records."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if interpreter.is_traced():
            known = cached_results.setdefault(tracer_here().root, {})
            if id(value) not in known:
                name = getattr(function, "__name__", "a function with a cache")
                known[id(value)] = _Given(value, Reachable([value]), name, capture())
        return value

    return call


def check_remembered(tracer: Tracer) -> None:
    """Refuse values of a trace left in results of cached functions when it ends; remove them.

    Args:
        tracer: one with results.

    Raises:
        TraceError: there are such values.
    """
    for _, before, name, source in cached_results.pop(tracer).values():
        changed = next(
            (location for location, _, new in before.changes() if is_symbolic(new)), None
        )
        if changed is not None:
            before.restore()
            raise TraceError(
                f"what {name}() gives is changed in a trace, and runs of the graph cannot do that",
                given=f"a {type(changed.owner).__name__} that only the cache of {name}() holds",
                hint="hold it in a global variable, an attribute or an argument: changes of "
                "these are followed",
                source=source,
            )


wrappers[CACHED] = _remembering
