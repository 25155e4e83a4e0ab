"""Columns of Arrow tables as NumPy arrays; `arrow` is the only place that imports pyarrow.

A *column* is an array with a row for each row of the table; where rows have several sizes, or are
texts, a list of rows; for structs, a dict of columns. A table is such a dict.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

import eagerflow as ef
from eagerflow.data.base.elements import as_element, stack
from eagerflow.data.base.stage import Rows
from eagerflow.errors import DTypeError, SettingError, ShapeError, TensorValueError

Column: TypeAlias = np.ndarray[Any, Any] | list[Any] | dict[str, Any]


#: kinds of Arrow types that are read alike, by the names in ``pyarrow.types``
_KINDS: Final = {
    "number": ("boolean", "integer", "floating"),
    "text": ("string", "large_string", "string_view"),
    "bytes": ("binary", "large_binary", "binary_view", "fixed_size_binary"),
    "list": ("list", "large_list"),
}


def arrow(module: str) -> Any:
    """A module of pyarrow, imported on demand, as it is large."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingError(
            f"{module} is needed for this, and is not installed",
            hint="pip install 'eagerflow[data]'",
        ) from error


# --- types ------------------------------------------------------------------------------------


def form(name: str, kind: Any) -> Any:
    """The form of elements of a column of this Arrow type; equal forms can lie in one batch.

    Raises:
        DTypeError: there is no tensor or text for the type.
    """
    types = arrow("pyarrow").types
    if _is("number", kind):
        return str(kind)
    if _is("text", kind) or _is("bytes", kind):
        return "texts" if _is("text", kind) else "bytes"
    if types.is_dictionary(kind):
        return form(name, kind.value_type)
    if types.is_struct(kind):
        return {field.name: form(f"{name}.{field.name}", field.type) for field in _fields(kind)}
    if _is("list", kind) or types.is_fixed_size_list(kind):
        inner = form(name, kind.value_type)
        if not isinstance(inner, dict):
            return (inner, kind.list_size if types.is_fixed_size_list(kind) else None)
    raise DTypeError(
        f"column {name!r} has a type that tensors and texts cannot hold",
        given=str(kind),
        expected="booleans, numbers, texts, bytes, lists of them, structs of these",
        hint="cast it: table.set_column, column.cast",
    )


def _is(what: str, kind: Any) -> bool:
    """Whether an Arrow type is of the kind ``what``: number, text, bytes or list of any length."""
    types = arrow("pyarrow").types
    return any(getattr(types, f"is_{name}")(kind) for name in _KINDS[what])


def _fields(kind: Any) -> list[Any]:
    return [kind.field(i) for i in range(kind.num_fields)]


# --- from Arrow -------------------------------------------------------------------------------


def columns(table: Any) -> dict[str, Column]:
    """The columns of a table, whose dtypes stay.

    Raises:
        DTypeError: there is no tensor or text for a type.
        ShapeError: lists of lists make no array.
        TensorValueError: a value is missing.
    """
    return {
        name: column(name, values)
        for name, values in zip(table.column_names, table.columns, strict=True)
    }


def column(name: str, values: Any) -> Column:
    """A column, or a part of a column, from Arrow values."""
    kind = values.type
    if values.null_count:
        raise TensorValueError(
            f"column {name!r} has {values.null_count} values that are missing",
            expected="a value in each row",
            hint="fill or drop them: pyarrow.compute.fill_null, Table.drop_null",
        )
    form(name, kind)
    if arrow("pyarrow").types.is_dictionary(kind):
        return column(name, values.cast(kind.value_type))
    if _is("text", kind) or _is("bytes", kind):
        texts: list[Any] = values.to_pylist()
        return texts
    array = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    if _is("number", kind):
        numbers: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=False)
        return numbers
    if arrow("pyarrow").types.is_struct(kind):
        parts = zip(_fields(kind), array.flatten(), strict=True)
        return {field.name: column(f"{name}.{field.name}", part) for field, part in parts}
    return _lists(name, array)


