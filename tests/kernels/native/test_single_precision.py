"""Accuracy of the native functions of one float32, against float64."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from eagerflow_kernels.native.op_rules import OPS
from tests.exploring import EXPLORES
from tests.kernels.native.compiling import needs_compiler
from tests.kernels.native.single_precision import (
    COUNT,
    FUNCTIONS,
    Error,
    Function,
    every,
    largest_error,
    one_of_each,
)

pytestmark = needs_compiler

#: among so many neighbours the slow tests take one: 2**24 numbers, unless they take all
_BLOCK: Final = 1 if os.environ.get("EAGERFLOW_TEST_FLOATS") == "all" else COUNT // 2**24
#: ops whose results are no floats, or that only hand their operand on
_OTHERS: Final = {
    "logical_not", "isnan", "isinf", "isfinite", "cast", "broadcast_to", "expand_dims", "reshape",
    "squeeze",
}  # fmt: skip


def _check(function: Function, error: Error) -> None:
    assert error.ulps <= function.limit, (function.called, error.at.hex(), error.ulps)


def test_all_functions_are_compared() -> None:
    """Each op on single floats has a formula, for all values of its attributes."""
    ops = [op for op in OPS.values() if op.inputs == 1 and "f32" in op.kinds and not op.along_axis]
    compared = {function.name for function in FUNCTIONS.values()}
    assert compared == {op.name for op in ops} - _OTHERS
    for op in ops:
        for key, values in op.takes.items():
            formulas = [f for f in FUNCTIONS.values() if f.name == op.name]
            assert {f.attributes[key] for f in formulas} == set(values)


@pytest.mark.parametrize("called", FUNCTIONS)
def test_some_numbers(called: str) -> None:
    function = FUNCTIONS[called]
    # odd, so that low bits of all kinds occur
    _check(function, largest_error(function, every(function.count, 2**13 - 1)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("called", FUNCTIONS)
def test_numbers_of_all_exponents(called: str) -> None:
    """2**24 of them, other ones each time; all 2**32 with ``EAGERFLOW_TEST_FLOATS=all``."""
    function = FUNCTIONS[called]
    rng = np.random.default_rng(None if EXPLORES else 0)
    _check(function, largest_error(function, one_of_each(_BLOCK, function.count, rng)))


@pytest.mark.parametrize(
    ("called", "end", "begin"),
    [
        ("silu_f32_1", -0.1, -1.2),  # 5.4 ulp at -0.9 as a sum of rounded terms
        ("silu_f32_1", -1.4, -100.0),
        ("gelu_f32_tanh_1", 2.0, 3.0),  # 2.02 ulp where the square of the tanh was rounded
    ],
)
def test_slopes_keep_their_digits_where_terms_cancel(called: str, end: float, begin: float) -> None:
    """In ulps of the result, whatever the size of the terms; SiLU's root is left out."""
    first, last = np.array([end, begin], np.float32).view(np.uint32)
    x = np.arange(first, last, 97, dtype=np.uint32).view(np.float32)
    _check(FUNCTIONS[called], largest_error(replace(FUNCTIONS[called], size=None), [x]))


def test_numbers_one_of_each_block() -> None:
    """Each block of bit patterns has one number, whatever their exponent and sign."""
    chunks = [*one_of_each(2**12, COUNT, np.random.default_rng(0))]
    bits = np.concatenate(chunks).view(np.uint32)
    assert np.array_equal(bits >> 12, np.arange(2**20))
    assert len({*(bits % 2**12).tolist()}) > 4000


@pytest.mark.parametrize(
    ("wrong", "worst"),
    [(lambda x: x * np.float32(1 + 2**-22), 3.0), (lambda x: np.nextafter(x, np.float32(9)), 1.0)],
)
def test_errors_are_noticed(wrong: Callable[[Any], Any], worst: float) -> None:
    function = Function("abs", lambda x: wrong(x.astype(np.float32)).astype(np.float64))
    error = largest_error(function, [np.array([1.5, 0.0, 3.0], np.float32)])
    assert error.ulps == worst
