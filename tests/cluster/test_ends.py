"""The end of a cluster: it is quick and leaves nothing, however the client ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

import eagerflow as ef
from eagerflow.errors import TaskLost
from tests.cluster.test_clusters import ENVIRONMENT, comes, is_gone


def test_closing_takes_no_time_and_leaves_nothing() -> None:
    cluster = ef.cluster.local({"brief": 2})
    pids = [one.pid for one in cluster.tasks.values()]
    x = ef.ones(3, device="brief:1")
    begin = monotonic()
    cluster.close()
    assert monotonic() - begin < 2
    cluster.close()
    assert all(is_gone(pid) for pid in pids if pid is not None)
    assert not cluster.folder.exists()
    assert (repr(cluster), cluster._repr_html_()) == ("Cluster(closed)", "<p>Cluster, closed</p>")
    with pytest.raises(TaskLost, match="the cluster was closed"):
        x.numpy()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"])
def test_nothing_is_left_when_the_client_ends(end: str) -> None:
    program = (
        "import eagerflow as ef, os, signal, sys\n"
        "cluster = ef.cluster.local({'ps': 1})\n"
        "print(cluster.tasks['ps:0'].pid, cluster.folder, flush=True)\n" + end
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, env=ENVIRONMENT)  # fmt: skip
    pid, folder = done.stdout.split()
    assert comes(lambda: is_gone(int(pid)))
    assert comes(lambda: not Path(folder).exists())
