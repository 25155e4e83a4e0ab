"""Replaces `return`, `break` and `continue` in branches and loops by flags, and tests of flags.

If one branch of an `if` always jumps, the statements after the `if` move into the other branch, so
that both give a value; elsewhere such statements are guarded by the flags. (Names that begin with
``@`` belong to the converter: user code cannot contain them.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from eagerflow.autograph.conversion.source_code import NotConvertible
from eagerflow.autograph.conversion.syntax import JUMPS, LOOPS, is_always, located, operator_call

#: names of the result of the function, and of the flag that it has returned
RESULT: Final = "@result"
_RETURNED: Final = "@returned"

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def lower_jumps(body: Sequence[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """The body of a function without jumps but for a `return` at the end, located at ``at``.

    Loops get an attribute ``flags``: the names of flags each of which ends the loop.

    Raises:
        NotConvertible: a `finally` block jumps.
    """
    early = any(not isinstance(s, ast.Return) and _jumps(s, ast.Return) for s in body)
    jumps = _Jumps(early)
    if not early:
        return jumps.block(body, "", "")
    last = body[-1]
    if not _ends(body):
        body = [*body, located(ast.Return(ast.Constant(None)), last)]
    statements = jumps.block(body, "", "")
    if _RETURNED in jumps.used:
        statements.insert(0, _assign(_RETURNED, ast.Constant(False), body[0]))
    else:
        statements = list(map(_Without(_RETURNED).visit, statements))
    return [*statements, located(ast.Return(ast.Name(RESULT, ast.Load())), at)]


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
            if isinstance(node, JUMPS):
                return statements + self._jump(node, brk, cont)
            flags, endless = self._flags(node, brk, cont), _is_endless(node)
            if flags and rest and isinstance(node, ast.If):
                first, second = _ends(node.body), _ends(node.orelse)
                if first and second:
                    rest = []
                elif first or second:
                    node = located(ast.If(
                        node.test, node.body if first else [*node.body, *rest],
                        [*node.orelse, *rest] if first else node.orelse,
                    ), node)  # fmt: skip
                    return statements + self._statement(node, brk, cont)
            statements += self._statement(node, brk, cont)
            if endless:
                return statements + _never(self.block(rest, brk, cont), node)
            if flags:
                if rest:
                    statements.append(self._guarded(self.block(rest, brk, cont), flags, node))
                    if flags == [_RETURNED] and _returns(rest):  # returned before or in the rest
                        statements.append(_assign(_RETURNED, ast.Constant(True), node))
                return statements
        return statements

    def _flags(self, node: ast.stmt, brk: str, cont: str) -> list[str]:
        """The flags that a statement may set and that concern the statements after it."""
        flags = [_RETURNED] if self.early and _jumps(node, ast.Return) else []
        flags += [brk] if _jumps(node, ast.Break) else []
        return flags + ([cont] if _jumps(node, ast.Continue) else [])

    def _jump(self, node: Any, brk: str, cont: str) -> list[ast.stmt]:
        if not isinstance(node, ast.Return):
            name = brk if isinstance(node, ast.Break) else cont
            return [_assign(name, ast.Constant(True), node)]
        if not self.early:
            return [node]
        value = node.value if node.value is not None else ast.Constant(None)
        result = _assign(RESULT, located(value, node), node)
        return [result, _assign(_RETURNED, ast.Constant(True), node)]

    def _guarded(self, body: list[ast.stmt], flags: list[str], at: ast.stmt) -> ast.stmt:
        self.used.update(flags)
        return located(ast.If(_going(flags, at), body or [ast.Pass()], []), at)

    def _statement(self, node: Any, brk: str, cont: str) -> list[ast.stmt]:
        if isinstance(node, LOOPS):
            return self._loop(node, brk, cont)
        if not isinstance(node, (ast.If, ast.With, ast.Match, ast.Try, ast.TryStar)):
            if self._flags(node, brk, cont):
                raise NotConvertible(f"it jumps out of the statement at line {node.lineno}")
            return [node]
        if any(self._flags(s, brk, cont) for s in getattr(node, "finalbody", ())):
            raise NotConvertible("it jumps out of a `finally` block")
        flags = {f for s in getattr(node, "body", ()) for f in self._flags(s, brk, cont)}
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                if hasattr(part, name):
                    setattr(part, name, self.block(getattr(part, name), brk, cont))
        if isinstance(node, (ast.Try, ast.TryStar)) and node.orelse and flags:
            node.orelse = [self._guarded(node.orelse, sorted(flags), node)]
        if isinstance(node, ast.If) and not node.body:
            node.body = [located(ast.Pass(), node)]
        return [node]

    def _loop(self, node: Any, brk: str, cont: str) -> list[ast.stmt]:
        self._loops += 1
        endless = _is_endless(node)
        inner = f"@break{self._loops}", f"@continue{self._loops}"
        flags = sorted({f for s in node.body for f in self._flags(s, *inner)} - {inner[1]})
        body = self.block(node.body, *inner)
        if inner[1] in self.used:
            body.insert(0, _assign(inner[1], ast.Constant(False), node))
        else:
            body = list(map(_Without(inner[1]).visit, body))
        orelse, node.orelse = node.orelse, []
        node.body = body or [located(ast.Pass(), node)]
        node.flags = flags
        self.used.update(flags)
        statements: list[ast.stmt] = [node]
        if inner[0] in flags:
            statements.insert(0, _assign(inner[0], ast.Constant(False), node))
        if orelse:
            orelse = self.block(orelse, brk, cont)
            if endless:
                orelse = _never(orelse, node)
            statements += [self._guarded(orelse, flags, node)] if flags and orelse else orelse
        return statements


@final
class _Without(ast.NodeTransformer):
    """Drops assignments to a flag that is never tested."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        dropped = isinstance(target, ast.Name) and target.id == self.name
        return located(ast.Pass(), node) if dropped else node


def _jumps(node: ast.AST, kind: type[ast.stmt]) -> bool:
    """Whether a statement is or holds a jump of a kind that leaves it."""
    if isinstance(node, kind):
        return True
    if isinstance(node, (*_FUNCTIONS, ast.expr)):
        return False
    if kind is not ast.Return and isinstance(node, LOOPS):  # only its `else` jumps outside of it
        return any(_jumps(part, kind) for part in node.orelse)
    return any(_jumps(part, kind) for part in ast.iter_child_nodes(node))


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether code after a block is never reached."""
    return any(
        isinstance(s, (*JUMPS, ast.Raise))
        or (isinstance(s, ast.If) and _ends(s.body) and _ends(s.orelse))
        or _is_endless(s)
        for s in body
    )


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Whether a block always ends by a `return` or an exception."""
    return _ends(body) and not any(_jumps(s, ast.Break) or _jumps(s, ast.Continue) for s in body)


def _is_endless(node: ast.stmt) -> bool:
    """Whether only `return` ends a loop."""
    if not isinstance(node, ast.While) or not is_always(node.test):
        return False
    return not any(_jumps(s, ast.Break) for s in node.body)


def _never(body: list[ast.stmt], at: ast.stmt) -> list[ast.stmt]:
    """Statements as dead code, so that names bound in them stay local names of the function."""
    return [located(ast.If(ast.Constant(False), body, []), at)] if body else []


def _going(flags: Iterable[str], at: ast.AST) -> ast.Call:
    return operator_call("going", [located(ast.Name(f, ast.Load()), at) for f in flags], at)


def _assign(name: str, value: ast.expr, at: ast.AST) -> ast.Assign:
    return located(ast.Assign([ast.Name(name, ast.Store())], value), at)
