"""Maps by threads and processes, and prefetching: orders, positions, mistakes, and ends."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset, DatasetIterator
from eagerflow.data.workers.processes import stop_server
from eagerflow.errors import SettingError, TensorValueError, WorkerError
from tests.data.functions import broken, killed, seven, shifted
from tests.data.test_pipelines import at, values
from tests.exploring import examples
from tests.messages import says

THREADS = {"workers": 3}
PROCESSES = {"workers": 2, "processes": True}
HOW = pytest.mark.parametrize("how", [THREADS, PROCESSES], ids=["threads", "processes"])


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    others = psutil.Process().children(recursive=True)  # children of other tests, such as a browser
    list(numbers(1).map(abs, **PROCESSES))  # opens its socket, else a leak of the first test
    yield
    stop_server()
    left = psutil.Process().children(recursive=True)
    assert [process for process in left if process not in others] == []


def numbers(count: int) -> Dataset:
    return Dataset.from_tensors(ef.arange(count))


def counted(count: int) -> Dataset:
    """A dataset as of `numbers`, but without random access."""
    return Dataset.from_iterable(lambda: iter(range(count)))


def workers() -> list[psutil.Process]:
    """The worker processes that are alive."""
    (server,) = psutil.Process().children() or [None]
    return [] if server is None else [p for p in server.children() if alive(p)]


def alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes to hold, within the time that other threads and processes need."""
    deadline = time.monotonic() + 20
    while not (holds := condition()) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return holds


# --- the same as without workers --------------------------------------------------------------


PIPELINES: list[Callable[..., Dataset]] = [
    lambda **how: numbers(23).map(lambda x: x * 2, **how),
    lambda **how: numbers(23).map(lambda x: x * 2, **how).batch(4),
    lambda **how: numbers(23).map(shifted, seed=3, **how).shuffle(seed=1).batch(5),
    lambda **how: numbers(23).batch(3).map(lambda x: x.sum(), **how).skip(2),
    lambda **how: numbers(5).map(shifted, seed=3, **how).repeat(3).batch(4),
    lambda **how: counted(23).map(shifted, seed=3, **how).batch(4),
    lambda **how: counted(23).filter(lambda x: x % 3 != 0).map(shifted, seed=0, **how).take(9),
    lambda **how: counted(9).map(lambda x: x + 1, **how).shuffle(4, seed=0).repeat(2),
    lambda **how: Dataset.zip(numbers(9).map(lambda x: x + 1, **how), counted(8)),
    lambda **how: Dataset.zip(numbers(9).map(lambda x: x + 1, **how), numbers(8)).batch(2),
    lambda **how: numbers(9).map(lambda x: x + 1, **how).map(lambda x: x * 3, workers=2).batch(2),
]


@HOW
@pytest.mark.parametrize("prefetched", [False, True])
@pytest.mark.parametrize("which", range(len(PIPELINES)))
def test_workers_change_neither_elements_nor_positions(
    how: dict[str, Any], which: int, prefetched: bool
) -> None:
    plain, parallel = PIPELINES[which](), PIPELINES[which](**how)
    if prefetched:
        parallel = parallel.prefetch(3)
    for _ in range(2):
        one, other = iter(plain), iter(parallel)
        while True:
            assert one.state == other.state
            expected, element = next(one, None), next(other, None)
            assert (expected is None) == (element is None)
            if expected is None:
                break
            assert values([element]) == values([expected])
    states = [state_after(at(parallel, 1), n) for n in (0, 1, 3)]
    for n, state in zip((0, 1, 3), states, strict=True):
        expected = values(at(plain, 1))[n:]
        assert values(parallel.iterator(state)) == expected
        assert values(plain.iterator(state)) == expected  # saved with workers, read without


def state_after(iterator: DatasetIterator, count: int) -> Any:
    for _ in range(count):
        next(iterator)
    state = json.loads(json.dumps(iterator.state))
    iterator.close()
    return state


