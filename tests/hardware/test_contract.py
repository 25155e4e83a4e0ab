"""The device contract, checked for each kind of device that holds values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors, hardware
from eagerflow.core.op import all_ops, get_op
from eagerflow.graph.signatures import read_on_host
from eagerflow.hardware import as_device, contract, copied, from_host, registry, to_host
from eagerflow_kernels import strides
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.hardware.fake_accelerator import FakeBackend

LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T,
    "steps": lambda x: x[::2, 1::2],
    "backwards": lambda x: x[::-1, ::-1],
    "repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one": lambda x: x[3, 2],
    "empty": lambda x: x[:0],
}


@pytest.fixture(params=["cpu", "async", "hand", "fake"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a kind with two devices."""
    made = {"hand": lambda: AsyncBackend("hand", threads=False), "fake": FakeBackend}
    if request.param in made:
        hardware.register_backend(made[request.param]())
    with ef.config(cpu_devices=2):
        yield request.param
    if request.param in made:
        registry._backends.pop(request.param)
        for index in range(2):
            registry._devices.pop(f"{request.param}:{index}", None)


def _array(layout: str) -> np.ndarray[Any, Any]:
    return np.asarray(LAYOUTS[layout](np.arange(48, dtype="float32").reshape(6, 8)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_go_in_across_and_out(kind, layout) -> None:
    array = _array(layout)
    first, second = as_device(f"{kind}:0"), as_device(f"{kind}:1")
    there = from_host(array, first, borrowed=True)
    across = copied(there, first, second)
    for data, device in ((there, first), (across, second)):
        out = to_host(data, device)
        assert (out.dtype, out.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(out, array)
        assert first.backend.ready(data)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", [("async:0",), ("async:0", "async:1"), ("cpu:1",)])
def test_moves_keep_strides(layout, way) -> None:
    array = _array(layout)
    with ef.config(cpu_devices=2):
        x = ef.asarray(array)
        for device in way:
            x = x.to(device)
        for out in (x.numpy(), x.to("cpu:0").numpy()):
            assert out.strides == array.strides or not array.size


def test_sums_and_products_after_a_move_have_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    x = ef.asarray(rng.normal(size=(70, 90)).astype("float32"))
    for view in (x, x.T, x[::2], x[:, ::-3], x[:, :1] * ef.ones(90)):
        there = view.to("async:1")
        for compute in (lambda v: v.sum(axis=0), lambda v: v @ v.T, ef.exp, lambda v: v.mean()):
            assert compute(there).numpy().tobytes() == compute(view).numpy().tobytes()


def test_nothing_is_copied_between_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.config(cpu_devices=2):
        x = ef.arange(6.0)
        y = x.to("cpu:1")
        assert y._data is x._data
        y[0] = 9.0  # a new value for the handle
        x += 1.0
        assert (x.tolist()[0], y.tolist()[0]) == (1.0, 9.0)

        @ef.trace
        def f(v: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
            there = (v * 2.0).to("cpu:1")
            return there, (there + 1.0).to("cpu:0")

        for _ in range(2):
            assert [r.tolist() for r in f(ef.ones(2))] == [[2.0, 2.0], [3.0, 3.0]]


def test_nothing_large_that_is_moved_is_written_into() -> None:
    """Generated code writes results into memory that is not needed any more; a move shares its."""

    @ef.trace
    def f(v: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        a = v * 2.0
        b = a.to("cpu:1")
        return a + 1.0, b

    with ef.config(cpu_devices=2):
        for _ in range(3):
            a, b = f(ef.ones(100_000))
            assert (a[0].item(), a[-1].item()) == (3.0, 3.0)
            assert (b[0].item(), b[-1].item()) == (2.0, 2.0)


def test_completion(kind) -> None:
    told: list[Any] = []
    device = as_device(f"{kind}:1")
    made = device.backend.allocate((3, 2), np.dtype("float64"), 1)
    assert (made.dtype, made.shape) == (np.dtype("float64"), (3, 2))
    device.backend.when_ready(made, told.append)
    hardware.synchronize(device)
    assert told == [None]
    assert device.backend.ready(made)


def test_figures(kind) -> None:
    stats = ef.memory(f"{kind}:0")
    assert isinstance(stats, hardware.MemoryStats)
    assert all(type(n) is int for n in (stats.in_use, stats.reserved))
    assert isinstance(as_device(f"{kind}:0").backend.held(0), list)
    ef.release(f"{kind}:0")


def test_what_lacks_a_member_is_told_which() -> None:
    class Half:
        kind = "half"
        count = copy_in = copy_out = launcher = None

    with pytest.raises(errors.DeviceError, match="it lacks allocate, array_type, copy_to_peer"):
        hardware.register_backend(Half())
    with pytest.raises(errors.DeviceError, match=r"an object of it: register_backend\(FakeBackend"):
        hardware.register_backend(FakeBackend)


def test_all_kinds_have_what_the_contract_says() -> None:
    for backend in (hardware.CpuBackend(), hardware.NullBackend(), AsyncBackend(), FakeBackend()):
        assert [m for m in contract.MEMBERS if not hasattr(backend, m)] == []
    assert "copy_to_peer" in contract.MEMBERS


def test_kinds_without_a_limit_say_so() -> None:
    for device in ("cpu:0", "null:0"):
        with pytest.raises(errors.DeviceError, match=f"memory of {device} cannot be limited"):
            hardware.limit_memory(10, device)


def test_null_devices_take_what_is_not_there_yet() -> None:
    backend = AsyncBackend("hand", threads=False)
    hardware.register_backend(backend)
    try:
        x = ef.ones(3, device="hand:0")
        assert str(x.to("null:1").type) == "f32[3]@null:1"
        assert not backend.ready(x._data)  # the call did not wait
        assert str(x.to("null:1").to("null:2").type) == "f32[3]@null:2"
    finally:
        registry._backends.pop("hand")
        registry._devices.pop("hand:0")


# --- host memory --------------------------------------------------------------------------------


def test_positions_are_those_of_inputs_and_outputs() -> None:
    for op in all_ops().values():
        for positions in (op.read_on_host({}), op.read_on_host({"timed": True}), op.host_outputs):
            assert all(type(i) is int for i in positions), op
        assert op.on_host or op.effect == "pure", op
    assert get_op("random_normal").read_on_host({}) == (0,)
    assert get_op("queue_dequeue_many").read_on_host({"timed": True}) == (0, -1)
    assert get_op("queue_dequeue_many").read_on_host({"count": 3, "timed": False}) == ()
    assert get_op("list_read").read_on_host({}) == (1,)
    assert get_op("next_key").host_outputs == (0,)
    assert get_op("add").read_on_host({}) == get_op("add").host_outputs == ()


def test_nodes_tell_which_inputs_are_read_on_the_host() -> None:
    f = ef.trace(lambda p, x: ef.cond(p, lambda: x + 1.0, lambda: x))
    graph = f.graph(ef.tensor(True), ef.ones(2))
    by_op = {node.op: read_on_host(node) for node in graph.nodes}
    assert by_op["cond"] == {0}
    drawn = ef.trace(lambda: ef.random.normal((2,))).graph()
    assert {n.op: read_on_host(n) for n in drawn.nodes}["random_normal"] == {0}


# --- strides ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_lie_as_the_original(layout) -> None:
    array = _array(layout)
    copy = strides.copied(array)
    assert copy.strides == array.strides or not array.size
    assert not np.shares_memory(copy, array)
    np.testing.assert_array_equal(copy, array)
    base: Any = copy
    while base.base is not None:
        base = base.base
    assert strides.memory_of(array) == base.nbytes


def test_a_copy_of_little_in_much_takes_little() -> None:
    column = np.zeros((5000, 5000), "float32")[:, 7]
    copy = strides.copied(column)
    assert copy.strides == (4,)
    assert strides.memory_of(column) == copy.nbytes == 20_000
