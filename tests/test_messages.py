"""``match=`` of tests: no pattern matches the test's own line, with which errors end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.each import check_each
from tests.messages import points_at, says
from tests.source_tree import ROOT, statements

FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def vain(source: str, file: str = "test.py") -> list[str]:
    """The ``match=`` patterns of a test module that match a line of the test itself.

    Args:
        source: the text of the module.
        file: its path, which errors give with the line.
    """
    if "match=" not in source:  # parsing is slow
        return []
    module, lines = ast.parse(source), source.splitlines()
    messages = []
    for test in statements(module.body):
        patterns = [*_patterns(test)] if isinstance(test, ast.FunctionDef) else []
        own = _that_may_fail(test, module) if patterns else set()
        for call, pattern in patterns:
            spelled = _spelled(pattern)
            for text, numbers in [(spelled, own)] if spelled else _rows(test, module):
                said = [f"{file} in {test.name}", *(lines[n - 1] for n in numbers)]
                if any(re.search(text, line) for line in said):
                    messages.append(f"line {call.lineno}: {text!r}")
    return messages


def _patterns(node: ast.AST) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of `pytest.raises` in a node, with their patterns."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            matches = [k.value for k in call.keywords if k.arg == "match"]
            if matches and _is_raises(call):  # last, as spelling a call out is slow
                yield from ((call, pattern) for pattern in matches)


def _is_raises(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"


def _spelled(pattern: ast.expr) -> str:
    """The pattern if it is a literal, as a regular expression; empty if it comes from a table."""
    if isinstance(pattern, ast.Call) and ast.unparse(pattern.func) == "re.escape":
        return re.escape(_spelled(pattern.args[0]))
    return str(pattern.value) if isinstance(pattern, ast.Constant) else ""


def _lines(nodes: Iterable[Any]) -> set[int]:
    return {line for n in nodes for line in range(n.lineno, n.end_lineno + 1)}


def _that_may_fail(test: ast.FunctionDef, module: ast.Module) -> set[int]:
    """The lines of a test, and of lambdas in its tables, that an error may end with.

    Left out are lines of `pytest.raises`, unless a context manager after it is entered there, and
    ``raise`` statements.
    """
    inner = list(statements(test.body))
    behind = _lines(one for node in inner if isinstance(node, ast.With) for one in _behind(node))
    quiet = _lines(call for call, _ in _patterns(test)) - behind
    given = (n for table in _tables(test, module) for n in ast.walk(table))
    functions = _lines(n for n in given if isinstance(n, ast.Lambda))
    own = _lines(test.body) | functions
    return own - quiet - _lines(n for n in inner if isinstance(n, ast.Raise))


def _behind(block: ast.With) -> list[ast.expr]:
    """The context managers that a block enters after its `pytest.raises`."""
    entered = [item.context_expr for item in block.items]
    first = next((i for i, one in enumerate(entered) if _is_raises(one)), len(entered))
    return entered[first + 1 :]


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    named = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in named if isinstance(n.ctx, context)}


def _tables(test: ast.FunctionDef, module: ast.Module) -> Iterator[ast.AST]:
    """Sources of a test's parameters: the test with its decorators, and the globals it uses."""
    used = _names(test, ast.Load)
    yield test
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and used & _names(node, ast.Store):
            yield node


def _rows(test: ast.FunctionDef, module: ast.Module) -> Iterator[tuple[str, set[int]]]:
    """The strings of table rows that contain lambdas, each with the lines of these lambdas."""
    for row in (row for table in _tables(test, module) for row in ast.walk(table)):
        parts = row.args if isinstance(row, ast.Call) else getattr(row, "elts", ())
        functions = [part for part in parts if isinstance(part, ast.Lambda)]
        for part in parts if functions else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value, _lines(functions)


def _can_fail(file: Path) -> None:
    assert vain(file.read_text(), str(file.relative_to(ROOT))) == []


def test_what_tests_look_for_is_not_in_their_own_lines() -> None:
    check_each(FILES, _can_fail)


VAIN = {
    "the line": """
def test_tile():
    with pytest.raises(ValueError, match="tile"):
        ef.tile(x, (-1,))
""",
    "the line of a function": """
def test_tile():
    def f(x):
        return ef.tile(x, (-1,))
    with pytest.raises(ValueError, match=re.escape("(-1,)")):
        f(x)
""",
    "what is entered behind it": """
def test_device():
    with pytest.raises(ValueError, match="no device"), ef.device("none"):
        pass
""",
    "the name of the test": """
def test_tile_of_a_negative_number():
    with pytest.raises(ValueError, match="negative"):
        ef.tile(x, (-1,))
""",
    "functions that a test is given": """
@pytest.mark.parametrize("f", [lambda: ef.tile(x, (-1,))])
def test_wrong(f):
    with pytest.raises(ValueError, match="tile"):
        f()
""",
    "the rows of the test": """
@pytest.mark.parametrize(("f", "text"), [(lambda: ef.tile(x, -1), "negative")])
def test_wrong(f, text):
    with pytest.raises(ValueError, match=text):
        f()
""",
    "the rows of a table": """
WRONG = [pytest.param(lambda: ef.tile(x, -1), "negative")]

@pytest.mark.parametrize(("f", "text"), WRONG)
def test_wrong(f, text):
    with pytest.raises(ValueError, match=f"tile: .*{text}"):
        f()
""",
}
SOUND = {
    "another text": """
def test_tile():
    with pytest.raises(ValueError, match="negative"):
        ef.tile(x, (-1,))
""",
    "an error of the test": """
def test_raise():
    with pytest.raises(ValueError, match="mine"):
        raise ValueError("mine")
""",
    "what is entered before it": """
def test_device():
    with ef.device("cpu:0"), pytest.raises(ValueError, match="negative"):
        ef.tile(x, (-1,))
""",
    "the error without its line": """
def test_tile():
    with pytest.raises(ValueError, check=says("tile")):
        ef.tile(x, (-1,))
""",
    "rows with names of functions": """
@pytest.mark.parametrize(("f", "text"), [(tiled, "negative")])
def test_wrong(f, text):
    with pytest.raises(ValueError, match=text):
        f()
""",
}


@pytest.mark.parametrize("name", VAIN)
def test_a_text_that_cannot_be_missed_is_seen(name: str) -> None:
    assert len(vain(VAIN[name])) == 1


@pytest.mark.parametrize("name", SOUND)
def test_other_texts_are_sound(name: str) -> None:
    assert vain(SOUND[name]) == []


def test_an_error_is_split_where_the_users_line_begins() -> None:
    error = ValueError("tile: one is negative\n  at: test.py:3: ef.tile(x, (-1,))")
    assert says("is negative")(error)
    assert points_at("ef.tile")(error)
    with pytest.raises(AssertionError):
        says("ef.tile")(error)
    with pytest.raises(AssertionError):
        points_at("is negative")(error)
