"""Padded batches and buckets of lengths, against lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.errors import DTypeError, ShapeError, TensorValueError

lengths = st.lists(st.integers(0, 12), max_size=20)


def rows(sizes: list[int]) -> list[list[int]]:
    return [[i + 1] * size for i, size in enumerate(sizes)]


def dataset(sizes: list[int]) -> Dataset:
    return Dataset.from_iterable([ef.tensor(row, dtype="int64") for row in rows(sizes)])


def padded(batch: list[list[int]], value: int) -> list[list[int]]:
    longest = max(map(len, batch))
    return [row + [value] * (longest - len(row)) for row in batch]


def lists(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


def buckets(sizes: list[int], bounds: list[int], counts: list[int], drop: bool) -> list[Any]:
    held: list[list[list[int]]] = [[] for _ in counts]
    batches = []
    for row in rows(sizes):
        which = sum(len(row) >= bound for bound in bounds)
        held[which].append(row)
        if len(held[which]) == counts[which]:
            batches.append(held[which])
            held[which] = []
    return batches + [batch for batch in held if batch and not drop]


@given(lengths, st.integers(1, 5), st.integers(-3, 3), st.booleans())
def test_batches_are_padded(sizes: list[int], count: int, value: int, drop: bool) -> None:
    batches = [rows(sizes)[i : i + count] for i in range(0, len(sizes), count)]
    expected = [padded(b, value) for b in batches if len(b) == count or not drop]
    made = dataset(sizes).padded_batch(count, value=value, drop_last=drop)
    assert lists(made) == expected
    assert len(made) == len(expected)


@given(
    lengths,
    st.sets(st.integers(0, 12), max_size=3).map(sorted),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.booleans(),
)
def test_buckets_hold_like_lengths(
    sizes: list[int], bounds: list[int], counts: list[int], drop: bool
) -> None:
    counts = counts[: len(bounds) + 1]
    expected = [padded(b, -1) for b in buckets(sizes, bounds, counts, drop)]

    def make() -> Dataset:
        return dataset(sizes).bucket_by_length(len, bounds, counts, value=-1, drop_last=drop)

    assert lists(make()) == expected
    iterator = iter(make())
    for position in range(len(expected) + 1):
        state = json.loads(json.dumps(iterator.state))
        assert lists(make().iterator(state)) == expected[position:]
        next(iterator, None)


@given(lengths, st.integers(1, 5))
def test_positions_of_padded_batches(sizes: list[int], count: int) -> None:
    make = lambda: dataset(sizes).shuffle(seed=0).padded_batch(count)
    whole = lists(make())
    iterator = iter(make())
    for position in range(len(whole) + 1):
        assert lists(make().iterator(iterator.state)) == whole[position:]
        next(iterator, None)


def test_every_axis_of_every_leaf_is_padded() -> None:
    elements = [{"x": ef.ones((i, 3 - i)), "y": float(i)} for i in (1, 2)]
    (batch,) = Dataset.from_iterable(elements).padded_batch(2, value=7)
    assert batch["y"].tolist() == [1, 2]
    assert batch["x"].tolist() == [[[1, 1], [7, 7]], [[1, 7], [1, 7]]]
    assert str(batch["x"].dtype) == "float32"


def test_buckets_in_a_pipeline_with_workers() -> None:
    made = dataset([3, 1, 4, 1, 5, 9, 2, 6]).map(lambda x: x * 2, workers=2)
    batches = made.bucket_by_length(len, [4], 2).prefetch(2)
    assert [b.shape for b in batches] == [(2, 3), (2, 5), (2, 2), (2, 9)]
    assert len(lists(batches.repeat(2))) == 8


def test_what_cannot_be_padded_is_refused() -> None:
    with pytest.raises(ShapeError, match="one number of axes"):
        list(Dataset.from_iterable([ef.ones(2), ef.ones((2, 2))]).padded_batch(2))
    with pytest.raises(DTypeError, match="differ in dtype"):
        list(Dataset.from_iterable([1, 1.5]).padded_batch(2))
    with pytest.raises(ShapeError, match="padded_batch pads"):
        list(dataset([1, 2]).batch(2))
    with pytest.raises(
        DTypeError, match=r"the length of an element is not valid\n  got: a float: 1\.5"
    ) as caught:
        list(dataset([1]).bucket_by_length(lambda x: 1.5, [3], 2))
    assert "in element 0 of bucket_by_length(<lambda>)" in caught.value.__notes__[0]
    with pytest.raises(TensorValueError, match="the length of an element is not valid") as negative:
        list(dataset([1]).bucket_by_length(lambda x: -1, [3], 2))
    assert "in element 0 of bucket_by_length(<lambda>)" in negative.value.__notes__[0]


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("int64", 0.5, False), ("int64", 2.0, True), ("uint8", -1, False), ("uint8", 256, False),
        ("bool", 2, False), ("bool", True, True), ("int32", float("nan"), False),
        ("float32", b"x", False), ("float32", 1j, False), ("float32", 0.1, True),
        ("bfloat16", -1, True), ("complex64", 1j, True),
    ],
)  # fmt: skip
def test_padding_is_a_value_of_the_dtype(dtype: str, value: Any, fits: bool) -> None:
    rows = Dataset.from_iterable([ef.ones(1, dtype=dtype), ef.ones(2, dtype=dtype)])
    batches = rows.padded_batch(2, value=value)
    if not fits:
        with pytest.raises(TensorValueError, match="cannot hold the fill value"):
            list(batches)
        return
    (batch,) = batches
    assert batch[0, 1] == ef.tensor(value, dtype=dtype)
    assert str(batch.dtype) == dtype


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.padded_batch(0),
        lambda d: d.bucket_by_length(len, [3, 2], 1),
        lambda d: d.bucket_by_length(len, [2, 2], 1),
        lambda d: d.bucket_by_length(len, [-1], 1),
        lambda d: d.bucket_by_length(len, [2], [1]),
        lambda d: d.bucket_by_length(len, [2], 0),
    ],
)
def test_wrong_buckets_are_refused_at_once(call: Callable[[Dataset], Dataset]) -> None:
    with pytest.raises(TensorValueError):
        call(dataset([1]))


def test_they_print_as_they_were_written() -> None:
    made = dataset([1]).padded_batch(2, value=1, drop_last=True)
    assert repr(made).endswith(".padded_batch(2, value=1, drop_last=True)")
    made = dataset([1]).bucket_by_length(len, [4, 8], 3)
    assert repr(made).endswith(".bucket_by_length(len, [4, 8], 3)")
