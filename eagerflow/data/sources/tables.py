"""Rows of Arrow tables and of Parquet files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractIndexed,
    AbstractSourceStage,
    AbstractStage,
    Rows,
    collected,
)
from eagerflow.data.base.user_calls import OnError, skips
from eagerflow.data.sources.columns import (
    Column,
    arrow,
    columns,
    element,
    form,
    gathered,
    held,
    taken,
)
from eagerflow.data.sources.files import Paths, files
from eagerflow.errors import EagerflowError, RecordError, TensorValueError
from eagerflow.extending import capture

#: bytes of row groups held in memory: a shuffle buffer reads many groups alternately
_HELD: Final = 256 << 20


@final
class TableStage(AbstractSourceStage):
    """The rows of a table in memory."""

    def __init__(self, table: Any) -> None:
        pyarrow = arrow("pyarrow")
        if isinstance(table, pyarrow.RecordBatch):
            table = pyarrow.Table.from_batches([table])
        if hasattr(table, "read_all"):  # a reader of batches
            table = table.read_all()
        if not isinstance(table, pyarrow.Table):
            raise TensorValueError(
                "from_arrow: the argument is not a table",
                given=f"a {type(table).__name__}",
                expected="a pyarrow.Table, RecordBatch or RecordBatchReader",
            )
        self._columns = columns(table)
        self._length: int = table.num_rows

    @property
    def length(self) -> int:
        return self._length

    def element(self, index: int) -> Any:
        return element(self._columns, index)

    def rows(self, rows: Rows) -> Any:
        return taken(self._columns, rows)

    def __str__(self) -> str:
        return f"from_arrow({self.length} rows of {', '.join(self._columns)})"


@final
class ParquetStage(AbstractSourceStage):
    """The rows of Parquet files, a few row groups of which are in memory."""

    def __init__(self, paths: Paths, columns: Sequence[str] | None) -> None:
        self._source = capture()
        self._paths = files("from_parquet", paths, ".parquet")
        self._columns = None if columns is None else list(columns)
        if self._columns == []:
            raise TensorValueError("from_parquet: there is no column", given="columns=[]")
        self._form: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}  # of the first file, for messages
        self._groups: list[tuple[str, int]] = []
        counts = [0]
        for path in self._paths:
            with _opened(path) as file:
                self._check(file.schema_arrow, path)
                for group in range(file.num_row_groups):
                    self._groups.append((path, group))
                    counts.append(file.metadata.row_group(group).num_rows)
        self._bounds = np.cumsum(counts)
        self._cache: OrderedDict[int, Column] = OrderedDict()
        self._held = 0  # bytes
        self._lock = threading.Lock()
        self._reading: dict[int, threading.Lock] = {}  # so that each group is read once

    def _check(self, schema: Any, path: str) -> None:
        """Refuse a file that lacks columns, or whose rows differ in form from other files'."""
        wrong = [name for name in self._columns or [] if name not in schema.names]
        if wrong:
            raise TensorValueError(
                f"from_parquet: {path} has no column {wrong[0]!r}",
                expected=f"some of {', '.join(schema.names)}",
            )
        names = schema.names if self._columns is None else self._columns
        forms = {name: form(name, schema.field(name).type) for name in names}
        kinds = {name: str(schema.field(name).type) for name in names}
        if not self._form:
            self._form, self._kinds = forms, kinds
        if forms == self._form:
            return
        name = next(x for x in [*self._form, *forms] if forms.get(x) != self._form.get(x))
        first = "as before" if path == self._paths[0] else f"as in {self._paths[0]}"
        raise TensorValueError(
            f"from_parquet: column {name!r} of {path} is not {first}",
            given=f"{kinds.get(name, 'none')}; in the first file, {self._kinds.get(name, 'none')}",
            expected="the same columns and dtypes in all files",
            hint="columns=[…] reads those that they share; pyarrow.Table.cast changes dtypes",
        )

    @property
    def length(self) -> int:
        return int(self._bounds[-1])

    def element(self, index: int) -> Any:
        group, start, _ = self.around(index)
        return element(self.group(group), index - start)

    def rows(self, rows: Rows) -> Any:
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
        groups = np.searchsorted(self._bounds, numbers, side="right") - 1
        present = np.unique(groups)
        if len(present) == 1:
            group = int(present[0])
            start = int(self._bounds[group])
            if isinstance(rows, range):
                return taken(self.group(group), range(rows.start - start, rows.stop - start))
            return taken(self.group(group), rows - start)
        parts = []
        for group in present.tolist():
            mine = np.flatnonzero(groups == group)
            parts.append((self.group(group), mine, numbers[mine] - self._bounds[group]))
        return gathered(len(numbers), parts)

    def group(self, group: int) -> Column:
        """The rows of a group."""
        with self._lock:
            reading = self._reading.setdefault(group, threading.Lock())
        with reading:
            with self._lock:
                content = self._cache.get(group)
                if content is not None:
                    self._cache.move_to_end(group)
                    return content
            content = self._read(group)
            with self._lock:
                self._cache[group] = content
                self._held += held(content)
                while self._held > _HELD and len(self._cache) > 1:
                    self._held -= held(self._cache.popitem(last=False)[1])
            return content

    def _read(self, group: int) -> Column:
        path, number = self._groups[group]
        first, stop = self._bounds[group : group + 2].tolist()
        count = stop - first
        try:
            with _opened(path) as file:
                self._check(file.schema_arrow, path)
                table = file.read_row_group(number, columns=list(self._form), use_threads=False)
                if table.num_rows != count:
                    raise TensorValueError(f"{path} has changed since the dataset was made")
            return columns(table)
        except EagerflowError as error:
            error.add_note(f"  in row group {number} of {path}")
            raise
        except (OSError, arrow("pyarrow").ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:  # such as a missing file
                raise
            raise RecordError(
                f"row group {number} of {path}, elements {first} to {stop - 1}, is damaged",
                source=self._source,
                given=f"{error}",
                hint=f'from_parquet(…, on_error="skip") leaves out its {count} rows',
            ) from error

    def around(self, index: int) -> tuple[int, int, int]:
        """The group of a row, and its bounds; StopIteration behind the last row."""
        if index >= self._bounds[-1]:
            raise StopIteration
        group = int(np.searchsorted(self._bounds, index, side="right")) - 1
        return group, int(self._bounds[group]), int(self._bounds[group + 1])

    def __str__(self) -> str:
        more = f", … {len(self._paths)} files" if len(self._paths) > 1 else ""
        return f"from_parquet({self._paths[0]!r}{more})"


def _opened(path: str) -> Any:
    parquet, invalid = arrow("pyarrow.parquet"), arrow("pyarrow").ArrowException
    try:
        return parquet.ParquetFile(path)
    except invalid as error:
        raise RecordError(
            f"from_parquet: {path} is not a Parquet file", given=f"{error}"
        ) from error


@final
class GroupStage(AbstractStage):
    """The rows of Parquet files one after the other, without damaged row groups."""

    def __init__(self, rows: ParquetStage, on_error: OnError) -> None:
        self._rows = rows
        self._on_error = on_error

    @property
    def length(self) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _GroupCursor(self._rows, self._on_error)

    def __str__(self) -> str:
        return str(self._rows)


@final
@dataclass(eq=False, repr=False)
class _GroupCursor(AbstractIndexed):
    """A cursor over row groups, some of which may be damaged."""

    _elements: ParquetStage
    _on_error: OnError

    def _group(self) -> tuple[Column, int, int]:
        """The group of the next readable row, and the bounds of the group."""
        stage = self._elements
        while True:
            group, start, stop = stage.around(self._index)
            try:
                return stage.group(group), start, stop
            except RecordError as error:
                self._index = stop
                if not skips(self._on_error, error, str(stage)):
                    raise

    def next(self) -> Any:
        content, start, _ = self._group()
        self._index += 1
        return element(content, self._index - 1 - start)

    def chunk(self, count: int) -> tuple[Any, int]:
        return collected(count, self._some)

    def _some(self, count: int) -> tuple[Any, int]:
        """The next ``count`` rows, or the rest of the group, stacked; and their number."""
        content, start, stop = self._group()
        rows = range(self._index - start, min(self._index + count, stop) - start)
        made = taken(content, rows)
        self._index += len(rows)
        return made, len(rows)
