"""Checks of requests to resources: numbers of elements and timeouts."""

from __future__ import annotations

import threading

from eagerflow.errors import TensorValueError


def check_count(what: str, count: int) -> None:
    """Check a number of elements that is known only at run time.

    Raises:
        TensorValueError: the number is negative.
    """
    if count < 0:
        raise TensorValueError(f"{what}: {count} elements", expected="0 or more")


def check_seconds(what: str, seconds: float | None) -> float | None:
    """The timeout as a number of seconds.

    Raises:
        TensorValueError: the timeout is negative or no number.
    """
    if seconds is None:
        return None
    number = float(seconds)
    if not 0 <= number <= threading.TIMEOUT_MAX:
        raise TensorValueError(
            f"{what}: timeout={seconds!r}", expected="seconds, or None to wait for ever"
        )
    return number
