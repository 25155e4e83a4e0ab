"""The modules of the code base, parsed and not imported, for tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "eagerflow": ROOT / "eagerflow",
    "eagerflow_kernels": ROOT / "kernels" / "eagerflow_kernels",
    "eagerflow_widgets": ROOT / "widgets" / "eagerflow_widgets",
}


def modules(packages: dict[str, Path] = PACKAGES) -> dict[str, Path]:
    """The file of each module, by its dotted name."""
    files = {}
    for package, folder in packages.items():
        for file in sorted(folder.rglob("*.py")):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def statements(body: Iterable[ast.AST]) -> Iterator[Any]:
    """The statements in ``body``, nested ones included, in a fifth of the steps of `ast.walk`."""
    for node in body:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, None)
            if isinstance(inner, list):  # the body of a lambda is an expression
                yield from statements(inner)


def imports(tree: ast.Module, module: str, known: Iterable[str]) -> set[str]:
    """The modules among ``known`` that ``module`` itself imports when loaded, parents aside."""
    known = set(known)
    targets = set()
    for node in _at_import(tree.body):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            base = str(node.module)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                targets.add(inner if inner in known else base)
    return (targets & known) - {module}


def _at_import(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported; not those for type checkers only."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _at_import(node.orelse)
            continue
        yield node
        for field in ("body", "orelse", "finalbody"):
            yield from _at_import(getattr(node, field, ()))
        for handler in getattr(node, "handlers", ()):
            yield from _at_import(handler.body)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other (strongly connected components of two or more)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                components.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return components
