"""mypy and pyright accept the right program, and report each wrong line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.source_tree import ROOT

_HERE = Path(__file__).parent
_RIGHT, _WRONG = _HERE / "right.py", _HERE / "wrong.py"


def _wrong_lines() -> set[int]:
    """Numbers of all lines after the imports, except definitions."""
    lines = list(enumerate(_WRONG.read_text().splitlines(), 1))
    first = next(n for n, line in lines if line.startswith("from tests"))
    return {n for n, line in lines if n > first and line and not line.startswith("def ")}


def test_mypy() -> None:
    run = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
           "--cache-dir", str(ROOT / ".mypy_cache"), str(_RIGHT), str(_WRONG)]  # fmt: skip
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    errors = re.findall(r"^\S*tests\S(\w+).(\w+)\.py:(\d+): error", done.stdout, re.MULTILINE)
    assert {int(line) for _, name, line in errors if name == "wrong"} == _wrong_lines(), done.stdout
    assert [line for _, name, line in errors if name == "right"] == [], done.stdout


def test_pyright() -> None:
    run = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable,
           str(_RIGHT), str(_WRONG)]  # fmt: skip
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    errors = {
        (Path(one["file"]).stem, one["range"]["start"]["line"] + 1): one["message"]
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    }
    assert errors.keys() == {("wrong", line) for line in _wrong_lines()}, errors
