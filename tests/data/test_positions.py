"""Positions of iterators: where one stood, another goes on; what is no position is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.errors import TensorValueError
from tests.data.test_pipelines import at, values
from tests.messages import says


def numbers(count: int) -> Dataset:
    return Dataset.from_tensors(ef.arange(count))


# --- positions --------------------------------------------------------------------------------


def test_the_epochs_after_a_restored_one_are_the_next() -> None:
    def make() -> Dataset:
        return numbers(10).shuffle(seed=0).batch(4)

    uninterrupted, other = make(), make()
    epochs = [values(uninterrupted) for _ in range(4)]
    assert values(other) == epochs[0]
    iterator = iter(other)
    next(iterator)
    state = json.loads(json.dumps(iterator.state))
    resumed = make()
    assert values(resumed.iterator(state)) == epochs[1][1:]
    assert values(resumed) == epochs[2]
    assert values(resumed) == epochs[3]


def test_an_iterator_that_is_never_read_takes_no_epoch() -> None:
    def make() -> Dataset:
        return numbers(10).shuffle(seed=0).batch(4).prefetch(2)

    plain = make()
    epochs = [values(plain) for _ in range(4)]
    dataset = make()
    early, closed = iter(dataset), iter(dataset)
    closed.close()
    assert values(closed) == []
    assert values(dataset) == epochs[0]
    assert early.state["epoch"] == 1
    assert "epoch 1" in repr(early)
    late = iter(dataset)
    assert values(late) == epochs[1]  # who reads first has the next epoch
    assert early.state["epoch"] == 2
    assert values(early) == epochs[2]
    assert values(dataset) == epochs[3]


def test_a_position_before_the_first_element_takes_an_epoch_once_it_is_read() -> None:
    def make() -> Dataset:
        return numbers(10).shuffle(seed=0).batch(4)

    plain = make()
    epochs = [values(plain) for _ in range(4)]
    dataset = make()
    assert values(dataset) == epochs[0]
    state = json.loads(json.dumps(iter(dataset).state))
    assert state["epoch"] == 1
    unread = make()
    unread.iterator(state)
    assert values(unread) == epochs[1]
    resumed = make()
    one, other = resumed.iterator(state), resumed.iterator(state)
    assert values(one) == values(other) == epochs[1]  # the position says which
    assert values(resumed) == epochs[2]
    assert values(resumed) == epochs[3]


def test_a_seed_that_was_drawn_is_part_of_the_position() -> None:
    dataset = numbers(30).shuffle()
    iterator = iter(dataset)
    next(iterator)
    state = iterator.state
    rest = values(iterator)
    other = numbers(30).shuffle()
    assert values(other.iterator(state)) == rest
    assert values(other) == values(dataset)


def test_a_checkpoint_keeps_the_position(tmp_path: Path) -> None:
    first, second = (numbers(20).shuffle().batch(3) for _ in range(2))
    iterator, other = iter(first), iter(second)
    next(iterator)
    ef.checkpoint.save(tmp_path / "latest", {"input": iterator, "epoch": 0})
    rest = values(iterator)
    ef.checkpoint.load(tmp_path / "latest", like={"input": other, "epoch": 0})
    assert values(other) == rest
    assert values(first) == values(second)


def test_to_go_on_skips_what_was_mapped() -> None:
    calls: list[int] = []
    dataset = numbers(100).map(lambda x: calls.append(x.item()) or x)
    iterator = iter(dataset)
    for _ in range(90):
        next(iterator)
    calls.clear()
    values(dataset.iterator(iterator.state))
    assert calls == list(range(90, 100))


def test_an_iterator_goes_back() -> None:
    iterator = iter(numbers(4).shuffle(seed=1).repeat(2))
    start = iterator.state
    first = values(iterator)
    assert list(iterator) == []
    end = iterator.state
    iterator.state = start
    assert values(iterator) == first
    iterator.state = end
    assert list(iterator) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda state: None,
        lambda state: {**state, "more": 1},
        lambda state: {**state, "position": {"index": -1}},
        lambda state: {**state, "position": {"index": 1.5}},
        lambda state: {**state, "position": {"index": "1"}},
        lambda state: {**state, "position": {"index": 9}},
        lambda state: {**state, "position": {"index": 1, "source": {"index": 1}}},
        lambda state: {**state, "seeds": [8]},
        lambda state: {**state, "seeds": []},
    ],
)
def test_what_is_no_position_is_refused(change: Callable[[Any], Any]) -> None:
    dataset = numbers(8).shuffle(seed=7)
    iterator = iter(dataset)
    next(iterator)
    before, rest = iterator.state, values(at(numbers(8).shuffle(seed=7), 0))[1:]
    with pytest.raises(TensorValueError, check=says("position")):
        iterator.state = change(before)
    assert iterator.state == before
    assert values(iterator) == rest


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            {"epoch": 0, "seeds": [], "position": {"index": 0}},
            "the length of seeds is 0, and here 1",
        ),
        ({"epoch": 0, "seeds": [1], "position": {"pass": 0}}, "position.index is missing"),
        ({"epoch": 0, "seeds": [1], "position": 4}, "position is 4"),
        ({"epoch": -1, "seeds": [1], "position": {"index": 0}}, "epoch is -1"),
        ({"epoch": 0, "seeds": ["a"], "position": {"index": 0}}, r"seeds\[0\] is 'a'"),
        ({"epoch": 0, "seeds": [1], "position": {"index": 0}, "x": 1}, "x is not known here"),
        (7, "it is 7"),
    ],
)
def test_what_differs_in_a_position_is_named(state: Any, words: str) -> None:
    dataset = Dataset.from_tensors(ef.arange(10)).shuffle(seed=1)
    with pytest.raises(TensorValueError, match=f"not a position in this dataset: {words}"):
        dataset.iterator(state)


def test_a_refused_position_changes_no_seed() -> None:
    dataset = numbers(8).shuffle()
    iterator = iter(dataset)
    state = iterator.state
    with pytest.raises(TensorValueError, match="behind the end"):
        iterator.state = {**state, "seeds": [1], "position": {"index": 9}}
    assert iterator.state == state


def test_a_position_behind_the_end_of_an_iterable_is_refused() -> None:
    state = iter(Dataset.from_iterable(lambda: range(9)).skip(8)).state
    longer = iter(Dataset.from_iterable(lambda: range(9)))
    list(longer)
    with pytest.raises(TensorValueError, match="behind the end of from_iterable"):
        Dataset.from_iterable(lambda: range(5)).iterator(longer.state)
    assert values(Dataset.from_iterable(lambda: range(9)).skip(8).iterator(state)) == [8]
