"""Check for tensors that are unpacked where another framework returns several values.

``out, weights = attention(x)`` and ``loss, (dw, db) = ef.value_and_grad(f)(w, b)`` would unpack the
first axis of one tensor: with an error of Python's that does not say so, or without an error if the
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
from eagerflow.hints.parameter_names import PAIRS
from eagerflow.hints.refused_calls import value_at

#: position of a part in a nested result: its indices, from the outermost on
_Place: TypeAlias = tuple[int, ...]
_AUX: Final = "has_aux"
#: layers that return more values elsewhere
ALONE: Final = {
    "MultiHeadAttention": "the output comes alone, without the weights of attention: "
    "out = attention(x), of x [batch, length, embed_dim]"
}
#: references to a frame's dict of variables that no `locals()` has returned: of the frame, of a
#: variable here, and of an argument
_OWN_REFERENCES: Final = 3
#: maximum number of lines of a statement that is found, and of lines before the names
_LINES: Final = 12
_LINES_BEFORE: Final = 4
#: registry of warnings, so that a loop warns once
_said: Final[dict[Any, Any]] = {}


def _square(x: Any) -> Any:
    return x * x


#: the code shared by all functions that return gradients
_DERIVATIVE: Final = ef.grad(_square).__code__


def check(x: Any, count: int, frame: FrameType) -> None:
    """Refuse to unpack the result of a call, or a part of it, that is several values elsewhere.

    Args:
        x: the tensor that is unpacked.
        count: number of parts.
        frame: the frame that unpacks it.

    Raises:
        TensorValueError: it is the output of an attention; or the result of `max`, `min`, `sort` or
            `median` with another length. With the same length there is a warning, as below.
        GradientError: it is the gradient by one argument, with another length. With the same
            length this may be meant: there is only a warning, if the parts are no numbers.
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
    callee = value_at(call.func, frame)
    kind = type(callee).__name__
    if kind in ALONE and _is_ours(callee):
        wrong = f"{kind} gives one tensor, which is unpacked into {count}"
        raise TensorValueError(wrong, given=str(x.type), hint=ALONE[kind], source=source)
    if _gradient_at(call.func, callee, frame) == place:
        _check_gradient(x, count, fits, call, source)
    elif count == 2 and isinstance(call.func, ast.Attribute) and call.func.attr in PAIRS:
        _check_pair(x, fits, call.func.attr, source)


def _check_pair(x: Any, fits: bool, name: str, source: Source) -> None:
    wrong = f"{name} gives one tensor, which is unpacked into 2"
    hint = PAIRS[name]
    if not fits:
        raise TensorValueError(wrong, given=str(x.type), hint=hint, source=source)
    _warn(wrong, x, hint, UserWarning, source)


def _warn(wrong: str, x: Any, hint: str, category: type[Warning], source: Source) -> None:
    text = f"{wrong}\n  got: {x.type}\n  hint: {hint}\n  at: {source}"
    warnings.warn_explicit(text, category, source.file, source.line, registry=_said)


def _let_go(frame: FrameType) -> None:
    """Drop the copy of its variables that ``f_locals`` makes a frame keep, up to Python 3.12."""
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
        _warn(wrong, x, hint, GradientWarning, source)


def _gradient_at(func: ast.expr, callee: Any, frame: FrameType) -> _Place | None:
    """The position of the gradient by one argument in the result of a call, if there is one."""
    if isinstance(func, ast.Call):  # ef.grad(f)(x, y)
        chosen = {k.arg for k in func.keywords}
        made = value_at(func.func, frame)
        known = made is ef.grad or made is ef.value_and_grad
        if not known or len(func.args) != 1 or not chosen <= {_AUX}:
            return None
        function = made(_square, has_aux=_AUX in chosen)
    else:
        function = getattr(callee, "fn", None) if _is_ours(callee) else callee  # of a traced one
    if not isinstance(function, FunctionType) or function.__code__ is not _DERIVATIVE:
        return None  # a wrapper would have its attributes
    place: _Place | None = function.__dict__.get("gradient_at")
    return place


def _is_ours(value: object) -> bool:
    """Whether the class of an object is eagerflow's own: others may compute attributes."""
    return str(type(value).__module__).startswith("eagerflow.")


@lru_cache(maxsize=256)
def _unpacked(code: CodeType, offset: int, count: int) -> tuple[ast.Call, _Place] | None:
    """The call whose result an instruction unpacks, if the source is at hand and leaves no doubt.

    Args:
        code: the code object.
        offset: of the instruction.
        count: number of parts.

    Returns:
        The call, and the position in its result of the unpacked part.
    """
    line, number = Source(code, offset).line, _number(code, offset)
    for first in range(line, max(0, line - _LINES_BEFORE), -1):  # the names may be on lines before
        lines: list[str] = []
        for i in range(first, line + _LINES):
            lines.append(linecache.getline(code.co_filename, i))
            if i >= line:
                calls = _calls("".join(lines), number, count)
                if calls:
                    return calls[0] if len(calls) == 1 else None
    return None


def _number(code: CodeType, offset: int) -> int:
    """Number of instructions that unpack the same result before this one; outer parts first."""
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
    """The calls in a text whose result's part ``number`` is unpacked into ``count`` parts."""
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
    """The parts that are unpacked to fill a target: position and number of parts of each."""
    if isinstance(target, ast.Tuple | ast.List):
        yield at, len(target.elts)
        for i, part in enumerate(target.elts):
            yield from _places(part, (*at, i))
