"""Twelve programs as new users wrote them, with habits of PyTorch and no look into the package.

Each checks its own results. What their authors stumbled over on the way is in
docs/decisions/0151-what-else-the-first-day-showed.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
#: programs of one run; `cnn` has several
ONCE = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "cnn")


def _run(name: str, *arguments: str, folder: Path) -> str:
    command = [sys.executable, PROGRAMS / f"{name}.py", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ONCE)
def test_a_program(name: str, tmp_path: Path) -> None:
    assert _run(name, folder=tmp_path)


@pytest.mark.slow
def test_a_resumed_training_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = _run("cnn", "full", folder=tmp_path)
    _run("cnn", "first", folder=tmp_path)
    resumed = _run("cnn", "resume", folder=tmp_path)
    assert "resumed at epoch 3" in resumed
    assert whole.splitlines()[-1] == resumed.splitlines()[-1]
