"""The user's line that an error names."""

from __future__ import annotations

from eagerflow.errors import EagerflowError


def line_of(error: BaseException) -> str:
    """The text of the line that ``error`` points at."""
    assert isinstance(error, EagerflowError)
    assert error.source is not None
    return error.source.text
