"""Counts of function calls in task servers during a measurement, by `cProfile`.

A process that is started within `profiled_processes` handles two signals: the first begins, the
second ends and writes the counts. So the product contains no code for it.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

_FOLDER: Final = "EAGERFLOW_BENCH_PROFILES"
_ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = 20.0


def listen() -> None:
    """Install a handler that counts calls from a first signal to a second, in the main thread."""
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return
    profile = cProfile.Profile()
    place = Path(folder, str(os.getpid()))

    def begin(*_: Any) -> None:
        signal.signal(signal.SIGUSR1, end)
        profile.enable()

    def end(*_: Any) -> None:
        profile.disable()
        unfinished = place.with_suffix(".new")
        profile.dump_stats(unfinished)
        unfinished.rename(place)

    signal.signal(signal.SIGUSR1, begin)


@contextmanager
def profiled_processes() -> Iterator[Path]:
    """Within this block, Python processes that start call `listen`; yields their output folder."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", _FOLDER)}
    with tempfile.TemporaryDirectory(prefix="ef-profiles-") as folder:
        paths = [str(_ROOT / "tests/bench/profiled"), str(_ROOT), before["PYTHONPATH"] or ""]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        os.environ[_FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def signal_all(processes: Sequence[int]) -> None:
    """Begin counting in processes, or end it."""
    for process in processes:
        os.kill(process, signal.SIGUSR1)


def counted(folder: Path, process: int) -> pstats.Stats:
    """The counts that a process has written."""
    until = monotonic() + _SECONDS
    while not (folder / str(process)).exists():
        if monotonic() > until:
            raise TimeoutError(f"process {process} has written nothing")
        sleep(0.01)
    return pstats.Stats(str(folder / str(process)))
