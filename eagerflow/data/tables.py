"""Rows of Arrow tables and Parquet files, through pyarrow, which only this module loads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.data.elements import as_element, stack
from eagerflow.data.files import Paths, files
from eagerflow.data.stage import AbstractCursor, AbstractStage, AbstractView, Rows, Threads
from eagerflow.errors import (
    DTypeError,
    EagerflowError,
    RecordError,
    SettingError,
    TensorValueError,
)
from eagerflow.source import capture

__all__ = ["ParquetStage", "TableStage"]

#: bytes of groups of rows that are held: a buffer that shuffles asks for many of them in turn
_HELD: Final = 256 << 20


def _arrow(module: str) -> Any:
    """A module of pyarrow, which is large."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingError(
            f"{module} is needed for this, and is not installed",
            hint="pip install eagerflow[data]",
        ) from error


@final
class _Rows:
    """The columns of a table: arrays where they can be, else lists of Python objects."""

    __slots__ = ("_columns", "length")

    def __init__(self, table: Any) -> None:
        self.length: int = table.num_rows
        self._columns = {
            name: _column(name, column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }

    def element(self, index: int) -> dict[str, Any]:
        return {
            name: ef.tensor(column[index])
            if isinstance(column, np.ndarray)
            else as_element(column[index])
            for name, column in self._columns.items()
        }

    @property
    def nbytes(self) -> int:
        """Of the arrays, and a guess for each object."""
        columns = self._columns.values()
        return sum(x.nbytes if isinstance(x, np.ndarray) else 100 * len(x) for x in columns)

    def rows(self, rows: Rows) -> dict[str, Any]:
        return {name: _chosen(name, column, rows) for name, column in self._columns.items()}


def _chosen(name: str, column: Any, rows: Rows) -> Any:
    if not isinstance(column, np.ndarray):
        found = [{name: as_element(column[int(i)])} for i in rows]  # errors tell the name
        return stack(found)[name]
    if isinstance(rows, range):
        return ef.tensor(column[rows.start : rows.stop])
    return ef.asarray(column.take(rows, axis=0))


def _gathered(count: int, parts: list[tuple[_Rows, Any, Any]]) -> dict[str, Any]:
    """Rows of several tables: of each table, where its rows go, and which they are."""
    made = {}
    for name, first in parts[0][0]._columns.items():
        if isinstance(first, np.ndarray):
            values = np.empty((count, *first.shape[1:]), first.dtype)
            for rows, places, chosen in parts:
                values[places] = rows._columns[name][chosen]
            made[name] = ef.asarray(values)
        else:
            found = [None] * count
            for rows, places, chosen in parts:
                for place, row in zip(places.tolist(), chosen.tolist(), strict=True):
                    found[place] = rows._columns[name][row]
            made[name] = _chosen(name, found, range(count))
    return made


def _column(name: str, column: Any) -> Any:
    """One column: an array of one row per row, a list of arrays, or a list of objects."""
    types = _arrow("pyarrow").types
    if column.null_count:
        raise TensorValueError(
            f"column {name!r} has {column.null_count} values that are missing",
            expected="a value in each row",
            hint="fill or drop them: pyarrow.compute.fill_null, Table.drop_null",
        )
    kind = column.type
    sizes = []
    array = column.combine_chunks()
    while types.is_fixed_size_list(kind):
        sizes.append(kind.list_size)
        array, kind = array.flatten(), kind.value_type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        if array.null_count:
            raise TensorValueError(f"column {name!r} has lists in which values are missing")
        values = array.to_numpy(zero_copy_only=False)
        return values.reshape(len(column), *sizes)
    if types.is_list(kind) or types.is_large_list(kind):
        return [np.asarray(row) for row in column.to_numpy()]
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return column.to_pylist()
    if types.is_large_binary(kind) or types.is_struct(kind):
        return column.to_pylist()
    raise DTypeError(
        f"column {name!r} holds what tensors and texts cannot",
        given=str(column.type),
        expected="booleans, numbers, texts, bytes, lists or structs of them",
        hint="cast it: table.set_column, column.cast",
    )


@final
class TableStage(AbstractStage, AbstractView):
    """The rows of a table in memory."""

    __slots__ = ("_names", "_rows")
    sources = ()
    seed = None

    def __init__(self, table: Any) -> None:
        arrow = _arrow("pyarrow")
        if isinstance(table, arrow.RecordBatch):
            table = arrow.Table.from_batches([table])
        if hasattr(table, "read_all"):  # a reader of batches
            table = table.read_all()
        if not isinstance(table, arrow.Table):
            raise TensorValueError(
                "from_arrow: this is no table",
                given=f"a {type(table).__name__}",
                expected="a pyarrow.Table, RecordBatch or RecordBatchReader",
            )
        self._names = table.column_names
        self._rows = _Rows(table)

    @property
    def length(self) -> int:
        return self._rows.length

    @property
    def workers(self) -> Threads | None:
        return None

    def view(self, epoch: int) -> AbstractView:
        return self

    def cursor(self, epoch: int) -> AbstractCursor:
        raise AssertionError("views have no cursor")

    def element(self, index: int) -> Any:
        return self._rows.element(index)

    def rows(self, rows: Rows) -> Any:
        return self._rows.rows(rows)

    def __str__(self) -> str:
        return f"from_arrow({self.length} rows of {', '.join(self._names)})"


@final
class ParquetStage(AbstractStage, AbstractView):
    """The rows of Parquet files, of which a few groups are in memory."""

    __slots__ = ("_bounds", "_cache", "_columns", "_groups", "_held", "_lock", "_paths", "_source")
    sources = ()
    seed = None

    def __init__(self, paths: Paths, columns: Sequence[str] | None) -> None:
        parquet = _arrow("pyarrow.parquet")
        self._source = capture()
        self._paths = files("from_parquet", paths)
        self._columns = None if columns is None else list(columns)
        self._groups: list[tuple[str, int]] = []
        counts = [0]
        for path in self._paths:
            with self._readable(path), parquet.ParquetFile(path) as file:
                self._check(file, path)
                for group in range(file.num_row_groups):
                    self._groups.append((path, group))
                    counts.append(file.metadata.row_group(group).num_rows)
        self._bounds = np.cumsum(counts)
        self._cache: OrderedDict[int, _Rows] = OrderedDict()
        self._held = 0  # bytes
        self._lock = threading.Lock()

    def _check(self, file: Any, path: str) -> None:
        names = file.schema_arrow.names
        wrong = [name for name in self._columns or [] if name not in names]
        if wrong:
            raise TensorValueError(
                f"from_parquet: {path} has no column {wrong[0]!r}",
                expected=f"some of {', '.join(names)}",
            )

    @property
    def length(self) -> int:
        return int(self._bounds[-1])

    @property
    def workers(self) -> Threads | None:
        return None

    def view(self, epoch: int) -> AbstractView:
        return self

    def cursor(self, epoch: int) -> AbstractCursor:
        raise AssertionError("views have no cursor")

    def element(self, index: int) -> Any:
        group = int(np.searchsorted(self._bounds, index, side="right")) - 1
        return self._group(group).element(index - int(self._bounds[group]))

    def rows(self, rows: Rows) -> Any:
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
        groups = np.searchsorted(self._bounds, numbers, side="right") - 1
        found = np.unique(groups)
        if len(found) == 1:
            group = int(found[0])
            start = int(self._bounds[group])
            if isinstance(rows, range):
                return self._group(group).rows(range(rows.start - start, rows.stop - start))
            return self._group(group).rows(rows - start)
        parts = []
        for group in found.tolist():
            mine = np.flatnonzero(groups == group)
            parts.append((self._group(group), mine, numbers[mine] - self._bounds[group]))
        return _gathered(len(numbers), parts)

    def _group(self, group: int) -> _Rows:
        with self._lock:
            found = self._cache.get(group)
            if found is not None:
                self._cache.move_to_end(group)
                return found
        path, number = self._groups[group]
        first, stop = self._bounds[group : group + 2].tolist()
        which = f"row group {number} of {path}, elements {first} to {stop - 1},"
        with self._readable(which), _arrow("pyarrow.parquet").ParquetFile(path) as file:
            found = _Rows(file.read_row_group(number, columns=self._columns, use_threads=False))
        with self._lock:
            self._cache[group] = found
            self._held += found.nbytes
            while self._held > _HELD and len(self._cache) > 1:
                self._held -= self._cache.popitem(last=False)[1].nbytes
        return found

    @contextmanager
    def _readable(self, which: str) -> Iterator[None]:
        """Say what cannot be read; an error of the system, such as of a disk, stays what it is."""
        try:
            yield
        except (ValueError, OSError) as error:
            if isinstance(error, EagerflowError) or getattr(error, "errno", None) is not None:
                raise
            raise RecordError(
                f"{which} is damaged, or no Parquet",
                given=f"{type(error).__name__}: {error}", source=self._source,
            ) from None  # fmt: skip

    def __str__(self) -> str:
        more = f", … {len(self._paths)} files" if len(self._paths) > 1 else ""
        return f"from_parquet({self._paths[0]!r}{more})"
