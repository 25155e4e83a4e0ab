"""Atomic writing of files: a whole file or none, and errors name the file."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import atomic_files
from eagerflow.errors import FileError
from tests.messages import says

LARGE = 300_000


def _graph(path: Path) -> None:
    x = ef.tensor(np.zeros(LARGE // 4, "f4"))
    graph = ef.Graph()
    graph.outputs = list(graph.add_node("constant", (), (x.type,), {"value": x}).outputs)
    graph.save(path)


def _profile(path: Path) -> None:
    with ef.profile() as profile:
        for _ in range(2_000):
            ef.zeros(1)
    profile.save(path)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "Graph.save": _graph,
    "Profile.save": _profile,
    "write_records": lambda path: ef.data.write_records(path, [bytes(LARGE)]),
    "write_file": lambda path: ef.io.write_file(path, bytes(LARGE)),
    "write_file, traced": lambda path: ef.trace(lambda: ef.io.write_file(path, bytes(LARGE)))(),
}


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system refuses to write large files, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
def test_a_file_that_cannot_be_written(
    name: str, there: bool, tmp_path: Path, small_files: None
) -> None:
    path = tmp_path / "file"
    if there:
        path.write_bytes(b"before")
    with pytest.raises(OSError, match="File too large") as caught:
        WRITERS[name](path)
    error = caught.value
    assert isinstance(error, FileError)
    assert (error.errno, error.filename) == (errno.EFBIG, str(path))
    first, *rest = str(error).splitlines()
    assert first.startswith(name.split(",")[0] + ": ")
    assert str(path) in first
    assert any("hint: files may not be that large here: see `ulimit -f`" in line for line in rest)
    assert "test_atomic_files.py" in rest[-1]
    if name != "write_records":  # its total size is not known in advance
        assert " bytes" in str(error)
    assert [p.name for p in tmp_path.iterdir()] == (["file"] if there else [])
    assert not there or path.read_bytes() == b"before"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("name", ["Graph.save", "Profile.save"])
def test_a_full_device(name: str) -> None:
    with pytest.raises(FileError, match="/dev/full cannot be written: No space left") as caught:
        WRITERS[name](Path("/dev/full"))
    assert "bytes to write" in str(caught.value)
    assert "hint: free some space on this disk, or choose another place" in str(caught.value)
    assert not Path("/dev/full").is_file()


def test_a_device_stays_one() -> None:
    WRITERS["Graph.save"](Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", [*WRITERS][:3])
def test_other_errors_keep_their_class(name: str, tmp_path: Path) -> None:
    path = tmp_path / "no" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        WRITERS[name](path)
    assert caught.value.filename == str(path)
    assert caught.value.__notes__ == [f"{name}: while {path} was written; nothing was written"]
    with pytest.raises(IsADirectoryError):
        WRITERS[name](tmp_path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_each_call_may_fail(
    call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, call, fail)
    with (
        pytest.raises(FileError, match=os.strerror(code)) as caught,
        atomic_files.replaced("test", path, 5) as write,
    ):
        write(b"after")
    monkeypatch.undo()
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("; the earlier file is intact")
    assert ("bytes free" in str(caught.value)) is (code == errno.ENOSPC)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"


def test_errors_of_the_block_are_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, check=says("mine")) as caught,
        atomic_files.replaced("test", tmp_path / "file"),
    ):
        raise OSError("mine")
    assert type(caught.value) is OSError
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"before")
    link.symlink_to(target)
    with atomic_files.replaced("test", link) as write:
        write(b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


def test_a_link_is_replaced_where_it_is_not_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(file)
    with atomic_files.replaced("save", link, mode=0o600, follows=False) as write:
        write(b"new")
        assert [p.stat().st_mode & 0o777 for p in tmp_path.glob(".link.*")] == [0o600]
    assert (link.is_symlink(), link.read_bytes(), file.read_bytes()) == (False, b"new", b"old")
    assert link.stat().st_mode & 0o777 == 0o600
