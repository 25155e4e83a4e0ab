"""Takes `return`, `break` and `continue` out of branches and loops: names that say so, and tests.

What follows an `if` of which one branch always jumps moves into the other branch, so that both
give a value; elsewhere what follows is guarded by the names that were set. (Names that begin with
``@`` belong to the converter: user code cannot contain them.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, final

from eagerflow.autograph.conversion.source_code import OPERATORS, NotConvertible

__all__ = ["RESULT", "RETURNED", "is_always", "lower_jumps", "operator", "returns_early"]

#: the result of the function, and whether it has returned
RESULT: Final = "@result"
RETURNED: Final = "@returned"

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS: Final = (ast.For, ast.While)
_Node = TypeVar("_Node", bound=ast.AST)
_JUMPS: Final = (ast.Return, ast.Break, ast.Continue)


def operator(name: str, arguments: Sequence[ast.expr], at: ast.AST) -> ast.Call:
    """The call of an operator of eagerflow, with the location of ``at``."""
    function = ast.Attribute(ast.Name(OPERATORS, ast.Load()), name, ast.Load())
    made = _placed(ast.Call(function, list(arguments), []), at)
    # for a call over several lines, tracebacks show the line where the name of its method ends
    function.end_lineno, function.end_col_offset = function.lineno, function.col_offset
    return made


def returns_early(body: Sequence[ast.stmt]) -> bool:
    """Whether there is a `return` within another statement."""
    return any(not isinstance(s, ast.Return) and _has(s, ast.Return, _FUNCTIONS) for s in body)


def lower_jumps(body: Sequence[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """The body of a function without jumps but for a `return` at the end, located at ``at``.

    Loops get an attribute ``flags``: the names of which each ends the loop once it is true.

    Raises:
        NotConvertible: a `finally` block jumps.
    """
    early = returns_early(body)
    jumps = _Jumps(early)
    if not early:
        return jumps.block(body, "", "")
    last = body[-1]
    if not _ends(body):
        falls = _placed(ast.Return(ast.Constant(None)), last)
        falls.falls_off = True  # type: ignore[attr-defined]  # for messages
        body = [*body, falls]
    statements = jumps.block(body, "", "")
    if RETURNED in jumps.used:
        statements.insert(0, _assign(RETURNED, ast.Constant(False), body[0]))
    else:
        statements = [s for s in map(_Without(RETURNED).visit, statements) if s is not None]
    return [*statements, _placed(ast.Return(ast.Name(RESULT, ast.Load())), at)]


@final
class _Jumps:
    """The state of one lowering.

    Args:
        early: whether returns are lowered.
    """

    def __init__(self, early: bool) -> None:
        self.early = early
        self.used: set[str] = set()  # flags that are tested
        self._loops = 0

    def block(self, body: Sequence[ast.stmt], brk: str, cont: str) -> list[ast.stmt]:
        """A block within a loop whose flags are ``brk`` and ``cont``."""
        statements: list[ast.stmt] = []
        for i, node in enumerate(body):
            rest = body[i + 1 :]
            if isinstance(node, _JUMPS):
                return statements + self._jump(node, brk, cont)
            flags = self._flags(node, brk, cont)
            if flags and rest and isinstance(node, ast.If):
                first, second = _ends(node.body), _ends(node.orelse)
                if first and second:
                    rest = []
                elif first or second:
                    node = _placed(ast.If(
                        node.test, node.body if first else [*node.body, *rest],
                        [*node.orelse, *rest] if first else node.orelse,
                    ), node)  # fmt: skip
                    rest = []
                    flags = []
                    statements += self._statement(node, brk, cont)
                    return statements
            statements += self._statement(node, brk, cont)
            if _is_endless(node):
                return statements + _never(self.block(rest, brk, cont), node)
            if flags:
                if rest:
                    statements.append(self._guarded(self.block(rest, brk, cont), flags, node))
                return statements
        return statements

    def _flags(self, node: ast.stmt, brk: str, cont: str) -> list[str]:
        """The flags that a statement may set and that concern what follows it."""
        flags = [RETURNED] if self.early and _has(node, ast.Return, _FUNCTIONS) else []
        inside = (*_FUNCTIONS, *_LOOPS)
        if _breaks(node, ast.Break, inside):
            flags.append(brk)
        if _breaks(node, ast.Continue, inside):
            flags.append(cont)
        return flags

    def _jump(self, node: Any, brk: str, cont: str) -> list[ast.stmt]:
        if not isinstance(node, ast.Return):
            name = brk if isinstance(node, ast.Break) else cont
            return [_assign(name, ast.Constant(True), node)]
        if not self.early:
            return [node]
        value = node.value if node.value is not None else ast.Constant(None)
        result = _assign(RESULT, _placed(value, node), node)
        result.falls_off = getattr(node, "falls_off", False)  # type: ignore[attr-defined]  # above
        return [result, _assign(RETURNED, ast.Constant(True), node)]

    def _guarded(self, body: list[ast.stmt], flags: list[str], at: ast.stmt) -> ast.stmt:
        self.used.update(flags)
        return _placed(ast.If(_going(flags, at), body or [ast.Pass()], []), at)

    def _statement(self, node: Any, brk: str, cont: str) -> list[ast.stmt]:
        match node:
            case ast.If():
                return [_placed(ast.If(
                    node.test, self.block(node.body, brk, cont) or [_placed(ast.Pass(), node)],
                    self.block(node.orelse, brk, cont),
                ), node)]  # fmt: skip
            case ast.While() | ast.For():
                return self._loop(node, brk, cont)
            case ast.With():
                return [_placed(ast.With(node.items, self.block(node.body, brk, cont)), node)]
            case ast.Match():
                cases = [ast.match_case(c.pattern, c.guard, self.block(c.body, brk, cont))
                         for c in node.cases]  # fmt: skip
                return [_placed(ast.Match(node.subject, cases), node)]
            case ast.Try():
                return [self._try(node, brk, cont)]
        if self._flags(node, brk, cont):
            raise NotConvertible(f"it jumps out of the statement at line {node.lineno}")
        return [node]

    def _try(self, node: ast.Try, brk: str, cont: str) -> ast.stmt:
        for one in node.finalbody:
            if self._flags(one, brk, cont):
                raise NotConvertible("it jumps out of a `finally` block")
        handlers = [
            _placed(ast.ExceptHandler(h.type, h.name, self.block(h.body, brk, cont)), h)
            for h in node.handlers
        ]
        orelse = self.block(node.orelse, brk, cont)
        flags = sorted({f for s in node.body for f in self._flags(s, brk, cont)})
        if orelse and flags:
            orelse = [self._guarded(orelse, flags, node)]
        body = self.block(node.body, brk, cont)
        final = self.block(node.finalbody, brk, cont)
        return _placed(ast.Try(body, handlers, orelse, final), node)

    def _loop(self, node: ast.For | ast.While, brk: str, cont: str) -> list[ast.stmt]:
        self._loops += 1
        inner = f"@break{self._loops}", f"@continue{self._loops}"
        flags = sorted({f for s in node.body for f in self._flags(s, *inner)} - {inner[1]})
        body = self.block(node.body, *inner)
        if inner[1] in self.used:
            body.insert(0, _assign(inner[1], ast.Constant(False), node))
        else:
            body = [s for s in map(_Without(inner[1]).visit, body) if s is not None]
        body = body or [_placed(ast.Pass(), node)]
        loop: Any = (
            ast.While(node.test, body, [])
            if isinstance(node, ast.While)
            else ast.For(node.target, node.iter, body, [])
        )
        loop.flags = flags
        self.used.update(flags)
        statements: list[ast.stmt] = [_placed(loop, node)]
        if inner[0] in flags:
            statements.insert(0, _assign(inner[0], ast.Constant(False), node))
        if node.orelse:
            orelse = self.block(node.orelse, brk, cont)
            if _is_endless(node):
                orelse = _never(orelse, node)
            statements += [self._guarded(orelse, flags, node)] if flags and orelse else orelse
        return statements


@final
class _Without(ast.NodeTransformer):
    """Drops assignments to a flag that is never tested."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | ast.Pass | None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == self.name:
            return _placed(ast.Pass(), node)
        return node


