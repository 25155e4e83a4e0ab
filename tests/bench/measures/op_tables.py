"""Collections of names of ops outside of the op records.

A table is an assigned value of a module or a class, if at least two of the strings in its
sets, lists, tuples and keys name registered ops, and at least three
quarters of them name ops at all; ``"exp log".split()`` is a list of two. ``_not_ops`` lists the
exceptions, with the reasons. Collections inside functions, among them tests such as
``op in ("sum", "prod")``, the alternatives of ``match`` and chains of comparisons (one function
that compares the same expression with several names), are counted apart, and so are comparisons
with a single name.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.bench.measures.checkout import Checkout, Module

#: packages of ops and their kernels
_HOMES: Final = ("eagerflow.ops", "eagerflow_kernels")
#: decorators that name nodes of graphs which are no registered ops, in their arguments
_SIGNATURES: Final = ("signature",)
#: the function of all registered ops, whose module is searched for
_ALL_OPS: Final = "all_ops"
_NUMBERS: Final = "python_"  # prefix of names of arithmetic among Python's numbers
#: conversions between numbers and tensors, which are structure and no arithmetic
_CONVERSIONS: Final = {"python_size", "python_tensor", "python_item"}
_SHARE: Final = 3 / 4

#: tables of names of public functions, most of which are names of ops too
_OF_FUNCTIONS: Final = {"__all__", "__slots__", "_ALSO_METHODS"}

_REGISTERED = """
import importlib, json, sys
for name in sys.argv[2].split():
    try:
        importlib.import_module(name)
    except ImportError:  # what needs a package that is not installed has no ops here
        pass
