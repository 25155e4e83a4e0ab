"""Runs of every benchmark script at its smallest size, where the figures mean nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import check_each, in_groups, names_of
from tests.forked import Ended, run_modules
from tests.source_tree import ROOT

SCRIPTS = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in (ROOT / "tests" / "bench").rglob("*.py")
    if re.search(r'^if __name__ == "__main__":', file.read_text(), re.MULTILINE)
)


def test_there_are_scripts() -> None:
    assert "tests.bench.eager" in SCRIPTS


@pytest.mark.parametrize("scripts", in_groups(SCRIPTS), ids=names_of)
def test_they_run(scripts: list[str]) -> None:
    ended = run_modules([(script, "--smallest") for script in scripts], ROOT)
    check_each(zip(scripts, ended, strict=True), _has_printed_a_table)


def _has_printed_a_table(script: str, ended: Ended) -> None:
    assert ended.status == 0, ended.stderr
    rows = [line for line in ended.stdout.splitlines() if line.startswith("|")]
    assert len(rows) > 2, ended.stdout


def test_a_peer_that_is_not_installed_is_left_out(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.bench.harness import Contender, Contest, arguments, installed, run\n"
        "both = [Contender('ours', 'x = 1', 'x + x'), Contender('theirs', '', '', 'absent')]\n"
        "options = arguments('Sums').parse_args()\n"
        "run('Sums', installed([Contest('a sum', both)], options), options)\n"
    )
    options = ["--rounds", "1", "--seconds", "1e-6", "--json", str(tmp_path / "figures.json")]
    command = [sys.executable, str(script), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "left out, as they are not installed: absent\n" in done.stdout
    assert "| a sum | ours |" in done.stdout
    assert "theirs |" not in done.stdout.split("budget")[1]
    assert '"work": "a sum"' in (tmp_path / "figures.json").read_text()
