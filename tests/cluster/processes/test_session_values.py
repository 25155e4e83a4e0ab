from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.cluster.processes.session_values import announced_device
from eagerflow.errors import ProtocolError
from eagerflow.hardware import registry


@pytest.mark.parametrize(
    "name", ["null:0", "gpu:0", "cpu:1", "worker:1/cpu:0", "cpu", "os:0", "", "cpu:*"]
)
def test_clients_make_no_other_devices(name: str) -> None:
    before = {*registry._devices}
    with ef.config(cpu_devices=1), pytest.raises(ProtocolError, match="not") as raised:
        announced_device(name)
    assert repr(name) in str(raised.value) or name in str(raised.value)
    assert {*registry._devices} == before


def test_all_that_a_task_has_are_known() -> None:
    with ef.config(cpu_devices=2):
        assert [str(announced_device(f"cpu:{i}")) for i in range(2)] == ["cpu:0", "cpu:1"]
