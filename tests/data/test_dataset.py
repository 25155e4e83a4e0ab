"""`Dataset` case by case: elements, orders, positions, and user mistakes."""

from __future__ import annotations

import functools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.errors import TensorValueError
from tests.data.test_pipelines import at, values
from tests.messages import says


def numbers(count: int) -> Dataset:
    return Dataset.from_tensors(ef.arange(count))


# --- elements ---------------------------------------------------------------------------------


@dataclass
class Sample:
    image: Any
    label: Any


def test_several_tensors_are_a_tuple() -> None:
    (row,) = Dataset.from_tensors(ef.ones((1, 2)), np.zeros(1), {"k": ef.arange(1)})
    assert [row[0].tolist(), row[1].item(), row[2]["k"].item()] == [[1.0, 1.0], 0.0, 0]


def test_elements_keep_their_structure() -> None:
    images = np.arange(24, dtype="float32").reshape(6, 2, 2)
    dataset = Dataset.from_tensors({"a": Sample(images, ef.arange(6)), "b": [ef.ones(6), None]})
    for chosen in (dataset, dataset.shuffle(seed=0), dataset.map(lambda x: x)):
        rows: dict[int, Any] = {}
        for element in chosen:
            assert type(element["a"]) is Sample
            assert element["b"][1] is None
            rows[element["a"].label.item()] = element["a"].image.tolist()
        assert rows == dict(enumerate(images.tolist()))
        (batch,) = chosen.batch(6)
        assert type(batch["a"]) is Sample
        assert batch["a"].image.shape == (6, 2, 2)
        by_label = dict(zip(batch["a"].label.tolist(), batch["a"].image.tolist(), strict=True))
        assert by_label == rows


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "bfloat16", "float8_e5m2",
                                   "complex64"])  # fmt: skip
def test_every_dtype_stays(dtype: str) -> None:
    x = ef.asarray([0, 1, 1], dtype=dtype)
    for tensors in (x, np.asarray(x)):
        dataset = Dataset.from_tensors(tensors)
        assert {e.dtype.name for e in dataset} == {dtype}
        (batch,) = dataset.shuffle(seed=0).batch(3)
        assert batch.dtype.name == dtype
        assert sorted(abs(complex(v)) for v in batch.tolist()) == [0, 1, 1]


def test_a_file_larger_than_memory_is_read_in_batches(tmp_path: Path) -> None:
    table = np.arange(40, dtype="int32").reshape(10, 4)
    np.save(tmp_path / "x.npy", table)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for dataset in (Dataset.from_tensors(mapped), Dataset.from_tensors(mapped).shuffle(seed=2)):
        rows = [row for batch in dataset.batch(3) for row in batch.tolist()]
        assert sorted(rows) == table.tolist()
    first = next(iter(Dataset.from_tensors(mapped).batch(3)))
    assert not isinstance(first.numpy().base, np.memmap)  # the file is not kept open


def test_elements_do_not_change_with_the_array_they_were_read_from() -> None:
    array = np.zeros((4, 2))
    dataset = Dataset.from_tensors(array)
    element, batch = next(iter(dataset)), next(iter(dataset.batch(2)))
    array[:] = 1
    assert element.tolist() == [0, 0]
    assert batch.tolist() == [[0, 0], [0, 0]]
    assert next(iter(dataset)).tolist() == [1, 1]  # the dataset itself reads current values


def test_readers_may_fill_one_buffer_again_and_again() -> None:
    def read() -> Iterator[Any]:
        buffer = np.zeros(2)
        for i in range(3):
            buffer[:] = i
            yield buffer

    assert values(Dataset.from_iterable(read)) == [[0, 0], [1, 1], [2, 2]]


def test_variables_give_the_value_that_they_had() -> None:
    v = ef.Variable(ef.arange(3))
    dataset = Dataset.from_tensors(v)
    v.assign(ef.zeros(3, dtype=ef.int64))
    assert values(dataset) == [0, 1, 2]


def test_other_leaves_pass_until_a_map_makes_tensors_of_them() -> None:
    paths = [Path("a"), Path("bb"), Path("ccc")]
    dataset = Dataset.from_iterable(paths)
    assert list(dataset) == paths
    lengths = dataset.map(lambda path: len(path.name)).batch(3)
    assert values(lengths) == [[1, 2, 3]]
    assert values(Dataset.from_iterable([b"xy"]).map(len)) == [2]


def test_data_is_read_where_it_is() -> None:
    with ef.config(cpu_devices=2):
        x = ef.asarray([1.0, 2.0, 3.0], device="cpu:1")
        (batch,) = Dataset.from_tensors(x).shuffle(seed=0).batch(3)
        assert str(batch.device) == "cpu:1"
        assert sorted(batch.tolist()) == [1, 2, 3]


# --- orders -----------------------------------------------------------------------------------


