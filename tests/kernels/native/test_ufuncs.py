"""Functions of NumPy made of machine code: their lifetime, and their operands."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import compiled, native_ufunc
from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.llvm.compiler import machine_code
from eagerflow_kernels.native.llvm.module import render
from eagerflow_kernels.native.op_rules import loops_of
from eagerflow_kernels.native.processors import best_target
from eagerflow_kernels.native.ufuncs import ufunc_of
from tests.kernels.native.compiling import TARGETS, needs_compiler


class _Code:
    """Stands for machine code that a function keeps alive."""


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
    multiply = native_ufunc("multiply", "f32", "f32", target=target)
    assert multiply(np.ones(3, np.float32), 2.5).dtype == np.float32


_FORKED = """
import os, sys
import numpy as np
from eagerflow_kernels.native.loop_form import LoopArray
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.callable_ops import pool
region = NativeRegion(fuse("f", [LoopArray("f32")], [FusedNode("exp", (0,))], [1]))
x = np.ones(100_000, np.float32)
pool().threads = 3
pool().share_from(0)
expected = region.ufunc(x)
assert pool().workers() == 2
child = os.fork()
assert child or pool().workers() == 0
same = bool((region.ufunc(x) == expected).all()) and pool().workers() == 2
if child == 0:
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)
"""


@needs_compiler
def test_a_child_made_by_fork_has_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKED], timeout=60, check=False)
    assert done.returncode == 0


_FORKED_WHILE_COMPILING = """
import os, threading, time
import numpy as np
from eagerflow_kernels.native import callable_ops
from eagerflow_kernels.native.llvm import compiler
callable_ops.shipped = lambda target: None
compile, inside = compiler.machine_code, threading.Event()
def machine_code(text, target):
    inside.set()
    time.sleep(0.3)  # the fork waits for a lock by now
    return compile(text, target)
compiler.machine_code = machine_code
makes = threading.Thread(target=lambda: callable_ops.native_ufunc("exp", "f32"))
makes.start()
inside.wait()
child = os.fork()
if child == 0:
    os._exit(0 if callable_ops.native_ufunc("square", "f32")(np.float32(3)) == 9 else 1)
makes.join()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_compiler
def test_a_fork_waits_for_a_compilation_that_goes_on() -> None:
    environment = {**os.environ, "EAGERFLOW_CACHE": os.devnull}
    command = [sys.executable, "-c", _FORKED_WHILE_COMPILING]
    done = subprocess.run(command, timeout=30, check=False, env=environment)
    assert done.returncode == 0


_SIGNALLED = """
import os, signal
import numpy as np
from eagerflow_kernels.native.callable_ops import native_ufunc, pool
pool().threads = 3
pool().share_from(0)
native_ufunc("exp", "f32")(np.ones(100_000, np.float32))
assert pool().workers() == 2
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}).name)
"""


@needs_compiler
def test_signals_are_for_the_threads_of_python() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED], timeout=60, check=True, capture_output=True, text=True
    )
    assert done.stdout == "SIGUSR1\n"


_WITHOUT = """
import os, sys
sys.modules["llvmlite"] = None
os.environ["EAGERFLOW_CACHE"] = os.devnull
from eagerflow_kernels.native.processors import NoCompilerError
from eagerflow_kernels.native.callable_ops import native_ufunc
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


_LIMITED = """
import threadpoolctl
import eagerflow as ef
ef.config(kernels="native", threads=3)
ef.exp(ef.tensor(1.0))
from eagerflow_kernels.native.callable_ops import pool
from eagerflow_kernels.native.thread_pool import usable_cores
seen = [pool().threads]
with threadpoolctl.threadpool_limits(1):
    seen.append(pool().threads)
with ef.config(threads=2):
    seen.append(pool().threads)
seen.append(pool().threads)
ef.config(threads=None)
print(seen, pool().threads == usable_cores())
"""


@needs_compiler
def test_threads_are_limited() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED], timeout=60, check=True, capture_output=True, text=True
    )
    assert done.stdout == "[3, 1, 2, 3] True\n"


@needs_compiler
def test_a_process_ends_while_workers_sleep_and_work() -> None:
    code = """
import os, threading
import numpy as np
from eagerflow_kernels.native.callable_ops import native_ufunc, pool
pool().threads = 4
pool().share_from(0)
x = np.ones(3_000_000, np.float32)
exp = native_ufunc("exp", "f32")
exp(x)
threading.Thread(target=lambda: [exp(x) for _ in range(1000)], daemon=True).start()
exp(x)
"""
    for end in ("", "os._exit(0)"):
        done = subprocess.run([sys.executable, "-c", code + end], timeout=60, check=False)
        assert done.returncode == 0
