"""Property tests: the same examples in `make test`, new ones in `make test-slow`.

Failures of a slow run are kept: the plug-in writes the failing call as an ``@example(...)`` above
the test, so that every later run starts with it. `tests/conftest.py` loads the plug-in.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

__all__ = ["decorator", "examples", "with_example"]

_MORE = 10  # factor by which a slow run has more examples
_KEY = "explicit example"
EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "slow"

settings.register_profile(
    "default",
    max_examples=30,
    deadline=None,
    derandomize=True,  # a failing run fails again, here and on any machine
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # the machines of CI are shared
)
settings.register_profile(
    "slow",
    settings.get_profile("default"),
    max_examples=500,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
)
settings.load_profile("slow" if EXPLORES else "default")


def examples(count: int) -> int:
    """Number of examples of a test that needs a count of its own.

    Args:
        count: number in `make test`.
    """
    return count * _MORE if EXPLORES else count


# --- failing calls -------------------------------------------------------------------------------


class _Names(ast.NodeTransformer):
    """Replaces names in the `repr` of some floats, such as ``nan``, by expressions."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("inf", "nan"):
            return ast.Call(ast.Name("float"), [ast.Constant(node.id)], [])
        return node


def decorator(call: str, given: Collection[str], names: Mapping[str, Any]) -> str | None:
    """The decorator that repeats a failing call.

    Args:
        call: the call as Hypothesis prints it, with all arguments by name.
        given: the names of the arguments that Hypothesis drew.
        names: the globals of the module of the test.

    Returns:
        Its text; None if an argument has no text that evaluates to it, such as `st.data()`.
    """
    try:
        tree = _Names().visit(ast.parse(call, mode="eval")).body
        arguments = {k.arg: ast.unparse(k.value) for k in tree.keywords if k.arg in given}
        for text in arguments.values():
            eval(text, dict(names))
    except Exception:
        return None
    if set(arguments) != set(given):
        return None
    return f"@example({', '.join(f'{k}={v}' for k, v in arguments.items())})"


def with_example(source: str, test: str, line: str) -> str | None:
    """The source of tests with one more explicit example.

    Args:
        source: a module.
        test: the name of a function or method in it.
        line: the decorator.

    Returns:
        The new source, not formatted; None if there is no such function.
    """
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == test]
    if not functions:
        return None
    lines = source.splitlines()
    if line[1:] not in map(ast.unparse, functions[0].decorator_list):
        lines.insert(functions[0].lineno - 1, " " * functions[0].col_offset + line)
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "hypothesis"]
    if imports and all(name.name != "example" for node in imports for name in node.names):
        first, last = imports[0].lineno - 1, imports[0].end_lineno
        names = sorted([*map(ast.unparse, imports[0].names), "example"])
        lines[first:last] = [f"from hypothesis import {', '.join(names)}"]
    return "\n".join(lines) + "\n"


def _calls(error: BaseException) -> Iterator[str]:
    """Yields the failing calls in Hypothesis' notes on an error, or on the errors of a group."""
    for note in getattr(error, "__notes__", ()):
        if match := re.match(r"(Failing test case|Falsifying example): (.*)", note, re.DOTALL):
            yield match[2]
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _calls(one)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Attach the failing calls to the report, which the process that ran the test sends."""
    report = yield
    if EXPLORES and call.excinfo is not None and isinstance(item, pytest.Function):
        given = getattr(getattr(item.obj, "hypothesis", None), "_given_kwargs", ())
        for text in _calls(call.excinfo.value) if given else ():
            line = decorator(text, given, item.module.__dict__)
            report.user_properties.append((_KEY, (str(item.path), item.originalname, text, line)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the failing calls into the test modules, once no test runs any more."""
    reports = terminalreporter.stats.get("failed", [])
    examples = [value for r in reports for key, value in r.user_properties if key == _KEY]
    for file, test, text, line in examples:
        path = Path(file)
        source = None if line is None else with_example(path.read_text(), test, line)
        if source is None:
            terminalreporter.write_line(f"keep this as a test, by hand, in {file}: {text}")
            continue
        path.write_text(source)
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", file], check=False)
        terminalreporter.write_line(f"kept as an explicit example of {test} in {file}")