def _lists(name: str, array: Any) -> Column:
    """A column of lists: an array if all have one length, texts as their bytes."""
    inner = column(name, array.flatten())
    if _is("list", array.type):
        bounds = array.offsets.to_numpy() - array.offsets[0].as_py()
    else:
        bounds = np.arange(len(array) + 1) * array.type.list_size
    blank = _blank(array.type)
    if isinstance(inner, list) and blank.ndim == 1:  # of texts
        texts = [x.encode() if isinstance(x, str) else x for x in inner]
        inner = np.array(texts, object)
    if isinstance(inner, np.ndarray) and not _is("list", array.type):
        return inner.reshape(len(array), array.type.list_size, *inner.shape[1:])
    assert not isinstance(inner, dict)  # see `form`
    rows = [inner[start:stop] for start, stop in pairwise(bounds.tolist())]
    return [x if isinstance(x, np.ndarray) else _stacked(name, x, blank) for x in rows]


def _stacked(name: str, row: list[Any], blank: np.ndarray[Any, Any]) -> Any:
    shapes = {x.shape for x in row}
    if len(shapes) > 1:
        raise ShapeError(
            f"column {name!r} has a row whose lists differ in length",
            given=f"{' and '.join(map(str, sorted(shapes)[:2]))}",
            expected="lists that make an array",
            hint="pad them, or flatten them and keep their lengths in another column",
        )
    return np.stack(row) if row else blank


def _blank(kind: Any) -> np.ndarray[Any, Any]:
    """The array for an empty list of this Arrow type."""
    axes = 0
    while hasattr(kind, "value_type"):  # of lists and dictionaries
        axes += not arrow("pyarrow").types.is_dictionary(kind)
        kind = kind.value_type
    return np.empty((0,) * axes, kind.to_pandas_dtype() if _is("number", kind) else object)


# --- elements ---------------------------------------------------------------------------------


def element(content: Column, index: int) -> Any:
    """A row as an element of tensors."""
    if isinstance(content, dict):
        return {name: element(inner, index) for name, inner in content.items()}
    row = content[index]
    return ef.tensor(row) if isinstance(content, np.ndarray) else as_element(row)


def taken(content: Column, rows: Rows, path: tuple[str, ...] = ()) -> Any:
    """Several rows, stacked; ``path`` is for errors."""
    if isinstance(content, dict):
        return {name: taken(inner, rows, (*path, name)) for name, inner in content.items()}
    if isinstance(content, np.ndarray):
        if isinstance(rows, range):
            return ef.tensor(content[rows.start : rows.stop])
        return ef.asarray(content.take(rows, axis=0))
    elements = [as_element(content[int(i)]) for i in rows]
    for name in reversed(path):  # so that errors name the path
        elements = [{name: x} for x in elements]
    made = stack(elements)
    for name in path:
        made = made[name]
    return made


def gathered(count: int, parts: list[tuple[Any, Any, Any]], path: tuple[str, ...] = ()) -> Any:
    """Rows of several tables, stacked.

    Args:
        count: the total number of rows.
        parts: for each table its content, the target positions of its rows, and their indices.
        path: for errors.
    """
    first = parts[0][0]
    if isinstance(first, dict):
        return {
            name: gathered(count, [(table[name], *which) for table, *which in parts], (*path, name))
            for name in first
        }
    if isinstance(first, np.ndarray):
        values = np.empty((count, *first.shape[1:]), first.dtype)
        for table, targets, chosen in parts:
            values[targets] = table[chosen]
        return ef.asarray(values)
    rows = [None] * count
    for table, targets, chosen in parts:
        for target, row in zip(targets.tolist(), chosen.tolist(), strict=True):
            rows[target] = table[row]
    return taken(rows, range(count), path)


def held(content: Column) -> int:
    """The size of a column in bytes, with an estimate for each object."""
    if isinstance(content, dict):
        return sum(held(inner) for inner in content.values())
    if isinstance(content, np.ndarray) and not content.dtype.hasobject:
        return content.nbytes
    return 100 * (content.size if isinstance(content, np.ndarray) else len(content))
