"""The memory of this process before and after a block, and its peak where that is known."""

from __future__ import annotations

from typing import NamedTuple

from eagerflow.formatting import bytes_text


class ProcessMemory(NamedTuple):
    """The memory of this process at one time, in bytes.

    Attributes:
        now: taken at that time.
        peak: the most that the process has ever taken.
    """

    now: int
    peak: int


def process_memory() -> ProcessMemory | None:
    """The memory of this process; None where the system does not tell: it is not Linux."""
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return ProcessMemory(*[int(lines[n].split()[0]) * 1024 for n in ("VmRSS", "VmHWM")])
    except (OSError, KeyError, ValueError):
        return None


def in_words(before: ProcessMemory | None, after: ProcessMemory | None) -> str | None:
    """The line of a profile on memory; None if nothing is known.

    The system keeps one peak, that of the whole life of the process. If it has risen since the
    beginning, it was within the block, or between several; else that of the block is not known.

    Args:
        before: at the beginning.
        after: at the end.
    """
    if before is None or after is None:
        return None
    more = after.now - before.now
    change = "as at the beginning"
    if more:
        change = f"{bytes_text(abs(more))} {'more' if more > 0 else 'less'} than at the beginning"
    peak = f"; at most {bytes_text(after.peak)} meanwhile" if after.peak > before.peak else ""
    return f"memory of this process: {bytes_text(after.now)}, {change}{peak}"
