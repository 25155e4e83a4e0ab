"""Conversion to tensors of the values that users pass for arrays."""

from __future__ import annotations

import array as stdlib_array
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.to_tensor import scalar
from eagerflow.hardware import as_device
from tests.messages import says


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, "bool[]"),
        (3, "i64[]"),
        (2.5, "f32[]"),
        (1j, "c64[]"),
        ([1, 2], "i64[2]"),
        ([1.0, 2], "f32[2]"),
        ([[True], [False]], "bool[2,1]"),
        ([], "f32[0]"),
        ([[], []], "f32[2,0]"),
        ([1, 2j], "c64[2]"),
        ((1, 2), "i64[2]"),
        (range(3), "i64[3]"),
        (np.float64(2.0), "f64[]"),
        ([np.float64(2.0)], "f64[1]"),
        (np.arange(3, dtype=np.int16), "i16[3]"),
        (np.ones(2, ml_dtypes.bfloat16), "bf16[2]"),
        (stdlib_array.array("d", [1.0]), "f64[1]"),
        (memoryview(b"ab"), "u8[2]"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_types_of_values(value: object, type_: str) -> None:
    assert str(ef.tensor(value).type) == f"{type_}@cpu:0"
    assert str(ef.asarray(value).type) == f"{type_}@cpu:0"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([[1, 2], [3]], errors.TensorValueError),
        ("text", errors.DTypeError),
        (None, errors.DTypeError),
        ({1: 2}, errors.DTypeError),
        (Fraction(1, 2), errors.DTypeError),
        (np.array(["a"]), errors.DTypeError),
        (2**70, errors.TensorValueError),
        ([2**70], errors.TensorValueError),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__),
)
def test_what_is_no_array_is_refused(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        ef.tensor(value)


def test_lists_of_tensors_are_stacked_and_differentiable() -> None:
    a, b = ef.tensor(1.0), ef.tensor(2.0)
    assert ef.tensor([a, b, 3.0]).tolist() == [1.0, 2.0, 3.0]
    ga, gb = ef.grad(lambda a, b: (ef.tensor([a, b]) * ef.tensor([10.0, 20.0])).sum(), (0, 1))(a, b)
    assert (ga.item(), gb.item()) == (10.0, 20.0)


def test_variables_are_arrays() -> None:
    v = ef.Variable([1.0, 2.0])
    assert ef.asarray(v).tolist() == [1.0, 2.0]
    assert (v + 1).tolist() == [2.0, 3.0]
    assert (1 - v).tolist() == [0.0, -1.0]
    assert ef.exp(v).shape == (2,)


def test_copy_false_never_copies() -> None:
    array = np.ones(3, np.float32)
    assert np.shares_memory(ef.asarray(array, copy=False).numpy(), array)
    for value, changes in ((array, {"dtype": ef.int8}), ([1.0], {}), (1.0, {})):
        with pytest.raises(ValueError, check=says("cop")):
            ef.asarray(value, copy=False, **changes)


@pytest.mark.parametrize(("value", "dtype"), [(300, ef.int8), (-1, ef.uint8), (2**63, ef.int64)])
def test_numbers_that_do_not_fit_raise(value: int, dtype: ef.types.DType) -> None:
    with pytest.raises(errors.TensorValueError, match="does not fit"):
        scalar(value, as_device("cpu:0").lanes[dtype])


def test_equal_numbers_do_not_share_an_identity() -> None:
    """Otherwise a tape that watches one of them would follow the other."""
    a, b = ef.tensor(2.0), ef.tensor(2.0)
    with ef.GradientTape() as tape:
        tape.watch(a)
        y = a * 3.0 + b * 5.0
    assert [g if g is None else g.item() for g in tape.gradient(y, [a, b])] == [3.0, None]


def test_zero_keeps_its_sign() -> None:
    lane = as_device("cpu:0").lanes[ef.float32]
    assert np.signbit(scalar(-0.0, lane).numpy())
    assert not np.signbit(scalar(0.0, lane).numpy())
    assert scalar(True, as_device("cpu:0").lanes[ef.bool]).dtype is ef.bool


@pytest.mark.parametrize(
    ("data", "dtype", "words"),
    [
        ([2**63, -1], None, "9223372036854775808 does not fit into int64"),
        ([2**63, 1], None, "9223372036854775808 does not fit into int64"),
        ([[1], [2**64]], None, "18446744073709551616 does not fit into int64"),
        ([2**63], "int64", "9223372036854775808 does not fit into int64"),
        ([2**64], "uint64", "18446744073709551616 does not fit into uint64"),
        ([-1], "uint8", "-1 does not fit into uint8"),
        ([300], "int8", "300 does not fit into int8"),
        ([10**400], None, "an integer of 1329 bits does not fit into int64"),
        ([10**400, 1.0], None, "an integer of 1329 bits does not fit into float32"),
        ([10**400], "float32", "an integer of 1329 bits does not fit into float32"),
        ([2**20000], None, "an integer of 20001 bits does not fit into int64"),
    ],
)
def test_integers_that_do_not_fit(data, dtype, words) -> None:
    with pytest.raises(errors.TensorValueError) as caught:
        ef.tensor(data, dtype)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_large_integers_that_fit() -> None:
    assert ef.tensor([2**63], dtype=ef.uint64).tolist() == [2**63]
    assert ef.tensor([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]
    assert ef.tensor([10**30, 0.5]).dtype is ef.float32
    assert ef.tensor([2**70, 1j]).dtype is ef.complex64
    assert ef.tensor([10**30], dtype=ef.bfloat16).dtype is ef.bfloat16
    assert ef.tensor([2.0**63, -1.0]).dtype is ef.float32
    assert ef.asarray([np.uint64(2**63)]).dtype is ef.uint64


def test_messages_do_not_show_hundreds_of_digits() -> None:
    for act in (
        lambda: ef.tensor([1.0]) + 2**2000,
        lambda: ef.full(2, 2**20000),
        lambda: ef.tensor(2**20000),
    ):
        with pytest.raises(errors.TensorValueError, match=r"an integer of \d+ bits") as caught:
            act()
        assert len(str(caught.value)) < 300


def test_masked_arrays_do_not_lose_their_mask_silently() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for make in (ef.tensor, ef.asarray):
        with pytest.raises(errors.DTypeError, match=r"array\.filled"):
            make(masked)


def test_bytes_in_the_order_of_another_machine_are_turned() -> None:
    array = np.array([1.0, 2.5], dtype=">f8")
    for make in (ef.tensor, ef.asarray):
        assert make(array).dtype is ef.float64
        assert make(array).tolist() == [1.0, 2.5]


def test_numbers_too_large_for_the_default_dtype_are_infinite() -> None:
    for value in ([1e300, -1e300], (1e300 + 0j, 1j), 1e300):
        assert np.isinf(ef.asarray(value).numpy()).any()
