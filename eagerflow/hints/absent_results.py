"""Remedies where a function of eagerflow gave None, and its result was used as if it were there."""

from __future__ import annotations

import ast
import linecache
from traceback import walk_tb
from types import FrameType
from typing import Any, Final

import eagerflow as ef
from eagerflow.hints.refused_calls import last_trace, value_at

#: Python's texts
_USES: Final = ("'NoneType' object is not subscriptable", "'NoneType' object has no attribute")


def remedy(error: TypeError | AttributeError) -> str | None:
    """The remedy if the None that an error is about is that of a manager without a checkpoint.

    Args:
        error: as Python raised it, with its traceback.
    """
    trace = last_trace(error.__traceback__)
    if trace is None or not str(error).startswith(_USES):
        return None
    frame = trace.tb_frame
    frames = [each for each, _ in walk_tb(error.__traceback__)]  # one has the manager
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with magic commands
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and _is_at(node, trace.tb_lineno):
            sources = _sources(node.value, tree)
            if any(_is_restore(source, each) for source in sources for each in frames):
                return _of_restore(node)
    return None


def _is_at(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _sources(value: ast.expr, tree: ast.AST) -> list[ast.expr]:
    """An expression, or for a name what the source assigns to it."""
    if not isinstance(value, ast.Name):
        return [value]
    assigned = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == value.id for t in targets):
                assigned.append(node.value)
    return assigned


def _is_restore(node: ast.expr, frame: FrameType) -> bool:
    function: Any = ef.checkpoint.Manager.restore
    return isinstance(node, ast.Call) and value_at(node.func, frame) is function


def _of_restore(use: ast.Subscript | ast.Attribute) -> str:
    part = ast.unparse(use)[len(ast.unparse(use.value)) :]
    return (
        "restore gives None while there is no checkpoint: restored = manager.restore(like), and "
        f"if restored is not None: ... restored{part}"
    )
