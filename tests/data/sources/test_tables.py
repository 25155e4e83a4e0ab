"""Columns of tables: dtypes, files that must fit together, damaged files named or left out."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.data import Dataset
from eagerflow.data.sources.columns import held
from eagerflow.data.sources.tables import ParquetStage
from eagerflow.errors import DTypeError, RecordError, ShapeError, TensorValueError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def written(folder: Path, name: str, columns: dict[str, Any], **settings: Any) -> Path:
    parquet.write_table(pa.table(columns), folder / name, **settings)
    return folder / name


def test_no_column_at_all_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.parquet", {"x": [1]})
    with pytest.raises(TensorValueError, match="there is no column"):
        Dataset.from_parquet(path, columns=[])


# --- which files ------------------------------------------------------------------------------


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    """Files come in the order of their names; other files are left out."""
    for name in ("b", "a", "[c]"):
        written(tmp_path, f"{name}.parquet", {"x": [name]})
    (tmp_path / "_SUCCESS").touch()
    expected = [b"[c]", b"a", b"b"]
    for paths in (tmp_path, str(tmp_path), [tmp_path], f"{tmp_path.parent}/{tmp_path.name[:-1]}?"):
        rows = list(Dataset.from_parquet(paths))
        assert [str(row["x"]).encode() for row in rows] == expected
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file \*\.parquet in the folder"):
        Dataset.from_parquet(tmp_path / "none")


# --- files that do not fit together -----------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"x": [1, 2]}, {"x": [1.5, 2.5]}, ["'x'", "double", "int64"]),
        ({"x": pa.array([1], pa.int8())}, {"x": pa.array([300], pa.int16())}, ["int16", "int8"]),
        ({"x": [1], "y": [1]}, {"x": [1]}, ["'y'", "none", "int64"]),
        ({"x": [1]}, {"x": [1], "y": ["a"]}, ["'y'", "string", "none"]),
        ({"x": [{"a": 1}]}, {"x": [{"a": 1.0}]}, ["'x'", "struct"]),
        ({"x": [[1]]}, {"x": [[1.0]]}, ["'x'", "list"]),
    ],
)
def test_files_whose_columns_differ_are_refused(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], words: list[str]
) -> None:
    paths = [written(tmp_path, "one", one), written(tmp_path, "other", other)]
    with pytest.raises(TensorValueError) as caught:
        Dataset.from_parquet(paths)
    for word in [*words, *map(str, paths)]:
        assert word in str(caught.value)


def test_columns_that_files_share_can_be_read(tmp_path: Path) -> None:
    one = written(tmp_path, "one", {"x": [1, 2], "y": [1, 2], "s": ["a", "b"]})
    other = written(
        tmp_path, "other",
        {"s": pa.array(["c"]).dictionary_encode(), "y": [1.5], "x": [3]},
    )  # fmt: skip
    dataset = Dataset.from_parquet([one, other], columns=["x", "s"])
    assert [(row["x"].item(), row["s"]) for row in dataset] == [(1, "a"), (2, "b"), (3, "c")]
    (batch,) = Dataset.from_parquet([one, other], columns=["x"]).batch(3)
    assert (batch["x"].tolist(), batch["x"].dtype) == ([1, 2, 3], ef.int64)


def test_a_file_that_changes_under_the_dataset_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "x", {"x": [1, 2]})
    dataset = Dataset.from_parquet(path)
    written(tmp_path, "x", {"x": [1.5, 2.5]})
    with pytest.raises(
        TensorValueError, match=r"is not as before\n  got: double; in the first file, int64"
    ):
        list(dataset)
    written(tmp_path, "x", {"y": [1, 2]})
    with pytest.raises(TensorValueError, match="is not as before"):
        list(dataset)
    written(tmp_path, "x", {"x": [1, 2, 3]})
    with pytest.raises(TensorValueError, match="has changed"):
        list(dataset)


# --- types ------------------------------------------------------------------------------------


NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float32(), pa.float64(), pa.bool_(),
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_dtypes_stay_wherever_a_number_is(kind: Any) -> None:
    plain = pa.array([1, 0], pa.int8()).cast(kind)
    expected = ef.asarray(plain.to_numpy(zero_copy_only=False)).dtype
    table = pa.table(
        {
            "plain": plain,
            "struct": pa.StructArray.from_arrays([plain], ["a"]),
            "list": pa.array([plain.to_pylist(), []], pa.list_(kind)),
            "axis": pa.array([plain.to_pylist()] * 2, pa.list_(kind, 2)),
            "lists": pa.array([[plain.to_pylist()] * 3, []], pa.list_(pa.list_(kind))),
            "dictionary": plain.dictionary_encode(),
            "deep": pa.array([{"b": {"c": plain.to_pylist()}}] * 2,
                             pa.struct([("b", pa.struct([("c", pa.list_(kind))]))])),
        }
    )  # fmt: skip
    for row in [*Dataset.from_arrow(table), next(iter(Dataset.from_arrow(table[:1]).batch(1)))]:
        leaves = tree.leaves(row)
        assert len(leaves) == 7
        assert {x.dtype for x in leaves} == {expected}
    first, second = Dataset.from_arrow(table)
    assert first["deep"]["b"]["c"].tolist() == plain.to_pylist()
    assert (first["lists"].shape, second["lists"].shape) == ((3, 2), (0, 0))


def test_parts_of_tables_are_the_rows_of_the_whole() -> None:
    """Slices and chunks are parts of shared buffers."""
    rows = [{"l": [*range(i)], "s": {"k": i, "t": [str(i)] * i}, "p": [i, -i]} for i in range(9)]
    kind = pa.schema(
        [
            ("l", pa.list_(pa.int32())),
            ("s", pa.struct([("k", pa.int16()), ("t", pa.large_list(pa.string()))])),
            ("p", pa.list_(pa.int8(), 2)),
        ]
    )
    whole = pa.Table.from_pylist(rows, kind)
    for table in (whole.slice(3, 4), pa.concat_tables([whole.slice(3, 1), whole.slice(4, 3)])):
        elements = list(Dataset.from_arrow(table))
        assert [x["l"].tolist() for x in elements] == [r["l"] for r in rows[3:7]]
        assert [x["s"]["k"].item() for x in elements] == [3, 4, 5, 6]
        texts = [[t.encode() for t in r["s"]["t"]] for r in rows[3:7]]
        assert [x["s"]["t"].tolist() for x in elements] == texts
        assert [x["p"].tolist() for x in elements] == [r["p"] for r in rows[3:7]]


def test_lists_of_texts_are_their_bytes() -> None:
    table = pa.table({"words": [["ü", ""], ["b"]], "raw": [[b"\xff"], [b"a", b"b"]]})
    first, second = Dataset.from_arrow(table)
    assert (first["words"].tolist(), second["raw"].tolist()) == (["ü".encode(), b""], [b"a", b"b"])
    (batch,) = Dataset.from_arrow(table).padded_batch(2)
    assert batch["words"].tolist() == [["ü".encode(), b""], [b"b", b""]]
    pairs = pa.table({"x": pa.array([["a", "b"], ["c", "d"]], pa.list_(pa.string(), 2))})
    (batch,) = Dataset.from_arrow(pairs).batch(2)
    assert batch["x"].tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_structs_of_several_groups_make_one_batch(tmp_path: Path) -> None:
    rows = [{"a": i, "b": {"c": [i, i], "t": str(i)}} for i in range(6)]
    path = written(tmp_path, "x", {"s": rows}, row_group_size=2)
    dataset = Dataset.from_parquet(path)
    batch = next(iter(dataset.map(lambda row: (row["s"]["a"], row["s"]["b"]["c"])).batch(5)))
    assert batch[1].tolist() == [[i, i] for i in range(5)]
    with pytest.raises(DTypeError, match=r"no tensor at \['s'\]\['b'\]\['t'\]"):
        list(dataset.batch(5))
    numbers = written(tmp_path, "y", {"s": [{"a": i} for i in range(6)]}, row_group_size=2)
    order = [x["s"]["a"].tolist() for x in Dataset.from_parquet(numbers).shuffle(seed=1).batch(3)]
    assert order == [
        x.tolist() for x in Dataset.from_tensors(np.arange(6)).shuffle(seed=1).batch(3)
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, None]]),
        pa.array([[1], None]),
        pa.array([{"a": None}, {"a": 1}]),
        pa.array([None, {"a": 1}]),
        pa.array([[[1, None]]]),
        pa.array([["a", None]]),
        pa.array([[1, None]], pa.list_(pa.int8(), 2)),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=str,
)
def test_missing_values_are_refused_wherever_they_are(column: Any) -> None:
    with pytest.raises(TensorValueError, match=r"column 'x.*1 values that are missing"):
        Dataset.from_arrow(pa.table({"x": column}))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[{"a": 1}]]),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[1]], pa.list_(pa.timestamp("s"))),
        pa.array([{"t": 1}], pa.struct([("t", pa.date32())])),
    ],
    ids=str,
)
def test_types_without_tensors_are_refused_when_it_is_made(tmp_path: Path, column: Any) -> None:
    with pytest.raises(DTypeError, match="column 'x"):
        Dataset.from_arrow(pa.table({"x": column}))
    with pytest.raises(DTypeError, match="column 'x"):
        Dataset.from_parquet(written(tmp_path, "x", {"x": column}))


def test_lists_that_make_no_array_are_named() -> None:
    with pytest.raises(ShapeError, match="column 'x' has a row whose lists differ"):
        Dataset.from_arrow(pa.table({"x": [[[1, 2], [3]]]}))


# --- groups of rows ---------------------------------------------------------------------------


def test_threads_read_a_group_once_and_count_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "x", {"x": np.arange(4000)}, row_group_size=100)
    read: list[int] = []
    plainly = parquet.ParquetFile.read_row_group

    def counted(self: Any, group: int, **settings: Any) -> Any:
        read.append(group)
        return plainly(self, group, **settings)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", counted)
    stage = ParquetStage(path, None)
    start = threading.Barrier(4)

    def reader() -> None:
        start.wait()
        for i in range(0, 4000, 50):
            stage.element(i)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=reader) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sorted(read) == list(range(40))
    assert stage._held == sum(map(held, stage._cache.values())) == 4000 * 8


def damaged(folder: Path) -> Path:
    """A file of ten groups of ten rows, the fourth of which is damaged."""
    path = written(folder, "x", {"x": np.arange(100)}, row_group_size=10)
    chunk = parquet.ParquetFile(path).metadata.row_group(3).column(0)
    start = min(x for x in (chunk.data_page_offset, chunk.dictionary_page_offset) if x)
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(data)
    return path


def test_a_damaged_group_is_named(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    iterator = iter(Dataset.from_parquet(path).batch(15))
    next(iterator)
    with pytest.raises(RecordError) as caught:
        next(iterator), next(iterator)
    assert f"row group 3 of {path}, elements 30 to 39, is damaged" in str(caught.value)
    (tmp_path / "none").write_bytes(b"junk")
    with pytest.raises(RecordError, match="none is not a Parquet file"):
        Dataset.from_parquet(tmp_path / "none")


def test_a_damaged_group_is_left_out(tmp_path: Path) -> None:
    path, told = damaged(tmp_path), []
    left = [i for i in range(100) if i // 10 != 3]
    dataset = Dataset.from_parquet(path, on_error=told.append)
    assert [row["x"].item() for row in dataset] == left
    assert [type(error) for error in told] == [RecordError]
    skipping = Dataset.from_parquet(path, on_error="skip").batch(7)
    batches = [batch["x"].tolist() for batch in skipping]
    assert batches == [left[i : i + 7] for i in range(0, 90, 7)]
    iterator = iter(skipping)
    for i in range(len(batches) + 1):
        again = Dataset.from_parquet(path, on_error="skip").batch(7).iterator(iterator.state)
        assert [batch["x"].tolist() for batch in again] == batches[i:]
        next(iterator, None)
    with pytest.raises(TensorValueError, match="behind the end"):
        skipping.iterator({"epoch": 0, "seeds": [], "position": {"index": 101}})
    with pytest.raises(TensorValueError, match="on_error is not a policy"):
        Dataset.from_parquet(path, on_error="ignore")


def test_lines_of_another_encoding_are_left_out(tmp_path: Path) -> None:
    path, told = tmp_path / "x.txt", []
    path.write_bytes(b"one\n\xff\n\xfe\ntwo\n\xff")
    assert list(Dataset.from_lines(path, on_error="skip")) == ["one", "two"]
    assert list(Dataset.from_lines(path, on_error=told.append).batch(1).take(0)) == []
    assert list(Dataset.from_lines(path, on_error=told.append)) == ["one", "two"]
    lines = [str(error).splitlines()[0] for error in told]
    assert lines == [f"line {i} of {path} is not utf-8" for i in (2, 3, 5)]
    iterator = iter(Dataset.from_lines(path, on_error="skip"))
    assert next(iterator) == "one"
    assert list(Dataset.from_lines(path, on_error="skip").iterator(iterator.state)) == ["two"]
