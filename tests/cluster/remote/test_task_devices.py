"""Tasks with several devices: values and ops on each device, alone and together in one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from zmq.utils.garbage import gc as frees

import eagerflow as ef
from eagerflow.cluster.protocol.partitions import read_partition, write_partition
from eagerflow.errors import DeviceError, GraphError, TensorValueError
from tests.cluster.remote.test_steps import CASES, HERE, values
from tests.cluster.warm import warm

#: two devices of one task, and devices of two tasks
WITHIN = ("duo:0/cpu:0", "duo:0/cpu:1")
ACROSS = ("duo:1/cpu:1", "duo:0/cpu:1")


@pytest.fixture(scope="module", name="cluster")
def _cluster() -> Iterator[ef.cluster.Cluster]:
    frees.start()  # pyzmq's thread, which the first large message would start
    with ef.cluster.local({"duo": 2}, cpu_devices=2) as made:
        warm(made)
        yield made
    frees.stop()


def test_a_task_says_which_devices_it_has(cluster: ef.cluster.Cluster) -> None:
    assert cluster.tasks["duo:1"].devices == ("duo:1/cpu:0", "duo:1/cpu:1")
    assert cluster.devices == [f"duo:{task}/cpu:{i}" for task in (0, 1) for i in (0, 1)]
    assert str(ef.hardware.as_device("duo:0")) == "duo:0/cpu:0"
    with pytest.raises(DeviceError, match=r"has duo:0/cpu:0, duo:0/cpu:1\n  hint: .*cpu_devices=n"):
        ef.hardware.as_device("duo:0/cpu:2")
    with pytest.raises(DeviceError, match=r"has duo:0/cpu:0, duo:0/cpu:1\n  at: "):
        ef.hardware.as_device("duo:0/gpu:0")
    with pytest.raises(DeviceError, match="tasks duo:0, duo:1"):
        ef.hardware.as_device("duo:7")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("devices", [WITHIN, ACROSS], ids=["within a task", "across tasks"])
@pytest.mark.parametrize("case", [name for name in CASES if name != "three tasks"])
def test_devices_of_tasks_give_the_bits_of_one_process(case: str, devices: Any) -> None:
    make, x = CASES[case]
    with ef.config(cpu_devices=2):
        want = values(ef.trace(make(*HERE))(x))
    f = ef.trace(make(*devices))
    for got in (f(x), f(x), make(*devices)(x)):  # traced, then eagerly
        assert [y.tobytes() for y in values(got)] == [y.tobytes() for y in want]


@pytest.mark.usefixtures("cluster")
def test_each_device_holds_what_is_put_there() -> None:
    x = ef.tensor([1.0, 2.0], device=WITHIN[1])
    w = ef.Variable([3.0, 4.0], device=WITHIN[1])
    y = x * w
    there = y.to(WITHIN[0])
    assert [str(one.device) for one in (x, w, y, there)] == [WITHIN[1]] * 3 + [WITHIN[0]]
    assert there.numpy().tolist() == y.numpy().tolist() == [3.0, 8.0]
    with ef.device(WITHIN[1]):
        made = ef.zeros(2) + w
    assert (str(made.device), made.numpy().tolist()) == (WITHIN[1], [3.0, 4.0])
    with ef.device(WITHIN[0]):
        assert str(ef.zeros(2).device) == WITHIN[0]


@pytest.mark.usefixtures("cluster")
def test_all_devices_of_a_task_take_part_in_one_step() -> None:
    """A device of this process and a device of another task take part as well."""
    w = [ef.Variable(np.arange(4.0), device=device) for device in (*WITHIN, ACROSS[0])]

    @ef.trace
    def step(x: Any) -> Any:
        total = x * 1
        for one in w:
            with ef.device(one.device):
                total = ef.sin(total.to(one.device) + one.value)
                one.assign_sub(0.5 * total)
        return total, ef.py_call(lambda v: v + 1, "f64[4]", total.to("cpu:0"))

    v = [ef.Variable(np.arange(4.0)) for _ in w]
    for i in range(3):
        total, more = step(ef.full((4,), float(i), dtype="float64"))
        want = np.full(4, float(i))
        for one in v:
            want = np.asarray(ef.sin(ef.tensor(want) + one.value).numpy())
            one.assign_sub(0.5 * ef.tensor(want))
        assert str(total.device) == ACROSS[0]
        assert total.numpy().tobytes() == want.tobytes()
        assert more.numpy().tobytes() == (want + 1).tobytes()
    for there, here in zip(w, v, strict=True):
        assert there.numpy().tobytes() == here.numpy().tobytes()


@pytest.mark.usefixtures("cluster")
def test_a_failure_on_one_device_ends_the_step_on_the_others() -> None:
    @ef.trace
    def fails(x: Any, i: Any) -> Any:
        with ef.device(WITHIN[1]):
            taken = ef.take(x, i)
        with ef.device(WITHIN[0]):
            return taken.to(WITHIN[0]) + 1

    x = ef.arange(5)
    for wrong in (7, -9):
        with pytest.raises(ef.errors.TensorIndexError, match="out of"):
            fails(x, ef.tensor(wrong)).numpy()
    assert fails(x, ef.tensor(3)).numpy() == 4


def test_a_task_has_a_device() -> None:
    with pytest.raises(TensorValueError, match="wrong number of"):
        ef.cluster.local({"duo": 1}, cpu_devices=0)


def test_the_graphs_of_a_partition_share_their_limits() -> None:
    graph = ef.Graph.parse("graph f(%x: f32[2]) { %y = exp(%x) : f32[2] return %y }")
    message, frames = write_partition([graph, graph], 1, 1, {})

    def find(container: str, name: str) -> None:
        raise AssertionError

    assert [len(one.nodes) for one in read_partition(message, frames, find)] == [1, 1]
    with pytest.raises(ef.errors.ProtocolError, match="without a text"):
        read_partition(message, frames[:1], find)
    with pytest.raises(GraphError, match=r"\bno\b"):
        read_partition(message, [frames[0], b"graph f() { %y = absent() : f32[] return %y }"], find)
