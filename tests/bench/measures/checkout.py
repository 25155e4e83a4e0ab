"""A checkout to be measured: its files, read but not imported, and fresh processes in it."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tests.source_tree import modules

#: by package, its folder below the root of a checkout
_FOLDERS: Final = {
    "eagerflow": "eagerflow",
    "eagerflow_kernels": "kernels/eagerflow_kernels",
    "eagerflow_widgets": "widgets/eagerflow_widgets",
}
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """A Python file.

    Attributes:
        name: its dotted name.
        path: its path below the root of the checkout.
        text: its contents.
    """

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, kept since walking the tree is slow."""
        return list(ast.walk(self.tree))

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens of the file."""
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @cached_property
    def docstrings(self) -> set[int]:
        """The line numbers of docstrings."""
        lines: set[int] = set()
        for node in self.nodes:
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        return lines

    @property
    def code_lines(self) -> int:
        """Number of lines with code, without docstrings, comments and blank lines."""
        lines = {
            number
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        }
        for node in self.nodes:  # each line of a multi-line string counts
            if isinstance(node, (ast.Constant, ast.JoinedStr)):
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
        return len(lines - self.docstrings)


class Checkout:
    """A checkout of the repository, of any commit.

    Args:
        root: its folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not (self.root / "eagerflow").is_dir():
            raise SystemExit(f"{root}: there is no folder eagerflow/ here")

    @cached_property
    def packages(self) -> dict[str, Path]:
        """The folders of the packages, by name."""
        return {name: self.root / folder for name, folder in _FOLDERS.items()}

    @cached_property
    def modules(self) -> dict[str, Module]:
        """All modules of the packages, by name."""
        return {
            name: Module(name, str(file.relative_to(self.root)), file.read_text())
            for name, file in modules(self.packages).items()
        }

    @cached_property
    def tests(self) -> list[Module]:
        """All Python files of the tests."""
        files = sorted((self.root / "tests").rglob("*.py"))
        paths = [str(file.relative_to(self.root)) for file in files]
        names = [path.removesuffix(".py").replace("/", ".") for path in paths]
        texts = [file.read_text() for file in files]
        return [Module(*parts) for parts in zip(names, paths, texts, strict=True)]

    def of(self, *packages: str) -> Iterator[Module]:
        """The modules of some packages, and the packages themselves."""
        for name, module in self.modules.items():
            if any(name == p or name.startswith(f"{p}.") for p in packages):
                yield module

    def defining(self, function: str) -> str:
        """The module that defines a function of this name, wherever that is in this checkout."""
        for module in self.of("eagerflow"):
            if any(isinstance(n, ast.FunctionDef) and n.name == function for n in module.tree.body):
                return module.name
        raise SystemExit(f"no module of {self.root}/eagerflow defines {function}()")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment variables of a process that imports this checkout."""
        # byte code is cached where packages are installed, whatever the shell's setting
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        paths = [str(self.root / folder) for folder in (".", "kernels", "widgets")]
        return {**kept, "PYTHONPATH": os.pathsep.join(paths)}

    def run(self, code: str, *arguments: str, folder: Path | None = None) -> Any:
        """The value that a fresh process prints as JSON on its last line."""
        command: Sequence[str] = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=folder or self.root,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])
