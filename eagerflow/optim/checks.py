"""Checks of the options of optimisers and schedules."""

from __future__ import annotations

from numbers import Real
from typing import Any

from eagerflow.errors import TensorValueError


def not_negative(what: str, **options: Any) -> None:
    """Raise if an option is no number from zero on."""
    for name, value in options.items():
        if not (isinstance(value, Real) and float(value) >= 0):
            raise TensorValueError(
                f"{what}: {name} is negative or no number",
                given=f"{name}={value!r}",
                expected="a number that is not negative",
            )


def count(what: str, noun: str, **options: Any) -> None:
    """Raise if an option is no number of such things, from 1."""
    for name, value in options.items():
        if type(value) is not int or value < 1:
            raise TensorValueError(
                f"{what}: {name} is no number of {noun}",
                given=f"{name}={value!r}",
                expected="an integer from 1",
            )


def fraction(what: str, **options: Any) -> None:
    """Raise if an option is no number from 0 to 1, 1 excluded."""
    for name, value in options.items():
        if not (isinstance(value, Real) and 0 <= float(value) < 1):
            raise TensorValueError(
                f"{what}: {name} is no fraction",
                given=f"{name}={value!r}",
                expected="a number from 0 to 1, 1 excluded",
            )
