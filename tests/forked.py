"""Modules of this repository as programs, in processes of their own.

A process that has loaded eagerflow is forked for each program, so that the import is paid once.
Each program finds the state right after its own ``import eagerflow``, and no other program's.
"""

from __future__ import annotations

import faulthandler
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.source_tree import ROOT

__all__ = ["Ended", "run_modules"]

#: seconds after which a program prints the stacks of all its threads, and exits
_LONGEST = 240


class Ended(NamedTuple):
    """The exit status of a program (negative for a signal), and its output."""

    status: int
    stdout: str
    stderr: str


def run_modules(commands: Sequence[Sequence[str]], folder: Path) -> list[Ended]:
    """Run modules as ``python -W error -m`` does, one after the other.

    Args:
        commands: the name of each module, and its arguments.
        folder: the working directory.
    """
    with tempfile.TemporaryDirectory() as outputs:
        files = [
            (Path(outputs, f"{i}.out"), Path(outputs, f"{i}.err")) for i in range(len(commands))
        ]
        jobs = [(*command, *map(str, pair)) for command, pair in zip(commands, files, strict=True)]
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.forked"],
            input=json.dumps([str(folder), [str(ROOT), *filter(None, sys.path)], jobs]),
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [
            Ended(status, out.read_text(), err.read_text())
            for status, (out, err) in zip(json.loads(done.stdout), files, strict=True)
        ]


def _serve() -> None:
    """Fork a process for each job; the last line printed has their exit statuses."""
    folder, path, jobs = json.load(sys.stdin)
    sys.path[:] = path
    import eagerflow  # noqa: F401 - what all of them load

    os.chdir(folder)
    statuses = []
    for module, *arguments, out, err in jobs:
        pid = os.fork()
        if pid == 0:
            _become(module, arguments, out, err)
            return
        _, status = os.waitpid(pid, 0)
        statuses.append(os.waitstatus_to_exitcode(status))
    print(json.dumps(statuses))


def _become(module: str, arguments: list[str], out: str, err: str) -> None:
    """Run a module in this process, which ends as any other does."""
    for descriptor, file in ((1, out), (2, err)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    faulthandler.dump_traceback_later(_LONGEST, exit=True, file=2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
