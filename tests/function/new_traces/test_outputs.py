"""The line that an error names where a result cannot be made by a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError

# mypy: disable-error-code="no-untyped-def"


class Holder:
    def __init__(self, x: Any) -> None:
        self.x = x


@ef.trace
def generator(x):
    return (x * r for r in (1, 2, 3))  # here


@ef.trace
def an_object(x):
    y = x * 2
    return Holder(y)  # here


@pytest.mark.parametrize("f", [generator, an_object])
def test_the_line_of_the_return_is_named(f: Any) -> None:
    with pytest.raises(TraceError, match=r"test_outputs.py:\d+ in \w+: return .*# here"):
        f(ef.ones(2))


@pytest.fixture
def debugger() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    yield
    sys.settrace(before)


@pytest.mark.usefixtures("debugger")
@pytest.mark.parametrize(("f", "line"), [(generator, r"return .*# here"), (an_object, "y = x")])
def test_in_a_debugger_the_first_line_of_the_function(f: Any, line: str) -> None:
    with pytest.raises(TraceError, match=rf"test_outputs.py:\d+ in \w+: {line}"):
        f(ef.ones(2))
