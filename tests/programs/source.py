"""Programs as text: functions of Python that are made of lines, and shown where a test fails."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import note
from hypothesis.errors import InvalidArgument

__all__ = ["function_of", "indented", "show"]


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def show(text: str) -> None:
    """Print ``text`` if the test fails."""
    with suppress(InvalidArgument):  # outside of a test of Hypothesis
        note(text)


def function_of(lines: Sequence[str], names: dict[str, Any]) -> Callable[..., Any]:
    """The function that lines of Python define.

    Args:
        lines: begin with ``def program(``.
        names: the globals of the function.
    """
    text = "\n".join([*lines, ""])
    show(text)
    name = f"<program {zlib.crc32(text.encode())}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = dict(names)
    exec(compile(text, name, "exec"), namespace)
    made: Callable[..., Any] = namespace["program"]
    return made
