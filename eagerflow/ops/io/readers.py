"""Readers: resources that read records of files, whose names come from a queue.

With queues between them, runners (`eagerflow.spawn`) of reading, parsing and training are the input
pipeline of Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016, §3.2.
"""

from __future__ import annotations

from operator import index
from typing import Final, final

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import unknown
from eagerflow.errors import DTypeError, ResourceError, TensorValueError
from eagerflow.ops.rules.type_rules import count_type, effect_op, nothing_type
from eagerflow.ops.state.counts_and_timeouts import (
    bind_wait,
    checked_count,
    named,
    timeout_of,
    waiting_op,
)
from eagerflow.ops.state.queue_elements import told
from eagerflow.ops.state.queues import Queue
from eagerflow.resources.reader import (
    AbstractFormat,
    BlockFormat,
    LineFormat,
    ReaderState,
    RecordFormat,
    WholeFormat,
)
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.types import BYTES, Shape, TensorType

# --- ops --------------------------------------------------------------------------------------


def _records(shape: Shape) -> tuple[TensorType, ...]:
    kind = TensorType(BYTES, shape)
    return kind, kind


_read: Final = waiting_op("reader_read", ReaderState, lambda reader: _records(()), reaches="files")
_read_up_to: Final = waiting_op(
    "reader_read_up_to",
    ReaderState,
    lambda reader, count=None: _records(
        (unknown("k", "the number of records left depends on the files"),)
    ),
    counted=True,
    reaches="files",
)
_reset: Final = effect_op("reader_reset", ReaderState, nothing_type, "fence", outputs=None)
_count: Final = effect_op("reader_count", ReaderState, count_type, "fence")
_skipped: Final = effect_op("reader_skipped", ReaderState, count_type, "fence")


# --- readers ----------------------------------------------------------------------------------


class AbstractReader:
    """Base class of readers, which read records of files and take file names from a queue.

    At the end of a file the next name is taken; if there is none yet, reading waits, as taking
    from a queue does. Any number of threads and traced functions may read at once: each record is
    read once. When the queue is closed and all files are read, reading raises QueueClosedError,
    which ends a runner (`eagerflow.spawn`).

    In a traced function reading is a node that waits for all effects before it, and later effects
    wait for it (see `eagerflow.unordered`).
    """

    __slots__ = ("__weakref__", "resource")

    def __init__(
        self, files: Queue, form: AbstractFormat, skip_damaged: bool, name: str | None
    ) -> None:
        state = files.resource
        if len(state.types) != 1 or state.types[0].dtype is not BYTES or state.types[0].shape:
            raise DTypeError(
                f"{type(self).__name__}: the queue is not one of names of files",
                given=repr(files),
                expected='ef.Queue(capacity, "bytes[]")',
            )
        if isinstance(state, ResourceAtTask):
            raise ResourceError(
                f"{type(self).__name__}: the queue of names is at a task",
                given=repr(files),
                expected="a queue of this process, which reads the files",
                hint="take names from that queue and put them into one of this process",
            )
        self.resource = ReaderState(state, form, skip_damaged, name)

    def __repr__(self) -> str:
        state = self.resource
        return f"{type(self).__name__}({named(state)}{state.count} read)"

    @property
    def count(self) -> int:
        """The number of records read; in a traced function a tensor, evaluated at run time."""
        return told(_count, self.resource, self.resource.count)

    @property
    def skipped(self) -> int:
        """The number of damaged records skipped; in a traced function a tensor."""
        return told(_skipped, self.resource, self.resource.skipped)

    def read(self, *, timeout: TensorLike | None = None) -> tuple[Tensor, Tensor]:
        """The key and the bytes of the next record; waits while there is no file.

        Args:
            timeout: maximum number of seconds to wait.

        Returns:
            The key, which names the file and the number of the record, and the record:
            ``bytes[]`` each.

        Raises:
            QueueClosedError: all files are read, and the queue of their names is closed.
            WaitTimeoutError: there was no file within the timeout.
            FileError: a file cannot be read. The next read continues with the next file.
            RecordError: the record is damaged. The next read continues after it.
        """
        state = self.resource
        seconds = timeout_of("read", timeout)
        key, record = bind_wait(_read, [], state.device, seconds, resource=state)
        return key, record

    def read_up_to(
        self, n: TensorLike, *, timeout: TensorLike | None = None
    ) -> tuple[Tensor, Tensor]:
        """The keys and the bytes of the next ``n`` records, or of the remaining ones at the end.

        Args:
            n: number of records.
            timeout: maximum number of seconds to wait. Records read by then are returned later.

        Returns:
            Keys and records, ``bytes[k]`` each.

        Raises:
            QueueClosedError: there is no record left, and the queue of names is closed.
            WaitTimeoutError: there were fewer records within the timeout.
            FileError: a file cannot be read. The next read continues with the next file.
            RecordError: a record is damaged. The next read begins with the records before it.
        """
        state, count = self.resource, checked_count("read_up_to", n)
        seconds = timeout_of("read_up_to", timeout)
        keys, records = bind_wait(_read_up_to, [], state.device, seconds, count, resource=state)
        return keys, records

    def reset(self) -> None:
        """Continue with the next file, as if the current file had ended."""
        bind(_reset, resource=self.resource, device=self.resource.device)


