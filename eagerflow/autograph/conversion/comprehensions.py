"""Comprehensions as functions with loops, so that their conditions may depend on tensors.

``[f(x) for x in xs if x > 0]`` becomes::

    def list1(over):
        items = []
        for x in over:
            if x > 0:
                items.append(f(x))
        return items
    list1(xs)
"""

from __future__ import annotations

import ast
from typing import Any, Final

from eagerflow.autograph.conversion.syntax import function, own_nodes

#: functions of one iterable that stop at the first deciding item -> the truth that decides
_DECIDED: Final = {"any": True, "all": False}
#: functions that are converted if they are called with a comprehension in parentheses
REDUCTIONS: Final = frozenset({"any", "all", "list", "max", "min", "sorted", "sum", "tuple"})
_OVER: Final = "@over"
_ITEMS: Final = "@items"


def is_plain(node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension has no asynchronous `for`."""
    return not any(g.is_async for g in node.generators)


def binds(node: ast.AST) -> list[str]:
    """The names that ``:=`` in an expression binds."""
    names = [n.target.id for n in own_nodes([node]) if isinstance(n, ast.NamedExpr)]
    return list(dict.fromkeys(names))


def as_function(node: ast.ListComp | ast.GeneratorExp, name: str, of: str = "list") -> Any:
    """The comprehension as a function of the iterable of its first `for`.

    Args:
        node: the comprehension.
        name: of the function.
        of: ``"any"`` or ``"all"`` of its items; else the list of them.
    """
    inner: list[ast.stmt]
    if of in _DECIDED:
        decides = _DECIDED[of]
        test = node.elt if decides else ast.UnaryOp(ast.Not(), node.elt)
        inner = [ast.If(test, [ast.Return(ast.Constant(decides))], [])]
        before: list[ast.stmt] = []
        result: ast.expr = ast.Constant(not decides)
    else:
        append = ast.Attribute(ast.Name(_ITEMS, ast.Load()), "append", ast.Load())
        inner = [ast.Expr(ast.Call(append, [node.elt], []))]
        before = [ast.Assign([ast.Name(_ITEMS, ast.Store())], ast.List([], ast.Load()))]
        result = ast.Name(_ITEMS, ast.Load())
    for i, generator in reversed(list(enumerate(node.generators))):
        for test in reversed(generator.ifs):
            inner = [ast.If(test, inner, [])]
        over = generator.iter if i else ast.Name(_OVER, ast.Load())
        inner = [ast.For(generator.target, over, inner, [])]
    return function(name, [_OVER], [*before, *inner, ast.Return(result)], node)