def _has(node: ast.AST, kind: Any, barriers: tuple[type, ...]) -> bool:
    """Whether ``node`` is or holds a statement of a kind, those within ``barriers`` not counted."""
    if isinstance(node, kind):
        return True
    if isinstance(node, (*barriers, ast.expr)):
        return False
    return any(_has(child, kind, barriers) for child in ast.iter_child_nodes(node))


def _breaks(node: ast.AST, kind: Any, barriers: tuple[type, ...]) -> bool:
    """Whether a statement jumps in the loop around it; the `else` of a loop is not in that loop."""
    if isinstance(node, _LOOPS):
        return any(_breaks(s, kind, barriers) for s in node.orelse)
    if isinstance(node, kind):
        return True
    if isinstance(node, (*barriers, ast.expr)):
        return False
    return any(_breaks(child, kind, barriers) for child in ast.iter_child_nodes(node))


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether code after a block is never reached."""
    return any(
        isinstance(s, (*_JUMPS, ast.Raise))
        or (isinstance(s, ast.If) and _ends(s.body) and _ends(s.orelse))
        or _is_endless(s)
        for s in body
    )


def _is_endless(node: ast.stmt) -> bool:
    """Whether only `return` ends a loop."""
    if not isinstance(node, ast.While) or not is_always(node.test):
        return False
    inside = (*_FUNCTIONS, *_LOOPS)
    return not any(_breaks(s, ast.Break, inside) for s in node.body)


def is_always(test: ast.expr) -> bool:
    """Whether a test is a constant that is true."""
    return isinstance(test, ast.Constant) and bool(test.value)


def _never(body: list[ast.stmt], at: ast.stmt) -> list[ast.stmt]:
    """Statements that are never reached: their names stay names of the function."""
    return [_placed(ast.If(ast.Constant(False), body, []), at)] if body else []


def _going(flags: Iterable[str], at: ast.AST) -> ast.Call:
    return operator("going", [_placed(ast.Name(f, ast.Load()), at) for f in flags], at)


def _assign(name: str, value: ast.expr, at: ast.AST) -> ast.Assign:
    return _placed(ast.Assign([ast.Name(name, ast.Store())], value), at)


def _placed(node: _Node, at: ast.AST) -> _Node:
    """``node``, with the location of ``at`` for it and all nodes within it that have none."""
    ast.copy_location(node, at)
    for child in ast.iter_child_nodes(node):
        if not hasattr(child, "lineno") and "lineno" in child._attributes:
            _placed(child, at)
    return node
