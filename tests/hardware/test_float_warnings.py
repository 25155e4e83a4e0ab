"""NumPy's warnings: eager code names the user's line, and graphs run without warnings."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import KernelError
from eagerflow_kernels import table

ONES = ef.ones(2, dtype=ef.int32)
ZEROS = ef.zeros(2, dtype=ef.int32)
LARGE = ef.full((2, 2), 3e38)
INFINITE = ef.tensor([complex(np.inf, 0)])

PROGRAMS: dict[str, Callable[[], ef.Tensor]] = {
    "divide by zero encountered in floor_divide": lambda: ONES // ZEROS,
    "divide by zero encountered in remainder": lambda: ef.remainder(ONES, ZEROS),
    "invalid value encountered in cast": lambda: (LARGE * np.inf).astype(ef.int32),
    "overflow encountered in cast": lambda: ef.tensor([1e300], dtype=ef.float64).astype(ef.float32),
    "overflow encountered in matmul": lambda: LARGE @ LARGE,
    "overflow encountered in einsum": lambda: ef.einsum("ij,jk->ik", LARGE, LARGE),
    "invalid value encountered in multiply": lambda: INFINITE * INFINITE,
}
each = pytest.mark.parametrize(("text", "program"), PROGRAMS.items(), ids=PROGRAMS.keys())


@each
def test_eagerly_at_the_users_line(text: str, program: Callable[[], ef.Tensor]) -> None:
    for _ in range(2):  # in the second run operators call the remembered kernel
        with pytest.warns(RuntimeWarning, match=text) as caught:
            program()
        (one,) = caught
        assert (one.filename, one.lineno) == (__file__, program.__code__.co_firstlineno)


@each
def test_not_in_graphs(text: str, program: Callable[[], ef.Tensor]) -> None:
    traced = ef.trace(program)
    for _ in range(2):  # warnings are errors
        assert traced().shape in {(2,), (1,), (2, 2)}, text


def test_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            _ = ONES // ZEROS
        _ = ONES // ZEROS
    assert len(caught) == 2


def test_a_nan_names_the_way_to_find_it() -> None:
    with pytest.warns(RuntimeWarning, match=r"in multiply\n  hint: .*check_nan=True"):
        _ = INFINITE * INFINITE


def test_the_state_of_the_program_is_kept() -> None:
    with np.errstate(divide="ignore"):
        _ = ONES // ZEROS
    with np.errstate(divide="raise"), pytest.raises(KernelError, match="FloatingPointError"):
        _ = ONES // ZEROS
    before = np.seterr(divide="print")
    np.seterr(**before)  # the same settings in another state of NumPy's
    with pytest.warns(RuntimeWarning) as caught:
        _ = ONES // ZEROS
    assert caught[0].filename == __file__
    assert np.geterr() == {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
    assert np.geterrcall() is None


def test_warnings_as_errors_tell_of_the_op() -> None:
    before = inspect.currentframe()
    assert before is not None
    with pytest.raises(KernelError, match="divide by zero") as caught:
        _ = ONES // ZEROS
    assert f"{__file__}:{before.f_lineno - 1}" in str(caught.value)


def test_a_kernel_of_a_user_warns_where_it_is_written() -> None:
    row = ("sinh", "cpu", ("float32",))

    def mine(x: Any) -> Any:
        return np.divide(x, 0)

    table.special(*row)(mine)
    try:
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as caught:
            ef.sinh(ef.ones(2))
    finally:
        table.remove(*row)
    assert caught[0].lineno == mine.__code__.co_firstlineno + 1


def test_a_gradient_names_the_op_that_the_user_wrote() -> None:
    def loss(x: Any) -> Any:
        y = x @ LARGE
        return (y * 1e10).sum()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ef.value_and_grad(loss)(ef.ones((2, 2)))
    texts = [str(one.message) for one in caught]
    line = loss.__code__.co_firstlineno + 1
    inside = [text for text in texts if "in the gradient of" in text]
    assert inside
    assert "matmul_like" not in "".join(texts)
    assert f"encountered in the gradient of matmul, applied at {__file__}:{line} in " in inside[0]
    assert "y = x @ LARGE" in inside[0]
