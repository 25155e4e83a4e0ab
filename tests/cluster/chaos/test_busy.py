"""Tasks whose kernels hold the GIL while all cores are busy: none counts as lost.

Longer: ``EAGERFLOW_BUSY=600``, in seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic

import pytest

import eagerflow as ef
from eagerflow.cluster.clusters import Cluster
from eagerflow.cluster.processes.local_provisioner import LocalProvisioner
from eagerflow.cluster.protocol.timeouts import LOST_SECONDS
from tests.cluster.remote.python_functions import holds_the_gil
from tests.cluster.warm import warm

TASKS = ["busy:0", "busy:1"]


@pytest.fixture
def _busy_cores() -> Iterator[None]:
    """Keeps all cores busy, with a process for each."""
    command = [sys.executable, "-c", "while True: pass"]
    burning = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    yield
    for one in burning:
        one.kill()
        one.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("_busy_cores")
def test_a_task_that_holds_its_gil_is_neither_suspect_nor_lost() -> None:
    options = ["--allow-python", f"{holds_the_gil.__module__}:{holds_the_gil.__name__}"]
    ends = monotonic() + int(os.environ.get("EAGERFLOW_BUSY", "25"))
    with Cluster(LocalProvisioner("ipc", options), TASKS, owned=True) as cluster:
        warm(cluster)
        seconds = LOST_SECONDS + 2  # so long a silence of a process would be a loss
        while monotonic() < ends:
            given = []
            for task in TASKS:
                with ef.device(task):
                    given.append(ef.py_call(holds_the_gil, "f32[]", ef.tensor(seconds) + 0.0))
            begun = monotonic()
            assert [x.item() for x in given] == [seconds] * len(TASKS)  # warnings are errors here
            assert monotonic() - begun > seconds - 1
            seconds = 3.0
        assert {one.health for one in cluster.tasks.values()} == {"ready"}