def test_orders_are_the_same_on_every_machine() -> None:
    dataset = numbers(8).shuffle(seed=0)
    assert values(dataset) == WHOLE[0]
    assert values(dataset) == WHOLE[1]
    assert values(numbers(8).shuffle(3, seed=0)) == BUFFERED


#: reference values: `values(numbers(8).shuffle(seed=0))` in epochs 0 and 1, and with buffer_size=3
WHOLE = ([6, 5, 4, 3, 2, 1, 7, 0], [6, 0, 2, 1, 7, 5, 3, 4])
BUFFERED = [1, 0, 4, 5, 2, 3, 6, 7]


def test_without_reshuffle_all_epochs_are_the_first() -> None:
    dataset = numbers(20).shuffle(seed=3, reshuffle=False)
    first = values(dataset)
    assert values(dataset) == first == values(numbers(20).shuffle(seed=3))
    assert values(numbers(20).shuffle(seed=3, reshuffle=False).repeat(2)) == first + first


def test_orders_without_a_seed_follow_the_seed_of_the_process() -> None:
    orders = []
    for seed in (1, 1, 2):
        ef.random.seed(seed)
        orders.append(values(numbers(30).shuffle()))
    assert orders[0] == orders[1] != orders[2]
    assert values(numbers(30).shuffle()) != values(numbers(30).shuffle())


def test_datasets_of_one_seed_are_shuffled_alike() -> None:
    x = numbers(50).shuffle(seed=9)
    y = Dataset.from_tensors(ef.arange(50) * 2).shuffle(seed=9)
    for _ in range(2):
        assert [2 * a for a in values(x)] == values(y)


def test_a_buffer_moves_elements_forward_by_less_than_its_size() -> None:
    for dataset in (numbers(60), Dataset.from_iterable(lambda: range(60))):
        order = values(dataset.shuffle(7, seed=1))
        assert sorted(order) == list(range(60))
        assert all(element - place < 7 for place, element in enumerate(order))
        assert max(element - place for place, element in enumerate(order)) == 6
        assert values(dataset.shuffle(1, seed=1)) == list(range(60))


@pytest.mark.parametrize("size", [None, 4, 2])
def test_all_orders_are_equally_likely(size: int | None) -> None:
    dataset = numbers(4).shuffle(size, seed=0)
    counts = Counter(tuple(values(dataset)) for _ in range(2400))
    orders = 24 if size != 2 else 8
    assert len(counts) == orders
    expected = 2400 / orders
    chi_squared = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi_squared < 50  # 23 degrees of freedom: p = 0.001 at 49.7


def test_maps_with_a_seed_draw_the_same_for_the_same_element() -> None:
    def noise(x: ef.Tensor, draws: ef.random.Generator) -> ef.Tensor:
        return x + draws.uniform(())

    epochs = [values(kind.map(noise, seed=4)) for kind in (
        numbers(5), Dataset.from_iterable(lambda: range(5)))]  # fmt: skip
    assert epochs[0] == epochs[1]
    assert len({x % 1 for x in epochs[0]}) == 5
    dataset = numbers(5).map(noise, seed=4)
    assert values(dataset) != values(dataset)  # another epoch
    assert values(at(dataset, 0)) == epochs[0]
    assert values(numbers(5).map(noise, seed=4).skip(3)) == epochs[0][3:]
    shuffled = numbers(5).map(noise, seed=4).shuffle(seed=0)
    assert sorted(values(shuffled)) == sorted(epochs[0])


def test_functions_take_the_parts_of_tuples() -> None:
    pairs = Dataset.from_tensors((ef.arange(4), ef.arange(4) * 10))
    assert values(pairs.map(lambda x, y: x + y)) == [0, 11, 22, 33]
    assert values(pairs.map(lambda pair: pair[0] + pair[1])) == [0, 11, 22, 33]
    assert values(pairs.map(ef.trace(lambda x, y, factor=2: x * factor + y))) == [0, 12, 24, 36]
    assert values(pairs.map(lambda *every: len(every))) == [1] * 4  # it can take the element
    assert values(pairs.map(lambda pair, other=7: other)) == [7] * 4
    assert values(pairs.map(lambda x, y, draws: x + y + draws.randint((), 0, 1), seed=1)) == [
        0, 11, 22, 33,
    ]  # fmt: skip
    drawn = pairs.map(lambda pair, draws: pair[0] + draws.randint((), 0, 1), seed=1)
    assert values(drawn) == [0, 1, 2, 3]
    assert [x.item() for x, _ in pairs.filter(lambda x, y: y > 10)] == [2, 3]
    rows = Dataset.from_iterable([(np.zeros(1), 1), (np.zeros(3), 3)])
    buckets = rows.bucket_by_length(lambda x, n: n, [2], 1)
    assert [x.shape for x, _ in buckets] == [(1, 1), (1, 3)]
    batches = pairs.batch(2).map(lambda x, y: x + y, workers=2)
    assert values(batches) == [[0, 11], [22, 33]]


