"""`Dataset` case by case: elements, orders, positions, and user mistakes."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.errors import TensorValueError
from tests.data.test_pipelines import at, values


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
