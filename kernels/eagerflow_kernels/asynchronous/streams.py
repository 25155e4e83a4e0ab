"""Streams of deferred work: in order on each stream, in pieces, by threads or by hand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, final

import numpy as np

Piece = Callable[[], object]
Done = Callable[[Exception | None], object]


@final
class Failure:
    """The failure of work; shared by all work that depends on its results.

    Attributes:
        error: the exception to raise.
        told: whether the error has been reported.
    """

    __slots__ = ("error", "told")

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.told = False

    def tell(self) -> Exception:
        """Return the error to a caller, and note that it has been reported."""
        self.told = True
        return self.error.with_traceback(None)


@final
class Work:
    """A unit of work, which a stream runs after all work issued to it before.

    Args:
        pieces: the functions to call, one after the other; without any the work has ended.
        needs: the work that has to be done before, on any stream.
        explain: makes the error to raise from the exception of a piece.

    Attributes:
        ended: whether the work is done or has failed.
        failure: the failure; None if there is none.
    """

    __slots__ = ("_called", "_ended", "_explain", "_lock", "failure", "needs", "pieces", "stream")

    def __init__(
        self, pieces: Iterable[Piece], needs: Iterable[Work] = (),
        explain: Callable[[Exception], Exception] | None = None,
    ) -> None:  # fmt: skip
        self.pieces = deque(pieces)
        self.needs = [work for work in needs if not work.done]
        self.stream: Stream | None = None
        self.failure: Failure | None = None
        self._explain = explain
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._called: list[Done] = []
        if not self.pieces:
            self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether the work is done or has failed."""
        return self._ended.is_set()

    @property
    def done(self) -> bool:
        """Whether the work has ended without a failure."""
        return self.ended and self.failure is None

    def wait(self) -> None:
        """Wait until the work has ended.

        Raises:
            Exception: the work has failed.
        """
        if not self.ended and self.stream is not None:
            self.stream.finish(self)
        if self.failure is not None:
            raise self.failure.tell()

    def bring_on(self) -> None:
        """Do the next piece of the work's stream, so that the work ends sooner."""
        if not self.ended and self.stream is not None:
            self.stream.bring_on()

    def sleep(self) -> None:
        """Wait until another thread has done the work."""
        self._ended.wait()

    def when_ended(self, done: Done) -> None:
        """Call ``done`` with the error, or None, when the work has ended."""
        with self._lock:
            if not self.ended:
                self._called.append(done)
                return
        self._tell(done)

    def step(self, before: Piece | None) -> None:
        """Do the next piece, after a call of ``before``."""
        failed = next((n.failure for n in self.needs if n.failure is not None), None)
        if failed is None and self.pieces:
            try:
                if before is not None:
                    before()
                with np.errstate(all="ignore"):  # as devices compute, which cannot warn
                    self.pieces.popleft()()
            except Exception as error:
                failed = self._failed(error)
            except BaseException as error:  # such as Ctrl-C: it propagates, and the work has failed
                self._end(self._failed(RuntimeError(f"it was broken off by {error!r}")))
                raise
        if failed is not None or not self.pieces:
            self._end(failed)

    def _failed(self, error: Exception) -> Failure:
        """The failure for an error; if ``explain`` raises, its exception is the failure."""
        try:
            explained = error if self._explain is None else self._explain(error)
        except Exception as failure:
            explained = failure
        explained.__traceback__ = None  # its frames hold arrays
        return Failure(explained)

    def _end(self, failed: Failure | None) -> None:
        self.failure = failed
        self.pieces.clear()  # they hold arrays
        self.needs = []
        self._explain = None
        self._ended.set()

    def tell(self) -> None:
        """Call the callbacks of work that has ended."""
        with ExitStack() as every, self._lock:  # callbacks run after the lock is released
            while self._called:
                every.callback(self._tell, self._called.pop())

    def _tell(self, done: Done) -> None:
        done(None if self.failure is None else self.failure.tell())


@final
class Stream:
    """A queue of work.

    Args:
        threads: whether a thread does the work as soon as it can; else callers do it, by `step`
            or by waiting for work.
        before_piece: called before each piece, to delay it; an exception that it raises is a
            failure of the work.

    Attributes:
        failures: failures of the stream's own work, the first at the front.
    """

    def __init__(self, *, threads: bool, before_piece: Callable[[], object] | None) -> None:
        self._threads = threads
        self._before_piece = before_piece
        self._queue: deque[Work] = deque()
        self._lock = threading.Lock()  # of the queue
        self._stepping = threading.RLock()  # held while a piece runs, which may end other work
        self._worker: threading.Thread | None = None
        self.failures: deque[Failure] = deque(maxlen=100)

    def issue(self, work: Work) -> None:
        """Queue work after all that was issued before."""
        work.stream = self
        with self._lock:
            self._queue.append(work)
        self._wake()

    def _wake(self) -> None:
        """Start the thread, if there is work and no thread."""
        with self._lock:
            if self._threads and self._queue and self._worker is None:
                self._worker = threading.Thread(target=self._serve, daemon=True)
                self._worker.start()

    @property
    def last(self) -> Work | None:
        """The work that was issued last, if it has not ended."""
        with self._lock:
            return self._queue[-1] if self._queue else None

    def finish(self, work: Work) -> None:
        """Wait for work of this stream, or, without threads, do all work up to it."""
        if self._threads:
            work.sleep()
            return
        while not work.ended:
            self.bring_on()

    def bring_on(self) -> None:
        """Do one piece, and before it all work on which the head of the queue depends."""
        self._unblock()
        self.step()

    def step(self) -> bool:
        """Do one piece; False if no piece is ready."""
        work: Work | None = None
        try:
            with self._stepping:
                work = self._first()
                if work is None or any(not need.ended for need in work.needs):
                    return False
                try:
                    work.step(self._before_piece)
                finally:
                    if work.ended:
                        self._drop(work)
            return True
        finally:
            if work is not None and work.ended:
                work.tell()

    def _drop(self, work: Work) -> None:
        """Remove work that has ended from the head of the queue."""
        with self._lock:
            self._queue.popleft()
        if work.failure is not None:
            self.failures.append(work.failure)

    def _first(self) -> Work | None:
        with self._lock:
            return self._queue[0] if self._queue else None

    def _unblock(self) -> None:
        """Finish the work on which the head of the queue depends."""
        first = self._first()
        for need in [] if first is None else list(first.needs):
            if not need.ended and need.stream is not None:
                need.stream.finish(need)

    def _serve(self) -> None:
        """Run the thread, which ends when the queue is empty, so that no idle thread is left."""
        while True:
            with self._lock:
                if not self._queue:
                    self._worker = None
                    return
                needs = list(self._queue[0].needs)
            for need in needs:
                need.sleep()
            try:
                self.step()
            except BaseException:  # of a callback of ended work: the next thread goes on
                with self._lock:
                    self._worker = None
                self._wake()
                raise


def works_of(values: Iterable[Any]) -> list[Work]:
    """The work that computes values, for values that have such work."""
    return [work for x in values if (work := getattr(x, "work", None)) is not None]
