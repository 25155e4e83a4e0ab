"""The runners of this process that have failed, as a note for waits that end without a result.

A reader of a queue that a runner fills waits on when the runner fails, unless the runner closes the
queue. So a wait that times out, or is interrupted by Ctrl-C, names the failed runners.
"""

from __future__ import annotations

import threading
from typing import Final, TypeVar

_E = TypeVar("_E", bound=BaseException)
_MOST: Final = 3  # of the runners that one note names

_lock: Final = threading.Lock()
_failed: Final[dict[str, str]] = {}  # descriptions in the order of failure, by function


def add(function: str, description: str) -> None:
    """Remember a failed runner.

    Args:
        function: the name of its function; a later failure of the function replaces this one.
        description: the runner and its error; text, so that no error keeps the objects of its
            frames.
    """
    with _lock:
        _failed.pop(function, None)
        _failed[function] = description
        while len(_failed) > _MOST:
            del _failed[next(iter(_failed))]


def forget(function: str) -> None:
    """Forget the failure of a function that is spawned again."""
    with _lock:
        _failed.pop(function, None)


def noted(error: _E) -> _E:
    """The error of a wait that ended without a result, with notes on the failed runners."""
    with _lock:
        descriptions = list(_failed.values())
    for description in descriptions:
        error.add_note(f"  {description}")
    return error