@HOW
@settings(max_examples=examples(10))
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**32))
def test_without_an_order_every_element_comes_once(
    how: dict[str, Any], count: int, position: int, seed: int
) -> None:
    for source in (numbers, counted):
        dataset = source(count).map(shifted, seed=seed, ordered=False, **how)
        expected = sorted(values(at(source(count).map(shifted, seed=seed), 0)))
        assert sorted(values(at(dataset, 0))) == expected
        iterator = at(dataset, 0)
        first = values([next(iterator) for _ in range(min(position, count))])
        state = json.loads(json.dumps(iterator.state))
        rest = dataset.iterator(state)
        assert rest.state == state
        assert sorted(first + values(rest)) == expected
        assert sorted(first + values(iterator)) == expected


def test_the_late_are_overtaken_and_remembered() -> None:
    gate = threading.Event()

    def late(x: ef.Tensor) -> ef.Tensor:
        if x == 1:
            assert gate.wait(60)
        return x

    dataset = numbers(200).map(late, workers=2, ordered=False)
    iterator = iter(dataset)
    first = [next(iterator).item() for _ in range(50)]
    state = iterator.state
    assert first == [0, *range(2, 51)]
    assert state["position"]["index"] == 1
    assert state["position"]["overtaken"] == (1 << 50) - 2
    gate.set()
    rest = values(iterator)
    assert sorted(first + rest) == list(range(200))
    assert sorted(first + values(dataset.iterator(state))) == list(range(200))


def test_no_element_is_begun_for_a_late_one_without_end() -> None:
    gate = threading.Event()
    begun: list[int] = []

    def late(x: ef.Tensor) -> ef.Tensor:
        begun.append(x.item())
        if x == 0:
            assert gate.wait(60)
        return x

    iterator = iter(numbers(500).map(late, workers=2, ordered=False))
    for _ in range(61):
        next(iterator)
    reader = threading.Thread(target=next, args=(iterator,))
    reader.start()
    assert becomes(lambda: len(begun) >= 62)
    gate.set()
    reader.join()
    assert max(begun[:62]) == 61


@dataclass
class Sample:
    name: Any
    pixels: Any


@HOW
def test_elements_of_every_kind_pass(how: dict[str, Any]) -> None:
    leaves = [
        ef.asarray([1.5, 2], dtype="bfloat16"), np.zeros((0, 3)), np.float32(2), True, "ä\n", b"\0",
        Path("x"), 1 + 2j, np.asfortranarray(np.arange(6).reshape(2, 3)), None, Sample("a", [1, 2]),
    ]  # fmt: skip
    dataset = Dataset.from_iterable([{"x": leaf, "n": (i,)} for i, leaf in enumerate(leaves)])
    plain = list(dataset.map(lambda x: [x, x]))
    for one, other in zip(plain, dataset.map(lambda x: [x, x], **how), strict=True):
        assert repr(one) == repr(other)
        assert type(one[0]["x"]) is type(other[0]["x"])


@HOW
def test_traced_functions_map(how: dict[str, Any]) -> None:
    double = ef.trace(lambda x: x * 2)
    assert values(numbers(7).map(double, **how)) == [0, 2, 4, 6, 8, 10, 12]
    assert values(numbers(7).map(lambda x: double(x) + 1, **how).batch(7)) == [
        [1, 3, 5, 7, 9, 11, 13]
    ]


@HOW
def test_functions_of_the_parts_of_tuples_map(how: dict[str, Any]) -> None:
    pairs = Dataset.from_tensors((ef.arange(5), ef.arange(5) * 10))
    assert values(pairs.map(lambda x, y: x + y, **how)) == [0, 11, 22, 33, 44]


def test_processes_share_no_random_numbers() -> None:
    def draw(x: Any) -> Any:
        return os.getpid(), ef.random.uniform(()), np.random.rand()

    draws = [tuple(x.item() for x in e) for e in numbers(40).map(draw, **PROCESSES)]
    assert len({pid for pid, _, _ in draws}) == 2
    assert os.getpid() not in {pid for pid, _, _ in draws}
    assert len({a for _, a, _ in draws}) == len({b for _, _, b in draws}) == 40


