"""Ops that may have to wait: how their kernels are written, and the two ways in which they run.

Such an op is written as a function that gives an *attempt* (with ``wait(seconds, finish)`` and, for
callers that hold no thread while they wait, ``begin(callback)`` and ``result()``) and what makes
arrays of the attempt's value. Its kernel waits; `waiting` has it for the other callers, which begin
it by `begin`. A count that is no attribute is the first array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, TypeVar

from eagerflow_kernels.table import Array, portable

#: makes the arrays that an op gives
Finish = Callable[[Any], tuple[Array, ...]]
_Start = TypeVar("_Start", bound=Callable[..., tuple[Any, Finish]])

#: of each op that may have to wait: ``start(xp, *arrays, **attrs)`` gives the attempt, and what
#: makes arrays of its value
waiting: Final[dict[str, Callable[..., tuple[Any, Finish]]]] = {}


def waits(name: str) -> Callable[[_Start], _Start]:
    """Register an op that may have to wait; it has attributes more, for the timeout."""

    def register(start: _Start) -> _Start:
        @wraps(start)
        def kernel(
            xp: Any, *arrays: Array, timeout: float | None = None, timed: bool = False, **attrs: Any
        ) -> tuple[Array, ...]:
            if timed:
                attempt, finish, timeout = begin(start, xp, arrays, timed=True, **attrs)
            else:
                attempt, finish = start(xp, *arrays, **attrs)
            made: tuple[Array, ...] = attempt.wait(timeout, finish)
            return made

        waiting[name] = start
        portable(name)(kernel)
        return start

    return register


def begin(
    start: Callable[..., tuple[Any, Finish]], xp: Any, arrays: Sequence[Array],
    timeout: float | None = None, timed: bool = False, **attrs: Any,
) -> tuple[Any, Finish, float | None]:  # fmt: skip
    """The attempt of an op, what makes arrays of its value, and how many seconds it may wait.

    Args:
        start: of the op.
        xp: the array namespace.
        arrays: the inputs.
        timeout: in seconds; None to wait for ever.
        timed: whether the timeout is the last of the inputs instead.
        attrs: the other attributes.
    """
    if not timed:
        return *start(xp, *arrays, **attrs), timeout
    *others, seconds = arrays
    attempt, finish = start(xp, *others, **attrs)
    return attempt, finish, attempt.checked_seconds(seconds.item())


def count_of(count: int | None, asked: Sequence[Array]) -> int:
    """How many elements are asked for: an attribute, or an array."""
    return asked[0].item() if count is None else count


def nothing(value: Any) -> tuple[Array, ...]:
    """The arrays of an op that gives none."""
    return ()


def scalar(xp: Any, value: int) -> Array:
    """A number or a truth value as an array."""
    return xp.asarray(value, dtype="bool" if type(value) is bool else "int64")


def register_answers(questions: Mapping[str, Callable[[Any], int]]) -> None:
    """Register the ops that ask a resource for one number, which never wait."""
    for name, ask in questions.items():
        portable(name)(partial(_answer, ask))


def _answer(ask: Callable[[Any], int], xp: Any, *, resource: Any) -> Array:
    return scalar(xp, ask(resource))
