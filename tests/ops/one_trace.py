"""Rows of several cases in one trace: to trace takes longer than to run most ops.

One function takes the arguments of all rows and gives all their results, which are compared with
those of eager calls bit for bit. Where they differ, each row is run alone, to find the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import eagerflow as ef
from tests.each import check_each
from tests.ops.case import OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.table import (
    COLUMNS,
    LATE,
    arguments,
    check_gradient,
    check_values,
    compare_gradients,
    flatten_arrays,
    function_of,
    layout_of,
    map_arrays,
    one_of_each_function,
    one_of_each_kind,
    within,
)

#: a case, a dtype and a layout
Row = tuple[OpCase, str, str]


#: one case of each function, for what depends on no attribute: scopes, and how a graph is cut
_ONE: Final = frozenset(
    case.id for case in one_of_each_function([c for c in ALL_CASES if not c.untraceable])
)


def columns_in_one_trace(cases: Sequence[OpCase], *, every: bool = False) -> dict[str, list[Row]]:
    """By columns, the rows of cases that are run in one trace; all are run eagerly as well.

    The rows that show most are run in every way; one case of each function in a scope, and in one
    dtype for each of the ways to cut its graph. The other dtypes in that layout, and the first one
    in the other layouts, are traced.

    Args:
        cases: the cases that share the trace.
        every: whether all cases, and the dtypes that stand for their kinds, are run in every way.
    """
    rows: dict[str, list[Row]] = {
        "traced": [],
        "traced in a scope": [],
        "partitioned": [],
        LATE: [],
        "called": [],
    }
    for case in cases:
        kinds, most = one_of_each_kind(case), layout_of(case)
        best = [(case, dtype, most) for dtype in kinds]
        rows["traced"] += best
        if every or case.id in _ONE:
            rows["traced in a scope"] += best if every else best[:1]
            rows[LATE] += best[:1]
            rows["partitioned"] += best[1:] if every else best[-1:]
        rows["called"] += [
            (case, dtype, layout)
            for dtype in case.dtypes
            for layout in case.layouts
            if ((dtype in kinds if every else dtype == kinds[0]) and layout != most)
            or (dtype not in kinds and layout == most)
        ]
    return rows


class Joined(NamedTuple):
    """The functions of several rows, joined into one.

    Attributes:
        function: takes the arguments of all rows, one row after the other.
        args: the arguments of all rows.
        wrt: the positions to differentiate by.
    """

    function: Callable[..., Any]
    args: list[Any]
    wrt: list[int]


def joined_rows(rows: Sequence[Row], *, special: bool = False) -> Joined:
    """The function that runs all rows, with its arguments."""
    made = [arguments(*row, special=special) for row in rows]
    bounds = list(pairwise(accumulate(map(len, made), initial=0)))
    parts = [
        (function_of(case), case.kwargs, start, stop)
        for (case, *_), (start, stop) in zip(rows, bounds, strict=True)
    ]

    def call(*args: Any) -> Any:
        return [function(*args[start:stop], **kwargs) for function, kwargs, start, stop in parts]

    wrt = [
        start + i for (case, *_), (start, _) in zip(rows, bounds, strict=True) for i in case.grad
    ]
    return Joined(call, [a for args in made for a in args], wrt)


def check_values_in_one_trace(rows: Sequence[Row], column: str, *, special: bool = False) -> None:
    """Run the rows in one trace, in a column that compares with eager mode."""
    joined = joined_rows(rows, special=special)
    before = [a.copy() for a in flatten_arrays(joined.args)]
    tensors = [map_arrays(ef.asarray, a) for a in joined.args]
    try:
        with np.errstate(all="ignore"), within(column):
            COLUMNS[column](joined.function, tensors, {})
    except (Exception, pytest.fail.Exception):
        check_each(
            ((*row, (column,)) for row in rows),
            lambda *args: check_values(*args, special=special),
        )
        raise
    for old, new in zip(before, flatten_arrays(joined.args), strict=True):
        np.testing.assert_array_equal(old, new, err_msg="an argument was written into")


def check_gradients_in_one_trace(rows: Sequence[Row], column: str, order: int = 1) -> None:
    """Run the gradients of rows in one trace, in a column that compares with eager mode."""
    joined = joined_rows(rows)
    try:
        compare_gradients(joined.function, joined.args, joined.wrt, {}, column, order)
    except (Exception, pytest.fail.Exception):
        check_each(((*row, column, order) for row in rows), check_gradient)
        raise