def added(x: Any, y: Any) -> Any:
    return x + y


def test_decorated_functions_take_what_their_decorator_takes() -> None:
    @functools.wraps(added)
    def of_element(element: Any) -> Any:
        return added(*element)

    @functools.wraps(added)
    def of_any(*args: Any) -> Any:
        return added(*args)

    @functools.wraps(of_element)
    def around(*args: Any) -> Any:
        return of_element(*args)

    pairs = Dataset.from_tensors((ef.arange(4), ef.arange(4) * 10))
    for function in (of_element, of_any, around, ef.trace(of_element)):
        assert values(pairs.map(function)) == [0, 11, 22, 33]


def test_methods_and_modules_take_the_parts_of_tuples() -> None:
    class Sum(ef.nn.Module):
        def forward(self, x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
            return x + y

        @ef.trace
        def of_parts(self, x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
            return x + y

        @ef.trace
        def of_element(self, pair: tuple[ef.Tensor, ef.Tensor]) -> ef.Tensor:
            return pair[0] + pair[1]

    pairs = Dataset.from_tensors((ef.arange(4), ef.arange(4) * 10))
    total = Sum()
    for function in (total, ef.trace(total), total.forward, total.of_parts, total.of_element):
        assert values(pairs.map(function)) == [0, 11, 22, 33]
    assert values(pairs.map(ef.nn.Sequential(sum))) == [0, 11, 22, 33]


def test_parameters_with_defaults_take_parts_of_tuples() -> None:
    pairs = Dataset.from_tensors((ef.arange(2), ef.arange(2) * 10))
    triples = Dataset.from_tensors((ef.arange(2), ef.arange(2) * 10, ef.arange(2) * 100))
    assert values(pairs.map(lambda x, y, weight=7: x + y + weight)) == [7, 18]
    assert values(triples.map(lambda x, y, weight=7: x + y + weight)) == [0, 111]
    assert values(triples.map(lambda x, *, y=1: len(x))) == [3, 3]
    assert values(triples.map(lambda x, y, *more: len(more))) == [1, 1]
    with pytest.raises(TypeError, match="missing 1 required"):
        list(triples.map(lambda x, y=1: x).map(lambda x, y: x))


def test_a_generator_follows_the_parts_of_tuples() -> None:
    def drawn(draws: Any) -> Any:
        return draws.randint((), 0, 1)

    pairs = Dataset.from_tensors((ef.arange(2), ef.arange(2) * 10))
    with_none = pairs.map(lambda x, y, draws=None: x + y + drawn(draws), seed=0)
    assert values(with_none) == [0, 11]
    further = pairs.map(lambda x, y, draws, scale=2: (x + y + drawn(draws)) * scale, seed=0)
    assert values(further) == [0, 22]
    whole = pairs.map(lambda pair, draws, scale=2: (pair[0] + drawn(draws)) * scale, seed=0)
    assert values(whole) == [0, 2]
    assert values(pairs.map(lambda pair, draws=None: pair[1] + drawn(draws), seed=0)) == [0, 10]


def test_epochs_are_counted_across_threads() -> None:
    dataset = numbers(10).shuffle(seed=0)
    epochs: list[list[int]] = []
    threads = [threading.Thread(target=lambda: epochs.append(values(dataset))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = numbers(10).shuffle(seed=0)
    assert sorted(epochs) == sorted(values(again) for _ in range(8))


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


# --- iterables --------------------------------------------------------------------------------


def test_an_iterator_lasts_for_one_epoch() -> None:
    dataset = Dataset.from_iterable(i * i for i in range(3))
    assert values(dataset) == [0, 1, 4]
    with pytest.raises(TensorValueError, match="gives its elements only once"):
        iter(dataset)
    twice = Dataset.from_iterable(i for i in range(2)).repeat(2)
    with pytest.raises(TensorValueError, match="pass from_iterable the function"):
        values(twice)


def test_take_reads_no_more_than_it_needs() -> None:
    read: list[int] = []

    def source() -> Iterator[int]:
        for i in range(10):
            read.append(i)
            yield i

    dataset = Dataset.from_iterable(source)
    assert values(dataset.take(2)) == [0, 1]
    assert values(dataset.take(3).batch(2)) == [[0, 1], [2]]
    assert read == [0, 1, 0, 1, 2]


def test_sequences_are_shuffled_without_being_read() -> None:
    class Files(list[int]):
        def __getitem__(self, index: Any) -> Any:
            read.append(index)
            return super().__getitem__(index)

    read: list[int] = []
    dataset = Dataset.from_iterable(Files(range(100))).map(lambda x: x).shuffle(seed=0)
    next(iter(dataset))
    assert len(read) == 1


def test_datasets_are_iterables() -> None:
    inner = numbers(4).batch(2)
    assert values(Dataset.from_iterable(inner)) == values(inner)
    assert len(Dataset.from_iterable(inner)) == 2
