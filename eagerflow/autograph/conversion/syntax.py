"""Syntax trees: making nodes, names that statements bind and read, and liveness of names."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, final

#: the free variable through which converted code calls operators
OPERATORS: Final = "@operators"
JUMPS: Final = (ast.Return, ast.Break, ast.Continue)
LOOPS: Final = (ast.For, ast.While)
_Node = TypeVar("_Node", bound=ast.AST)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def located(node: _Node, at: ast.AST) -> _Node:
    """``node``, with the location of ``at`` for it and for all nodes in it without a location."""
    ast.copy_location(node, at)
    for child in ast.iter_child_nodes(node):
        if not hasattr(child, "lineno"):
            located(child, at)
    return node


def operator_call(name: str, arguments: Sequence[ast.expr], at: ast.AST) -> ast.Call:
    """The call of an operator of eagerflow, with the location of ``at``."""
    function = ast.Attribute(ast.Name(OPERATORS, ast.Load()), name, ast.Load())
    made = located(ast.Call(function, list(arguments), []), at)
    # for a call over several lines, tracebacks show the line where the name of its method ends
    function.end_lineno, function.end_col_offset = function.lineno, function.col_offset
    return made


def function(name: str, arguments: Sequence[str], body: Sequence[ast.stmt], at: ast.AST) -> Any:
    """The definition of a function; nodes with a location of their own keep it."""
    made: Any = ast.parse("def f(): pass").body[0]  # with all fields of this version of Python
    made.name, made.body = name, list(body)
    made.args.args = [ast.arg(argument) for argument in arguments]
    return located(made, at)


def is_always(test: ast.expr) -> bool:
    """Whether a test is a constant that is true."""
    return isinstance(test, ast.Constant) and bool(test.value)


def holds_jumps(body: Sequence[ast.stmt]) -> bool:
    """Whether control may leave a statement of a function other than by its end: `jumps.py`."""
    return any(
        (isinstance(node, JUMPS) and node is not body[-1])
        or (isinstance(node, LOOPS) and node.orelse)
        or (isinstance(node, ast.While) and is_always(node.test))
        for node in own_nodes(body)
    )


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, in order, without the contents of functions and classes in it."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(ast.iter_child_nodes(node))
        elif not isinstance(node, ast.Lambda):
            yield from own_nodes(node.decorator_list)


def bound(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """The names that statements bind in their scope, each with the last line that binds it."""
    lines: dict[str, int] = {}
    inner: set[int] = set()  # targets of comprehensions
    for node in own_nodes(nodes):
        if isinstance(node, _COMPREHENSIONS):
            inner |= {id(n) for g in node.generators for n in ast.walk(g.target)}
        for name in _bound_by(node):
            if id(node) not in inner:
                lines[name] = max(lines.get(name, 0), getattr(node, "lineno", 0))
    return lines


def augmented(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that statements bind only by augmented assignment (``+=``)."""
    every = list(own_nodes(nodes))
    counts = Counter(name for node in every for name in _bound_by(node))
    targets = [node.target for node in every if isinstance(node, ast.AugAssign)]
    counts.subtract(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name, count in counts.items() if not count}


def _bound_by(node: Any) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def declared(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that a scope declares global, and those it declares nonlocal."""
    outside: tuple[set[str], set[str]] = (set(), set())
    for node in own_nodes(nodes):
        if isinstance(node, ast.Global):
            outside[0].update(node.names)
        elif isinstance(node, ast.Nonlocal):
            outside[1].update(node.names)
    return outside


def _reads(*nodes: ast.AST | None) -> set[str]:
    """All names that are read in ``nodes``, also in functions within them."""
    names: set[str] = set()
    for node in nodes:
        for one in ast.walk(node) if node is not None else ():
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Store):
                names.add(one.id)
    return names


@final
class Liveness:
    """The names that may be read after each `if` and loop of a function (live names).

    Args:
        body: the statements of the function, with jumps at its end only.

    Attributes:
        after: the live names, by id of the statement; for a loop also names read by its next
            iteration.
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.after: dict[int, set[str]] = {}
        self._always = set[str]().union(*declared(body))
        for node in own_nodes(body):
            if isinstance(node, _SCOPES):
                self._always |= _reads(node)
        self._block(body, set())

    def _block(self, body: Sequence[ast.stmt], after: set[str]) -> set[str]:
        for node in reversed(body):
            after = self._statement(node, after | self._always)
        return after

    def _statement(self, node: Any, after: set[str]) -> set[str]:
        """The names that may be read from ``node`` on."""
        match node:
            case ast.If():
                self.after[id(node)] = after
                taken = self._block(node.body, after) | self._block(node.orelse, after)
                return taken | _reads(node.test)
            case ast.While() | ast.For():
                return self._loop(node, after)
            case ast.Try() | ast.TryStar() | ast.With() | ast.Match():
                return self._compound(node, after)
            case ast.Return() | ast.Raise():
                return _reads(node) | self._always
            case ast.AugAssign():
                return after | _reads(node) | bound([node]).keys()
            case ast.Assign() | ast.AnnAssign():
                return (after - _plain_targets(node)) | _reads(node)
            case ast.FunctionDef() | ast.ClassDef():
                return (after - {node.name}) | _reads(node)
        return after | _reads(node)

    def _loop(self, node: Any, after: set[str]) -> set[str]:
        first = getattr(node, "test", None)
        jumps = set(getattr(node, "flags", ()))
        head = after | _reads(first) | jumps
        while True:
            self.after[id(node)] = head
            live = head | self._block(node.body, head)
            if isinstance(node, ast.For):
                live = (live - _names_of(node.target)) | head | _reads(node.target)
            if live == head:
                return head | _reads(getattr(node, "iter", None))
            head = live

    def _compound(self, node: Any, after: set[str]) -> set[str]:
        """The same for statements that may stop anywhere, so that no name counts as overwritten."""
        before = self._always
        self._always = self._always | _reads(node)
        for part in ("body", "orelse", "finalbody"):
            self._block(getattr(node, part, []), after)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self._block(part.body, after)
        self._always = before
        return after | _reads(node)


def _plain_targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    if isinstance(node, ast.AnnAssign):
        return _names_of(node.target) if node.value is not None else set()
    return set[str]().union(*map(_names_of, node.targets))


def _names_of(target: ast.expr) -> set[str]:
    """The names among targets: ``a`` and ``b`` of ``a, (b, c.d)``."""
    names = [node for node in ast.walk(target) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}
