"""Twenty seconds of chaos: failures are reported in time, results are exact, nothing leaks.

Five minutes: ``python -m tests.cluster.chaos``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.chaos.world import run


@pytest.mark.slow
def test_clients_train_while_tasks_come_and_go(tmp_path: Path) -> None:
    seed, seconds = (int(os.environ.get(f"EAGERFLOW_CHAOS{what}", default))
                     for what, default in (("_SEED", "1"), ("", "20")))  # fmt: skip
    outcome = run(tmp_path, seed, seconds)
    assert sum(outcome["events"].values()) > seconds / 6
    assert outcome["left"] == {}, "sessions of clients that have gone stayed"
    assert outcome["tracebacks"] == {}
    assert max(outcome["MiB"].values()) < 400
    for client in outcome["clients"]:
        assert client["wrong"] == ""
        assert "late" not in client, client["errors"]
        before, after = client["before"], client["after"]  # a thread of before may have ended
        stayed = {kind for kind, count in after.items() if count > before.get(kind, 0)}
        assert not stayed, "descriptors or threads of a client stayed"
    assert sum(client.get("steps", 0) for client in outcome["clients"]) > 0