print(json.dumps(sorted(getattr(importlib.import_module(sys.argv[1]), sys.argv[3])())))
"""

#: nodes that need no search, and nodes that may be a table themselves
_LEAVES: Final = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.alias)
_WITH_STRINGS: Final = (ast.Dict, ast.Set, ast.List, ast.Tuple, ast.Call)
_ASSIGNMENTS: Final = (ast.Assign, ast.AnnAssign)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Table:
    """A collection of names of ops.

    Attributes:
        place: file and line.
        name: the variable, or the text of the collection.
        keys: its strings.
        unknown: the strings that name no op.
    """

    place: str
    name: str
    keys: list[str]
    unknown: list[str]


@dataclass(frozen=True)
class Names:
    """Names of ops, by their meaning: registered ops, structure of graphs, numbers."""

    ops: frozenset[str]
    structure: frozenset[str]
    numbers: frozenset[str]


def names_of(checkout: Checkout) -> Names:
    """All names of ops of a checkout."""
    # commands and demonstrations read arguments or start something; they register no op
    left_out = ("__main__", "cli", "demo")
    every = [m.name for m in checkout.of("eagerflow") if not {*m.name.split(".")} & {*left_out}]
    home = checkout.defining(_ALL_OPS)
    ops = frozenset(checkout.run(_REGISTERED, home, " ".join(every), _ALL_OPS))
    others: set[str] = set()
    for module in checkout.of("eagerflow"):
        for node in module.nodes:
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and _last(decorator.func) in _SIGNATURES:
                    others.update(_strings(decorator.args))
    numbers = frozenset(n for n in others if n.startswith(_NUMBERS)) - _CONVERSIONS
    return Names(ops, frozenset(others) - numbers - ops, numbers)


def op_tables(checkout: Checkout) -> dict[str, Any]:
    """Tables by kind, and comparisons with one name, in the form of JSON."""
    names = names_of(checkout)
    by_kind: dict[str, list[Table]] = {k: [] for k in ("ops", "numbers", "structure", "inside")}
    single: list[str] = []
    for module in checkout.modules.values():
        if any(module.name == h or module.name.startswith(f"{h}.") for h in _HOMES):
            continue
        for place, name, keys, inside in _collections(module):
            kind = _kind(keys, names)
            if kind is not None and not _not_ops(name, keys):
                unknown = [k for k in keys if k not in names.ops | names.structure | names.numbers]
                row = Table(place, name, keys, unknown)
                by_kind["inside" if inside and kind == "ops" else kind].append(row)
        single += _single(module, names)
    tables = {kind: [asdict(t) for t in rows] for kind, rows in by_kind.items()}
    return {**tables, "single": single, "registered": len(names.ops)}


def _kind(keys: list[str], names: Names) -> str | None:
    distinct = set(keys)
    known = distinct & (names.ops | names.structure | names.numbers)
    if len(known) < 2 or len(known) < _SHARE * len(distinct):
        return None
    if len(known & names.ops) >= 2:
        return "ops"
    return "numbers" if known & names.numbers else "structure"


def _not_ops(name: str, keys: list[str]) -> bool:
    """Whether strings that name ops mean something else: functions of Python or of eagerflow."""
    return name in _OF_FUNCTIONS or all(hasattr(builtins, k) for k in keys)


def _collections(module: Module) -> list[tuple[str, str, list[str], bool]]:
    """Place, name and strings of each collection, and whether it is inside a function."""
    rows: list[tuple[str, str, list[str], bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _LEAVES):  # most nodes
                continue
            place = f"{module.path}:{getattr(child, 'lineno', 0)}"
            if isinstance(child, _ASSIGNMENTS) and not inside:
                target = child.targets[0] if isinstance(child, ast.Assign) else child.target
                if child.value is not None and (keys := list(_members(child.value))):
                    rows.append((place, ast.unparse(target), keys, inside))
            elif isinstance(child, _WITH_STRINGS) and (keys := list(_own(child))):
                rows.append((place, ast.unparse(child)[:60], keys, inside))
            elif isinstance(child, ast.Match):
                rows.append((place, f"match {ast.unparse(child.subject)}", _cases(child), inside))
                visit(child, inside)
            else:
                function = isinstance(child, _FUNCTIONS)
                if function and not inside:
                    for compared, keys in _chains(child).items():
                        rows.append((place, f"comparisons of {compared}", keys, True))
                visit(child, inside or function)

    visit(module.tree, inside=False)
    return rows


def _own(node: ast.AST) -> Iterator[str]:
    """The strings of which a collection itself consists."""
    if isinstance(node, ast.Dict):
        yield from _strings([k for k in node.keys if k is not None])
    elif isinstance(node, ast.Set | ast.List | ast.Tuple):
        yield from _strings(node.elts)
    elif isinstance(node, ast.Call) and _last(node.func) == "dict":
        yield from (k.arg for k in node.keywords if k.arg is not None)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        text = node.func.value
        if node.func.attr == "split" and isinstance(text, ast.Constant):
            separator, *_ = (*_strings(node.args), None)
            yield from text.value.split(separator) if isinstance(text.value, str) else ()


def _members(value: ast.AST) -> Iterator[str]:
    """The strings of all collections in an expression: several may form one table."""
    for node in ast.walk(value):
        yield from _own(node)


def _chains(function: ast.AST) -> dict[str, list[str]]:
    """By expression, the strings that a function compares it with."""
    chains: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            left, right = node.left, node.comparators[0]
            if isinstance(left, ast.Constant):
                left, right = right, left
            chains.setdefault(ast.unparse(left), []).extend(_strings([right]))
    return chains


def _cases(node: ast.Match) -> list[str]:
    patterns = [p for case in node.cases for p in ast.walk(case.pattern)]
    return list(_strings([p.value for p in patterns if isinstance(p, ast.MatchValue)]))


def _strings(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _single(module: Module, names: Names) -> list[str]:
    """Comparisons of ``op`` or ``….op`` with the name of one registered op."""
    rows = []
    for node in module.nodes:
        if isinstance(node, ast.Compare) and _last(node.left) == "op":
            tested = set(_strings(node.comparators)) & names.ops
            rows += [f"{module.path}:{node.lineno} {name}" for name in sorted(tested)]
    return rows


def _last(node: ast.expr) -> str:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