def test_threads_and_processes_have_names() -> None:
    def name(x: Any) -> str:
        comm = Path("/proc/self/comm")
        shown = comm.read_text().strip() if comm.exists() else "none"
        return f"{threading.current_thread().name} {shown}"

    dataset = numbers(3).map(name, workers=1)
    assert {n.split()[0] for n in dataset} == {"eagerflow-map(name)-1"}
    if Path("/proc/self/comm").exists():
        dataset = numbers(3).map(name, workers=1, processes=True)
        assert {n.split()[1] for n in dataset} == {"map(name)-1"}


def test_prefetch_moves_to_a_device() -> None:
    with ef.config(cpu_devices=2):
        dataset = Dataset.from_iterable([{"x": 1.0, "name": "a"}]).prefetch(1, device="cpu:1")
        (element,) = dataset
        assert str(element["x"].device) == "cpu:1"
        assert element["name"] == "a"


# --- mistakes ---------------------------------------------------------------------------------


@HOW
@pytest.mark.parametrize("source", [numbers, counted])
@pytest.mark.parametrize("prefetched", [False, True])
def test_an_error_in_a_worker_names_the_element_and_the_line(
    how: dict[str, Any], source: Callable[[int], Dataset], prefetched: bool
) -> None:
    dataset = source(12).map(seven, **how)  # <- line
    iterator = iter(dataset.prefetch(2) if prefetched else dataset)
    assert values([next(iterator) for _ in range(7)]) == list(range(7))
    with pytest.raises(KeyError, check=says("seven")) as caught:
        next(iterator)
    note = "\n".join(caught.value.__notes__)
    assert "in element 7 of map(seven)" in note
    assert "dataset = source(12).map(seven, **how)  # <- line" in note
    assert "workers" not in how or "processes" not in how or 'raise KeyError("seven")' in note
    assert values(iterator) == [8, 9, 10, 11]  # reading continues behind the failed element


@HOW
def test_an_error_in_a_batch_names_the_element(how: dict[str, Any]) -> None:
    iterator = iter(numbers(12).map(seven, **how).batch(3))
    assert values([next(iterator), next(iterator)]) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(KeyError) as caught:
        next(iterator)
    assert "in element 7 of map(seven)" in "\n".join(caught.value.__notes__)
    assert values(iterator) == [[9, 10, 11]]


@HOW
def test_errors_of_eagerflow_come_whole(how: dict[str, Any]) -> None:
    iterator = iter(numbers(3).map(broken, **how))
    assert next(iterator).shape == (7,)
    with pytest.raises(ef.errors.ShapeError) as caught:
        next(iterator)
    assert caught.value.wrong == "add: shapes cannot be broadcast together"
    assert "return x + ef.ones((int(x) + 1,)) + ef.ones(7)" in str(caught.value)
    iterator.close()
    with pytest.raises(ef.errors.ShapeError, match="differ in shape"):
        list(numbers(3).map(lambda x: np.zeros(int(x)), **how).batch(3))


@HOW
def test_errors_that_cannot_be_sent_come_as_text(how: dict[str, Any]) -> None:
    class Odd(Exception):  # noqa: N818 - as users name them
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"odd {a}{b}")

    def fail(x: Any) -> None:
        raise Odd(1, 2)

    with pytest.raises((Odd, RuntimeError), match="odd 12"):
        list(numbers(2).map(fail, **how))


