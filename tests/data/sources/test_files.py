"""Sources of lines, records, tables and pictures: elements, positions, and damaged files."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset, decode_image, write_records
from eagerflow.data.workers.processes import stop_server
from eagerflow.errors import DTypeError, RecordError, SettingError, TensorValueError
from eagerflow_kernels.checksums import crc32c, masked
from tests.messages import says


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    list(Dataset.from_iterable([1]).map(abs, workers=1, processes=True))
    yield
    stop_server()


WORDS = [b"", b"one", b"two" * 700, b"\0\xff\n", b"five"]


def every_position(make: Callable[[], Dataset], expected: list[Any], plain: Any = None) -> None:
    """Check that a pipeline gives the expected elements, from each of its positions."""
    plain = plain or (lambda x: x)
    iterator = iter(make())
    for position in range(len(expected) + 1):
        state = json.loads(json.dumps(iterator.state))
        assert [plain(x) for x in make().iterator(state)] == expected[position:]
        next(iterator, None)
    assert next(iterator, None) is None


# --- paths ------------------------------------------------------------------------------------


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    for read in (Dataset.from_lines, Dataset.from_records):
        with pytest.raises(TensorValueError, match="the path is that of a folder") as caught:
            read(tmp_path)
        assert repr(f"{tmp_path}/*") in str(caught.value.hint)
    assert list(Dataset.from_lines(f"{tmp_path}/*")) == ["a"]


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".bz2", bz2), (".xz", lzma)])
def test_compressed_files_are_refused(tmp_path: Path, suffix: str, module: Any) -> None:
    """The hint has code that reads the file; it works."""
    path = tmp_path / f"c.txt{suffix}"
    with module.open(path, "wt") as file:
        file.write("a\n\nb\n")
    with pytest.raises(TensorValueError, match="this file is compressed") as caught:
        Dataset.from_lines(path)
    written = str(caught.value.hint).removesuffix(" reads its lines")
    dataset = eval(written, {"Dataset": Dataset, module.__name__: module})
    assert list(dataset) == ["a", "", "b"]
    with pytest.raises(TensorValueError, match="decompress it first"):
        Dataset.from_records(path)
    path.write_text("only its name\n")
    assert list(Dataset.from_lines(path)) == ["only its name"]


# --- checksums --------------------------------------------------------------------------------


def slow_crc(data: bytes) -> int:
    """A bit-by-bit checksum, as RFC 3720 describes it."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(0, 2200))
def test_checksums_are_those_of_every_bit(data: bytes, zeros: int) -> None:
    message = data + bytes(zeros) + data
    assert crc32c(message) == slow_crc(message)


