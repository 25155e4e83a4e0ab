"""Tensors that are unpacked where another framework gives several values.

``out, weights = attention(x)`` and ``loss, (dw, db) = ef.value_and_grad(f)(w, b)`` would divide the
first axis of one tensor: with an error of Python's that does not say so, or without any if the
sizes agree.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
import warnings
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Final

import eagerflow as ef
from eagerflow.errors import GradientError, GradientWarning, TensorValueError
from eagerflow.extending import Source
from eagerflow.hints.parameter_names import PAIR, PAIRS
from eagerflow.hints.refused_calls import value_of

#: layers that give more elsewhere
_ALONE: Final = {
    "MultiHeadAttention": "the output comes alone, without the weights of attention: "
    "out = attention(x), of x [batch, length, embed_dim]"
}
#: how many lines a statement may have to be found, and how many before the names
_LINES: Final = 12
_LINES_BEFORE: Final = 4
#: what was warned of, so that a loop says it once
_said: Final[dict[Any, Any]] = {}


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
    call = _call(frame.f_code, frame.f_lasti, count)
    if call is None:
        return
    source = Source(frame.f_code, frame.f_lasti)
    callee = _value(call.func, frame)
    kind = type(callee).__name__
    if kind in _ALONE and type(callee).__module__.startswith("eagerflow."):
        wrong = f"{kind} gives one tensor, which is unpacked into {count}"
        raise TensorValueError(wrong, given=str(x.type), hint=_ALONE[kind], source=source)
    fits = bool(x.shape) and x.shape[0] == count
    if _is_by_one(call.func, callee, frame):
        _check_gradient(x, count, fits, call, source)
    elif not fits and count == 2 and isinstance(call.func, ast.Attribute):
        name = call.func.attr
        if name in PAIRS:
            wrong = f"{name} gives one tensor, which is unpacked into {count}"
            hint = PAIR.format(name=name)
            raise TensorValueError(wrong, given=str(x.type), hint=hint, source=source)


def _check_gradient(x: Any, count: int, fits: bool, call: ast.Call, source: Source) -> None:
    wrong = f"the gradient by one argument is unpacked into {count}"
    hint = f"argnums={(*range(count),)} gives the gradients by the first {count} arguments"
    if not fits:
        raise GradientError(wrong, given=str(x.type), hint=hint, source=source)
    if count == len(call.args) and len(x.shape) > 1:
        text = f"{wrong}\n  got: {x.type}\n  hint: {hint}\n  at: {source}"
        warnings.warn_explicit(text, GradientWarning, source.file, source.line, registry=_said)


def _is_by_one(func: ast.expr, callee: Any, frame: FrameType) -> bool:
    """Whether what is called gives the gradient by one argument, and not by several."""
    if isinstance(func, ast.Call):  # ef.grad(f)(x, y)
        chosen = {k.arg for k in func.keywords} & {"argnums", "wrt"}
        made = _value(func.func, frame)
        return made in (ef.grad, ef.value_and_grad) and len(func.args) == 1 and not chosen
    function = getattr(callee, "fn", callee)  # of a traced one
    return isinstance(getattr(function, "__dict__", {}).get("argnums"), int)


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name with attributes stands for, None for any other expression."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    return value_of((node.id, *reversed(path)), frame) if isinstance(node, ast.Name) else None


@lru_cache(maxsize=256)
def _call(code: CodeType, offset: int, count: int) -> ast.Call | None:
    """The call whose result an instruction unpacks, if the source is at hand and leaves no doubt.

    Args:
        code: the code object.
        offset: of the instruction.
        count: into how many parts.
    """
    line = Source(code, offset).line
    for first in range(line, max(0, line - _LINES_BEFORE), -1):  # names may have lines of their own
        lines: list[str] = []
        for i in range(first, line + _LINES):
            lines.append(linecache.getline(code.co_filename, i))
            if i >= line:
                calls = _calls("".join(lines), count)
                if calls:
                    return calls[0] if len(calls) == 1 else None
    return None


def _calls(text: str, count: int) -> list[ast.Call]:
    """The calls in a text whose results are unpacked into so many parts."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:  # a part of a statement
        return []
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(_has_parts(target, count) for target in node.targets)
    ]


def _has_parts(target: ast.expr, count: int) -> bool:
    """Whether names for so many parts are among those that a value is unpacked to."""
    parts = (n.elts for n in ast.walk(target) if isinstance(n, ast.Tuple | ast.List))
    return any(len(names) == count for names in parts)
