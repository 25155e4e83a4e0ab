"""Programs of tests in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["output_of"]


def output_of(code: str, cache: Path | None = None) -> str:
    """The output of a program, which must raise no warning.

    Args:
        code: the program.
        cache: an empty cache of kernels; None for the default cache.
    """
    environment = dict(os.environ)
    if cache is not None:
        environment["EAGERFLOW_CACHE"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], timeout=240, check=False,
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
