"""Timing of compilation; each test runs in a process of its own, with one kernel library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh_process import output_of
from tests.kernels.native.compiling import needs_compiler

pytestmark = needs_compiler

_BEGIN = """
import numpy as np
import eagerflow as ef
from eagerflow.runtime import background_compilation
"""
_NATIVE = _BEGIN + "ef.config(kernels='native')\n"


_MODES = (
    _NATIVE
    + """
x = ef.tensor([1.0, 2.0, 3.0])
for mode in ("off", "now", "background"):
    f = ef.trace(lambda x: ef.exp(x * 2 + 1) - x, compile=mode)
    first = f(x).numpy().tobytes()
    tier = f.latest().executable.tier
    if mode != "background":
        print(mode, tier.name)
    f.wait()
    while tier.region.trial is not None:
        assert f(x).numpy().tobytes() == first
    assert f(x).numpy().tobytes() == first
    best = tier.region.trial_ended and tier.region.trial_ended.best
    print(mode, tier.name == ("native" if best and best[0] <= 1.05 * best[1] else "generated"))
"""
)


def test_modes(tmp_path: Path) -> None:
    shown = output_of(_MODES, tmp_path)
    assert shown == "off generated\noff True\nnow native\nnow True\nbackground True\n"
    assert list((tmp_path / "kernels").iterdir())


_COUNTED = (
    _NATIVE
    + """
x = ef.tensor([1.0, 2.0, 3.0])
for mode in ("off", "background"):
    f = ef.trace(lambda x: ef.exp(x * 2 + 1) - x, compile=mode)
    begun = []
    for _ in range(7):
        f(x)
        f.explain()
        begun.append(f.latest().executable.compilation is not None)
    print(mode, begun.count(False))
f.wait()
print(str(f.explain()).count(" runs %"))
"""
)


def test_a_graph_is_compiled_once_it_has_run_five_times(tmp_path: Path) -> None:
    assert output_of(_COUNTED, tmp_path) == "off 7\nbackground 5\n1\n"


_TRAINED = (
    _NATIVE
    + """
import threading
from eagerflow.runtime.generated.generated_tier import RegionCode

begin, compile_region = threading.Event(), RegionCode.compile
def later(region, changed):
    begin.wait()
    compile_region(region, changed)
RegionCode.compile = later
F = ef.nn.functional

def losses(switch):
    begin.clear()
    ef.random.seed(0)
    model = ef.nn.Sequential(ef.nn.Linear(5, 16), ef.tanh, ef.nn.Linear(16, 3))
    adam = ef.optim.Adam(model.trainable, 1e-2)
    @ef.trace(compile="background")
    def step(x, y):
        with ef.GradientTape() as tape:
            loss = F.cross_entropy(model(x), y)
        adam.update(tape.gradient(loss, model.trainable))
        return loss
    x, y = ef.random.normal((20, 5)), ef.astype(ef.random.uniform((20,)) * 3, "int64")
    values = []
    for i in range(60):
        if i == switch:
            begin.set()
            step.wait()
        values.append(step(x, y).numpy().tobytes())
    begin.set()
    if switch < 60:
        assert step.latest().executable.tier.region.compiled.kernels
    return values

expected = losses(60)
for switch in np.random.default_rng(0).integers(1, 50, 3):
    assert losses(int(switch)) == expected, switch
print("same")
"""
)


_PARTS = (
    _BEGIN
    + """
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
ef.config(kernels="native", cpu_devices=2)

def across(x, y):
    with ef.device("cpu:0"):
        a = ef.exp(x) * 2 + 1
        b = ef.tanh(a * x) - y
    with ef.device("cpu:1"):
        return a, ef.softmax(ef.sigmoid(b) * 3 + b, axis=-1)

draw = ef.random.Generator(0)
x, y = (ef.random.normal((40, 30), generator=draw) for _ in range(2))
graph = ef.trace(across, compile="off").graph(x, y)
given = [x.numpy(), y.numpy()]
for tier in (ScheduledTier(graph, partitioned=True), ScheduledTier(graph)):
    def step():
        return [z.tobytes() for z in tier.run(given)]
    expected = step()
    done = background_compilation.Compilation(tier.regions, "now")
    done.begin(lambda: None)
    same = all(step() == expected for _ in range(15))
    print(tier.name, same, sum("runs" in line for line in done.report()))
