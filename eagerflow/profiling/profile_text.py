"""The tables of a profile, as text and as HTML: ops, lines, threads, queues.

Long tables are cut: the rows of small shares are summed up in one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from eagerflow.events import NodeEvent
from eagerflow.formatting import bytes_text, escape, table_html, table_lines
from eagerflow.profiling.advice import advice
from eagerflow.source import cell_name

if TYPE_CHECKING:
    from eagerflow.profiling.gap_statistics import GapStatistics
    from eagerflow.profiling.line_statistics import LineStatistics
    from eagerflow.profiling.outside_statistics import OutsideStatistics
    from eagerflow.profiling.profiles import OpStatistics, Profile
    from eagerflow.profiling.queue_statistics import QueueStatistics
    from eagerflow.profiling.thread_statistics import ThreadStatistics

_OP_HEADINGS: Final = (
    "op", "device", "calls", "total", "mean", "median", "share", "bytes", "largest",
)  # fmt: skip
_LINE_HEADINGS: Final = ("line", "code", "calls", "total", "of all")
_THREAD_HEADINGS: Final = ("thread", "ops", "total", "of all")
_QUEUE_HEADINGS: Final = (
    "queue", "elements", "operation", "by", "calls", "waits", "waited", "of all",
)  # fmt: skip
#: the most rows of each table, and the share below which ops are summed up
_ROWS: Final = 20
_LINES: Final = 10
_PARTS: Final = 5
_GAPS: Final = 4
_SMALL: Final = 0.001
#: the share of the duration, and the seconds, from which a gap between two lines is shown
_GAP: Final = 0.02
_LONG: Final = 1e-3
#: the share of the time of all ops from which their overlap is told of
_OVERLAP: Final = 0.01
#: characters of texts: a row fits a terminal of 100 columns
_PLACE: Final = 28
_CODE: Final = 42
_NAME: Final = 16
#: of the parts of a row
_INDENT: Final = "  "
_T = TypeVar("_T")


class _Table(NamedTuple):
    """A table: headings, rows, and the number of columns, from the first, that are texts."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    left: int


def to_text(profile: Profile) -> str:
    """The profile for a terminal.

    Args:
        profile: the profile.
    """
    lines = [_summary(profile)]
    for i, table in enumerate(_tables(profile)):
        lines += [""] * (i > 0) + table_lines([table.headings, *table.rows], table.left)
    notes = _notes(profile)
    return "\n".join([*lines, *([""] * bool(notes)), *notes])


def to_html(profile: Profile) -> str:
    """The profile for a notebook.

    Args:
        profile: the profile.
    """
    captions = [[_summary(profile)], [], [], []]
    html = "".join(
        table_html(caption, table.headings, [*map(_indented, table.rows)], table.left)
        for caption, table in zip(captions, _tables(profile), strict=False)
    )
    return html + "".join(f"<p>{escape(note)}</p>" for note in _notes(profile))


def _indented(row: tuple[str, ...]) -> tuple[str, ...]:
    """A row for HTML, which drops other spaces."""
    return tuple([cell.replace(_INDENT, "\N{NO-BREAK SPACE}" * len(_INDENT)) for cell in row])


def _tables(profile: Profile) -> list[_Table]:
    """The tables; that of ops always, the others if they have rows."""
    threads = profile.threads()
    more = [
        _Table(_LINE_HEADINGS, _line_rows(profile, len(threads) > 1), 2),
        _Table(_THREAD_HEADINGS, _thread_rows(threads) if len(threads) > 1 else [], 1),
        _Table(_QUEUE_HEADINGS, _queue_rows(profile.queues()), 4),
    ]
    ops = _Table(_OP_HEADINGS, _op_rows(profile.table()), 2)
    return [ops, *(table for table in more if table.rows)]


def _notes(profile: Profile) -> list[str]:
    memory = profile.memory_in_words()
    return [
        *_kernels(profile), *_overlap(profile), *([] if memory is None else [memory]),
        *advice(profile.table(), profile.outside()),
    ]  # fmt: skip


