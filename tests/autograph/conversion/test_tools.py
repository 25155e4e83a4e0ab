"""Debuggers, coverage and notebooks see converted functions like any other function."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
import io
import pdb  # noqa: T100 - it is tested
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import eagerflow as ef
import eagerflow.autograph.operators  # what converted code calls
from eagerflow.autograph.conversion.convert import converted
from eagerflow.errors import EagerflowError

x = ef.tensor(2.0)


def program(n, items):
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i > 3:
            break
        while total < 3:
            total += i + 1
    else:
        total = -1
    doubles = [item * 2 for item in items if item > 1]
    try:
        value = total and items[9]
    except IndexError:
        value = 1 if n > 1 else 2
    with io.StringIO() as file:
        file.write(str(doubles))
    if any(item > 2 for item in items):
        return total + value
    return -total


def _lines(function: Callable[..., Any], *args: Any) -> set[int]:
    """The lines of this file that run."""
    lines = set()

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            lines.add(frame.f_lineno)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("args", [(6, [1, 2, 3]), (1, []), (3, [1])])
def test_coverage_sees_the_same_lines(args) -> None:
    assert converted(program) is not program
    assert converted(program)(*args) == program(*args)
    first = program.__code__.co_firstlineno  # where converted functions return
    assert _lines(converted(program), *args) - {first} == _lines(program, *args)


@pytest.fixture
def debugger() -> Iterator[Callable[[str], tuple[pdb.Pdb, io.StringIO]]]:
    before = sys.gettrace()

    def make(commands: str) -> tuple[pdb.Pdb, io.StringIO]:
        out = io.StringIO()
        return pdb.Pdb(stdin=io.StringIO(commands), stdout=out, nosigint=True, readrc=False), out

    yield make
    sys.settrace(before)


def test_a_debugger_that_the_code_calls(debugger, monkeypatch) -> None:
    made, out = debugger("p y\nw\nc\n")
    monkeypatch.setattr(sys, "breakpointhook", lambda: made.set_trace(sys._getframe(1)))

    def f(x):
        y = x * 2
        if x > 0:
            y = y + 1
            breakpoint()  # noqa: T100 - it is tested
            y = y * 3  # the next line
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.errors.TraceWarning)
        assert ef.trace(f)(x).item() == 15.0
    text = out.getvalue()
    assert "y = y * 3  # the next line" in text
    assert "Tensor(f32[]@cpu:0)" in text
    assert "-> return y" not in text


def test_a_breakpoint_on_a_line(debugger) -> None:
    made, out = debugger("c\np (n, total)\nc\n")

    def f(n):
        total = 0
        while n > 0:
            total += n
            n -= 1  # here
        return total

    line = f.__code__.co_firstlineno + 4
    made.set_break(__file__, line, cond="n == 2")
    try:
        assert made.runcall(converted(f), 3) == 6
    finally:
        made.clear_all_breaks()
    assert "n -= 1  # here" in out.getvalue()
    assert "(2, 5)" in out.getvalue()


def test_tracebacks_show_the_users_lines_alone() -> None:
    def f(x):
        total = x
        while total < 10:
            for w in [1.0, 2.0]:
                total = total + sum([v * w for v in (1, None)])  # the line
        return total

    with pytest.raises(TypeError) as caught:
        ef.trace(f)(x)
    frames = traceback.extract_tb(caught.tb)
    assert {frame.filename for frame in frames} == {__file__}
    assert frames[-1].line == "total = total + sum([v * w for v in (1, None)])  # the line"
    assert frames[-1].name == "f"


def _wrapping(function):
    @functools.wraps(function)
    def wrapper(*args):
        value = function(*args)
        return value if value > 0 else -value

    return wrapper


class Model:
    factor = 2.0

    @property
    def scale(self):
        return self.factor if self.positive else -self.factor

    def __init__(self, positive):
        self.positive = positive
        self.h = ef.tensor(-3.0)

    @classmethod
    def of(cls, x):
        return x * cls.factor if x > 0 else x

    @staticmethod
    def clip(x):
        return ef.ones(()) if x > 1 else x

    @_wrapping
    def wrapped(self, x):
        if x > 1:
            x = x - 10
        return x

    def __call__(self, x):
        return self.of(x) * self.scale + self.clip(x) + self.wrapped(x) + self.h


def test_methods_properties_and_wrapped_functions() -> None:
    for value in (2.0, -2.0, 0.5):
        for positive in (True, False):
            want = Model(positive)(ef.tensor(value)).item()
            assert ef.trace(Model(positive).__call__)(ef.tensor(value)).item() == want


def test_functions_in_functions_share_their_variables() -> None:
    def outer(x):
        count = x * 0

        def middle(y):
            def inner(z):
                nonlocal count
                if z > 1:
                    count = count + 1
                return count

            inner(y)
            return inner(y + 1)

        return middle(x) + count

    for value in (0.5, 2.0, -3.0):
        assert ef.trace(outer)(ef.tensor(value)).item() == outer(ef.tensor(value)).item()


# --- notebooks ---------------------------------------------------------------------------------


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    hook = sys.displayhook
    config = Config()
    config.HistoryManager.enabled = False
    yield InteractiveShell(config=config)
    sys.displayhook = hook


def _run(shell: InteractiveShell, text: str) -> Any:
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return result.result


def test_cells_that_run_again_with_other_code(shell) -> None:
    _run(shell, "import eagerflow as ef")
    cell = "@ef.trace\ndef f(x):\n    if x > 0:\n        return x {} 2\n    return -x\n"
    _run(shell, cell.format("*"))
    assert _run(shell, "f(ef.tensor(3.0)).item()") == 6.0
    _run(shell, cell.format("+"))
    assert _run(shell, "f(ef.tensor(3.0)).item(), f(ef.tensor(-3.0)).item()") == (5.0, 3.0)
    _run(shell, "def helper(x):\n    return x if x > 0 else x * 10\n")
    _run(shell, "g = ef.trace(lambda x: helper(x) + 1)")
    assert _run(shell, "g(ef.tensor(-1.0)).item()") == -9.0
    _run(shell, "def helper(x):\n    return x if x > 0 else x * 20\n")
    assert _run(shell, "g(ef.tensor(-1.0)).item()") == -19.0


def test_errors_in_cells_name_them(shell) -> None:
    _run(shell, "import eagerflow as ef")
    _run(shell, "def f(x):\n    if x > 0:\n        y = x\n    return y\n")
    with pytest.raises(EagerflowError) as caught:
        shell.run_cell("ef.trace(f)(ef.tensor(1.0))").raise_error()
    assert "y is bound in only one branch" in str(caught.value)
    assert "y = x" in str(caught.value)
