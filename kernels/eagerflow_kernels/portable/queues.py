"""Kernels of queues, accumulators, barriers, mutexes and readers.

An op that may have to wait is written as a function that gives an *attempt* (with
``wait(seconds, finish)`` and, for callers that hold no thread while they wait, ``begin(callback)``
and ``result()``) and what makes arrays of the attempt's value. Its kernel waits; `waiting` has it
for the other callers, which begin it by `begin`. A count that is no attribute is the first array.

What is put in is held for as long as it stays, so memory that may be written from elsewhere, such
as that of a view, is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Final, TypeVar, final

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable

#: makes the arrays that an op gives
Finish = Callable[[Any], tuple[Array, ...]]
_Start = TypeVar("_Start", bound=Callable[..., tuple[Any, Finish]])

#: of each op that may have to wait: ``start(xp, *arrays, **attrs)`` gives the attempt, and what
#: makes arrays of its value
waiting: Final[dict[str, Callable[..., tuple[Any, Finish]]]] = {}


def _waits(name: str) -> Callable[[_Start], _Start]:
    """Register an op that may have to wait; it has attributes more, for the timeout."""

    def register(start: _Start) -> _Start:
        @wraps(start)
        def kernel(
            xp: Any, *arrays: Array, timeout: float | None = None, timed: bool = False, **attrs: Any
        ) -> tuple[Array, ...]:
            if timed:
                attempt, finish, timeout = begin(start, xp, arrays, timed=True, **attrs)
            else:
                attempt, finish = start(xp, *arrays, **attrs)
            made: tuple[Array, ...] = attempt.wait(timeout, finish)
            return made

        waiting[name] = start
        portable(name)(kernel)
        return start

    return register


def begin(
    start: Callable[..., tuple[Any, Finish]], xp: Any, arrays: Sequence[Array],
    timeout: float | None = None, timed: bool = False, **attrs: Any,
) -> tuple[Any, Finish, float | None]:  # fmt: skip
    """The attempt of an op, what makes arrays of its value, and how many seconds it may wait.

    Args:
        start: of the op.
        xp: the array namespace.
        arrays: the inputs.
        timeout: in seconds; None to wait for ever.
        timed: whether the timeout is the last of the inputs instead.
        attrs: the other attributes.
    """
    if not timed:
        return *start(xp, *arrays, **attrs), timeout
    *others, seconds = arrays
    attempt, finish = start(xp, *others, **attrs)
    return attempt, finish, attempt.checked_seconds(seconds.item())


def _number(count: int | None, asked: Sequence[Array]) -> int:
    """How many elements are asked for: an attribute, or an array."""
    return asked[0].item() if count is None else count


def _nothing(value: Any) -> tuple[Array, ...]:
    return ()


def _own(x: Array) -> Array:
    """An array that no other handle writes into."""
    own = getattr(x, "base", x) is None and x.flags.owndata and x.flags.c_contiguous
    return x if own else x.copy()


def _check(types: Sequence[Any], arrays: Sequence[Array], axes: int = 0) -> None:
    """Refuse parts of other shapes, for rules that did not know all sizes."""
    names: dict[str, int] = {}
    for kind, x in zip(types, arrays, strict=True):
        shape = x.shape[axes:]
        if len(shape) != len(kind.shape) or x.shape[:axes] != arrays[0].shape[:axes]:
            raise ValueError("an element has another shape")
        for size, expected in zip(shape, kind.shape, strict=True):
            known = expected if type(expected) is int else names.setdefault(str(expected), size)
            if size != known:
                raise ValueError("an element has another shape")


def _scalar(xp: Any, value: int) -> Array:
    return xp.asarray(value, dtype="bool" if type(value) is bool else "int64")


# --- queues -----------------------------------------------------------------------------------


def _split(arrays: Sequence[Array], resource: Any) -> tuple[Sequence[Array], Any]:
    """The parts of elements, and the priority if there is one."""
    if len(arrays) > len(resource.types):
        return arrays[:-1], arrays[-1]
    return arrays, None


@_waits("queue_enqueue")
def queue_enqueue(xp: Any, *arrays: Array, resource: Any) -> tuple[Any, Finish]:
    """Put in one element; of a priority queue the priority comes last."""
    parts, priority = _split(arrays, resource)
    _check(resource.types, parts)
    element = tuple([_own(x) for x in parts])
    return resource.enqueue(element, 0 if priority is None else int(priority)), _nothing


@_waits("queue_enqueue_many")
def queue_enqueue_many(xp: Any, *arrays: Array, resource: Any) -> tuple[Any, Finish]:
    """Put in elements that lie along the first axis; priorities are one for each, or one."""
    parts, priority = _split(arrays, resource)
    _check(resource.types, parts, 1)
    count = parts[0].shape[0]
    priorities = (0,) if priority is None else priority.reshape(-1).tolist()
    if len(priorities) not in (1, count):
        raise ValueError("there are as many priorities as elements, or one")
    rows = _Rows(parts)
    return resource.enqueue_many(count, rows.element, priorities, rows.keep), _nothing


@final
class _Rows:
    """Elements that lie along the first axis of arrays."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Array]) -> None:
        self._parts = parts

    def element(self, i: int) -> tuple[Array, ...]:
        """One of them."""
        return tuple([x[i, ...].copy() for x in self._parts])  # a view would keep all alive

    def keep(self) -> None:
        """Let later writes into memory that others have, too, change nothing."""
        self._parts = [_own(x) for x in self._parts]


