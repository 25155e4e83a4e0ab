"""Tensors that are unpacked where another framework gives several values.

``out, weights = attention(x)`` and ``loss, (dw, db) = ef.value_and_grad(f)(w, b)`` would divide the
first axis of one tensor: with an error of Python's that does not say so, or without any if the
sizes agree.
"""

from __future__ import annotations

import ast
import dis
import linecache
import textwrap
import warnings
from collections.abc import Iterator
from functools import lru_cache
from inspect import CO_OPTIMIZED
from sys import getrefcount
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypeAlias

import eagerflow as ef
from eagerflow.errors import GradientError, GradientWarning, TensorValueError
from eagerflow.extending import Source
from eagerflow.hints.parameter_names import PAIR, PAIRS
from eagerflow.hints.refused_calls import value_of

#: where a part of a result is: the numbers of what it is a part of, from the outermost on
_Place: TypeAlias = tuple[int, ...]
_AUX: Final = "has_aux"
#: layers that give more elsewhere
_ALONE: Final = {
    "MultiHeadAttention": "the output comes alone, without the weights of attention: "
    "out = attention(x), of x [batch, length, embed_dim]"
}
#: references to a frame's dict of variables that `locals()` gave to nobody: of the frame, of a
#: variable here, and of an argument
_OWN_REFERENCES: Final = 3
#: how many lines a statement may have to be found, and how many before the names
_LINES: Final = 12
_LINES_BEFORE: Final = 4
#: what was warned of, so that a loop says it once
_said: Final[dict[Any, Any]] = {}


def _square(x: Any) -> Any:
    return x * x


#: the code of each function that gives gradients
_DERIVATIVE: Final = ef.grad(_square).__code__


def check(x: Any, count: int, frame: FrameType) -> None:
    """Refuse to unpack the result of a call, or a part of it, that is several values elsewhere.

    Args:
        x: the tensor that is unpacked.
        count: into how many parts.
        frame: the frame that does.

    Raises:
        TensorValueError: it is the output of an attention; or what `max` and its like gave, and
            is not that long.
        GradientError: it is the gradient by one argument, and is not that long. If it is, that
            may be meant, and is only warned of where the parts are no numbers.
    """
    fits = bool(x.shape) and x.shape[0] == count
    if fits and len(x.shape) == 1:  # numbers, which may be meant
        return
    unpacked = _unpacked(frame.f_code, frame.f_lasti, count)
    if unpacked is None:
        return
    try:
        _check_result(x, count, fits, *unpacked, frame)
    finally:
        _let_go(frame)


def _check_result(
    x: Any, count: int, fits: bool, call: ast.Call, place: _Place, frame: FrameType
) -> None:  # fmt: skip
    source = Source(frame.f_code, frame.f_lasti)
    callee = _value(call.func, frame)
    kind = type(callee).__name__
    if kind in _ALONE and _is_ours(callee):
        wrong = f"{kind} gives one tensor, which is unpacked into {count}"
        raise TensorValueError(wrong, given=str(x.type), hint=_ALONE[kind], source=source)
    if _gradient_at(call.func, callee, frame) == place:
        _check_gradient(x, count, fits, call, source)
    elif not fits and count == 2 and isinstance(call.func, ast.Attribute):
        name = call.func.attr
        if name in PAIRS:
            wrong = f"{name} gives one tensor, which is unpacked into {count}"
            hint = PAIR.format(name=name)
            raise TensorValueError(wrong, given=str(x.type), hint=hint, source=source)


def _let_go(frame: FrameType) -> None:
    """Drop the copy of its variables that a frame keeps once it was asked for them, up to 3.12."""
    scope, code = frame.f_locals, frame.f_code
    if type(scope) is not dict or not code.co_flags & CO_OPTIMIZED:
        return  # no copy: variables of a module, or of Python 3.13
    if getrefcount(scope) <= _OWN_REFERENCES:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            scope.pop(name, None)


def _check_gradient(x: Any, count: int, fits: bool, call: ast.Call, source: Source) -> None:
    wrong = f"the gradient by one argument is unpacked into {count}"
    hint = f"argnums={(*range(count),)} gives the gradients by the first {count} arguments"
    if not fits:
        raise GradientError(wrong, given=str(x.type), hint=hint, source=source)
    if count == len(call.args):
        text = f"{wrong}\n  got: {x.type}\n  hint: {hint}\n  at: {source}"
        warnings.warn_explicit(text, GradientWarning, source.file, source.line, registry=_said)


def _gradient_at(func: ast.expr, callee: Any, frame: FrameType) -> _Place | None:
    """Where the gradient by one argument is in the result of a call, if there is one in it."""
    if isinstance(func, ast.Call):  # ef.grad(f)(x, y)
        chosen = {k.arg for k in func.keywords}
        made = _value(func.func, frame)
        known = made is ef.grad or made is ef.value_and_grad
        if not known or len(func.args) != 1 or not chosen <= {_AUX}:
            return None
        function = made(_square, has_aux=_AUX in chosen)
    else:
        function = getattr(callee, "fn", None) if _is_ours(callee) else callee  # of a traced one
    if not isinstance(function, FunctionType) or function.__code__ is not _DERIVATIVE:
        return None  # what wraps one has its attributes
    place: _Place | None = function.__dict__.get("gradient_at")
    return place


def _is_ours(value: object) -> bool:
    """Whether the class of an object is eagerflow's own: others may answer as they like."""
    return str(type(value).__module__).startswith("eagerflow.")


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name with attributes stands for, None for any other expression."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    return value_of((node.id, *reversed(path)), frame) if isinstance(node, ast.Name) else None


@lru_cache(maxsize=256)
def _unpacked(code: CodeType, offset: int, count: int) -> tuple[ast.Call, _Place] | None:
    """The call whose result an instruction unpacks, if the source is at hand and leaves no doubt.

    Args:
        code: the code object.
        offset: of the instruction.
        count: into how many parts.

    Returns:
        The call, and where in its result what is unpacked is.
    """
    line, number = Source(code, offset).line, _number(code, offset)
    for first in range(line, max(0, line - _LINES_BEFORE), -1):  # names may have lines of their own
        lines: list[str] = []
        for i in range(first, line + _LINES):
            lines.append(linecache.getline(code.co_filename, i))
            if i >= line:
                calls = _calls("".join(lines), number, count)
                if calls:
                    return calls[0] if len(calls) == 1 else None
    return None


def _number(code: CodeType, offset: int) -> int:
    """How many instructions unpack the same result before one does: what is outside goes first."""
    number = 0
    for step in dis.get_instructions(code):
        if step.offset == offset:
            break
        if step.opname == "UNPACK_SEQUENCE":
            number += 1
        elif not step.opname.startswith("STORE_"):
            number = 0
    return number


def _calls(text: str, number: int, count: int) -> list[tuple[ast.Call, _Place]]:
    """The calls in a text of whose results part ``number`` is unpacked into so many parts."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):  # a part of a statement
        return []
    calls = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            places = [*_places(node.targets[0])]
            if number < len(places) and places[number][1] == count:
                calls.append((node.value, places[number][0]))
    return calls


def _places(target: ast.expr, at: _Place = ()) -> Iterator[tuple[_Place, int]]:
    """What is unpacked to fill a target: where it is, and into how many parts."""
    if isinstance(target, ast.Tuple | ast.List):
        yield at, len(target.elts)
        for i, part in enumerate(target.elts):
            yield from _places(part, (*at, i))
