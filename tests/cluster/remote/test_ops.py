"""The table of cases at a task: each op gives the same bits there as here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.tensor import AbstractArray
from tests.each import check_each
from tests.ops.case import OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.gradients import gradient
from tests.ops.table import (
    arguments,
    flatten,
    function_of,
    layout_of,
    map_arrays,
    map_type,
    one_of_each_function,
    one_of_each_kind,
)
from tests.ops.tracing import State, call_traced

DEVICE = "ps:0/cpu:0"
#: cases that move values to another device themselves
MOVING = {"to_device"}
SMOOTH = [c for c in ALL_CASES if c.grad]

pytestmark = pytest.mark.usefixtures("cluster")


def moved(args: Sequence[Any]) -> list[Any]:
    def move(x: Any) -> Any:
        return ef.Variable(x, device=DEVICE) if isinstance(x, ef.Variable) else x.to(DEVICE)

    return [map_type(AbstractArray, move, map_arrays(ef.asarray, a)) for a in args]


def leaves(value: Any) -> list[Any]:
    """The results as a flat list of NumPy arrays."""
    return flatten(list(value.values()) if isinstance(value, dict) else value)


def run(case: OpCase, function: Callable[..., Any], args: Sequence[Any], **kwargs: Any) -> None:
    """Check that a function gives the same result at the task, on the task's device."""
    there, state = moved(args), State(args)
    with np.errstate(all="ignore"):
        want = function(*[map_arrays(ef.asarray, a) for a in args], **kwargs)
        state.restore()
        with ef.device(DEVICE):
            got = function(*there, **kwargs)
    devices: set[str] = set()
    map_type(AbstractArray, lambda x: devices.add(str(x.device)), (there, got))
    if case.name not in MOVING:
        assert devices <= {DEVICE}
    for g, w in zip(leaves(got), leaves(want), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "O":
            assert g.tolist() == w.tolist()
        else:
            wide = np.complex128 if w.dtype.kind in "cfV" else w.dtype  # bits of NaNs may differ
            np.testing.assert_array_equal(g.astype(wide), w.astype(wide))


def check(case: OpCase, dtype: str) -> None:
    args = arguments(case, dtype, layout_of(case))
    run(case, function_of(case), args, **case.kwargs)


def check_traced(case: OpCase, dtype: str) -> None:
    args = arguments(case, dtype, layout_of(case))
    with np.errstate(all="ignore"):
        call_traced(function_of(case), moved(args), case.kwargs)


def check_slopes(case: OpCase) -> None:
    dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
    args = arguments(case, dtype, layout_of(case))
    run(case, gradient(function_of(case), case.grad, case.kwargs, 1), args)


@pytest.mark.parametrize("part", range(4))
def test_values(part: int) -> None:
    check_each(((c, one_of_each_kind(c)[0]) for c in ALL_CASES[part::4]), check)


@pytest.mark.parametrize("part", range(2))
def test_gradients(part: int) -> None:
    check_each(one_of_each_function(SMOOTH)[part::2], check_slopes)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_gradients(part: int) -> None:
    check_each(SMOOTH[part::4], check_slopes)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_traced(part: int) -> None:
    cases = [c for c in ALL_CASES if not c.untraceable][part::4]
    check_each(((c, one_of_each_kind(c)[0]) for c in cases), check_traced)
