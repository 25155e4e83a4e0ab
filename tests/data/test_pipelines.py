"""Pipelines of all stages compared with lists, and restored from every position."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset

#: the expected elements of a pipeline in an epoch
Model = Callable[[int], list[Any]]
Step = tuple[Any, ...]


def values(elements: Any) -> list[Any]:
    """Elements as plain lists and tuples."""
    return [_plain(x) for x in elements]


def _plain(x: Any) -> Any:
    return tuple(_plain(part) for part in x) if isinstance(x, tuple) else x.tolist()


def at(dataset: Dataset, epoch: int) -> Any:
    """The iterator of a dataset in an epoch."""
    return dataset.iterator({**iter(dataset).state, "epoch": epoch})


def order(count: int, size: int | None, seed: int, epoch: int) -> list[int]:
    """The order into which a shuffle brings ``count`` elements."""
    whole = Dataset.from_tensors(ef.arange(count)).shuffle(size, seed=seed)
    return values(at(whole, epoch))


def source(kind: str, count: int) -> tuple[Dataset, Model]:
    numbers = list(range(count))
    if kind == "tensors":
        made = Dataset.from_tensors(ef.arange(count))
    elif kind == "list":
        made = Dataset.from_iterable(numbers)
    else:
        made = Dataset.from_iterable(lambda: iter(numbers))
    return made, lambda epoch: numbers


def apply(step: Step, dataset: Dataset, model: Model) -> tuple[Dataset, Model]:
    """A dataset and its model on lists, with one more step."""
    name, *arguments = step
    if name == "map":
        return dataset.map(lambda x: x + 1), lambda e: [_added(x) for x in model(e)]
    if name == "filter":
        return dataset.filter(lambda x: x.sum() % 3 != 1), lambda e: [
            x for x in model(e) if _total(x) % 3 != 1
        ]
    if name == "shuffle":
        size, seed = arguments
        shuffled = dataset.shuffle(size, seed=seed)
        return shuffled, lambda e: [model(e)[i] for i in order(len(model(e)), size, seed, e)]
    if name == "batch":
        (count,) = arguments
        return dataset.batch(count, drop_last=True), lambda e: [
            list(batch) for batch in zip(*[iter(model(e))] * count, strict=False)
        ]
    if name == "repeat":
        (times,) = arguments
        return dataset.repeat(times), lambda e: [
            x for one in range(e * times, (e + 1) * times) for x in model(one)
        ]
    (count,) = arguments
    if name == "take":
        return dataset.take(count), lambda e: model(e)[:count]
    return dataset.skip(count), lambda e: model(e)[count:]


def _added(x: Any) -> Any:
    return [_added(part) for part in x] if isinstance(x, list) else x + 1


def _total(x: Any) -> int:
    return sum(map(_total, x)) if isinstance(x, list) else x


small = st.integers(0, 6)
steps = st.one_of(
    st.tuples(st.just("map")),
    st.tuples(st.just("filter")),
    st.tuples(st.just("shuffle"), st.integers(1, 9), st.integers(0, 3)),
    st.tuples(st.just("batch"), st.integers(1, 4)),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("take"), small),
    st.tuples(st.just("skip"), small),
)
kinds = st.sampled_from(["tensors", "list", "function"])
pipelines = st.tuples(kinds, st.integers(0, 9), st.lists(steps, max_size=4))


def build(kind: str, count: int, chosen: list[Step]) -> tuple[Dataset, Model]:
    dataset, model = source(kind, count)
    for step in chosen:
        dataset, model = apply(step, dataset, model)
    return dataset, model


@given(pipelines)
def test_pipelines_are_as_lists(pipeline: Any) -> None:
    dataset, model = build(*pipeline)
    for epoch in range(3):
        assert values(dataset) == model(epoch), f"{dataset}, epoch {epoch}"


@given(pipelines)
def test_lengths_that_are_known_are_right(pipeline: Any) -> None:
    dataset, model = build(*pipeline)
    try:
        length = len(dataset)
    except ef.errors.LengthError:
        assert pipeline[0] == "function" or any(s[0] == "filter" for s in pipeline[2])
    else:
        assert length == len(model(0))


@given(pipelines, st.integers(0, 2))
def test_every_position_is_restored(pipeline: Any, epoch: int) -> None:
    whole = values(at(build(*pipeline)[0], epoch))
    iterator = at(build(*pipeline)[0], epoch)
    for position in range(len(whole) + 1):
        state = json.loads(json.dumps(iterator.state))
        other = build(*pipeline)[0]
        assert values(other.iterator(state)) == whole[position:], (position, state)
        assert iterator.state == state  # restoring a state leaves it unchanged
        assert next(iterator, None) is not None or position == len(whole)


@given(pipelines, pipelines)
def test_zip_reads_side_by_side(one: Any, other: Any) -> None:
    (a, model_a), (b, model_b) = build(*one), build(*other)
    pairs = Dataset.zip(a, b)
    for epoch in range(2):
        assert values(pairs) == list(zip(model_a(epoch), model_b(epoch), strict=False))
    whole = values(at(Dataset.zip(a, b), 1))
    iterator = at(Dataset.zip(a, b), 1)
    for position in range(len(whole) + 1):
        again = Dataset.zip(a, b).iterator(iterator.state)
        assert values(again) == whole[position:]
        next(iterator, None)


@given(st.integers(0, 20), st.integers(1, 25), st.booleans())
def test_batches_have_what_is_left(count: int, size: int, drop: bool) -> None:
    numbers = list(range(count))
    expected = [numbers[i : i + size] for i in range(0, count, size)]
    if drop:
        expected = [batch for batch in expected if len(batch) == size]
    for kind in ("tensors", "list", "function"):
        dataset = source(kind, count)[0].batch(size, drop_last=drop)
        assert values(dataset) == expected


@given(st.integers(0, 12), st.integers(1, 5), st.integers(1, 14))
def test_batches_go_on_over_the_end_of_a_pass(count: int, times: int, size: int) -> None:
    expected = list(range(count)) * times
    for kind in ("tensors", "function"):
        dataset = source(kind, count)[0].repeat(times).batch(size)
        assert list(chain(*values(dataset))) == expected
        assert {len(x) for x in values(dataset)} <= {size, len(expected) % size}


@pytest.mark.parametrize("kind", ["tensors", "function"])
def test_what_is_endless_can_be_taken_from(kind: str) -> None:
    endless = source(kind, 3)[0].repeat()
    assert values(endless.take(7)) == [0, 1, 2, 0, 1, 2, 0]
    assert values(endless.batch(2).take(3)) == [[0, 1], [2, 0], [1, 2]]
    assert values(endless.skip(4).take(2)) == [1, 2]


@pytest.mark.parametrize("kind", ["tensors", "list", "function"])
def test_nothing_repeated_is_nothing(kind: str) -> None:
    nothing = source(kind, 0)[0]
    assert values(nothing.repeat()) == values(nothing.repeat().batch(2)) == []
    none_left = source(kind, 3)[0].filter(lambda x: False)
    assert values(none_left.repeat()) == values(none_left.repeat().batch(2)) == []


def test_an_endless_dataset_repeats_its_epochs() -> None:
    dataset = Dataset.from_tensors(ef.arange(7)).shuffle(seed=5)
    epochs = [x for _ in range(3) for x in values(dataset)]
    again = Dataset.from_tensors(ef.arange(7)).shuffle(seed=5).repeat()
    three = again.take(21)
    assert values(three) == epochs
    assert values(three) != epochs  # another epoch of the endless one
    twice = Dataset.from_tensors(ef.arange(7)).shuffle(seed=5).repeat(2)
    assert values(twice) == epochs[:14]
    assert values(twice)[:7] == epochs[14:]


def test_an_endless_dataset_in_an_endless_one_has_orders_of_its_own() -> None:
    dataset = Dataset.from_tensors(ef.arange(9)).shuffle(seed=0).repeat().take(9).repeat()
    orders = set()
    for _ in range(3):
        iterator = iter(dataset)
        orders |= {tuple(next(iterator).item() for _ in range(9)) for _ in range(3)}
    assert len(orders) == 9


@pytest.mark.parametrize("kind", ["tensors", "function"])
def test_positions_before_a_smaller_last_batch(kind: str) -> None:
    for count, size in [(5, 2), (6, 3), (2, 5)]:

        def make(count: int = count, size: int = size) -> Dataset:
            return source(kind, count)[0].shuffle(count, seed=0).batch(size)

        whole = values(make())
        iterator = iter(make())
        for position in range(len(whole) + 1):
            assert values(make().iterator(iterator.state)) == whole[position:]
            next(iterator, None)


def test_parts_are_shuffled_and_read_in_batches() -> None:
    part = Dataset.from_tensors(ef.arange(20)).skip(5).take(10)
    (batch,) = part.shuffle(seed=0).batch(10)
    assert sorted(batch.tolist()) == list(range(5, 15))
    again = part.shuffle(seed=0).skip(2).take(4).shuffle(seed=1)
    assert sorted(values(again)) == sorted(batch.tolist()[2:6])
    assert list(chain(*values(again.batch(3)))) == values(at(again, 0))


@pytest.mark.parametrize("kind", ["tensors", "function"])
def test_seeded_maps_go_on_with_the_same_draws(kind: str) -> None:
    def make() -> Dataset:
        ordered = source(kind, 6)[0].filter(lambda x: x != 2)
        return ordered.map(lambda x, draws: x + draws.uniform(()), seed=3).batch(2)

    whole = values(make())
    iterator = iter(make())
    next(iterator)
    assert values(make().iterator(iterator.state)) == whole[1:]


def test_a_pass_that_gives_nothing_is_the_last() -> None:
    calls: list[int] = []

    def first_pass(x: ef.Tensor) -> bool:
        calls.append(1)
        return not 3 < len(calls) <= 6

    dataset = Dataset.from_tensors(ef.arange(3)).filter(first_pass).repeat()
    assert values(dataset.batch(2)) == [[0, 1], [2]]
