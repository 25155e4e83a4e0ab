"""Every op and dtype against its reference, every gradient against numeric derivatives.

Of the column "traced", `test_values` and the tests of gradients are as wide as eagerly: all dtypes
and layouts, each graph verified and run in every way, bit for bit. `test_other_sizes` calls each
case, traced once, with further sizes: in one dtype (float64 where the case has it), gradients of
first and second order included.
"""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.ops.case import LAYOUTS, OpCase, np_dtype
from tests.ops.cases import ALL_CASES
from tests.ops.sizes import check_sizes
from tests.ops.table import (
    COLUMNS,
    COMPARED,
    NARROW,
    arguments,
    check_gradient,
    check_values,
    function_of,
    map_arrays,
)
from tests.ops.tracing import traced


def first_of_each_kind(dtypes: tuple[str, ...]) -> set[str]:
    """One dtype of each kind."""
    kinds: dict[str, str] = {}
    for name in dtypes:
        kinds.setdefault(np_dtype(name).kind, name)
    return set(kinds.values())


VALUES = [(c, d) for c in ALL_CASES for d in c.dtypes]
GRADIENTS = [
    (c, d) for c in ALL_CASES if c.grad for d in ("float64", "complex128") if d in c.dtypes
]
#: of each column, what of the values it runs
COLUMN_VALUES = [
    (c, d, column)
    for column in COLUMNS
    for c, d in VALUES
    if column not in NARROW or d in first_of_each_kind(c.dtypes)
    if column not in COMPARED or not c.untraceable
]
WIDE = [column for column in COLUMNS if column not in NARROW]
SPECIAL = [c for c in ALL_CASES if c.specials]


def _name(value: object) -> str:
    return value.id if isinstance(value, OpCase) else str(value)


@pytest.mark.parametrize(("case", "dtype", "column"), COLUMN_VALUES, ids=_name)
def test_values(case: OpCase, dtype: str, column: str) -> None:
    for layout in case.layouts:
        check_values(case, dtype, layout, column)


@pytest.mark.parametrize("column", WIDE)
@pytest.mark.parametrize("case", SPECIAL, ids=_name)
def test_special_values(case: OpCase, column: str) -> None:
    for dtype in {"float32", "float64", "complex64"} & set(case.dtypes):
        check_values(case, dtype, "matrix", column, special=True)


@pytest.mark.parametrize("column", WIDE)
@pytest.mark.parametrize(("case", "dtype"), GRADIENTS, ids=_name)
def test_gradients(case: OpCase, dtype: str, column: str) -> None:
    for layout in case.layouts:
        check_gradient(case, dtype, layout, column)


@pytest.mark.parametrize("column", WIDE)
@pytest.mark.parametrize(("case", "dtype"), [(c, d) for c, d in GRADIENTS if c.second], ids=_name)
def test_second_gradients(case: OpCase, dtype: str, column: str) -> None:
    layout = next((x for x in ("matrix", *case.layouts) if x in case.layouts), "matrix")
    check_gradient(case, dtype, layout, column, order=2)


@pytest.mark.parametrize("case", [c for c in ALL_CASES if not c.untraceable], ids=_name)
def test_other_sizes(case: OpCase) -> None:
    check_sizes(case)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("case", [c for c in ALL_CASES if c.grad], ids=_name)
def test_gradients_of_other_sizes(case: OpCase, order: int) -> None:
    if order == 1 or case.second:
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
