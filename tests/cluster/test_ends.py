"""The end of a cluster: it is quick and leaves nothing, however the client ends."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
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


#: a client that never closes its cluster: values lie in shared memory, some are on their way
NEVER_CLOSED = """
import eagerflow as ef, gc, numpy as np, os, signal, sys
cluster = ef.cluster.local({"ps": 1, "worker": 1})
print(*(task.pid for task in cluster.tasks.values()), cluster.folder, flush=True)
large = ef.tensor(np.ones(1 << 20, np.float32), device="ps:0")
moved = [large.to("worker:0").numpy() for _ in range(4)]
under_way = large * 2.0
"""


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os._exit(0)",
        "sys.exit()",
        "",
        "del cluster, large, under_way; gc.collect()",
        "del cluster; gc.collect(); assert float(under_way.sum()) == 1 << 21",
        "raise RuntimeError('an error of the program')",
        "cluster.itself = cluster; del cluster, large, under_way; gc.collect()",
    ],
)
def test_nothing_is_left_when_the_client_ends(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEVER_CLOSED + end], capture_output=True, text=True, check=False,
        env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    *pids, folder = done.stdout.split()
    assert comes(lambda: all(is_gone(int(pid)) for pid in pids)), done.stderr
    assert comes(lambda: not Path(folder).exists())
    assert folder not in Path("/proc/net/unix").read_text()
    assert comes(lambda: not users_of(folder)), users_of(folder)
    error = "RuntimeError: an error of the program\n" if "raise" in end else ""
    assert done.stderr.endswith(error)
    assert bool(done.stderr) == bool(error), done.stderr


def users_of(folder: str) -> list[str]:
    """The command lines of processes that know of a cluster's folder."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if folder in line]
