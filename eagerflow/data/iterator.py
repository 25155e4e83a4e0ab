"""`DatasetIterator`: one epoch of a dataset as it is read."""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.data.base.stage import AbstractCursor, once, seeds, threaded
from eagerflow.data.workers.open_stage import open_stage
from eagerflow.errors import TensorValueError, TraceError, hide_frames
from eagerflow.extending import QueueState, ending, hint_at, is_traced, to_html, tree

if TYPE_CHECKING:  # datasets make iterators
    from eagerflow.data.dataset import Dataset


@final
class DatasetIterator:
    """One epoch of a `Dataset`, with a position.

    Which epoch that is, is decided when the first element is asked for: an iterator that is never
    read takes none. Until then it is the next epoch of the dataset.

    After an error, iteration goes on behind the element, or the batch, that failed. Threads and
    processes of the pipeline end with the epoch, with `close`, and when the iterator is garbage;
    Ctrl-C ends them, too, and further reading starts them again. Several threads may read one
    iterator: each element goes to one thread, and all threads see the end.

    >>> iterator = iter(ef.data.Dataset.from_tensors(ef.arange(5)).batch(2))
    >>> next(iterator)
    Tensor([0, 1], i64[2]@cpu:0)
    >>> iterator.state
    {'epoch': 0, 'seeds': [], 'position': {'index': 2}}
    """

    __slots__ = (
        "__weakref__", "_begun", "_cursor", "_dataset", "_ended", "_epoch", "_lock", "_opened",
        "_over", "_position", "_reads",
    )  # fmt: skip

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._epoch: int | None = None  # not decided
        self._begun = False  # whether the dataset counts the epoch
        self._opened = dataset._epoch  # the epoch of the cursor
        self._cursor: AbstractCursor | None = open_stage(dataset._stage, self._opened)
        self._position: dict[str, Any] = {}  # where there is no cursor
        self._ended = False
        # taken by readers; not by a thread that closes, which ends the reading. Reentrant, as a
        # signal handler may ask for the state during a read
        self._lock = threading.RLock()
        self._reads = 0  # number of elements requested
        self._over = False  # the program ends in the middle of the epoch
        ending.before(self, DatasetIterator._end_with_program)

    def __iter__(self) -> DatasetIterator:
        return self

    def __next__(self) -> Any:
        if is_traced():
            raise TraceError(
                "a dataset is read while a function is traced",
                given=str(self._dataset),
                expected="a loop over the dataset around the calls of the traced function",
                hint="trace the step: for batch in dataset: step(*batch)",
            )
        number = 0
        before: dict[str, Any] = {}
        try:
            with self._lock:
                if self._ended:
                    raise SystemExit if self._over else StopIteration
                if not self._begun:
                    self._begin()
                cursor = self._cursor or self._reopen()
                before = cursor.state
                self._reads = number = self._reads + 1
                try:  # in this frame: another frame in a traceback would keep the cursor alive
                    return cursor.next()
                except StopIteration:
                    self.close()
                    raise
                except BaseException as error:
                    self._fail(error, before)
                    raise
        except KeyboardInterrupt as error:
            self._take_back(number, before)
            hide_frames(error)
            raise

    def _begin(self) -> None:
        """Decide on the epoch, and count it."""
        dataset = self._dataset
        with dataset._lock:
            if self._epoch is None:
                self._epoch = dataset._epoch
            dataset._epoch = max(dataset._epoch, self._epoch + 1)
        self._begun = True
        if self._opened != self._epoch:  # others have begun since the cursor was opened
            self._leave()

    @property
    def _number(self) -> int:
        """The number of the epoch, as far as it is decided."""
        return self._dataset._epoch if self._epoch is None else self._epoch

    def _take_back(self, number: int, before: dict[str, Any]) -> None:
        """Restore the position before a read whose element was not handed out.

        Ctrl-C may come as late as the release of the lock; the position is restored unless another
        thread reads, or has read since.
        """
        if not number or not self._lock.acquire(blocking=False):
            return
        try:
            unread = number == self._reads and not self._ended
            if unread and not once(self._dataset._stage):
                self._leave(before)
        finally:
            self._lock.release()

    def _fail(self, error: BaseException, before: dict[str, Any]) -> None:
        """Clean up before ``error``, of a read from the position ``before``, is raised."""
        if self._over:
            raise SystemExit from error
        stage = self._dataset._stage
        if isinstance(error, KeyboardInterrupt) and not once(stage):
            self._leave(before)  # part of the next element's input may have been read
        elif not isinstance(error, (Exception, KeyboardInterrupt)) and threaded(stage):
            self._leave()
        hide_frames(error)

    def _reopen(self) -> AbstractCursor:
        self._opened = self._number
        cursor = open_stage(self._dataset._stage, self._opened)
        cursor.restore(self._position)
        self._cursor = cursor
        return cursor

    def _leave(self, position: dict[str, Any] | None = None) -> None:
        """Release the cursor and keep a position, by default that of the cursor."""
        cursor = self._cursor
        if cursor is not None:
            self._position = cursor.state if position is None else position
            self._cursor = None
            cursor.close()

    def close(self) -> None:
        """End the epoch here: threads and processes end, and there is no next element.

        The position stays, so that another iterator, or this one once `state` is set, can go on.

        >>> iterator = iter(ef.data.Dataset.from_tensors(ef.arange(3)).prefetch(2))
        >>> next(iterator).item()
        0
        >>> iterator.close()
        >>> list(iterator), iterator.state["position"]
        ([], {'index': 1})
        """
        self._ended = True
        self._leave()

    def _end_with_program(self) -> None:
        """As `close`, but readers get SystemExit: else their threads would go on after the loop."""
        self._over = not self._ended
        self.close()

    @property
    def dataset(self) -> Dataset:
        """The dataset that it reads."""
        return self._dataset

    @property
    def state(self) -> dict[str, Any]:
        """The position: dicts and lists of plain numbers. Set it to go on from there.

        It does not contain foreign state, such as the state of a generator that a mapped function
        draws from, or the position in a file that it reads.

        >>> iterator = iter(ef.data.Dataset.from_tensors(ef.arange(3)))
        >>> start = iterator.state
        >>> next(iterator).item(), next(iterator).item()
        (0, 1)
        >>> iterator.state = start
        >>> next(iterator).item()
        0
        """
        if self._cursor is None:
            position = self._position
        else:
            with self._lock:  # not in the middle of an element
                cursor = self._cursor
                position = self._position if cursor is None else cursor.state
        return {
            "epoch": self._number,
            "seeds": [seed.value for seed in seeds(self._dataset._stage)],
            "position": position,
        }

    @state.setter
    def state(self, value: dict[str, Any]) -> None:
        state = _checked(value, self.state)
        stage = self._dataset._stage
        own = list(zip(seeds(stage), state["seeds"], strict=True))
        before = [seed.value for seed, _ in own]
        for seed, number in own:
            seed.check(number)
        try:
            for seed, number in own:
                seed.adopt(number)
            cursor = open_stage(stage, state["epoch"])
            begun = cursor.state != state["position"]
            cursor.restore(state["position"])
        except BaseException:
            for (seed, _), number in zip(own, before, strict=True):
                seed.adopt(number)
            raise
        self._leave()  # a waiting reader is cancelled, and releases the lock
        with self._lock:
            self._cursor, self._opened, self._ended = cursor, state["epoch"], False
            self._epoch, self._begun = state["epoch"], begun
        with self._dataset._lock:
            self._dataset._epoch = state["epoch"] + begun

    def __repr__(self) -> str:
        levels = [f"{level.name}: {level}" for level in (q.level() for q in self._queues())]
        return f"<{'; '.join([self._heading(), *levels])}>"

    def _repr_html_(self) -> str:
        return to_html(self._heading(), [queue.level() for queue in self._queues()])

    def _heading(self) -> str:
        return f"iterator of {self._dataset}, epoch {self._number}"

    def _queues(self) -> list[QueueState]:
        return [] if self._cursor is None else self._cursor.queues


