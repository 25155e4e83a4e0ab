"""`Runner`: how a function that runs again and again ends. What starts one: `runners/spawn.py`."""

from __future__ import annotations

import itertools
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Final, final

from eagerflow import events
from eagerflow.errors import (
    CancelledError,
    QueueClosedError,
    WaitTimeoutError,
    hides_frames,
)
from eagerflow.events import RunEvent
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.requests import check_seconds
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.runners.closing import Closing
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.timers import Timer, timers
from eagerflow.source import source_of_thread

_serial: Final = itertools.count(1)
STOPPED: Final = "its runner was stopped"
#: seconds after which it is told that a runner that was stopped goes on
_PATIENCE: Final = 5.0
#: seconds after which an error is printed that `join` or `stop` has not raised by then
_UNSEEN: Final = 0.5


@final
class _End(AbstractMeeting):
    """The condition on which threads wait for the end of a runner, which is `over` then."""

    __slots__ = ("over",)

    def __init__(self, name: str) -> None:
        super().__init__(1, "runner")  # a container would remember each name that was given
        self.name = self.label = name
        self.over = False

    def state(self) -> str:
        return f"the runner {self.name}, which {'has ended' if self.over else 'goes on'}"

    def tell(self) -> None:
        """Its runs tell more."""


@final
class _Join(AbstractAttempt):
    """Wait until a runner has ended."""

    __slots__ = ()

    def step(self) -> bool:
        self.done = self.owner.over
        return self.done

    def retract(self) -> None:
        """It holds nothing."""


