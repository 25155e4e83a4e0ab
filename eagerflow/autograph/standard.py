"""`print` in converted code."""

from __future__ import annotations

import builtins
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.autograph.calls import replacements
from eagerflow.autograph.regions import tracer_here
from eagerflow.core import interpreter
from eagerflow.core.symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.dims import Dim
from eagerflow.graph.trace import Tracer
from eagerflow.ops import callbacks
from eagerflow.source import Source, capture

__all__ = ["printed"]

_printed: Final[WeakKeyDictionary[Tracer, set[tuple[str, int]]]] = WeakKeyDictionary()


def printed(tracer: Tracer, source: Source | None) -> bool:
    """Whether a line prints in each run of the graph."""
    return source is not None and (source.file, source.line) in _printed.get(tracer, ())


def _print(*args: Any, **options: Any) -> None:
    """`print`; in each run of the graph if only that knows what, or whether."""
    if not interpreter.is_traced() or options.get("flush") is not None:
        builtins.print(*args, **options)  # noqa: T201 - it is what the user calls
        return
    tracer = tracer_here()
    source = capture(1)
    if source is None or (tracer.parent is None and not any(map(_is_symbolic, args))):
        builtins.print(*args, **options)  # noqa: T201 - likewise
        return
    _printed.setdefault(tracer.root, set()).add((source.file, source.line))
    callbacks.print(*args, **options)


def _is_symbolic(x: Any) -> bool:
    if isinstance(x, AbstractArray):
        return type(x) is not Tensor or isinstance(x._data, AbstractSymbol)
    return type(x) is Dim or issubclass(type(x), AbstractNumber)


replacements[builtins.print] = _print
