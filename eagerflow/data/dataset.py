"""`Dataset`: the input pipeline as users build it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

from eagerflow.data.base.checks import (
    buckets_of,
    check_map,
    check_policy,
    check_stage,
    count_of,
    length_of,
    unknown,
)
from eagerflow.data.base.elements import Fill, as_element
from eagerflow.data.base.orders import Seed
from eagerflow.data.base.stage import AbstractStage
from eagerflow.data.base.user_calls import OnError, UserCall
from eagerflow.data.iterator import DatasetIterator
from eagerflow.data.sources.files import LineStage, Paths, RecordStage
from eagerflow.data.sources.memory import TensorStage, iterable_stage
from eagerflow.data.sources.tables import GroupStage, ParquetStage, TableStage
from eagerflow.data.stages.groups import BatchStage, BucketStage, RepeatStage, ZipStage
from eagerflow.data.stages.maps import FilterStage, MapStage
from eagerflow.data.stages.shuffle import ShuffleStage
from eagerflow.data.stages.take_and_skip import SliceStage
from eagerflow.data.workers.background import PrefetchStage
from eagerflow.errors import LengthError, TensorValueError
from eagerflow.extending import capture, hint_at
from eagerflow.hardware import Device, as_device


@final
class Dataset:
    """Elements to be read one after the other, any number of times.

    An element is a pytree of tensors: a tensor, a tuple, a dict, a dataclass. Each method gives a
    new dataset that reads this one; nothing is computed before an iteration. Each iteration
    is one **epoch**. Orders and other random choices are a function of the seed and the number of
    the epoch, and so the same on every machine. An iterator has a position (`DatasetIterator`)
    that can be saved and restored.

    Datasets are made by `from_tensors`, `from_iterable`, `from_arrow`, `from_parquet`,
    `from_lines`, `from_records` and `zip`.

    >>> dataset = ef.data.Dataset.from_tensors({"x": ef.arange(5), "y": ef.arange(5) ** 2})
    >>> for batch in dataset.batch(3):
    ...     print(batch["x"], batch["y"])
    [0 1 2] [0 1 4]
    [3 4] [ 9 16]
    """

    __slots__ = ("__weakref__", "_epoch", "_lock", "_stage")

    def __init__(self, stage: AbstractStage) -> None:
        self._stage = check_stage(stage)
        self._epoch = 0  # of the next iteration
        self._lock = threading.Lock()

    def __init_subclass__(cls, **options: Any) -> None:
        raise TensorValueError(
            f"class {cls.__name__}: Dataset has no subclasses",
            hint=f"leave out the base: an object with __len__ and __getitem__ is a source, "
            f"Dataset.from_iterable({cls.__name__}(...)), and so is one with __iter__",
        )

    # --- sources ------------------------------------------------------------------------------

    @classmethod
    def from_tensors(cls, tensors: object, *more: object) -> Dataset:
        """The rows of tensors: element i has ``x[i]`` for each leaf ``x``.

        NumPy arrays are read where they are, a batch at a time; with ``np.load(file,
        mmap_mode="r")`` they may be larger than memory. ``shuffle`` and ``batch`` right after
        this read whole batches at once.

        Args:
            tensors: a pytree of tensors and arrays whose first sizes are equal.
            more: further ones: ``from_tensors(x, y)`` is ``from_tensors((x, y))``.

        Raises:
            ShapeError: the first sizes differ, or a leaf has no axis.
            DTypeError: a leaf is no array.

        >>> images, labels = ef.zeros((100, 8, 8)), ef.zeros(100, dtype=ef.int64)
        >>> dataset = ef.data.Dataset.from_tensors((images, labels))
        >>> dataset, len(dataset)
        (Dataset.from_tensors((f32[100,8,8]@cpu:0, i64[100]@cpu:0)), 100)
        """
        return cls(TensorStage((tensors, *more) if more else tensors))

    @classmethod
    def from_iterable(cls, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> Dataset:
        """The items of an iterable: arrays and numbers become tensors, other leaves stay.

        Args:
            source: an iterable, or a function that returns one, called for each epoch. A list,
                another sequence, or a map-style data set of PyTorch can be shuffled without reading
                it; a loader is an iterable. An iterator (such as the result of a generator
                function) lasts for one epoch.

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
        return cls(iterable_stage(source, capture(2)))

    @classmethod
    def from_arrow(cls, table: object) -> Dataset:
        """The rows of an Arrow table, each as a dict by column.

        Numbers become tensors of their dtype, without a copy where Arrow and NumPy have the same
        layout; lists of one size become axes, other lists tensors of several lengths (see
        `padded_batch`), lists of texts such tensors of their bytes (UTF-8); structs become dicts,
        dictionary-encoded values are decoded; texts and bytes stay. Tables are read as tensors are
        in `from_tensors`. Needs pyarrow (``eagerflow[data]``).

        Args:
            table: a ``pyarrow.Table``, ``RecordBatch`` or ``RecordBatchReader``; a reader is read
                to its end now.

        Raises:
            TensorValueError: ``table`` is no table, or values are missing.
            DTypeError: there is no tensor for a type.
            ShapeError: lists in the lists of a row differ in length.

        >>> import pyarrow
        >>> table = pyarrow.table({"x": [0.5, 1.5, 2.5], "name": ["a", "b", "c"]})
        >>> next(iter(ef.data.Dataset.from_arrow(table)))
        {'x': Tensor(0.5, f64[]@cpu:0), 'name': 'a'}
        """
        return cls(TableStage(table))

    @classmethod
    def from_parquet(
        cls,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        on_error: OnError = "raise",
    ) -> Dataset:
        """The rows of Parquet files, as `from_arrow` gives them.

        A few row groups are in memory at a time, so files may be larger than memory.
        ``shuffle(buffer_size)`` keeps neighbours together and so reads each group once; without a
        size it needs every group for every batch, for which ``from_arrow(
        pyarrow.parquet.read_table(path))`` is better.

        Args:
            paths: files, a pattern such as ``"train-*.parquet"``, or a folder, whose files
                ``*.parquet`` are read in the order of their names.
            columns: the columns to read; all by default.
            on_error: the policy for damaged row groups, as for `from_records`. Unless it is
                ``"raise"``, the number of rows is not known.

        Raises:
            TensorValueError: a file lacks a column, or columns of two files differ in dtype.
            DTypeError: there is no tensor for a type.
            RecordError: a file is damaged or no Parquet file; iterating raises it for a damaged
                row group.

        >>> import os, tempfile, pyarrow, pyarrow.parquet
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "x.parquet")
        ...     pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3], "y": [4, 5, 6]}), path)
        ...     for batch in ef.data.Dataset.from_parquet(path, columns=["y"]).batch(2):
        ...         print(batch["y"])
        [4 5]
        [6]
        """
        check_policy("from_parquet", on_error)
        stage = ParquetStage(paths, columns)
        return cls(stage if on_error == "raise" else GroupStage(stage, on_error))

    @classmethod
    def from_lines(
        cls,
        paths: Paths,
        *,
        encoding: str = "utf-8",
        on_error: OnError = "raise",
        as_tensors: bool = False,
    ) -> Dataset:
        """The lines of text files, without line ends.

        Args:
            paths: a file, several files, or a pattern such as ``"train-*.txt"``.
            encoding: of the text, one in which a line ends with a byte 10.
            on_error: the policy for lines that are not in this encoding, as for `from_records`.
            as_tensors: whether to give the bytes of lines, as tensors ``bytes[]``.

        Iterating raises RecordError at a line that is not in this encoding.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "numbers.txt")
        ...     with open(path, "w") as file:
        ...         print(1, 2, 3, sep=os.linesep, file=file)
        ...     [x.item() for x in ef.data.Dataset.from_lines(path).map(int)]
        [1, 2, 3]
        """
        check_policy("from_lines", on_error)
        return cls(LineStage(paths, on_error, bool(as_tensors), encoding))

    @classmethod
    def from_records(
        cls, paths: Paths, *, on_error: OnError = "raise", as_tensors: bool = False
    ) -> Dataset:
        """The records of record files (TensorFlow's TFRecord, say), as bytes; see `write_records`.

        Args:
            paths: a file, several files, or a pattern such as ``"train-*.tfrecord"``.
            on_error: the policy for damaged records: ``"raise"`` stops there (reading can go on
                behind it), ``"skip"`` or a function, called with the error, leaves the record out.
            as_tensors: whether to give tensors ``bytes[]``, which can be batched, instead of
                Python's ``bytes``.

        Iterating raises RecordError at a damaged record, whose checksum is not right.
        """
        check_policy("from_records", on_error)
        return cls(RecordStage("from_records", paths, on_error, bool(as_tensors)))

    @classmethod
    def zip(cls, *datasets: Dataset) -> Dataset:
        """Tuples of one element of each dataset, as many as the shortest has.

        Raises:
            TensorValueError: there is no argument, or one is no dataset.

        >>> numbers, letters = ef.data.Dataset.from_tensors(ef.arange(3)), ["a", "b"]
        >>> for pair in ef.data.Dataset.zip(numbers, ef.data.Dataset.from_iterable(letters)):
        ...     print(pair)
        (Tensor(0, i64[]@cpu:0), 'a')
        (Tensor(1, i64[]@cpu:0), 'b')
        """
        for dataset in datasets:
            if not isinstance(dataset, Dataset):
                raise TensorValueError(
                    "zip: an argument is not a dataset", given=f"a {type(dataset).__name__}",
                    hint="Dataset.from_tensors and Dataset.from_iterable make one",
                )  # fmt: skip
        if not datasets:
            raise TensorValueError("zip: there is no dataset")
        return cls(ZipStage(tuple(dataset._stage for dataset in datasets)))

    # --- transformations ----------------------------------------------------------------------

    def map(
        self,
        function: Callable[..., Any],
        *,
        seed: int | None = None,
        workers: int = 0,
        processes: bool = False,
        ordered: bool = True,
        on_error: OnError = "raise",
    ) -> Dataset:
        """The results of ``function`` for each element.

        Args:
            function: takes an element and returns a pytree, whose arrays and numbers become
                tensors. If elements are tuples, it may take their parts instead: if it can take
                those, and not the element as one argument. It may be a traced function, which gets
                tensors also for ``bytes``, to read with `eagerflow.io`.
            seed: if given, ``function`` takes a further argument, a generator for its random
                numbers, which depend on this seed, the epoch and the number of the element only.
            workers: the number of threads that call it, ahead of the reader; 0 for the reader's
                own thread. Workers are outside of scopes such as ``ef.device`` of this thread.
            processes: whether the workers are processes, which do not share one interpreter lock.
                They get a copy of the function and of all that it reads, the elements as bytes.
            ordered: False to hand out elements as they are ready, in any order.
            on_error: the policy for elements for which ``function`` raises: ``"raise"`` stops there
                (reading can go on behind it), ``"skip"`` or a function, called with the exception,
                leaves the element out.

        Iterating raises WorkerError if a process ends before its work is done, SettingError if
        the function cannot be sent to a process.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(4)).batch(2)
        >>> [x.tolist() for x in dataset.map(lambda x: x * 10, workers=2)]
        [[0, 10], [20, 30]]
        >>> noisy = dataset.map(lambda x, draws: x + draws.normal(x.shape), seed=0)
        >>> [x.dtype for x in noisy]
        [float32, float32]
        >>> numbers = ef.data.Dataset.from_iterable(["1", "two", "3"])
        >>> [x.item() for x in numbers.map(int, on_error="skip")]
        [1, 3]
        """
        threads = count_of("map", "workers", workers, 0, "threads or processes")
        check_map(threads, processes, on_error)
        given = None if seed is None else Seed(seed)
        call = UserCall("map", function, as_element, capture(2), int(seed is not None))
        in_order = bool(ordered) or not threads
        return Dataset(
            MapStage(self._stage, call, given, threads, bool(processes), in_order, on_error)
        )

    def filter(self, function: Callable[[Any], Any]) -> Dataset:
        """The elements for which ``function`` is true.

        Args:
            function: takes an element, or the parts of a tuple as in `map`, returns a truth value.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(6))
        >>> [x.item() for x in dataset.filter(lambda x: x % 2 == 0)]
        [0, 2, 4]
        """
        return Dataset(FilterStage(self._stage, UserCall("filter", function, bool, capture(2))))

    def shuffle(
        self, buffer_size: int | None = None, *, seed: int | None = None, reshuffle: bool = True
    ) -> Dataset:
        """The elements in random order, a new one in each epoch.

        Args:
            buffer_size: if given, each element is chosen among the next ``buffer_size``, which are
                held in memory; else among all that are left. For elements of tensors or sequences
                (through take, skip, map and zip, too) only the order is held.
            seed: 0 to 2**64 - 1; drawn from the generator of ``ef.random`` if not given.
            reshuffle: False for the same order in each epoch.

        Raises:
            LengthError: the length is not known, and no ``buffer_size`` is given.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(5)).shuffle(seed=3)
        >>> [x.item() for x in dataset], [x.item() for x in dataset]
        ([0, 2, 4, 3, 1], [4, 1, 2, 3, 0])
        """
        if buffer_size is None and self._stage.length in (None, math.inf):
            raise LengthError(
                f"shuffle: {unknown(self._stage.length)}, so not all of it can be shuffled",
                expected="a buffer_size",
            )
        size = None if buffer_size is None else count_of("shuffle", "buffer_size", buffer_size, 1)
        return Dataset(ShuffleStage(self._stage, size, bool(reshuffle), Seed(seed)))

    def batch(self, count: int, *, drop_last: bool = False) -> Dataset:
        """Batches of ``count`` elements, stacked along a new first axis.

        Args:
            count: the number of elements of a batch.
            drop_last: whether to leave out the last batch if it is smaller.

        Iterating raises ShapeError or DTypeError if elements of a batch differ in shape or dtype.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(5))
        >>> [x.tolist() for x in dataset.batch(2)]
        [[0, 1], [2, 3], [4]]
        >>> [x.tolist() for x in dataset.batch(2, drop_last=True)]
        [[0, 1], [2, 3]]
        """
        size = count_of("batch", "count", count, 1)
        return Dataset(BatchStage(self._stage, size, bool(drop_last), source=capture(2)))

    def padded_batch(self, count: int, *, value: object = 0, drop_last: bool = False) -> Dataset:
        """As `batch`, for tensors of several sizes: each axis has the largest of their sizes.

        Args:
            count: the number of elements of a batch.
            value: the padding.
            drop_last: whether to leave out the last batch if it is smaller.

        >>> rows = ef.data.Dataset.from_iterable([[1.0], [2.0, 3.0], [4.0]])
        >>> for batch in rows.map(ef.tensor).padded_batch(2):
        ...     print(batch.tolist())
        [[1.0, 0.0], [2.0, 3.0]]
        [[4.0]]
        """
        size = count_of("padded_batch", "count", count, 1)
        padded = Fill(value, "padded_batch")
        return Dataset(BatchStage(self._stage, size, bool(drop_last), padded, capture(2)))

    def bucket_by_length(
        self,
        length: Callable[[Any], int],
        bounds: Sequence[int],
        count: int | Sequence[int],
        *,
        value: object = 0,
        drop_last: bool = False,
    ) -> Dataset:
        """Padded batches of elements of similar length, so that little is padded.

        An element waits until its bucket has enough elements; the remaining ones come at the end by
        bucket, shorter ones first.

        Args:
            length: takes an element, returns its length.
            bounds: between the buckets, ascending: the first holds lengths below ``bounds[0]``.
            count: of elements of a batch, or one for each bucket (one more than bounds).
            value: as for `padded_batch`.
            drop_last: whether to leave out batches that are smaller.

        >>> words = ef.data.Dataset.from_iterable(["a", "sentence", "is", "remarkable"])
        >>> codes = words.map(lambda word: ef.tensor(list(word.encode()), dtype="uint8"))
        >>> [x.shape for x in codes.bucket_by_length(len, [5], 2)]
        [(2, 2), (2, 10)]
        """
        edges, sizes = buckets_of(bounds, count)
        call = UserCall("bucket_by_length", length, length_of, capture(2))
        padded = Fill(value, "bucket_by_length")
        return Dataset(BucketStage(self._stage, call, edges, sizes, padded, bool(drop_last)))

    def repeat(self, count: int | None = None) -> Dataset:
        """The elements ``count`` times over, or for ever; random choices differ each time.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(2))
        >>> [x.item() for x in dataset.repeat(2)], [x.item() for x in dataset.repeat().take(3)]
        ([0, 1, 0, 1], [0, 1, 0])
        """
        times = None if count is None else count_of("repeat", "count", count, 0, "times")
        return Dataset(RepeatStage(self._stage, times))

    def take(self, count: int) -> Dataset:
        """The first ``count`` elements, or all if there are fewer.

        >>> [x.item() for x in ef.data.Dataset.from_tensors(ef.arange(5)).take(2)]
        [0, 1]
        """
        return Dataset(SliceStage(self._stage, 0, count_of("take", "count", count, 0)))

    def skip(self, count: int) -> Dataset:
        """All but the first ``count`` elements.

        >>> [x.item() for x in ef.data.Dataset.from_tensors(ef.arange(5)).skip(2)]
        [2, 3, 4]
        """
        return Dataset(SliceStage(self._stage, count_of("skip", "count", count, 0), math.inf))

    def prefetch(self, count: int = 2, *, device: Device | str | None = None) -> Dataset:
        """The same elements, made by a thread while those before them are used.

        Args:
            count: the greatest number of elements held.
            device: the device that the thread moves their tensors to; None leaves them in place.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(5)).batch(2).prefetch(2)
        >>> [x.tolist() for x in dataset]
        [[0, 1], [2, 3], [4]]
        """
        held = count_of("prefetch", "count", count, 1)
        name = None if device is None else str(as_device(device))
        return Dataset(PrefetchStage(self._stage, held, name))

    # --- reading ------------------------------------------------------------------------------

    def __iter__(self) -> DatasetIterator:
        return self.iterator()

    def iterator(self, state: dict[str, Any] | None = None) -> DatasetIterator:
        """The next epoch, or an epoch that goes on where another iterator stood.

        Args:
            state: a position: `DatasetIterator.state` of an iterator of this dataset, or of a
                dataset that was built in the same way, maybe in another process. The next iteration
                is the epoch after it; of a position at the start of an epoch, once it is read.

        Raises:
            TensorValueError: ``state`` is not the position of such an iterator.

        >>> dataset = ef.data.Dataset.from_tensors(ef.arange(6)).shuffle(seed=0).batch(2)
        >>> iterator = iter(dataset)
        >>> first = next(iterator)
        >>> state = iterator.state
        >>> rest = list(iterator)
        >>> again = list(dataset.iterator(state))
        >>> [x.tolist() for x in rest] == [x.tolist() for x in again]
        True
        """
        made = DatasetIterator(self)
        if state is not None:
            made.state = state
        return made

    def __len__(self) -> int:
        length = self._stage.length
        if length is None or length == math.inf:
            raise LengthError(unknown(length), hint="take(n) reads the first n elements at most")
        return int(length)

    def __bool__(self) -> bool:
        return True  # whatever its length, which may be unknown

    def __repr__(self) -> str:
        return f"Dataset.{self._stage}"


#: names of other frameworks, whose replacements are in `hints/data.py`
_HINTED: Final = """
    apply as_numpy_iterator cache cardinality checkpoint concatenate dataset enumerate flat_map
    from_generator from_list from_tensor_slices get_single_element get_state list_files
    load_state load_state_dict position random_split range reduce restore save set_state split
    state state_dict unbatch
"""
hint_at(Dataset, _HINTED.split())