def _kernels(profile: Profile) -> list[str]:
    """The note on ops that ran within native kernels; none without such ops."""
    nodes = [e for e in profile.events if isinstance(e, NodeEvent)]
    within = [e for e in nodes if e.kernel]
    if not within:
        return []
    kernels = len({(e.executable, e.kernel) for e in within})
    by = f"{kernels} native kernels" if kernels > 1 else "a native kernel"
    return [
        f"{by} ran {len(within)} of these ops: each has a share of its kernel's time, by its work,",
        "and no bytes if its result stays within",
    ]


def _overlap(profile: Profile) -> list[str]:
    """What shares are of, where those of the duration may add up to more than all of it."""
    inside, with_ops = sum(row.total for row in profile.table()), profile.seconds_with_ops()
    if inside - with_ops <= _OVERLAP * inside:
        return []
    return [
        f"ops overlapped: {_time(inside)} of ops ran in {_time(with_ops)}",
        f'"of all" is of the {_time(profile.seconds)} of the block, and may add up to over 100%',
    ]


def _summary(profile: Profile) -> str:
    rows, threads = profile.table(), profile.threads()
    count, inside = sum(row.calls for row in rows), sum(row.total for row in rows)
    by = f" by {len(threads)} threads" if len(threads) > 1 else ""
    ops = "1 op" if count == 1 else f"{count} ops"
    return f"{ops}{by} in {_time(inside)}, of {_time(profile.seconds)}"


def _op_rows(rows: Sequence[OpStatistics]) -> list[tuple[str, ...]]:
    large = sum(row.share >= _SMALL for row in rows)
    shown, rest = _cut(rows, min(large, _ROWS))
    cells: list[tuple[str, ...]] = [
        (row.name, row.device, str(row.calls), _time(row.total), _time(row.mean),
         _time(row.median), f"{row.share:.1%}", bytes_text(row.nbytes), bytes_text(row.largest))
        for row in shown
    ]  # fmt: skip
    if rest:
        calls, total = sum(row.calls for row in rest), sum(row.total for row in rest)
        cells.append(
            (f"{len(rest)} more", "", str(calls), _time(total), _time(total / calls), "",
             f"{sum(row.share for row in rest):.1%}", bytes_text(sum(row.nbytes for row in rest)),
             bytes_text(max(row.largest for row in rest)))
        )  # fmt: skip
    return cells


def _line_rows(profile: Profile, several: bool) -> list[tuple[str, ...]]:
    """The cells of the slowest lines, and of the time outside of ops; none without lines."""
    rows: Sequence[LineStatistics] = profile.lines()
    whole = profile.seconds
    if not rows:
        return []
    shown, rest = _cut(rows, _LINES)
    cells: list[tuple[str, ...]] = [
        (_end_of(f"{os.path.basename(cell_name(row.file))}:{row.line}", _PLACE),
         _begin_of(row.text, _CODE), *_figures(row.calls, row.total, row.share))
        for row in shown
    ]  # fmt: skip
    if rest:
        calls, total = sum(row.calls for row in rest), sum(row.total for row in rest)
        cells.append((f"{len(rest)} more lines", "", *_figures(calls, total, total / whole)))
    parts = profile.outside()
    of = f"in {_begin_of(profile.thread, _CODE - 3)}" if several else ""
    cells += _outside_rows([part for part in parts if part.is_own], of, profile.gaps())
    return cells + _outside_rows([part for part in parts if not part.is_own], "in other threads")


