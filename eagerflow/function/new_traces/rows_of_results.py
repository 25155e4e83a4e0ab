"""A warning for one tensor in the place of values and indices: ``x.max(-1)[0]`` is its first row.

It is given for traces alone, whose graph tells: an index in eager code comes too often to look at
the call before it.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from itertools import islice
from types import CodeType
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph, Node
from eagerflow.source import Source
from eagerflow.unknown_names import find_hint

_FIRST: Final = (0, (0,))  # axes
_INSTRUCTION: Final = 2  # bytes
#: keywords of NumPy, whose users know that the result is one array
_NUMPYS: Final = frozenset({"axis", "keepdims"})
#: registry of warnings by code object, so that each line warns once
_said: Final[WeakKeyDictionary[CodeType, dict[Any, Any]]] = WeakKeyDictionary()


def warn_of_rows(graph: Graph) -> None:
    """Warn of rows of results along an axis that the code takes directly: ``x.max(-1)[0]``.

    Those along axis 0 may be meant, as in ``points.max(0)[0]``, those of named results, and those
    of calls in NumPy's words, as in ``x.max(axis=1)[0]``.

    Args:
        graph: of a trace.
    """
    made = {
        node.outputs[0]: node
        for node in all_nodes(graph.nodes)
        if "axis" in node.attrs and node.outputs
    }
    for node in all_nodes(graph.nodes):
        before = made.get(node.inputs[0]) if _takes_row(node) else None
        if before is None or not _is_later_axis(before.attrs["axis"]):
            continue
        if not _follows(node, before) or not _is_pair(node.source, before.op):
            continue
        hint, source = find_hint("pair", before.op), node.source
        if hint is not None and isinstance(source, Source):
            said = _said.setdefault(source.code, {})
            text = (
                f"{before.op} gives one tensor, of which this is a row; {hint}. If the row is "
                f"meant, give the tensor a name first\n  at: {source}"
            )
            warnings.warn_explicit(text, UserWarning, source.file, source.line, registry=said)


def _takes_row(node: Node) -> bool:
    """Whether a node is ``x[0]`` or ``x[1]``."""
    key = node.attrs.get("key")
    return type(key) is tuple and len(key) == 1 and type(key[0]) is int and key[0] in (0, 1)


def _is_later_axis(axis: Any) -> bool:
    """Whether the axis of a node is one, and not the first."""
    one = type(axis) is int or (type(axis) is tuple and len(axis) == 1)
    return one and axis not in _FIRST


def _is_pair(source: Source | str | None, op: str) -> bool:
    """Whether the code is as PyTorch's for a pair: ``x.max(1)[0]`` or ``ef.max(x, dim=1)[0]``."""
    item = _expression(source)
    if not isinstance(item, ast.Subscript) or not isinstance(item.slice, ast.Constant):
        return False
    call = item.value
    if not isinstance(call, ast.Call) or _name(call.func) != op:
        return False
    words = {keyword.arg for keyword in call.keywords}
    if words & _NUMPYS or None in words:
        return False
    place = call.args[-1] if call.args else None
    return "dim" in words or not (place is None or isinstance(place, ast.Tuple | ast.List))


def _name(function: ast.expr) -> str | None:
    """The name of a function or of a method."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def _expression(source: Source | str | None) -> ast.expr | None:
    """The expression of an instruction; None if its source is not at hand."""
    at = _span(source)
    if at is None or not isinstance(source, Source) or None in at:
        return None
    first, last, start, end = at
    lines = [linecache.getline(source.file, i).encode() for i in range(first, last + 1)]
    lines[-1] = lines[-1][:end]  # columns count bytes; the end first, as both may cut one line
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):  # the file is another one now
        return None


def _follows(node: Node, before: Node) -> bool:
    """Whether the expressions of two nodes begin at one place: then one is part of the other."""
    start = _start(node.source)
    return start is not None and start == _start(before.source)


def _start(source: Source | str | None) -> tuple[Any, ...] | None:
    """The code, line and column at which an instruction's expression begins."""
    at = _span(source)
    if at is None or at[2] is None or not isinstance(source, Source):
        return None
    return id(source.code), at[0], at[2]


def _span(source: Source | str | None) -> tuple[Any, Any, Any, Any] | None:
    """The first and the last line of an instruction's expression, and its columns in them."""
    if not isinstance(source, Source):
        return None
    return next(islice(source.code.co_positions(), source.offset // _INSTRUCTION, None), None)
