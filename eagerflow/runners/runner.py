"""`Runner`: a function that runs again and again, and its end; `runners/spawn.py` starts one."""

from __future__ import annotations

import itertools
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from time import monotonic
from types import TracebackType
from typing import Any, Final, final
from weakref import WeakSet

from eagerflow import events
from eagerflow.errors import (
    CancelledError,
    QueueClosedError,
    WaitTimeoutError,
    hides_frames,
)
from eagerflow.events import RunEvent, failed_runners
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.requests import check_seconds
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.runners.closing import Closing, RunnerFailure, failure_behind, failure_of
from eagerflow.runners.rest_of_queue import warn_of_rest
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.timers import Timer, timers
from eagerflow.source import source_of_thread

_serial: Final = itertools.count(1)
STOPPED: Final = "its runner was stopped"
#: seconds until a warning that a stopped runner still goes on
_PATIENCE: Final = 5.0
#: seconds until an error is printed that neither `join` nor `stop` has raised
_UNSEEN: Final = 0.5
_ADVICE: Final = "ef.spawn(f, closes=queue) lets the readers of its queue end when it fails"


@final
class _End(AbstractMeeting):
    """The condition for the end of a runner, which is then `over`."""

    __slots__ = ("over",)

    def __init__(self, name: str) -> None:
        super().__init__(1, "runner")  # a container would remember each given name
        self.name = self.label = name
        self.over = False

    def state(self) -> str:
        return f"the runner {self.name}, which {'has ended' if self.over else 'goes on'}"

    def tell(self) -> None:
        """Nothing to report: runs report themselves."""


@final
class _Join(AbstractAttempt):
    """A wait for the end of a runner."""

    __slots__ = ()

    def step(self) -> bool:
        self.done = self.owner.over
        return self.done

    def retract(self) -> None:
        """Do nothing: the attempt holds nothing."""


@final
class _Blocks(threading.local):
    """The ``with`` blocks of runners that this thread is in.

    Attributes:
        runners: the runners of the blocks. Of a block left in another thread nothing stays.
    """

    def __init__(self) -> None:
        self.runners: WeakSet[Runner] = WeakSet()


_blocks: Final = _Blocks()