traced = ef.trace(across, compile="now")
print(traced(x, y)[1].numpy().tobytes() == expected[1], str(traced.explain()).count(" runs %"))
"""
)


def test_parts_of_partitioned_and_scheduled_graphs_are_compiled(tmp_path: Path) -> None:
    assert output_of(_PARTS, tmp_path) == "partitioned True 2\nscheduled True 2\nTrue 2\n"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_long_training_runs(tmp_path: Path) -> None:
    code = _TRAINED.replace("losses(60)", "losses(500)").replace("range(60)", "range(500)")
    code = code.replace("switch < 60", "switch < 500").replace("(1, 50, 3)", "(1, 490, 10)")
    assert output_of(code, tmp_path) == "same\n"


def test_a_training_run_does_not_depend_on_when_its_kernels_come(tmp_path: Path) -> None:
    assert output_of(_TRAINED, tmp_path) == "same\n"


_FAILING = (
    _NATIVE
    + """
import warnings
from eagerflow.runtime.generated.generated_tier import RegionCode

def fail(region, changed):
    raise RuntimeError("no memory for code")
RegionCode.compile = fail
for _ in range(2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = ef.trace(lambda x: x * 2 + 1)
        f(ef.ones(2))
        f.wait()
        print(f(ef.ones(2)).numpy(), [(w.category.__name__, str(w.message)) for w in caught])
print("compiled: nothing: RuntimeError: no memory for code" in str(f.explain()))
"""
)


def test_a_failure_is_one_warning(tmp_path: Path) -> None:
    first, second, told, _ = output_of(_FAILING, tmp_path).split("\n")
    assert "CompileWarning" in first
    assert "no memory for code" in first
    assert first.startswith("[3. 3.] [")
    assert second == "[3. 3.] []"
    assert told == "True"


_PORTABLE = (
    _BEGIN
    + """
import sys
ef.config(kernels="portable")
f = ef.trace(lambda x: x * 2 + 1, compile="now")
f(ef.ones(2))
print(f.latest().executable.tier.name)
print([m for m in sys.modules if m.startswith(("llvmlite", "eagerflow_kernels.native"))])
"""
)


def test_portable_kernels_stay_portable(tmp_path: Path) -> None:
    assert output_of(_PORTABLE, tmp_path) == "generated\n[]\n"


_TOLD = (
    _NATIVE
    + """
w = ef.Variable([1.0, 2.0])
@ef.trace(compile="now")
def f(x):
    y = ef.exp(x) * 2
    w.assign_sub(y * 0.5)
    return ef.lgamma(y)
f(ef.ones(2))
for line in str(f.explain()).split("\\n"):
    if "compiled:" in line:
        print(line.partition("compiled: ")[2])
print(f.ir("loops").count("loops region_"), "define" in f.ir("llvm"), "region_" in f.ir("asm"))
"""
)


def test_it_tells_what_runs_where(tmp_path: Path) -> None:
    shown = output_of(_TOLD, tmp_path)
    assert "a kernel runs %exp, %multiply, %multiply_1, %assign_sub\n" in shown
    assert "alone: %lgamma: left to NumPy or BLAS\n" in "alone: " + shown.partition("alone: ")[2]
    assert shown.endswith("1 True True\n")


_CHANGED = (
    _NATIVE
    + """
from eagerflow_kernels import table
f = ef.trace(lambda x: ef.exp(x) * 2 + 1, compile="now")
x = ef.zeros(3)
for _ in range(20):
    f(x)
@table.special("exp", "cpu")
def mine(x):
    return x + 41
print(f(x).numpy(), f.latest().executable.tier.name)
"""
)


def test_kernels_of_users_count_from_the_next_call_on(tmp_path: Path) -> None:
    assert output_of(_CHANGED, tmp_path) == "[83. 83. 83.] generated\n"


_FORKED = (
    _NATIVE
    + """
import os
f = ef.trace(lambda x: ef.exp(x) * 2 + 1)
f(ef.zeros(3))
child = os.fork()
g = ef.trace(lambda x: ef.exp(x) * 3 + 1)
for h in (f, g):
    print(h(ef.zeros(3)).numpy()[0]) if child else h(ef.zeros(3))
    h.wait() if h is g else None
if not child:
    os._exit(0 if g.latest().executable.compilation.ended else 1)
print(os.waitpid(child, 0)[1])
"""
)


def test_after_a_fork_graphs_are_compiled_too(tmp_path: Path) -> None:
    assert output_of(_FORKED, tmp_path) == "3.0\n4.0\n0\n"


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [b"", b"garbage" * 1000])
def test_garbage_on_disk_is_not_used(tmp_path: Path, garbage: bytes) -> None:
    first = output_of(_MODES, tmp_path)
    for file in (tmp_path / "kernels").iterdir():
        file.write_bytes(garbage)
    assert output_of(_MODES, tmp_path) == first


_EVERYWHERE = (
    _NATIVE
    + """
rng = np.random.default_rng(0)

def places(x, y):
    z = ef.clip(x * y + x, -1.0, 1.0)
    near = ef.count_nonzero(ef.abs(z) < 0.5, axis=1)
    return ef.argmax(z * 2, axis=1), ef.argmin(z + y, axis=0) + 1, ef.argmax(x * y), near

def running(x, y):
    t = ef.cumulative_sum(x * y, axis=1)
    u = ef.cumulative_sum(ef.exp(x), axis=0) * 2
    return ef.tanh(t), t.sum(axis=1), u, ef.cumulative_prod(y + x, axis=1) / 2

def angles(x, y):
    z = ef.where(ef.isfinite(x / y), ef.sign(x), y)
    return ef.atan2(x, y) * ef.hypot(x, y), z, ef.log2(ef.abs(x) + 1) - ef.cosh(y)

def layers(x, y):
    z = ef.gelu(x * y + 0.5) - ef.tanh(y)
    s = ef.softmax(z * 3, axis=-1)
    return z, s, ef.mean(z * z, axis=1), ef.argmax(s, axis=1), ef.where(z > 0.1, z, y), x + True

def noise(x, y):
    g = ef.random.Generator(3)
    u, n = (d(x.shape, generator=g, dtype=x.dtype) for d in (ef.random.uniform, ef.random.normal))
    return x + n * 0.5, ef.where(u < 0.3, x, y)

def casts(x, y):
    return (x * 2).astype(ef.float32) + 1, (y > 0).astype(x.dtype) * x

for dtype in ("float32", "float64", "float16", "bfloat16"):
    x, y = (ef.tensor(rng.normal(size=(30, 41)).astype("f4")).astype(dtype) for _ in range(2))
    x[3, 4] = 0.0
    y[3, 4] = 0.0
    for f in (places, running, angles, layers, noise, casts):
        expected = [z.numpy() for z in f(x, y)]
        traced = ef.trace(f, compile="now")
        for _ in range(2):
            for a, b in zip(expected, traced(x, y), strict=True):
                b = b.numpy()
                nan = np.isnan(a.astype("f8")) & np.isnan(b.astype("f8"))
                bits = f"u{a.dtype.itemsize}"
                assert a.dtype == b.dtype and a.shape == b.shape, (f.__name__, dtype)
                assert np.all((a.view(bits) == b.view(bits)) | nan), (f.__name__, dtype)
        told = str(traced.explain())
        print(f.__name__, dtype, "a kernel runs " in told or " kernels run " in told)
"""
)


def test_all_constructs_have_the_bits_of_eager_code_in_every_dtype() -> None:
    shown = output_of(_EVERYWHERE).splitlines()
    assert len(shown) == 24
    assert all(line.endswith("True") for line in shown), shown


_STATE = (
    _NATIVE
    + """
for dtype in ("float16", "bfloat16"):
    def trained(compile):
        w = ef.Variable(ef.ones((7, 9), dtype=dtype))
        m = ef.Variable(ef.zeros((7, 9), dtype=dtype))
        @ef.trace(compile=compile)
        def step(g):
            m.assign(m * 0.9 + g)
            w.assign_sub(m * 0.01)
        for i in range(9):
            step(ef.full((7, 9), 0.3 + i, dtype=dtype))
        return w.numpy().tobytes() + m.numpy().tobytes(), str(step.explain())
    (a, _), (b, told) = trained("off"), trained("now")
    print(a == b, "%assign_sub" in told.partition(" runs ")[2])
"""
)


def test_variables_of_16_bits_are_updated_in_kernels(tmp_path: Path) -> None:
    assert output_of(_STATE, tmp_path) == "True True\nTrue True\n"
