"""For every op and any shape: the type rule gives the type of the result, and values are right."""

from __future__ import annotations

from hypothesis import given, note
from hypothesis import strategies as st

from tests.ops.case import LAYOUTS, OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.table import check_arguments, made, sample_of

#: cases whose arguments take any shape
FLEXIBLE = [c for c in ALL_CASES if set(c.layouts) == set(LAYOUTS)]

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def rows(draw: st.DrawFn) -> tuple[OpCase, str]:
    case = draw(st.sampled_from(FLEXIBLE))
    return case, draw(st.sampled_from(case.dtypes))


@given(rows(), shapes, st.booleans())
def test_rule_and_kernel_agree(row: tuple[OpCase, str], shape: tuple[int, ...], strided: bool):
    case, dtype = row
    note(f"reproduce: check_arguments of {case.id}, {dtype}, shape {shape}, strided {strided}")
    args = made(case, sample_of(case, dtype, shape, strided))
    check_arguments(case, args, ["eager"])  # checks every rule on the way
