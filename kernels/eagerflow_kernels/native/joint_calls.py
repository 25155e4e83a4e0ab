"""Joint calls: one kernel on several sets of arrays, such as an update of all parameters.

A function of NumPy takes two microseconds for the arrays of one update of Adam, most of it to find
facts that are known when a graph is compiled. A joint call only checks its arrays against these
facts, in machine code, and runs the kernel on one set after the other. It writes into arrays that
have no other references; all other cases are left to the function of NumPy.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import numpy as np
from ml_dtypes import bfloat16

from eagerflow_kernels.native.callable_ops import joint_call_code
from eagerflow_kernels.native.fusion import NativeRegion
from eagerflow_kernels.native.llvm.joint_call_code import (
    ARRAY,
    CHECK,
    CHECK_SIZE,
    PLAN,
    PLAN_SIZE,
)
from eagerflow_kernels.native.loop_form import BYTES, Kind

_WORD: Final = 8
#: flags of arrays in NumPy's headers
_BY_ROWS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_DTYPES: Final[dict[Kind, Any]] = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
    "f16": np.float16, "bf16": bfloat16,
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class JointOperand:
    """The known facts about an array of a joint call.

    Attributes:
        size: number of elements: as many as its set has, or one.
        times: number of its occurrences in its set, if the kernel writes into it; else 0.
    """

    size: int
    times: int


@final
class JointCall:
    """A kernel without an inner axis, to be called on several sets of arrays at once.

    Args:
        region: the kernel.
        sets: the operands of each set, inputs first.

    Attributes:
        run: ``run(arrays)``, with the arrays of all sets, one after the other, returns whether the
            kernel ran on them. The caller ensures that no other thread is in the same call.
    """

    __slots__ = ("run",)

    def __init__(self, region: NativeRegion, sets: Sequence[Sequence[JointOperand]]) -> None:
        arrays = (*region.loops.inputs, *region.loops.outputs)
        kinds = [array.kind for array in arrays]
        total = len(sets) * len(kinds)
        sizes = {
            "pointers": total * _WORD, "steps": total * _WORD, "counts": len(sets) * _WORD,
            "checks": total * CHECK_SIZE,
        }  # fmt: skip
        plan = np.zeros((PLAN_SIZE + sum(sizes.values())) // _WORD, np.int64)
        first = int(plan.ctypes.data)
        code, python = joint_call_code(), ctypes.pythonapi
        words = {
            "sets": len(sets), "operands": len(kinds), "kernel": region.entry.address,
            "data": region.entry.data, "type": id(np.ndarray),
            "item": _address(python.PyList_GetItem), "save": _address(python.PyEval_SaveThread),
            "restore": _address(python.PyEval_RestoreThread),
        }  # fmt: skip
        at = PLAN_SIZE
        parts = dict[str, Any]()
        for name, size in sizes.items():
            words[name] = first + at
            parts[name] = plan[at // _WORD : (at + size) // _WORD]
            at += size
        for name, word in words.items():
            plan[PLAN[name] // _WORD] = word
        checks = parts["checks"].reshape(total, -1)
        dtypes = [np.dtype(_DTYPES[kind]) for kind in kinds]
        for s, operands in enumerate(sets):
            count = parts["counts"][s] = max(operand.size for operand in operands)
            for i, (operand, dtype) in enumerate(zip(operands, dtypes, strict=True)):
                place = s * len(kinds) + i
                parts["steps"][place] = BYTES[kinds[i]] if operand.size == count else 0
                check = checks[place]
                check[CHECK["dtype"] // _WORD] = id(dtype)
                check[CHECK["size"] // _WORD] = operand.size
                flags = _BY_ROWS | _ALIGNED | (_WRITEABLE if operand.times else 0)
                check[CHECK["flags"] // _WORD] = flags
                check[CHECK["references"] // _WORD] = (
                    operand.times and 1 + operand.times
                )  # of its variable, and of the list
        call = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.py_object)(
            code.address("joint_call")
        )
        #: objects whose addresses are in the plan live as long as the function
        kept = plan, dtypes, code, region

        def run(arrays: list[Any], _kept: object = kept) -> int:
            made: int = call(first, arrays)
            return made

        self.run: Callable[[list[Any]], int] = run


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


@cache
def is_possible() -> bool:
    """Whether arrays have the memory layout that the code of joint calls assumes."""
    if ctypes.sizeof(ctypes.c_void_p) != _WORD or sys.byteorder != "little":
        return False
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    whole = np.zeros((2, 3, 5), np.float32)
    part = whole[:, 1:]
    return all(_lies_so(x) for x in (whole, part))


def _lies_so(x: np.ndarray[Any, Any]) -> bool:
    def word(name: str, of: Any) -> Any:
        return of.from_address(id(x) + ARRAY[name]).value

    shape = (ctypes.c_int64 * x.ndim).from_address(word("shape", ctypes.c_void_p) or 0)
    return (
        word("type", ctypes.c_void_p) == id(type(x))
        and word("data", ctypes.c_void_p) == x.ctypes.data
        and word("ndim", ctypes.c_int32) == x.ndim
        and tuple(shape) == x.shape
        and (word("base", ctypes.c_void_p) or 0) == (0 if x.base is None else id(x.base))
        and word("dtype", ctypes.c_void_p) == id(x.dtype)
        and word("flags", ctypes.c_int32) == x.flags.num
    )
