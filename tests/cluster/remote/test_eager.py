"""Eager ops at a task: order, immediate refusals, late failures with their line, and memory."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.errors import (
    DTypeError,
    EagerflowError,
    ShapeError,
    TensorIndexError,
)

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def task(cluster: ef.cluster.Cluster) -> RemoteTask:
    return cluster._members["ps:0"].task


def failing() -> ef.Tensor:
    return ef.take(ef.arange(5, device="ps:0"), ef.tensor([1, 7], device="ps:0"))


# --- values ----------------------------------------------------------------------------------


def test_check_nan_asks_for_no_value_of_a_task() -> None:
    with ef.config(check_nan=True):
        assert ef.log(ef.zeros(1, device="ps:0")).tolist() == [-np.inf]


def test_a_value_stays_where_it_was_made() -> None:
    with ef.device("ps:0"):
        x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
        y = (x @ x).T + 1.5
    assert type(y._data) is RemoteArray
    assert str(y.device) == "ps:0/cpu:0"
    assert y.tolist() == [[8.5, 16.5], [11.5, 23.5]]
    assert y[0, 1].item() == 16.5
    assert (y > 10).any()
    assert float(y.sum()) == 60.0


def test_to_show_it_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.device("ps:0"):
        x, v = ef.ones(3), ef.Variable([1.0], name="v")
    monkeypatch.setattr(RemoteTask, "fetch", None)
    assert repr(x) == "Tensor(f32[3]@ps:0/cpu:0)"
    assert repr(v) == "Variable(f32[1]@ps:0/cpu:0, name='v')"


@pytest.mark.parametrize("there", ["ps:1", "worker:0", "cpu:0"])
def test_values_go_from_task_to_task(there: str) -> None:
    x = ef.random.normal((5, 3), generator=ef.random.Generator(1))
    y = x.T.to("ps:0").to(there)
    assert y.numpy().tobytes() == x.T.numpy().tobytes()
    assert y.device == ef.hardware.as_device(there)


def test_memory_that_is_written_into_later_was_copied() -> None:
    array = np.ones(3, np.float32)
    x = ef.tensor(array, device="ps:0")
    array[:] = 5
    assert x.tolist() == [1, 1, 1]


def test_sizes_that_depend_on_values() -> None:
    x = ef.tensor([3, 0, 5, 0], device="ps:0")
    (places,) = ef.nonzero(x)
    assert (places.shape, places.tolist()) == ((2,), [0, 2])
    assert x[x > 0].tolist() == [3, 5]


def test_in_place_updates_and_comparisons() -> None:
    x = y = ef.zeros(4, device="ps:0")
    x[1:3] = 7
    x += 1
    assert y.tolist() == [1, 8, 8, 1]


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "kind"), [
    (lambda x: x + ef.ones(4, device="ps:0"), ShapeError),
    (lambda x: ef.bitwise_invert(x), DTypeError),
    (lambda x: x.reshape(2, 2), ShapeError),
])  # fmt: skip
def test_types_are_refused_at_the_call(wrong: Callable[..., Any], kind: type[Exception]) -> None:
    x = ef.ones(3, device="ps:0")
    with pytest.raises(kind):
        wrong(x)
    assert (x + 1).tolist() == [2, 2, 2]


def test_a_value_error_is_raised_by_the_next_value_with_the_line_that_issued_it() -> None:
    x = ef.ones(3, device="ps:0")
    wrong = failing()
    with pytest.raises(TensorIndexError, match="index 7") as raised:
        (x + 1).numpy()
    assert "return ef.take(" in str(raised.value)
    assert (x + 1).tolist() == [2, 2, 2]  # the failure was reported
    for _ in range(2):  # values that depend on it report it again
        with pytest.raises(TensorIndexError, match="in failing: return"):
            (wrong + 1).numpy()


def test_nothing_later_of_the_thread_changes_anything_until_it_was_told() -> None:
    v = ef.Variable([1.0], device="ps:0")
    failing()
    v.assign_add([1.0])
    with pytest.raises(TensorIndexError):
        v.numpy()
    v.assign_add([5.0])
    assert v.tolist() == [6.0]


def test_other_threads_go_on() -> None:
    v = ef.Variable([1.0], device="ps:0")
    seen: list[float] = []
    failing()
    thread = threading.Thread(target=lambda: seen.append(v.assign_add([1.0]).item()))
    thread.start()
    thread.join()
    assert seen == [2.0]
    with pytest.raises(TensorIndexError):
        v.numpy()


def test_a_step_after_a_failure_is_not_run() -> None:
    v = ef.Variable([1.0], device="ps:0")
    step = ef.trace(lambda: v.assign_add([1.0]))
    step()
    failing()
    with pytest.raises(TensorIndexError, match="in failing: return"):
        step()
    assert v.tolist() == [2.0]


def test_synchronize_tells_it() -> None:
    failing()
    with pytest.raises(TensorIndexError):
        ef.hardware.synchronize("ps:0")
    ef.hardware.synchronize("ps:0")


# --- state -----------------------------------------------------------------------------------


def test_variables_do_what_they_do_here() -> None:
    results = []
    for device in ("cpu:0", "ps:0"):
        v = ef.Variable([1.0, 2.0, 3.0], device=device)
        before = v.value
        v.assign([4.0, 5.0, 6.0])
        v += 1
        v.scatter_add([0, 0], [1.0, 10.0])
        with pytest.raises(TensorIndexError):
            v.scatter_update([7], [0.0]).numpy()
        with pytest.raises(ShapeError, match="keeps its shape"):
            v.assign([1.0])
        gradient = ef.grad(lambda x, v=v: (x * v).sum())(v.value * 2)
        results.append([before.tolist(), v.tolist(), gradient.tolist()])
    assert results[0] == results[1]


def test_variables_move() -> None:
    v = ef.Variable([1.0, 2.0])
    for device in ("ps:0", "ps:1", "cpu:0"):
        ef.move(v, device)
        v.assign_add([1.0, 1.0])
        assert v.device == ef.hardware.as_device(device)
    assert v.tolist() == [4.0, 5.0]


def test_threads_lose_no_update() -> None:
    v = ef.Variable(0, device="ps:0", trainable=False)

    def count() -> None:
        for _ in range(50):
            v.assign_add(1)
        ef.hardware.synchronize("ps:0")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert v.item() == 200


# --- memory ----------------------------------------------------------------------------------


def held(cluster: ef.cluster.Cluster, task: str) -> int:
    """Number of values and variables that a task holds."""
    status = cluster.tasks[task]
    return status.values + status.variables


def settled(cluster: ef.cluster.Cluster, most: int) -> int:
    end = monotonic() + 10
    while (count := held(cluster, "ps:0")) > most and monotonic() < end:
        gc.collect()
    return count


def test_what_is_collected_here_is_freed_there(cluster: ef.cluster.Cluster) -> None:
    x = ef.ones(10, device="ps:0")
    x = x * 0.5
    before = held(cluster, "ps:0")
    for _ in range(5000):
        x = x * 0.5
    for _ in range(20):
        ef.Variable(x).assign_add(x)
    ef.hardware.synchronize("ps:0")
    assert settled(cluster, before + 5) <= before + 5


def test_no_line_is_kept_of_what_has_run(task: RemoteTask) -> None:
    x = ef.ones(10, device="ps:0")
    for _ in range(100):
        x = x * 0.5
    ef.hardware.synchronize("ps:0")
    end = monotonic() + 10
    while task._lines and monotonic() < end:
        threading.Event().wait(0.001)
    assert not task._lines


def test_a_value_of_a_closed_cluster_says_so() -> None:
    with ef.cluster.local({"spare": 1}):
        x = ef.ones(3, device="spare:0")
    for use in (x.numpy, lambda: x + 1):
        with pytest.raises(EagerflowError, match="the cluster was closed"):
            use()
    with pytest.raises(ef.errors.DeviceError, match="kind 'spare'"):
        ef.ones(3, device="spare:0")
