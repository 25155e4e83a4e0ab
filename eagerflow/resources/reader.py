"""The state of a reader, which reads the records of files whose names come from a queue.

Reading is an attempt like those of queues. The first waiting attempt reads as long as there are
records; at the end of a file, the reader takes the next name from its queue, and callers wait until
it has come. A reader without waiters does not wait in the queue of names.

As in queues (`eagerflow.resources.waiting_operations`), Ctrl-C may come between any two calls. So
a record counts as read once plain statements have noted it and the offset behind it; if Ctrl-C
comes before, the file is read again from the noted offset.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import IO, final
from weakref import finalize

from eagerflow.errors import (
    CancelledError,
    FileError,
    QueueClosedError,
    RecordError,
    RunnerFailedError,
)
from eagerflow.events import AbstractEvent, ElementEvent, SkipEvent, end
from eagerflow.hardware import Device
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.requests import check_count
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow_kernels.records import read_record

#: a key and the bytes of a record
Record = tuple[bytes, bytes]


class AbstractFormat(ABC):
    """The format of the records of a file."""

    __slots__ = ()

    #: the word for a record
    what: str = "record"
    #: the number of the first record
    first: int = 0

    @abstractmethod
    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        """The record at ``offset``, the position of the file, and its defect in words, if any.

        Raises:
            EOFError: there is no record.
        """

    def key(self, path: str, number: int) -> bytes:
        """The record key."""
        return os.fsencode(f"{path}:{number}")


@final
class LineFormat(AbstractFormat):
    """The lines of text files, without line ends.

    Args:
        skip: the number of lines to leave out at the beginning of each file.
    """

    __slots__ = ("_skip", "first")
    what = "line"

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self.first = skip + 1

    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        for _ in range(0 if offset else self._skip):
            file.readline()
        line = file.readline()
        if not line:
            raise EOFError
        return line.removesuffix(b"\n").removesuffix(b"\r"), None


@final
class RecordFormat(AbstractFormat):
    """The records of TensorFlow's record files."""

    __slots__ = ()

    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        return read_record(file)


@final
class BlockFormat(AbstractFormat):
    """Records of one length, between a header and a footer.

    Args:
        length: of a record, in bytes.
        header: bytes at the beginning of each file that are no record.
        footer: bytes at its end.
    """

    __slots__ = ("_footer", "_header", "_length")

    def __init__(self, length: int, header: int, footer: int) -> None:
        self._length = length
        self._header = header
        self._footer = footer

    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        offset = offset or file.seek(self._header)
        left = os.fstat(file.fileno()).st_size - self._footer - offset
        if left <= 0:
            raise EOFError
        data = file.read(min(self._length, left))
        short = len(data) < self._length
        return data, f"has {len(data)} bytes of {self._length}" if short else None


@final
class WholeFormat(AbstractFormat):
    """The format of files that are one record each."""

    __slots__ = ()
    what = "file"

    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        if offset:
            raise EOFError
        return file.read(), None

    def key(self, path: str, number: int) -> bytes:
        return os.fsencode(path)


@final
class _Open:
    """The file that is being read.

    Attributes:
        offset: behind the record that was read last.
        number: of the next record.
        ended: whether there are no more records.
    """

    __slots__ = ("__weakref__", "close", "ended", "file", "number", "offset", "path")

    def __init__(self, path: str, first: int) -> None:
        self.path = path
        self.file = open(path, "rb")  # noqa: SIM115 - closed at its end, or when forgotten
        self.close = finalize(self, self.file.close)
        self.offset = 0
        self.number = first
        self.ended = False


