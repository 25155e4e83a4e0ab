"""Sharing of tensors that a condition or a loop chooses: whether they may be updated in place."""

from __future__ import annotations

import ast
import sys
from typing import Any, Final

from eagerflow.autograph.conversion.jumps import RESULT
from eagerflow.autograph.tracking.blocks import held, references_of_blocks, tracer_here
from eagerflow.capture.access_paths import Location
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceError
from eagerflow.source import capture, users_variables


def _references(box: list[Any]) -> int:
    """The number of references to the item of a list, including that of the list."""
    return sys.getrefcount(box[0])


_ONE: Final = _references([object()])


def is_shared(box: list[Any], own: int) -> bool:
    """Whether a value that can be updated in place has other references.

    Args:
        box: a list with the value, to which the caller has no other reference.
        own: the number of known references, which do not count.
    """
    if type(box[0]) is not Tensor:  # nothing updates it
        return False
    loop = held.get(id(box[0]))
    if loop is not None and not loop.alone:
        return True
    own += references_of_blocks(box[0]) + 2 * (loop is not None)
    return _references(box) > _ONE + own


def is_new(x: Tensor) -> bool:
    """Whether a branch or an iteration made a tensor, so that it has no other references."""
    data: Any = x._data
    owner: Any = getattr(data, "tracer", None)  # of the data of a symbolic tensor
    return owner is not None and not tracer_here().is_within(owner)


def is_from_outside(x: Any) -> bool:
    """Whether a value is a tensor not made by the part of the trace that is under way."""
    if type(x) is not Tensor:
        return False
    tracer, data = tracer_here(), x._data
    owner = getattr(data, "tracer", None)
    return not tracer.is_fresh(x) if owner is None else owner is not tracer


def is_pinned(x: Any) -> bool:
    """Whether a value is a tensor that nothing may update in place."""
    return type(x) is Tensor and id(x) in tracer_here().whole.pinned


def pin_choice(
    location: Location | None, old: list[Tensor], value: Tensor, what: str, lines: str
) -> None:
    """Refuse from here on to update in place a tensor, or the tensors that it may be.

    Args:
        location: of the tensor, for messages; None if it is the value of an expression.
        old: the tensors that it may be.
        value: the tensor.
        what: the construct that decides, for messages.
        lines: its lines.
    """
    followed = _is_followed()
    name = "a tensor" if location is None else location.text
    variable = location.key if location is not None and location.kind == "cell" else None

    def error() -> TraceError:
        names = sorted({n for x in old for n in _names(x)} - {variable})
        holder, note = " and ".join(names) or "the caller or a container", ""
        if not names and followed:
            holder = "the caller, a container or a debugger"
            note = "; or trace it without the debugger, which holds the values that it has shown"
        shown = "the result of the function" if name == RESULT else name
        own = next(iter(names), "x") if variable in (None, RESULT) else variable
        return TraceError(
            f"{shown} is updated in place, and it may be a tensor that {holder} "
            f"{'hold' if len(names) > 1 else 'holds'} as well: {what} decides",
            given=lines,
            hint=f"{_rewritten(own)}, which makes a new tensor{note}",
        )

    pinned = tracer_here().whole.pinned
    for handle in (value, *old):
        pinned[id(handle)] = (handle, error)


def _is_followed() -> bool:
    """Whether a debugger or another tool that may read variables follows the running code."""
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    tool = None if monitoring is None else monitoring.get_tool(monitoring.DEBUGGER_ID)
    return sys.gettrace() is not None or tool is not None


def _rewritten(name: str) -> str:
    """The advice to write the current update in place as an assignment."""
    source = capture()
    try:
        node = ast.parse(source.text).body[0] if source is not None else None
    except (SyntaxError, IndexError):  # a part of a statement
        node = None
    if not isinstance(node, ast.AugAssign):
        return f"write {name} = {name} + y in the place of {name} += y"
    left = ast.unparse(node.target)
    made = ast.unparse(ast.BinOp(ast.parse(left, mode="eval").body, node.op, node.value))
    return f"write {left} = {made} in the place of {ast.unparse(node)}"


def _names(x: Tensor) -> list[str]:
    """The names of variables, in the user's functions under way, that hold a tensor."""
    every = (pair for _, known in users_variables() for pair in known.items())
    return [name for name, value in every if value is x and name.isidentifier()]
