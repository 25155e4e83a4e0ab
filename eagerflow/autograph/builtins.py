"""`print` and `next` in converted code."""

from __future__ import annotations

import builtins
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import replacements
from eagerflow.autograph.tracking.regions import refuse_reached, tracer_here
from eagerflow.autograph.values.texts import is_symbolic
from eagerflow.core import interpreter
from eagerflow.core.texts import has_placeholder
from eagerflow.ops.state import callbacks
from eagerflow.source import Source, capture
from eagerflow.tracing.tracer import Tracer

__all__ = ["printed"]

_printed: Final[WeakKeyDictionary[Tracer, set[tuple[str, int]]]] = WeakKeyDictionary()


def printed(tracer: Tracer, source: Source | None) -> bool:
    """Whether a line prints in each run of the graph."""
    return source is not None and (source.file, source.line) in _printed.get(tracer, ())


def _print(*args: Any, **options: Any) -> None:
    """`print`; in each run of the graph if only that knows the text, or whether to print."""
    if not interpreter.is_traced():
        builtins.print(*args, **options)  # noqa: T201 - the user calls it
        return
    tracer = tracer_here()
    source = capture(1)
    args = tuple(map(_shown, args))
    if source is None or (tracer.parent is None and not is_symbolic((args, options))):
        builtins.print(*args, **options)  # noqa: T201 - likewise
        return
    _printed.setdefault(tracer.root, set()).add((source.file, source.line))
    callbacks.print(*args, **options)


def _shown(x: Any) -> Any:
    """The argument of `print` for ``x``: its text, if that shows values only the graph knows."""
    if is_symbolic(x) or isinstance(x, str):
        return x
    text = str(x)
    return text if has_placeholder(text) else x


def _next(iterator: Any, /, *default: Any) -> Any:
    """`next`; an error where the graph repeats it, or decides whether it happens."""
    refuse_reached(iterator, "next()")
    return builtins.next(iterator, *default)


replacements[builtins.print] = _print
replacements[builtins.next] = _next
