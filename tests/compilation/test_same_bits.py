"""Random programs have the same bits eagerly, in generated code, and with native kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kernels.native.compiling import needs_compiler
from tests.source_tree import ROOT

pytestmark = needs_compiler


def _kernels(first: int, count: int) -> int:
    """Number of kernels of some programs, whose results a process of their own compares."""
    command = [sys.executable, "-m", "tests.compilation.programs", str(first), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_random_programs() -> None:
    assert _kernels(0, 10) > 15


def test_what_is_repeated_lies_by_rows() -> None:
    """A repeated array in row-major order, with one in another order in the same kernel."""
    assert _kernels(1441, 1) == 3


@pytest.mark.slow
def test_many_random_programs() -> None:
    assert _kernels(1000, 1000) > 2000