def _checked(value: Any, own: dict[str, Any]) -> dict[str, Any]:
    """``value`` in ints, if it has the structure of the position ``own``."""
    wrong = _difference(value, own, "")
    if wrong is not None:
        raise TensorValueError(
            f"this is not a position in this dataset: {wrong}",
            given=repr(value),
            expected=f"numbers like {own}",
            hint="a position is one of a dataset that is built in the same way",
        )
    numbers, treedef = tree.flatten(value)
    checked: dict[str, Any] = tree.unflatten(treedef, [operator.index(x) for x in numbers])
    return checked


def _difference(value: Any, own: Any, where: str) -> str | None:
    """The first difference in structure between two positions, in words; None if there is none."""
    name = where or "it"
    if isinstance(own, dict | list) and type(value) is not type(own):
        return f"{name} is {value!r}"
    if isinstance(own, list):
        if len(value) != len(own):
            return f"the length of {name} is {len(value)}, and here {len(own)}"
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(value, own, strict=True))]
    elif isinstance(own, dict):
        dot = where and f"{where}."
        for key in sorted(value.keys() ^ own.keys(), key=str):
            return f"{dot}{key} is {'missing' if key in own else 'not known here'}"
        pairs = [(f"{dot}{key}", value[key], own[key]) for key in own]
    else:
        return None if _is_count(value) else f"{name} is {value!r}"
    differences = (_difference(a, b, path) for path, a, b in pairs)
    return next((wrong for wrong in differences if wrong is not None), None)


def _is_count(value: Any) -> bool:
    try:
        return operator.index(value) >= 0
    except TypeError:
        return False


#: names of other libraries, whose replacements are in `hints/data.py`
_HINTED: Final = """
    checkpoint get_state load_state load_state_dict position restore save set_state state_dict
"""
hint_at(DatasetIterator, _HINTED.split())
