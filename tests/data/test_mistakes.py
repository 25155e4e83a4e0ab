"""User mistakes with datasets, and the error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.errors import (
    CheckpointError,
    DTypeError,
    LengthError,
    ShapeError,
    TensorValueError,
    TraceError,
    UnknownNameError,
)
from tests.data.test_pipelines import values
from tests.messages import says


def numbers(count: int) -> Dataset:
    return Dataset.from_tensors(ef.arange(count))


def test_unequal_sizes_are_named() -> None:
    with pytest.raises(ShapeError) as caught:
        Dataset.from_tensors({"image": ef.zeros((5, 2)), "label": np.zeros(4)})
    assert "['image']: f32[5,2]@cpu:0, ['label']: f64[4]" in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "error", "words"),
    [
        ([1, 2, 3], ShapeError, "at [0] has no first axis"),
        (ef.ones(()), ShapeError, "lists are containers"),
        ((), TensorValueError, "there is no tensor"),
        ({"name": np.array(["a", "b"])}, DTypeError, "no array at ['name']"),
        ("ab", DTypeError, "no array"),
    ],
)
def test_what_has_no_rows_is_refused(tree: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Dataset.from_tensors(tree)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "stage",
    [
        lambda made: made.batch(2),
        lambda made: made.map(ef.stop_gradient, workers=2).batch(2).prefetch(1),
        lambda made: made.batch(2).batch(2),
        lambda made: made.padded_batch(2),
        lambda made: made.bucket_by_length(lambda x: 1, [4], 2),
    ],
)
def test_an_error_in_a_batch_names_the_line_of_the_stage(
    stage: Callable[[Dataset], Dataset],
) -> None:
    dataset = stage(Dataset.from_iterable([np.ones((2,)), np.ones((3, 1))]))
    with pytest.raises(ShapeError, match="differ in shape") as caught:
        list(dataset)
    assert re.search(r"at: .*: lambda made: made\.", str(caught.value))


def test_an_error_in_the_source_of_a_batch_keeps_its_line() -> None:
    broken = numbers(4).map(
        lambda x: ef.ones(2) @ ef.ones(3)  # <- line
    )
    with pytest.raises(ShapeError, match=r"at: .*<- line"):
        list(broken.batch(2))


def test_an_error_in_a_map_names_the_element_and_the_line() -> None:
    def fail(x: ef.Tensor) -> ef.Tensor:
        if x == 3:
            raise KeyError("no such thing")
        return x

    dataset = numbers(6).map(fail).batch(1)  # <- line
    iterator = iter(dataset)
    for _ in range(3):
        next(iterator)
    with pytest.raises(KeyError) as caught:
        next(iterator)
    (note,) = caught.value.__notes__
    assert "in element 3 of map(fail)" in note
    assert "dataset = numbers(6).map(fail).batch(1)  # <- line" in note
    assert "test_mistakes.py" in note
    assert values(iterator) == [[4], [5]]  # reading continues behind the failed element


@pytest.mark.parametrize("workers", [0, 2])
def test_a_function_of_another_number_of_arguments_is_told_what_it_gets(workers: int) -> None:
    pairs = Dataset.from_tensors((ef.arange(3), ef.arange(3)))
    how = {"workers": workers} if workers else {}
    with pytest.raises(TypeError) as caught:
        list(pairs.map(lambda: 0, **how))
    (note,) = caught.value.__notes__
    assert "the whole element as one argument" in note
    assert "with seed= a generator" in note
    with pytest.raises(TypeError) as caught:
        list(pairs.map(lambda pair: pair, seed=0, **how))
    (note,) = caught.value.__notes__
    assert "and a generator, because of seed=" in note
    with pytest.raises(TypeError) as caught:
        list(pairs.map(lambda pair: len(3), **how))  # it takes an element; its body fails
    assert "one argument" not in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="missing 2 required") as caught:
        list(pairs.map(lambda x, y, z: (x, y, z), **how))  # <- three
    (note,) = caught.value.__notes__
    assert "the parts of a tuple if it has a parameter for each" in note
    assert "# <- three" in note
    with pytest.raises(AttributeError, match="has no attribute") as caught:
        list(pairs.map(lambda pair, draws: draws.normal(()), **how))  # seed= was forgotten
    assert "with seed= a generator" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: len(3),  # type: ignore[arg-type]
        lambda x, y: (lambda a, b, c: a)(x, y),  # type: ignore[call-arg]
        lambda x, y: x.no_such_name,
    ],
)
@pytest.mark.parametrize("how", [{}, {"workers": 1, "processes": True}])
def test_errors_inside_a_function_of_parts_do_not_tell_what_it_gets(
    function: Callable[..., Any], how: dict[str, Any]
) -> None:
    pairs = Dataset.from_tensors((ef.arange(3), ef.arange(3)))
    with pytest.raises((TypeError, AttributeError)) as caught:
        list(pairs.map(function, **how))
    notes = "".join(caught.value.__notes__)
    assert "in element 0 of map(<lambda>)" in notes
    assert "a parameter for each" not in notes


def test_an_error_of_an_iterable_names_the_element() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire") as caught:
        list(Dataset.from_iterable(source))
    assert "in element 1 of from_iterable(" in caught.value.__notes__[0]
    with pytest.raises(DTypeError) as wrong:
        list(Dataset.from_iterable([0, np.array([object()])]).batch(2))
    assert "in element 1 of from_iterable(list)" in wrong.value.__notes__[0]


def test_stop_iteration_in_a_map_does_not_end_the_epoch() -> None:
    with pytest.raises(RuntimeError, match=r"map\(<lambda>\) raised StopIteration in element 0"):
        list(numbers(3).map(lambda x: next(iter([]))))


def test_zipped_datasets_stay_side_by_side_after_an_error() -> None:
    def fail(x: ef.Tensor) -> ef.Tensor:
        if x == 1:
            raise ValueError("one")
        return x

    for left in (numbers(4).map(fail), numbers(4).filter(lambda x: True).map(fail)):
        for pair in ((left, numbers(4)), (numbers(4), left)):
            iterator = iter(Dataset.zip(*pair))
            assert values([next(iterator)]) == [(0, 0)]
            with pytest.raises(ValueError, match="one"):
                next(iterator)
            assert values(iterator) == [(2, 2), (3, 3)]


def test_a_smaller_last_batch_is_dropped_or_padded() -> None:
    with pytest.raises(ShapeError, match="padded_batch pads") as caught:
        list(numbers(5).batch(2).batch(3))
    assert "if they are batches, batch(…, drop_last=True)" in str(caught.value)
    with pytest.raises(ShapeError) as caught:
        list(Dataset.from_iterable([ef.ones(3), ef.ones(2), ef.ones(3)]).batch(3))
    assert "drop_last" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "call"),
    [
        ("map: workers is not a number of threads or processes", lambda d: d.map(abs, workers=-1)),
        ("repeat: count is not a number of times", lambda d: d.repeat(-1)),
        ("batch: count is not a number of elements", lambda d: d.batch(0)),
    ],
)
def test_what_is_counted_is_named(wrong: str, call: Any) -> None:
    with pytest.raises(TensorValueError, check=says(wrong)):
        call(numbers(3))


def test_elements_that_do_not_stack_are_named() -> None:
    shapes = Dataset.from_iterable(lambda: [{"x": ef.ones(2)}, {"x": ef.ones(3)}])
    with pytest.raises(ShapeError) as caught:
        list(shapes.batch(2))
    assert "elements 0 and 1 of it differ in shape at ['x']" in str(caught.value)
    assert "f32[2]@cpu:0 and f32[3]@cpu:0" in str(caught.value)
    assert "drop_last" not in str(caught.value)  # it would not drop these elements
    with pytest.raises(DTypeError, match="differ in dtype"):
        list(Dataset.from_iterable([1, 1.5]).batch(2))
    with pytest.raises(TensorValueError, match="differ in structure"):
        list(Dataset.from_iterable([{"x": 1}, {"y": 1}]).batch(2))
    with pytest.raises(DTypeError, match="element 0 of it has no tensor"):
        list(Dataset.from_iterable(["a", "b"]).batch(2))
    with pytest.raises(ShapeError, match="drop_last=True"):
        list(numbers(5).batch(3).batch(2))
    with pytest.raises(ShapeError, match="padded_batch pads"):
        list(Dataset.from_iterable([ef.ones(3), ef.ones(4)]).batch(2))
    with pytest.raises(ShapeError, match="bring them to one shape before"):
        list(Dataset.from_iterable([ef.ones(3), ef.ones((3, 1))]).batch(2))


@pytest.mark.parametrize(
    ("elements", "error", "words"),
    [
        (["a", "b"], DTypeError, "element 0 of it has no tensor"),
        ([ef.ones(2), ef.ones((2, 2))], ShapeError, "elements 0 and 1 of it differ in shape"),
        ([1, 1.5], DTypeError, "elements 0 and 1 of it differ in dtype"),
        ([{"x": 1}, {"y": 1}], TensorValueError, "elements 0 and 1 of it differ in structure"),
        ([b"", True], DTypeError, "element 0 of it has no tensor"),
        ([np.ones(1, bool), np.ones(2, bool)], TensorValueError, "bool cannot hold the fill value"),
    ],
)
def test_the_method_that_pads_is_named(
    elements: list[Any], error: type[Exception], words: str
) -> None:
    dataset = Dataset.from_iterable(elements)
    with pytest.raises(error, match=f"^padded_batch: {words}"):
        list(dataset.padded_batch(2, value=7))
    with pytest.raises(error, match=f"^bucket_by_length: {words}"):
        list(dataset.bucket_by_length(lambda x: 1, [3], 2, value=7))


def test_lists_of_numbers_are_told_apart_from_tensors() -> None:
    lists = Dataset.from_iterable([{"tokens": [1, 2]}, {"tokens": [3]}])
    with pytest.raises(TensorValueError, match=r"lists are containers .* \.map\(ef\.tensor\)"):
        list(lists.padded_batch(2))
    with pytest.raises(TensorValueError) as caught:
        list(Dataset.from_iterable([{"x": 1}, {"y": 1}]).batch(2))
    assert "lists are" not in str(caught.value)
    (batch,) = Dataset.from_iterable([[1, 2], [3]]).map(ef.tensor).padded_batch(2)
    assert batch.tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize("method", ["from_lines", "from_records", "from_parquet"])
@pytest.mark.parametrize("paths", [3, None, b"a.txt", ["a.txt", 4]], ids=repr)
def test_what_is_no_path_is_refused(method: str, paths: Any) -> None:
    with pytest.raises(TensorValueError, match=f"^{method}: the argument is not a path"):
        getattr(Dataset, method)(paths)


def test_lengths_that_nobody_knows() -> None:
    unknown = numbers(4).filter(lambda x: True)
    with pytest.raises(LengthError, match="is not known before its end"):
        len(unknown)
    with pytest.raises(LengthError, match="endless"):
        len(numbers(4).repeat())
    with pytest.raises(LengthError, match="expected: a buffer_size"):
        unknown.shuffle()
    with pytest.raises(LengthError, match="endless"):
        numbers(4).repeat().shuffle()
    assert bool(unknown)
    assert values(unknown) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.batch(0),
        lambda d: d.batch(2.0),
        lambda d: d.batch(True),
        lambda d: d.take(-1),
        lambda d: d.skip(None),
        lambda d: d.repeat(-2),
        lambda d: d.shuffle(0),
        lambda d: d.shuffle(seed=-1),
        lambda d: d.map(lambda x, g: x, seed=2**64),
        lambda d: d.map(None),
        lambda d: d.map(3, workers=2),
        lambda d: d.filter(None),
        lambda d: d.bucket_by_length(3, [2], 1),
        lambda d: d.padded_batch(2, value="x"),
        lambda d: d.padded_batch(2, value=None),
        lambda d: d.bucket_by_length(len, [2], 1, value=[0]),
        lambda d: Dataset.zip(),
        lambda d: Dataset.zip(d, [1]),
        lambda d: Dataset.from_iterable(5),
    ],
)
def test_wrong_arguments_are_refused_at_once(call: Callable[[Dataset], Dataset]) -> None:
    with pytest.raises(TensorValueError):
        call(numbers(3))


def test_a_dataset_is_not_read_while_a_function_is_traced() -> None:
    dataset = numbers(3)

    @ef.trace
    def total(x: ef.Tensor) -> ef.Tensor:
        return x + sum(dataset)

    with pytest.raises(TraceError, match="trace the step: for batch in dataset"):
        total(ef.ones(()))


def test_traced_functions_map_and_take_batches() -> None:
    double = ef.trace(lambda x: x * 2)
    dataset = numbers(7).shuffle(seed=0).batch(2).map(double)
    assert list(chain(*values(dataset))) == [2 * x for x in values(numbers(7).shuffle(seed=0))]
    assert len(double.traces) == 2  # the last batch is smaller


def test_a_dataset_prints_as_it_was_written() -> None:
    x = ef.zeros((4, 2))
    text = repr(Dataset.from_tensors({"x": x}).shuffle(8, seed=1).repeat(2).batch(3).take(1))
    assert text == (
        "Dataset.from_tensors({'x': f32[4,2]@cpu:0}).shuffle(8, seed=1).repeat(2).batch(3).take(1)"
    )
    both = Dataset.zip(numbers(2), Dataset.from_iterable([1]).map(abs).filter(bool).skip(1))
    assert repr(both) == (
        "Dataset.zip(Dataset.from_tensors(i64[2]@cpu:0),"
        " Dataset.from_iterable(list).map(abs).filter(bool).skip(1))"
    )
    assert repr(iter(numbers(2))) == "<iterator of Dataset.from_tensors(i64[2]@cpu:0), epoch 0>"


@pytest.mark.parametrize("name", ["state", "state_dict", "get_state", "save", "load_state_dict"])
def test_the_position_belongs_to_the_iterator(name: str) -> None:
    data = ef.data.Dataset.from_tensors(ef.arange(6)).batch(2)
    with pytest.raises(UnknownNameError, match=r"it = iter\(data\)|it = data.iterator\(state\)"):
        getattr(data, name)
    if name != "state":
        with pytest.raises(UnknownNameError, match=r"it\.state"):
            getattr(iter(data), name)


def test_a_dataset_in_a_checkpoint_is_told_of_its_iterator(tmp_path: Any) -> None:
    data = ef.data.Dataset.from_tensors(ef.arange(6)).batch(2)
    with pytest.raises(CheckpointError, match=r"hint: .*it = iter\(data\)"):
        ef.checkpoint.save(tmp_path / "c", {"data": data})
    ef.checkpoint.save(tmp_path / "c", {"data": iter(data)})
