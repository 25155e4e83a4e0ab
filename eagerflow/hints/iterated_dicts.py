"""Hints where a dict of variables or of gradients is iterated over as if it were a list.

Elsewhere parameters and gradients are lists. Iterating over a dict gives its names, and Python says
so late, or not at all: the sum of two names is a name.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from traceback import walk_tb
from types import FrameType
from typing import Final

import eagerflow as ef
from eagerflow.hints.lookahead.names_of_source import UNKNOWN, Instance, Names, is_ours
from eagerflow.hints.refused_calls import value_of

__all__ = ["DICTS", "elements", "of_names", "remedy"]

#: attributes of modules that are dicts
DICTS: Final = ("buffers", "parameters", "trainable")
_DICTS_ARE: Final = (
    "net.trainable and the gradients by it are dicts, and iterating gives their names: "
    "net.trainable.values() has the variables, and {k: a[k] + b[k] for k in a} adds two"
)
#: Python's texts where text is used as a number
_TEXT_AS_NUMBER: Final = re.compile(
    r"'str'|concatenate str|multiply sequence by non-int|format code .* for object of type 'str'"
)
_COMPREHENSIONS: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
#: first parameters of functions of arrays
_OPERANDS: Final = ("x", "x1")


def remedy(error: TypeError | AttributeError) -> str | None:
    """The remedy where a line uses the names in a dict of arrays as its values.

    Args:
        error: as Python raised it, with its traceback.

    >>> net = ef.nn.Linear(2, 3)
    >>> try:
    ...     [v * 0.5 for v in net.trainable]
    ... except TypeError as error:
    ...     print(ef.hints.iterated_dicts.remedy(error).partition(", and")[0])
    net.trainable: net.trainable and the gradients by it are dicts
    """
    used = type(error.obj) is str if isinstance(error, AttributeError) else None
    if not (_TEXT_AS_NUMBER.search(str(error)) if used is None else used):
        return None
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return None
    lines = [line for _, line in walk_tb(error.__traceback__)]
    file, line = frames[-1].f_code.co_filename, lines[-1]
    scopes = [frame for frame in reversed(frames) if frame.f_code.co_filename == file]
    try:
        tree = ast.parse("".join(linecache.getlines(file, frames[-1].f_globals)))
    except SyntaxError:  # a cell with magic commands
        return None
    for name, iterated in _iterations(tree, line):
        path = _path(iterated)
        if path and name in _names_of_line(tree, line) and _is_dict(path, scopes):
            return f"{ast.unparse(iterated)}: {_DICTS_ARE}"
    return None


def of_names(node: ast.AST, names: Names) -> str | None:
    """The hint for a loop or a comprehension that uses the names in a dict as arrays.

    Args:
        node: of the source.
        names: of the source.
    """
    for target, iterable, parts in _loops(node):
        for name, iterated in elements(target, iterable):
            if _is_used(name, parts, names) and _holds_arrays(iterated, names, set()):
                return _DICTS_ARE
    return None


def elements(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names that a loop sets to the elements of expressions, through `zip` and `enumerate`.

    Args:
        target: of the loop.
        iterable: of the loop.

    >>> import ast
    >>> from eagerflow.hints.iterated_dicts import elements
    >>> loop = ast.parse("for i, (p, g) in enumerate(zip(a, b)): pass").body[0]
    >>> [(name, ast.unparse(each)) for name, each in elements(loop.target, loop.iter)]
    [('p', 'a'), ('g', 'b')]
    """
    match target, iterable:
        case ast.Name(), _:
            yield target.id, iterable
        case (
            ast.Tuple(elts=[_, element]),
            ast.Call(func=ast.Name("enumerate"), args=[inner, *_]),
        ):
            yield from elements(element, inner)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name("zip"), args=iterables):
            for each, inner in zip(targets, iterables, strict=False):
                yield from elements(each, inner)


# --- in a source ------------------------------------------------------------------------------


def _loops(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, list[ast.AST]]]:
    """The target, the iterable and the repeated parts of a loop or a comprehension."""
    if isinstance(node, ast.For):
        yield node.target, node.iter, [*node.body]
    elif isinstance(node, _COMPREHENSIONS):
        parts: list[ast.AST] = [*ast.iter_child_nodes(node)]
        for each in node.generators:
            yield each.target, each.iter, parts


def _is_used(name: str, parts: list[ast.AST], names: Names) -> bool:
    """Whether an element is used as an array: as an operand, or by an attribute that text lacks."""
    return any(_uses(node, name, names) for part in parts for node in ast.walk(part))


