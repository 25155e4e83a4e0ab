"""Mutation testing: puts bugs into a copy of the tree, one at a time, and runs tests on them.

Run: ``python -m tests.mutants [--tree DIR] [--wide] [PART OF A NAME ...]``. The tests listed for
a bug run until one fails; with ``--wide`` all tests do. The exit status says whether all bugs
were found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.bugs import BUGS, Bug
from tests.source_tree import ROOT

_PARTS = ("eagerflow", "kernels", "widgets", "tests", "docs", "conftest.py", "pyproject.toml")
_SECONDS = 3600  # a bug may let tests wait for ever


def copied(tree: Path, folder: Path) -> Path:
    """A copy of the parts of a tree that tests need."""
    for part in _PARTS:
        if (tree / part).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(tree / part, folder / part, ignore=skip)
        else:
            shutil.copy(tree / part, folder / part)
    return folder


def finding(bug: Bug, tree: Path, wide: bool = False) -> str:
    """The first test that fails with a bug put into this tree; empty if none does."""
    file = tree / bug.file
    source = file.read_text()
    if source.count(bug.right) != 1:
        raise SystemExit(f"{bug.name}: in {bug.file} the text is not there once: {bug.right!r}")
    file.write_text(source.replace(bug.right, bug.wrong))
    try:
        for tests in ("",) if wide else bug.tests:
            first, *options = tests.split(maxsplit=2) if tests else [""]
            if failed := _failed(tree, [f"tests/{first}", *options]):
                return failed
    finally:
        file.write_text(source)
    return ""


def _failed(tree: Path, arguments: list[str]) -> str:
    """The first test that fails; empty if none does."""
    packages = [tree, tree / "kernels", tree / "widgets"]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider",
               "--timeout=600", *arguments]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "they do not end"
    if done.returncode in (0, 5):  # 5: no such tests
        return ""
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return told[0] if told else f"exit status {done.returncode}: {lines[-1:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of bugs")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--wide", action="store_true", help="run all tests")
    options = parser.parse_args()
    chosen = [b for b in BUGS if not options.names or any(n in b.name for n in options.names)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(options.tree, Path(folder))
        for bug in chosen:
            test = finding(bug, tree, options.wide)
            missed += not test
            print(f"{'found' if test else 'NOT FOUND':10} {bug.name}: {test}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} bugs are found")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
