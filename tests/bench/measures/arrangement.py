"""Arrangement of the code: its size, its folders, its imports, and its runners of graphs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.measures.checkout import Checkout, Module
from tests.source_tree import cycles, imports

#: packages that use public names only, by the contract of `docs/design.md`
_WITH_PUBLIC_NAMES: Final = ("nn", "optim", "data", "checkpoint")
_CROWDED: Final = 20  # files in one folder

#: classes and functions that run a graph or are made to run one, old names and new ones, each with
#: the way it runs graphs (or none of its own); names that a checkout lacks are not counted
_RUNNERS: Final = {
    "Executable": "",
    "Choice": "",
    "Program": "generated",
    "GeneratedTier": "generated",
    "RegionCode": "generated",
    "Executor": "scheduled",
    "ScheduledTier": "scheduled",
    "Flow": "scheduled",
    "FlowStep": "scheduled",
    "ScheduledStep": "scheduled",
    "DetachedStep": "scheduled",
    "Script": "script of a tape",
    "Recording": "records of a tape",
    "replay": "replayed",
}
#: runners that hold a whole graph and are made of one
_OF_GRAPHS: Final = ("Executable", "Program", "Executor")

_PUBLIC = """
import importlib, json, sys, types
import eagerflow as ef
values = [getattr(ef, n) for n in sys.argv[2].split()]
spaces = [v for v in values if isinstance(v, types.ModuleType)]
inner = [
    getattr(space, name)
    for space in spaces
    for name in getattr(space, "__all__", None) or [n for n in vars(space) if n[0] != "_"]
]
public = {id(v) for v in [*values, *inner]}
hidden = []
for pair in sys.argv[1].split():
    module, _, name = pair.partition(":")
    if name:
        imported = importlib.import_module(module)
        if not hasattr(imported, name):  # a module that is imported from its package
            importlib.import_module(f"{module}.{name}")
        if id(getattr(imported, name)) in public:
            continue
    hidden.append(pair)
print(json.dumps(hidden))
"""


def size(checkout: Checkout) -> dict[str, Any]:
    """Lines of code of all packages, and of each folder of the first package."""
    folders: Counter[str] = Counter()
    for module in checkout.modules.values():
        folders[_top(module)] += module.code_lines
    return {"total": sum(folders.values()), "packages": dict(sorted(folders.items()))}


def _top(module: Module) -> str:
    parts = Path(module.path).parts
    return "/".join(parts[:2]) if len(parts) > 2 else f"{parts[0]}/*.py"


def folders(checkout: Checkout) -> dict[str, Any]:
    """Number of Python files directly in each folder of `eagerflow`, and import cycles."""
    inside = Counter(str(Path(m.path).parent) for m in checkout.of("eagerflow"))
    known = checkout.modules
    graph = {name: imports(m.tree, name, known) for name, m in known.items()}
    return {
        "folders": len(inside),
        "files": sum(inside.values()),
        "most": max(inside.values()),
        "crowded": {f: n for f, n in inside.most_common() if n >= _CROWDED},
        "cycles": cycles(graph),
    }


def internals(checkout: Checkout) -> dict[str, Any]:
    """By package: names imported from modules of other packages, and those of them not public."""
    wanted = {package: _foreign(checkout, package) for package in _WITH_PUBLIC_NAMES}
    every = sorted(set().union(*wanted.values()))
    hidden = set(checkout.run(_PUBLIC, " ".join(every), " ".join(_stub_names(checkout))))
    return {
        package: {"imported": len(names), "not public": sorted(names & hidden)}
        for package, names in wanted.items()
    }


def _stub_names(checkout: Checkout) -> list[str]:
    """The public names of the package, from its stub for type checkers."""
    stub = ast.parse((checkout.root / "eagerflow/__init__.pyi").read_text())
    imported = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [alias.asname for node in imported for alias in node.names if alias.asname]
    return [name for name in names if not name.startswith("_")]


def _foreign(checkout: Checkout, package: str) -> set[str]:
    own = f"eagerflow.{package}"
    names: set[str] = set()
    for module in checkout.of(own):
        for node in module.nodes:
            if isinstance(node, ast.Import):
                pairs = [(alias.name, "") for alias in node.names if alias.name != "eagerflow"]
            elif isinstance(node, ast.ImportFrom):
                pairs = [(str(node.module), alias.name) for alias in node.names]
            else:
                continue
            names.update(
                f"{base}:{name}" for base, name in pairs
                if f"{base}.".startswith("eagerflow.") and not f"{base}.".startswith(f"{own}.")
            )  # fmt: skip
    return names


def ways(checkout: Checkout) -> dict[str, Any]:
    """Runners of graphs, and the lines outside of their definitions that make or call them."""
    rows: dict[str, Any] = {}
    for module in checkout.of("eagerflow"):
        for name in sorted(_RUNNERS.keys() & _defined(module)):
            rows[name] = {"way": _RUNNERS[name], "module": module.name, "calls": []}
    for module in checkout.of("eagerflow"):
        for name, line in _calls(module.tree, rows.keys()):
            rows[name]["calls"].append(f"{module.path}:{line}")
    made = {place for name in _OF_GRAPHS if name in rows for place in rows[name]["calls"]}
    return {
        "ways": sorted({row["way"] for row in rows.values()} - {""}),
        "made": sorted(made),
        "by": {name: rows[name] for name in _RUNNERS if name in rows},
    }


def _defined(module: Module) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {node.name for node in module.tree.body if isinstance(node, kinds)}


def _calls(node: ast.AST, names: Collection[str]) -> Iterator[tuple[str, int]]:
    """Name and line of each call, except calls inside the definition of the same name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and (name := _called(child)) in names:
            yield str(name), child.lineno
        own = {getattr(child, "name", "")} if isinstance(node, ast.Module) else set()
        yield from _calls(child, [n for n in names if n not in own])


def _called(node: ast.Call) -> str | None:
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    # runtime.Executable(...), but not a method with the name of a function
    of_module = isinstance(function, ast.Attribute) and function.attr[0].isupper()
    return function.attr if isinstance(function, ast.Attribute) and of_module else None
