"""The backend of GPUs on a simulated driver: streams, copies, memory, completion, limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import KernelError, OutOfMemoryError
from eagerflow.hardware import register_backend, registry
from eagerflow_kernels.cuda.backend import CudaBackend
from eagerflow_kernels.cuda.copies import Copies
from tests.each import check_each
from tests.kernels.cuda import test_differences as differences
from tests.kernels.cuda.checked import CheckedArray
from tests.kernels.cuda.driver import DEVICES, Driver, Event, Pool, RaceError, Stream, driven
from tests.kernels.cuda.programs import PROGRAMS
from tests.kernels.cuda.test_calls import _close, check_case, check_program
from tests.ops import test_device_kinds as kinds
from tests.ops.cases import ALL_CASES
from tests.ops.table import one_of_each_kind


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Devices ``gpu:0`` and ``gpu:1`` by the backend for CuPy."""
    before = registry._backends.pop("gpu", None)
    with driven() as cupy:
        register_backend(CudaBackend())
        yield cupy.driver
        registry._backends.pop("gpu")
        for i in range(DEVICES):
            registry._devices.pop(f"gpu:{i}", None)
    if before is not None:
        register_backend(before)


@pytest.mark.parametrize("busy", [False, True])
def test_copies_keep_values_and_axes(driver: Driver, busy: bool) -> None:
    driver.busy = busy
    draws = np.random.default_rng(0)
    for shape in ((), (0, 3), (5,), (3, 4), (2, 3, 4)):
        x = draws.normal(size=shape).astype("float32")
        for y in (x, x.T, x[..., ::-1] if x.ndim else x):
            there = ef.tensor(y, device="gpu:0")
            np.testing.assert_array_equal(there.numpy(), y)
            np.testing.assert_array_equal(there.to("gpu:1").numpy(), y)


@pytest.mark.parametrize("busy", [False, True])
def test_many_copies_beside_kernels(driver: Driver, busy: bool) -> None:
    driver.busy = busy
    total = ef.zeros(1 << 8, device="gpu:0")
    for i in range(50):
        total = total + ef.tensor(np.full(1 << 8, i, "float32"), device="gpu:0")
    assert float(total[0]) == sum(range(50))


@pytest.mark.slow
def test_the_table_of_ops(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.busy = True
    monkeypatch.setattr(kinds, "_same_bits", _close)
    cases = [(case, one_of_each_kind(case)[0]) for case in ALL_CASES]
    check_each(cases, check_case)
    assert len(cases) > 500


@pytest.mark.parametrize("program", PROGRAMS.values())
def test_programs(driver: Driver, program: Any) -> None:
    driver.busy = True
    check_program(program)


def test_steps_over_two_gpus_and_the_host(driver: Driver) -> None:
    driver.busy = True

    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("gpu:0"):
            y = x * 2.0
        with ef.device("gpu:1"):
            z = y + 1.0
        with ef.device("gpu:0"):
            y = y * 3.0
        while z.sum() < 100.0:
            with ef.device("gpu:1"):
                z = z + z
        with ef.device("cpu:0"):
            return y + z

    x = ef.tensor([1.0, 2.0])
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), [54, 92])


def _backend() -> Any:
    return ef.hardware.as_device("gpu:0").backend


def test_a_copy_to_a_peer_is_over_before_its_source_is_written(driver: Driver) -> None:
    driver.busy = True
    x = ef.ones(1000, device="gpu:0")
    there = _backend().copy_to_peer(x._data, 0, 1)
    with _backend().cupy.cuda.Device(0):
        x._data[...] = 5.0
    np.testing.assert_array_equal(_backend().copy_out(there, 1), 1.0)


def test_memory_that_a_copy_has_filled_is_not_taken_while_kernels_read_it(driver: Driver) -> None:
    driver.busy = True
    made = [ef.tensor(np.full(1000, i, "float32"), device="gpu:0") * 2.0 for i in range(4)]
    assert ef.memory("gpu:0").reserved >= 8 * 4096  # no memory is reused
    assert [float(x[0]) for x in made] == [0, 2, 4, 6]
    driver.busy = False
    before = ef.memory("gpu:0").reserved
    for _ in range(4):
        ef.tensor(np.ones(1000, "float32"), device="gpu:0")
    assert ef.memory("gpu:0").reserved <= before + 4096


def test_arrays_under_way_are_waited_for_where_memory_is_short(driver: Driver) -> None:
    driver.busy = True
    with ef.config(gpu_memory_limit=10 << 20):
        x = ef.ones(1 << 20, device="gpu:0")  # 4 MiB
        for i in range(20):
            y = ef.tensor(np.full(1 << 20, i, "float32"), device="gpu:0")
            assert float(y[0]) == i
            del y
        y = x * 2.0
        with pytest.raises(OutOfMemoryError, match=r"held: 2 of f32\[1048576\] made at"):
            x + y
    assert ef.memory("gpu:0").limit is None
    assert float((x + y)[0]) == 3.0