def _not_negative(reader: str, **sizes: int) -> list[int]:
    for name, size in sizes.items():
        if index(size) < 0:
            raise TensorValueError(f"{reader}: {name}={size}", expected="0 or more")
    return [index(size) for size in sizes.values()]


@final
class TextLineReader(AbstractReader):
    r"""A reader of lines of text files, without line ends; see `AbstractReader`.

    Keys are ``file:line``, lines counted from 1.

    Args:
        files: a queue of the names of files, ``bytes[]``.
        skip_lines: number of lines to skip at the beginning of each file.
        name: name for display.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "words.txt")
    ...     ef.io.write_file(path, b"word\nto\nbe\n")
    ...     files = ef.Queue(10, "bytes[]")
    ...     files.enqueue(path.encode())
    ...     files.close()
    ...     reader = ef.io.TextLineReader(files, skip_lines=1)
    ...     key, line = reader.read()
    ...     key.item().endswith(b"words.txt:2"), line
    (True, Tensor(b'to', bytes[]@cpu:0))
    """

    __slots__ = ()

    def __init__(self, files: Queue, *, skip_lines: int = 0, name: str | None = None) -> None:
        (skip,) = _not_negative("TextLineReader", skip_lines=skip_lines)
        super().__init__(files, LineFormat(skip), False, name)


@final
class RecordReader(AbstractReader):
    """A reader of record files, such as TFRecord files; see `AbstractReader`.

    Keys are ``file:number``, records counted from 0. The checksum of each record is verified.
    `eagerflow.data.write_records` writes such files.

    Args:
        files: a queue of the names of files, ``bytes[]``.
        skip_damaged: whether to skip damaged records (`skipped` counts them), instead of raising.
        name: name for display.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "words.records")
    ...     count = ef.data.write_records(path, [b"to", b"be", b"or"])
    ...     files = ef.Queue(10, "bytes[]")
    ...     files.enqueue(path.encode())
    ...     files.close()
    ...     ef.io.RecordReader(files).read_up_to(10)[1]
    Tensor([b'to', b'be', b'or'], bytes[3]@cpu:0)
    """

    __slots__ = ()

    def __init__(
        self, files: Queue, *, skip_damaged: bool = False, name: str | None = None
    ) -> None:
        super().__init__(files, RecordFormat(), bool(skip_damaged), name)


@final
class FixedLengthReader(AbstractReader):
    """A reader of files of records of fixed length; see `AbstractReader`.

    Keys are ``file:number``, records counted from 0. An incomplete record at the end is an error.

    Args:
        files: a queue of the names of files, ``bytes[]``.
        length: length of a record, in bytes.
        header: number of bytes before the records of each file.
        footer: number of bytes after the records of each file.
        skip_damaged: whether to skip an incomplete last record, instead of raising.
        name: name for display.

    Raises:
        TensorValueError: ``length`` is less than 1, or another size is negative.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pairs")
    ...     ef.io.write_file(path, b"##aabbcc")
    ...     files = ef.Queue(10, "bytes[]")
    ...     files.enqueue(path.encode())
    ...     ef.io.FixedLengthReader(files, 2, header=2).read_up_to(3)[1]
    Tensor([b'aa', b'bb', b'cc'], bytes[3]@cpu:0)
    """

    __slots__ = ()

    def __init__(
        self, files: Queue, length: int, *, header: int = 0, footer: int = 0,
        skip_damaged: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        if index(length) < 1:
            raise TensorValueError(f"FixedLengthReader: length={length}", expected="1 or more")
        before, behind = _not_negative("FixedLengthReader", header=header, footer=footer)
        form = BlockFormat(index(length), before, behind)
        super().__init__(files, form, bool(skip_damaged), name)


@final
class WholeFileReader(AbstractReader):
    """A reader of whole files, with their names as keys; see `AbstractReader`.

    Args:
        files: a queue of the names of files, ``bytes[]``.
        name: name for display.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "greeting")
    ...     ef.io.write_file(path, b"hello")
    ...     files = ef.Queue(10, "bytes[]")
    ...     files.enqueue(path.encode())
    ...     ef.io.WholeFileReader(files).read()[1]
    Tensor(b'hello', bytes[]@cpu:0)
    """

    __slots__ = ()

    def __init__(self, files: Queue, *, name: str | None = None) -> None:
        super().__init__(files, WholeFormat(), False, name)
