"""Creation of arrays: sharing and copying of memory, defaults, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

# --- values and memory ----------------------------------------------------------------------


def test_tensor_always_copies() -> None:
    array = np.arange(3.0)
    x = ef.tensor(array)
    y = ef.tensor(x)
    array[0] = 7
    assert x.tolist() == y.tolist() == [0, 1, 2]
    assert y is not x
    assert not np.shares_memory(x.numpy(), y.numpy())


@pytest.mark.parametrize("value", [2, 2.0, True, 1j, [1, 2], np.float32(3), np.arange(3)])
def test_two_tensors_of_one_value_are_two_values(value: object) -> None:
    assert not np.shares_memory(ef.tensor(value).numpy(), ef.tensor(value).numpy())


def test_asarray_shares_memory_and_sees_changes() -> None:
    array = np.arange(4.0)
    x = ef.asarray(array)
    array[1] = 7
    assert x.tolist() == [0, 7, 2, 3]
    assert np.shares_memory(array, x.numpy())


def test_arrays_shared_twice_are_two_values() -> None:
    array = np.ones(2)
    x, y = ef.asarray(array), ef.asarray(array)
    gx, gy = ef.grad(lambda a, b: (a * 2 + b * 3).sum(), argnums=(0, 1))(x, y)
    assert (gx.tolist(), gy.tolist()) == ([2, 2], [3, 3])
    assert x._data is not y._data


def test_reshaping_a_shared_array_in_place_does_not_reach_the_tensor() -> None:
    array = np.arange(4)
    x = ef.asarray(array)
    array.resize((2, 2), refcheck=False)
    assert x.shape == (4,)


def test_asarray_gives_a_tensor_back() -> None:
    x = ef.tensor([1.0, 2.0])
    assert ef.asarray(x) is x
    assert ef.asarray(x, copy=False) is x
    assert ef.asarray(x, dtype=ef.float32, device="cpu:0") is x
    assert ef.asarray(x, copy=True) is not x
    assert not np.shares_memory(ef.asarray(x, copy=True).numpy(), x.numpy())


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ([1, 2], {}),
        (1.5, {}),
        (np.arange(2), {"dtype": ef.float32}),
        (ef.tensor([1.0]), {"dtype": ef.float64}),
        (ef.tensor([1.0]), {"device": "null:0"}),
    ],
)
def test_copy_false_refuses_what_needs_a_copy(value: object, options: dict[str, object]) -> None:
    with pytest.raises(errors.TensorValueError):
        ef.asarray(value, copy=False, **options)


def test_lists_that_hold_tensors_are_stacked() -> None:
    x = ef.tensor(2.0, dtype=ef.float64)
    assert ef.tensor([[x, 1], [0.1, x]]).tolist() == [[2, 1], [0.1, 2]]  # numbers are weak
    assert ef.tensor([x, 1], dtype=ef.int8).dtype is ef.int8
    grad = ef.grad(lambda v: (ef.tensor([v, 3.0, v]) * ef.tensor([1.0, 1.0, 5.0])).sum())
    assert grad(ef.tensor(2.0)).item() == 6.0


def test_copies_carry_gradients() -> None:
    for function in (ef.tensor, ef.copy, lambda v: ef.asarray(v, copy=True)):
        assert ef.grad(lambda v, f=function: (f(v) * 3).sum())(ef.tensor([1.0])).tolist() == [3]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: ef.zeros(2), "float32"),
        (lambda: ef.ones(2), "float32"),
        (lambda: ef.empty(2), "float32"),
        (lambda: ef.eye(2), "float32"),
        (lambda: ef.linspace(0, 1, 3), "float32"),
        (lambda: ef.linspace(0, 1j, 3), "complex64"),
        (lambda: ef.logspace(0, 1, 3), "float32"),
        (lambda: ef.arange(3), "int64"),
        (lambda: ef.arange(3.0), "float32"),
        (lambda: ef.arange(0, 3, 0.5), "float32"),
        (lambda: ef.full(2, True), "bool"),
        (lambda: ef.full(2, 1), "int64"),
        (lambda: ef.full(2, 1.0), "float32"),
        (lambda: ef.full(2, 1j), "complex64"),
        (lambda: ef.full(2, np.float64(1)), "float64"),
        (lambda: ef.full(2, ef.tensor(1, dtype=ef.int8)), "int8"),
        (lambda: ef.full_like(ef.tensor([1], dtype=ef.uint8), 3), "uint8"),
        (lambda: ef.zeros_like(ef.tensor([1]), dtype="f16"), "float16"),
    ],
)
def test_dtypes_when_none_is_said(make: object, dtype: str) -> None:
    assert make().dtype.name == dtype


# --- shapes and devices ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [3, (3,), [3], np.int32(3), ef.tensor(3), ef.tensor([3]), (np.uint8(3),)]
)
def test_what_a_shape_may_be(shape: object) -> None:
    assert ef.zeros(shape).shape == (3,)


@pytest.mark.parametrize("function", [ef.zeros, ef.ones, ef.empty, lambda s: ef.full(s, 1)])
def test_shapes_that_are_none(function: object) -> None:
    with pytest.raises(errors.ShapeError, match="cannot be negative"):
        function((2, -1))
    for bad in (2.0, (1, 2.5), "ab", None):
        with pytest.raises(errors.DTypeError, match="integer"):
            function(bad)


def test_devices() -> None:
    with ef.config(cpu_devices=2):
        x = ef.ones(2, device="cpu:1")
        assert x.device == "cpu:1"
        assert ef.zeros_like(x).device == ef.full_like(x, 2).device == "cpu:1"
        assert ef.zeros_like(x, device="cpu:0").device == "cpu:0"
        assert ef.tensor(x).device == ef.asarray(x).device == "cpu:1"
        assert ef.full(2, x[0]).device == "cpu:1"
        assert ef.linspace(x[0], 3, 2).device == "cpu:1"
        with ef.device("cpu:1"):
            assert ef.arange(3).device == ef.tensor([1]).device == ef.eye(2).device == "cpu:1"
    with pytest.raises(errors.DeviceError):
        ef.zeros(2, device="cpu:9")


def test_null_devices_hold_types_only() -> None:
    for x in (
        ef.zeros((2, 3), device="null:0"),
        ef.tril(ef.full((2, 3), 1.0, device="null:0")),
        ef.tensor(np.ones((2, 3), np.float32), device="null:0"),
        ef.eye(2, 3, device="null:0"),
    ):
        assert str(x.type) == "f32[2,3]@null:0"
    assert ef.arange(10, device="null:0").shape == (10,)
    assert ef.linspace(0, 1, 4, device="null:0").shape == (4,)


# --- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 300), ("uint8", -1), ("int64", 2**63), ("uint64", 2**64)],
)
def test_numbers_that_do_not_fit(dtype: str, value: int) -> None:
    with pytest.raises(errors.TensorValueError):
        ef.full(2, value, dtype=dtype)
    with pytest.raises(errors.TensorValueError):
        ef.tensor(value, dtype=dtype)


def test_complex_numbers_need_a_complex_dtype() -> None:
    with pytest.raises(errors.DTypeError, check=says("complex")):
        ef.full(2, 1j, dtype=ef.float32)
    with pytest.raises(errors.DTypeError, check=says("complex")):
        ef.linspace(0, 1j, 3, dtype=ef.float32)
    assert ef.full(2, 1j, dtype=ef.bool).tolist() == [True, True]


def test_full_broadcasts_an_array() -> None:
    assert ef.full((2, 2), ef.tensor([1, 2])).tolist() == [[1, 2], [1, 2]]
    with pytest.raises(errors.ShapeError, check=says("broadcast")):
        ef.full((2, 2), ef.tensor([1, 2, 3]))


def test_large_integers_stay_exact() -> None:
    big = 2**63
    assert ef.arange(big, big + 3, dtype=ef.uint64).tolist() == [big, big + 1, big + 2]
    assert ef.arange(2**53, 2**53 + 3).tolist() == [2**53, 2**53 + 1, 2**53 + 2]


def test_arange_takes_numbers_of_any_kind() -> None:
    for n in (3, np.int16(3), ef.tensor(3), np.array(3)):
        assert ef.arange(n).dtype is ef.int64
        assert ef.arange(n).tolist() == [0, 1, 2]
    assert ef.arange(True).tolist() == [0]
    assert ef.arange(np.float32(2.0)).dtype is ef.float32


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ((0, 3, 0), errors.TensorValueError),
        ((0, math.inf), errors.TensorValueError),
        ((math.nan,), errors.TensorValueError),
        ((1j,), errors.DTypeError),
        (("a",), errors.DTypeError),
        ((None,), errors.DTypeError),
        ((ef.tensor([1, 2]),), errors.DTypeError),
    ],
)
def test_ranges_that_are_none(args: tuple[object, ...], kind: type[Exception]) -> None:
    with pytest.raises(kind, check=says("arange")):
        ef.arange(*args)


def test_arange_has_no_bools_or_complex_numbers() -> None:
    for dtype in (ef.bool, ef.complex64):
        with pytest.raises(errors.DTypeError, check=says("arange")):
            ef.arange(3, dtype=dtype, device="null:0")
        with pytest.raises(errors.DTypeError, check=says("arange")):
            ef.arange(3, dtype=dtype)


@pytest.mark.parametrize("dtype", [ef.float32, ef.float64, ef.bfloat16])
def test_linspace_hits_both_ends(dtype: object) -> None:
    for start, stop in ((0.1, 0.7), (-1e30, 1e30), (3, 3)):
        x = ef.linspace(start, stop, 37, dtype=dtype)
        ends = ef.tensor([start, stop], dtype=dtype)
        assert ef.equal(ef.stack([x[0], x[-1]]), ends).all()
        y = ef.linspace(ef.tensor(start, dtype=dtype), stop, 37)
        assert y.dtype is dtype
        assert ef.equal(ef.stack([y[0], y[-1]]), ends).all()


def test_linspace_along_a_new_axis() -> None:
    x = ef.linspace(ef.tensor([0, 10]), ef.tensor([1, 30]), 3)
    assert x.tolist() == [[0, 10], [0.5, 20], [1, 30]]
    assert ef.linspace(ef.tensor(0), 7, 3, dtype=ef.int8).tolist() == [0, 3, 7]
    assert ef.linspace(0, 1, 0).shape == (0,)
    with pytest.raises(errors.ShapeError, match="negative"):
        ef.linspace(0, 1, -1)


def test_logspace_of_tensors_carries_gradients() -> None:
    g = ef.grad(lambda a: ef.logspace(a, 1.0, 2).sum())(ef.tensor(0.0, dtype=ef.float64))
    assert g.item() == pytest.approx(math.log(10))


def test_meshgrid() -> None:
    assert ef.meshgrid() == ()
    (only,) = ef.meshgrid(ef.tensor([1, 2]))
    assert only.tolist() == [1, 2]
    assert [x.shape for x in ef.meshgrid(ef.zeros(2), ef.zeros(3), 5)] == [(3, 2, 1)] * 3
    with pytest.raises(errors.TensorValueError, check=says("indexing")):
        ef.meshgrid(ef.zeros(2), indexing="yx")
    with pytest.raises(errors.ShapeError, match="vectors"):
        ef.meshgrid(ef.zeros((2, 2)))


def test_matrices() -> None:
    with pytest.raises(errors.ShapeError, match="negative"):
        ef.eye(-1)
    for function in (ef.tril, ef.triu):
        with pytest.raises(errors.ShapeError, match="at least two axes"):
            function(ef.zeros(3))
        with pytest.raises(errors.DTypeError, match="k must be an integer"):
            function(ef.zeros((2, 2)), k=0.5)


@pytest.mark.parametrize("shape", [(10**9,) * 3, (10**30,), 10**13])
def test_sizes_that_no_memory_holds(shape) -> None:
    with pytest.raises(errors.OutOfMemoryError, match="zeros: out of memory"):
        ef.zeros(shape)
