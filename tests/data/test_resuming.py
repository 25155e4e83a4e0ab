"""Reading on after Ctrl-C and after errors: no element is lost or repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset, write_records
from eagerflow.errors import TensorValueError
from tests.ctrl_c import ctrl_c_raises
from tests.ctrl_c import interrupted as at_place
from tests.messages import says


def interrupted(x: Any, left: list[int]) -> Any:
    """``x``, after one KeyboardInterrupt for each value in ``left``."""
    if x in left:
        left.remove(int(x))
        raise KeyboardInterrupt
    return x


def counting() -> Iterator[int]:
    yield from range(24)


def numbers() -> Dataset:
    return Dataset.from_tensors(ef.arange(24))


def generated() -> Dataset:
    return Dataset.from_iterable(counting)


SOURCES = [numbers, generated, lambda: Dataset.from_iterable(list(range(24)))]
#: stages below and above the function that is interrupted
BELOW: list[Callable[[Dataset], Dataset]] = [
    lambda data: data,
    lambda data: data.shuffle(5, seed=1),
    lambda data: data.map(lambda x: x, workers=2),
    lambda data: data.prefetch(2),
]
ABOVE: list[Callable[[Dataset], Dataset]] = [
    lambda data: data,
    lambda data: data.batch(4),
    lambda data: data.map(ef.expand_dims).padded_batch(5),
    lambda data: data.shuffle(7, seed=2).batch(3, drop_last=True),
    lambda data: Dataset.zip(numbers(), data, numbers().shuffle(seed=0)),
    lambda data: data.skip(2).take(18).repeat(2).batch(7),
    lambda data: data.map(lambda x: ef.ones(int(x) % 5)).bucket_by_length(len, [2, 4], 3),
    lambda data: data.batch(2).filter(lambda x: int(x[0]) % 3 > 0).batch(2),
]


def text(element: Any) -> str:
    return repr(element)


def read_on(iterator: Any) -> list[str]:
    """All elements, across KeyboardInterrupts."""
    elements = []
    while True:
        try:
            elements.append(text(next(iterator)))
        except StopIteration:
            return elements
        except KeyboardInterrupt:
            pass


@pytest.mark.parametrize("above", range(len(ABOVE)))
@pytest.mark.parametrize("below", range(len(BELOW)))
@pytest.mark.parametrize("source", range(len(SOURCES)))
@pytest.mark.parametrize("method", ["map", "filter"])
def test_ctrl_c_loses_nothing(source: int, below: int, above: int, method: str) -> None:
    def make(left: list[int]) -> Dataset:
        data = BELOW[below](SOURCES[source]())
        if method == "map":
            return ABOVE[above](data.map(lambda x: interrupted(x, left)))
        return ABOVE[above](data.filter(lambda x: interrupted(x, left) >= 0))

    left = [0, 5, 6, 7, 17, 23]
    assert read_on(iter(make(left))) == [text(x) for x in make([])]
    assert len(left) < 6


# Python drops an exception that is raised in a finaliser
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_anywhere_loses_nothing(workers: int) -> None:
    """Ctrl-C at each place, in succession, where Python checks for it while an iterator is read."""
    ended, after = 0, 0
    with ctrl_c_raises():
        while ended < 3:  # with worker threads, readings differ from each other
            after += 1
            data = Dataset.from_tensors(ef.arange(4)).map(lambda x: x * 2, workers=workers)
            iterator = iter(data.prefetch(2))
            elements: list[Any] = []
            try:
                at_place(
                    lambda iterator=iterator, elements=elements: elements.extend(iterator), after
                )
                ended += 1
            except KeyboardInterrupt:
                pass
            elements += list(iterator)
            assert [x.item() for x in elements] == [0, 2, 4, 6], after


def test_ctrl_c_leaves_the_position_where_it_was() -> None:
    left = [6]
    iterator = iter(numbers().map(lambda x: interrupted(x, left)).batch(4))
    next(iterator)
    before = iterator.state
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert iterator.state == before
    assert next(iterator).tolist() == [4, 5, 6, 7]


def test_ctrl_c_in_a_generator_or_a_file_loses_nothing(tmp_path: Path) -> None:
    left = [6, 9]

    def interrupting() -> Iterator[int]:
        for i in range(12):
            yield interrupted(i, left)

    elements = read_on(iter(Dataset.from_iterable(interrupting).batch(4)))
    assert elements == [text(x) for x in Dataset.from_iterable(interrupting).batch(4)]
    assert len(elements) == 3
    write_records(tmp_path / "x", [bytes([i]) for i in range(9)])
    left = [1, 4]
    records = Dataset.from_records(tmp_path / "x").map(lambda x: interrupted(x[0], left)).batch(2)
    assert read_on(iter(records)) == [text(x) for x in Dataset.from_tensors(np.arange(9)).batch(2)]


def test_ctrl_c_does_not_end_what_can_be_read_once() -> None:
    for how in ({}, {"workers": 2}):
        left = [2]
        data = Dataset.from_iterable(counting()).map(lambda x: x, **how)
        iterator = iter(data.filter(lambda x, left=left: interrupted(x, left) >= 0))
        with pytest.raises(KeyboardInterrupt):
            list(iterator)
        assert [x.item() for x in iterator] == list(range(3, 24))  # 2 was being made


# --- errors -----------------------------------------------------------------------------------


def failing(data: Dataset, wrong: set[int]) -> Dataset:
    def fail(x: ef.Tensor) -> ef.Tensor:
        if int(x) in wrong:
            raise ValueError("wrong")
        return x

    return data.map(fail)


def steps(iterator: Any) -> tuple[list[str], list[Any]]:
    """The elements in order, an error as ``"wrong"``, and the position before and after each."""
    elements, states = [], [iterator.state]
    while True:
        try:
            elements.append(text(next(iterator)))
        except StopIteration:
            return elements, states
        except ValueError:
            elements.append("wrong")
        states.append(iterator.state)


RESTORED: list[Callable[[Dataset, set[int]], Dataset]] = [
    lambda data, wrong: failing(data, wrong).shuffle(4, seed=0),
    lambda data, wrong: failing(data, wrong).shuffle(4, seed=0).batch(3),
    lambda data, wrong: failing(data, wrong).map(lambda x: ef.ones(int(x) % 6)).bucket_by_length(
        len, [2, 4], [2, 3, 2]),
    lambda data, wrong: data.bucket_by_length(
        lambda x: [True].index(int(x) not in wrong), [1], 3).shuffle(2, seed=0),
]  # fmt: skip


@pytest.mark.parametrize("which", range(len(RESTORED)))
@given(wrong=st.sets(st.integers(0, 13), max_size=4))
def test_a_position_behind_an_error_is_behind_it(which: int, wrong: set[int]) -> None:
    def make() -> Dataset:
        data = Dataset.from_tensors(np.arange(14)).map(ef.expand_dims).map(ef.sum)
        return RESTORED[which](data, wrong)

    elements, states = steps(iter(make()))
    for place, state in enumerate(states):
        assert steps(make().iterator(state))[0] == elements[place:]


def test_an_error_that_is_new_is_raised() -> None:
    wrong: set[int] = set()
    data = failing(generated(), wrong).shuffle(4, seed=0)
    iterator = iter(data)
    _ = [next(iterator) for _ in range(6)]
    wrong.add(2)  # an element that the buffer held then is missing now
    with pytest.raises(ValueError, check=says("wrong")):
        list(data.iterator(iterator.state))


@pytest.mark.parametrize(
    "make",
    [
        lambda data: data.padded_batch(1).shuffle(4, seed=0),
        lambda data: data.padded_batch(1).bucket_by_length(len, [3], 1),
        lambda data: data.filter(lambda x: True).shuffle(3, seed=0).batch(2).prefetch(1),
        lambda data: data.padded_batch(1).take(len(data) // 2),
        lambda data: Dataset.from_tensors(ef.arange(5)).repeat(len(data) // 8),
    ],
)
def test_a_position_behind_the_end_of_shorter_data_is_refused(
    make: Callable[[Dataset], Dataset],
) -> None:
    iterator = iter(make(Dataset.from_tensors(ef.arange(40))))
    _ = [next(iterator) for _ in range(15)]
    shorter = make(Dataset.from_tensors(ef.arange(8)))
    with pytest.raises(TensorValueError, match="behind the end"):
        shorter.iterator(iterator.state)


def test_a_position_behind_the_last_that_is_taken_is_refused() -> None:
    def taken(count: int) -> Dataset:
        return Dataset.from_iterable(lambda: iter(range(40))).take(count)

    iterator = iter(taken(20))
    _ = [next(iterator) for _ in range(15)]
    assert [x.item() for x in taken(17).iterator(iterator.state)] == [15, 16]
    assert list(taken(15).iterator(iterator.state)) == []
    with pytest.raises(TensorValueError, match=r"behind the end.*\n.*element 15\n.*at most 14"):
        taken(14).iterator(iterator.state)
