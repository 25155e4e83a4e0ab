"""The setting ``kernels``, each time in a process of its own, as it holds for a whole process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.hardware.kernel_library import in_force
from tests.fresh_process import output_of
from tests.kernels.native.compiling import needs_compiler

_SAME = """
import numpy as np
import eagerflow as ef
from eagerflow.hardware.kernel_library import in_force
ef.config(kernels="native")

def f(x, w, b):
    size = ef.log(ef.abs(x).mean(axis=(0, 1)))
    y = ef.tanh(x @ w) + 1 / ef.exp(x.sum(axis=1, keepdims=True)) + size
    z = ef.softmax(y + b, axis=0) - ef.sigmoid(ef.sqrt(y * y))
    z = ef.maximum(z + ef.logsumexp(y, axis=1, keepdims=True), 0.1)
    return z, z.max(axis=0), ef.log_softmax(z, axis=-1)

def g(*arrays):
    loss = lambda *a: sum(part.sum() for part in f(*a))
    return ef.value_and_grad(loss, argnums=(0, 1, 2))(*arrays)

def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, tuple) else [x]

draw = ef.random.Generator(0)
for dtype in ("float32", "float64", "bfloat16"):
    normal = [ef.random.normal(s, generator=draw) for s in ((30, 20), (20, 70), (70,))]
    arrays = [ef.astype(x, dtype) for x in normal]
    for function in (f, g):
        traced = ef.trace(function)
        eager = flat(function(*arrays))
        for _ in range(3):
            for x, y in zip(eager, flat(traced(*arrays)), strict=True):
                assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), (dtype, function)
print(in_force())
"""


@needs_compiler
def test_eager_and_traced_have_the_same_bits() -> None:
    assert output_of(_SAME) == "native\n"


_TRAINED = """
import numpy as np
import eagerflow as ef
ef.config(kernels="native")
x = ef.random.normal((40, 6), generator=ef.random.Generator(1))
labels = ef.tensor(np.arange(40) % 3)

def trained(trace, traced_from):
    model = ef.nn.Sequential(
        ef.nn.Linear(6, 16, generator=ef.random.Generator(2)), ef.tanh,
        ef.nn.Linear(16, 3, generator=ef.random.Generator(3)),
    )
    optimiser = ef.optim.Adam(model.trainable, lr=0.02)
    def loss():
        return -ef.log_softmax(model(x), axis=1)[ef.arange(40), labels].mean()
    fit = ef.value_and_grad(loss, wrt=model.trainable)
    def step():
        error, gradients = fit()
        optimiser.update(gradients)
        return error
    traced = ef.trace(step)
    return [float(traced() if trace and i >= traced_from else step()) for i in range(30)]

eager = trained(False, 0)
assert eager[-1] < 0.9 * eager[0]
assert trained(True, 0) == eager
assert trained(True, 13) == eager
print("same")
"""


@needs_compiler
def test_losses_do_not_depend_on_when_a_graph_takes_over() -> None:
    assert output_of(_TRAINED) == "same\n"


_NEAR = """
import numpy as np
import eagerflow as ef
ef.config(kernels="native")
x = np.linspace(-5, 5, 1001)
given = ef.tensor(x)
with np.errstate(all="ignore"):
    pairs = [
        (ef.exp(given), np.exp(x)), (ef.tanh(given), np.tanh(x)), (1 / given, 1 / x),
        (ef.sigmoid(given), 1 / (1 + np.exp(-x))), (ef.log(given), np.log(x)),
    ]
for found, exact in pairs:
    finite = np.isfinite(exact)
    error = np.abs(np.asarray(found)[finite] - exact[finite]) / np.spacing(np.abs(exact[finite]))
    assert error.max() <= 3, error.max()  # NumPy has errors of its own
try:
    ef.max(ef.zeros((0,)))
except ef.errors.EagerflowError as error:
    print(type(error).__name__)
"""


@needs_compiler
def test_results_are_near_those_of_numpy_and_errors_are_the_same() -> None:
    with pytest.raises(ef.errors.EagerflowError) as portable:
        ef.max(ef.zeros((0,)))
    assert output_of(_NEAR).split() == [type(portable.value).__name__]


_SETTLED = """
import eagerflow as ef
ef.config(kernels="{first}")
{op}
ef.config(kernels="{first}", check_nan=True)
try:
    ef.config(kernels="{second}")
except ef.errors.SettingError as error:
    print(error)
"""


@pytest.mark.parametrize("op", ["ef.exp(ef.tensor(1.0))", "ef.random.normal((3,))"])
@pytest.mark.parametrize("first", ["portable", pytest.param("native", marks=needs_compiler)])
def test_the_first_op_settles_it(first: str, op: str) -> None:
    second = "portable" if first == "native" else "native"
    text = output_of(_SETTLED.format(first=first, second=second, op=op))
    assert text.startswith(f"config: kernels is '{first}' for the rest of this process\n")
    assert f"restart, and call ef.config(kernels='{second}') first" in text


_NOT_THERE = """
import sys
sys.modules["llvmlite"] = None
import eagerflow as ef
from eagerflow.hardware import kernel_library
from eagerflow_kernels.native import processors, shipped_kernels
from pathlib import Path
shipped_kernels._FOLDER = Path("nowhere")
processors._flags = lambda: {flags}
processors.platform.machine = lambda: "x86_64"
try:
    ef.config(kernels="native")
except ef.errors.SettingError as error:
    print(str(error).splitlines()[0])