@final
class Runner:
    """A function that runs again and again in the background. `spawn` makes and starts one.

    It ends when a queue is closed that it needs (a `QueueClosedError` is no error of a runner, but
    the end of its work), when it is stopped, or with an error, which `join` and `stop` raise; one
    that was spawned under an `eagerflow.deadline` ends with that at the latest.

    Attributes:
        name: of the runner, for messages.
        steps: how many runs have come to their end so far.
        error: that it ended with; None if it ended well, or goes on.
    """

    def __init__(self, fn: Any, name: str | None, closing: Closing) -> None:
        base = str(getattr(fn, "name", None) or getattr(fn, "__name__", type(fn).__name__))
        self._number = next(_serial)
        self.name = name or f"{base}-{self._number}"
        self._run: RunEvent | None = None  # that goes on, if there are listeners
        self._lock = threading.Lock()
        self.steps = 0
        self._reasons = set[str]()  # why it is to end
        self._ended = threading.Event()
        self._end = _End(self.name)
        self.error: BaseException | None = None
        self._trace: TracebackType | None = None  # of the error, before it is raised again
        self._report: Timer | None = None  # of an error that was not seen yet
        self._cancel: Callable[[str], object] = _nothing
        self._closing = closing
        self._thread: Callable[[], int] = int
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return not self._ended.is_set()

    @hides_frames
    def stop(self, timeout: float | None = None) -> bool:
        """End it: its run is broken off between two ops or where it waits; there is no other one.

        A plain function gets a `CancelledError` from its next op, or the traced function that it
        has called. Python code cannot be broken off that does something else, such as wait for a
        socket: the runner ends when that is over. A warning tells the line if it takes long.

        Args:
            timeout: how many seconds to wait for the end at most.

        Returns:
            Whether it has ended.

        Raises:
            BaseException: the error that it had ended with before.
        """
        self.cancel()
        if timeout is not None:
            return self.join(timeout)
        self._await_end()
        self._raise()
        return True

    def cancel(self) -> None:
        """As `stop`, but it does not wait for the end."""
        self._break_off(STOPPED)

    @hides_frames
    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended.

        Args:
            timeout: how many seconds to wait at most.

        Returns:
            Whether it has ended.

        Raises:
            BaseException: the error that it ended with.
            DeadlineError: it goes on, and the deadline of this block has passed.
        """
        try:
            _Join(self._end, 0, "join").wait(check_seconds("join", timeout))
        except WaitTimeoutError:
            return False
        self._raise()
        return True

    def _raise(self) -> None:
        if self.error is not None:
            self._is_unseen()
            raise self.error.with_traceback(self._trace)

    def __repr__(self) -> str:
        state = "running" if self.running else "ended"
        if self.error is not None:
            state = f"ended with {type(self.error).__name__}"
        runs = f"{self.steps} run{'s' * (self.steps != 1)}"
        return f"<runner {self.name}: {state}, {runs}>"

    def __enter__(self) -> Runner:
        return self

    @hides_frames
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.cancel()
        self._await_end()
        if kind is None:
            self._raise()
        else:  # that error counts for more
            self.tell()

    def _await_end(self) -> None:
        """Wait for the end of a runner that was stopped."""
        if self._ended.wait(_PATIENCE):
            return
        source = source_of_thread(self._thread())
        warnings.warn(
            f"the runner {self.name} was stopped and goes on, "
            f"{'in its graph' if source is None else f'at {source}'}; this waits for its end "
            "(stop(timeout=...) does not wait for ever)",
            RuntimeWarning,
            stacklevel=4,
        )
        self._ended.wait()

    # --- for those that run it ---

    def end_at(self, moment: float) -> None:
        """Let it end at this time (of ``time.monotonic``) at the latest."""
        left = max(moment - monotonic(), 0.0)
        self._timer = timers.call(left, lambda: self._break_off(deadline.LATE))

    def _break_off(self, reason: str) -> None:
        with self._lock:
            self._reasons.add(reason)
            cancel = self._cancel
        cancel(reason)

    def begin(self, cancel: Callable[[str], object], thread: Callable[[], int]) -> bool:
        """Whether there is another run, which the caller begins; none if it was stopped.

        Args:
            cancel: ends it early, for a reason, perhaps before it was begun.
            thread: tells which thread is at work for it, 0 for none.

        Raises:
            DeadlineError: its time is over.
        """
        if RunEvent.listeners:  # without the lock: a listener may want to stop it
            self._run = RunEvent(name=self.name, thread=-self._number, runner=self.name, step=0)
            events.begin(self._run)
        with self._lock:
            if STOPPED in self._reasons:
                return False
            if self._reasons:
                raise deadline.too_late()
            self._cancel, self._thread = cancel, thread
            return True

    def count(self) -> None:
        """Another run has come to its end."""
        self.steps += 1
        self.end_run()

    def end_run(self, error: str = "") -> None:
        """The run that goes on ends, with an error if one is given."""
        run, self._run = self._run, None
        if run is not None:
            run.error = error
            events.end(run)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        self.end_run(STOPPED if error is None else events.describe(error))
        broken_off = isinstance(error, CancelledError | SystemExit)  # of the program
        if isinstance(error, QueueClosedError) or (broken_off and STOPPED in self._reasons):
            error = None
        with self._lock:
            self._cancel, self._thread = _nothing, int
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._closing.close(self.name, error)
        except Exception as late:
            error = error or late
        if error is not None:
            self._fail(error)
        self._ended.set()
        self._end.over = True
        self._end.settle()

    def _fail(self, error: BaseException) -> None:
        error.add_note(f"  in the runner {self.name}, after {self.steps} runs")
        self.error, self._trace = error, error.__traceback__
        self._report = timers.call(_UNSEEN, self.tell)

    def _is_unseen(self) -> bool:
        """Whether it has ended with an error that was not seen; asking marks it as seen."""
        with self._lock:
            report, self._report = self._report, None
        if report is not None:
            report.cancel()
        return report is not None

    def tell(self) -> None:
        """Print the error that it has ended with, if it was not seen."""
        if self.error is not None and self._is_unseen():
            lines = traceback.format_exception(self.error)
            text = f"The runner {self.name} has ended with an error:\n{''.join(lines)}"
            sys.stderr.write(text)  # in one piece, as other threads may write

    def at_exit(self) -> None:
        """The program ends."""
        self.cancel()
        self.tell()

    def abandon(self) -> None:
        """It has never begun."""
        self._closing.leave()
        self.end()


def _nothing(reason: str = "") -> None:
    """What cancels no run."""
