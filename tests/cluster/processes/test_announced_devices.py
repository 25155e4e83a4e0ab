"""Devices that a task announces: clients may name these, other names load nothing in the task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.session_values import SessionWork, Told
from eagerflow.cluster.protocol.eager_actions import DefineOp, IssueOp, PutValue
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Eager, Register
from eagerflow.cluster.protocol.partitions import read_partition
from eagerflow.cluster.protocol.values import encode_value
from eagerflow.errors import DeviceError, GraphError
from eagerflow.hardware import registry

NAMES = ("gpu:0", "async:0", "null:0", "tpu:0", "/device:GPU:0", "ps:1/cpu:0", "cpu:7", "cpu")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> AnnouncedDevices:
    """The announced devices of a task; asking for any backend later is a failure."""
    started = AnnouncedDevices("ps:0")

    def loads(kind: str) -> Any:
        raise AssertionError(f"the backend {kind!r} is loaded")

    monkeypatch.setattr(registry, "_backend", loads)
    return started


@pytest.mark.parametrize("name", NAMES)
def test_other_devices_than_the_announced_ones_are_refused(
    name: str, known: AnnouncedDevices
) -> None:
    with pytest.raises(DeviceError, match="this task has no such device") as caught:
        known.find(name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_names_other_devices_loads_nothing(name: str, known: AnnouncedDevices) -> None:
    text = f'graph(%x: f32[2]@cpu:0) {{ %y = negative(%x) : f32[2] on "{name}" return %y }}'
    message = Register(2, 1, {}, {}, {})
    with pytest.raises(GraphError, match="&y is on"):
        read_partition(message, [text.encode()], lambda *_: None, find_device=known.find)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_ops_on_other_devices_are_refused(name: str, known: AnnouncedDevices) -> None:
    session = SessionWork("ps:0", lambda *_: None, LIMITS, print, known)
    frames: list[Any] = []
    head: Any = encode_value(np.ones(2, np.float32), frames)
    with pytest.raises(DeviceError):
        session.run(Eager(2, (PutValue(5, head, name),)), frames)
    session.run(Eager(3, (PutValue(6, head, "ps:0/cpu:0"),)), frames)
    assert str(session.held(6).device) == "cpu:0"
    text = f'graph() {{ %y = transfer() {{device=device("{name}")}} : f32[2] return %y }}'
    session.run(Eager(4, (DefineOp(1, {}, {}),)), [text.encode()])
    with pytest.raises(Told) as told:
        session.run(Eager(5, (IssueOp(1, 1, (6,), 7, 1),)), [])
    assert "is loaded" not in told.value.head.wrong
