"""The asynchronous kind of device, by hand and by threads: order, completion, memory, threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors, hardware
from eagerflow.events import TransferEvent
from eagerflow.hardware import as_device
from eagerflow.ops.random.draws import key_of
from eagerflow.ops.state.lists import list_new, list_push, list_read, list_size
from eagerflow_kernels import table
from eagerflow_kernels.asynchronous import AsyncBackend, DeviceArray
from eagerflow_kernels.lists import ListData
from tests.fakes.by_hand import registered
from tests.recorded import recorded


@pytest.fixture
def gate() -> Iterator[threading.Semaphore]:
    """Devices ``gated:n``, whose threads do one piece of work for each release."""
    gate = threading.Semaphore(0)
    for _ in registered(AsyncBackend("gated", before_piece=gate.acquire)):
        yield gate


def _ready(x: ef.Tensor) -> bool:
    return x.device.backend.ready(x._data)


# --- order and completion -----------------------------------------------------------------------


def test_nothing_is_done_before_its_time(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    y = ef.exp(x) + x
    assert (y.shape, str(y.type)) == ((2,), "f32[2]@hand:0")
    assert not _ready(x)
    assert not _ready(y)
    counts = []
    while hand.pump():
        counts.append((_ready(x), _ready(y)))
    assert counts[0] == (False, False)  # a copy has several pieces
    assert (True, False) in counts
    assert counts[-1] == (True, True)
    assert hand.pump(10) == 0
    np.testing.assert_allclose(y.numpy(), np.add(np.exp([1, 2]), [1, 2]), rtol=2e-7)


def test_who_waits_does_the_work_up_to_there(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    y, z = x + x, x * x
    assert y.tolist() == [2.0, 4.0]
    assert not _ready(z)
    assert float(z.sum()) == 5.0


def test_copies_run_beside_kernels_and_after_what_they_copy(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    y = x * 2.0
    there = y.to("hand:1")
    z = there + there
    late = y * 3.0
    assert z.tolist() == [4.0, 8.0]
    assert not _ready(late)
    assert late.tolist() == [6.0, 12.0]


def test_completion_is_told_once(hand) -> None:
    told: list[Any] = []
    x = ef.tensor([1.0, 2.0], device="hand:0")
    y = x + x
    hand.when_ready(y._data, told.append)
    assert told == []
    hardware.synchronize("hand:0")
    assert told == [None]
    hand.when_ready(y._data, told.append)
    assert told == [None, None]
    assert hand.pump() == 0


def test_threads_do_one_piece_after_the_other(gate) -> None:
    x = ef.tensor([1.0, 2.0], device="gated:0")
    y = x + x
    event = threading.Event()
    y.device.backend.when_ready(y._data, lambda error: event.set())
    assert not event.is_set()
    for _ in range(20):
        gate.release()
    assert event.wait(10)
    assert y.tolist() == [2.0, 4.0]


def test_steps_of_graphs_are_issued_and_done_later(hand) -> None:
    f = ef.trace(lambda x: ef.exp(x @ x).sum() + 1.0)
    x = ef.tensor([[0.5, 1.0], [0.25, 2.0]], device="hand:0")
    want = f(x.to("cpu:0"))
    f(x)
    result = f(x)
    assert not _ready(result)
    assert result.numpy().tobytes() == want.numpy().tobytes()


def test_what_depends_on_data_waits(hand) -> None:
    x = ef.tensor([3.0, -1.0, 2.0], device="hand:1")
    assert ef.nonzero(x > 0)[0].tolist() == [0, 2]
    assert x[x > 0].tolist() == [3.0, 2.0]
    root = ef.trace(lambda a: ef.while_loop(lambda b: b < 100.0, lambda b: b * 2.0, a))
    assert root(x[0]).item() == root(ef.tensor(3.0)).item() == 192.0


@pytest.mark.parametrize("others", ["hand:1", "cpu:0"])
def test_what_the_host_alone_reads_is_read_once_for_all_devices(hand, others, monkeypatch) -> None:
    reads: list[Any] = []
    copy_out = hand.copy_out
    monkeypatch.setattr(hand, "copy_out", lambda *given: reads.append(given) or copy_out(*given))

    def f(x: Any) -> Any:
        while x[0] < 100.0:
            x = (x.to(others) * 2.0).to("hand:0")
        return x

    x = ef.ones(2, device="hand:0")
    traced = ef.trace(f)
    traced(x)
    reads.clear()
    result = traced(x)
    moved = 0 if others == "hand:1" else 7  # values that go to another kind of device
    assert len(reads) == 8 + moved  # 7 iterations, and the end
    assert result.tolist() == [128.0, 128.0]
    with recorded(TransferEvent) as seen:
        traced(x)
    crossings = [(str(e.origin), str(e.device), e.nbytes) for e in seen.events]
    assert crossings.count(("hand:0", others, 1)) == 8  # events are as before
    assert crossings.count(("hand:0", others, 8)) == crossings.count((others, "hand:0", 8)) == 7


def test_variables_are_updated_in_the_order_of_the_program(hand) -> None:
    v = ef.Variable([1.0, 2.0], device="hand:0")
    before = v.value
    v.assign_add([1.0, 1.0])
    v.assign(v * 2.0)
    after = v.value
    v.scatter_add([1, 1], [10.0, 10.0])
    assert [before.tolist(), after.tolist(), v.tolist()] == [[1.0, 2.0], [4.0, 6.0], [4.0, 26.0]]


# --- host memory --------------------------------------------------------------------------------


def test_the_host_cannot_read_by_accident(hand) -> None:
    x = ef.ones(2, device="hand:0")
    for read in (np.asarray, np.exp, lambda a: np.add(np.ones(2), a), memoryview):
        with pytest.raises(TypeError):
            read(x._data)
    with pytest.raises(errors.InterchangeError):
        np.from_dlpack(x)
    assert np.asarray(x).tolist() == [1.0, 1.0]  # explicit for the tensor
    assert repr(x._data) == "DeviceArray(float32[2] on hand:0)"


def test_memory_that_the_user_may_write_into_is_read_at_once(hand) -> None:
    array = np.array([1.0, 2.0])
    made = [ef.tensor(array, device="hand:0"), ef.asarray(array, device="hand:0")]
    array[:] = 9.0
    assert [x.tolist() for x in made] == [[1.0, 2.0]] * 2


def test_a_host_buffer_lives_until_it_is_copied(hand) -> None:
    x = ef.ones(1000) * 3.0
    buffer = weakref.ref(x._data)
    there = x.to("hand:0")
    del x
    assert buffer() is not None
    hardware.synchronize("hand:0")
    assert buffer() is None
    assert there.sum().item() == 3000.0


def test_what_was_copied_out_belongs_to_who_asked(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    first = hand.copy_out(x._data, 0)
    first[:] = 7.0
    assert hand.copy_out(x._data, 0).tolist() == [1.0, 2.0]


def test_keys_are_in_the_memory_of_the_host(hand) -> None:
    key = key_of(ef.random.Generator(3), as_device("hand:0"))
    assert (type(key._data), str(key.type)) == (np.ndarray, "u64[2]@hand:0")
    drawn = ef.random.Generator(3).normal((4,), device="hand:0")
    assert type(drawn._data) is DeviceArray
    assert hand.stream(0, "in").last is None  # no key was copied
    assert drawn.tolist() == ef.random.Generator(3).normal((4,)).tolist()
    f = ef.trace(lambda g, x: g.normal((4,), device="hand:0") + x)
    zeros = ef.zeros(4, device="hand:0")
    for _ in range(2):
        assert f(ef.random.Generator(3), zeros).tolist() == drawn.tolist()


def test_indices_and_sizes_of_lists_are_in_the_memory_of_the_host(hand) -> None:
    seen: list[type] = []
    kernel: Any = table.find("list_read", "hand", (), np)

    @table.special("list_read", "hand")
    def watched(*arrays: Any, **attrs: Any) -> Any:
        seen.extend(map(type, arrays))
        return kernel(*arrays, **attrs)

    try:
        x = ef.ones(2, device="hand:0")
        values = list_push(list_new(as_device("hand:0")), x)
        element = list_read(values, ef.tensor(0, device="hand:0"), x)
    finally:
        table.remove("list_read", "hand")
    assert seen == [ListData, np.ndarray]
    assert element.tolist() == [1.0, 1.0]
    size = list_size(values)
    assert (type(size._data), str(size.type)) == (np.ndarray, "i64[]@hand:0")
    assert (size + size).tolist() == 2


def test_a_queue_tells_its_size_without_waiting_for_the_device(hand) -> None:
    with ef.device("hand:0"):
        queue = ef.Queue(4, "f32[]")
    queue.enqueue(ef.tensor(2.0, device="hand:0"))
    size = queue.size()
    assert hand.pump(0) == 0
    assert int(size) == 1
    taken = queue.dequeue()
    assert not _ready(taken)
    assert taken.item() == 2.0


# --- memory -------------------------------------------------------------------------------------


def test_memory_is_counted_once_for_an_array_and_its_views(hand) -> None:
    def in_use() -> int:
        hardware.synchronize("hand:0")
        gc.collect()
        return ef.memory("hand:0").in_use or 0

    start = in_use()
    x = ef.ones((8, 8), device="hand:0")
    assert in_use() - start == 256
    views = [x.T, x[2:], x.reshape((4, 16)), ef.expand_dims(x, axis=0)]
    assert in_use() - start == 256
    y = x + x
    assert in_use() - start == 512
    del x
    assert in_use() - start == 512  # the views hold the memory
    del views, y
    assert in_use() == start


def test_a_limit_refuses_what_does_not_fit_and_says_what_is_held(hand) -> None:
    hardware.limit_memory(1000, "hand:0")
    x, y = ef.ones((8, 8), device="hand:0"), ef.zeros((8, 8), device="hand:0")
    z = x + y  # 768 bytes
    with pytest.raises(errors.OutOfMemoryError) as caught:
        x * z
    message = str(caught.value)
    for part in (
        "multiply: out of memory (256 B more)",
        "got: x1=f32[8,8]@hand:0, x2=f32[8,8]@hand:0",
        "room on hand:0: in use 768 B, limit 1 kB; held: 3 of f32[8,8]",
        "ef.hardware.limit_memory(n, 'hand:0')",
        "x * z",
    ):
        assert part in message
    assert isinstance(caught.value, MemoryError)
    del x, y, caught
    assert (z * z).sum().item() == 64.0  # there is room again
    hardware.limit_memory(None, "hand:0")
    assert ef.memory("hand:0").limit is None
    with pytest.raises(errors.DeviceError, match="-1 bytes are not a limit"):
        hardware.limit_memory(-1, "hand:0")


def test_copies_ask_for_memory_where_they_go(hand) -> None:
    x = ef.ones(100)
    hardware.limit_memory(300, "hand:1")
    for ask in (
        lambda: x.to("hand:1"),
        lambda: x.to("hand:0").to("hand:1"),
        lambda: ef.tensor(np.ones(100), device="hand:1"),
    ):
        with pytest.raises(errors.OutOfMemoryError, match="room on hand:1: in use 0 B, limit 300"):
            ask()
    assert x.to("hand:0").sum().item() == 100.0


def test_work_that_holds_memory_is_done_before_it_is_refused(hand) -> None:
    hardware.limit_memory(1000, "hand:0")
    x = ef.ones(64, device="hand:0")
    for _ in range(20):
        x = x + 1.0  # earlier values are held by work under way
    assert x.sum().item() == 64 * 21


# --- threads ------------------------------------------------------------------------------------


def test_many_threads_issue_work_and_none_is_left() -> None:
    def work(seed: int) -> None:
        x = ef.tensor(float(seed), device=f"async:{seed % 2}")
        for _ in range(50):
            x = (x + 1.0).to(f"async:{(seed + 1) % 2}") * 1.0
            x = x.to(f"async:{seed % 2}")
        results[seed] = x.item()

    results: dict[int, float] = {}
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: i + 50.0 for i in range(4)}
    hardware.synchronize("async:0")
    hardware.synchronize("async:1")


def test_all_threads_compute_products_with_the_same_number_of_blas_threads() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(150, 150)).astype("float32") for _ in range(2))
    for threads in (1, 2):
        with ef.config(threads=threads, cpu_devices=2):
            products = {
                (ef.tensor(a, device=d) @ ef.tensor(b, device=d)).numpy().tobytes()
                for d in ("cpu:0", "cpu:1", "async:0", "async:1")
            }
        assert len(products) == 1


def test_a_copy_that_waits_holds_up_no_callback_of_what_it_waits_for(gate) -> None:
    x = ef.tensor([1.0, 2.0], device="gated:0")
    backend, copies = x.device.backend, []
    y = ef.exp(x)
    backend.when_ready(y._data, lambda error: copies.append(backend.copy_out(y._data, 0)))
    z = ef.exp(y)
    reader = threading.Thread(
        target=lambda: copies.append(backend.copy_out(z._data, 0)), daemon=True
    )
    reader.start()
    reader.join(0.1)  # blocked, in the stream or before it
    for _ in range(20):
        gate.release()
    reader.join(10)
    assert not reader.is_alive()
    assert len(copies) == 2
