"""Ctrl-C in a process whose step runs at tasks: it ends everywhere, and the cluster can be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.test_clusters import ENVIRONMENT

#: says when the step runs, and afterwards uses the cluster
PROGRAM = """
import sys, threading
import eagerflow as ef

def loop(x, here):
    with ef.device("worker:0"):
        x = x * 1
    while x.sum() > 1:
        with ef.device("ps:0"):
            y = x * 1.0
        if here:
            y = y.to("cpu:0") + 0.0
        with ef.device("worker:0"):
            x = y.to("worker:0") + 0.0
    return x

def tell():
    while not all(one.steps for one in cluster.tasks.values()):
        pass
    print("runs", flush=True)

with ef.cluster.local({"ps": 1, "worker": 1}) as cluster, ef.deadline(60):
    f, here = ef.trace(loop), sys.argv[1] == "here"
    f(ef.zeros(3), here)
    w = ef.Variable([1.0], device="ps:0")
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        f(ef.ones(10), here)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    thread.join()
    while any(one.steps for one in cluster.tasks.values()):
        pass
    print(cluster, f(ef.zeros(3), here).tolist(), w.assign_add([1.0]).tolist(), flush=True)
"""


@pytest.mark.parametrize(("where", "to"), [("there", "group"), ("here", "process")])
def test_ctrl_c_ends_a_step_at_tasks(tmp_path: Path, where: str, to: str) -> None:
    """The step runs at tasks alone, or here as well; a terminal sends the signal to tasks, too."""
    file = tmp_path / "program.py"  # loops are traced from their source
    file.write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, file, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "runs\n"
        send = os.kill if to == "process" else os.killpg
        send(program.pid, signal.SIGINT)
        out, errors = program.communicate(timeout=90)
    assert out == "interrupted\nCluster(ps:0, worker:0) [0.0, 0.0, 0.0] [2.0]\n"
    # Python ends by the signal, without a word, if a KeyboardInterrupt came through the `exec` of a
    # text, as where a dataclass is made, though it was caught
    assert program.returncode in (0, -signal.SIGINT)
    assert errors == ""
