"""Checks of error messages that leave out the user's source line at their end.

That line may be the line of the test that contains the pattern: then ``match=`` cannot fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["points_at", "says"]

_AT = "\n  at: "


def says(text: str) -> Callable[[BaseException], bool]:
    """For ``check=`` of `pytest.raises`: whether an error says it before the user's line.

    Args:
        text: a regular expression.
    """
    return lambda error: _in(str(error).partition(_AT)[0], text)


def points_at(text: str) -> Callable[[BaseException], bool]:
    """For ``check=`` of `pytest.raises`: whether the user's line has it.

    Args:
        text: a regular expression.
    """
    return lambda error: _in(str(error).partition(_AT)[2], text)


def _in(message: str, text: str) -> bool:
    assert re.search(text, message), f"{text!r} is not in {message!r}"
    return True
