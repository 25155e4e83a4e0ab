"""Checks of the options that classes and functions of libraries are made or called with."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Final, NamedTuple

from eagerflow.errors import TensorValueError


class OptionKind(NamedTuple):
    """A kind of option: its valid values.

    Attributes:
        wrong: the text for an invalid value, after the name of the option.
        expected: the valid values, in words.
        fits: whether a value is valid.

    >>> from eagerflow.extending import OptionKind, require
    >>> even = OptionKind("is odd", "an even number", lambda x: x % 2 == 0)
    >>> require("fold", even, times=2)
    """

    wrong: str
    expected: str
    fits: Callable[[Any], object]


def _number(fits: Callable[[float], bool]) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, Real) and fits(float(x))


NOT_NEGATIVE: Final = OptionKind(
    "is negative or not a number", "a number that is not negative", _number(lambda x: x >= 0)
)
POSITIVE: Final = OptionKind("is not positive", "a positive number", _number(lambda x: x > 0))
FRACTION: Final = OptionKind(
    "is not a fraction", "a number from 0 to 1, 1 excluded", _number(lambda x: 0 <= x < 1)
)
PROBABILITY: Final = OptionKind(
    "is not a probability", "a number from 0 to 1", _number(lambda x: 0 <= x <= 1)
)
SIZE: Final = OptionKind("is not a size", "an integer from 1", lambda x: type(x) is int and x > 0)
COUNT: Final = SIZE._replace(wrong="is not a count")


def one_of(*choices: Any) -> OptionKind:
    """The kind of options with these values.

    >>> from eagerflow.extending import one_of
    >>> one_of("mean", "sum").expected
    "'mean' or 'sum'"
    """
    expected = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    return OptionKind("has no such value", expected, lambda x: x in choices)


def require(who: str, kind: OptionKind, **options: Any) -> None:
    """Refuse options that are not of a kind.

    Args:
        who: the class or function that has the options.
        kind: the kind.
        options: their values by their names.

    Raises:
        TensorValueError: an option is not of the kind.

    >>> from eagerflow.extending import SIZE, require
    >>> require("Linear", SIZE, n_in=3, n_out=4)
    >>> try:
    ...     require("Linear", SIZE, n_in=3, n_out=-1)
    ... except ef.errors.TensorValueError as error:
    ...     print(error.wrong)
    Linear: n_out is not a size
    """
    for name, value in options.items():
        if not kind.fits(value):
            given = f"{name}={value!r}"
            raise TensorValueError(
                f"{who}: {name} {kind.wrong}", given=given, expected=kind.expected
            )