@HOW
def test_stop_iteration_in_a_worker_ends_nothing(how: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration in element 0"):
        list(numbers(3).map(lambda x: next(iter([])), **how))


@pytest.mark.parametrize("how", [{}, THREADS, PROCESSES, {**THREADS, "ordered": False}],
                         ids=["here", "threads", "processes", "unordered"])  # fmt: skip
def test_elements_that_fail_are_left_out(how: dict[str, Any]) -> None:
    told: list[str] = []
    for policy in ("skip", lambda error: told.append(f"{error!r} {error.__notes__[-1]}")):
        for source in (numbers, counted):
            dataset = source(12).map(seven, on_error=policy, **how)
            assert sorted(values(dataset)) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
            with pytest.raises(ef.errors.LengthError):
                len(dataset)
            iterator = iter(dataset)
            first = values([next(iterator) for _ in range(8)])
            iterator.close()
            rest = values(dataset.iterator(iterator.state))
            assert sorted(first + rest) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
            assert [len(x) for x in dataset.batch(4)] == [4, 4, 3]
    assert all("KeyError('seven')" in text and "in element 7" in text for text in told)
    assert len(told) >= 6


@HOW
def test_errors_of_the_source_come_in_order(how: dict[str, Any]) -> None:
    class Reader:
        def __iter__(self) -> Iterator[int]:
            return self

        def __init__(self) -> None:
            self.count = -1

        def __next__(self) -> int:
            self.count += 1
            if self.count == 4:
                raise OSError("disk on fire")
            if self.count > 6:
                raise StopIteration
            return self.count

    for policy in ("raise", "skip"):
        dataset = Dataset.from_iterable(Reader).map(lambda x: x, on_error=policy, **how)
        iterator = iter(dataset)
        assert values([next(iterator) for _ in range(4)]) == [0, 1, 2, 3]
        with pytest.raises(OSError, match="disk on fire"):
            next(iterator)
        assert values(iterator) == [5, 6]


@pytest.mark.parametrize("source", [numbers, counted])
def test_a_killed_process_is_an_error_that_names_the_element(
    source: Callable[[int], Dataset],
) -> None:
    iterator = iter(source(12).map(killed, **PROCESSES).prefetch(1))  # <- line
    assert values([next(iterator) for _ in range(5)]) == list(range(5))
    with pytest.raises(WorkerError) as caught:
        next(iterator)
    assert "ended while it worked on element 5 of map(killed)" in str(caught.value)
    assert "killed by signal 9 (SIGKILL)" in str(caught.value)
    assert "# <- line" in str(caught.value)
    assert values(iterator) == list(range(6, 12))
    skipping = source(12).map(killed, on_error="skip", **PROCESSES)
    assert values(skipping) == [0, 1, 2, 3, 4, *range(6, 12)]
    batches = iter(source(12).map(killed, **PROCESSES).batch(4))
    next(batches)
    with pytest.raises(WorkerError, check=says("element")):
        next(batches)
    batches.close()


def test_a_process_killed_from_outside_is_an_error() -> None:
    def slow(x: ef.Tensor) -> ef.Tensor:
        threading.Event().wait(600)
        return x

    iterator = iter(numbers(4).map(slow, workers=1, processes=True))
    killer = threading.Thread(target=lambda: becomes(lambda: bool(workers())) and (
        [process.kill() for process in workers()]))  # fmt: skip
    killer.start()
    with pytest.raises(WorkerError, match="worked on element 0"):
        next(iterator)
    killer.join()
    iterator.close()
    assert becomes(lambda: not workers())


def test_a_process_that_exits_says_how() -> None:
    def leave(x: Any) -> None:
        os._exit(3)

    with pytest.raises(WorkerError, match="ended with exit code 3"):
        list(numbers(2).map(leave, **PROCESSES))


def test_functions_that_cannot_be_sent_are_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(SettingError, match="cannot be sent to another process"):
        list(numbers(2).map(lambda x: lock, **PROCESSES))


def test_a_full_disk_is_an_error_of_the_element(tmp_path: Path) -> None:
    def write(x: ef.Tensor) -> int:
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)
        return 1

    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        list(numbers(2).map(write, **PROCESSES).prefetch(2))
    assert "in element 0 of map(write)" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.map(abs, workers=-1),
        lambda d: d.map(abs, workers=1.5),
        lambda d: d.map(abs, processes=True),
        lambda d: d.map(abs, on_error="ignore"),
        lambda d: d.map(abs, on_error=None),
        lambda d: d.prefetch(0),
    ],
)
def test_wrong_settings_are_refused_at_once(call: Callable[[Dataset], Dataset]) -> None:
    with pytest.raises(TensorValueError):
        call(numbers(3))
