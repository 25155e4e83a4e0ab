"""Functions of NumPy made of machine code: what keeps them, and what they take."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from eagerflow_kernels.native.calls import compiled, native_ufunc
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.mapping import MachineCode
from eagerflow_kernels.native.library import loops_of
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.processors import best_target
from eagerflow_kernels.native.ufuncs import ufunc_of
from tests.kernels.native.compiling import TARGETS, needs_compiler


class _Code:
    """Stands for machine code that is kept."""


@needs_compiler
def test_code_lives_as_long_as_its_function_and_no_longer() -> None:
    loops = loops_of("square", "f32")
    code = MachineCode(machine_code(render(loops, best_target()), best_target()))
    kept = _Code()
    dies = weakref.ref(kept)
    function = ufunc_of(loops.signature, code.address(loops.name), kept)
    del kept
    gc.collect()
    assert dies() is not None
    assert function(np.float32(3)) == 9
    assert function.__name__ == "square_f32"
    del function
    gc.collect()
    assert dies() is None


@needs_compiler
def test_functions_that_are_dropped_leave_memory_as_it_was() -> None:
    def made(count: int) -> int:
        for _ in range(count):
            assert compiled(loops_of("square", "f32"))(np.float32(2)) == 4
        gc.collect()
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = made(60)
    assert made(120) - before < 8 << 20  # a module alone takes more than 100 KB


@needs_compiler
def test_a_function_is_made_once_and_is_private() -> None:
    assert native_ufunc("exp", "f32") is native_ufunc("exp", "f32")
    assert native_ufunc("exp", "f32") is not native_ufunc("exp", "f64")
    assert not any(value is native_ufunc("exp", "f32") for value in vars(np).values())


@needs_compiler
def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="exp_f32"):
        native_ufunc("exp", "f32")(np.ones(3))


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_of_python_are_weak(target: str) -> None:
    multiply = native_ufunc("multiply", "f32", "f32", target=target)  # type: ignore[arg-type]  # a target
    assert multiply(np.ones(3, np.float32), 2.5).dtype == np.float32


_FORKED = """
import os, sys
import numpy as np
from eagerflow_kernels.native.form import LoopArray
from eagerflow_kernels.native.regions import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.threads import call_split
region = NativeRegion(fuse("f", [LoopArray("f32")], [FusedNode("exp", (0,))], [1]))
x = np.ones(100_000, np.float32)
expected = call_split(region.ufunc, [x], 2)
child = os.fork()
same = bool((call_split(region.ufunc, [x], 2) == expected).all())
if child == 0:
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)
"""


@needs_compiler
def test_a_child_made_by_fork_has_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKED], timeout=60, check=False)
    assert done.returncode == 0


_WITHOUT = """
import os, sys
sys.modules["llvmlite"] = None
os.environ["EAGERFLOW_CACHE"] = os.devnull
from eagerflow_kernels.native.processors import NoCompilerError
from eagerflow_kernels.native.calls import native_ufunc
try:
    native_ufunc("exp", "f32")
except NoCompilerError as error:
    print(error)
"""


def test_without_llvmlite_an_error_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT], timeout=60, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "this needs llvmlite (pip install 'eagerflow[native]')"