print(kernel_library.described())
print(ef.exp(ef.tensor(0.0)), kernel_library.in_force())
processors.targets = lambda: ("x86-64-v3",)
shipped_kernels.library_target = lambda: "x86-64-v3"
print(ef.exp(ef.tensor([0.0])), kernel_library.in_force())
"""


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("processors._V3", "this checkout has no native kernels, and needs llvmlite to make some"),
        ("frozenset({'sse2', 'avx'})", "native kernels need a processor with AVX2 and FMA"),
    ],
)
def test_a_machine_without_native_kernels_stays_with_portable_ones(
    flags: str, reason: str, tmp_path: Path
) -> None:
    lines = output_of(_NOT_THERE.format(flags=flags), tmp_path).splitlines()
    assert lines[0].startswith(f"config: {reason}")
    assert lines[1].startswith(f"portable; {reason}")
    assert lines[2:] == ["1. portable", "[1.] portable"]


@needs_compiler
def test_native_kernels_are_the_usual_ones() -> None:
    code = """
import sys
import eagerflow as ef
from eagerflow.hardware.kernel_library import in_force
def loaded():
    return [m for m in sys.modules if m.startswith(("llvmlite", "eagerflow_kernels.native"))]
print(loaded())
x = ef.arange(3) + 1
print(loaded())
ef.exp(ef.tensor(0.0))
print(in_force(), "eagerflow_kernels.native.callable_ops" in loaded())
"""
    assert output_of(code).splitlines() == ["[]", "[]", "native True"]


def test_it_is_no_setting_of_a_block() -> None:
    settings: Any = ef.config(kernels=in_force())
    with pytest.raises(ef.errors.SettingError, match="kernels is for the whole process"):
        settings.__enter__()
    with pytest.raises(ef.errors.SettingError, match="'auto' or 'native' or 'portable'"):
        ef.config(kernels="fast")


def test_a_kernel_of_the_user_goes_before() -> None:
    code = """
import numpy as np
import eagerflow as ef
from eagerflow_kernels import table
@table.special("exp", "cpu", ("float32",))
def exp(x):
    return np.full_like(x, 7)
print(ef.exp(ef.tensor(0.0)))
"""
    assert output_of(code) == "7.\n"


@needs_compiler
def test_a_kernel_of_the_user_goes_before_native_ones() -> None:
    code = """
import numpy as np
import eagerflow as ef
from eagerflow_kernels import table
ef.config(kernels="native")
print(ef.exp(ef.tensor(0.0)))
@table.special("exp", "cpu", ("float32",))
def exp(x):
    return np.full_like(x, 7)
print(ef.exp(ef.tensor(0.0)))
"""
    assert output_of(code) == "1.\n7.\n"


@needs_compiler
def test_a_function_of_numpy_that_a_user_registers_is_no_native_one() -> None:
    code = """
import numpy as np
import eagerflow as ef
from eagerflow_kernels import table
ef.config(kernels="native")
x, y = ef.tensor([1.0, np.nan, 3.0]), ef.tensor([2.0, 2.0, np.nan])
traced = ef.trace(lambda x, y: ef.maximum(x, y) * 2 + 1, compile="now")
print(ef.maximum(x, y), traced(x, y))
table.special("maximum", "cpu")(np.fmax)
table.special("exp", "cpu")(np.exp)
print(ef.maximum(x, y), traced(x, y))
z = np.linspace(-30, 30, 1001, dtype="f4")
other = ef.trace(lambda z: ef.exp(z) * 2 + 1, compile="now")
assert np.array_equal(ef.exp(ef.tensor(z)).numpy(), np.exp(z))
assert np.array_equal(other(ef.tensor(z)).numpy(), np.exp(z) * 2 + 1)
"""
    assert output_of(code) == "[ 2. nan nan] [ 5. nan nan]\n[2. 2. 3.] [5. 5. 7.]\n"


def test_nothing_of_it_is_loaded_with_portable_kernels() -> None:
    code = """
import sys
import eagerflow as ef
ef.config(kernels="portable")
ef.exp(ef.tensor(0.0))
print([m for m in sys.modules if m.startswith(("llvmlite", "eagerflow_kernels.native"))])
"""
    assert output_of(code) == "[]\n"


_HALVES = """
import numpy as np
import eagerflow as ef
ef.config(kernels="native")
x = np.arange(2**16, dtype=np.uint16).view(np.float16)
x = x[np.isfinite(x)]
t, u = ef.tensor(x), ef.tensor(x[::-1].copy())
with np.errstate(all="ignore"):
    wide = x.astype("f4"), x[::-1].astype("f4")
    expected = {
        "add": (t + u, wide[0] + wide[1]), "multiply": (t * u, wide[0] * wide[1]),
        "divide": (t / u, wide[0] / wide[1]), "sqrt": (ef.sqrt(t), np.sqrt(wide[0])),
        "abs": (ef.abs(t), np.abs(x)), "less": (t < u, x < x[::-1]),
    }
    for name, (found, exact) in expected.items():
        kind = bool if name == "less" else np.float16
        exact = exact.astype(kind)
        assert found.numpy().dtype == exact.dtype
        assert np.array_equal(found.numpy(), exact, equal_nan=name != "less"), name
    exact = np.exp(x.astype("f8")).astype("f2")
    near = np.abs(ef.exp(t).numpy().astype("f8") - exact)
    finite = np.isfinite(exact)
    print((near[finite] <= np.spacing(exact[finite])).all())
print(float(ef.sum(ef.full((5000,), 0.1, dtype="float16"))))
"""


@needs_compiler
def test_float16_is_computed_in_float32_and_rounded_once() -> None:
    assert output_of(_HALVES).split() == ["True", "500.0"]