@final
class _Read(AbstractAttempt):
    """The attempt to read records, as their files come.

    Attributes:
        taken: the records that it holds.
    """

    __slots__ = ("_count", "_partial", "taken")

    def __init__(self, reader: ReaderState, count: int, partial: bool, what: str) -> None:
        super().__init__(reader, 0, what)
        self._count = count
        self._partial = partial
        self.taken: list[Record] = []
        self.done = not count

    def step(self) -> bool:
        reader, before = self.owner, len(self.taken)
        while len(self.taken) < self._count:
            try:
                more = reader.move(self.taken)
            except (RecordError, FileError) as error:
                self.retract()
                self.fail_with(error)
                return True
            if not more:
                return self._without_more() or len(self.taken) > before
        self.done = True
        return True

    def _without_more(self) -> bool:
        """Handle the lack of a file; returns whether the attempt has ended."""
        reader = self.owner
        if not reader.ended:
            reader.wants = True
        elif self.taken and self._partial:
            self.done = True
        else:
            self.fail(
                lambda: reader.files.is_over(
                    f"{self.what}: all files are read, and the queue of their names is closed",
                    reader.state(),
                )
            )
        return self.done

    def retract(self) -> None:
        if self.taken:
            self.owner.restore(self.taken)

    @property
    def value(self) -> list[Record]:
        return self.taken


