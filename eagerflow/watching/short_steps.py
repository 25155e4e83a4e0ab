"""Of very short steps one is told for several, so that looking stays a small part of them."""

from __future__ import annotations

from typing import Final

from eagerflow.runtime.executable import find_executable
from eagerflow.watching.step_times import StepLog

#: what a step that is told takes, and what comes of it, may be as much as this part of it
_SHARE: Final = 0.01
#: what it takes to tell a step and to take it in, in seconds
_TELLING: Final = 7e-7
#: for how many steps one stands at most
_MOST: Final = 32
#: steps between two looks from which on that is worth it; where there are fewer each is told
_MANY: Final = 500


def thin_out(log: StepLog) -> None:
    """Say of how many steps one is told from now on, by how many came since the last look."""
    for number, times in log.executables.items():
        executable = find_executable(number)
        if executable is None:
            continue
        every = 1
        if times.lately * executable.told_every >= _MANY:
            every = min(int(_TELLING / (_SHARE * max(times.median, 1e-9))) + 1, _MOST)
        executable.told_every = every
