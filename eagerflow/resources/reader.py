"""The state of a reader: one after the other it gives the records of files, named by a queue.

Reading is an attempt like those of queues. The first one that waits reads as long as there are
records; where a file has ended, the reader takes the next name from its queue, and a
caller that wants a record waits until then. A reader that is not waited for holds no
place in the queue.

As in queues (`eagerflow.resources.waiting_operations`), Ctrl-C may come between any two calls. So
what is read counts from the plain statements on that note the record and the offset behind it;
where it came before, the file is read again from the offset that is noted.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import IO, final
from weakref import finalize

from eagerflow.errors import CancelledError, FileError, QueueClosedError, RecordError
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
    """How records lie in files."""

    __slots__ = ()

    #: what records are called
    what: str = "record"
    #: the number of the first one
    first: int = 0

    @abstractmethod
    def read(self, file: IO[bytes], offset: int) -> tuple[bytes, str | None]:
        """The record at ``offset``, where the file stands, and what is wrong with it.

        Raises:
            EOFError: there is none.
        """

    def key(self, path: str, number: int) -> bytes:
        """What the record is called."""
        return os.fsencode(f"{path}:{number}")


@final
class LineFormat(AbstractFormat):
    """The lines of text files, without their ends.

    Args:
        skip: how many to leave out at the beginning of each file.
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
    """Files that are one record each."""

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
    """A file that is read.

    Attributes:
        offset: behind the record that was read last.
        number: of the next one.
        ended: whether there is no more.
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
    """Records that are read as their files come.

    Attributes:
        taken: those that it holds.
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
        """There is no file at the moment; whether that is the end."""
        reader = self.owner
        if not reader.ended:
            reader.wants = True
        elif self.taken and self._partial:
            self.done = True
        else:
            self.fail(
                lambda: QueueClosedError(
                    f"{self.what}: all files are read, and the queue of their names is closed",
                    given=reader.state(),
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
    """Gives the records of files, one after the other.

    Args:
        files: the queue of their names, bytes without axes.
        form: how records lie in them.
        skip_damaged: whether a damaged record is left out, instead of an error.
        name: for display.

    Attributes:
        count: how many records were read, those that were given back not among them.
        skipped: how many damaged ones were left out.
        wants: whether the next file is waited for.
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
        self._names: list[str] = []  # of files that are to be read next; one at most
        self._now: _Open | None = None
        self._back: list[Record] = []  # records that were given back, the next one last
        self._asked: AbstractAttempt | None = None  # for the next name
        self._begun: AbstractAttempt | None = None  # the one that was begun last
        self._asker = 0  # the thread that is asking right now
        self._noted: list[AbstractEvent] = []  # that are to be told once the lock is free

    def __repr__(self) -> str:
        return f"{self.called('reader')} of {self.form.what}s"

    def size(self) -> int:
        """How many records are to be read again, as they were given back."""
        return len(self._back)

    def state(self) -> str:
        with self.lock:
            now = "" if self._now is None else f", in {self._now.path}"
            waiting = self.waiting(0)
        return f"{self!r}, {self.count} read{now}" + (f", {waiting} waiting" if waiting else "")

    def read(self, count: int = 1, partial: bool = False) -> AbstractAttempt:
        """Read records; the value is a list of them, with their keys.

        Args:
            count: how many.
            partial: whether what is left after the last file will do, if it is anything.

        Raises:
            TensorValueError: the count is negative.
        """
        what = "read_up_to" if partial else "read"
        check_count(what, count)
        return _Read(self, count, partial, what)

    # --- for attempts; the lock is held ---

    def move(self, taken: list[Record]) -> bool:
        """Move the next record there; whether there was one."""
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
            if file.tell() != now.offset:  # Ctrl-C came while it was read
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
            ended = not behind  # an empty file that is a record
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
            hint="reading goes on behind it; skip_damaged=True leaves out what is damaged",
        )

    def _note(self, event: AbstractEvent) -> None:
        """Keep an event, to be told later: the instrument that hears of it may read, too."""
        event.stop = perf_counter()
        event.device = "" if self.device is None else str(self.device)
        self._noted += (event,)

    def restore(self, taken: list[Record]) -> None:
        """Take records back, to give them first."""
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
        """Ask for the next name if it is wanted; whether there is something new at once.

        Ctrl-C may leave an attempt that was not begun, or not wholly: it is begun again.
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
        """The name is not wanted any more: others may have it."""
        asked.cancel(lambda: CancelledError("the reader does not wait any more"))
        with self.lock:
            if self._asked is asked:  # it had not been begun, or was just answered
                self._take_name(asked)

    def _answered(self, asked: AbstractAttempt) -> None:
        """The queue has given a name, or an error. Called without a lock, perhaps twice."""
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
        elif isinstance(asked.failure(), QueueClosedError):
            self.ended = True
        self._asked = None

    # --- the rest ---

    def reset(self) -> None:
        """Forget the file that is being read, and records that were given back."""
        with self.lock:
            self._close()
            del self._names[:]
            del self._back[:]
            self.ended = False
        self.settle()