@pytest.mark.parametrize(
    ("data", "expected"),
    # RFC 3720, B.4
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_checksums_of_the_standard(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_checksums_over_many_blocks() -> None:
    data = np.random.Generator(np.random.PCG64(0)).bytes(200_001)
    assert crc32c(data) == slow_crc(data)


# --- records ----------------------------------------------------------------------------------


def test_records_come_back(tmp_path: Path) -> None:
    one, two = tmp_path / "a-1.records", tmp_path / "a-2.records"
    assert write_records(one, WORDS) == 5
    assert write_records(two, iter([b"six"])) == 1
    empty = tmp_path / "a-0.records"
    write_records(empty, [])
    for paths in ([empty, one, two], str(tmp_path / "a-*.records")):
        every_position(lambda paths=paths: Dataset.from_records(paths), [*WORDS, b"six"])
    assert sorted(os.listdir(tmp_path)) == ["a-0.records", "a-1.records", "a-2.records"]


def test_records_are_those_of_tensorflow(tmp_path: Path) -> None:
    """Recorded once with TensorFlow 2.21: ``tf.io.TFRecordWriter(path)``, and its
    ``.write(b"abc")``, ``.write(b"")``.
    """
    recorded = bytes.fromhex(
        "0300000000000000b099490e6162636e57f121000000000000000029039807d8ea82a2"
    )
    write_records(tmp_path / "x", [b"abc", b""])
    assert (tmp_path / "x").read_bytes() == recorded


def damaged(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 16
    path.write_bytes(data)


def test_a_damaged_record_is_named_and_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.records"
    write_records(path, [b"one", b"two", b"three"])
    damaged(path, 19 + 12 + 1)
    iterator = iter(Dataset.from_records(path))
    assert next(iterator) == b"one"
    with pytest.raises(RecordError) as caught:
        next(iterator)
    assert f"record 1 of {path} is damaged" in str(caught.value)
    assert "bytes from 19 on" in str(caught.value)
    assert list(iterator) == [b"three"]  # reading continues behind the damaged record
    every_position(lambda: Dataset.from_records(path, on_error="skip"), [b"one", b"three"])
    told: list[Exception] = []
    assert list(Dataset.from_records(path, on_error=told.append)) == [b"one", b"three"]
    assert ["record 1" in str(error) for error in told] == [True]
    workers = Dataset.from_records(path).map(len, workers=2).prefetch(1)
    with pytest.raises(RecordError, check=says("record 1")):
        list(workers)


@pytest.mark.parametrize("cut", [1, 5, 8, 12, 17])
def test_a_torn_file_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.records"
    write_records(path, [b"one", b"two"])
    path.write_bytes(path.read_bytes()[:-cut])
    iterator = iter(Dataset.from_records(path))
    assert next(iterator) == b"one"
    with pytest.raises(RecordError, match=r"record 1 of .* is torn"):
        next(iterator)
    assert list(iterator) == []
    assert list(Dataset.from_records(path, on_error="skip")) == [b"one"]


def test_what_is_no_record_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("just a text, but a long one")
    with pytest.raises(RecordError, match="is not a record"):
        list(Dataset.from_records(tmp_path / "x"))


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_records(path, [b"old"])
    with pytest.raises(TypeError, match="record 1 is a str"):
        write_records(path, [b"new", "text"])
    assert list(Dataset.from_records(path)) == [b"old"]
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk that is full."""
    program = (
        "import resource, signal, eagerflow as ef\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    ef.data.write_records('x', [bytes(300_000)])\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          cwd=tmp_path, env=environment)  # fmt: skip
    assert done.stdout == "FileError\n", done.stderr
    assert os.listdir(tmp_path) == []


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(TensorValueError, match="not that of a file that can be replaced"):
        write_records(pipe, [b"one"])
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_masks_are_undone_by_the_standard_formula() -> None:
    rotated = (masked(b"abc") - 0xA282EAD8) & 0xFFFFFFFF
    assert (rotated << 15 | rotated >> 17) & 0xFFFFFFFF == crc32c(b"abc")


# --- lines ------------------------------------------------------------------------------------


def test_lines_come_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("één\r\n\nlast".encode())
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"x\n")
    paths = [tmp_path / name for name in "abc"]
    every_position(lambda: Dataset.from_lines(paths), ["één", "", "last", "x"])
    assert next(iter(Dataset.from_lines(paths[0], encoding="latin-1"))) == "Ã©Ã©n"


def test_a_line_of_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"good\nb\xffd\nagain\n")
    iterator = iter(Dataset.from_lines(tmp_path / "a"))
    assert next(iterator) == "good"
    with pytest.raises(RecordError, match=r"line 2 of .* is not utf-8"):
        next(iterator)
    assert list(iterator) == ["again"]


def test_lines_go_through_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n".join(map(str, range(20))))

    def make() -> Dataset:
        numbers = Dataset.from_lines(tmp_path / "a").map(int, workers=2)
        return numbers.shuffle(5, seed=0).batch(3).prefetch(2)

    every_position(make, [x.tolist() for x in make().iterator(iter(make()).state)],
                   lambda x: x.tolist())  # fmt: skip


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for make in (Dataset.from_lines, Dataset.from_records):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            make(tmp_path / "x")
        with pytest.raises(FileNotFoundError, check=says(r"\*\.txt")):
            make(str(tmp_path / "*.txt"))
        with pytest.raises(TensorValueError, match="there is no file"):
            make([])
    with pytest.raises(TensorValueError, check=says("on_error")):
        Dataset.from_records(__file__, on_error="ignore")


def test_a_position_behind_the_end_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    dataset = Dataset.from_lines(tmp_path / "a")
    state = iter(dataset).state
    for position in (
        {"file": 0, "offset": 9, "element": 0},
        {"file": 2, "offset": 0, "element": 0},
    ):
        with pytest.raises(TensorValueError, match="behind the end"):
            dataset.iterator({**state, "position": position})


def test_files_are_closed_when_they_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    iterator = iter(Dataset.from_lines(tmp_path / "a"))
    next(iterator)
    del iterator  # an open file would be a warning, which is an error in tests


# --- pictures ---------------------------------------------------------------------------------


def png(values: Any, mode: str | None = None) -> bytes:
    image = pytest.importorskip("PIL.Image").fromarray(np.asarray(values, "uint8"))
    buffer = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(buffer, "PNG")
    return buffer.getvalue()


def test_pictures_are_decoded(tmp_path: Path) -> None:
    values = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (5, 4, 3))
    (tmp_path / "x.png").write_bytes(png(values))
    for source in (tmp_path / "x.png", str(tmp_path / "x.png"), png(values)):
        image = decode_image(source)
        assert image.tolist() == values.tolist()
        assert image.dtype is ef.uint8
    assert decode_image(png(values), mode="L", size=(2, 3)).shape == (2, 3, 1)
    assert decode_image(png(values[..., 0]), mode=None).shape == (5, 4, 1)
    assert decode_image(png(values[..., 0])).shape == (5, 4, 3)


def test_bytes_of_pictures_may_be_of_any_kind() -> None:
    data = png(np.full((2, 3, 3), 7))
    for kind in (bytes, bytearray, memoryview):
        assert decode_image(kind(data)).tolist() == np.full((2, 3, 3), 7).tolist()
        with pytest.raises(RecordError, match="not a picture"):
            decode_image(kind(b"junk"))


def test_a_picture_that_is_far_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest.importorskip("PIL.Image"), "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(RecordError, match="cannot be read"):
        decode_image(png(np.zeros((100, 100, 3))))


def test_a_folder_of_pictures_is_a_dataset(tmp_path: Path) -> None:
    for i in range(6):
        (tmp_path / f"{i}.png").write_bytes(png(np.full((2, 3, 3), i)))
    (tmp_path / "4.png").write_bytes(b"no picture")
    names = sorted(tmp_path.glob("*.png"))
    for how in ({"workers": 2}, {"workers": 1, "processes": True}):
        dataset = Dataset.from_iterable(names).map(decode_image, on_error="skip", **how)
        assert [x[0, 0, 0].item() for x in dataset] == [0, 1, 2, 3, 5]
        with pytest.raises(RecordError, check=says(r"4\.png")) as caught:
            list(Dataset.from_iterable(names).map(decode_image, **how).batch(6))
        assert "in element 4 of map(decode_image)" in "\n".join(caught.value.__notes__)
        del caught  # its traceback holds the iterator
    with pytest.raises(FileNotFoundError):
        decode_image(tmp_path / "none.png")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingError, match=r"pip install 'eagerflow\[data\]'"):
        decode_image(b"")
    with pytest.raises(SettingError, match=r"pip install 'eagerflow\[data\]'"):
        Dataset.from_arrow(None)


# --- tables -----------------------------------------------------------------------------------


def table(count: int) -> Any:
    arrow = pytest.importorskip("pyarrow")
    numbers = np.arange(count)
    return arrow.table(
        {
            "id": arrow.array(numbers, arrow.int32()),
            "ok": arrow.array(numbers % 2 == 0),
            "pair": arrow.FixedSizeListArray.from_arrays(
                arrow.array(np.arange(count * 2.0)), 2
            ),
        }
    )  # fmt: skip


def expected(index: int) -> Any:
    return {"id": index, "ok": index % 2 == 0, "pair": [2.0 * index, 2.0 * index + 1]}


def plain(element: Any) -> Any:
    return {name: x.tolist() for name, x in element.items()}


def parquet(folder: Path, *counts: int, group: int = 4) -> list[Path]:
    """Writes files that together have the rows of one table."""
    write = pytest.importorskip("pyarrow.parquet").write_table
    whole, start, paths = table(sum(counts)), 0, []
    for count in counts:
        paths.append(folder / f"{len(paths)}.parquet")
        write(whole.slice(start, count), paths[-1], row_group_size=group)
        start += count
    return paths


def test_rows_of_tables_and_files(tmp_path: Path) -> None:
    rows = [expected(i) for i in range(17)]
    paths = parquet(tmp_path, 9, 0, 8)
    batches = table(17).to_batches(max_chunksize=5)
    arrow = pytest.importorskip("pyarrow")
    for make in (
        lambda: Dataset.from_arrow(table(17)),
        lambda: Dataset.from_arrow(arrow.Table.from_batches(batches)),
        lambda: Dataset.from_arrow(table(17).to_reader(5)),
        lambda: Dataset.from_parquet(paths),
        lambda: Dataset.from_parquet(str(tmp_path / "*.parquet")),
    ):
        assert len(make()) == 17
        every_position(make, rows, plain)
        ids = lambda dataset: [x["id"].tolist() for x in dataset]
        assert ids(make().batch(6)) == [[*range(6)], [*range(6, 12)], [*range(12, 17)]]
        order = ids(Dataset.from_arrow(table(17)).shuffle(seed=3).batch(5))
        assert ids(make().shuffle(seed=3).batch(5)) == order
        elements = [plain(x) for x in make().shuffle(5, seed=3)]
        assert sorted(elements, key=lambda x: x["id"]) == rows
    (element, *_) = Dataset.from_arrow(table(2))
    assert [str(x.dtype) for x in element.values()] == ["int32", "bool", "float64"]


def test_texts_bytes_and_lists_of_tables() -> None:
    arrow = pytest.importorskip("pyarrow")
    made = arrow.table(
        {"s": ["a", "b"], "b": [b"x", b"y"], "l": [[1, 2], [3]], "d": [{"k": 1}] * 2}
    )
    first, second = Dataset.from_arrow(made)
    assert (first["s"], second["b"], first["d"]["k"].item()) == ("a", b"y", 1)
    assert (first["l"].tolist(), second["l"].tolist()) == ([1, 2], [3])
    (batch,) = Dataset.from_arrow(made.select(["l"])).padded_batch(2)
    assert batch["l"].tolist() == [[1, 2], [3, 0]]
    (batch,) = Dataset.from_arrow(made).map(lambda row: len(row["s"])).batch(2)
    assert batch.tolist() == [1, 1]
    with pytest.raises(DTypeError, match=r"no tensor at \['b'\]"):
        list(Dataset.from_arrow(made.select(["b"])).batch(2))


def test_columns_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(TensorValueError, match="'x' has 1 values that are missing"):
        Dataset.from_arrow(arrow.table({"x": [1, None]}))
    with pytest.raises(DTypeError, match="'t' has a type that tensors"):
        Dataset.from_arrow(arrow.table({"t": arrow.array([1], arrow.timestamp("s"))}))
    with pytest.raises(TensorValueError, match="the argument is not a table"):
        Dataset.from_arrow([1])
    (path,) = parquet(tmp_path, 3)
    assert [list(x) for x in Dataset.from_parquet(path, columns=["ok"])] == [["ok"]] * 3
    with pytest.raises(TensorValueError, match="has no column 'y'"):
        Dataset.from_parquet(path, columns=["id", "y"])
    with pytest.raises(FileNotFoundError):
        Dataset.from_parquet(tmp_path / "none")


def test_few_groups_of_rows_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquets = pytest.importorskip("pyarrow.parquet")
    (path,) = parquet(tmp_path, 60, group=6)
    read: list[int] = []
    plainly = parquets.ParquetFile.read_row_group

    def counted(self: Any, group: int, **settings: Any) -> Any:
        read.append(group)
        return plainly(self, group, **settings)

    monkeypatch.setattr(parquets.ParquetFile, "read_row_group", counted)
    in_order = Dataset.from_parquet(path)
    for _ in in_order.shuffle(8, seed=0).batch(4):
        pass
    assert sorted(read) == list(range(10))
    read.clear()
    monkeypatch.setattr("eagerflow.data.sources.tables._HELD", 3 * 6 * (4 + 1 + 16))
    dataset = Dataset.from_parquet(path)
    for _ in range(2):
        assert sorted(x["id"].item() for x in dataset) == list(range(60))
    assert read == 2 * list(range(10))


# --- third-party loaders ----------------------------------------------------------------------


def test_data_sets_with_items_by_number_are_not_read_to_be_shuffled() -> None:
    class Squares:
        """A data set in PyTorch's map style: no ``__iter__``."""

        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> Any:
            read.append(index)
            return np.float32(index), index * index

    read: list[int] = []
    dataset = Dataset.from_iterable(Squares()).shuffle(seed=0)
    assert len(dataset) == 50
    x, y = next(iter(dataset))
    assert len(read) == 1
    assert x.item() ** 2 == y.item()
    pairs = Dataset.from_iterable(range(50)).map(Squares().__getitem__, workers=2).batch(50)
    assert [x.shape for x in next(iter(pairs))] == [(50,), (50,)]
