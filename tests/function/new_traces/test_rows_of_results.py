"""Warnings where a traced function takes a row of one tensor as if it were a pair."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.function.new_traces import rows_of_results

x = ef.ones((3, 4))


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    monkeypatch.setattr(rows_of_results, "_said", {})


def straight(x):
    return x.max(-1)[0] * 2


def function(x):
    return ef.min(x, 1)[1]


def branches(x):
    if x.sum() > 0:
        x = x + ef.sort(x, 1)[0]
    return x


@pytest.mark.parametrize(
    ("f", "op", "line"), [(straight, "max", 1), (function, "min", 1), (branches, "sort", 2)]
)
def test_a_row_of_a_result_along_an_axis(f, op, line):
    with pytest.warns(UserWarning, match=f"{op} gives one tensor, of which this") as caught:
        made = ef.trace(f)(x)
    assert (made == f(x)).all()
    (warning,) = caught
    assert f"two calls: ef.{op}(x, axis), ef.arg{op}(x, axis)" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, f.__code__.co_firstlineno + line)


def test_what_may_be_meant():
    table = np.ones((3, 4))

    @ef.trace
    def f(x):
        row = x.max(1)
        low = x.min(0)[0]  # of points
        return low + row[0] + x[0].sort(-1)[0] + x.sum(1)[0] + x.max(1)[2] + table.max(1)[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
