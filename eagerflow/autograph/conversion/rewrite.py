"""Rewrites statements and expressions as calls of operators, which test values at run time.

``if x > 0: y = 1`` becomes::

    def body():
        nonlocal y
        y = 1
    operators.if_(x > 0, body, orelse, ...)

Variables are cells shared with such functions, so no value is copied; an unbound name is an empty
cell, as in Python. Lines and columns stay those of the user.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence, Set
from typing import Any, Final, final

from eagerflow.autograph.conversion.comprehensions import REDUCTIONS, as_function, binds, is_plain
from eagerflow.autograph.conversion.jumps import lower_jumps
from eagerflow.autograph.conversion.source_code import NotConvertible
from eagerflow.autograph.conversion.syntax import (
    OPERATORS,
    Liveness,
    augmented,
    bound,
    declared,
    function,
    holds_jumps,
    is_always,
    located,
    operator_call,
    own_nodes,
)

#: the parameter that marks lambdas that the user did not write
LATER: Final = "@later"

_ITEM: Final = "@item"
_GENERATORS: Final = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
#: builtins that read the variables of the calling frame
_FRAMES: Final = frozenset({"eval", "exec", "locals"})
_FRAMES_BARE: Final = frozenset({"vars", "dir"})
_PYTHON_TESTS: Final = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
_SOURCES: Final = frozenset({"range", "zip", "enumerate", "reversed"})
_IDENTITY: Final = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_COMPARISONS: Final = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def rewrite(node: ast.FunctionDef | ast.Lambda) -> Any:
    """The function with operators in place of control flow.

    Raises:
        NotConvertible: it contains code that cannot be converted; the text names it.
    """
    body = [] if isinstance(node, ast.Lambda) else node.body
    return _Function(node.args, body).function(node)


def _check(body: Sequence[ast.AST]) -> None:
    for node in own_nodes(body):
        if isinstance(node, _GENERATORS):
            raise NotConvertible("it is a generator or a coroutine")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, bare = node.func.id, not node.args
            if name in _FRAMES or (name in _FRAMES_BARE and bare):
                raise NotConvertible(f"it calls {name}() at line {node.lineno}")


@final
class _Function(ast.NodeTransformer):
    """Rewrites one function; each nested function is rewritten by another instance.

    Args:
        arguments: its parameters.
        body: its statements.
        me: the name of the object of `super()`, by default the first parameter.
    """

    def __init__(
        self, arguments: ast.arguments, body: Sequence[ast.stmt], me: str | None = None
    ) -> None:
        self._globals, self._nonlocals = declared(body)
        first = [*arguments.posonlyargs, *arguments.args]
        self._self = me or (first[0].arg if first else None)
        self._shared: set[str] = set()  # names that branches and bodies bind
        self._body = body
        self._count = 0
        #: functions to be defined before the statement that is rewritten; None within a lambda
        self._before: list[ast.stmt] | None = None

    def function(self, node: Any) -> Any:
        if isinstance(node, ast.Lambda):
            _check([node.body])
            node.body = self.visit(node.body)
            return node
        if not node.name.startswith("@"):
            _check(node.body)
        body = lower_jumps(self._body, node) if holds_jumps(self._body) else self._body
        self._liveness = Liveness(body)
        body = self._block(body)
        names = sorted(self._shared - self._globals - self._nonlocals)
        if names:  # dead code, which makes the names variables of this function
            targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
            made = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
            body.insert(0, located(made, node.body[0]))
        _declare(self._globals, self._nonlocals, body, node.body[0])
        node.body = body
        return node

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        around = self._before
        for node in body:
            self._before = []
            made = self.visit(node)
            statements += self._before
            statements += made if isinstance(made, list) else [made]
        self._before = around
        return statements

    # --- statements ---

    def visit_If(self, node: ast.If) -> Any:
        if _is_python(node.test):
            return self.generic_visit(node)
        test = self.visit(node.test)
        lines = [bound(node.body), bound(node.orelse)]
        body = self._branch("if", node.body, node, {})
        orelse = self._branch("else", node.orelse, node, {})
        after = self._liveness.after[id(node)]
        names: Any = tuple(
            (name, *[bindings.get(name, 0) for bindings in lines], name in after)
            for name in sorted({**lines[0], **lines[1]})
        )
        arguments = [test, *_named(body, orelse), ast.Constant(names)]
        return [body, orelse, self._run("if_", arguments, node)]

    def visit_While(self, node: Any) -> Any:
        lines = bound([*node.body, node.test])
        if is_always(node.test) and not _flags(node):
            body = self._branch("while", node.body, node, lines)
            arguments = [*_named(body), self._where(node, lines)]
            return [body, self._run("endless", arguments, node)]
        result = ast.Return(
            located(ast.Constant(True), node.test) if is_always(node.test) else node.test
        )
        test = self._branch("test", [located(result, node.test)], node, bound([node.test]))
        body = self._branch("while", node.body, node, lines)
        going = self._going(node)
        where = self._where(node, lines)
        return [test, body, self._run("while_", [*_named(test, body), going, where], node)]

    def visit_For(self, node: Any) -> Any:
        lines = bound([*node.body, node.target])
        assign = located(ast.Assign([node.target], ast.Name(_ITEM, ast.Load())), node.target)
        body = self._branch("for", [assign, *node.body], node, lines, [_ITEM])
        over = self._source(node.iter)
        arguments = [over, *_named(body), self._going(node), self._where(node, lines)]
        return [body, self._run("for_", arguments, node)]

    def _going(self, node: Any) -> ast.expr:
        """The lambda that says whether no `break` or `return` has ended the loop, or None."""
        flags = _flags(node)
        if not flags:
            return ast.Constant(None)
        self._shared.update(flags)
        read = [located(ast.Name(flag, ast.Load()), node) for flag in flags]
        return _later(operator_call("going", read, node))

    def _where(self, node: Any, lines: dict[str, int]) -> ast.expr:
        """The names that a loop binds, in the form of `carry.Names`."""
        after, plus = self._liveness.after[id(node)], augmented(node.body)
        names: Any = tuple(
            (name, lines[name], name in after, name in plus) for name in sorted(lines)
        )
        return ast.Constant(names)

    def _branch(
        self, name: str, body: Sequence[ast.stmt], at: ast.AST, more: dict[str, int],
        arguments: Sequence[str] = (),
    ) -> Any:  # fmt: skip
        """The function of a branch or body."""
        names = {**bound(body), **more}.keys()
        self._shared |= names
        inner = self._block(body) or [located(ast.Pass(), at)]
        _declare(names & self._globals, names - self._globals, inner, at)
        self._count += 1
        # located at the statement, as the definition is no line of the body
        return function(f"@{name}{self._count}", arguments, inner, at)

    def _run(self, name: str, arguments: list[ast.expr], at: ast.stmt) -> ast.stmt:
        return located(ast.Expr(operator_call(name, arguments, at)), at)

    def _source(self, node: ast.expr) -> ast.expr:
        """The iterable of a `for`: `range`, `zip` and `enumerate` also of values of the graph."""
        match node:
            case ast.Call(func=ast.Name(id=name) as function) if name in _SOURCES:
                node.func = operator_call("source", [function], function)
                node.args = [self._source(a) for a in node.args]
                node.keywords = [self.visit(k) for k in node.keywords]
                return node
        visited: ast.expr = self.visit(node)
        return visited

    def visit_Assert(self, node: ast.Assert) -> Any:
        if _is_python(node.test):
            return self.generic_visit(node)
        arguments = [self.visit(node.test)]
        message = self.visit(node.msg) if node.msg is not None else None
        if message is not None:
            arguments.append(_later(message))
        failed = operator_call("failed", arguments, node.test)
        error: ast.expr = ast.Name("AssertionError", ast.Load())
        if message is not None:
            error = ast.Call(error, [message], [])
        test = ast.BoolOp(ast.And(), [ast.Name("__debug__", ast.Load()), failed])
        return located(ast.If(test, [ast.Raise(error, None)], []), node)

    def visit_Try(self, node: Any) -> Any:
        kinds: list[ast.expr] = [
            h.type or located(ast.Name("BaseException", ast.Load()), h) for h in node.handlers
        ]
        last = node.finalbody
        if not kinds:
            return self._finally(self._bodies(node), last)
        first = node.handlers[0]
        caught = located(ast.Tuple(copy.deepcopy(kinds), ast.Load()), first)
        later = _later(caught)
        node = self._bodies(node)
        block = ast.With([ast.withitem(operator_call("catching", [later], node), None)], node.body)
        node.body = [located(block, node)]
        if isinstance(node, ast.Try):  # internal signals pass a bare `except:`
            passing = ast.Attribute(ast.Name(OPERATORS, ast.Load()), "passing", ast.Load())
            node.handlers.insert(0, located(ast.ExceptHandler(passing, None, [ast.Raise()]), first))
        return self._finally(node, last)

    visit_TryStar = visit_Try

    def _finally(self, node: Any, last: Sequence[ast.stmt]) -> Any:
        """A `try` with calls of operators at the begin and end of its `finally` block, if any."""
        if not last:
            return node
        node.finalbody.insert(0, self._run("ended", [], last[0]))
        leaving = operator_call("leaving", [_later(located(ast.Constant(None), last[0]))], node)
        return located(ast.With([ast.withitem(leaving, None)], [node]), node)

    def visit_With(self, node: ast.With) -> Any:
        first = node.items[0].context_expr
        for item in node.items:
            item.context_expr = operator_call("manager", [self.visit(item.context_expr)], first)
            if item.optional_vars is not None:
                item.optional_vars = self.visit(item.optional_vars)
        leaving = operator_call("leaving", [_later(located(ast.Constant(None), first))], first)
        block = operator_call("managed", [], first)
        node.items = [ast.withitem(leaving, None), *node.items, ast.withitem(block, None)]
        node.body = self._block(node.body)
        return node

    def _bodies(self, node: Any) -> Any:
        """A statement with the blocks in it rewritten."""
        for part in ("body", "orelse", "finalbody"):
            setattr(node, part, self._block(getattr(node, part)))
        for handler in node.handlers:
            handler.body = self._block(handler.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        # a name that branches share cannot be annotated; its annotation is not evaluated anyway
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        if node.value is None:
            return located(ast.Pass(), node)
        return located(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_Global(self, node: Any) -> Any:
        return located(ast.Pass(), node)  # the function begins with it

    visit_Nonlocal = visit_Global

    # --- other functions and classes ---

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        return self._inner(node, node.body)

    def visit_ClassDef(self, node: Any) -> Any:
        return node  # methods are converted when they are called

    visit_AsyncFunctionDef = visit_ClassDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self._inner(node, [])

    def _inner(self, node: Any, body: Sequence[ast.stmt]) -> Any:
        """A function within this one, rewritten if it can be."""
        arguments: ast.arguments = node.args
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and self.visit(d) for d in arguments.kw_defaults]
        try:
            return _Function(arguments, body).function(node)
        except NotConvertible:
            return node  # the caller gets the warning

    # --- expressions ---

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _is_python(node) or self._is_stuck(*node.values[1:]):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *rest = node.values
        return operator_call(name, [self.visit(first), *map(self._later, rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if not isinstance(node.op, ast.Not) or _is_python(node.operand):
            return self.generic_visit(node)
        return operator_call("not_", [self.visit(node.operand)], node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _is_python(node.test) or self._is_stuck(node.body, node.orelse):
            return self.generic_visit(node)
        test = self.visit(node.test)
        return operator_call("choose", [test, *map(self._later, (node.body, node.orelse))], node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            right = node.comparators[0]
            if isinstance(right, ast.Constant) and type(right.value) is bool:
                node.left = operator_call("flag", [self.visit(node.left)], node.left)
                return node
            if not any(map(_is_no_number, (node.left, right))):
                name = "is_" if isinstance(node.ops[0], ast.Is) else "is_not"
                return operator_call(name, [self.visit(node.left), self.visit(right)], node)
        if len(node.ops) == 1 or self._is_stuck(*node.comparators[1:]):
            return self.generic_visit(node)
        signs: Any = tuple(_COMPARISONS[type(op)] for op in node.ops)
        left, second = self.visit(node.left), self.visit(node.comparators[0])
        rest = map(self._later, node.comparators[1:])
        return operator_call("compare", [ast.Constant(signs), left, second, *rest], node)

    def _is_stuck(self, *nodes: ast.expr) -> bool:
        """Whether expressions bind names where no function can be defined before."""
        return self._before is None and any(map(binds, nodes))

    def _later(self, node: ast.expr) -> ast.expr:
        """A function that returns the value of an expression."""
        if not binds(node):
            return _later(self.visit(node))
        assert self._before is not None
        made = self._branch("later", [located(ast.Return(node), node)], node, {})
        self._before.append(made)
        return _named(made)[0]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                conversion = chr(part.conversion) if part.conversion >= 0 else ""
                shown = [self.visit(part.value), located(ast.Constant(conversion), part.value)]
                part.value = operator_call("shown", shown, part.value)
                part.conversion = -1
                if part.format_spec is not None:
                    self.generic_visit(part.format_spec)
        return operator_call("text", [node], node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and _is_text(node.left):
            return operator_call("percent", [node.left, node.right], node)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        if self._before is None or not is_plain(node):
            return self.generic_visit(node)
        return self._comprehension(node, "list")

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, of: str) -> ast.expr:
        """The call of the function made from a comprehension."""
        assert self._before is not None
        over, names = self._source(node.generators[0].iter), set(binds(node))
        self._count += 1
        made = as_function(node, f"@{of}{self._count}", of)
        _declare(names & self._globals, names - self._globals, made.body, node)
        self._shared |= names
        inner = _Function(made.args, made.body, self._self)
        self._before.append(inner.function(made))
        return located(ast.Call(ast.Name(made.name, ast.Load()), [over], []), node)

    def _reduction(self, node: ast.Call) -> ast.expr:
        """The operator call for `any(x > 0 for x in xs)` and the like, if it calls the builtin."""
        plain: Any = copy.deepcopy(node)
        plain.args = [self.generic_visit(plain.args[0])]
        self._plain_call(plain)
        function: Any = node.func
        comprehension: Any = node.args[0]
        of = function.id if function.id in ("any", "all") else "list"
        made: Any = self._comprehension(comprehension, of)
        if of == "list":
            keywords = [self.visit(k) for k in node.keywords]
            called = operator_call("call", [function], function)
            made = located(ast.Call(called, [made], keywords), node)
        arguments = [located(copy.deepcopy(function), node), _later(made), _later(plain)]
        return operator_call("reduced", arguments, node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            if not node.args and not node.keywords and self._self is not None:
                cell, me = ast.Name("__class__", ast.Load()), ast.Name(self._self, ast.Load())
                node.args = [located(cell, node), located(me, node)]
            return node
        if self._before is not None and _is_reduction(node):
            return self._reduction(node)
        self.generic_visit(node)
        return self._plain_call(node)

    def _plain_call(self, node: ast.Call) -> ast.Call:
        node.func = operator_call("call", [node.func], node.func)
        return node


def _declare(outer: Set[str], nonlocals: Set[str], body: list[ast.stmt], at: ast.AST) -> None:
    """Let a function begin with the declarations of its global and nonlocal names."""
    for kind, names in ((ast.Global, outer), (ast.Nonlocal, nonlocals)):
        if names:
            body.insert(0, located(kind(sorted(names)), at))


def _is_python(test: ast.expr) -> bool:
    """Whether a test gives a Python bool for any operands."""
    match test:
        case ast.Constant():
            return True
        case ast.Compare():
            return all(isinstance(op, _IDENTITY) for op in test.ops)
        case ast.UnaryOp(op=ast.Not()):
            return _is_python(test.operand)
        case ast.BoolOp():
            return all(map(_is_python, test.values))
        case ast.Call(func=ast.Name(id=name)):
            return name in _PYTHON_TESTS
        case ast.Name():
            return test.id in ("__debug__", "TYPE_CHECKING")
    return False


def _is_no_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float, complex))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_reduction(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Name) or node.func.id not in REDUCTIONS:
        return False
    (first,) = node.args if len(node.args) == 1 else (None,)
    return isinstance(first, ast.GeneratorExp) and is_plain(first) and not any(
        k.arg is None for k in node.keywords
    )  # fmt: skip


def _later(node: ast.expr) -> ast.Lambda:
    """A lambda that the user did not write."""
    arguments = ast.arguments(
        posonlyargs=[], args=[], vararg=ast.arg(LATER), kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    return located(ast.Lambda(arguments, node), node)


def _flags(loop: Any) -> Sequence[str]:
    """The names of flags each of which ends a loop."""
    return getattr(loop, "flags", ())


def _named(*functions: ast.FunctionDef) -> list[ast.expr]:
    return [located(ast.Name(f.name, ast.Load()), f) for f in functions]
