"""The board: current rows of all tables, and the changes that each view has not received yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from itertools import islice
from typing import Final, final

from eagerflow.watching.limits import CURVE_POINTS, LOG_ROWS, TABLE_NAMES, TABLE_ROWS
from eagerflow.watching.tables import NUMBERS, TABLES, Row, Schema, encode

_FEWER: Final = {"curve": CURVE_POINTS, "names": TABLE_NAMES + 1}
#: the order of tables in a message, by priority where room is short
_ORDER: Final = (
    "names", "summary", "diagnoses", "executables", "threads", "steps", "places", "trail", "cost",
    "tasks", "queues", "waits", "transfers", "retraces", "curve", "values", "timeline", "pauses",
    "moves", "regions", "nodes", "structures", "panels",
)  # fmt: skip
#: bytes of a message besides its rows, at most
_FRAME: Final = 24 + len(TABLES) * 160


@final
class Board:
    """The current rows of all tables.

    A board is for use by one thread.

    Attributes:
        rows: for tables of kind ``"rows"``, the rows by key.
        lists: for tables of kind ``"list"``, the rows, and the number of changes.
        logs: for tables of kind ``"log"``, the last rows, and the number of all rows ever.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[Row, Row]] = {}
        self.lists: dict[str, tuple[list[Row], int]] = {}
        self.logs: dict[str, tuple[deque[Row], int]] = {}
        for schema in TABLES:
            if schema.kind == "rows":
                self.rows[schema.name] = {}
            elif schema.kind == "list":
                self.lists[schema.name] = [], 0
            else:
                self.logs[schema.name] = deque(maxlen=LOG_ROWS), 0
        self._views: list[Untold] = []
        self._names: dict[str, int] = {}

    def name(self, text: str) -> int:
        """The number of a text, for columns that refer to one."""
        number = self._names.get(text)
        if number is None:
            if len(self._names) >= TABLE_NAMES:
                text = "…"  # stands for all further names
                if text in self._names:
                    return self._names[text]
            number = self._names[text] = len(self._names)
            self.put("names", [(number, text)])
        return number

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Update a table.

        Args:
            table: its name.
            rows: for a table of rows the rows that may have changed, for a list all rows, for a log
                the new rows.
        """
        schema = TABLES[NUMBERS[table]]
        if schema.kind == "list":
            now, (before, changes) = list(rows), self.lists[table]
            if now != before:
                self.lists[table] = now, changes + 1
        elif schema.kind == "log":
            lines, count = self.logs[table]
            new = list(rows)
            lines.extend(new)
            self.logs[table] = lines, count + len(new)
        else:
            self._put_rows(schema, rows)

    def _put_rows(self, schema: Schema, rows: Iterable[Row]) -> None:
        known, most = self.rows[schema.name], _FEWER.get(schema.name, TABLE_ROWS)
        for row in rows:
            key = row[: schema.key]
            if known.get(key) != row:
                known[key] = row
                for view in self._views:
                    view.rows[schema.name][key] = None
                if len(known) > most:
                    del known[next(iter(known))]

    def keep(self, table: str, keys: Container[Row]) -> None:
        """Remove the rows of other keys; views that have received them keep them."""
        known = self.rows[table]
        for key in [key for key in known if key not in keys]:
            del known[key]

    def open(self) -> Untold:
        """Add a view, to which everything is untold."""
        view = Untold(self)
        self._views.append(view)
        return view

    def close(self, view: Untold) -> None:
        """Remove a view."""
        self._views = [v for v in self._views if v is not view]


@final
class Untold:
    """The part of a board that one view has not received yet.

    Args:
        board: the board.

    Attributes:
        rows: for each table of rows the keys of changed rows.
        sequence: the sequence number of the last message.
        dropped: number of rows of logs that were gone before there was room for them.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.rows: dict[str, dict[Row, None]] = {}
        self.sequence = 0
        self.dropped = 0
        self.forget()

    def forget(self) -> None:
        """Mark everything as untold: the view is new, or has missed a message."""
        board = self._board
        self.rows = {name: dict.fromkeys(rows) for name, rows in board.rows.items()}
        self._lists = dict.fromkeys(board.lists, -1)
        self._logs = {name: count - len(lines) for name, (lines, count) in board.logs.items()}
        self._whole = True

    def message(self, now: float, limit: int) -> bytes | None:
        """The next message; None if there are no changes.

        Args:
            now: the time.
            limit: its bytes at most. Rows without room go into the next message.
        """
        tables: dict[str, Sequence[Row]] = {}
        room = limit - _FRAME
        for name in _ORDER:
            schema = TABLES[NUMBERS[name]]
            taken, size = self._take(schema, room)
            if taken is not None:
                tables[name] = taken
                room -= size
        if not tables and not self._whole:
            return None
        self.sequence += 1
        whole, self._whole = self._whole, False
        ordered = {schema.name: tables[schema.name] for schema in TABLES if schema.name in tables}
        return encode(self.sequence, now, ordered, whole=whole)

    def _take(self, schema: Schema, room: int) -> tuple[list[Row] | None, int]:
        """The untold rows of a table that fit, and their bytes; None if there are none."""
        if schema.kind == "rows":
            return self._take_rows(schema, room)
        if schema.kind == "log":
            return self._take_lines(schema, room)
        rows, changes = self._board.lists[schema.name]
        if self._lists[schema.name] == changes:
            return None, 0
        fitting, size = _fitting(schema, rows, room)
        if len(fitting) < len(rows) and not fitting:
            return None, 0
        self._lists[schema.name] = changes
        return fitting, size

    def _take_rows(self, schema: Schema, room: int) -> tuple[list[Row] | None, int]:
        known, keys = self._board.rows[schema.name], self.rows[schema.name]
        taken: list[Row] = []
        size = 0
        for key in list(keys):
            row = known.get(key)
            if row is not None:
                width = schema.width(row)
                if size + width > room:
                    break
                taken.append(row)
                size += width
            del keys[key]
        return taken or None, size

    def _take_lines(self, schema: Schema, room: int) -> tuple[list[Row] | None, int]:
        lines, count = self._board.logs[schema.name]
        first = count - len(lines)
        self.dropped += max(first - self._logs[schema.name], 0)
        begin = max(self._logs[schema.name], first)
        if begin == count:
            return None, 0
        fitting, size = _fitting(schema, list(islice(lines, begin - first, None)), room)
        self._logs[schema.name] = begin + len(fitting)
        return fitting or None, size


def _fitting(schema: Schema, rows: list[Row], room: int) -> tuple[list[Row], int]:
    """The first rows that fit, and their bytes."""
    if schema.fixed:
        count = min(max(room, 0) // schema.fixed, len(rows))
        return rows[:count], count * schema.fixed
    size = 0
    for count, row in enumerate(rows):
        width = schema.width(row)
        if size + width > room:
            return rows[:count], size
        size += width
    return rows, size
