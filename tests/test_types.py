"""Dtypes, promotion and shapes."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.types import (
    DTYPES,
    DType,
    TensorType,
    as_dtype,
    broadcast_shapes,
    default_dtype,
    promote_dtypes,
)


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_is_found_by_every_name(name: str) -> None:
    dtype = DTYPES[name]
    short = name if dtype.short in ("i8", "u8") else dtype.short
    for other in (dtype, name, short, dtype.dtype, dtype.type):
        assert as_dtype(other) is dtype
        assert dtype == other
    assert hash(dtype) == hash(dtype.dtype)
    assert getattr(ef, name) is dtype
    assert np.zeros(2, dtype).dtype == dtype.dtype


def test_python_types_name_the_defaults() -> None:
    assert [as_dtype(t).name for t in (bool, int, float, complex)] == [
        "bool",
        "int64",
        "float32",
        "complex64",
    ]


@pytest.mark.parametrize("bad", ["float33", None, [], object(), np.dtype("datetime64[s]"), "O"])
def test_what_is_no_dtype_is_refused(bad: object) -> None:
    with pytest.raises(errors.DTypeError, match="is not a dtype"):
        as_dtype(bad)


@pytest.mark.parametrize("name", ["i8", "u8"])
def test_names_that_numpy_reads_otherwise_are_refused(name: str) -> None:
    with pytest.raises(errors.DTypeError, match="ambiguous"):
        as_dtype(name)


def test_dtypes_differ_from_other_things() -> None:
    assert ef.float32 != ef.float64
    assert ef.float32 != "float64"
    assert ef.float32 != 3
    assert ef.float32 != None


STANDARD_KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                  "float32", "float64", "complex64", "complex128")  # fmt: skip


PAIRS = list(itertools.combinations_with_replacement(STANDARD_KINDS, 2))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promotion_is_the_standards(a: str, b: str) -> None:
    """NumPy promotes alike within a kind; across kinds the standard leaves the result open."""
    kinds = {DTYPES[a].category, DTYPES[b].category}
    signs = {"signed integer", "unsigned integer"}
    if kinds == signs and "uint64" in (a, b):
        with pytest.raises(errors.DTypeError, match="no common dtype"):
            promote_dtypes(DTYPES[a], DTYPES[b])
        return
    got = promote_dtypes(DTYPES[a], DTYPES[b])
    assert got is promote_dtypes(DTYPES[b], DTYPES[a])
    if kinds & signs and kinds - signs - {"bool"}:  # an integer with a floating dtype
        assert got.name == (b if DTYPES[a].is_integer else a)
    else:
        assert got.dtype == np.promote_types(a, b)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "complex64", "complex64"),
        ("float16", "float64", "float64"),
        ("float8_e5m2", "float16", "float16"),
        ("int64", "bfloat16", "bfloat16"),
        ("bool", "float8_e4m3fn", "float8_e4m3fn"),
        ("float64", "complex64", "complex128"),
    ],
)
def test_promotion_beyond_the_standard(a: str, b: str, want: str) -> None:
    assert promote_dtypes(DTYPES[a], DTYPES[b]).name == want
    assert promote_dtypes(DTYPES[b], DTYPES[a]).name == want


def test_two_kinds_of_float8_have_no_common_dtype() -> None:
    with pytest.raises(errors.DTypeError, match=r"convert one with \.astype"):
        promote_dtypes(ef.float8_e4m3fn, ef.float8_e5m2)


def test_promotion_is_associative_where_defined() -> None:
    for a, b, c in itertools.product(DTYPES.values(), repeat=3):
        try:
            left = promote_dtypes(promote_dtypes(a, b), c)
            right = promote_dtypes(a, promote_dtypes(b, c))
        except errors.DTypeError:
            continue
        if {a.category, b.category, c.category} >= {"signed integer", "unsigned integer"}:
            continue  # int64 with uint64 has no common dtype, whichever pair meets first
        if {a.name, b.name, c.name} >= {"float16", "bfloat16"}:
            continue  # their common dtype is wider than both
        assert left is right, (a, b, c)


def test_broadcasting_follows_numpy() -> None:
    shapes = [(), (1,), (3,), (2, 1), (2, 3), (0,), (1, 0), (4, 1, 3)]
    for a, b in itertools.product(shapes, repeat=2):
        try:
            want = np.broadcast_shapes(a, b)
        except ValueError:
            with pytest.raises(errors.ShapeError, match="cannot be broadcast"):
                broadcast_shapes(a, b)
        else:
            assert broadcast_shapes(a, b) == want


def test_types_print_one_way() -> None:
    kind = TensorType(ef.float32, (8, 128))
    assert str(kind) == repr(kind) == "f32[8,128]"
    assert str(kind.on("gpu:0")) == repr(kind.on("gpu:0")) == "f32[8,128]@gpu:0"
    assert str(kind.on(None)) == "f32[8,128]"
    assert repr(TensorType(ef.bool, ())) == "bool[]"
    assert str(ef.zeros(1, dtype=ef.bfloat16).type) == "bf16[1]@cpu:0"


def test_a_type_knows_its_sizes() -> None:
    t = TensorType(ef.float64, (2, 3))
    assert (t.ndim, t.size, t.nbytes) == (2, 6, 48)
    assert t.like(shape=(1,), dtype=ef.int8) == TensorType(ef.int8, (1,))


def test_a_spec_is_a_type_and_a_device() -> None:
    spec = TensorType(ef.float64, (2, 3)).on("cpu:0")
    assert (spec.dtype, spec.shape, spec.device) == (ef.float64, (2, 3), "cpu:0")
    assert (spec.ndim, spec.size, spec.nbytes) == (2, 6, 48)
    assert spec.like(shape=(1,), dtype=ef.int8) == TensorType(ef.int8, (1,)).on("cpu:0")
    assert spec != spec.type.on("cpu:1")
    assert ef.ones((2, 3), dtype=ef.float64).type == spec.type.on(ef.hardware.as_device("cpu:0"))


def test_default_dtypes() -> None:
    assert default_dtype("real floating") is ef.float32
    assert default_dtype("complex floating") is ef.complex64


def test_low_precision_dtypes_are_those_of_ml_dtypes() -> None:
    assert ef.bfloat16.dtype == np.dtype(ml_dtypes.bfloat16)
    assert not ef.bfloat16.is_native
    assert ef.float16.is_native


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_the_kind_is_numpys_letter(dtype: DType) -> None:
    if dtype.is_native:
        assert dtype.kind == dtype.dtype.kind
    else:
        assert (dtype.kind, dtype.category) == ("f", "real floating")
    assert (dtype.kind in "iu") == dtype.is_integer
