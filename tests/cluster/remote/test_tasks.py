"""The processes of a task, one after the other, as the client tells them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow.cluster.protocol.eager_actions import DefineOp, PutValue
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.hardware import as_device


class Recorded:
    """Connections that keep the eager actions."""

    def __init__(self) -> None:
        self.actions: list[Any] = []

    def eager(self, sender: Any, action: Any, frames: Any = ()) -> None:
        self.actions.append(action)


def test_what_comes_late_for_a_process_names_nothing_in_the_next_one() -> None:
    connections: Any = Recorded()
    for _ in range(2):
        task = RemoteTask(connections, "ps:0")
        task.put_again(np.ones(3), as_device("cpu:0"))
        task.template("exp", "exp", {})
    kinds = [
        [one for one in connections.actions if type(one) is kind] for kind in (PutValue, DefineOp)
    ]
    assert len({one.handle for one in kinds[0]}) == len(kinds[0]) == 2
    assert len({one.template for one in kinds[1]}) == len(kinds[1]) == 2
