"""`ef.cluster`: tasks start, end, die and come back; nothing of them is left."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import (
    AuthenticationError,
    ClusterWarning,
    DeviceError,
    ResourceError,
    TaskLost,
    TensorValueError,
)
from tests.cluster.warm import warm

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    with ef.cluster.local({"ps": 1, "worker": 1}) as made:
        warm(made)
        yield made


def comes(what: Callable[[], Any], seconds: float = 10.0) -> bool:
    end = monotonic() + seconds
    while not what() and monotonic() < end:
        threading.Event().wait(0.01)
    return bool(what())


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


# --- overview ----------------------------------------------------------------------------------


def test_a_cluster_shows_its_tasks(cluster: ef.cluster.Cluster) -> None:
    assert repr(cluster) == "Cluster(ps:0, worker:0)"
    status = cluster.tasks["ps:0"]
    assert (status.health, status.devices) == ("ready", ("ps:0/cpu:0",))
    assert status.memory > 1_000_000
    assert status.pid is not None
    table = cluster._repr_html_()
    assert "<td>worker:0</td><td>ready</td><td>worker:0/cpu:0</td>" in table


def test_names_of_tasks_are_names_of_devices(cluster: ef.cluster.Cluster) -> None:
    for name in ("ps:0", "ps", "ps:0/cpu:0", "/job:ps/task:0/device:CPU:0"):
        with ef.device(name):
            assert str(ef.zeros(1).device) == "ps:0/cpu:0"
    with pytest.raises(DeviceError, match="no device ps:7"):
        ef.zeros(1, device="ps:7/cpu:0")


def test_it_listens_for_this_user_alone(cluster: ef.cluster.Cluster) -> None:
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    sockets = [file for file in cluster.folder.iterdir() if file.suffix != ".log"]
    assert len(sockets) == 8  # two of each task, one of this process; for slabs, one each
    assert all(stat.S_ISSOCK(file.stat().st_mode) for file in sockets)


def test_logs(cluster: ef.cluster.Cluster) -> None:
    assert "ps:0 listens" in cluster.logs("ps:0")
    assert comes(lambda: "session" in cluster.logs("ps:0"))
    with pytest.raises(ResourceError, match="no task 'ps:9'"):
        cluster.logs("ps:9")


@pytest.mark.parametrize("jobs", [{}, {"ps": 0}, {"ps": True}, {"p s": 1}, ["ps"]])
def test_jobs_that_are_none(jobs: Any) -> None:
    with pytest.raises(TensorValueError):
        ef.cluster.local(jobs)


def test_a_task_of_that_name_is_there(cluster: ef.cluster.Cluster) -> None:
    with pytest.raises(DeviceError, match="a task ps:0 already"):
        ef.cluster.local({"ps": 1})
    with pytest.raises(ResourceError, match="a task ps:0 already"):
        cluster.add("ps:0")
    assert ef.ones(2, device="ps:0").tolist() == [1, 1]


# --- other clients -----------------------------------------------------------------------------


CLIENT = """
import sys
import eagerflow as ef
with ef.cluster.connect(sys.argv[1]) as cluster:
    print(cluster)
    with ef.device("ps:0"):
        v = ef.Variable([5.0], name="mine")
        v.assign_add([1.0])
    print(v.tolist(), flush=True)
    if len(sys.argv) > 2:
        sys.stdin.read()
"""


def client(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(folder), *more], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def test_two_clients_have_state_of_their_own(cluster: ef.cluster.Cluster) -> None:
    v = ef.Variable([1.0], device="ps:0", name="mine")
    with client(cluster.folder) as other:
        assert other.communicate()[0] == "Cluster(ps:0, worker:0)\n[6.0]\n"
    assert v.tolist() == [1.0]


def test_what_a_client_had_is_freed_when_it_is_killed(cluster: ef.cluster.Cluster) -> None:
    gc.collect()
    before = cluster.tasks["ps:0"].variables
    with client(cluster.folder, "stay") as other:
        assert other.stdout is not None
        assert [other.stdout.readline() for _ in range(2)][1] == "[6.0]\n"
        assert cluster.tasks["ps:0"].variables == before + 1
        other.kill()
    assert comes(lambda: cluster.tasks["ps:0"].variables <= before)


def test_who_has_not_started_them_ends_no_tasks(cluster: ef.cluster.Cluster) -> None:
    program = (
        "import sys, eagerflow as ef\n"
        "with ef.cluster.connect(sys.argv[1], ['ps:0']) as cluster:\n"
        "    for wrong in (cluster.logs, cluster.restart, cluster.add):\n"
        "        try: wrong('ps:0')\n"
        "        except ef.errors.ResourceError as error: print(error.wrong)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(cluster.folder)], check=True,
                          env=ENVIRONMENT, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "the tasks of this cluster were not started here\n" * 3
    assert ef.ones(2, device="ps:0").tolist() == [1, 1]


MOVE = """
import sys
import eagerflow as ef
with ef.cluster.connect(sys.argv[1]), ef.deadline(30):
    print(ef.ones(2_000, device="ps:0").to("worker:0").sum().item())
