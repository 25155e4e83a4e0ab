"""Promotion of operands: dtypes, weak Python numbers, devices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import get_op
from eagerflow.ops.rules.promotion import floating, pair, promote, promote_floating, promoted_dtype
from tests.messages import says

_STANDARD = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "float32", "float64", "complex64", "complex128")  # fmt: skip
_INTEGERS = [n for n in _STANDARD if "int" in n]


def _shared(a: str, b: str) -> bool:
    """Whether the standard defines a common dtype of both."""
    inexact = ("float", "complex")
    if "uint64" in (a, b) and (a.startswith("int") or b.startswith("int")):
        return False
    return a.startswith(inexact) == b.startswith(inexact) and (a == "bool") == (b == "bool")


@pytest.mark.parametrize(
    ("a", "b"), [p for p in itertools.product(_STANDARD, repeat=2) if _shared(*p)]
)
def test_dtypes_of_a_kind_promote_as_numpy_does(a: str, b: str) -> None:
    x, y = promote(ef.ones(2, dtype=a), ef.ones(2, dtype=b))
    assert x.dtype is y.dtype
    assert x.dtype == np.promote_types(a, b)


@pytest.mark.parametrize("integer", ["bool", *_INTEGERS])
@pytest.mark.parametrize("inexact", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_integers_take_the_floating_dtype(integer: str, inexact: str) -> None:
    total = ef.ones(2, dtype=integer) + ef.ones(2, dtype=inexact)
    assert total.dtype.name == inexact


def test_no_common_dtype() -> None:
    with pytest.raises(ef.errors.DTypeError, match="no common dtype"):
        ef.ones(2, dtype=ef.int64) + ef.ones(2, dtype=ef.uint64)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("int8", 1, "int8"),
        ("uint8", 200, "uint8"),
        ("int8", 1.0, "float32"),
        ("int64", 1.5, "float32"),
        ("bool", 1, "int64"),
        ("bool", True, "bool"),
        ("bool", 1.0, "float32"),
        ("float16", 1.0, "float16"),
        ("bfloat16", 2, "bfloat16"),
        ("float8_e5m2", 2.0, "float8_e5m2"),
        ("float32", 1j, "complex64"),
        ("float64", 1j, "complex128"),
        ("float64", 0.1, "float64"),
        ("int32", 1j, "complex64"),
        ("complex64", 0.5, "complex64"),
    ],
)
def test_python_numbers_are_weak(dtype: str, number: Any, expected: str) -> None:
    x = ef.ones(3, dtype=dtype)
    for total in (ef.add(x, number), ef.add(number, x), x + number, number + x):
        assert total.dtype.name == expected


def test_weak_floats_keep_the_precision_of_the_tensor() -> None:
    assert (ef.ones((), dtype=ef.float64) * 0.1).item() == 0.1


def test_numbers_alone_get_the_default_dtypes() -> None:
    assert [promoted_dtype([v]).name for v in (True, 1, 1.0, 1j)] == [
        "bool", "int64", "float32", "complex64",
    ]  # fmt: skip
    assert ef.add(1, 2.5).dtype is ef.float32


def test_numpy_scalars_are_not_weak() -> None:
    assert (ef.ones(2, dtype=ef.float32) + np.float64(1)).dtype is ef.float64


def test_numpy_arrays_keep_their_dtype() -> None:
    assert ef.add(ef.ones(2), np.ones(2)).dtype is ef.float64
    assert ef.add(np.ones(2, np.int8), ef.ones(2, dtype=ef.int8)).dtype is ef.int8


@pytest.mark.parametrize("number", [300, -1, 10**30])
def test_an_integer_that_does_not_fit_is_refused(number: int) -> None:
    x = ef.ones(2, dtype=ef.uint8)
    for call in (lambda: x + number, lambda: ef.add(x, number), lambda: ef.add(number, x)):
        with pytest.raises(ef.errors.TensorValueError, check=says("fit")):
            call()


def test_operands_of_one_lane_are_returned_as_they_are() -> None:
    x, y = ef.ones(2), ef.zeros(2)
    assert pair(x, y)[0] is x
    assert pair(x, y)[1] is y
    assert floating(x) is x
    assert promote_floating(x, y)[1] is y


def test_zeros_keep_their_sign() -> None:
    for zero in (0.0, -0.0, 0.0):
        assert math.copysign(1, ef.add(ef.tensor([-0.0]), zero)[0].item()) == math.copysign(1, zero)
        assert ef.copysign(ef.ones(1), zero).item() == math.copysign(1, zero)


def test_nan_is_a_weak_number() -> None:
    assert math.isnan(ef.add(ef.ones(1), math.nan).item())
    with pytest.raises(ef.errors.TensorValueError, match="fit"):
        promote(ef.ones(1, dtype=ef.int32), math.nan, dtype=ef.int32)


def test_other_arrays_go_to_the_device_of_the_tensor() -> None:
    with ef.config(cpu_devices=2):
        x = ef.ones(2, device="cpu:1")
        assert (x + 1).device.name == "cpu:1"
        assert ef.add(np.ones(2, np.float32), x).device.name == "cpu:1"
        with pytest.raises(ef.errors.DeviceError, match="different devices"):
            x + ef.ones(2, device="cpu:0")


def test_the_gradient_of_a_promoted_operand_has_its_own_dtype() -> None:
    x, y = ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0], dtype=ef.float64)
    gx, gy = ef.grad(lambda a, b: ef.sum(a * b), argnums=(0, 1))(x, y)
    assert (gx.dtype, gy.dtype) == (ef.float32, ef.float64)
    assert gx.tolist() == [3.0, 4.0]


def test_cast_of_a_complex_number() -> None:
    z = ef.tensor([1 + 2j, 0 + 1j, 0j])
    assert ef.astype(z, ef.bool).tolist() == [True, True, False]
    assert get_op("cast").precision == "exact"
