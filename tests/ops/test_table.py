"""Every op and dtype against its reference, every gradient against numeric derivatives.

In the layout in which a case shows most, one dtype of each kind is run in every way: eagerly, on
another device, traced, with each graph verified and run in every way that there is. Traced calls
of the other dtypes there, and of these dtypes in the other layouts, are compared with eager ones,
many of them in one trace.
What is traced is the same bit for bit, also where its nodes are scattered over several devices;
slow tests do that in all dtypes and layouts, and with other sizes. `test_other_sizes` calls each
case, traced once, with further sizes: in one dtype (float64 where the case has it), gradients of
first and second order included; those graphs are run in every way, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.each import check_each
from tests.ops.case import LAYOUTS, OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.one_trace import (
    Row,
    check_gradients_in_one_trace,
    check_values_in_one_trace,
    columns_in_one_trace,
    in_groups,
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
    within,
)
from tests.ops.tracing import traced

SMOOTH = [c for c in ALL_CASES if c.grad]


def _name(case: OpCase) -> str:
    return case.id


def _names(cases: list[OpCase]) -> str:
    return f"{cases[0].id} to {cases[-1].id}"


def _smooth(case: OpCase) -> list[str]:
    """The dtypes of gradients."""
    return [d for d in ("float64", "complex128") if d in case.dtypes]


def _smooth_rows(cases: Sequence[OpCase]) -> list[Row]:
    return [(case, dtype, layout_of(case)) for case in cases for dtype in _smooth(case)]


@pytest.mark.parametrize("case", ALL_CASES, ids=_name)
def test_values(case: OpCase) -> None:
    check_each(
        ((case, dtype, layout, columns_of(case, dtype, layout))
         for dtype in case.dtypes for layout in case.layouts),
        check_values,
    )  # fmt: skip


@pytest.mark.parametrize("cases", in_groups(ALL_CASES), ids=_names)
def test_values_in_one_trace(cases: list[OpCase]) -> None:
    for column, rows in columns_in_one_trace(cases).items():
        if rows:
            check_values_in_one_trace(rows, column)


SPECIAL = [c for c in ALL_CASES if c.specials]


def _special(case: OpCase) -> list[Row]:
    return [(case, d, "matrix") for d in ("complex64", "float32", "float64") if d in case.dtypes]


def test_special_values() -> None:
    rows = ((*row, ("eager",)) for case in SPECIAL for row in _special(case))
    check_each(rows, lambda *args: check_values(*args, special=True))


@pytest.mark.parametrize("cases", in_groups(SPECIAL), ids=_names)
def test_special_values_in_one_trace(cases: list[OpCase]) -> None:
    rows = [row for case in cases for row in _special(case)]
    check_values_in_one_trace(rows, "traced", special=True)


@pytest.mark.parametrize("case", SMOOTH, ids=_name)
def test_gradients(case: OpCase) -> None:
    rows = [(case, dtype, layout) for layout in case.layouts for dtype in _smooth(case)]
    second = _smooth_rows([case]) if case.second else []
    check_each(((*row, "eager", order) for order, some in ((1, rows), (2, second)) for row in some),
               check_gradient)  # fmt: skip


@pytest.mark.parametrize("cases", in_groups(SMOOTH), ids=_names)
def test_gradients_in_one_trace(cases: list[OpCase]) -> None:
    for column in ("traced", "partitioned"):
        check_gradients_in_one_trace(_smooth_rows(cases), column)
    check_gradients_in_one_trace(_smooth_rows([c for c in cases if c.second]), "called", 2)


@pytest.mark.parametrize("case", [c for c in ALL_CASES if not c.untraceable], ids=_name)
def test_other_sizes(case: OpCase) -> None:
    check_sizes(case)
    if case.grad:
        check_sizes(case, 2 if case.second else 1)


@pytest.mark.slow
@pytest.mark.parametrize("column", WITHIN)
@pytest.mark.parametrize("case", [c for c in ALL_CASES if not c.untraceable], ids=_name)
def test_on_several_devices(case: OpCase, column: str) -> None:
    rows = [(d, layout) for d in case.dtypes for layout in case.layouts]
    check_each(((case, *row, (column,)) for row in rows), check_values)
    layouts = case.layouts if case.grad else ()
    slopes = [(d, layout, column) for layout in layouts for d in _smooth(case)]
    orders = (1, 2) if case.second else (1,)
    check_each(((case, *row, order) for row in slopes for order in orders), check_gradient)
    for order in (0, *orders[-1:]) if case.grad else (0,):
        with within(column):
            check_sizes(case, order)


@pytest.mark.parametrize("case", [c for c in ALL_CASES if c.untraceable], ids=_name)
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