"""


def test_a_directory_may_be_named_in_any_way(cluster: ef.cluster.Cluster, tmp_path: Path) -> None:
    """Tasks compare the addresses of others with their own directory."""
    (tmp_path / "link").symlink_to(cluster.folder.parent)
    for name in (os.path.relpath(cluster.folder), tmp_path / "link" / cluster.folder.name):
        done = subprocess.run(
            [sys.executable, "-c", MOVE, str(name)], check=False, env=ENVIRONMENT,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout == "2000.0\n", done.stderr


def test_directories_that_it_does_not_connect_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(AuthenticationError, match="not for this user alone"):
        ef.cluster.connect(tmp_path)
    tmp_path.chmod(0o700)
    with pytest.raises(ResourceError, match="no task listens"):
        ef.cluster.connect(tmp_path)


# --- start and end of tasks --------------------------------------------------------------------


def endless(x: Any) -> Any:
    with ef.device("worker:0"):
        x = x * 1
        while x.sum() > 1:
            with ef.device("gone:0"):
                y = x * 1.0
            x = y + 0.0
        return x


def test_a_task_that_is_killed_is_lost_soon_and_comes_back(cluster: ef.cluster.Cluster) -> None:
    cluster.add("gone:0")
    pid = cluster.tasks["gone:0"].pid
    assert pid is not None
    v = ef.Variable([1.0, 2.0], device="gone:0", name="weights")
    x = v * 2
    killed: list[float] = []

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        killed.append(monotonic())

    timer = threading.Timer(0.3, kill)
    timer.start()
    with pytest.raises(TaskLost, match="gone:0 is lost"):
        ef.trace(endless)(ef.ones(10))
    assert monotonic() - killed[0] < 3
    timer.join()
    assert repr(cluster) == "Cluster(ps:0, worker:0, gone:0 (lost))"
    for use in (
        x.numpy, v.numpy, lambda: x + 1, lambda: ef.ones(2, device="gone:0"),
        lambda: ef.hardware.synchronize("gone:0"),
    ):  # fmt: skip
        with pytest.raises(TaskLost, match="is lost") as caught:
            use()
        assert caught.value.given == "variable 'weights' f32[2]@gone:0/cpu:0"
    assert ef.ones(2, device="ps:0").tolist() == [1, 1]

    with pytest.warns(ClusterWarning, match="gone:0 was restarted"):
        cluster.restart("gone:0")
    assert ef.ones(2, device="gone:0").tolist() == [1, 1]
    with pytest.raises(TaskLost, match="the values it held are lost"):
        v.numpy()
    v.assign([7.0, 8.0])
    v.assign_add([1.0, 1.0])
    assert v.tolist() == [8.0, 9.0]
    assert ef.trace(endless)(ef.zeros(3)).tolist() == [0, 0, 0]
    cluster.remove("gone:0")
    with pytest.raises(DeviceError):
        ef.ones(2, device="gone:0")


def test_a_task_that_is_stopped_is_suspected_and_heard_of_again(
    cluster: ef.cluster.Cluster,
) -> None:
    pid = cluster.tasks["ps:0"].pid
    assert pid is not None
    x = ef.ones(3, device="ps:0")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert comes(lambda: "ps:0 (suspect)" in repr(cluster))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert comes(lambda: repr(cluster) == "Cluster(ps:0, worker:0)")
    assert (x + 1).tolist() == [2, 2, 2]


def test_ctrl_c_ends_a_step_and_leaves_the_cluster_usable(cluster: ef.cluster.Cluster) -> None:
    def loop(x: Any) -> Any:
        with ef.device("worker:0"):
            x = x * 1
            while x.sum() > 1:
                with ef.device("ps:0"):
                    y = x * 1.0
                x = y + 0.0
            return x

    f = ef.trace(loop)
    f(ef.zeros(3))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(ef.ones(10))
    timer.join()
    assert f(ef.zeros(3)).tolist() == [0, 0, 0]
    assert comes(lambda: cluster.tasks["ps:0"].steps == 0)