def _outside_rows(
    parts: Sequence[OutsideStatistics], of: str, gaps: Sequence[GapStatistics] = ()
) -> list[tuple[str, ...]]:
    """The cells of the time outside of ops, with its parts if there are any but the rest.

    Below the rest come the longest gaps between lines that ran ops.
    """
    if not parts:
        return []
    total, share = sum(part.total for part in parts), sum(part.share for part in parts)
    cells: list[tuple[str, ...]] = [("outside of ops", of, "", _time(total), f"{share:.1%}")]
    named = [part for part in parts if part.kind != "other"]
    large = sum(part.share >= _SMALL for part in named)
    shown, small = _cut(named, min(large, _PARTS))
    cells += [
        (_INDENT + _begin_of(what, _PLACE - 2), _end_of(at, _CODE),
         *_figures(part.calls, part.total, part.share))
        for part in shown for what, at in [_part(part)]
    ]  # fmt: skip
    if small:
        calls, total = sum(part.calls for part in small), sum(part.total for part in small)
        share = sum(part.share for part in small)
        cells.append((f"{_INDENT}{len(small)} more", "", *_figures(calls, total, share)))
    gaps = [gap for gap in gaps if gap.share >= _GAP and gap.total >= _LONG][:_GAPS]
    rest = [part for part in parts if part.kind == "other"] if named or gaps else []
    cells += [
        (f"{_INDENT}other Python", "", "", _time(part.total), f"{part.share:.1%}") for part in rest
    ]
    return cells + [
        (2 * _INDENT + _end_of(gap.place, _PLACE - 4), _begin_of(gap.text, _CODE),
         *_figures(gap.count, gap.total, gap.share))
        for gap in gaps
    ]  # fmt: skip


def _part(part: OutsideStatistics) -> tuple[str, str]:
    """What took the time, and where or for what."""
    if part.kind == "trace":
        return "tracing", _begin_of(part.name, _CODE)
    if part.kind == "step":
        return "running graphs", f"{_begin_of(part.name, _CODE - 18)}, besides its ops"
    if part.kind == "wait":
        return "waiting", f"for {_begin_of(part.name, _CODE - 4)}"
    what = f"copying from {part.name}" if part.kind == "fetch" else part.name
    return what, f"at {_end_of(part.place, _CODE - 3)}" if part.place else ""


def _thread_rows(rows: Sequence[ThreadStatistics]) -> list[tuple[str, ...]]:
    shown, rest = _cut(rows, _LINES)
    cells: list[tuple[str, ...]] = [
        (_begin_of(row.name, _CODE), *_figures(row.calls, row.total, row.share)) for row in shown
    ]
    if rest:
        calls, total = sum(row.calls for row in rest), sum(row.total for row in rest)
        share = sum(row.share for row in rest)
        cells.append((f"{len(rest)} more", *_figures(calls, total, share)))
    return cells


def _queue_rows(rows: Sequence[QueueStatistics]) -> list[tuple[str, ...]]:
    shown, rest = _cut(rows, _ROWS)
    cells: list[tuple[str, ...]] = []
    last = ""
    for row in shown:
        first, last = row.name != last, row.name
        cells.append(
            (_begin_of(row.name, _NAME) * first, _elements(row) * first, row.operation,
             _begin_of(row.thread, _NAME), str(row.calls), str(row.waits), _time(row.waited),
             f"{row.share:.1%}")
        )  # fmt: skip
    if rest:
        waited, share = sum(row.waited for row in rest), sum(row.share for row in rest)
        calls, waits = sum(row.calls for row in rest), sum(row.waits for row in rest)
        cells.append(
            (f"{len(rest)} more", "", "", "", str(calls), str(waits), _time(waited), f"{share:.1%}")
        )
    return cells


def _elements(row: QueueStatistics) -> str:
    """The mean level: ``12.5 of 64``."""
    if row.mean_depth is None:
        return ""
    return f"{row.mean_depth:.1f}{f' of {row.capacity}' * bool(row.capacity)}"


def _cut(rows: Sequence[_T], most: int) -> tuple[Sequence[_T], Sequence[_T]]:
    """The rows to show, and the others; one alone is shown, too, as it takes no more room."""
    most += len(rows) == most + 1
    return rows[:most], rows[most:]


def _figures(calls: int, total: float, share: float) -> tuple[str, str, str]:
    return str(calls), _time(total), f"{share:.1%}"


def _begin_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"...{text[3 - most :]}"


def _digits(value: float) -> str:
    """A number with three digits, without an exponent."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0:
            return f"{_digits(seconds * factor)} {unit}"
    return f"{_digits(seconds * 1e9)} ns" if seconds else "0"
