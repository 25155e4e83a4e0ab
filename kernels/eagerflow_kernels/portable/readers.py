"""Kernels of readers of files."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.portable.waiting import Finish, count_of, register_answers, waits
from eagerflow_kernels.table import Array, portable


@waits("reader_read")
def reader_read(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """The next file record, and its record key."""

    def finish(records: Any) -> tuple[Array, ...]:
        return tuple([xp.array(part, object) for part in records[0]])

    return resource.read(), finish


@waits("reader_read_up_to")
def reader_read_up_to(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """The next file records, and their record keys; fewer after the last file."""

    def finish(records: Any) -> tuple[Array, ...]:
        columns = blank(xp, (2, len(records)), xp.dtype(object))
        for i, record in enumerate(records):
            columns[0, i], columns[1, i] = record
        return columns[0], columns[1]

    return resource.read(count_of(count, asked), True), finish


@portable("reader_reset")
def reader_reset(xp: Any, *, resource: Any) -> tuple[Array, ...]:
    """Abandon the file that is being read."""
    resource.reset()
    return ()


register_answers(
    {
        "reader_count": lambda reader: reader.count,
        "reader_skipped": lambda reader: reader.skipped,
    }
)
