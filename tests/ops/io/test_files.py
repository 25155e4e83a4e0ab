"""Whole files: contents read and written, the order of both, and errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, FileError, ShapeError
from tests.ops.io.conftest import MakeFile
from tests.resources.queues.modes import Call


def test_names_are_texts_paths_or_bytes(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for name in (path, str(path), str(path).encode(), ef.tensor(str(path).encode())):
        call(lambda name=name: ef.io.write_file(name, b"\0\xff"))
        assert call(lambda name=name: ef.io.read_file(name)).item() == b"\0\xff"
    paths = [tmp_path / "a", tmp_path / "b"]
    call(lambda: ef.io.write_file(paths, [b"1", b"2"]))
    assert call(lambda: ef.io.read_file([str(p) for p in paths])).tolist() == [b"1", b"2"]


def test_a_file_is_read_in_each_run(make_file: MakeFile) -> None:
    path = make_file("a", b"before")
    read = ef.trace(lambda: ef.io.read_file(path))
    assert read().item() == b"before"
    Path(path).write_bytes(b"after")
    assert read().item() == b"after"
    assert len(read.traces) == 1


def test_reading_waits_for_writing(call: Call, make_file: MakeFile) -> None:
    path = make_file("a", b"0")

    def twice() -> tuple[ef.Tensor, ef.Tensor]:
        before = ef.io.read_file(path)
        ef.io.write_file(path, ef.where(before == b"0", b"1", b"2"))
        return before, ef.io.read_file(path)

    for first, second in ((b"0", b"1"), (b"1", b"2")):
        assert [x.item() for x in call(twice)] == [first, second]


def test_in_branches_and_loops(call: Call, make_file: MakeFile) -> None:
    path = make_file("a", b"x")

    def grown() -> ef.Tensor:
        def body(i: ef.Tensor, x: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
            return i + 1, ef.concat([x, ef.io.read_file([path])])

        _, x = ef.while_loop(lambda i, x: i < 3, body, (ef.tensor(0), ef.zeros(1, dtype="bytes")))
        return x

    def chosen() -> ef.Tensor:
        return ef.cond(ef.tensor(1) > 0, lambda: ef.io.read_file(path), lambda: ef.tensor(b""))

    assert call(grown).tolist() == [b"", b"x", b"x", b"x"]
    assert call(chosen).item() == b"x"


def test_what_cannot_be_read_or_written(call: Call, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(OSError, match=missing) as caught:
        call(lambda: ef.io.read_file(missing))
    assert isinstance(caught.value, FileError)
    assert caught.value.filename == missing
    assert "test_files.py" in str(caught.value)
    with pytest.raises(FileError):
        call(lambda: ef.io.write_file(tmp_path / "no" / "folder", b"x"))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FileError):
        call(lambda: ef.io.write_file(folder, b"x"))
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]  # no temporary file remains


def test_wrong_types(call: Call) -> None:
    with pytest.raises(DTypeError):
        call(lambda: ef.io.read_file(ef.tensor(1.0)))
    with pytest.raises(DTypeError, match=r"encode\(\)"):
        call(lambda: ef.io.write_file("name", "text"))


def test_nothing_is_written_if_the_shapes_differ(call: Call, tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(ShapeError):
        call(lambda: ef.io.write_file(names, [b"1", b"2", b"3"]))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_not_replaced(call: Call, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="not a regular file"):
        call(lambda: ef.io.write_file(pipe, b"x"))
    assert pipe.is_fifo()
