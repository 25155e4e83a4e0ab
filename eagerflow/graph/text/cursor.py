"""A position in a text, with which `eagerflow.graph.text.parser` reads words and marks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, final

from eagerflow.errors import GraphSyntaxError

WORD: Final = re.compile(r"[^\W\d]\w*")
_SPACE: Final = re.compile(r"\s*")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_UNEXPECTED: Final = re.compile(r'"[^"\n]{0,20}|[%&@$]?[\w.]{1,20}|.')


@final
class Cursor:
    """A tokeniser: it skips white space, and reports line and column of errors.

    Attributes:
        text: the text.
        position: the number of characters read.
    """

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        """Raise a syntax error for the text at ``position``, by default the next token."""
        if position is None:
            position = self.skip()
        start = self.text.rfind("\n", 0, position) + 1
        line, column = self.text.count("\n", 0, position) + 1, position - start + 1
        match = _UNEXPECTED.match(self.text, position)
        shown = self.text[start:].split("\n", 1)[0]
        first = max(0, min(column - 41, len(shown) - 80))
        given = f"{shown[first : first + 80]}\n{' ' * (column - 1 - first)}^"
        raise GraphSyntaxError(
            f"line {line}, column {column}: unexpected "
            + (repr(match.group()) if match else "end of the text"),
            given=given.replace("\n", "\n" + " " * len("  got: ")),
            expected=expected,
        )

    def skip(self) -> int:
        """Skip white space; returns the position after it."""
        if self.text[self.position : self.position + 1].isspace():
            match = _SPACE.match(self.text, self.position)
            assert match is not None
            self.position = match.end()
        return self.position

    def accept(self, mark: str) -> bool:
        """Skip ``mark`` if it comes next; returns whether it did."""
        if not self.text.startswith(mark, self.skip()):
            return False
        self.position += len(mark)
        return True

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            self.fail(repr(mark))

    def word(self, word: str) -> bool:
        """Skip ``word`` if it is the next word; returns whether it is."""
        if not self.text.startswith(word, self.skip()):
            return False
        match = WORD.match(self.text, self.position)
        if match is None or match.group() != word:
            return False
        self.position = match.end()
        return True

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self.skip())
        if match is None:
            self.fail(what)
        self.position = match.end()
        return match.group()

    def string(self) -> str:
        position = self.skip()
        text = self.take(_STRING, "a string in double quotes")
        try:
            content: str = json.loads(text)
        except ValueError:
            self.fail("a string as JSON writes it", position)
        return content

    def name(self, what: str = "a name") -> str:
        match = WORD.match(self.text, self.skip())
        if match is not None:
            self.position = match.end()
            return match.group()
        if not self.text.startswith('"', self.position):
            self.fail(what)
        return self.string()

    def separated(self, one: Callable[[], Any], close: str) -> list[Any]:
        """Items read by ``one`` with commas between (and perhaps after), up to ``close``."""
        items = []
        while not self.accept(close):
            items.append(one())
            if not self.accept(","):
                if not self.accept(close):
                    self.fail(f"',' or {close!r}")
                break
        return items

    def listed(self, one: Callable[[], Any]) -> list[Any]:
        """Items read by ``one``, at least one, with commas between."""
        items = [one()]
        while self.accept(","):
            items.append(one())
        return items

    def end(self) -> None:
        if self.skip() < len(self.text):
            self.fail("the end of the text")
