"""Devices: names, scopes, virtual CPUs, null devices, device kinds of third parties."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors, hardware
from eagerflow.hardware import Device, as_device, registry
from eagerflow_kernels import table
from tests.hardware.fake_accelerator import FakeArray, FakeBackend
from tests.messages import says


@pytest.fixture
def _four_cpus() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


# --- names ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_four_cpus")
@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("cpu", "cpu:0"),
        ("cpu:3", "cpu:3"),
        ("cpu:03", "cpu:3"),
        ("/device:CPU:2", "cpu:2"),
        ("/cpu:1", "cpu:1"),
        ("null:999999", "null:999999"),
    ],
)
def test_names(name, full) -> None:
    device = as_device(name)
    assert device.name == str(device) == full
    assert device == full
    assert repr(device) == f"Device({full!r})"
    assert f"{device.kind}:{device.index}" == full
    assert device.task is None


WRONG = [
    ("cpu:1", "there is no device cpu:1", r"ef.config\(cpu_devices=n\)"),
    ("/device:CPU:7", "there is no device cpu:7", "1 of kind cpu"),
    ("null:1000000", "there is no device null:1000000", "1000000 of kind null"),
    ("abacus:0", "no device of kind 'abacus'", "async, cpu, null"),
    ("asinc:0", "no device of kind 'asinc'", "async, cpu, null"),
    ("asyc:0", "no device of kind 'asyc'", "did you mean 'async:0'"),
    ("worker:1/cpu:0", "there is no device worker:1/cpu:0", "no task is connected"),
    ("/job:worker/task:1/device:GPU:0", "no device worker:1/gpu:0", "no task is connected"),
    ("/job:ps/replica:0/task:3/device:CPU:1", "no device ps:3/cpu:1", "no task is connected"),
    ("/job:worker", "there is no device worker:0/cpu:0", "no task is connected"),
    ("/task:1/device:CPU:0", "task 1 of which job", "job:task"),
    ("cpu:x", "'cpu:x' is not a device name", "kind:index"),
    ("CPU:0:0", "not a device name", "kind:index"),
    ("", "not a device name", "kind:index"),
    (" cpu:0", "not a device name", "kind:index"),
    ("cpu:-1", "not a device name", "kind:index"),
    (3, "3 is not a device name", "kind:index"),
]


@pytest.mark.parametrize(("name", "wrong", "more"), WRONG)
@pytest.mark.parametrize("use", [as_device, ef.device, lambda n: ef.zeros(2, device=n)])
def test_wrong_names_are_named(use, name, wrong, more) -> None:
    with pytest.raises(errors.DeviceError, match=more) as caught:
        use(name)
    assert wrong in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_missing_gpu_says_what_to_install() -> None:
    if "gpu" in {d.kind for d in ef.devices()}:
        return
    with pytest.raises(errors.DeviceError, match=r"pip install 'eagerflow\[gpu\]'"):
        ef.device("gpu:0")


def test_there_is_one_object_per_device() -> None:
    cpu = as_device("cpu:0")
    assert as_device("/device:CPU:0") is as_device(cpu) is as_device("cpu") is cpu
    assert pickle.loads(pickle.dumps(cpu)) is copy.deepcopy(cpu) is cpu
    assert {cpu: 1}["cpu:0"] == 1
    assert cpu != "cpu:1"
    devices = []
    threads = [
        threading.Thread(target=lambda: devices.append(as_device("null:777"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(d) for d in devices}) == 1


def test_listing() -> None:
    assert ef.devices()[0] == "cpu:0"
    assert "null" not in {d.kind for d in ef.devices()}
    assert [str(d) for d in ef.devices("null")] == [f"null:{i}" for i in range(8)]
    with ef.config(cpu_devices=3):
        assert [str(d) for d in ef.devices("cpu")] == ["cpu:0", "cpu:1", "cpu:2"]
    with pytest.raises(errors.DeviceError, match="no device of kind"):
        ef.devices("abacus")


def test_memory_and_release() -> None:
    stats = ef.memory()
    assert 0 < stats.in_use <= stats.total
    assert ef.memory("null:0") == hardware.MemoryStats(0, 0, None, None)
    ef.release()
    ef.release("null:0")
    with pytest.raises(errors.DeviceError):
        ef.memory("cpu:9")


# --- scopes -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("_four_cpus")
def test_scopes_nest_and_partial_names_merge() -> None:
    assert ef.ones(2).device == "cpu:0"
    with ef.device("cpu:2") as outer:
        assert outer == "cpu:2"
        assert ef.ones(2).device == "cpu:2"
        assert ef.tensor([1.0]).device == "cpu:2"
        for partial in ("cpu", "cpu:*", "/device:CPU", "/device:cpu:*"):
            with ef.device(partial):
                assert ef.zeros(1).device == "cpu:2"
        with ef.device("null"):
            assert ef.zeros(1).device == "null:0"
            with ef.device("cpu"):
                assert ef.zeros(1).device == "cpu:0"
            with ef.device(outer):
                assert ef.zeros(1).device == "cpu:2"
        assert ef.zeros(1).device == "cpu:2"
        assert ef.zeros(1, device="cpu:1").device == "cpu:1"
    assert ef.ones(2).device == "cpu:0"


@pytest.mark.usefixtures("_four_cpus")
def test_a_scope_is_for_its_thread_and_ends_after_an_error() -> None:
    seen = []
    with ef.device("cpu:1"):
        thread = threading.Thread(target=lambda: seen.append(ef.ones(2).device))
        thread.start()
        thread.join()
    assert seen == ["cpu:0"]
    with pytest.raises(errors.ShapeError), ef.device("cpu:1"):
        ef.ones(2) + ef.ones(3)
    assert ef.ones(1).device == "cpu:0"


@pytest.mark.usefixtures("_four_cpus")
def test_a_scope_may_be_entered_again() -> None:
    scope = ef.device("cpu:3")
    assert repr(scope) == "ef.device('cpu:3')"
    with scope, scope:
        assert ef.ones(1).device == "cpu:3"
    assert ef.ones(1).device == "cpu:0"


# --- virtual CPUs -----------------------------------------------------------------------------


@pytest.mark.usefixtures("_four_cpus")
def test_ops_run_where_their_inputs_are() -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]], device="cpu:3")
    for result in (x + 1, 2 * x, x @ x, x.sum(), x > 1, ef.linalg.inv(x), x[0], ef.exp(x)):
        assert result.device == "cpu:3"
    assert repr(x).endswith("f32[2,2]@cpu:3)")
    assert ef.grad(lambda y: (y * y).sum())(x).device == "cpu:3"


@pytest.mark.usefixtures("_four_cpus")
def test_transfers() -> None:
    x = ef.tensor([1.0, 2.0])
    y = x.to("cpu:1")
    assert y.device == "cpu:1"
    assert y.tolist() == x.tolist()
    assert x.to("cpu:0") is x
    assert y.to_device("cpu:0").device == "cpu:0"
    assert ef.asarray(x, device="cpu:2").device == "cpu:2"
    assert np.shares_memory(x.numpy(), y.numpy())  # virtual CPUs share memory
    gradient = ef.grad(lambda v: (v.to("cpu:2") * 3.0).sum())(x)
    assert gradient.device == "cpu:0"
    assert gradient.tolist() == [3.0, 3.0]


@pytest.mark.usefixtures("_four_cpus")
@pytest.mark.parametrize(
    "combine",
    [lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: ef.stack([a, b]), ef.maximum],
)
def test_mixed_devices_are_an_error(combine) -> None:
    a, b = ef.ones(2, device="cpu:1"), ef.ones(2)  # the line that put it there
    with pytest.raises(errors.DeviceError, match="operands sit on different devices") as caught:
        combine(a, b)
    assert "cpu:1: a was assigned at" in str(caught.value)
    assert "# the line that put it there" in str(caught.value)
    assert "f32[2]@cpu:1" in str(caught.value)
    assert "f32[2]@cpu:0" in str(caught.value)
    assert ".to('cpu:1')" in str(caught.value)


@pytest.mark.usefixtures("_four_cpus")
def test_mixed_operands_name_the_lines_of_these_operands() -> None:
    def combine(a, b):
        return a + b  # the line of the op

    a = ef.ones(2)  # the line of a
    with ef.device("cpu:1"):
        b = ef.ones(2) * 3.0  # the line of b
        b += 1.0
    c = ef.zeros(3, device="cpu:1")  # which puts something there later
    with pytest.raises(errors.DeviceError) as caught:
        combine(a, b)
    shown = str(caught.value)
    assert "cpu:0: a was assigned at" in shown
    assert "cpu:1: b was assigned at" in shown
    for line in ("# the line of a", "# the line of b", "# the line of the op"):
        assert line in shown
    with pytest.raises(errors.DeviceError) as caught:
        _ = [a][0] + {"b": c}["b"][:2]  # which has no name
    assert "cpu:1: tensors were put there last at" in str(caught.value)
    assert "# which puts something there later" in str(caught.value)


def test_values_outlive_their_virtual_cpu() -> None:
    with ef.config(cpu_devices=2):
        x = ef.ones(2, device="cpu:1")
    assert (x + x).tolist() == [2.0, 2.0]
    assert x.to("cpu:0").device == "cpu:0"
    with pytest.raises(errors.DeviceError):
        ef.ones(2, device="cpu:1")


# --- null devices -----------------------------------------------------------------------------


def test_ops_of_null_tensors_infer_types_only() -> None:
    with ef.device("null:5"):
        x = ef.ones((4, 3))
        v = ef.Variable(x)
        z = ef.random.normal((3, 2))
    assert repr(x) == "Tensor(f32[4,3]@null:5)"
    assert str((x @ z + 1.0).type) == "f32[4,2]@null:5"
    assert str((v @ z).sum(axis=0).type) == "f32[2]@null:5"
    assert str(x.T[1:].type) == "f32[2,4]@null:5"
    assert str((x > 0).type) == "bool[4,3]@null:5"
    assert str(ef.linalg.svd(x).Vh.shape) == "(3, 3)"
    assert str(ef.grad(lambda a: ef.exp(a @ z).sum())(x).type) == "f32[4,3]@null:5"
    assert str(x.to("null:6").type) == "f32[4,3]@null:6"
    assert str(ef.ones(2).to("null:6").type) == "f32[2]@null:6"


def test_null_tensors_take_no_memory() -> None:
    huge = ef.ones((1_000_000, 1_000_000), device="null:0")
    assert str((huge @ huge).type) == "f32[1000000,1000000]@null:0"


def test_null_tensors_are_checked() -> None:
    x = ef.ones((4, 3), device="null:0")
    with pytest.raises(errors.ShapeError, match="matmul"):
        x @ x
    with pytest.raises(errors.DeviceError, match="different devices"):
        x + ef.ones((4, 3))


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: bool(x.sum()),
        lambda x: float(x.sum()),
        lambda x: x.sum().item(),
        lambda x: x.to("cpu:0"),
        lambda x: np.asarray(x),
        lambda x: pickle.dumps(x),
    ],
)
def test_null_tensors_have_no_values(look) -> None:
    with pytest.raises(errors.DeviceError, match="has no values") as caught:
        look(ef.ones((2, 2), device="null:0"))
    assert "null devices know types only" in str(caught.value)


@pytest.mark.parametrize(
    "look", [ef.nonzero, ef.unique_values, ef.argwhere, lambda x: x[x > 0], ef.flatnonzero]
)
def test_shapes_that_depend_on_data_are_an_error(look) -> None:
    with pytest.raises(errors.DataDependentError, match="depends on the data"):
        look(ef.ones(3, device="null:0"))


# --- kinds of third parties -------------------------------------------------------------------


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    """The fake accelerator, registered as from a notebook cell."""
    backend = FakeBackend()
    hardware.register_backend(backend)
    yield backend
    registry._backends.pop("fake")
    for name in ("fake:0", "fake:1"):
        registry._devices.pop(name, None)


def test_a_graph_that_leaves_devices_open_runs_where_it_is_fed(fake) -> None:
    graph = ef.Graph.parse("graph f(%x: f32[2]) { %y = exp(%x) : f32[2] return %y }")
    (y,) = graph.run(["y"], {"x": ef.zeros(2).to("fake:0")})
    assert y.device == "fake:0"
    assert isinstance(y._data, FakeArray)
    with ef.device("fake:0"):
        assert graph.run(["y"], {"x": [0.0, 0.0]})[0].device == "fake:0"
        assert graph.run(["y"], {"x": ef.zeros(2, device="cpu:0")})[0].device == "cpu:0"


def test_a_third_party_kind_runs_the_portable_kernels(fake) -> None:
    assert [str(d) for d in ef.devices("fake")] == ["fake:0", "fake:1"]
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]], device="fake:1")
    assert fake.copied_in == 16
    assert isinstance(x._data, FakeArray)
    y = ef.exp(x @ x.T + 1.0).sum(axis=0) / 2
    assert isinstance(y._data, FakeArray)
    assert str(y.type) == "f32[2]@fake:1"
    assert fake.copied_out == 0
    host = x.to("cpu:0")
    assert fake.copied_out == 16
    expected = ef.exp(host @ host.T + 1.0).sum(axis=0) / 2
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6)
    assert repr(x).endswith("f32[2,2]@fake:1)")
    np.testing.assert_allclose(
        ef.grad(lambda v: (v * v).sum())(x).numpy(), 2 * host.numpy(), rtol=1e-6
    )


def test_variables_and_random_numbers_on_a_third_party_kind(fake) -> None:
    v = ef.Variable([1.0, 2.0], device="fake:0")
    before = v.value
    v.assign_add([1.0, 1.0])
    v.scatter_add([1, 1], [10.0, 10.0])
    assert (before.tolist(), v.tolist()) == ([1.0, 2.0], [2.0, 23.0])
    there = ef.random.Generator(1).normal((5,), device="fake:0")
    here = ef.random.Generator(1).normal((5,))
    assert isinstance(there._data, FakeArray)
    # kernels of other kinds are portable: native ones have other logarithms and cosines
    np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=0, atol=4e-6)


def test_devices_of_two_kinds_do_not_mix(fake) -> None:
    with pytest.raises(errors.DeviceError, check=says("fake:0")):
        ef.ones(2, device="fake:0") + ef.ones(2)


def test_memory_of_a_third_party_kind(fake) -> None:
    assert ef.memory("fake:1").total == 16
    ef.release("fake:1")
    assert fake.released == [1]
    with pytest.raises(errors.DeviceError, match="memory of fake:1 cannot be limited"):
        hardware.limit_memory(10, "fake:1")


def test_a_special_kernel_of_a_third_party_kind(fake) -> None:
    x = ef.ones(2, device="fake:0")
    assert (x + x).tolist() == [2.0, 2.0]
    table.special("add", "fake")(lambda a, b: FakeArray(np.full(2, 42.0, np.float32)))
    try:
        assert (x + x).tolist() == [42.0, 42.0]
        assert (ef.ones(2) + ef.ones(2)).tolist() == [2.0, 2.0]
    finally:
        table.remove("add", "fake")
    assert (x + x).tolist() == [2.0, 2.0]


def test_a_kind_registered_again_gets_new_devices(fake) -> None:
    old = ef.ones(2, device="fake:0")
    again: Any = type("FakeBackend", (FakeBackend,), {})()  # as in a second run of the cell
    hardware.register_backend(again)
    new = ef.ones(2, device="fake:0")
    assert new.device is not old.device
    assert new.device.backend is again
    assert isinstance(new.device, Device)
    with pytest.raises(errors.DeviceError, match="two devices called fake:0") as caught:
        old + new
    assert "x.to('fake:0') moves the earlier tensors" in str(caught.value)
    assert (old.to("fake:0") + new).device is new.device


def test_what_is_on_a_replaced_device_takes_kernels_that_are_registered_later(fake) -> None:
    old = ef.ones(2, device="fake:0")
    assert (old + old).tolist() == [2.0, 2.0]
    hardware.register_backend(FakeBackend())
    table.special("add", "fake")(lambda a, b: FakeArray(np.full(2, 42.0, np.float32)))
    try:
        assert (old + old).tolist() == [42.0, 42.0]
    finally:
        table.remove("add", "fake")
    assert (old + old).tolist() == [2.0, 2.0]


def test_a_backend_that_was_replaced_is_not_kept(fake) -> None:
    backend = FakeBackend()
    hardware.register_backend(backend)
    x = ef.ones(2, device="fake:0")
    (x + ef.exp(x)).numpy()
    gone = ref(backend)
    hardware.register_backend(FakeBackend())
    del x, backend
    gc.collect()
    assert gone() is None


def test_traces_do_not_outlive_their_devices(fake) -> None:
    @ef.trace
    def make() -> Any:
        return ef.ones(2, device="fake:0") + 1

    @ef.trace
    def other(x: Any) -> Any:
        return x * 2

    make(), other(ef.ones(2))
    hardware.register_backend(FakeBackend())
    assert make().device is as_device("fake:0")
    assert make.traces[-1].reason == "the backend of fake was registered again"
    other(ef.ones(2))
    assert len(other.traces) == 1


def test_a_backend_that_holds_nothing_may_be_registered_again() -> None:
    before = as_device("cpu:0")
    hardware.register_backend(hardware.CpuBackend())
    assert as_device("cpu:0") is before


@pytest.mark.parametrize("backend", [None, FakeBackend, object()])
def test_what_is_no_backend_is_refused(backend) -> None:
    with pytest.raises(errors.DeviceError, match="not a backend"):
        hardware.register_backend(backend)


def test_a_block_object_and_any_case_name_a_device() -> None:
    block = ef.device("null:1")
    assert ef.zeros(2, device=block).device is as_device("null:1")
    assert as_device(block) is ef.device(block).device is as_device("NULL:1")
    assert ef.tensor([1.0], device="Cpu:0").to(block).device is block.device
    with pytest.raises(errors.DeviceError, match="not a backend"):
        hardware.register_backend(type("Loud", (FakeBackend,), {"kind": "LOUD"})())


def test_what_is_asked_of_one_device_takes_no_pattern() -> None:
    x = ef.ones(3)
    calls: list[Callable[[], Any]] = [
        lambda: ef.hardware.as_device("cpu:*"),
        lambda: x.to("cpu:*"),
        lambda: ef.zeros(2, device="async:*"),
        lambda: ef.trace(ef.exp).place("auto", devices="cpu:*"),
        lambda: ef.trace(ef.exp).place("auto", memory={"cpu:*": 100}),
    ]
    for call in calls:
        with pytest.raises(errors.DeviceError, match="may be any of several devices"):
            call()


def test_branches_and_loops_know_no_values_of_null_devices() -> None:
    x = ef.ones(3, device="null:0")
    programs: list[Callable[[Any], Any]] = [
        lambda x: ef.cond(x.sum() > 0, ef.exp, ef.sin, x),
        lambda x: ef.switch((x.sum() > 0).astype("int64"), [ef.exp, ef.sin], x),
        lambda x: ef.while_loop(lambda c: c.sum() < 30, ef.exp, x),
    ]
    for program in programs:
        for function in (program, ef.trace(program)):
            with pytest.raises(errors.DeviceError, match="no values"):
                function(x)
