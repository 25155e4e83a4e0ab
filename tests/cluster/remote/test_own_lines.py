"""Lines that tasks print themselves: shown where their client waits, as errors are."""

from __future__ import annotations

import os
import signal

import pytest

import eagerflow as ef
from eagerflow.cluster.processes.shared_memory.slabs import framed
from eagerflow.cluster.protocol.messages import Renew
from eagerflow.errors import TaskLost


def test_refused_messages(cluster: ef.cluster.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    connections = cluster._connections
    assert connections is not None
    connections.notices.show_lines()
    capsys.readouterr()
    replayed = framed(connections.slabs, "ps:0", Renew(1), [])
    connections._sockets.send("ps:0", replayed)
    ef.ones(3, device="ps:0").numpy()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "[ps:0] a message that came before was refused or dropped\n"
    assert "a message that came before" in cluster.logs("ps:0")


def use(x: ef.Tensor) -> None:
    """Wait for the value again and again, until a wait fails."""
    for _ in range(10_000):
        x.numpy()


def test_a_task_that_dies_while_others_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    with ef.cluster.local({"left": 1, "right": 1}) as cluster:
        pid = cluster.tasks["right:0"].pid
        assert pid is not None
        there = ef.ones(3, device="right:0")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(TaskLost, match="right:0 is lost"):
            use(there)
        ef.ones(3, device="left:0").numpy()
    shown = capsys.readouterr().err
    lost = '[right:0] is lost, with all that it held; cluster.restart("right:0") starts it again\n'
    assert shown == lost
