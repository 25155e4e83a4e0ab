"""A cluster of real processes: the same bits, and an end to all that is lost."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import numpy as np
import pytest
from zmq.utils.garbage import gc as frees

import eagerflow as ef
from eagerflow.cluster.processes.local import LocalCluster
from eagerflow.errors import (
    ClusterWarning,
    EagerflowError,
    ResourceError,
    TaskLost,
    TensorIndexError,
)
from eagerflow.graph import Graph

TASKS = {"cpu:0": "worker:0", "cpu:1": "ps:0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    frees.start()  # a thread of pyzmq, which the first large message starts
    with LocalCluster({"ps": 1, "worker": 1}, ef.__version__, cpu_devices=2) as made:
        yield made
    frees.stop()


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def graph_and_inputs(f: Callable[..., Any], *args: Any) -> tuple[Graph, list[Any]]:
    """The graph of a traced function, and what its inputs get."""
    return ef.trace(f).graph(*args), [x.numpy() if isinstance(x, ef.Tensor) else x for x in args]


X = ef.random.normal((40, 30), generator=ef.random.Generator(3))


def forth_and_back(x: Any) -> Any:
    with ef.device("cpu:1"):
        y = ef.exp(x.T @ x)
    with ef.device("cpu:0"):
        return y.sum() / x.mean(), y * 2


def loop(x: Any) -> Any:
    while x.sum() > 1:
        with ef.device("cpu:1"):
            half = x * 0.5
        with ef.device("cpu:0"):
            x = half - 0.01
    return x


def branch(x: Any) -> Any:
    if x.sum() > 0:
        with ef.device("cpu:1"):
            y = ef.sin(x)
    else:
        with ef.device("cpu:1"):
            y = ef.cos(x)
    with ef.device("cpu:0"):
        return y + 1


CASES = {
    "forth and back": (forth_and_back, (X,)),
    "a loop": (loop, (ef.ones((10,)),)),
    "one branch": (branch, (X,)),
    "the other branch": (branch, (-ef.abs(X),)),
    "a gradient": (lambda x: ef.grad(lambda v: forth_and_back(v)[0])(x), (X,)),
}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_the_bits_of_one(cluster: LocalCluster, case: str) -> None:
    f, args = CASES[case]
    graph, inputs = graph_and_inputs(f, *args)
    remote = cluster.load(graph, TASKS)
    want = graph.run(graph.outputs, dict(zip(graph.inputs, args, strict=True)))
    for _ in range(3):
        for got, expected in zip(remote.run(inputs), want, strict=True):
            assert got.tobytes() == expected.numpy().tobytes()
            assert got.shape == expected.shape


def test_state_is_where_its_device_is(cluster: LocalCluster) -> None:
    w = ef.Variable(ef.ones((3,)), device="cpu:1")

    def step(rate: Any) -> Any:
        with ef.device("cpu:1"):
            w.assign_sub(rate * w)
            y = w * 1
        with ef.device("cpu:0"):
            return y + 0

    rate = ef.tensor(0.1)
    graph, inputs = graph_and_inputs(step, rate)
    remote = cluster.load(graph, TASKS)
    feeds = dict(zip(graph.inputs, (rate,), strict=True))
    for _ in range(5):
        (got,) = remote.run(inputs)
        assert got.tobytes() == graph.run(graph.outputs, feeds)[0].numpy().tobytes()
    assert cluster.value("ps:0", w.resource).tobytes() == w.numpy().tobytes()
    with pytest.raises(ResourceError, match="there is no variable"):
        cluster.value("worker:0", w.resource)


def test_an_error_has_its_line_and_the_cluster_goes_on(cluster: LocalCluster) -> None:
    def fails(x: Any, i: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.take(x, i)
        with ef.device("cpu:0"):
            return y + 1

    x, i = ef.arange(5), ef.tensor([1, 7])
    graph, _ = graph_and_inputs(fails, x, i)
    remote = cluster.load(graph, TASKS)
    values = {"x": x.numpy(), "i": i.numpy()}
    inputs = [values[v.name] for v in graph.inputs]
    with pytest.raises(TensorIndexError) as raised:
        remote.run(inputs)
    assert "y = ef.take(x, i)" in str(raised.value)
    assert raised.value.__notes__[-1] == "  task: ps:0"
    values["i"] = np.array([1, 2])
    assert remote.run([values[v.name] for v in graph.inputs])[0].tolist() == [2, 3]


def test_large_values_cross(cluster: LocalCluster) -> None:
    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = x + 1
        with ef.device("cpu:0"):
            return y * 2

    x = ef.ones((2_000_000,))
    graph, inputs = graph_and_inputs(f, x)
    (got,) = cluster.load(graph, TASKS).run(inputs)
    assert got.tobytes() == (np.ones(2_000_000, np.float32) * 4).tobytes()


def test_what_is_fed_is_looked_at(cluster: LocalCluster) -> None:
    graph, _ = graph_and_inputs(forth_and_back, X)
    remote = cluster.load(graph, TASKS)
    with pytest.raises(EagerflowError, match="not of the type of %x"):
        remote.run([np.ones((40, 30))])


def test_only_this_user_may_enter(cluster: LocalCluster) -> None:
    assert stat.S_IMODE(cluster._folder.stat().st_mode) == 0o700
    assert len(list(cluster._folder.iterdir())) == 4
    for file in cluster._folder.iterdir():
        assert stat.S_ISSOCK(file.stat().st_mode)


# --- loss ----------------------------------------------------------------------------------------


def test_a_killed_task_is_lost_soon_and_comes_back() -> None:
    def endless(x: Any) -> Any:
        while x.sum() > 1:
            with ef.device("cpu:1"):
                y = x * 1.0
            with ef.device("cpu:0"):
                x = y + 0.0
        return x

    with LocalCluster({"ps": 1, "worker": 1}, ef.__version__, cpu_devices=2) as cluster:
        graph, inputs = graph_and_inputs(endless, ef.ones((10,)))
        remote = cluster.load(graph, TASKS)
        task = cluster.processes["ps:0"]
        pending = remote.begin(inputs)
        assert not pending.wait(0.3)
        begun = monotonic()
        os.kill(task.pid, signal.SIGKILL)
        with pytest.raises(TaskLost, match=r"ps:0 is lost, in step \d+"):
            remote.end(pending)
        assert monotonic() - begun < 3
        with pytest.raises(TaskLost, match="ps:0 is lost"):
            remote.run(inputs)
        with pytest.warns(ClusterWarning, match="ps:0 was started anew"):
            cluster.restart("ps:0")
        graph, inputs = graph_and_inputs(forth_and_back, X)
        want = graph.run(graph.outputs, {graph.inputs[0]: X})
        for got, expected in zip(cluster.load(graph, TASKS).run(inputs), want, strict=True):
            assert got.tobytes() == expected.numpy().tobytes()


def test_nothing_is_left_when_the_client_is_killed() -> None:
    program = (
        "import eagerflow as ef, os, signal\n"
        "from eagerflow.cluster.processes.local import LocalCluster\n"
        "cluster = LocalCluster({'ps': 1}, ef.__version__)\n"
        "print(cluster.processes['ps:0'].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    pid = int(done.stdout)
    end = monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and monotonic() < end:
        os.sched_yield()
    assert not os.path.exists(f"/proc/{pid}")
