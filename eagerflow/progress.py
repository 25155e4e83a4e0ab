"""Progress bars: for terminals and notebooks. A log gets one line, at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Advances a bar by ``done`` units, with a note behind it."""

    def __call__(self, done: int, note: str = "") -> object: ...


@contextmanager
def progress_bar(
    what: str, total: int, unit: str, *, delay: float = 0.0, show: bool = True
) -> Iterator[Advance]:
    """Show the progress of some work, while the block runs.

    Bars are redrawn in place, which only a terminal or a notebook can do. A pipe or a file would
    keep each state of a bar: it gets one line at the end, and none if the block fails.

    Args:
        what: the label.
        total: the total number of units.
        unit: the name of the unit, such as ``"step"``; ``"B"`` is bytes.
        delay: the seconds before anything is shown.
        show: False for no bar and no line.

    >>> from eagerflow.extending import progress_bar
    >>> with progress_bar("training", 3, "step", show=False) as advance:
    ...     for step in range(3):
    ...         _ = advance(1, note=f"step {step}")
    """
    if not show:
        yield lambda done, note="": None
        return
    form = _bar if _notebook() or _terminal() else _line
    with form(what, total, unit, delay) as advance:
        yield advance


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _notebook() -> bool:
    return "ipykernel" in sys.modules


@contextmanager
def _bar(what: str, total: int, unit: str, delay: float) -> Iterator[Advance]:
    from tqdm import tqdm  # noqa: PLC0415 - a package that few programs need

    # a terminal is clean again afterwards; a notebook would keep an empty output, and shows stderr
    # as an error
    notebook = _notebook()
    with tqdm(
        total=total, desc=what, unit=unit, unit_scale=unit == "B", delay=delay, leave=notebook,
        file=sys.stdout if notebook else sys.stderr,
    ) as bar:  # fmt: skip

        def advance(done: int, note: str = "") -> None:
            bar.set_postfix_str(note, refresh=False)
            bar.update(done)

        yield advance


@contextmanager
def _line(what: str, total: int, unit: str, delay: float) -> Iterator[Advance]:
    start, last = time.perf_counter(), ""

    def advance(done: int, note: str = "") -> None:
        nonlocal last
        last = f", {note}" if note else ""

    yield advance
    seconds = time.perf_counter() - start
    if seconds >= delay and sys.stderr is not None:
        count = f"{total / 1e6:,.1f} MB" if unit == "B" else f"{total:,} {unit}s"
        sys.stderr.write(f"{what}: {count} in {seconds:.1f} s{last}\n")
