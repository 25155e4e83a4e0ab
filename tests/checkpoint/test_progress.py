"""The progress bar for large checkpoints."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.checkpoint import shards
from tests.source_tree import ROOT


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars without delay, for more than 100 bytes, in the form for a log."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(shards, "_LARGE", 100)
    monkeypatch.setattr(shards, "_DELAY", 0)


@pytest.mark.usefixtures("low_limits")
def test_large_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ef.checkpoint.save(tmp_path / "big", [ef.zeros((20,)), ef.zeros((30,))])
    ef.checkpoint.load(tmp_path / "big")
    saved, loaded = capsys.readouterr().err.splitlines()
    assert saved.startswith("saving big: ")
    assert loaded.startswith("loading big: ")


def test_all_bytes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, list[int]]] = []

    @contextmanager
    def watched(what: str, total: int) -> Iterator[Callable[[int], object]]:
        counted.append((total, []))
        yield counted[-1][1].append

    monkeypatch.setattr(shards, "watched", watched)
    ef.checkpoint.save(tmp_path / "big", [ef.zeros((20,)), ef.zeros((30,))])
    ef.checkpoint.load(tmp_path / "big")
    assert [(total, sum(done)) for total, done in counted] == [(200, 200), (200, 200)]


@pytest.mark.usefixtures("low_limits")
def test_small_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ef.checkpoint.save(tmp_path / "small", ef.zeros((20,)))
    ef.checkpoint.load(tmp_path / "small")
    assert capsys.readouterr().err == ""


def test_what_is_loaded_is_told_lazily() -> None:
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'kernels')]!r}\n"
        "import tempfile, eagerflow as ef\n"
        "assert 'eagerflow.checkpoint' not in sys.modules\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    ef.checkpoint.save(folder, {'x': ef.ones((3,))}); ef.checkpoint.load(folder)\n"
        "print([n for n in ('tqdm', 'safetensors', 'scipy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
