"""What `functools.lru_cache` gives, which nothing but the cache may hold: traces do not follow it.

A list, a dict or an object that a cached function gives is looked at when the trace ends. If it
holds then what only the trace knows, an eager call would have changed it, and runs would not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from eagerflow.autograph.tracking.regions import tracer_here
from eagerflow.autograph.tracking.state import CACHED, Snapshot
from eagerflow.autograph.values.calls import wrappers
from eagerflow.autograph.values.texts import is_symbolic
from eagerflow.core import interpreter
from eagerflow.errors import TraceError
from eagerflow.source import Source, capture
from eagerflow.tracing.tracer import Tracer

__all__ = ["check_remembered", "is_cached"]


class _Given(NamedTuple):
    """What a cached function gave in a trace.

    Attributes:
        value: what it gave.
        before: what that held then.
        name: of the function.
        source: of the first call.
    """

    value: Any
    before: Snapshot
    name: str
    source: Source | None


#: by trace, by the ids of what was given
_given: Final[WeakKeyDictionary[Tracer, dict[int, _Given]]] = WeakKeyDictionary()


def is_cached(x: Any) -> bool:
    """Whether something is a function with a cache."""
    return type(x) is CACHED


def _remembering(function: Any) -> Callable[..., Any]:
    """A function with a cache, of which the trace that is under way notes what it gives."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if interpreter.is_traced():
            known = _given.setdefault(tracer_here().root, {})
            if id(found) not in known:
                name = getattr(function, "__name__", "a function with a cache")
                known[id(found)] = _Given(found, Snapshot([found]), name, capture())
        return found

    return call


def check_remembered(tracer: Tracer) -> None:
    """Refuse what a trace that has ended left in what cached functions gave, and take it out.

    Raises:
        TraceError: there is something.
    """
    for _, before, name, source in _given.pop(tracer, {}).values():
        changed = next((slot for slot, _, new in before.changes() if is_symbolic(new)), None)
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
