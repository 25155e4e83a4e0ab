"""Conversion between dtypes and devices, and the predicates and limits of dtypes."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.types import DTYPES
from tests.each import check_each
from tests.messages import says

# --- conversion -----------------------------------------------------------------------------


def test_astype_copies_unless_told_not_to() -> None:
    x = ef.tensor([1.0, 2.0])
    same = ef.astype(x, ef.float32)
    assert same is not x
    assert not np.shares_memory(same.numpy(), x.numpy())
    assert ef.astype(x, ef.float32, copy=False) is x
    assert ef.astype(x, ef.float64, copy=False).dtype is ef.float64


def test_astype_moves_as_well() -> None:
    with ef.config(cpu_devices=2):
        x = ef.astype(ef.tensor([1.5]), ef.int32, device="cpu:1")
        assert str(x.type) == "i32[1]@cpu:1"
        assert x.tolist() == [1]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.startswith(("complex", "bool"))])
def test_complex_numbers_do_not_become_real(dtype: str) -> None:
    with pytest.raises(errors.DTypeError, match=r"ef\.real"):
        ef.astype(ef.tensor([1j]), dtype)


def test_complex_numbers_become_bools() -> None:
    assert ef.astype(ef.tensor([0j, 1j, 1 + 0j]), ef.bool).tolist() == [False, True, True]


def test_every_dtype_becomes_every_other() -> None:
    check_each(itertools.product(DTYPES, DTYPES), _becomes)


def _becomes(source: str, target: str) -> None:
    x = ef.tensor([0, 1], dtype=source)
    if x.dtype.is_complex and not (DTYPES[target].is_complex or target == "bool"):
        return
    y = ef.astype(x, target)
    assert y.dtype.name == target
    assert y.numpy().astype(np.complex128).tolist() == [0, 1]


def test_gradients_pass_between_floating_dtypes() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        return (x.astype(ef.float64) * 3).astype(ef.complex64).sum().real

    g = ef.grad(f)(ef.tensor([1.0, 2.0]))
    assert g.dtype is ef.float32
    assert g.tolist() == [3, 3]


def test_to_device() -> None:
    with ef.config(cpu_devices=2):
        x = ef.tensor([1.0, 2.0])
        assert ef.to_device(x, "cpu:0") is x
        y = x.to("cpu:1")
        assert y.device == "cpu:1"
        assert np.shares_memory(x.numpy(), y.numpy())  # virtual CPUs copy nothing
        with pytest.raises(errors.DeviceError, match="different devices"):
            x + y
        g = ef.grad(lambda v: (v.to_device("cpu:1") * 2).sum().to("cpu:0"))(x)
        assert g.device == "cpu:0"
        assert g.tolist() == [2, 2]
    assert str(x.to("null:3").type) == "f32[2]@null:3"
    with pytest.raises(errors.DeviceError):
        x.to("cpu:7")
    with pytest.raises(errors.DeviceError, match="no values"):
        x.to("null:0").to("cpu:0")


# --- promotion ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ((ef.int8, ef.uint8), ef.int16),
        ((ef.float32, ef.float64), ef.float64),
        ((ef.float32, ef.complex64), ef.complex64),
        ((ef.float64, ef.complex64), ef.complex128),
        ((ef.int64, ef.float16), ef.float16),
        ((ef.int8, 3), ef.int8),
        ((3, ef.int8), ef.int8),
        ((ef.int8, 3.5), ef.float32),
        ((ef.float64, 1j), ef.complex128),
        ((ef.bfloat16, 1.5, 2), ef.bfloat16),
        ((ef.bool, True), ef.bool),
        ((ef.bool, 1), ef.int64),
        ((ef.tensor([1], dtype=ef.int8), ef.int16), ef.int16),
        ((np.ones(2, np.float32), np.int8), ef.float32),
        ((np.float64(1.0), ef.float32), ef.float64),
        ((np.dtype("float16"), "float32"), ef.float32),
        ((ef.float32,), ef.float32),
    ],
)
def test_result_type(args: tuple[object, ...], want: object) -> None:
    assert ef.result_type(*args) is want


def test_result_type_needs_an_array_or_a_dtype() -> None:
    for args in ((), (1, 2.0)):
        with pytest.raises(errors.DTypeError, match="at least one"):
            ef.result_type(*args)
    with pytest.raises(errors.DTypeError, match="no common dtype"):
        ef.result_type(ef.int64, ef.uint64)
    with pytest.raises(errors.DTypeError):
        ef.result_type(ef.int64, "nonsense")


def test_can_cast_follows_promotion() -> None:
    assert ef.can_cast(ef.int8, ef.int16)
    assert ef.can_cast(ef.tensor([1.0]), ef.float64)
    assert ef.can_cast(ef.bool, ef.float32)
    assert ef.can_cast(ef.uint8, "int16")
    assert not ef.can_cast(ef.float64, ef.float32)
    assert not ef.can_cast(ef.complex64, ef.float64)
    assert not ef.can_cast(ef.int64, ef.uint64)
    assert not ef.can_cast(ef.float8_e5m2, ef.float8_e4m3fn)
    with pytest.raises(errors.DTypeError):
        ef.can_cast(ef.int8, "nonsense")


# --- kinds and limits -----------------------------------------------------------------------


def test_isdtype() -> None:
    assert ef.isdtype(ef.bfloat16, "real floating")
    assert ef.isdtype(ef.uint8, ("bool", "unsigned integer"))
    assert ef.isdtype(ef.uint8, (ef.float32, ef.uint8))
    assert ef.isdtype(np.dtype("int8"), "numeric")
    assert not ef.isdtype(ef.bool, "numeric")
    assert not ef.isdtype(ef.int8, ())
    with pytest.raises(errors.TensorValueError, match="kind"):
        ef.isdtype(ef.int8, "number")
    with pytest.raises(errors.DTypeError):
        ef.isdtype("nonsense", "bool")


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.is_integer])
def test_iinfo(name: str) -> None:
    info, want = ef.iinfo(name), np.iinfo(name)
    assert (info.bits, info.min, info.max) == (want.bits, want.min, want.max)
    assert info.dtype is DTYPES[name]
    assert ef.iinfo(ef.zeros(1, dtype=name)) == info


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.is_floating])
def test_finfo(name: str) -> None:
    info = ef.finfo(name)
    kind = DTYPES[name].dtype.type
    assert info.dtype is DTYPES[name]
    assert info.bits == 8 * DTYPES[name].itemsize
    assert all(type(v) is float for v in (info.eps, info.max, info.min, info.smallest_normal))
    assert float(kind(1 + info.eps)) == 1 + info.eps
    assert float(kind(1 + info.eps / 4)) == 1
    assert info.min == -info.max
    assert float(kind(info.max)) == info.max
    assert math.frexp(info.smallest_normal)[0] == 0.5
    assert ef.finfo(ef.zeros(1, dtype=name)) == info
    assert ef.finfo(np.zeros(1, DTYPES[name].dtype)) == info


def test_limits_of_components_and_refusals() -> None:
    assert ef.finfo(ef.complex64) == ef.finfo(ef.float32)
    assert ef.finfo(ef.complex128) == ef.finfo(ef.float64)
    assert ef.finfo(ml_dtypes.bfloat16).dtype is ef.bfloat16
    with pytest.raises(errors.DTypeError, check=says("finfo")):
        ef.finfo(ef.int8)
    with pytest.raises(errors.DTypeError, check=says("iinfo")):
        ef.iinfo(ef.float32)


# --- the namespace --------------------------------------------------------------------------


def test_namespace_info() -> None:
    info = ef.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() == "cpu:0"
    assert info.devices() == tuple(ef.devices())
    assert info.default_dtypes()["real floating"] is ef.float32
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {
        "bool",
        "complex64",
        "complex128",
    }
    assert len(info.dtypes()) == 13
    with pytest.raises(errors.DeviceError):
        info.dtypes(device="cpu:9")
    with pytest.raises(errors.TensorValueError):
        info.dtypes(kind="number")


def test_array_namespace() -> None:
    x = ef.tensor([1])
    assert x.__array_namespace__() is ef
    assert x.__array_namespace__(api_version="2024.12") is ef
    assert x.__array_namespace__(api_version="2025.12") is ef
    assert ef.__array_api_version__ == "2025.12"
    with pytest.raises(errors.TensorValueError, check=says("version")):
        x.__array_namespace__(api_version="2019.01")


def test_largest_number_of_axes() -> None:
    most = ef.__array_namespace_info__().capabilities()["max dimensions"]
    assert ef.zeros((1,) * most).ndim == most
    with pytest.raises(errors.EagerflowError):
        ef.zeros((1,) * (most + 1))


def test_constants() -> None:
    assert (ef.pi, ef.e, ef.inf) == (math.pi, math.e, math.inf)
    assert math.isnan(ef.nan)
    assert ef.newaxis is None
    assert ef.bool is DTYPES["bool"]