def _uses(node: ast.AST, name: str, names: Names) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return any(map(_is(name), (left, right))) and not any(map(_is_text, (left, right)))
        case ast.UnaryOp(op=ast.USub(), operand=operand) | ast.AugAssign(target=operand):
            return _is(name)(operand)
        case ast.Attribute(value=owner, attr=attribute):
            return _is(name)(owner) and not hasattr(str, attribute)
        case ast.Call(args=[first, *_]) if _is(name)(first):
            called = names.callee(node)
            return (
                inspect.isfunction(called)
                and is_ours(called)
                and next(iter(inspect.signature(called).parameters), "") in _OPERANDS
            )
    return False


def _is(name: str) -> Callable[[ast.expr], bool]:
    return lambda node: isinstance(node, ast.Name) and node.id == name


def _is_text(node: ast.expr) -> bool:
    return any(
        isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and type(n.value) is str)
        for n in ast.walk(node)
    )


def _holds_arrays(node: ast.expr, names: Names, seen: set[str]) -> bool:
    """Whether an expression is a dict of variables, or of gradients by one."""
    match node:
        case ast.Attribute(value=owner, attr=attribute) if attribute in DICTS:
            value = names.value(owner)
            kind = value.kind if isinstance(value, Instance) else None
            known = kind is not None and issubclass(kind, ef.nn.Module)
            return known or (value is UNKNOWN and attribute == "trainable")
        case ast.Name(id=name) if name not in seen:
            seen.add(name)
            return any(_holds_arrays(each, names, seen) for each in names.assigned(name)) or any(
                _is_gradients(call, i, names, seen) for i, call in names.unpacked(name)
            )
        case ast.IfExp(body=body, orelse=other):
            return _holds_arrays(body, names, seen) or _holds_arrays(other, names, seen)
        case ast.Call():
            return _is_gradients(node, None, names, seen)
    return False


def _is_gradients(call: ast.Call, at: int | None, names: Names, seen: set[str]) -> bool:
    """Whether a part of the result of a call, or the whole, is gradients by a dict."""
    called = names.callee(call)
    if called is ef.optim.clip_by_global_norm:
        return at == 0 and bool(call.args) and _holds_arrays(call.args[0], names, seen)
    if called in (ef.optim.clip_by_norm, ef.optim.clip_by_value):
        return at is None and bool(call.args) and _holds_arrays(call.args[0], names, seen)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "gradient":
        return at is None and any(_holds_arrays(a, names, seen) for a in call.args[1:2])
    made = _derivative(call.func, names, seen)
    if made is None:
        return False
    wanted = 1 if names.callee(made) is ef.value_and_grad else None
    wrt = [k.value for k in made.keywords if k.arg == "wrt"]
    return at == wanted and any(_holds_arrays(each, names, seen) for each in wrt)


def _derivative(node: ast.expr, names: Names, seen: set[str]) -> ast.Call | None:
    """The call of `value_and_grad` or `grad` that makes a function, which may be traced."""
    match node:
        case ast.Name(id=name) if name not in seen:
            seen.add(name)
            made = (_derivative(each, names, seen) for each in names.assigned(name))
            return next(filter(None, made), None)
        case ast.Call():
            called = names.callee(node)
            if called is ef.value_and_grad or called is ef.grad:
                return node
            if called is ef.trace and node.args:
                return _derivative(node.args[0], names, seen)
    return None


# --- behind an error --------------------------------------------------------------------------


def _iterations(tree: ast.AST, line: int) -> Iterator[tuple[str, ast.expr]]:
    """The elements of the loops around a line, the innermost first."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, *_COMPREHENSIONS))
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    for node in reversed(around):
        for target, iterable, _ in _loops(node):
            yield from elements(target, iterable)


def _names_of_line(tree: ast.AST, line: int) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.lineno == line}


def _path(node: ast.expr) -> tuple[str, ...]:
    """The parts of a name with attributes; none for another expression."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=owner, attr=attribute):
            path = _path(owner)
            return (*path, attribute) if path else ()
    return ()


def _is_dict(path: tuple[str, ...], scopes: list[FrameType]) -> bool:
    for frame in scopes:
        if len(path) > 1 and path[-1] in DICTS:
            if isinstance(value_of(path[:-1], frame), ef.nn.Module):
                return True
            continue
        value = value_of(path, frame)
        if isinstance(value, Mapping):
            arrays = (ef.Tensor, ef.Variable, ef.IndexedSlices)
            return any(isinstance(each, arrays) for each in value.values())
    return False