@final
class ReaderState(AbstractMeeting):
    """A reader of the records of files, one after the other.

    Args:
        files: the queue of file names, bytes without axes.
        form: the format of the records.
        skip_damaged: whether a damaged record is left out, instead of an error.
        name: for display.

    Attributes:
        count: the number of records read, without those given back.
        skipped: the number of damaged records left out.
        wants: whether an attempt waits for the next file.
        ended: whether no more files come.
    """

    __slots__ = (
        "_asked", "_asker", "_back", "_begun", "_names", "_noted", "_now", "count", "device",
        "ended", "files", "form", "skip_damaged", "skipped", "wants",
    )  # fmt: skip

    def __init__(
        self, files: QueueState, form: AbstractFormat, skip_damaged: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(1, "reader", name)
        self.files = files
        self.form = form
        self.skip_damaged = skip_damaged
        self.device: Device | None = files.device
        self.count = self.skipped = 0
        self.wants = self.ended = False
        self._names: list[str] = []  # the file to be read next; one at most
        self._now: _Open | None = None
        self._back: list[Record] = []  # records that were given back, the next one last
        self._asked: AbstractAttempt | None = None  # the attempt to get the next name
        self._begun: AbstractAttempt | None = None  # the attempt that was begun last
        self._asker = 0  # the thread that begins it now
        self._noted: list[AbstractEvent] = []  # events to report once the lock is free

    def __repr__(self) -> str:
        return f"{self.called('reader')} of {self.form.what}s"

    def size(self) -> int:
        """The number of records that were given back, and so are read again."""
        return len(self._back)

    def state(self) -> str:
        with self.lock:
            now = "" if self._now is None else f", in {self._now.path}"
            waiting = self.waiting(0)
        return f"{self!r}, {self.count} read{now}" + (f", {waiting} waiting" if waiting else "")

    def read(self, count: int = 1, partial: bool = False) -> AbstractAttempt:
        """Read records; the value is a list of them, with their keys.

        Args:
            count: the number of records.
            partial: whether fewer records, but at least one, will do after the last file.

        Raises:
            TensorValueError: the count is negative.
        """
        what = "read_up_to" if partial else "read"
        check_count(what, count)
        return _Read(self, count, partial, what)

    # --- for attempts; the lock is held ---

    def move(self, taken: list[Record]) -> bool:
        """Move the next record to ``taken``; returns whether there was one."""
        if self._back:
            taken += (self._back[-1],)
            del self._back[-1]
            self.count += 1
            return True
        while self._now is not None or self._names:
            if self._now is None:
                self._open()
            elif self._now.ended:
                self._close()
            elif self._move(self._now, taken):
                return True
        return False

    def _open(self) -> None:
        name = self._names[0]
        try:
            opened = _Open(name, self.form.first)
        except OSError as error:
            del self._names[0]
            failed = FileError(f"the reader cannot open a file: {error}", given=repr(name))
            failed.errno, failed.filename = error.errno, name
            raise failed from None
        self._now = opened
        del self._names[0]

    def _move(self, now: _Open, taken: list[Record]) -> bool:
        file, form, number = now.file, self.form, now.number
        wrong: str | None
        start = perf_counter() if ElementEvent.listeners or SkipEvent.listeners else None
        try:
            if file.tell() != now.offset:  # Ctrl-C came during a read
                file.seek(now.offset)
            data, wrong = form.read(file, now.offset)
            behind = file.tell()
        except EOFError:
            now.ended = True
            return False
        except OSError as error:
            now.ended = True
            raise FileError(f"the reader cannot read {now.path}: {error}") from None
        if wrong is None:
            record = form.key(now.path, number), data
            ended = not behind  # an empty file that is one record
            taken += (record,)
            now.offset, now.number, now.ended = behind, number + 1, ended
            self.count += 1
            if start is not None:
                size = len(data)
                self._note(ElementEvent(name=self.label, start=start, nbytes=size))
            return True
        which = f"{form.what} {number} of {now.path} {wrong}"
        now.offset, now.number = behind, number + 1
        if self.skip_damaged:
            self.skipped += 1
            if start is not None:
                self._note(SkipEvent(name=self.label, start=start, error=which))
            return False
        raise RecordError(
            which,
            hint="reading goes on after it; skip_damaged=True leaves out damaged records",
        )

    def _note(self, event: AbstractEvent) -> None:
        """Keep an event, to be reported later, as the instrument that gets it may read, too."""
        event.stop = perf_counter()
        event.device = "" if self.device is None else str(self.device)
        self._noted += (event,)

    def restore(self, taken: list[Record]) -> None:
        """Take records back, to be read first."""
        back = taken[::-1]
        self._back += back
        del taken[:]
        self.count -= len(back)

    def _close(self) -> None:
        now, self._now = self._now, None
        if now is not None:
            now.close()

    # --- the next file ---

    def settle(self, attempt: AbstractAttempt | None = None, tell: bool = True) -> None:
        super().settle(attempt, tell)
        while self._ask():
            super().settle(None, tell)
        while tell and self._noted:
            with self.lock:
                noted, self._noted = self._noted, []
            for event in noted:
                end(event)

    def _ask(self) -> bool:
        """Request the next name if it is wanted; returns whether it came at once.

        Ctrl-C may leave an attempt that was not begun, or not completely: it is begun again.
        """
        thread = get_ident()
        with self.lock:
            idle = not self.waiting(0)
            asked = self._asked
            if asked is None and self.wants and not idle:
                asked = self.files.dequeue()
                self._asked = asked
                self.wants = False
            begun = self._begun is asked
        if asked is None:
            return False
        if idle:
            self._withdraw(asked)
        if idle or begun:
            return False
        try:
            self._asker = thread
            asked.begin(partial(self._answered, asked))
            self._begun = asked
        finally:
            self._asker = 0
        return asked.done

    def _withdraw(self, asked: AbstractAttempt) -> None:
        """Cancel the request for a name, which other readers of the queue may have."""
        asked.cancel(lambda: CancelledError("the reader does not wait any more"))
        with self.lock:
            if self._asked is asked:  # the request was not begun, or was just answered
                self._take_name(asked)

    def _answered(self, asked: AbstractAttempt) -> None:
        """Take a name, or an error, from the queue. Called without a lock, perhaps twice."""
        with self.lock:
            if self._asked is asked:
                self._take_name(asked)
            now = self._asker != get_ident()  # else the asking thread goes on
        if now:
            self.settle()

    def _take_name(self, asked: AbstractAttempt) -> None:
        if asked.failure is None:
            name = os.fsdecode(asked.value[0][0].item())
            self._names += (name,)
        elif isinstance(asked.failure(), QueueClosedError | RunnerFailedError):
            self.ended = True
        self._asked = None

    # --- the rest ---

    def reset(self) -> None:
        """Drop the file that is being read, and records that were given back."""
        with self.lock:
            self._close()
            del self._names[:]
            del self._back[:]
            self.ended = False
        self.settle()
