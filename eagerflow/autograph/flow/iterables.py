"""Sources for a `for` on tensors: rows of tensors, ranges, and zips and enumerations of them.

Other iterables, such as a dict, are left to Python: `autograph/flow/loop_statements.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import index
from typing import Any, Final, final

from eagerflow.autograph.conversion.convert import call, operator
from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.autograph.values.lists import Grown
from eagerflow.core import interpreter
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import Dim, same
from eagerflow.dims.number_stand_ins import asked
from eagerflow.errors import TraceError


class AbstractSource(ABC):
    """A source of one item for each iteration of a loop in the graph.

    Attributes:
        length: the number of items, None if unlimited; a tensor if only the graph knows it.
    """

    length: Any

    @abstractmethod
    def item(self, i: Any) -> Any:
        """The item of iteration ``i``, a number or an int."""

    def rows(self) -> list[Tensor]:
        """The tensors, as long as the source, of which each iteration gets one row."""
        return []

    def pick(self, rows: Iterator[Tensor], i: Any) -> Any:
        """The item of iteration ``i``, given the rows of that iteration."""
        return self.item(i)

    def __iter__(self) -> Any:
        """The items, for a Python loop over them."""
        return (self.item(i) for i in range(self.length))


@final
class _Rows(AbstractSource):
    """The rows of a tensor."""

    def __init__(self, x: Any) -> None:
        self._x = tensor_of(x)
        self.length = self._x.shape[0]

    def item(self, i: Any) -> Any:
        return self._x[i]

    def rows(self) -> list[Tensor]:
        return [self._x]

    def pick(self, rows: Iterator[Tensor], i: Any) -> Any:
        return next(rows)


@final
class _Items(AbstractSource):
    """The items of a list or tuple, or of a variable, each as it is when its iteration begins."""

    def __init__(self, items: Any, length: int | Dim) -> None:
        self._items = items
        self.length = length

    def item(self, i: Any) -> Any:
        return self._items[i]


@final
class _Range(AbstractSource):
    """The numbers ``start``, ``start + step``, …."""

    def __init__(self, start: Any, step: Any, length: Any) -> None:
        self._start = start
        self._step = step
        self.length = length

    def item(self, i: Any) -> Any:
        steps = i if type(self._step) is int and self._step == 1 else i * self._step
        return steps if type(self._start) is int and self._start == 0 else self._start + steps


@final
class _Zip(AbstractSource):
    """Tuples of the items of several sources."""

    def __init__(self, parts: Sequence[AbstractSource]) -> None:
        self._parts = parts
        self.length = _shortest([p.length for p in parts if p.length is not None])

    def item(self, i: Any) -> Any:
        return tuple([part.item(i) for part in self._parts])

    def rows(self) -> list[Tensor]:
        rows = [x for part in self._parts for x in part.rows()]
        return [x if same(x.shape[0], self.length) else x[: self.length] for x in rows]

    def pick(self, rows: Iterator[Tensor], i: Any) -> Any:
        return tuple([part.pick(rows, i) for part in self._parts])


@final
class _Reversed(AbstractSource):
    """The items of another source, in reverse order."""

    def __init__(self, part: AbstractSource) -> None:
        self._part = part
        self.length = part.length

    def item(self, i: Any) -> Any:
        return self._part.item(self.length - 1 - i)

    def rows(self) -> list[Tensor]:
        return [x[::-1] for x in self._part.rows()]

    def pick(self, rows: Iterator[Tensor], i: Any) -> Any:
        return self._part.pick(rows, self.length - 1 - i)


def is_askable(length: Any) -> bool:
    """Whether a length is a symbolic size that Python can ask for, as it depends on no data."""
    return type(length) is Dim and tracer_here().sizes.knows(length)


def _shortest(lengths: Sequence[Any]) -> Any:
    if all(type(n) is int for n in lengths):
        return min(lengths, default=None)
    if len(lengths) == 1 or all(type(n) in (int, Dim) and same(n, lengths[0]) for n in lengths):
        return lengths[0]
    if all(type(n) is int or is_askable(n) for n in lengths):
        return min(asked(tuple(lengths), "zip()"))
    raise TraceError(
        "a loop in a graph iterates over a zip whose shortest part is not known",
        given=f"lengths {', '.join(map(str, lengths))}",
        hint="cut the parts to one length: zip(a[:n], b[:n])",
    )


def as_source(x: Any, *, concrete: bool = False) -> AbstractSource | None:
    """The source for a loop in the graph; None for an iterable that Python iterates over.

    Args:
        x: the iterable.
        concrete: whether it may be a tensor with a value, from outside the trace.
    """
    if isinstance(x, AbstractSource):
        return x
    if type(x) is Grown:
        return _Rows(x.rows)
    if not isinstance(x, AbstractArray) or not interpreter.is_traced() or not x.shape:
        return None
    if type(x) is not Tensor:
        return _Items(x, x.shape[0])
    return _Rows(x) if concrete or isinstance(x._data, AbstractSymbol) else None


def as_range(x: range) -> AbstractSource:
    """The source for a range of Python."""
    return _Range(x.start, x.step, len(x))


@operator
def source(function: Any) -> Callable[..., Any]:
    """`range`, `zip`, `enumerate` or `reversed` in a `for`, also of values of the graph."""
    known = _FUNCTIONS.get(function) if type(function) is type else None
    return known or call(function)


def _range(*args: Any) -> Any:
    if not interpreter.is_traced() or not 1 <= len(args) <= 3:
        return range(*args)
    if not any(map(_is_open, args)):
        known = range(*args)  # with a tensor whose value is known, also a loop of the graph
        return as_range(known) if any(isinstance(x, AbstractArray) for x in args) else known
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    start, stop = (_whole(x) for x in (start, stop))
    if isinstance(step, AbstractArray):
        raise TraceError(
            "a range in a graph needs a step that is known while tracing",
            given=f"range{args}", expected="an int other than 0",
        )  # fmt: skip
    step = index(step)  # a number or a size is static from here on
    if step == 0:
        return range(0, 0, step)  # its error
    span = stop - start if step > 0 else start - stop
    length = (span + abs(step) - 1) // abs(step) if abs(step) != 1 else span
    return _Range(start, step, length)


def _is_open(x: Any) -> bool:
    """Whether only the graph knows a number."""
    if type(x) is Dim:
        return True
    if issubclass(type(x), AbstractNumber):
        return bool(x.varies)
    return isinstance(x, AbstractArray) and isinstance(tensor_of(x)._data, AbstractSymbol)


def _whole(x: Any) -> Any:
    """An end of a range.

    Raises:
        DTypeError: it is not an integer without axes.
    """
    if isinstance(x, AbstractArray):
        x = tensor_of(x)
        x._check_index()
    elif isinstance(x, float):  # also a number of a trace
        raise TypeError("'float' object cannot be interpreted as an integer")
    return x


def _zip(*parts: Iterable[Any], strict: bool = False) -> Any:
    sources = _parts(parts)
    if sources is None:
        return zip(*parts, strict=strict)
    zipped = _Zip(sources)
    if strict and not all(same(part.length, zipped.length) for part in sources):
        return zip(*sources, strict=True)  # its own error comes after the iterations
    return zipped


def _enumerate(items: Iterable[Any], start: Any = 0) -> Any:
    sources = _parts([items])
    return enumerate(items, start) if sources is None else _Zip([_Range(start, 1, None), *sources])


def _reversed(items: Any) -> Any:
    sources = _parts([items])
    return reversed(items) if sources is None else _Reversed(sources[0])


def _parts(items: Sequence[Any]) -> list[AbstractSource] | None:
    """Sources for all iterables, if any of them needs a source; else None."""
    sources = [as_source(x, concrete=True) for x in items]
    if not any(x is not None for x in sources):
        return None
    lengths = [x.length for x in sources if x is not None and x.length is not None]
    most = min(lengths) if lengths and all(type(n) is int for n in lengths) else None
    return [_part(x, most) if y is None else y for x, y in zip(items, sources, strict=True)]


def _part(x: Any, most: int | None) -> AbstractSource:
    """A source for an iterable of Python, of which at most ``most`` items are taken."""
    if isinstance(x, range):
        return as_range(x)
    items = x if isinstance(x, (list, tuple)) else list(islice(x, most))
    return _Items(items, len(items))


_FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    range: _range, zip: _zip, enumerate: _enumerate, reversed: _reversed,
}  # fmt: skip
