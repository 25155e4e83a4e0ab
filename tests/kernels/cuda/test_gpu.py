"""Tests on a GPU, by CuPy: ``make test ARGS="-m gpu"``; they are skipped without a GPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import hardware
from eagerflow.errors import OutOfMemoryError
from tests.each import check_each
from tests.kernels.cuda import test_differences as differences
from tests.kernels.cuda.programs import PROGRAMS
from tests.kernels.cuda.test_calls import LACKING, _close, check_program
from tests.ops import test_device_kinds as kinds
from tests.ops.cases import ALL_CASES
from tests.ops.table import one_of_each_kind

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_gpu() -> None:
    if not any(device.kind == "gpu" for device in ef.devices()):
        pytest.skip("there is no GPU, or no CuPy")


def test_ops_give_the_values_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_same_bits", _close)
    monkeypatch.setattr(kinds, "_moved", _moved)
    rows = {
        f"{case.id}-{dtype}": (case, dtype)
        for case in ALL_CASES for dtype in one_of_each_kind(case) if dtype not in LACKING
    }  # fmt: skip
    check_each(list(rows), lambda name: kinds.check(*rows[name], "gpu"))


@pytest.mark.parametrize("program", PROGRAMS.values())
def test_programs_give_the_values_of_the_cpu(program: Any) -> None:
    check_program(program)


def _moved(args: Any, kind: str) -> list[Any]:
    """The arguments on the first GPU: there may be no second."""

    def move(x: Any) -> Any:
        return (
            ef.Variable(x, device=f"{kind}:0") if isinstance(x, ef.Variable) else x.to(f"{kind}:0")
        )

    return [
        kinds.map_type(kinds.AbstractArray, move, kinds.map_arrays(ef.asarray, a)) for a in args
    ]


@pytest.mark.parametrize("name", differences.VALUES)
def test_differences(name: str) -> None:
    differences.check_value(name)


@pytest.mark.parametrize("name", differences.REFUSED)
def test_refusals(name: str) -> None:
    differences.check_refused(name)


def test_nothing_is_allocated_by_the_import() -> None:
    code = (
        "import sys, eagerflow as ef; assert 'cupy' not in sys.modules; import cupy; "
        "assert cupy.get_default_memory_pool().total_bytes() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_copies_keep_values_and_axes() -> None:
    draws = np.random.default_rng(0)
    for shape in ((), (0, 3), (5,), (3, 4), (2, 3, 4)):
        x = draws.normal(size=shape).astype("float32")
        for y in (x, x.T, x[..., ::-1] if x.ndim else x):
            np.testing.assert_array_equal(ef.tensor(y, device="gpu:0").numpy(), y)


def test_many_copies_beside_kernels() -> None:
    total = ef.zeros(1 << 16, device="gpu:0")
    for i in range(200):
        total = total + ef.tensor(np.full(1 << 16, i, "float32"), device="gpu:0")
    assert float(total[0]) == sum(range(200))


def test_traced_steps_over_cpu_and_gpu() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("gpu:0"):
            y = ef.tanh(x @ x)
        with ef.device("cpu:0"):
            return y.sum()

    x = ef.tensor(np.eye(64, dtype="float32"))
    assert float(f(x)) == pytest.approx(64 * np.tanh(1.0), rel=1e-4)


def test_memory_is_limited_and_told() -> None:
    limit = (ef.memory("gpu:0").reserved or 0) + (64 << 20)
    with ef.config(gpu_memory_limit=limit):
        held = ef.ones((8 << 20,), device="gpu:0")
        with pytest.raises(OutOfMemoryError, match="held: f32"):
            ef.ones((64 << 20,), device="gpu:0")
        assert held.device == "gpu:0"
    del held
    ef.release("gpu:0")
    assert hardware.memory("gpu:0").limit is None


def test_dlpack_shares_memory() -> None:
    cupy = pytest.importorskip("cupy")
    x = ef.arange(6, device="gpu:0")
    theirs = cupy.from_dlpack(x)
    assert theirs.data.ptr == x._data.data.ptr
    assert ef.from_dlpack(theirs).device == "gpu:0"
