"""Machine code on disk: code that is damaged or unusable is compiled again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from eagerflow_kernels.native.disk_cache import DiskCache, key_of, shared


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "kernels")
    assert cache.load("a") is None
    cache.store("a", b"code")
    cache.store("a", b"other code")
    assert cache.load("a") == b"other code"
    assert [file.name for file in _files(tmp_path / "kernels")] == ["a.kernel"]


@pytest.mark.parametrize("left", [0, 5, 32, 35])
def test_damaged_files_are_not_used(tmp_path: Path, left: int) -> None:
    cache = DiskCache(tmp_path)
    os.chmod(tmp_path, 0o700)
    cache.store("a", b"code")
    (file,) = _files(tmp_path)
    file.write_bytes(file.read_bytes()[:left])
    assert cache.load("a") is None
    assert not file.exists()
    file.write_bytes(b"\0" * 100)
    assert cache.load("a") is None


def test_it_is_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, most=3 * (32 + 100))
    os.chmod(tmp_path, 0o700)
    for i, name in enumerate("abc"):
        cache.store(name, b"x" * 100)
        os.utime(tmp_path / f"{name}.kernel", (i, i))
    assert cache.load("a") is not None  # "a" becomes the newest
    cache.store("d", b"x" * 100)
    assert [file.name for file in _files(tmp_path)] == ["a.kernel", "c.kernel", "d.kernel"]


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    cache = DiskCache(folder)
    cache.store("a", b"code")
    os.chmod(folder, 0o777)
    assert cache.load("a") is None  # code of others would run as this user
    cache.store("b", b"code")
    assert [file.name for file in _files(folder)] == ["a.kernel"]


def test_what_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    cache = DiskCache(blocked / "kernels")
    cache.store("a", b"code")
    assert cache.load("a") is None


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    DiskCache(folder).store("a", b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_keys_tell_loops_and_targets_apart() -> None:
    keys = {key_of(*pair) for pair in (("a", "b"), ("a", "c"), ("ab", ""), ("b", "a"))}
    assert len(keys) == 4


@pytest.mark.parametrize("setting", [None, ""])
def test_without_a_home_the_working_directory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("EAGERFLOW_CACHE", raising=False)
    if setting is not None:
        monkeypatch.setenv("EAGERFLOW_CACHE", setting)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for users without a home
    cache = shared.__wrapped__()
    cache.store("a", b"code")
    assert cache.load("a") is None
    assert not _files(tmp_path)
