"""Iterators shared by several threads, and iterators that their own functions refer to."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.data import Dataset, DatasetIterator
from eagerflow.data.workers.processes import stop_server
from tests.ctrl_c import ctrl_c_raises
from tests.data.test_ends import ours
from tests.data.workers.test_buffers import until
from tests.data.workers.test_parallel import PROCESSES, becomes, counted, numbers

COUNT = 600
SHARED: dict[str, Callable[[], Dataset]] = {
    "view": lambda: numbers(COUNT),
    "generator": lambda: counted(COUNT),
    "map": lambda: counted(COUNT).map(lambda x: x),
    "threads": lambda: numbers(COUNT).map(lambda x: x, workers=2),
    "one order": lambda: counted(COUNT).map(lambda x: x, workers=2),
    "no order": lambda: counted(COUNT).map(lambda x: x, workers=2, ordered=False),
    "prefetch": lambda: numbers(COUNT).prefetch(2),
    "batches": lambda: numbers(COUNT).shuffle(seed=0).batch(4).map(lambda x: x, workers=2),
    "repeat": lambda: numbers(COUNT // 3).map(lambda x: x, workers=2).repeat(3).prefetch(1),
    "shuffle": lambda: counted(COUNT).shuffle(9, seed=0).prefetch(2),
}


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    list(numbers(1).map(abs, **PROCESSES))  # opens its socket, else a leak of the first test
    yield
    stop_server()


@pytest.fixture
def hasty() -> Iterator[None]:
    """Makes threads switch as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def numbers_of(element: ef.Tensor) -> list[int]:
    value = element.tolist()
    return value if isinstance(value, list) else [value]


def read_by(iterator: DatasetIterator, threads: int) -> list[int]:
    """The elements that some threads get, each of which reads to the end."""
    elements: list[int] = []
    start = threading.Barrier(threads)

    def read() -> None:
        start.wait()
        for element in iterator:
            elements.extend(numbers_of(element))

    readers = [threading.Thread(target=read) for _ in range(threads)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()  # an error raised there fails the test
    return elements


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("kind", SHARED)
def test_each_element_goes_to_one_thread(kind: str) -> None:
    dataset = SHARED[kind]()
    iterator = iter(dataset)
    expected = sorted(x for element in SHARED[kind]() for x in numbers_of(element))
    assert sorted(read_by(iterator, 4)) == expected
    assert list(iterator) == []
    assert becomes(lambda: not ours())


def test_the_position_is_never_in_the_middle_of_an_element() -> None:
    """Another thread asks for the position while an element is made."""
    made, gate = threading.Event(), threading.Event()

    def slow(x: ef.Tensor) -> ef.Tensor:
        made.set()
        gate.wait()
        return x

    iterator = iter(counted(5).map(slow))
    start = iterator.state
    states: list[Any] = []
    reader = threading.Thread(target=lambda: next(iterator))
    reader.start()
    made.wait()
    asker = threading.Thread(target=lambda: states.append(iterator.state))
    asker.start()
    gate.set()
    reader.join()
    asker.join()
    assert states == [iterator.state] != [start]


def test_closing_ends_all_who_wait() -> None:
    gate, made = threading.Event(), threading.Event()

    def slow(x: ef.Tensor) -> ef.Tensor:
        made.set()
        gate.wait()
        return x

    iterator = iter(numbers(9).map(slow, workers=2))
    ends: list[str] = []

    def read() -> None:
        try:
            next(iterator)
        except (StopIteration, ef.errors.CancelledError) as error:
            ends.append(type(error).__name__)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    made.wait()
    iterator.close()
    for reader in readers:
        reader.join()
    assert ends.count("StopIteration") >= 2  # all but the reader that was served, if any
    gate.set()
    assert becomes(lambda: not ours())


def test_ctrl_c_reaches_who_waits_for_another_reader() -> None:
    gate, made = threading.Event(), threading.Event()
    main = threading.main_thread()

    def slow(x: ef.Tensor) -> ef.Tensor:
        made.set()
        gate.wait()
        return x

    iterator = iter(numbers(3).map(slow))
    elements: list[int] = []
    reader = threading.Thread(target=lambda: elements.extend(x.item() for x in iterator))
    reader.start()
    made.wait()
    timer = threading.Timer(0.05, lambda: signal.pthread_kill(main.ident or 0, signal.SIGINT))
    timer.start()
    with ctrl_c_raises(), pytest.raises(KeyboardInterrupt):
        next(iterator)
    timer.join()
    gate.set()
    reader.join()
    assert elements == [0, 1, 2]  # the other reader has lost nothing


# --- functions that refer to the iterator -----------------------------------------------------


class Trainer:
    """A typical class of user code: it has the data, the function and the iterator."""

    def __init__(self, made: Callable[[Any], Dataset]) -> None:
        self.weights = ef.zeros(3)
        self.data = made(self.augmented)
        self.iterator = iter(self.data)

    def augmented(self, x: ef.Tensor) -> ef.Tensor:
        return x + self.weights.shape[0]


OWNED: dict[str, Callable[[Any], Dataset]] = {
    "here": lambda f: numbers(99).map(f),
    "prefetch": lambda f: numbers(99).map(f).prefetch(2),
    "threads": lambda f: numbers(99).map(f, workers=2),
    "both": lambda f: numbers(99).map(f, workers=2).prefetch(2),
    "one order": lambda f: counted(99).map(f, workers=2).prefetch(2),
    "no order": lambda f: counted(99).map(f, workers=2, ordered=False).batch(2).prefetch(2),
    "processes": lambda f: counted(99).map(lambda x: x, workers=1, processes=True).map(f)
    .prefetch(2),
    "twice": lambda f: numbers(99).map(f).prefetch(2).map(f).repeat().prefetch(2),
    "generator": lambda f: Dataset.from_iterable(lambda: map(f, range(99))).map(
        lambda x: x + f(x), workers=2).prefetch(2),
}  # fmt: skip


@pytest.mark.parametrize("kind", OWNED)
def test_an_owner_is_forgotten_with_its_iterator(kind: str) -> None:
    gc.collect()

    def begun() -> weakref.ref[Trainer]:
        trainer = Trainer(lambda f: OWNED[kind](f if kind != "generator" else plain(f)))
        next(trainer.iterator)
        until(lambda: waits_for_room(trainer.iterator))
        return weakref.ref(trainer)

    trainer = begun()

    def gone() -> bool:
        gc.collect()
        return trainer() is None

    assert becomes(gone)
    assert becomes(lambda: not ours())


def plain(function: Any) -> Any:
    return lambda x: function(ef.tensor(x))


def waits_for_room(iterator: Any) -> bool:
    """Whether each producer of a prefetch waits for room."""
    queues = [queue for queue in iterator._cursor.queues if queue.label == "prefetch"]
    return all(queue.waiting(0) == 1 for queue in queues)