def test_what_was_copied_to_a_gpu_is_named_where_memory_is_short(driver: Driver) -> None:
    with ef.config(gpu_memory_limit=10 << 20):
        batch = ef.tensor(np.ones(2 << 20, "float32"), device="gpu:0")  # 8 MiB
        with pytest.raises(OutOfMemoryError, match=r"held: f32\[2097152\]"):
            batch + 1.0


def test_a_second_try_does_not_hold_what_the_first_one_made(driver: Driver) -> None:
    driver.busy = True
    backend, size = _backend(), 1 << 20
    with ef.config(gpu_memory_limit=10 * size):
        kept = backend.allocate((4 * size,), np.dtype("uint8"), 0)
        dropped = ef.tensor(np.ones(3 * size, "uint8"), device="gpu:0")
        del dropped  # kernels may still read it

        def kernel() -> Any:
            part = backend.cupy.empty((3 * size,), np.uint8)
            return part, backend.cupy.empty((3 * size,), np.uint8)

        assert len(backend._with_room(kernel, 0)) == 2
    assert kept.nbytes == 4 * size


def test_released_memory_goes_back(driver: Driver) -> None:
    x = ef.ones(1 << 20, device="gpu:0")
    assert ef.memory("gpu:0").in_use == 4 << 20
    del x
    assert (ef.memory("gpu:0").in_use, ef.memory("gpu:0").reserved) == (0, 4 << 20)
    ef.release("gpu:0")
    assert ef.memory("gpu:0").reserved == 0


def test_values_are_told_of_when_they_are_there(driver: Driver) -> None:
    x = ef.ones(3, device="gpu:0") * 2.0
    told: list[Exception | None] = []
    for _ in range(3):
        _backend().when_ready(x._data, told.append)
    driver.join()
    for thread in threading.enumerate():
        if thread.name == "gpu completions":
            thread.join(5)
    assert told == [None] * 3
    driver.busy = True
    assert not _backend().ready((x + 1.0)._data)
    ef.hardware.synchronize("gpu:0")
    driver.busy = False
    assert _backend().ready(x._data)


def test_other_libraries_get_what_a_copy_has_filled(driver: Driver) -> None:
    driver.busy = True
    members = {
        "__dlpack_device__": lambda array: (2, 0),
        "__dlpack__": lambda array, **options: driver.kernel([array.inner], []),
    }
    with pytest.MonkeyPatch.context() as patches:
        for name, member in members.items():
            patches.setattr(CheckedArray, name, member, raising=False)
        ef.tensor([1.0, 2.0], device="gpu:0").__dlpack__(max_version=(1, 0))  # not a race


@pytest.mark.parametrize("name", differences.VALUES)
def test_differences(driver: Driver, name: str) -> None:
    differences.check_value(name)


@pytest.mark.parametrize("name", differences.REFUSED)
def test_refusals(driver: Driver, name: str) -> None:
    differences.check_refused(name)


def _doubled_twice() -> None:
    """Run two copies and two kernels; the copies have ended when the second kernel begins."""
    for _ in range(2):
        _ = ef.tensor([1.0, 2.0], device="gpu:0") * 2.0
        _backend().copies(0)._in.synchronize()


@pytest.mark.parametrize("without", ["use", "retire"])
def test_races_are_seen(driver: Driver, without: str) -> None:
    """A kernel that does not wait for a copy, and memory that is given back too early."""
    driver.busy = True
    _doubled_twice()
    with (
        patch.object(Copies, without, lambda copies, given: None),
        pytest.raises((RaceError, KernelError), match="while another stream may still"),
    ):
        _doubled_twice()


def test_what_stands_for_cuda_is_there() -> None:
    """CuPy has all names that the backend uses; the parameters are in the docstrings of Cython."""
    real = pytest.importorskip("cupy").cuda
    with driven() as cupy:
        missing = [name for name in vars(cupy.cuda) if not hasattr(real, name)]
        missing += [name for name in vars(cupy.cuda.runtime) if not hasattr(real.runtime, name)]
    pairs = (Stream, real.Stream), (Event, real.Event), (Pool, real.MemoryPool)
    missing += [
        f"{theirs.__name__}.{name}" for ours, theirs in pairs for name in vars(ours)
        if not (name.startswith("_") or name == "work" or hasattr(theirs, name))
    ]  # fmt: skip
    assert missing == []
