"""A `Watch` for the time of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eagerflow.capture.changes import Watch
from eagerflow.capture.reads import Reads


@contextmanager
def watching(reads: Reads) -> Iterator[Watch]:
    """Watch all objects that a function can reach; restore them at the end of the block."""
    watch = Watch(reads)
    try:
        yield watch
    finally:
        watch.restore()
