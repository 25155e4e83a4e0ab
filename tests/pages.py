"""Runs the blocks of Python of a page of the documentation as one session.

Run: ``python -m tests.pages FILE``. The exit status is 1 if an output differs from the page.
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

from tests import doctests

__all__ = ["FENCE", "blocks"]

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of one language: the number of the first line, and the text."""
    return [
        (text.count("\n", 0, match.start(2)) + 1, match[2])
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def _main(page: Path) -> int:
    lines: list[str] = []
    for first, block in blocks(page.read_text(), "python"):
        lines += [""] * (first - 1 - len(lines)) + block.splitlines()
    names = {"__name__": "docs"}
    test = doctest.DocTestParser().get_doctest("\n".join(lines), names, page.name, str(page), 0)
    doctests.install()
    result = doctest.DocTestRunner(optionflags=_FLAGS).run(test)
    print(f"{result.failed} of {result.attempted} failed")
    return min(1, result.failed)


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
