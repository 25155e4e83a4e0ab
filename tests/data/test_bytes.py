"""Bytes in pipelines: as Python objects, as tensors, in traced functions and other processes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.data import Dataset, write_records
from eagerflow.data.workers.processes import stop_server


@pytest.fixture
def records(tmp_path: Path) -> str:
    path = tmp_path / "examples.records"
    examples = [ef.io.encode_example({"x": [i, 0.5], "words": [b"w"] * (i % 3)}) for i in range(7)]
    write_records(path, [x.item() for x in examples])
    return str(path)


def parser() -> Any:
    @ef.trace
    def parse(record: ef.Tensor) -> Any:
        return ef.io.parse_example(record, {"x": "f32[2]", "words": "bytes[n]"})

    return parse


@pytest.mark.parametrize(
    "options", [{}, {"workers": 2}, {"workers": 2, "processes": True}], ids=str
)
def test_traced_functions_get_tensors(records: str, options: dict[str, Any]) -> None:
    parse = parser()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning of too many traces is an error
            elements = list(Dataset.from_records(records).map(parse, **options))
    finally:
        if options.get("processes"):
            stop_server()
    assert [x["x"].tolist() for x in elements] == [[i, 0.5] for i in range(7)]
    assert [x["words"].tolist() for x in elements] == [[b"w"] * (i % 3) for i in range(7)]
    assert len(parse.traces) == (0 if options.get("processes") else 1)


def test_other_functions_get_pythons_bytes(records: str) -> None:
    kinds = {type(x) for x in Dataset.from_records(records)}
    assert kinds == {bytes}
    lengths = [x.item() for x in Dataset.from_records(records).map(len)]
    assert min(lengths) > 20


def test_filters_that_are_traced(records: str) -> None:
    @ef.trace
    def long(record: ef.Tensor) -> ef.Tensor:
        return ef.io.length(record) > 35

    kept = list(Dataset.from_records(records).filter(long))
    assert kept == [x for x in Dataset.from_records(records) if len(x) > 35]
    assert 0 < len(kept) < 7


def test_sources_of_tensors(records: str, tmp_path: Path) -> None:
    batches = list(Dataset.from_records(records, as_tensors=True).batch(4))
    assert [str(x.type) for x in batches] == ["bytes[4]@cpu:0", "bytes[3]@cpu:0"]
    assert [y for x in batches for y in x.tolist()] == list(Dataset.from_records(records))
    path = tmp_path / "lines.txt"
    path.write_bytes(b"1,a\n2,\xff\r\n3,c")
    lines = Dataset.from_lines(path, as_tensors=True).batch(3)
    numbers, words = next(iter(lines.map(lambda x: ef.io.decode_csv(x, ["i64", "bytes"]))))
    assert numbers.tolist() == [1, 2, 3]
    assert words.tolist() == [b"a", b"\xff", b"c"]
    contents = Dataset.from_iterable([path]).map(ef.io.read_file)
    assert next(iter(contents)).item() == path.read_bytes()


@pytest.mark.parametrize(
    "words", [ef.tensor([b"a", b"b", b"cc"]), np.array([b"a", b"b", b"cc"]),
              np.array([b"a", b"b", b"cc"], object)], ids=["tensor", "S", "object"],
)  # fmt: skip
def test_rows_of_tensors(words: Any) -> None:
    dataset = Dataset.from_tensors({"word": words, "i": ef.arange(3)})
    assert [x["word"].item() for x in dataset] == [b"a", b"b", b"cc"]
    batches = [x["word"].tolist() for x in dataset.shuffle(seed=1).batch(2)]
    assert sorted(y for x in batches for y in x) == [b"a", b"b", b"cc"]


def test_padding() -> None:
    elements = [ef.tensor([b"a"]), ef.tensor([b"b", b"c"])]
    dataset = Dataset.from_iterable(lambda: iter(elements))
    assert next(iter(dataset.padded_batch(2))).tolist() == [[b"a", b""], [b"b", b"c"]]
    filled = dataset.padded_batch(2, value=b"<pad>")
    assert next(iter(filled)).tolist() == [[b"a", b"<pad>"], [b"b", b"c"]]


def test_a_damaged_example_names_its_element(records: str) -> None:
    broken = [*Dataset.from_records(records)]
    broken[3] = b"broken"
    path = Path(records).with_name("broken.records")
    write_records(path, broken)
    dataset = Dataset.from_records(path).map(parser())
    with pytest.raises(ef.errors.RecordError, match="not an example") as caught:
        list(dataset)
    assert any("in element 3 of map(" in note for note in caught.value.__notes__)
    assert len(list(Dataset.from_records(path).map(parser(), on_error="skip"))) == 6
