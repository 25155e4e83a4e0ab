"""The table of TensorFlow's behaviours in `docs/control_flow.md`: each row has a test."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "control_flow.md"


def test_each_row_has_a_test() -> None:
    rows = [
        line for line in DOCUMENT.read_text().split("## Beside TensorFlow")[1].splitlines()
        if line.startswith("|")
    ][2:]  # fmt: skip
    assert len(rows) > 20
    files = [
        file for folder in ("control", "runtime", "ops", "autograph", "programs")
        for file in (TESTS / folder).rglob("test_*.py")
    ]  # fmt: skip
    known = {
        name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    for row in rows:
        names = re.findall(r"`(test_\w+)", row.rsplit("|", 2)[1])
        assert names, row
        assert set(names) <= known, row
