"""Every op and dtype against its reference, every gradient against numeric derivatives.

In the layout in which a case shows most, one dtype of each kind is run in every way: eagerly, on
another device, traced, with each graph verified and run in every way that there is. Traced calls
of the other dtypes there, and of these dtypes in the other layouts, are compared with eager ones.
What is traced is the same bit for bit, also where its nodes are scattered over several devices;
slow tests do that in all dtypes and layouts, and with other sizes. `test_other_sizes` calls each
case, traced once, with further sizes: in one dtype (float64 where the case has it), gradients of
first and second order included; those graphs are run in every way, too.
"""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.each import check_each
from tests.ops.case import LAYOUTS, OpCase
from tests.ops.cases import ALL_CASES
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


def _slopes(case: OpCase, *columns: str) -> list[tuple[str, str]]:
    """The dtypes and columns of gradients."""
    dtypes = [d for d in ("float64", "complex128") if d in case.dtypes]
    return [(d, column) for d in dtypes for column in columns]


@pytest.mark.parametrize("case", ALL_CASES, ids=_name)
def test_values(case: OpCase) -> None:
    check_each(
        ((case, dtype, layout, columns_of(case, dtype, layout))
         for dtype in case.dtypes for layout in case.layouts),
        check_values,
    )  # fmt: skip


@pytest.mark.parametrize("case", [c for c in ALL_CASES if c.specials], ids=_name)
def test_special_values(case: OpCase) -> None:
    for dtype in sorted({"float32", "float64", "complex64"} & set(case.dtypes)):
        check_values(case, dtype, "matrix", ("eager", "traced"), special=True)


@pytest.mark.parametrize("case", SMOOTH, ids=_name)
def test_gradients(case: OpCase) -> None:
    check_each(
        ((case, dtype, layout, column)
         for layout in case.layouts
         for dtype, column in _slopes(
             case, "eager", *(["traced", "partitioned"] if layout == layout_of(case) else [])
         )),
        check_gradient,
    )  # fmt: skip


@pytest.mark.parametrize("case", [c for c in SMOOTH if c.second], ids=_name)
def test_second_gradients(case: OpCase) -> None:
    layout = layout_of(case)
    check_each(
        ((case, dtype, layout, column, 2) for dtype, column in _slopes(case, "eager", "called")),
        check_gradient,
    )


@pytest.mark.parametrize("case", [c for c in ALL_CASES if not c.untraceable], ids=_name)
def test_other_sizes(case: OpCase) -> None:
    check_sizes(case)


@pytest.mark.parametrize("case", SMOOTH, ids=_name)
def test_gradients_of_other_sizes(case: OpCase) -> None:
    check_sizes(case, 2 if case.second else 1)


@pytest.mark.slow
@pytest.mark.parametrize("column", WITHIN)
@pytest.mark.parametrize("case", [c for c in ALL_CASES if not c.untraceable], ids=_name)
def test_on_several_devices(case: OpCase, column: str) -> None:
    rows = [(d, layout) for d in case.dtypes for layout in case.layouts]
    check_each(((case, *row, (column,)) for row in rows), check_values)
    layouts = case.layouts if case.grad else ()
    slopes = [(d, layout, c) for layout in layouts for d, c in _slopes(case, column)]
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
