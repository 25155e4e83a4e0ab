"""Errors of the ops of a composition, renamed to the public function that was called."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from eagerflow.errors import EagerflowError, hide_frames
from eagerflow.extending import is_part

_P = ParamSpec("_P")
_R = TypeVar("_R")


def speaks_for_parts(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let errors of a function's ops, and errors without a name, begin with its name."""
    name = function.__name__

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except EagerflowError as error:
            before, colon, rest = error.wrong.partition(": ")
            if not colon or is_part(before):
                error.reword(f"{name}: {rest or before}")
            hide_frames(error)
            raise

    return call
