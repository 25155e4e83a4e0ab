"""Source stages of objects in memory: tensors, sequences, iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, final

import numpy as np

import eagerflow as ef
from eagerflow.data.base.elements import as_element, stack, type_of
from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractSourceStage,
    AbstractStage,
    Length,
    Rows,
)
from eagerflow.data.sources.columns import element, taken
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.events import CallEvent, told
from eagerflow.extending import Source, tree


@final
class TensorStage(AbstractSourceStage):
    """The rows of the arrays of a pytree; the same in every epoch."""

    def __init__(self, values: Any) -> None:
        leaves, self._treedef = tree.flatten(values)
        paths = tree.paths(self._treedef)
        self._leaves = [_array(x, path) for x, path in zip(leaves, paths, strict=True)]
        if not leaves:
            raise TensorValueError("from_tensors: there is no tensor", given=repr(values))
        self._length = int(self._leaves[0].shape[0])
        if any(x.shape[0] != self._length for x in self._leaves):
            raise ShapeError(
                "from_tensors: the first sizes differ",
                given=", ".join(
                    f"{path}: {type_of(x)}" for path, x in zip(paths, self._leaves, strict=True)
                ),
                expected="one row per element in each of them",
            )

    @property
    def length(self) -> int:
        return self._length

    def element(self, index: int) -> Any:
        row = [element(x, index) if isinstance(x, np.ndarray) else x[index] for x in self._leaves]
        return tree.unflatten(self._treedef, row)

    def rows(self, rows: Rows) -> Any:
        return tree.unflatten(self._treedef, [_chosen(x, rows) for x in self._leaves])

    def __str__(self) -> str:
        types = [_Text(type_of(x)) for x in self._leaves]
        return f"from_tensors({tree.unflatten(self._treedef, types)})"


@final
class _Text(str):
    """A string whose repr has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _array(value: Any, path: str) -> Any:
    """A tensor, or the NumPy array itself, which may be a memory-mapped file of any size."""
    array = value if isinstance(value, np.ndarray) else None
    try:
        if array is None:
            value = ef.asarray(value)
        else:
            some = array.ndim and not array.dtype.hasobject  # objects are checked one by one
            ef.asarray(array[:0] if some else array)  # raises if there is no such dtype
    except (DTypeError, TensorValueError) as error:
        raise DTypeError(
            f"from_tensors: no array{f' at {path}' if path else ''}",
            given=f"a {type(value).__name__}" if array is None else f"dtype {array.dtype}",
            expected="tensors, or arrays of a dtype that tensors have",
        ) from error
    if not value.shape:
        raise ShapeError(
            f"from_tensors: the number{f' at {path}' if path else ''} has no first axis",
            given=type_of(value),
            expected="at least one axis, along which the elements lie",
            hint="lists are containers of tensors here: make them tensors first",
        )
    return value


def _chosen(x: Any, rows: Rows) -> Any:
    if isinstance(x, np.ndarray):
        return taken(x, rows)
    if isinstance(rows, range):
        return x[rows.start : rows.stop]
    return ef.take(x, ef.asarray(rows, device=x.device), axis=0)


# --- Python objects ---------------------------------------------------------------------------


def iterable_stage(
    source: Iterable[Any] | Callable[[], Iterable[Any]], at: Source | None = None
) -> AbstractStage:
    """The stage for the argument of `Dataset.from_iterable`.

    Args:
        source: the argument.
        at: the line of the call.
    """
    items: Any = source
    if isinstance(source, Sequence) or _has_items(source):
        return SequenceStage(items, at)
    if not (hasattr(source, "__iter__") or hasattr(source, "__getitem__") or callable(source)):
        raise TensorValueError(
            "from_iterable: the argument is not iterable",
            given=f"a {type(source).__name__}: {source!r}",
            expected="an iterable, or a function that gives one",
        )
    return IterableStage(source, at)


def _has_items(source: Any) -> bool:
    """Whether ``source`` has items by number, as data sets of PyTorch and Hugging Face have."""
    if isinstance(source, type) or not (
        hasattr(source, "__len__") and hasattr(source, "__getitem__")
    ):
        return False
    return not hasattr(source, "__iter__") or hasattr(source, "__getitems__")


def _read(read: Callable[[], Any], index: int, stage: SequenceStage | IterableStage) -> Any:
    """The element that ``read`` returns; an error gets a note with its index."""
    try:
        if not CallEvent.listeners:
            return as_element(read())
        with told(CallEvent(name=str(stage), device="cpu:0", source=stage.source)):
            return as_element(read())
    except StopIteration:
        raise
    except Exception as error:
        error.add_note(f"  in element {index} of {stage}")
        raise


@final
class SequenceStage(AbstractSourceStage):
    """The items of a list, or of another object with a length and items by number.

    Attributes:
        source: the user's line.
    """

    def __init__(self, items: Sequence[Any], source: Source | None = None) -> None:
        self._items = items
        self.source = source

    @property
    def length(self) -> int:
        return len(self._items)

    def element(self, index: int) -> Any:
        return _read(lambda: self._items[index], index, self)

    def rows(self, rows: Rows) -> Any:
        return stack([self.element(int(i)) for i in rows])

    def __str__(self) -> str:
        return f"from_iterable({type(self._items).__name__})"


@final
class IterableStage(AbstractStage):
    """The items of an iterable, or of the result of a function that is called for each epoch.

    Attributes:
        source: the user's line.
    """

    def __init__(
        self, items: Iterable[Any] | Callable[[], Iterable[Any]], source: Source | None = None
    ) -> None:
        self._source: Any = items
        self.source = source
        self._read = False
        self.once = hasattr(items, "__next__") and not isinstance(items, type)

    @property
    def length(self) -> Length:
        source = self._source
        return len(source) if hasattr(source, "__len__") and not isinstance(source, type) else None

    def cursor(self, epoch: int) -> AbstractCursor:
        source = self._source
        iterable = hasattr(source, "__iter__") or hasattr(source, "__getitem__")
        if isinstance(source, type) or not iterable:
            return _IterableCursor(iter(source()), self)
        made = iter(source)
        if made is source:
            if self._read:
                raise TensorValueError(
                    f"this {type(source).__name__} gives its elements only once",
                    hint="pass from_iterable the function that makes it, not its result",
                )
            self._read = True
        return _IterableCursor(made, self)

    def __str__(self) -> str:
        name = getattr(self._source, "__name__", None) or type(self._source).__name__
        return f"from_iterable({name})"


@final
class _IterableCursor(AbstractCursor):
    """A cursor over an iterator, which restores a position by reading up to it."""

    def __init__(self, iterator: Iterator[Any], stage: IterableStage) -> None:
        self._iterator = iterator
        self._stage = stage
        self._index = 0

    def next(self) -> Any:
        index = self._index
        self._index = index + 1
        try:
            return _read(lambda: next(self._iterator), index, self._stage)
        except StopIteration:
            self._index = index
            raise

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index}

    def restore(self, state: dict[str, Any]) -> None:
        wanted = state["index"]
        skipped = sum(1 for _ in islice(self._iterator, wanted))
        if skipped < wanted:
            raise TensorValueError(
                f"this position is behind the end of {self._stage}",
                given=f"element {wanted}",
                expected=f"at most {skipped}",
            )
        self._index = wanted
