"""Large values: in shared memory, in pieces, and from task to task directly."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import pytest

import eagerflow as ef
from eagerflow.cluster.clusters import Cluster
from eagerflow.errors import TensorIndexError
from tests.cluster.warm import warm


def connections(cluster: Cluster) -> Any:
    assert cluster._connections is not None
    return cluster._connections


def test_large_values_go_in_slabs_and_leave_no_descriptor(cluster: Cluster) -> None:
    values = np.arange(3_000_000, dtype=np.float32)
    fds = len(os.listdir("/proc/self/fd"))
    before = connections(cluster).slabs.sent
    kept = [ef.tensor(values[i:], device="ps:0") for i in range(5)]
    back = [x.numpy() for x in kept]
    assert before < connections(cluster).slabs.sent <= before + 5  # one slab for each message
    assert all((x == values[i:]).all() for i, x in enumerate(back))
    assert len(os.listdir("/proc/self/fd")) <= fds + 2  # sockets for slabs
    pid = cluster.tasks["ps:0"].pid
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [link for link in links if "memfd" in link and "kernels" not in link]


def read_in_place(pid: int | None) -> int:
    """The number of slabs that a process reads in place."""
    with open(f"/proc/{pid}/maps") as file:
        return sum("r--p" in line and "memfd:eagerflow " in line for line in file)


def test_a_task_reads_in_place_what_does_not_change(cluster: Cluster) -> None:
    values = np.arange(100_000, dtype=np.float32)
    w = ef.Variable(values, device="ps:0")
    worker = cluster.tasks["worker:0"].pid

    @ef.trace
    def step() -> Any:
        with ef.device("worker:0"):
            x = w.value
            return x, ((x + 1) * 2).sum()

    def wanted(x: Any) -> Any:
        return ((x + 1) * 2).sum()

    got = [step() for _ in range(6)]
    assert read_in_place(worker) == 1
    at_worker = ef.Variable(got[-1][0], device="worker:0")
    for i in range(4):
        at_worker.assign_add(1.0)  # in place from the second on, and never in the slab
        w.assign_add(2.0)
        got.append(step())
        now = values + 2 * (i + 1)
        assert (got[-1][0].numpy() == now).all()
        assert np.isclose(got[-1][1].item(), wanted(now))
    for x, total in got[:6]:
        assert (x.numpy() == values).all()
        assert np.isclose(total.item(), wanted(values))
    assert (at_worker.numpy() == values + 4).all()


def test_a_variable_that_each_step_assigns_is_right_for_all_who_read_it(cluster: Cluster) -> None:
    """It moves into a slab, which its next value is written into; what was read stays."""
    values = np.arange(100_000, dtype=np.float32)
    w = ef.Variable(values, device="ps:0")

    @ef.trace
    def step(change: Any) -> Any:
        with ef.device("worker:0"):
            x = w.value
            doubled = x * 2.0
            total = (x - x[0]).sum() * 0.0
        with ef.device("ps:0"):
            w.assign_add(change + total)
        return x, doubled

    got, level = [], 0.0
    for i in range(20):
        got.append((level, *step(ef.tensor(float(i % 7)))))
        level += i % 7
        if i % 5 == 0:  # a reader that keeps its value, and an assignment of the client
            got.append((level, w.value, w.value + w.value))
            w.assign_sub(1.0)
            level -= 1
    assert (w.numpy() == values + level).all()
    for at, x, doubled in got:
        assert (x.numpy() == values + at).all()
        assert (doubled.numpy() == 2 * (values + at)).all()


def page_faults(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[7])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of the GNU C library")
def test_memory_of_freed_values_is_used_again(cluster: Cluster) -> None:
    values = np.zeros(1_500_000, np.float32)
    pages, pid = values.nbytes // 4096, cluster.tasks["ps:0"].pid
    assert pid is not None

    def put_and_free() -> int:
        before = page_faults(pid)
        kept = [ef.tensor(values, device="ps:0") for _ in range(8)]
        assert [x[0].item() for x in kept] == [0.0] * 8
        del kept
        ef.hardware.synchronize("ps:0")
        return page_faults(pid) - before

    put_and_free()
    assert min(put_and_free() for _ in range(3)) < pages  # of one value, instead of eight


def test_an_array_may_be_written_into_as_soon_as_it_was_put(cluster: Cluster) -> None:
    values = np.arange(600_000, dtype=np.float32)
    made = []
    for i in range(80):  # more than the limit of slabs written in advance, between small values
        values[0] = i
        made.append((ef.tensor(values, device="ps:0"), ef.tensor(values[:3], device="ps:0")))
    values[:] = -1
    for i, (large, small) in enumerate(made):
        assert large[:3].tolist() == small.tolist() == [i, 1, 2]
    assert large.numpy()[-1] == 599_999


def test_what_came_in_a_slab_is_written_into_by_its_owner_alone(cluster: Cluster) -> None:
    values = np.zeros(100_000, dtype=np.float32)
    with ef.device("ps:0"):
        v = ef.Variable(values)
    x = ef.tensor(values, device="ps:0")
    v.assign_add(x + 1)
    assert v.numpy().sum() == 100_000
    assert x.numpy().sum() == 0
    assert values.sum() == 0


@pytest.mark.slow
def test_a_million_handles_leave_memory_flat(cluster: Cluster) -> None:
    x = ef.ones(4, device="ps:0")

    def mebibytes(count: int) -> list[int]:
        for _ in range(count):
            y = x * 1.0
        assert y.tolist() == [1.0] * 4
        return [psutil.Process(pid).memory_info().rss >> 20
                for pid in (os.getpid(), cluster.tasks["ps:0"].pid)]  # fmt: skip

    before = mebibytes(100_000)
    values = cluster.tasks["ps:0"].values
    after = mebibytes(int(os.environ.get("EAGERFLOW_HANDLES", "1_000_000")))
    assert cluster.tasks["ps:0"].values <= values + 1
    assert max(b - a for a, b in zip(before, after, strict=True)) < 16


@pytest.mark.parametrize("dtype", ["f32", "bf16", "bool"])
def test_values_go_from_task_to_task_and_not_through_here(cluster: Cluster, dtype: str) -> None:
    x = ef.ones((300, 200), dtype=dtype, device="ps:0").T
    moved = x.to("worker:0")
    assert str(moved.device) == "worker:0/cpu:0"
    fetched: list[Any] = []
    task = x._data.task
    ask = task.connections.ask
    task.connections.ask = lambda *what: (fetched.append(what), ask(*what))[1]
    try:
        again = x.to("worker:0")
    finally:
        del task.connections.ask
    assert not fetched
    assert (again.numpy() == x.numpy()).all()
    assert again.shape == (200, 300)


def test_a_failure_is_moved_with_its_line(cluster: Cluster) -> None:
    with ef.device("ps:0"):
        x = ef.take(ef.zeros((5, 2_000)), [7], axis=0)
    with pytest.raises(TensorIndexError, match="index 7"):
        x.to("worker:0")
    assert ef.ones(5_000, device="ps:0").to("worker:0").sum().item() == 5_000


@pytest.fixture(scope="module")
def by_ports(cluster: Cluster) -> Iterator[Cluster]:
    with ef.cluster.local({"near": 1, "far": 1}, transport="tcp") as made:
        warm(made)
        yield made


@pytest.mark.parametrize("count", [1, 262_144, 262_145, 1_048_575, 1_048_576, 1_048_577, 3 << 20])
def test_over_ports_values_go_in_pieces(by_ports: Cluster, count: int) -> None:
    """A piece has 1 MiB: sizes around several pieces."""
    values = np.arange(count, dtype=np.float32)
    x = ef.tensor(values, device="near:0")
    assert (x.to("far:0").numpy() == values).all()
    assert connections(by_ports).slabs.sent == 0


def test_over_ports_an_array_may_be_written_into_as_soon_as_it_was_put(by_ports: Cluster) -> None:
    values = np.zeros(12_000_000, dtype=np.float32)  # more than may be under way at once
    made = []
    for i in range(3):
        values[:] = i
        made.append((ef.tensor(values, device="near:0"), ef.tensor(values[:3], device="near:0")))
    values[:] = -1
    for i, (large, small) in enumerate(made):
        assert set(large.numpy().tolist()) == {float(i)} == set(small.tolist())


def test_threads_put_long_arrays_over_ports_at_once(by_ports: Cluster) -> None:
    values = [np.full(2_000_000, i, dtype=np.float32) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda x: ef.tensor(x, device="near:0"), values))
        back = list(pool.map(ef.Tensor.numpy, made))
    assert all((a == b).all() for a, b in zip(values, back, strict=True))


def test_steps_over_ports(by_ports: Cluster) -> None:
    v = ef.Variable([1.0, 2.0], device="near:0")

    @ef.trace
    def step(x: ef.Tensor) -> ef.Tensor:
        with ef.device("far:0"):
            y = (v * x).sum()
        v.assign_sub((x * 0.5).to("near:0"))
        return y

    assert [step(ef.ones(2)).item() for _ in range(3)] == [3.0, 2.0, 1.0]
    assert "Cluster(near:0, far:0)" in repr(by_ports)
