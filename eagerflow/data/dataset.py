"""`Dataset`: a pipeline as users build it, and the iterator that reads it."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterable
from typing import Any, final

from eagerflow.core import tree
from eagerflow.core.interpreter import is_traced
from eagerflow.data.calls import FilterStage, MapStage
from eagerflow.data.choices import ShuffleStage, SliceStage
from eagerflow.data.groups import BatchStage, RepeatStage, ZipStage
from eagerflow.data.orders import Seed
from eagerflow.data.sources import TensorStage, iterable_stage
from eagerflow.data.stage import AbstractStage, open_stage, seeds
from eagerflow.errors import LengthError, TensorValueError, TraceError, hide_frames
from eagerflow.source import capture

__all__ = ["Dataset", "DatasetIterator"]


@final
class Dataset:
    """Elements to be read one after the other, as often as wanted.

    An element is a pytree of tensors: a tensor, a tuple, a dict, a dataclass. Each method gives a
    new dataset that reads this one; nothing is computed before somebody iterates. Each iteration
    is one **epoch**. Orders and other random choices are a function of the seed and the number of
    the epoch, and so the same on every machine. An iterator has a position (`DatasetIterator`)
    that can be saved and restored.

    Datasets are made by `from_tensors`, `from_iterable` and `zip`.

    >>> dataset = ef.data.Dataset.from_tensors({"x": ef.arange(5), "y": ef.arange(5) ** 2})
    >>> for batch in dataset.batch(3):
    ...     print(batch["x"], batch["y"])
    [0 1 2] [0 1 4]
    [3 4] [ 9 16]
    """

    __slots__ = ("__weakref__", "_epoch", "_lock", "_stage")

    def __init__(self, stage: AbstractStage) -> None:
        self._stage = stage
        self._epoch = 0  # of the next iteration
        self._lock = threading.Lock()

    # --- sources ------------------------------------------------------------------------------

    @classmethod
    def from_tensors(cls, tensors: Any) -> Dataset:
        """The rows of tensors: element i has ``x[i]`` for each leaf ``x``.

        NumPy arrays are read where they are, a batch at a time; with ``np.load(file,
        mmap_mode="r")`` they may be larger than memory. ``shuffle`` and ``batch`` right after
        this read whole batches at once.

        Args:
            tensors: a pytree of tensors and arrays whose first sizes are equal.

        Raises:
            ShapeError: the first sizes differ, or a leaf has no axis.
            DTypeError: a leaf is no array.

        >>> images, labels = ef.zeros((100, 8, 8)), ef.zeros(100, dtype=ef.int64)
        >>> dataset = ef.data.Dataset.from_tensors((images, labels))
        >>> dataset, len(dataset)
        (Dataset.from_tensors((f32[100,8,8]@cpu:0, i64[100]@cpu:0)), 100)
        """
        return cls(TensorStage(tensors))

    @classmethod
    def from_iterable(cls, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> Dataset:
        """What an iterable gives: arrays and numbers become tensors, other leaves stay.

        Args:
            source: an iterable, or a function that gives one, called for each epoch. A list or
                another sequence can be shuffled without reading it. An iterator (such as what a
                generator function returns) lasts for one epoch.

        Raises:
            TensorValueError: ``source`` is neither.

        >>> def squares():
        ...     for i in range(3):
        ...         yield {"i": i, "square": i * i}
        >>> for element in ef.data.Dataset.from_iterable(squares):
        ...     print(element["square"])
        0
        1
        4
        """
        return cls(iterable_stage(source))

    @classmethod
    def zip(cls, *datasets: Dataset) -> Dataset:
        """Tuples of one element of each dataset, as many as the shortest has.

        Raises:
            TensorValueError: there is none, or one is no dataset.

        >>> numbers, letters = ef.data.Dataset.from_tensors(ef.arange(3)), ["a", "b"]
        >>> for pair in ef.data.Dataset.zip(numbers, ef.data.Dataset.from_iterable(letters)):
        ...     print(pair)
        (Tensor(0, i64[]@cpu:0), 'a')
        (Tensor(1, i64[]@cpu:0), 'b')
        """
        for dataset in datasets:
            if not isinstance(dataset, Dataset):
                raise TensorValueError(
                    "zip: this is no dataset", given=f"a {type(dataset).__name__}",
                    hint="Dataset.from_tensors and Dataset.from_iterable make one",
                )  # fmt: skip
        if not datasets:
            raise TensorValueError("zip: there is no dataset")
        return cls(ZipStage(tuple(dataset._stage for dataset in datasets)))

    # --- what is done with the elements -------------------------------------------------------

    def map(self, function: Callable[..., Any], *, seed: int | None = None) -> Dataset:
        """``function`` of each element.

        Args:
            function: takes an element (one argument, also where that is a tuple) and gives a
                pytree, whose arrays and numbers become tensors. It may be a traced function.
            seed: if given, ``function`` takes a second argument, a generator for its random
                numbers, which depend on this seed, the epoch and the number of the element only.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(4)).batch(2)
        >>> [x.tolist() for x in dataset.map(lambda x: x * 10)]
        [[0, 10], [20, 30]]
        >>> noisy = dataset.map(lambda x, draws: x + draws.normal(x.shape), seed=0)
        >>> [x.dtype for x in noisy]
        [float32, float32]
        """
        given = None if seed is None else Seed(seed)
        return Dataset(MapStage(self._stage, function, given, capture(2)))

    def filter(self, function: Callable[[Any], Any]) -> Dataset:
        """The elements of which ``function`` is true.

        Args:
            function: takes an element, gives a truth value.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(6))
        >>> [x.item() for x in dataset.filter(lambda x: x % 2 == 0)]
        [0, 2, 4]
        """
        return Dataset(FilterStage(self._stage, function, capture(2)))

    def shuffle(
        self, buffer_size: int | None = None, *, seed: int | None = None, reshuffle: bool = True
    ) -> Dataset:
        """The elements in random order, a new one in each epoch.

        Args:
            buffer_size: if given, each element is chosen among the next ``buffer_size``, which are
                held in memory; else among all that are left. What comes from tensors or sequences
                (by take, skip, map and zip, too) is not held, only its order is.
            seed: 0 to 2**64 - 1; drawn from the generator of ``ef.random`` if not given.
            reshuffle: False for the same order in each epoch.

        Raises:
            LengthError: the length is not known, and no ``buffer_size`` given.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(5)).shuffle(seed=3)
        >>> [x.item() for x in dataset], [x.item() for x in dataset]
        ([0, 2, 4, 3, 1], [4, 1, 2, 3, 0])
        """
        if buffer_size is None and self._stage.length in (None, math.inf):
            raise LengthError(
                f"shuffle: {_unknown(self._stage.length)}, so not all of it can be shuffled",
                expected="a buffer_size",
            )
        size = None if buffer_size is None else _count("shuffle", "buffer_size", buffer_size, 1)
        return Dataset(ShuffleStage(self._stage, size, Seed(seed), bool(reshuffle)))

    def batch(self, count: int, *, drop_last: bool = False) -> Dataset:
        """``count`` elements at a time, stacked along a new first axis.

        Args:
            count: of elements.
            drop_last: whether to leave out the last batch if it is smaller.

        Iterating raises ShapeError or DTypeError if elements of a batch differ in them.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(5))
        >>> [x.tolist() for x in dataset.batch(2)]
        [[0, 1], [2, 3], [4]]
        >>> [x.tolist() for x in dataset.batch(2, drop_last=True)]
        [[0, 1], [2, 3]]
        """
        return Dataset(BatchStage(self._stage, _count("batch", "count", count, 1), bool(drop_last)))

    def repeat(self, count: int | None = None) -> Dataset:
        """The elements ``count`` times over, or for ever; what is random differs each time.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(2))
        >>> [x.item() for x in dataset.repeat(2)], [x.item() for x in dataset.repeat().take(3)]
        ([0, 1, 0, 1], [0, 1, 0])
        """
        times = None if count is None else _count("repeat", "count", count, 0)
        return Dataset(RepeatStage(self._stage, times))

    def take(self, count: int) -> Dataset:
        """The first ``count`` elements, or all if there are fewer.

        >>> [x.item() for x in ef.data.Dataset.from_tensors(ef.arange(5)).take(2)]
        [0, 1]
        """
        return Dataset(SliceStage(self._stage, 0, _count("take", "count", count, 0)))

    def skip(self, count: int) -> Dataset:
        """All but the first ``count`` elements.

        >>> [x.item() for x in ef.data.Dataset.from_tensors(ef.arange(5)).skip(2)]
        [2, 3, 4]
        """
        return Dataset(SliceStage(self._stage, _count("skip", "count", count, 0), math.inf))

    # --- reading ------------------------------------------------------------------------------

    def __iter__(self) -> DatasetIterator:
        return self.iterator()

    def iterator(self, state: dict[str, Any] | None = None) -> DatasetIterator:
        """The next epoch, or one that goes on where another iterator stood.

        Args:
            state: a position: `DatasetIterator.state` of an iterator of this dataset, or of one
                that was built in the same way, in another process maybe. The next iteration is
                the epoch after it.

        Raises:
            TensorValueError: it is not the position of such an iterator.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(6)).shuffle(seed=0).batch(2)
        >>> iterator = iter(dataset)
        >>> first = next(iterator)
        >>> state = iterator.state
        >>> rest = list(iterator)
        >>> again = list(dataset.iterator(state))
        >>> [x.tolist() for x in rest] == [x.tolist() for x in again]
        True
        """
        if state is not None:
            made = DatasetIterator(self, 0)
            made.state = state
            return made
        with self._lock:
            epoch = self._epoch
            self._epoch += 1
        return DatasetIterator(self, epoch)

    def __len__(self) -> int:
        length = self._stage.length
        if length is None or length == math.inf:
            raise LengthError(_unknown(length), hint="take(n) reads the first n elements at most")
        return int(length)

    def __bool__(self) -> bool:
        return True  # whatever its length, which may be unknown

    def __repr__(self) -> str:
        return f"Dataset.{self._stage}"


@final
class DatasetIterator:
    """One epoch of a `Dataset`, with a position.

    After an error, iteration goes on behind the element, or the batch, that failed.

    >>> iterator = iter(ef.data.Dataset.from_tensors(ef.arange(5)).batch(2))
    >>> next(iterator)
    Tensor([0, 1], i64[2]@cpu:0)
    >>> iterator.state
    {'epoch': 0, 'seeds': [], 'position': {'index': 2}}
    """

    __slots__ = ("__weakref__", "_cursor", "_dataset", "_ended", "_epoch")

    def __init__(self, dataset: Dataset, epoch: int) -> None:
        self._dataset = dataset
        self._epoch = epoch
        self._cursor = open_stage(dataset._stage, epoch)
        self._ended = False

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
        if self._ended:
            raise StopIteration
        try:
            return self._cursor.next()
        except StopIteration:
            self._ended = True
            raise
        except BaseException as error:
            hide_frames(error)
            raise

    @property
    def state(self) -> dict[str, Any]:
        """The position: dicts and lists of plain numbers. Set it to go on from there.

        It does not contain what belongs to others, such as the state of a generator that a mapped
        function draws from, or how far somebody has read in a file.

        >>> iterator = iter(ef.data.Dataset.from_tensors(ef.arange(3)))
        >>> start = iterator.state
        >>> next(iterator).item(), next(iterator).item()
        (0, 1)
        >>> iterator.state = start
        >>> next(iterator).item()
        0
        """
        return {
            "epoch": self._epoch,
            "seeds": [seed.value for seed in seeds(self._dataset._stage)],
            "position": self._cursor.state,
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
            cursor.restore(state["position"])
        except BaseException:
            for (seed, _), number in zip(own, before, strict=True):
                seed.adopt(number)
            raise
        self._cursor, self._epoch, self._ended = cursor, state["epoch"], False
        with self._dataset._lock:
            self._dataset._epoch = state["epoch"] + 1

    def __repr__(self) -> str:
        return f"<iterator of {self._dataset}, epoch {self._epoch}>"


def _unknown(length: float | None) -> str:
    if length is None:
        return "nobody knows the length of this dataset before its end"
    return "this dataset is endless"


def _count(method: str, name: str, value: int, least: int) -> int:
    """``value`` as a number of elements."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < least:
        raise TensorValueError(
            f"{method}: {name} is no number of elements",
            given=repr(value),
            expected=f"an integer, at least {least}",
        )
    return found


def _checked(value: Any, own: dict[str, Any]) -> dict[str, Any]:
    """``value`` in ints, if it looks like the position of such a dataset."""
    found, treedef = tree.flatten(value)
    expected = tree.flatten(own)[1]
    try:
        numbers = [operator.index(x) for x in found]
    except TypeError:
        numbers = [-1]
    if treedef != expected or any(x < 0 for x in numbers):
        raise TensorValueError(
            "this is not a position in this dataset",
            given=repr(value),
            expected=f"numbers like {own}",
        )
    checked: dict[str, Any] = tree.unflatten(treedef, numbers)
    return checked
