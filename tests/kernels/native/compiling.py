"""Helpers of the tests of native kernels: targets, arrays, layouts, comparisons of bits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import compiled, pool
from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.interpreter import DTYPES
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.loop_form import Kind, Loops
from eagerflow_kernels.native.loop_text import show
from eagerflow_kernels.native.processors import NoCompilerError, best_target, targets
from eagerflow_kernels.native.thread_pool import WORTH


def _missing() -> str | None:
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed"
    try:
        best_target()
    except NoCompilerError as error:
        return str(error)
    return None


MISSING = _missing()
#: mark of tests that run machine code
needs_compiler = pytest.mark.skipif(
    MISSING is not None, reason=f"NATIVE KERNELS ARE NOT TESTED HERE: {MISSING}"
)
TARGETS = targets() if MISSING is None else ("x86-64-v4", "x86-64-v3")


def same(x: Any, y: Any) -> bool:
    """Whether two arrays have the same bits, apart from the bits of NaNs."""
    a, b = np.asarray(x), np.asarray(y)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    bits = f"u{a.dtype.itemsize}"
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return bool(np.array_equal(nan, np.isnan(b)) and np.all(equal | nan))


def layouts(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The same elements in several layouts, by name."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2][..., : x.shape[-1]] = x
    return {
        "C": np.ascontiguousarray(x),
        "F": np.asfortranarray(x),
        "negative": np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        "rows reversed": np.ascontiguousarray(x[::-1])[::-1],
        "apart": wide[..., 1::2][..., : x.shape[-1]],
    }


def elements(rng: np.random.Generator, kind: Kind, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Random elements; floats with zeros, infinities, NaN and subnormal numbers among them."""
    dtype = np.dtype(DTYPES[kind])
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if kind in ("i32", "i64"):
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, x, x % 7).astype(dtype)
    with np.errstate(all="ignore"):
        x = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
        tiny = np.finfo(dtype).smallest_subnormal
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny * 3, 1e-40, 1.0], dtype)
    chosen = rng.choice(special, shape)
    return np.where(rng.random(shape) < 0.1, chosen, x).astype(dtype)


_MXCSR = """
define i32 @read() {
  %m = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %m)
  %x = load i32, ptr %m
  ret i32 %x
}
define void @write(i32 %x) {
  %m = alloca i32
  store i32 %x, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  ret void
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""


class FloatState:
    """The floating-point control and status word of this thread."""

    def __init__(self) -> None:
        self._code = MachineCode(machine_code(_MXCSR, best_target()))
        self.read = ctypes.PYFUNCTYPE(ctypes.c_uint32)(self._code.address("read"))
        self.write = ctypes.PYFUNCTYPE(None, ctypes.c_uint32)(self._code.address("write"))


def run(loops: Loops, *arrays: Any, target: Any = None) -> tuple[Any, ...]:
    """The outputs of loops compiled for a target."""
    outputs = _compiled_once(loops, show(loops), target)(*arrays)
    return outputs if isinstance(outputs, tuple) else (outputs,)


@lru_cache(maxsize=16)
def _compiled_once(loops: Loops, text: str, target: Any) -> np.ufunc:
    """Loops as a function; the text tells 0.0 from -0.0 in loops that are equal otherwise."""
    return compiled(loops, target)


def shared(function: np.ufunc, given: Sequence[Any], threads: int) -> Any:
    """The results of a call that several threads share, even if it is small."""
    everything = pool()
    before = everything.threads
    everything.threads = threads
    everything.share_from(0)
    try:
        return function(*given)
    finally:
        everything.threads = before
        everything.share_from(WORTH)
