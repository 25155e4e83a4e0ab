"""Finds the syntax tree of a function by its code object, and verifies the match.

The source is compiled again unchanged, and has to give the same instructions: a file that changed
since it was imported is never taken for the source of the function.
"""

from __future__ import annotations
import __future__

import ast
import dis
import linecache
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from types import CodeType
from typing import Any, Final, final

from eagerflow.autograph.conversion.syntax import OPERATORS, function
from eagerflow.source import cell_name

_FACTORY: Final = "@factory"
_OWN: Final = "@function"
_FUTURES: Final = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
)  # fmt: skip
#: reason for which a function without source is not converted
NO_SOURCE: Final = "its source is not at hand (it was made by exec, or typed at a plain prompt)"
_CHANGED: Final = "its source has changed since it was imported"

Definition = ast.FunctionDef | ast.Lambda


@final
class NotConvertible(Exception):
    """Raised if a function cannot be converted; the text is the reason."""


def definition(code: CodeType, namespace: dict[str, Any]) -> Definition:
    """The syntax tree of a function, with the lines and columns of its file.

    Args:
        code: of the function.
        namespace: its globals, which know how to load the source of a module in an archive.

    Raises:
        NotConvertible: there is no source, or no function in it has this code.
    """
    lines = linecache.getlines(code.co_filename, namespace)
    if not lines:
        raise NotConvertible(NO_SOURCE)
    for node in _candidates(code, lines):
        if _fits(code, node):
            return node
    linecache.checkcache(code.co_filename)
    raise NotConvertible(_CHANGED)


def _candidates(code: CodeType, lines: list[str]) -> Iterator[Definition]:
    if code.co_name != "<lambda>":
        block = _block(code, lines)
        if block is not None:
            yield from _definitions(block, code)
        return
    try:
        tree = _parsed("".join(lines))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            yield node


@lru_cache(maxsize=4)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _block(code: CodeType, lines: list[str]) -> ast.Module | None:
    """The lines of a `def` with its decorators, parsed with their line numbers."""
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines):
        return None
    indent = _indent(lines[first])
    prefix = "if 1:\n" if indent else ""
    for end in _ends(code, lines, indent):
        try:
            tree = ast.parse(prefix + "".join(lines[first:end]))
        except SyntaxError:
            continue
        return ast.increment_lineno(tree, first - bool(indent))
    return None


def _ends(code: CodeType, lines: list[str], indent: int) -> Iterator[int]:
    """Lines before which the block may end: lines that are not indented deeper than the block."""
    for i in range(_last_line(code), len(lines)):
        text = lines[i].strip()
        if text and not text.startswith("#") and _indent(lines[i]) <= indent:
            yield i
    yield len(lines)


def _last_line(code: CodeType) -> int:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(c) for c in code.co_consts if isinstance(c, CodeType)]
    return max([code.co_firstlineno, *lines, *inner])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _definitions(tree: ast.Module, code: CodeType) -> Iterator[Definition]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == _plain_name(code):
            first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            if first == code.co_firstlineno:
                yield node


def _plain_name(code: CodeType) -> str:
    """The name of a function as in its source: `__f` for `_A__f` in the class `A`."""
    return code.co_qualname.rpartition(".")[2]


def _fits(code: CodeType, node: Definition) -> bool:
    try:
        candidate = compiled(node, code)
    except (SyntaxError, NotConvertible):
        return False
    if any(name.startswith("@py_") for name in (*code.co_varnames, *code.co_names)):
        return True  # pytest has rewritten the assertions: only the location can be compared
    if code.co_name == "<lambda>" and _extent(candidate) != _extent(code):
        return False
    return _same(candidate, code)


def _same(a: CodeType, b: CodeType) -> bool:
    if a.co_names != b.co_names or a.co_varnames != b.co_varnames:
        return False
    if a.co_code != b.co_code and _instructions(a) != _instructions(b):
        return False
    if a.co_freevars != b.co_freevars or len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, CodeType) and isinstance(y, CodeType):
            if not _same(x, y):
                return False
        elif repr(x) != repr(y) and (x, y) != (a.co_qualname, b.co_qualname):
            return False
    return True


def _extent(code: CodeType) -> set[Any]:
    """Begin and end of the text of code: several lambdas may be on one line."""
    spans = [p for p in code.co_positions() if None not in p and p[3]]
    return {min((p[0], p[2]) for p in spans), max((p[1], p[3]) for p in spans)} if spans else (
        set())  # fmt: skip


def _instructions(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions of code, normalised where they depend on a module's imports."""
    return [
        (one.opname.replace("LOAD_METHOD", "LOAD_ATTR"), None if _is_offset(one) else one.argval)
        for one in dis.get_instructions(code) if one.opname not in ("PUSH_NULL", "CALL", "PRECALL")
    ]  # fmt: skip


def _is_offset(instruction: dis.Instruction) -> bool:
    """Whether the argument is a jump target, or a constant, which is compared elsewhere."""
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasconst


def compiled(node: Definition, code: CodeType) -> CodeType:
    """``node`` compiled as a replacement of ``code``: with its closure, class and file."""
    names = [n for n in code.co_freevars if n not in ("__class__", OPERATORS)]
    bare = copy(node)  # defaults are taken from the function; lambdas in them would disturb `_find`
    bare.args = _without_defaults(node.args)
    body: Any = ast.Expr(bare) if isinstance(bare, ast.Lambda) else bare
    if isinstance(bare, ast.FunctionDef):
        bare.name = _OWN  # its own name must be no variable of the factory
    owner = _class_name(code)
    if owner is not None:
        outer: Any = ast.parse("class C: pass").body[0]
        outer.name, outer.body = owner, [body]
        body = outer
    factory = function(_FACTORY, [OPERATORS, *names], [ast.copy_location(body, node)], node)
    tree = ast.fix_missing_locations(ast.Module(body=[factory], type_ignores=[]))
    flags = code.co_flags & _FUTURES
    whole = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    inner_code = _find(whole, _OWN if isinstance(node, ast.FunctionDef) else "<lambda>")
    if inner_code is None:
        raise NotConvertible(_CHANGED)
    return inner_code


def _without_defaults(arguments: ast.arguments) -> ast.arguments:
    stripped = copy(arguments)
    stripped.defaults = [ast.Constant(None) for _ in arguments.defaults]
    stripped.kw_defaults = [d and ast.Constant(None) for d in arguments.kw_defaults]
    return stripped


def _class_name(code: CodeType) -> str | None:
    """The class by whose name private names in the code are mangled."""
    parts = code.co_qualname.split(".")
    for part, following in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        if part != "<locals>" and following != "<locals>":
            return part
    return None


def _find(whole: CodeType, name: str) -> CodeType | None:
    for one in whole.co_consts:
        if isinstance(one, CodeType):
            code = one if one.co_name == name else _find(one, name)
            if code is not None:
                return code
    return None


def first_line(code: CodeType) -> int:
    """The line of the first statement of a branch or a body."""
    first = code.co_firstlineno
    return next((line for *_, line in code.co_lines() if line not in (None, first)), first)


def line_text(code: CodeType, line: int) -> str:
    """A line of a function for messages."""
    text = linecache.getline(code.co_filename, line).strip()
    return f"{cell_name(code.co_filename)}:{line}" + (f": {text}" if text else "")
