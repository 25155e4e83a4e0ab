"""Registration of ops that may have to wait, which run in two ways: blocking, and by callback.

Such an op is written as a function that returns an *attempt* (with ``wait(seconds, finish)`` and,
for callers that hold no thread while they wait, ``begin(callback)`` and ``result()``) and the
function that makes arrays of the attempt's value. The op's kernel blocks; `waiting` has the
function for other callers, which call it by `begin`. A count that is no attribute is the first
array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, TypeVar

from eagerflow_kernels.table import Array, portable

#: makes the result arrays of an op from the value of its attempt
Finish = Callable[[Any], tuple[Array, ...]]
_Start = TypeVar("_Start", bound=Callable[..., tuple[Any, Finish]])

#: for each op that may have to wait, ``start(xp, *arrays, **attrs)``, which returns the attempt and
#: the function that makes arrays of its value
waiting: Final[dict[str, Callable[..., tuple[Any, Finish]]]] = {}


def waits(name: str) -> Callable[[_Start], _Start]:
    """Register an op that may have to wait; its kernel has further attributes for the timeout."""

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
    """The attempt of an op, the function that makes arrays of its value, and the timeout.

    Args:
        start: the op's function in `waiting`.
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
    """The number of elements requested: an attribute, or else an array."""
    return asked[0].item() if count is None else count


def nothing(value: Any) -> tuple[Array, ...]:
    """The results of an op without any."""
    return ()


def scalar(xp: Any, value: int) -> Array:
    """A number or a truth value as an array."""
    return xp.asarray(value, dtype="bool" if type(value) is bool else "int64")


def register_answers(questions: Mapping[str, Callable[[Any], int]]) -> None:
    """Register ops that return one number of a resource, and never wait."""
    for name, ask in questions.items():
        portable(name)(partial(_answer, ask))


def _answer(ask: Callable[[Any], int], xp: Any, *, resource: Any) -> Array:
    return scalar(xp, ask(resource))
