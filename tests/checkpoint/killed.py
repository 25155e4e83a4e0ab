"""Processes that save for ever, to be killed, forked by one server."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import eagerflow as ef


def tree(number: int) -> dict[str, Any]:
    """The state saved under a number, in several shards."""
    rows = np.arange(40_000, dtype=np.float32) * number
    return {
        "rows": ef.Variable(rows),
        "half": ef.asarray(rows[::7]).astype(ef.bfloat16),
        "draws": ef.random.Generator(number),
        "number": number,
    }


def save_without_end(folder: Path, number: int) -> None:
    """Save alternately into a run and over one checkpoint, and log each completed save."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    manager = ef.checkpoint.Manager(folder / "run", keep=2)
    while True:
        os.write(log, f"begin {number}\n".encode())
        manager.save(number, tree(number), force=True)
        os.write(log, f"run {number}\n".encode())
        ef.checkpoint.save(folder / "latest", tree(number), shard_bytes=50_000)
        os.write(log, f"latest {number}\n".encode())
        number += 1


def serve() -> None:
    """For each input line, ``folder number``: fork, print the process id, wait for the process."""
    with tempfile.TemporaryDirectory() as folder:  # warms up all that a first save does
        ef.checkpoint.Manager(folder).save(1, tree(1))
    for line in sys.stdin:
        folder, number = line.split()
        child = os.fork()
        if child == 0:
            save_without_end(Path(folder), int(number))
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)
