"""The bar for large checkpoints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

import eagerflow as ef
from eagerflow.checkpoint import progress
from tests.source_tree import ROOT


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bars that are made, shown at once, for more than 100 bytes."""
    made: list[Any] = []
    monkeypatch.setattr(tqdm, "monitor_interval", 0)
    monkeypatch.setattr(progress, "_LARGE", 100)
    monkeypatch.setattr(progress, "_DELAY", 0)
    close = tqdm.close
    monkeypatch.setattr(tqdm, "close", lambda bar: (made.append(bar), close(bar)))
    return made


def test_large_ones(tmp_path: Path, bars: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    ef.checkpoint.save(tmp_path / "big", [ef.zeros((20,)), ef.zeros((30,))])
    ef.checkpoint.load(tmp_path / "big")
    assert [(bar.n, bar.total) for bar in bars] == [(200, 200), (200, 200)]
    shown = capsys.readouterr().err
    assert "saving big" in shown
    assert "loading big" in shown


def test_small_ones(tmp_path: Path, bars: list[Any]) -> None:
    ef.checkpoint.save(tmp_path / "small", ef.zeros((20,)))
    ef.checkpoint.load(tmp_path / "small")
    assert bars == []


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


@pytest.mark.parametrize("notebook", [False, True])
def test_a_notebook_keeps_the_bar(
    tmp_path: Path, bars: list[Any], monkeypatch: pytest.MonkeyPatch, notebook: bool
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    ef.checkpoint.save(tmp_path / "big", ef.zeros(50))
    assert [bar.leave for bar in bars] == [notebook]