@_waits("queue_dequeue")
def queue_dequeue(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Take one element."""
    return resource.dequeue(), lambda elements: elements[0]


@_waits("queue_dequeue_many")
def queue_dequeue_many(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """Take elements, stacked along a new first axis."""
    return resource.dequeue_many(_number(count, asked)), partial(_stacked, xp, resource.types)


@_waits("queue_dequeue_up_to")
def queue_dequeue_up_to(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """The same; what is left of a closed queue will do."""
    attempt = resource.dequeue_many(_number(count, asked), True)
    return attempt, partial(_stacked, xp, resource.types)


def _stacked(xp: Any, types: Sequence[Any], elements: Sequence[Any]) -> tuple[Array, ...]:
    return tuple([_batch(xp, t, [e[i] for e in elements]) for i, t in enumerate(types)])


def _batch(xp: Any, kind: Any, parts: Sequence[Array]) -> Array:
    """Arrays stacked; smaller ones are filled up at the end of each axis: zeros, empty bytes."""
    if not parts:
        sizes = [size if type(size) is int else 0 for size in kind.shape]
        return blank(xp, (0, *sizes), kind.dtype.dtype)
    shapes = {x.shape for x in parts}
    if len(shapes) == 1:
        return xp.stack(parts)
    largest = tuple([max(sizes) for sizes in zip(*shapes, strict=True)])
    out = blank(xp, (len(parts), *largest), kind.dtype.dtype)
    for i, x in enumerate(parts):
        out[(i, *[slice(size) for size in x.shape])] = x
    return out


@_waits("queue_close")
def queue_close(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Let nothing in any more, after what already waits."""
    return resource.close(), _nothing


@portable("queue_cancel_and_close")
def queue_cancel_and_close(xp: Any, *, resource: Any) -> tuple[Array, ...]:
    """Let nothing in any more, and cancel what waits to get in."""
    resource.cancel_and_close()
    return ()


# --- barriers ---------------------------------------------------------------------------------


@portable("barrier_insert_many")
def barrier_insert_many(
    xp: Any, keys: Array, values: Array, *, resource: Any, component: int
) -> tuple[Array, ...]:
    """Put in one part of several elements."""
    if keys.shape != values.shape[:1]:
        raise ValueError("there are as many keys as values")
    _check(resource.types[component : component + 1], (values,), 1)
    resource.insert_many(component, keys.tolist(), lambda i: values[i, ...].copy())
    return ()


@_waits("barrier_take_many")
def barrier_take_many(
    xp: Any, *asked: Array, resource: Any, count: int | None = None, small: bool = False
) -> tuple[Any, Finish]:
    """Take elements that are ready: the keys, and the parts stacked along a new first axis."""
    types = resource.types

    def finish(elements: Any) -> tuple[Array, ...]:
        names = [key for key, _ in elements]
        keys = xp.asarray(names, dtype=resource.key_dtype.dtype)
        return (keys, *_stacked(xp, types, [parts for _, parts in elements]))

    return resource.take_many(_number(count, asked), small), finish


@portable("barrier_close")
def barrier_close(xp: Any, *, resource: Any, cancel: bool) -> tuple[Array, ...]:
    """Let no new keys in any more; if ``cancel``, nothing."""
    resource.close(cancel)
    return ()


# --- accumulators -----------------------------------------------------------------------------


def _wide(x: Array) -> Array:
    """An array of the dtype that sums are made in: small floats are added in float32."""
    return x.astype("float32") if x.dtype.itemsize <= 2 else x


@portable("accumulator_add")
def accumulator_add(xp: Any, step: Array, *parts: Array, resource: Any) -> Array:
    """Add a value, unless it is of an earlier step; whether it was added."""
    if resource.sparse:
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        for kind, (indices, rows) in zip(resource.types, pairs, strict=True):
            _check_rows(kind, indices, rows)
        value = [_summed(xp, i, _wide(rows), None) for i, rows in pairs]
        added = resource.add(int(step), value, partial(_plus_rows, xp))
    else:
        _check(resource.types, parts)
        value = [_own(_wide(x)) for x in parts]
        added = resource.add(int(step), value, partial(_plus, xp))
    return _scalar(xp, added)


def _plus(xp: Any, a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    return [xp.asarray(xp.add(x, y)) for x, y in zip(a, b, strict=True)]


def _check_rows(kind: Any, indices: Array, rows: Array) -> None:
    size = kind.shape[0]
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
        wrong = int(indices[(indices < 0) | (indices >= size)][0])
        raise IndexError(f"index {wrong} is out of bounds for axis 0 with size {size}")
    if rows.shape != (*indices.shape, *kind.shape[1:]):
        raise ValueError("the rows have another shape")


def _summed(xp: Any, indices: Array, rows: Array, counts: Array | None) -> tuple[Array, ...]:
    """Each row once, in order, and of how many values it is the sum.

    Args:
        xp: the array namespace.
        indices: of the rows.
        rows: their values.
        counts: of how many values each is; if None, they are all of one.
    """
    unique, position = xp.unique(indices, return_inverse=True)
    position = position.reshape(-1)
    out = xp.zeros((len(unique), *rows.shape[1:]), dtype=rows.dtype)
    scatter(xp, "add", out, position, rows)
    if counts is None:
        return unique, out, xp.ones(len(unique), dtype="int64")
    total = xp.zeros(len(unique), dtype="int64")
    scatter(xp, "add", total, position, counts)
    return unique, out, total


def _plus_rows(xp: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    both = zip(a, b, strict=True)
    return [
        _summed(xp, *[xp.concatenate([x, y]) for x, y in zip(one, two, strict=True)])
        for one, two in both
    ]


@_waits("accumulator_take")
def accumulator_take(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """The mean of all values, once there are as many; of rows over the values that have them."""

    def finish(taken: Any) -> tuple[Array, ...]:
        total, number = taken
        if not resource.sparse:
            pairs = zip(total, resource.types, strict=True)
            return tuple([_mean(xp, x, number, kind) for x, kind in pairs])
        means: list[Array] = []
        for (indices, rows, counts), kind in zip(total, resource.types, strict=True):
            each = counts.reshape((-1,) + (1,) * (rows.ndim - 1))
            means += [indices.astype("int64"), _mean(xp, rows, each, kind)]
        return tuple(means)

    return resource.take(_number(count, asked)), finish


def _mean(xp: Any, total: Array, count: Any, kind: Any) -> Array:
    each = xp.asarray(count, dtype=total.dtype)
    return xp.asarray(total / each).astype(kind.dtype.dtype, copy=False)


@portable("accumulator_set_step")
def accumulator_set_step(xp: Any, step: Array, *, resource: Any) -> tuple[Array, ...]:
    """Go on with another step."""
    resource.set_step(int(step))
    return ()


# --- mutexes ----------------------------------------------------------------------------------


@_waits("mutex_acquire")
def mutex_acquire(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Wait until it is free, and hold it; gives the number of the hold."""
    return resource.acquire(), lambda hold: (_scalar(xp, hold),)


@portable("mutex_release")
def mutex_release(xp: Any, hold: Array, *, resource: Any) -> tuple[Array, ...]:
    """Let the next one have it."""
    resource.release(int(hold))
    return ()


# --- readers ----------------------------------------------------------------------------------


@_waits("reader_read")
def reader_read(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """The next record, and its key."""

    def finish(records: Any) -> tuple[Array, ...]:
        return tuple([xp.array(part, object) for part in records[0]])

    return resource.read(), finish


@_waits("reader_read_up_to")
def reader_read_up_to(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """The next records, and their keys; what is left after the last file will do."""

    def finish(records: Any) -> tuple[Array, ...]:
        columns = blank(xp, (2, len(records)), xp.dtype(object))
        for i, record in enumerate(records):
            columns[0, i], columns[1, i] = record
        return columns[0], columns[1]

    return resource.read(_number(count, asked), True), finish


@portable("reader_reset")
def reader_reset(xp: Any, *, resource: Any) -> tuple[Array, ...]:
    """Forget the file that is being read."""
    resource.reset()
    return ()


# --- what resources say of themselves ---------------------------------------------------------


def _answer(ask: Callable[[Any], int], xp: Any, *, resource: Any) -> Array:
    return _scalar(xp, ask(resource))


for _name, _ask in {
    "accumulator_size": lambda accumulator: accumulator.size(),
    "barrier_incomplete_size": lambda barrier: barrier.incomplete_size(),
    "barrier_ready_size": lambda barrier: barrier.ready_size(),
    "queue_closed": lambda queue: bool(queue.closed),
    "queue_size": lambda queue: queue.size(),
    "reader_count": lambda reader: reader.count,
    "reader_skipped": lambda reader: reader.skipped,
}.items():
    portable(_name)(partial(_answer, _ask))
