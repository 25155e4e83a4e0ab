"""Task servers on a real Dask cluster of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.cluster.processes.dask_provisioner import DaskProvisioner, TaskHost
from eagerflow.cluster.processes.local_provisioner import LocalProvisioner
from eagerflow.errors import AuthenticationError, ResourceError, TaskLost
from tests.cluster.test_clusters import ENVIRONMENT


def dask_at(address: str, *, asynchronous: bool = False) -> Any:
    return SimpleNamespace(
        scheduler=SimpleNamespace(address=address), asynchronous=asynchronous,
        scheduler_info=lambda n_workers: {"workers": {}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["tcp://10.0.0.1:8786", "ws://127.0.0.1:1", "tcp://127.0.0.1.evil.org:80", "ucx://h:1"],
)
def test_schedulers_that_others_can_listen_to_are_refused(address: str) -> None:
    with pytest.raises(AuthenticationError, match="a Dask cluster without encryption"):
        ef.cluster.on_dask(dask_at(address), {"ps": 1})


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tls://10.0.0.1:8786", "inproc://x/1"])
def test_schedulers_that_it_takes(address: str) -> None:
    with pytest.raises(TaskLost, match="no worker"):
        ef.cluster.on_dask(dask_at(address), {"ps": 1})
    with pytest.raises(ResourceError) as caught:
        ef.cluster.on_dask(dask_at(address, asynchronous=True), {"ps": 1})
    assert "asynchronous" in str(caught.value).splitlines()[0]


@pytest.mark.parametrize("cpu_devices", [0, -1, 1.5, True])
def test_a_task_has_a_device_at_least(cpu_devices: Any) -> None:
    with pytest.raises(ef.errors.TensorValueError, match="wrong number of devices"):
        ef.cluster.on_dask(
            dask_at("tcp://127.0.0.1:8786"), {"ps": 1}, cpu_devices=cpu_devices
        )  # fmt: skip


def test_tasks_on_dask_have_as_many_devices_as_was_said() -> None:
    """The actor that Dask would create is made here, and called as the client calls it on Dask."""
    hosts = []

    class Actor:
        def __init__(self, host: TaskHost) -> None:
            self._host = host

        def __getattr__(self, name: str) -> Any:
            def call(*given: Any) -> Any:
                made = getattr(self._host, name)(*given)
                return SimpleNamespace(result=lambda timeout: made)

            return call

    def submit(kind: type[TaskHost], *given: Any, **_: Any) -> Any:
        hosts.append(kind(*given))
        return SimpleNamespace(result=lambda timeout: Actor(hosts[-1]))

    dask = dask_at("tcp://127.0.0.1:8786")
    dask.scheduler_info = lambda n_workers: {"workers": {"tcp://127.0.0.1:4000": {}}}
    dask.submit = submit
    with ef.cluster.on_dask(dask, {"dasked": 1}, cpu_devices=2) as cluster:
        assert cluster.devices == ["dasked:0/cpu:0", "dasked:0/cpu:1"]
        with ef.device("dasked:0/cpu:1"):
            assert float((ef.ones(3) * 2).sum()) == 6.0


def test_a_host_lets_in_the_client_and_the_tasks_alone() -> None:
    """Only public keys leave the host, and no file of it is left."""
    provisioner = DaskProvisioner(dask_at("tcp://127.0.0.1:8786"))
    host = TaskHost("host:0", provisioner._keys.public, "tcp://127.0.0.1:4000", ())
    folder = host._folder
    client, task, key = host.doors()
    assert client.startswith("tcp://127.0.0.1:")
    secret = (folder / "keys" / "host-0.key.json").read_text()
    assert key in secret
    host.allow({"host:0": (client, task, key), "host:1": ("tcp://h:1", "tcp://h:2", "k" * 40)})
    assert "host:1" in (folder / "keys" / "allowed.json").read_text()
    assert "host:0 listens" in host.log()
    host.end()
    assert not Path(folder).exists()


class Reviving:
    """A provisioner that restarts tasks, and takes as long as a test wants."""

    restarts = True
    credentials = None

    def __init__(self) -> None:
        self._first = LocalProvisioner("ipc")
        self._doors: dict[str, Any] = {}
        self.folder, self.door, self.pid = self._first.folder, self._first.door, self._first.pid
        self.log = self._first.log
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.again: list[str] = []

    def start(self, tasks: Any) -> dict[str, Any]:
        if not self._doors:
            self._doors = self._first.start(tasks)
            return self._doors
        self.begun.set()
        self.goes_on.wait()
        self.again += tasks
        return self._doors

    def end(self, task: str) -> None:
        self._first.end(task)
        self.again = [name for name in self.again if name != task]

    def close(self) -> None:
        self._first.close()
        self.again = []


def test_what_is_closed_while_it_is_started_again_stays_ended() -> None:
    provisioner = Reviving()
    cluster = ef.cluster.Cluster(provisioner, ["revived:0"], owned=True)
    pid = cluster.tasks["revived:0"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert provisioner.begun.wait(10)
    (reviving,) = [t for t in threading.enumerate() if t.name == "eagerflow-restart-revived:0"]
    cluster.close()
    provisioner.goes_on.set()
    reviving.join(20)
    assert not reviving.is_alive()
    assert provisioner.again == []


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_when_a_worker_of_dask_is_killed(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.training_on_dask", str(tmp_path)],
        capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=300,
    )  # fmt: skip
    assert done.stdout == (
        "Cluster(ps:0, worker:0, worker:1)\nps 0 is lost\n"
        "ps:0 was restarted: the values it held are lost\n3.000 1\n"
    ), done.stderr