@final
class Runner:
    """A function that runs again and again in the background. `spawn` makes and starts a runner.

    It ends when a queue that it needs is closed (a `QueueClosedError` is no error of a runner, but
    the end of its work; a `RunnerFailedError`, of a queue that another one has closed as it failed,
    is one), when it is stopped, or with an error, which `join` and `stop` raise; a runner spawned
    under an `eagerflow.deadline` ends at the deadline at the latest. A ``with`` block of runners
    without an error of its own ends with that of the runner that failed first, not of those that
    its failure has ended.

    Args:
        fn: the function.
        name: the name of the runner, for messages; by default that of the function, with a number.
        closing: closes queues at the end.
        runs: the number of runs after which it ends.

    Attributes:
        name: the name of the runner, for messages.
        steps: number of completed runs.
        error: the error that it ended with; None if it ended well, or goes on.
    """

    def __init__(self, fn: Any, name: str | None, closing: Closing, runs: float) -> None:
        base = str(getattr(fn, "name", None) or getattr(fn, "__name__", type(fn).__name__))
        self._number = next(_serial)
        self.name = name or f"{base}-{self._number}"
        self._function = name or base
        self._runs = runs
        self._unclosed = not closing
        failed_runners.forget(self._function)
        self._run: RunEvent | None = None  # the current run, if there are listeners
        self._lock = threading.Lock()
        self.steps = 0
        self._reasons = set[str]()  # reasons for it to end
        self._ended = threading.Event()
        self._end = _End(self.name)
        self.error: BaseException | None = None
        self._failure: RunnerFailure | None = None  # behind its error
        self._trace: TracebackType | None = None  # of the error, before it is raised again
        self._report: Timer | None = None  # for an error not seen yet
        self._cancel: Callable[[str], object] = _nothing
        self._closing = closing
        self._thread: Callable[[], int] = int
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether the runner goes on."""
        return not self._ended.is_set()

    @property
    def is_done(self) -> bool:
        """Whether no run is left, of those that were asked for."""
        return self.steps >= self._runs

    @hides_frames
    def stop(self, timeout: float | None = None) -> bool:
        """End the runner: its run is broken off between two ops or in a wait, and no run follows.

        A plain function gets a `CancelledError` from its next op, or from the traced function that
        it has called. Python code that does something else, such as waiting for a socket, cannot be
        broken off: the runner ends after it. A warning names the line if that takes long.

        Args:
            timeout: the longest time to wait for the end, in seconds.

        Returns:
            Whether the runner has ended.

        Raises:
            BaseException: the error that the runner had ended with.
        """
        self.cancel()
        if timeout is not None:
            return self.join(timeout)
        self._await_end()
        self._raise()
        return True

    def cancel(self) -> None:
        """Stop the runner as `stop` does, without waiting for its end."""
        self._break_off(STOPPED)

    @hides_frames
    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the runner.

        Args:
            timeout: the longest time to wait, in seconds.

        Returns:
            Whether the runner has ended.

        Raises:
            BaseException: the error that the runner ended with.
            DeadlineError: the runner goes on, and the deadline of this block has passed.
        """
        try:
            _Join(self._end, 0, "join").wait(check_seconds("join", timeout))
        except WaitTimeoutError:
            return False
        self._raise()
        return True

    def _raise(self) -> None:
        error = self._traced()
        if error is not None:
            self._is_unseen()
            raise error

    def __repr__(self) -> str:
        state = "running" if self.running else "ended"
        if self.error is not None:
            state = f"ended with {type(self.error).__name__}"
        return f"<runner {self.name}: {state}, {self._completed()}>"

    def _completed(self) -> str:
        return f"{self.steps} run{'s' * (self.steps != 1)}"

    def __enter__(self) -> Runner:
        _blocks.runners.add(self)
        return self

    @hides_frames
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        _blocks.runners.discard(self)
        self.cancel()
        self._await_end()
        root = self._first_to_fail(list(_blocks.runners))
        if kind is None:
            self._is_unseen()
            root._raise()
        elif value is not None and value is root.error:
            self._is_unseen()
        elif value is not None and self._is_behind(value):
            if self._is_unseen() and value is not self.error:
                value.__cause__ = self._traced()
        else:  # the error of the block counts for more
            self.tell()

    def _first_to_fail(self, others: Iterable[Runner]) -> Runner:
        """The one of some other runners whose failure has ended this one; itself if none's has."""
        if self._failure is None or not self._is_ended_by_another():
            return self
        for other in others:
            if other._failure is not None and other._failure.text == self._failure.text:
                other._await_end()  # it has its failure before its error
                if not other._is_ended_by_another():
                    return other
        return self

    def _is_ended_by_another(self) -> bool:
        return failure_behind(self.error) is not None

    def _is_behind(self, error: BaseException) -> bool:
        """Whether an error tells of the failure that has ended this runner."""
        told = failure_behind(error)
        return told is not None and self._failure is not None and told.text == self._failure.text

    def _traced(self) -> BaseException | None:
        """Its error, with the frames of the runner alone."""
        return None if self.error is None else self.error.with_traceback(self._trace)

    def _await_end(self) -> None:
        """Wait for the end of a stopped runner, with a warning if that takes long."""
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

    # --- for the code that runs it ---

    def end_at(self, moment: float) -> None:
        """End the runner at a time (of ``time.monotonic``) at the latest."""
        left = max(moment - monotonic(), 0.0)
        self._timer = timers.call(left, lambda: self._break_off(deadline.LATE))

    def _break_off(self, reason: str) -> None:
        with self._lock:
            self._reasons.add(reason)
            cancel = self._cancel
        cancel(reason)

    def begin(self, cancel: Callable[[str], object], thread: Callable[[], int]) -> bool:
        """Whether the caller is to begin another run; no more runs follow after a stop.

        Args:
            cancel: ends the run early, with a reason, perhaps before it has begun.
            thread: gives the thread at work for the run, 0 for none.

        Raises:
            DeadlineError: the time of the runner is over.
        """
        if RunEvent.listeners:  # without the lock: a listener may stop the runner
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
        """Count a completed run."""
        self.steps += 1
        self.end_run()

    def end_run(self, error: str = "") -> None:
        """End the current run, with an error if one is given."""
        run, self._run = self._run, None
        if run is not None:
            run.error = error
            events.end(run)

    def end(self, error: BaseException | None = None) -> None:
        """End the runner."""
        self.end_run(STOPPED if error is None else events.describe(error))
        broken_off = isinstance(error, CancelledError | SystemExit)  # of the program
        is_complete = isinstance(error, QueueClosedError) and failure_behind(error) is None
        if is_complete or (broken_off and STOPPED in self._reasons):
            error = None if self._reasons else warn_of_rest(self.name, error)
        self._failure = None if error is None else failure_of(self.name, error)
        with self._lock:
            self._cancel, self._thread = _nothing, int
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._closing.close(self._failure)
        except Exception as late:
            error = error or late
        if error is not None:
            self._fail(error)
        self._ended.set()
        self._end.over = True
        self._end.settle()

    def _fail(self, error: BaseException) -> None:
        when = f"after {self._completed()}" if self.steps else "in its first run"
        error.add_note(f"  in the runner {self.name}, {when}")
        self.error, self._trace = error, error.__traceback__
        before = failure_behind(error)
        if before is not None and before.cause is not None:
            return  # the runner of this process that failed before reports it
        advice = f"; {_ADVICE}" * self._unclosed
        failed_runners.add(
            self._function, f"the runner {self.name} failed: {events.describe(error)}{advice}"
        )
        self._report = timers.call(_UNSEEN, self.tell)

    def _is_unseen(self) -> bool:
        """Whether its error has not been seen yet; asking marks the error as seen."""
        with self._lock:
            report, self._report = self._report, None
        if report is not None:
            report.cancel()
        return report is not None

    def tell(self) -> None:
        """Print the runner's error, unless it has been seen."""
        if self.error is not None and self._is_unseen():
            lines = traceback.format_exception(self.error)
            text = f"The runner {self.name} has ended with an error:\n{''.join(lines)}"
            text += f"  hint: {_ADVICE}\n" * self._unclosed
            sys.stderr.write(text)  # in one piece, as other threads may write

    def at_exit(self) -> None:
        """Cancel the runner at the end of the program, and print its error."""
        self.cancel()
        self.tell()

    def abandon(self) -> None:
        """End a runner that has never begun."""
        self._closing.leave()
        self.end()


def _nothing(reason: str = "") -> None:
    """The cancel function while no run goes on."""
