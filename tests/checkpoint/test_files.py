"""Checkpoint files: full disks, files in the way, locks, and leftovers of killed processes."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow import atomic_files
from eagerflow.checkpoint import files
from eagerflow.checkpoint.files import LOCK, MANIFEST
from eagerflow.errors import CheckpointError, FileError
from tests.checkpoint.disks import Disk, full, interrupted
from tests.source_tree import ROOT

OLD = {"w": ef.tensor([1.0, 2.0]), "v": ef.tensor([3.0])}
NEW = {"w": ef.tensor([5.0, 6.0]), "v": ef.tensor([7.0])}


def values(path: Path) -> list[list[float]]:
    return [x.numpy().tolist() for x in ef.checkpoint.load(path).values()]


def _save(path: Path, tree: object) -> None:
    ef.checkpoint.save(path, tree, shard_bytes=4)


def _let_write(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    for module in (atomic_files, files):
        monkeypatch.setattr(module, "os", disk)


def calls_of_a_save(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[tuple[str, str]]:
    disk = Disk()
    _let_write(monkeypatch, disk)
    _save(path, NEW)
    monkeypatch.undo()
    return [(name, what.removeprefix(f"{path}/")) for name, what in disk.calls]


def _kind(call: tuple[str, str]) -> tuple[str, str]:
    return call[0], call[1] if call[1].startswith("/") else call[1].partition("-")[0]


def test_the_order_in_which_things_reach_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    first = [_kind(c) for c in calls_of_a_save(monkeypatch, path)]
    shard = [("open", "shard"), ("write", "shard"), ("write", "shard"), ("fsync", "shard")]
    manifest = [("open", "manifest"), ("write", "manifest"), ("fsync", "manifest")]
    folder = [("open", str(path)), ("fsync", str(path))]
    above = [("open", str(tmp_path)), ("fsync", str(tmp_path))]
    published = [*folder, ("replace", MANIFEST), *folder]
    start = [("mkdir", str(path)), ("open", LOCK)]
    assert first == [*start, *shard, *shard, *manifest, *published, *above]
    second = [_kind(c) for c in calls_of_a_save(monkeypatch, path)]
    removed = [("unlink", "shard"), ("unlink", "shard")]
    assert second == [*start, *shard, *shard, *manifest, *published, *removed]


@pytest.mark.parametrize("wrong", [full, interrupted])
def test_any_call_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    """The old checkpoint is unchanged until the new one replaces it."""
    path = tmp_path / "c"
    _save(path, OLD)
    count = len(calls_of_a_save(monkeypatch, path))
    outcomes = []
    for number in range(count):
        _save(path, OLD)
        before = sorted(os.listdir(path))
        disk = Disk(number, wrong)
        _let_write(monkeypatch, disk)
        with suppress(OSError, KeyboardInterrupt):
            _save(path, NEW)
        monkeypatch.undo()
        stored = values(path)
        outcomes.append(stored == values_of(NEW))
        assert stored in (values_of(OLD), values_of(NEW))
        if stored == values_of(OLD):
            assert sorted(os.listdir(path)) == before, disk.calls[number]
    published = outcomes.index(True)
    assert published > 10
    assert all(outcomes[published:])


def values_of(tree: dict[str, ef.Tensor]) -> list[list[float]]:
    return [x.numpy().tolist() for x in tree.values()]


@pytest.mark.parametrize("wrong", [full, interrupted])
def test_a_first_save_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: object
) -> None:
    count = len(calls_of_a_save(monkeypatch, tmp_path / "other"))
    for number in range(count - 5):  # the last five calls come after it is published
        disk = Disk(number, wrong)
        _let_write(monkeypatch, disk)
        with pytest.raises((OSError, KeyboardInterrupt)):
            _save(tmp_path / "c", NEW)
        monkeypatch.undo()
        left = os.listdir(tmp_path / "c") if (tmp_path / "c").exists() else []
        assert left == [], disk.calls[number]


def test_the_error_says_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in ("nothing was saved", "the earlier checkpoint is intact"):
        _let_write(monkeypatch, Disk(3, full))
        with pytest.raises(FileError, match="No space left") as caught:
            _save(tmp_path / "c", NEW)
        monkeypatch.undo()
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(tmp_path / "c")
        lines = str(caught.value).splitlines()
        assert lines[0].startswith(f"checkpoint.save: {tmp_path / 'c'} cannot be written")
        assert re.search(r"[\d,]+ bytes to write, [\d,]+ bytes free", lines[1])
        assert lines[2].startswith("  hint: free some space")
        assert lines[2].endswith(kept)
        assert "test_files.py" in lines[3]
        _save(tmp_path / "c", OLD)


def test_a_disk_that_takes_only_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    _save(tmp_path / "c", NEW)
    monkeypatch.undo()
    assert values(tmp_path / "c") == values_of(NEW)


def test_a_real_limit(tmp_path: Path) -> None:
    """The system itself refuses to write more."""
    _save(tmp_path / "c", OLD)
    before = sorted(os.listdir(tmp_path / "c"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            ef.checkpoint.save(tmp_path / "c", ef.zeros((100_000,)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(os.listdir(tmp_path / "c")) == before
    assert values(tmp_path / "c") == values_of(OLD)


def test_media_errors_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _save(tmp_path / "c", OLD)

    def fail(*args: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(CheckpointError, match=r"manifest\.json cannot be read: Input/output error"):
        ef.checkpoint.load(tmp_path / "c")


# --- obstacles -----------------------------------------------------------------------------------


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    with pytest.raises(CheckpointError, match="is a file"):
        _save(tmp_path / "c", NEW)
    assert (tmp_path / "c").read_text() == "mine"


@pytest.mark.parametrize("name", ["notes.txt", MANIFEST])
def test_a_folder_with_other_things(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(CheckpointError, match="a folder with other things") as caught:
        _save(tmp_path, NEW)
    assert name in str(caught.value)
    assert os.listdir(tmp_path) == [name]


def test_a_folder_of_checkpoints_is_none(tmp_path: Path) -> None:
    manager = ef.checkpoint.Manager(tmp_path)
    manager.save(1, OLD)
    with pytest.raises(CheckpointError, match="a folder with other things"):
        _save(tmp_path, NEW)


def test_things_beside_a_checkpoint_stay(tmp_path: Path) -> None:
    _save(tmp_path / "c", OLD)
    (tmp_path / "c" / "README").write_text("mine")
    _save(tmp_path / "c", NEW)
    assert (tmp_path / "c" / "README").read_text() == "mine"
    assert values(tmp_path / "c") == values_of(NEW)


def test_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    _save(tmp_path / "c", OLD)
    (tmp_path / "c" / MANIFEST).write_bytes(b"")
    _save(tmp_path / "c", NEW)
    assert values(tmp_path / "c") == values_of(NEW)


# --- leftovers and locks -------------------------------------------------------------------------

LEFT = ["shard-00001-of-00001-0123abcd.safetensors", "manifest-0123abcd.tmp"]


def test_leftovers_go_with_the_next_save(tmp_path: Path) -> None:
    for _ in range(2):
        (tmp_path / "c").mkdir(exist_ok=True)
        for name in LEFT:
            (tmp_path / "c" / name).write_text("torn")
        _save(tmp_path / "c", NEW)
        assert not set(LEFT) & set(os.listdir(tmp_path / "c"))
        assert len(os.listdir(tmp_path / "c")) == 4


def test_leftovers_go_with_the_next_manager(tmp_path: Path) -> None:
    torn = tmp_path / "step-00000007"
    torn.mkdir()
    for name in LEFT:
        (torn / name).write_text("torn")
    ef.checkpoint.Manager(tmp_path)
    assert not torn.exists()


_HOLDER = """
import sys; sys.path[:0] = {paths!r}
from pathlib import Path
from eagerflow.checkpoint.files import locked
with locked(Path({folder!r})):
    print("held", flush=True)
    sys.stdin.read()
