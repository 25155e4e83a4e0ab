"""Loops over tensors that they update in place: an iteration sees the current rows."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError


def updates_rows_to_come(xs):
    ys, total = xs + 0, xs[0] * 1
    for y in ys:
        ys[2] = ys[2] + 1
        total += y
    return total, ys


def updates_rows_under_a_condition(xs):
    total = xs[0] * 1
    for i, y in enumerate(xs):
        if y < 0:
            xs[2] = 7.0 * i
        total += y
    return total, xs


def updates_all_rows(xs):
    total = xs[0] * 1
    for y in xs:
        xs += 1
        total += y
    return total, xs


@pytest.mark.parametrize(
    "function", [updates_rows_to_come, updates_rows_under_a_condition, updates_all_rows]
)
def test_rows_are_those_of_the_moment(function) -> None:
    want = function(ef.tensor([1.0, -2.0, 3.0]))
    traced = ef.trace(function)
    for _ in range(2):
        assert repr(traced(ef.tensor([1.0, -2.0, 3.0]))) == repr(want)


def test_rows_of_another_number_are_those_of_the_moment_too() -> None:
    traced = ef.trace(updates_rows_to_come)
    for n in (3, 4, 3):
        assert repr(traced(ef.ones(n))) == repr(updates_rows_to_come(ef.ones(n)))


def test_rows_that_iterations_update_are_refused_where_only_the_graph_counts_them() -> None:
    traced = ef.trace(lambda xs: updates_rows_to_come(xs[ef.nonzero(xs)[0]]))
    with pytest.raises(TraceError, match=r"the tensor that it iterates over(.|\n)*for y in ys"):
        traced(ef.ones(4))
