"""Random draws by native kernels: equal to the words of the portable library, on any thread."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from eagerflow.types import DTYPES
from eagerflow_kernels import table
from eagerflow_kernels.native.callable_ops import compiled, native_kernel, pool
from eagerflow_kernels.native.draw_loops import DRAWS, draw_loops
from eagerflow_kernels.native.interpreter import interpret
from eagerflow_kernels.native.thread_pool import WORTH
from tests.kernels.native.compiling import TARGETS, needs_compiler, same, shared

pytestmark = needs_compiler

_KEYS: Final = (
    np.array([0, 0], np.uint64),
    np.array([2**64 - 1, 2**63 + 5], np.uint64),
    np.array([1234567890123456789, 77], np.uint64),
)
_COUNTS: Final = (0, 1, 2, 5, 31, 64, 511, 512, 1001, 70_001)


def _attributes(name: str, dtype: str) -> dict[str, Any]:
    digits = {"float32": 24, "float64": 53}
    return {"digits": digits[dtype]} if name == "random_uniform" else {}


def _drawn(name: str, key: Any, count: int, dtype: str, **more: Any) -> tuple[Any, Any]:
    """The draws of the native and of the portable library."""
    native = native_kernel(name, ("uint64",))
    portable = table.find(name, "cpu", ("uint64",), np)
    assert native is not None
    assert portable is not None
    attrs = {"shape": (count,), "dtype": DTYPES[dtype], **_attributes(name, dtype), **more}
    return native(key, **attrs), portable(key, **attrs)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("random_bits", "uint32"), ("random_bits", "uint64"), ("random_uniform", "float32"),
     ("random_uniform", "float64")],
)  # fmt: skip
def test_words_and_uniform_numbers_are_those_of_the_portable_library(name: str, dtype: str) -> None:
    for key, count in product(_KEYS, _COUNTS):
        native, portable = _drawn(name, key, count, dtype)
        assert same(native, portable)
    for stream in (0, 1, 3) if name == "random_bits" else ():
        native, portable = _drawn(name, _KEYS[2], 4000, dtype, stream=stream)
        assert same(native, portable)


@pytest.mark.parametrize(("dtype", "near"), [("float32", 4e-6), ("float64", 1e-14)])
def test_normal_numbers_are_near_those_of_the_portable_library(dtype: str, near: float) -> None:
    for key, count in product(_KEYS, _COUNTS):
        native, portable = _drawn("random_normal", key, count, dtype)
        assert native.dtype == portable.dtype
        assert np.abs(native - portable).max(initial=0) < near
    assert abs(native.mean()) < 0.02  # bounds for so many draws
    assert abs(native.std() - 1) < 0.01


def test_fewer_digits_are_drawn_by_the_portable_library() -> None:
    native, portable = _drawn("random_uniform", _KEYS[2], 3000, "float32", digits=8)
    assert same(native, portable)


def _blocks(count: int) -> tuple[Any, ...]:
    start = 2**40 - 3  # carries into the upper half of products
    return np.arange(start, start + count), *map(np.int64, (-7, 2**62 + 3, 1))


@pytest.mark.parametrize(("name", "kind"), DRAWS)
def test_neither_vectors_nor_threads_matter(name: str, kind: Any) -> None:
    loops = draw_loops(name, kind)
    functions = [compiled(loops, target, keep=True) for target in TARGETS]
    for count in (1, 5, 37):
        given = _blocks(count)
        expected = functions[0](*given)
        for function in functions[1:]:
            assert all(same(x, y) for x, y in zip(function(*given), expected, strict=True))
        if count == 5:
            rows = [np.broadcast_to(x, (count,)) for x in given]
            draws = interpret(loops, rows)
            assert all(same(x, y) for x, y in zip(draws, expected, strict=True))
    given = _blocks(3001)
    expected = functions[0](*given)
    for threads in (2, 4):
        draws = shared(functions[0], given, threads)
        assert all(same(x, y) for x, y in zip(draws, expected, strict=True))


def test_a_shorter_draw_is_the_beginning_of_a_longer_one() -> None:
    for name, dtype in (("random_uniform", "float32"), ("random_normal", "float64")):
        pool().share_from(0)
        try:
            long, _ = _drawn(name, _KEYS[2], 30_000, dtype)
        finally:
            pool().share_from(WORTH)
        for count in (10, 700, 29_999):
            assert same(_drawn(name, _KEYS[2], count, dtype)[0], long[:count])
