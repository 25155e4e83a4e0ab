"""Checks for rows of constructs: traced calls give the results of eager calls, or an error."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import warnings
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from tests.autograph.test_programs import _plain


def check_same(function, calls) -> None:
    """Assert that traced calls give the results of eager calls."""
    traced = ef.trace(function)
    for args in calls:
        want = function(*_tensors(args))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ef.errors.TraceWarning)
            for _ in range(2):  # the trace, and a run of it
                got = traced(*_tensors(args))
                assert str(_plain(got)) == str(_plain(want)) or _plain(got) == _plain(want)


def check_error(function, args, words) -> None:
    """Assert that a traced call raises an error with all of ``words`` in its text."""
    with pytest.raises(EagerflowError) as caught:
        ef.trace(function)(*_tensors(args))
    for one in words:
        assert one in str(caught.value)


def _tensors(args: tuple[Any, ...]) -> list[Any]:
    """The arguments with tensors in the place of floats, and of lists of floats."""
    firsts = [x[0] if type(x) is list else x for x in args]
    return [ef.tensor(x) if type(y) is float else x for x, y in zip(args, firsts, strict=True)]
