"""Rules of docs/style.md that no linter checks."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.source_tree import ROOT, modules, statements

#: about 500 lines are one idea; a longer file about one idea is not split for the number alone
FILE_LINES, FUNCTION_LINES = 600, 60
#: a folder with more files needs subfolders
FOLDER_FILES = 19

FILES = modules()
TESTS = {str(f.relative_to(ROOT)): f for f in sorted((ROOT / "tests").rglob("*.py"))}


class _File(NamedTuple):
    """The findings in a file that several tests use, so that it is parsed once."""

    overlong: list[str]
    secrets: list[str]
    classes: list[tuple[str, set[str], set[str]]]


class _Class(NamedTuple):
    """A class of ours: its module, and the last parts of dotted names of bases and decorators."""

    module: str
    bases: set[str]
    decorators: set[str]


@cache
def _of(file: Path) -> _File:
    text = file.read_text()
    nodes = list(statements(ast.parse(text).body))
    classes = [
        (node.name, _names(node.bases), _names(node.decorator_list))
        for node in nodes
        if isinstance(node, ast.ClassDef)
    ]
    return _File(_overlong(file.name, text, nodes), _secrets(nodes), classes)


@cache
def _classes() -> dict[str, list[_Class]]:
    classes = defaultdict(list)
    for module, file in FILES.items():
        for name, bases, decorators in _of(file).classes:
            classes[name].append(_Class(module, bases, decorators))
    return classes


def _names(nodes: list[ast.expr]) -> set[str]:
    """The last part of each dotted name."""
    parts = (ast.unparse(n).partition("[")[0].partition("(")[0] for n in nodes)
    return {part.rpartition(".")[2] for part in parts}


def _overlong(name: str, text: str, nodes: Sequence[Any]) -> list[str]:
    """Messages about a file and functions in it that are longer than allowed."""
    lines = len(text.splitlines())
    messages = [f"{name}: {lines} lines"] if lines > FILE_LINES else []
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            doc = ast.get_docstring(node, clean=False)
            length -= (
                len(doc.splitlines()) if doc else 0
            )  # documentation may be as long as it needs
            if length > FUNCTION_LINES:
                messages.append(f"{name}: {node.name} has {length} lines")
    return messages


def test_size() -> None:
    files = [*FILES.values(), *TESTS.values()]
    assert len(files) > 800
    assert [line for file in files for line in _of(file).overlong] == []


def test_size_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("def f():\n" + "    pass\n" * 60 + "\n" * 540)
    assert _of(file).overlong == ["long.py: 601 lines", "long.py: f has 61 lines"]


def test_folders_have_few_files() -> None:
    folders = Counter(f.parent for f in FILES.values() if f.is_relative_to(ROOT / "eagerflow"))
    assert {str(f): n for f, n in folders.items() if n > FOLDER_FILES} == {}
    assert len(folders) > 20


_SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore)")
_WITH_REASON = re.compile(r"# (noqa: [A-Z0-9, ]+ - |type: ignore\[[a-z, -]+\]  # )[\w`]")


def unexplained(text: str) -> list[str]:
    """Lines that silence a checker without a reason, in them or in the line above."""
    lines = text.splitlines()
    return [
        line.strip()
        for above, line in zip(["", *lines], lines, strict=False)
        if _SILENCED.search(line) and not _WITH_REASON.search(line)
        and not above.strip().startswith("#") and not _SILENCED.search(above)
    ]  # fmt: skip


def test_silenced_checks_have_a_reason() -> None:
    lines = {str(file): unexplained(file.read_text()) for file in FILES.values()}
    assert {file: wrong for file, wrong in lines.items() if wrong} == {}


def test_a_missing_reason_is_seen() -> None:
    assert unexplained("x = 1  # noqa: E501 - why\ny = 1  # type: ignore[misc]  # why") == []
    assert unexplained("\n\nz = 1  # type: ignore[misc]") == ["z = 1  # type: ignore[misc]"]


def test_class_names_are_unique() -> None:
    twice = {
        name: [one.module for one in places]
        for name, places in _classes().items()
        if len(places) > 1 and not name.startswith("_")
    }
    assert twice == {}


def _secrets(nodes: Sequence[Any]) -> list[str]:
    """Names with an underscore that a module imports from another module of ours."""
    return [
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eagerflow")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]


def test_what_a_module_keeps_to_itself_is_not_imported() -> None:
    wrong = {module: _of(file).secrets for module, file in FILES.items()}
    assert {module: names for module, names in wrong.items() if names} == {}


def test_an_imported_secret_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "curious.py"
    file.write_text("from eagerflow.types import _codes, DTYPES\nfrom numpy import _core\n")
    assert _of(file).secrets == ["eagerflow.types._codes"]


#: concrete and not final: users subclass it
SUBCLASSED = {("eagerflow.nn.module", "Module")}


def test_classes_are_final_or_abstract() -> None:
    """A class is `@final`, or has subclasses here and is named ``Abstract…`` (errors aside)."""
    wrong = []
    for name, places in _classes().items():
        abstract = name.lstrip("_").startswith("Abstract")
        for module, bases, decorators in places:
            plain = bases & {"NamedTuple", "Protocol", "TypedDict"}
            exempt = module in ("eagerflow.errors", "eagerflow.error_messages") or plain
            exempt = exempt or (module, name) in SUBCLASSED
            if not exempt and abstract == ("final" in decorators):
                wrong.append(f"{module}.{name}")
    assert wrong == []


def test_nothing_left_behind() -> None:
    words = re.compile(
        r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b|breakpoint\(\)|pdb\.set_trace"
    )
    for file in FILES.values():
        assert not words.search(file.read_text()), file


#: names that tell nothing about the values of variables, for want of a noun
_VAGUE = re.compile(r"\b(found|res|stuff|tmp)\b")


def vague(text: str) -> list[str]:
    """The lines of a module that give a variable, a parameter or an attribute such a name."""
    nodes = ast.walk(ast.parse(text)) if _VAGUE.search(text) else ()
    return [
        f"line {node.lineno}: {name}"
        for node in nodes
        if isinstance(node, ast.expr | ast.arg | ast.ExceptHandler)
        and (name := _bound(node)) is not None
        and _VAGUE.fullmatch(name)
    ]


def _bound(node: ast.AST) -> str | None:
    """The name to which a node binds a value."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.ExceptHandler(name=name):
            return name
        case _:
            return None


def test_names_of_variables_are_nouns() -> None:
    tools = {str(f.relative_to(ROOT)): f for f in (ROOT / "tools").rglob("*.py")}
    names = {place: vague(f.read_text()) for place, f in (FILES | TESTS | tools).items()}
    assert {place: wrong for place, wrong in names.items() if wrong} == {}


def test_a_vague_name_is_seen() -> None:
    text = "found = 1\nfor res in found:\n    x.tmp = lambda stuff: stuff.found\n"
    assert vague(text) == ["line 1: found", "line 2: res", "line 3: tmp", "line 3: stuff"]
    assert vague("def found():\n    return f(tmp=1)\n") == []
