"""Every op and dtype against its reference, every gradient against numeric derivatives.

In the layout that shows most, all dtypes are run, and one dtype of each kind in every way:
eagerly, on another device, traced, with each graph verified and run in all ways of running it. In
the other layouts one dtype of each kind is run, and of gradients one; slow tests run all. Traced
calls of the other dtypes there, and of one dtype in the other layouts, are compared with eager
ones. Traced results have the same bits, for one case of each function also in a scope and
where its nodes are scattered over several devices; slow tests do that in all cases, dtypes and
layouts, and with other sizes. `test_other_sizes` calls each case, in a trace of its own, with
further sizes: in one dtype (float64 where the case has it), gradients of half of the cases of each
function included, those of second order for one of these; those graphs are run in every way, too.
The first sizes are only noted there, since traces of them are run by the other tests. Slow tests
do that with all gradients, and with a trace of the first sizes.

Each test has several cases: shared work, of a trace or around a test, takes longer than
to run most ops. An error names the rows that are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.each import check_each, in_groups, names_of
from tests.ops.case import LAYOUTS, OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.one_trace import (
    Row,
    check_gradients_in_one_trace,
    check_values_in_one_trace,
    columns_in_one_trace,
)
from tests.ops.sizes import check_sizes
from tests.ops.table import (
    WITHIN,
    arguments,
    check_gradient,
    check_values,
    columns_of,
    function_of,
    layout_of,
    map_arrays,
    one_of_each_function,
    one_of_each_kind,
    within,
)
from tests.ops.tracing import traced

SMOOTH = [c for c in ALL_CASES if c.grad]


def _traceable(cases: Sequence[OpCase]) -> list[OpCase]:
    return [case for case in cases if not case.untraceable]


def _half_of_each_function() -> frozenset[str]:
    """Every other case of each function that has gradients, the first included."""
    by_name: dict[str, list[str]] = {}
    for case in SMOOTH:
        by_name.setdefault(case.name, []).append(case.id)
    return frozenset(one for ids in by_name.values() for one in ids[::2])


#: ids of one case of each function, of those that can be traced
ONE = frozenset(c.id for c in one_of_each_function(_traceable(SMOOTH)))
#: ids of one case of each function whose gradients have gradients; called with other sizes
SECOND = frozenset(c.id for c in one_of_each_function([c for c in SMOOTH if c.second]))
#: ids of the cases of which first-order gradients alone are called with other sizes
FIRST = _half_of_each_function() - SECOND


def _smooth(case: OpCase) -> list[str]:
    """The dtypes in which gradients are checked."""
    return [d for d in ("float64", "complex128") if d in case.dtypes]


def _rows(case: OpCase) -> list[tuple[str, str]]:
    """All dtypes in the layout that shows most, and one dtype of each kind in the other layouts."""
    most, kinds = layout_of(case), one_of_each_kind(case)
    return [
        (dtype, layout)
        for layout in case.layouts
        for dtype in (case.dtypes if layout == most else kinds)
    ]


def _smooth_rows(cases: Sequence[OpCase]) -> list[Row]:
    return [(case, dtype, layout_of(case)) for case in cases for dtype in _smooth(case)]


@pytest.mark.parametrize("cases", in_groups(ALL_CASES), ids=names_of)
def test_values(cases: list[OpCase]) -> None:
    rows = [(case, *row) for case in cases for row in _rows(case)]
    check_each(((*row, columns_of(*row)) for row in rows), check_values)


@pytest.mark.parametrize("cases", in_groups(_traceable(ALL_CASES)), ids=names_of)
def test_values_in_one_trace(cases: list[OpCase]) -> None:
    _check_in_one_trace(columns_in_one_trace(cases))


def _check_in_one_trace(columns: dict[str, list[Row]]) -> None:
    for column, rows in columns.items():
        if rows:
            check_values_in_one_trace(rows, column)


SPECIAL = [c for c in ALL_CASES if c.specials]


def _special(case: OpCase) -> list[Row]:
    return [(case, d, "matrix") for d in ("complex64", "float32", "float64") if d in case.dtypes]


def test_special_values() -> None:
    rows = ((*row, ("eager",)) for case in SPECIAL for row in _special(case))
    check_each(rows, lambda *args: check_values(*args, special=True))


@pytest.mark.parametrize("cases", in_groups(_traceable(SPECIAL)), ids=names_of)
def test_special_values_in_one_trace(cases: list[OpCase]) -> None:
    rows = [row for case in cases for row in _special(case)]
    check_values_in_one_trace(rows, "traced", special=True)


@pytest.mark.parametrize("cases", in_groups(SMOOTH), ids=names_of)
def test_gradients(cases: list[OpCase]) -> None:
    first = [(c, _smooth(c)[0], layout) for c in cases for layout in c.layouts]
    first += [(c, dtype, layout_of(c)) for c in cases for dtype in _smooth(c)[1:]]
    second = [(c, _smooth(c)[0], layout_of(c)) for c in cases if c.second]
    check_each(((*row, "eager", order) for order, some in ((1, first), (2, second))
                for row in some), check_gradient)  # fmt: skip


@pytest.mark.parametrize("cases", in_groups(_traceable(SMOOTH)), ids=names_of)
def test_gradients_in_one_trace(cases: list[OpCase]) -> None:
    # second order takes one dtype of a case, as eagerly; that covers the first order, too
    twice = [_smooth_rows([case])[0] for case in cases if case.second]
    once = [row for row in _smooth_rows(cases) if row not in twice]
    for order, rows in ((1, once), (2, twice)):
        if rows:
            check_gradients_in_one_trace(rows, "traced", order)
    # how a graph is cut depends on neither dtypes nor attributes
    some = [case for case in cases if case.id in ONE]
    if some:
        check_gradients_in_one_trace([_smooth_rows([case])[0] for case in some], "partitioned")


@pytest.mark.parametrize("cases", in_groups(_traceable(ALL_CASES)), ids=names_of)
def test_other_sizes(cases: list[OpCase]) -> None:
    rows = [(case, 0) for case in cases]
    rows += [(case, 2) for case in cases if case.id in SECOND]
    rows += [(case, 1) for case in cases if case.id in FIRST]
    check_each(rows, check_sizes)


@pytest.mark.slow
@pytest.mark.parametrize("cases", in_groups(ALL_CASES), ids=names_of)
def test_all_values_and_gradients(cases: list[OpCase]) -> None:
    rows = ((c, dtype, layout, ("eager",)) for c in cases for dtype in c.dtypes
            for layout in c.layouts)  # fmt: skip
    check_each(rows, check_values)
    smooth = [case for case in cases if case.grad]
    slopes = [(c, dtype, layout, "eager", 1) for c in smooth for layout in c.layouts
              for dtype in _smooth(c)]  # fmt: skip
    slopes += [(*row, "eager", 2) for row in _smooth_rows([c for c in smooth if c.second])]
    check_each(slopes, check_gradient)


@pytest.mark.slow
@pytest.mark.parametrize("cases", in_groups(_traceable(SMOOTH)), ids=names_of)
def test_other_sizes_of_all_gradients(cases: list[OpCase]) -> None:
    rows = [(c, 2 if c.second else 1) for c in cases if c.id not in SECOND]
    check_each(rows, lambda *row: check_sizes(*row, twice=True))


@pytest.mark.slow
@pytest.mark.parametrize("cases", in_groups(_traceable(ALL_CASES)), ids=names_of)
def test_all_values_in_one_trace(cases: list[OpCase]) -> None:
    _check_in_one_trace(columns_in_one_trace(cases, every=True))


@pytest.mark.slow
@pytest.mark.parametrize("column", WITHIN)
@pytest.mark.parametrize("cases", in_groups(_traceable(ALL_CASES)), ids=names_of)
def test_on_several_devices(cases: list[OpCase], column: str) -> None:
    check_each(cases, lambda case: _check_on_several_devices(case, column))


def _check_on_several_devices(case: OpCase, column: str) -> None:
    rows = [(d, layout) for d in case.dtypes for layout in case.layouts]
    check_each(((case, *row, (column,)) for row in rows), check_values)
    layouts = case.layouts if case.grad else ()
    slopes = [(d, layout, column) for layout in layouts for d in _smooth(case)]
    orders = (1, 2) if case.second else (1,)
    check_each(((case, *row, order) for row in slopes for order in orders), check_gradient)
    for order in (0, *orders[-1:]) if case.grad else (0,):
        with within(column):
            check_sizes(case, order, twice=True)


@pytest.mark.parametrize("case", [c for c in ALL_CASES if c.untraceable], ids=lambda case: case.id)
def test_what_cannot_be_traced_says_so(case: OpCase) -> None:
    args = [map_arrays(ef.asarray, a) for a in arguments(case, case.dtypes[0], case.layouts[0])]
    with pytest.raises(TraceError) as info:
        traced(function_of(case))(*args, **case.kwargs)
    assert case.name.rpartition(".")[2] in str(info.value)
    assert "return function(*args, **kwargs)" in str(info.value)  # the line of the call
    assert "hint:" in str(info.value)


def test_layouts_are_known() -> None:
    for case in ALL_CASES:
        assert case.layouts, case.id
        assert set(case.layouts) <= set(LAYOUTS), case.id
