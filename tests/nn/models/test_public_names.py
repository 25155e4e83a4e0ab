"""Absence of private names in the networks of this folder."""

from __future__ import annotations

import ast
from pathlib import Path

import eagerflow as ef

FILES = sorted(Path(__file__).parent.glob("*.py"))

#: names besides `ef` that may be imported from the package
PUBLIC = {"nn"}
#: packages that exist, and are not for users
INSIDE = {"autodiff", "core", "function", "graph", "ops", "resources", "runtime", "settings"}


def private(text: str) -> list[str]:
    """Internal modules of eagerflow that a program imports, and private names that it reads."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eagerflow"):
            if node.module != "eagerflow" or {a.name for a in node.names} - PUBLIC:
                names.append(f"from {node.module}")
        elif isinstance(node, ast.Import):
            names += [a.name for a in node.names if a.name.startswith("eagerflow.")]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            names.append(node.attr)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ef":
            names += [f"ef.{node.attr}"] if node.attr not in dir(ef) or node.attr in INSIDE else []
    return names


def test_public_names_only() -> None:
    assert {file.name: names for file in FILES if (names := private(file.read_text()))} == {}


def test_private_names_are_seen() -> None:
    assert private("from eagerflow.core import tree") == ["from eagerflow.core"]
    assert private("from eagerflow import core") == ["from eagerflow"]
    assert private("import eagerflow.core") == ["eagerflow.core"]
    assert private("ef.core; ef.nn; x._y; ef.nothing") == ["ef.core", "_y", "ef.nothing"]