"""


def _holder(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of a folder until its input ends."""
    paths = [str(ROOT), str(ROOT / "kernels")]
    program = _HOLDER.format(paths=paths, folder=str(folder))
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_what_a_living_process_writes_stays(tmp_path: Path) -> None:
    """A lock of the run's folder, or of the checkpoint itself, protects files being written."""
    torn = tmp_path / "step-00000007"
    for locked_folder in (tmp_path, torn):
        with _holder(locked_folder) as process:
            torn.mkdir(exist_ok=True)
            (torn / LEFT[0]).write_text("half")
            ef.checkpoint.Manager(tmp_path)
            assert (torn / LEFT[0]).exists()
            process.kill()  # which releases the lock
        ef.checkpoint.Manager(tmp_path)
        assert not torn.exists()


def test_a_save_waits_for_another(tmp_path: Path) -> None:
    with files.locked(tmp_path / "c"):
        thread = threading.Thread(target=_save, args=(tmp_path / "c", NEW))
        thread.start()
        with files.locked(tmp_path / "c", wait=False) as lock:
            assert lock is None
        assert not (tmp_path / "c" / MANIFEST).exists()
    thread.join()
    assert values(tmp_path / "c") == values_of(NEW)


def test_a_lock_of_a_folder_that_was_removed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter for the lock of a checkpoint that is then removed makes the folder anew."""
    _save(tmp_path / "c", OLD)
    waits, flock = threading.Event(), files.fcntl.flock
    with files.locked(tmp_path / "c"):
        monkeypatch.setattr(files.fcntl, "flock", lambda *args: (waits.set(), flock(*args)))
        thread = threading.Thread(target=_save, args=(tmp_path / "c", NEW))
        thread.start()
        waits.wait()
        for name in os.listdir(tmp_path / "c"):
            (tmp_path / "c" / name).unlink()
        (tmp_path / "c").rmdir()
    thread.join()
    assert values(tmp_path / "c") == values_of(NEW)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files.fcntl, "flock", none)
    _save(tmp_path / "c", OLD)
    (tmp_path / "c" / LEFT[1]).write_text("perhaps of a living process")
    torn = tmp_path / "step-00000007"
    torn.mkdir()
    (torn / LEFT[0]).write_text("perhaps as well")
    ef.checkpoint.Manager(tmp_path)
    assert (torn / LEFT[0]).exists()
    _save(tmp_path / "c", NEW)
    assert values(tmp_path / "c") == values_of(NEW)
