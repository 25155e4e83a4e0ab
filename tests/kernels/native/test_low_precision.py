"""float16 and bfloat16: conversion as NumPy's, and rounding after each op of a region."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

from eagerflow.types import DTYPES
from eagerflow_kernels.native.callable_ops import (
    half_cast,
    is_native_kernel,
    native_kernel,
    native_ufunc,
)
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.interpreter import interpret
from eagerflow_kernels.native.loop_form import LOW, Kind, LoopArray, LoopBuilder, Loops
from tests.kernels.native.compiling import TARGETS, elements, needs_compiler, same

pytestmark = needs_compiler

_DTYPES: Final[dict[str, Any]] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
_EVERY: Final = np.arange(2**16, dtype=np.uint16)


def _cast(given: Kind, made: Kind) -> Loops:
    b = LoopBuilder([LoopArray(given)])
    return b.build(f"{given}_{made}", [b.apply("convert", b.load(0), kind=made)])


def _same_low(x: Any, y: Any) -> bool:
    """Whether bits are equal, apart from NaNs; also for bfloat16, which has no kind of floats."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    a, b = x.astype("f4"), y.astype("f4")
    bits = x.view("u2") == y.view("u2")
    return bool(np.all(bits | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("kind", LOW)
def test_every_number_is_widened(kind: Any) -> None:
    x = _EVERY.view(_DTYPES[kind])
    for target in TARGETS:
        region = NativeRegion(_cast(kind, "f32"), target=target)
        assert same(region(x), x.astype(np.float32))
        assert same(region(x[::-3]), x[::-3].astype(np.float32))


@pytest.mark.parametrize("kind", LOW)
def test_numbers_are_rounded_to_even(kind: Any) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(0, 2**32, 4099, dtype=np.uint32).view(np.float32)
    # between neighbours: in the middle, just below and just above
    with np.errstate(all="ignore"):
        low = _EVERY.view(_DTYPES[kind]).astype(np.float32)
        next_one = (_EVERY + np.uint16(1)).view(_DTYPES[kind]).astype(np.float32)
        middle = (low.astype(np.float64) + next_one) / 2
        middle = middle.astype(np.float32)
    x = np.concatenate([
        every, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(9e9)),
        elements(rng, "f32", (999,)),
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        expected = x.astype(_DTYPES[kind])
    for target in TARGETS:
        assert _same_low(NativeRegion(_cast("f32", kind), target=target)(x), expected)
    few = slice(None, None, 1009)
    (numbers,) = interpret(_cast("f32", kind), [x[few]])
    assert _same_low(numbers, expected[few])


def test_casts_of_float16_that_eager_code_calls() -> None:
    x = _EVERY.view(np.float16)
    for given, names in ((x, LOW), (x.astype(np.float32), ("float16", "bool", "int64"))):
        cast = native_kernel("cast", (given.dtype.name,))
        assert cast is not None
        assert is_native_kernel("cast", cast)
        for name in ("float32", "float64", *names):
            wanted = {"f16": "float16", "bf16": "bfloat16"}.get(name, name)
            finite = given[np.isfinite(given)].reshape(2, -1)[:, ::-1]
            result = cast(finite, dtype=DTYPES[wanted])
            assert np.array_equal(result, finite.astype(DTYPES[wanted].dtype))
            assert result.dtype == DTYPES[wanted].dtype
            assert isinstance(cast(np.asarray(finite[0, 0]), dtype=DTYPES[wanted]), np.ndarray)
    assert same(half_cast("widen")(x), x.astype(np.float32))
    assert _same_low(half_cast("narrow")(x.astype(np.float32)), x)


@pytest.mark.parametrize("kind", LOW)
@pytest.mark.parametrize("inner", [False, True])
def test_a_region_rounds_after_each_op(kind: Any, inner: bool) -> None:
    rng = np.random.default_rng(1)
    dtype = _DTYPES[kind]
    arrays = [LoopArray(kind, inner), LoopArray(kind, inner)]
    nodes = [
        FusedNode("multiply", (0, 1), rounds=kind),
        FusedNode("add", (2, 0), rounds=kind),
        FusedNode("tanh", (3,), rounds=kind),
        FusedNode("less", (3, 4)),
    ]
    outputs = [4, 5]
    if inner:
        nodes.append(FusedNode("sum", (4,), rounds=kind))
        outputs.append(6)
    loops = fuse("low", arrays, nodes, outputs)
    for shape, target in product(((3, 17), (5, 130), (40, 3)), TARGETS):
        with np.errstate(all="ignore"):
            x, y = (elements(rng, "f32", shape).astype(dtype) for _ in range(2))
        region = NativeRegion(loops, target=target)
        f32 = [a.astype(np.float32) for a in (x, y)]
        with np.errstate(all="ignore"):  # of NumPy's casts
            square = native_ufunc("multiply", "f32", "f32")(*f32).astype(dtype)
            total = native_ufunc("add", "f32", "f32")(square.astype("f4"), f32[0]).astype(dtype)
            made = native_ufunc("tanh", "f32")(total.astype("f4")).astype(dtype)
        results = region(x, y)
        assert _same_low(results[0], made)
        assert np.array_equal(results[1], total.astype("f4") < made.astype("f4"))
        if inner:
            summed = native_ufunc("sum", "f32")(made.astype("f4")).astype(dtype)
            assert _same_low(results[2], summed)
        places = (np.zeros(shape, dtype)[:, ::-1], *[None] * (len(outputs) - 1))
        again = region.function(x, y, out=places)
        assert _same_low(np.ascontiguousarray(places[0]), made)
        assert again[0].dtype == dtype
