"""What to write so that a number or a size stays symbolic, by the line that asked for it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import Final

from eagerflow.core.op import find_op

#: loops over a range and over `arange`, calls that ask for numbers, reason of sizes and indices
_LOOP: Final = re.compile(r"\bin range\(")
_OVER_ARANGE: Final = re.compile(r"^int\(\) in arange at .*\bfor .* in (\w+\.)?arange\(.*\):")
_CALL: Final = re.compile(r"(?<![\w.])(?:(math|np|numpy)\.)?(\w+)\(")
_SIZE: Final = "its use as an index"
_CUT: Final = "…"  # a part of a line follows
_WHOLE: Final = (
    "a quotient of whole numbers: n // 2 in place of int(n / 2), -(-n // 2) of math.ceil(n / 2), "
    "n * 4 // 5 of int(0.8 * n)"
)
_ATOMS: Final = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
_FLOAT: Final = re.compile(r"float\(.*\)")
_ROUNDED: Final = re.compile(r"(int|round|floor|ceil)\(.*\)")


def remedy_for(name: str, static: str) -> str:
    """What keeps a number symbolic, so that it needs no trace for each value; empty if nothing may.

    Args:
        name: of the argument.
        static: the description of its static value, which ends with the line that asked for it.
    """
    what, _, code = static.partition(", because of ")
    if what.startswith("axis "):
        swaps = _swaps_for_size(code)
        return f"; to keep the size symbolic, write {' and '.join(swaps)}" if swaps else ""
    if code.startswith(_SIZE):
        loop = f"; to keep {name} symbolic, pass ef.tensor({name}), for a loop of the graph"
        if _LOOP.search(code):
            return loop
        index = f"; where a tensor is indexed, ef.tensor({name}) keeps it symbolic"
        return index if _is_index(name, code) else ""
    if _OVER_ARANGE.search(code):
        tensor = f"pass ef.tensor({name}), and write range in place of ef.arange"
        return f"; to keep {name} symbolic, {tensor}; an int {name} is part of the graph: keep it"
    swaps = _swaps(name, code)
    if swaps:
        return f"; to keep {name} symbolic, write {' and '.join(swaps)}"
    return (
        f"; {name} stays symbolic in arithmetic, comparisons and elementwise functions of "
        f"eagerflow, such as ef.cos({name})"
    )


def _is_index(name: str, code: str) -> bool:
    """Whether an argument is an index by itself, not a bound of a slice."""
    return re.search(rf"\[(?:[^][:]*,)?\s*{re.escape(name)}\s*(?:,[^][:]*)?\]", code) is not None


def _swaps_for_size(code: str) -> list[str]:
    """The expressions to write in place of those that ask for a size; none if none is known.

    Args:
        code: the reason for which it is static, with the line.
    """
    why, _, line = code.partition(" at ")
    if _ROUNDED.fullmatch(why):
        return [_WHOLE]
    swaps: dict[str, None] = {}
    for of, called, text in _calls(line):
        call = _parsed(text)
        if call is None or len(call.args) != 1:
            continue
        if of and _is_ours(called, call) and (why == f"{called}()" or _FLOAT.fullmatch(why)):
            swaps[f"ef.{called} in place of {of}.{called}"] = None
        elif (of, called) == ("", "float") and _FLOAT.fullmatch(why):
            argument = ast.unparse(call.args[0])
            part = argument if isinstance(call.args[0], _ATOMS) else f"({argument})"
            swaps[f"(1.0 * {part}) in place of float({argument})"] = None
    return [*swaps]


def _swaps(name: str, code: str) -> list[str]:
    """The calls to write with eagerflow's functions; none where that might not be enough.

    Args:
        name: of the number.
        code: the reason for which it is static, with the line.
    """
    why, _, line = code.partition(" at ")
    swaps: dict[str, None] = {}
    for of, called, text in _calls(line):
        call = _parsed(text)
        if call is None or _CUT in line:
            return []
        if not _has(call, name):
            continue
        asked = "float()" if of == "math" else f"{called}()"
        if not of or why != asked or not _is_ours(called, call):
            return []
        swaps[f"ef.{called} in place of {of}.{called}"] = None
    return [*swaps]


def _calls(line: str) -> Iterator[tuple[str, str, str]]:
    """The calls of functions of modules and of Python: each with its text and what follows."""
    for match in _CALL.finditer(line):
        of, called = match.groups(default="")
        if of or hasattr(builtins, called):
            yield of, called, line[match.start() :]


def _parsed(text: str) -> ast.Call | None:
    """The call that a text begins with; None if it goes on in the next line."""
    for end in re.finditer(r"\)", text):
        try:
            call = ast.parse(text[: end.end()], mode="eval").body
        except SyntaxError:  # a parenthesis in its arguments
            continue
        return call if isinstance(call, ast.Call) else None
    return None


def _has(call: ast.Call, name: str) -> bool:
    """Whether the arguments of a call contain a number."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(ast.unparse(part) == name for arg in given for part in ast.walk(arg))


def _is_ours(name: str, call: ast.Call) -> bool:
    """Whether eagerflow has a function for a call, an elementwise one of one input."""
    import eagerflow  # noqa: PLC0415 - all of it, once it is there

    op = find_op(name)
    if op is None or not op.elementwise or op.input_count != 1 or len(call.args) != 1:
        return False
    return not call.keywords and callable(getattr(eagerflow, name, None))
