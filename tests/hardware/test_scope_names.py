"""The devices that scopes name: names, patterns, colocation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.interpreter import stack
from eagerflow.hardware import Device, as_device, current_device, registry
from eagerflow.hardware.device_names import ANY, DeviceName, parse


@pytest.fixture(autouse=True)
def _three_cpus() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield
    assert not stack.scoped, "a scope is still open"


@pytest.fixture
def tasks() -> Iterator[list[str]]:
    """Devices of tasks, as a cluster would register them."""
    names = ["worker:0/cpu:0", "worker:1/cpu:0", "worker:1/gpu:0", "worker:1/gpu:1"]
    for name in names:
        task, _, own = name.partition("/")
        kind, _, index = own.partition(":")
        registry._devices[name] = Device(name, kind, int(index), as_device("cpu:0").backend)
        registry._devices[name].task = task
    yield names
    for name in names:
        del registry._devices[name]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu:*", (None, None, "gpu", ANY)),
        ("worker:*/gpu", ("worker", ANY, "gpu", None)),
        ("/job:ps/task:*", ("ps", ANY, None, None)),
        ("cpu:2", (None, None, "cpu", 2)),
    ],
)
def test_parts_of_names(text, parts) -> None:
    name = parse(text)
    assert (name.job, name.task, name.kind, name.index) == parts
    assert name.is_pattern == (ANY in parts)
    assert parse(str(name)) == name if name.kind else str(name) == "ps:*"


@pytest.mark.parametrize(
    ("blocks", "device"),
    [
        (("worker:1", "gpu"), "worker:1/gpu:0"),
        (("worker:1/gpu:1", "gpu"), "worker:1/gpu:1"),
        (("worker:1", "gpu:1"), "worker:1/gpu:1"),
        (("worker:1",), "worker:1/cpu:0"),
        (("worker",), "worker:0/cpu:0"),
        (("worker:*", "gpu"), "worker:1/gpu:0"),
        (("worker:*",), "worker:0/cpu:0"),
        (("worker:1/cpu:0", "worker:*"), "worker:1/cpu:0"),
        (("gpu:*", None, "cpu:1"), None),
        (("cpu:2", "cpu:*"), "cpu:2"),
        (("cpu:2", "null:*"), "null:0"),
        (("cpu:2", None), "cpu:0"),
        (("cpu:2", None, "cpu"), "cpu:0"),
    ],
)
@pytest.mark.usefixtures("tasks")
def test_partial_names_merge(blocks, device) -> None:
    if device is None:
        with pytest.raises(errors.DeviceError, match="no device of kind 'gpu'"):
            ef.device(blocks[0])
        return
    with ExitStack() as opened:
        for name in blocks:
            last = opened.enter_context(ef.device(name))
        assert current_device() == last == device


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("worker:*", [True, True, True, True, False]),
        ("worker:*/gpu", [False, False, True, False, False]),
        ("worker:1/gpu:*", [False, False, True, True, False]),
        ("worker:1", [False, True, True, True, False]),
        ("cpu:*", [False, False, False, False, True]),
    ],
)
def test_what_a_pattern_takes(tasks, name, takes) -> None:
    known = registry.known_name(name)
    answers = [known.takes(d.task, d.kind, d.index) for d in map(as_device, (*tasks, "cpu:2"))]
    assert answers == takes


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cpu:*:*", "is not a device name"),
        ("tpu:*", "there is no device of kind 'tpu'"),
        ("worker:*", "there is no device of kind 'worker'"),
        ("/job:ps/task:*", r"there is no device ps:\*"),
        ("cpu:7", "there is no device cpu:7"),
    ],
)
def test_a_name_that_fits_nothing(name, wrong) -> None:
    with pytest.raises(errors.DeviceError, match=wrong):
        ef.device(name)
    assert not stack.scoped


def test_what_blocks_are_called() -> None:
    v = ef.Variable(1.0, device="cpu:2")
    assert repr(ef.device(None)) == "ef.device(None)"
    assert repr(ef.device("cpu:*")) == "ef.device('cpu:*')"
    assert repr(ef.device("/device:CPU:1")) == "ef.device('cpu:1')"
    assert repr(ef.colocate(v)) == "ef.colocate(<on cpu:2>)"
    assert ef.colocate(v).device is v.device
    assert ef.zeros(1, device=ef.colocate(v)).device is v.device


def test_colocation_with_a_queue_is_where_that_is() -> None:
    queue = ef.Queue(1, ef.ones(2, device="cpu:2"))
    with ef.colocate(queue):
        queue.enqueue(ef.ones(2) + 1)
        assert (queue.dequeue() * 2).device == "cpu:2"


@pytest.mark.parametrize("x", ["cpu:0", 3, None, [1], ef.Mutex()])
def test_colocation_needs_a_device(x) -> None:
    with pytest.raises(errors.DeviceError, match="colocate: the object is on no device") as caught:
        ef.colocate(x)
    assert ("ef.device(name)" in str(caught.value)) == isinstance(x, str)


def test_names_compare_by_their_parts() -> None:
    assert DeviceName(None, None, "cpu", 1).within(DeviceName("ps", 2, "cpu", 0)) == DeviceName(
        "ps", 2, "cpu", 1
    )
