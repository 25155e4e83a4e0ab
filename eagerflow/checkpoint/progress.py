"""A progress bar for checkpoints that are large, once they have taken a second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["progress"]

_LARGE: Final = 256 << 20
_DELAY: Final = 1.0


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """Gives a function to be called with the number of bytes that are done.

    Args:
        what: the label.
        total: bytes in all.
    """
    if total <= _LARGE:
        yield lambda done: None
        return
    from tqdm import tqdm  # noqa: PLC0415 - only large checkpoints need it

    # a terminal is clean again afterwards; a notebook would keep an output with nothing in it
    leave = "ipykernel" in sys.modules
    with tqdm(total=total, desc=what, unit="B", unit_scale=True, delay=_DELAY, leave=leave) as bar:
        yield bar.update
