"""`spawn`: functions that run again and again in the background, as TensorFlow's queue runners."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from time import monotonic
from types import TracebackType
from typing import Any, Final, final

from eagerflow import events
from eagerflow.core import interpreter
from eagerflow.errors import (
    CancelledError,
    QueueClosedError,
    TraceError,
    WaitTimeoutError,
    hide_frames,
    hides_frames,
)
from eagerflow.events import RunEvent, step_of
from eagerflow.function.traced import BoundFunction, TracedFunction
from eagerflow.hardware import current_device, device
from eagerflow.resources.attempts import (
    AbstractAttempt,
    AbstractMeeting,
    Interruptible,
    interruptible,
)
from eagerflow.resources.requests import check_seconds
from eagerflow.runners.closing import Closing
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.ending import ending
from eagerflow.runtime.threads.timers import Timer, timers
from eagerflow.source import place_of_thread
from eagerflow.tracing.tracer import tracer_of

__all__ = ["Runner", "spawn"]

_serial: Final = itertools.count(1)
_STOPPED: Final = "its runner was stopped"
#: seconds after which it is told that a runner that was stopped goes on
_PATIENCE: Final = 5.0
#: seconds after which an error is printed that `join` or `stop` has not raised by then
_UNSEEN: Final = 0.5


@final
class _End(AbstractMeeting):
    """The condition on which threads wait for the end of a runner, which is `over` then."""

    __slots__ = ("over",)

    def __init__(self, name: str) -> None:
        super().__init__(1, "runner", name)
        self.over = False

    def state(self) -> str:
        return f"the runner {self.name}, which {'has ended' if self.over else 'goes on'}"

    def size(self) -> int:
        """It holds nothing."""
        return 0

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
    """

    def __init__(self, fn: Any, name: str | None, closing: Closing) -> None:
        base = str(getattr(fn, "name", None) or getattr(fn, "__name__", type(fn).__name__))
        self._number = next(_serial)
        self.name = name or f"{base}-{self._number}"
        self._run: RunEvent | None = None  # that goes on, if there are listeners
        self._lock = threading.Lock()
        self._steps = 0
        self._stopped = False
        self._ended = threading.Event()
        self._end = _End(self.name)
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None  # of the error, before it is raised again
        self._report: Timer | None = None  # of an error that was not seen yet
        self._cancel: Callable[[str], object] = _nothing
        self._closing = closing
        self._thread: Callable[[], int] = int
        self._late = False
        self._timer: Timer | None = None

    @property
    def steps(self) -> int:
        """How many runs have come to their end so far."""
        return self._steps

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return not self._ended.is_set()

    @property
    def error(self) -> BaseException | None:
        """The error that it ended with; None if it ended well, or goes on."""
        return self._error

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
        with self._lock:
            self._stopped = True
            cancel = self._cancel
        cancel(_STOPPED)

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
        if self._error is not None:
            self._is_unseen()
            raise self._error.with_traceback(self._trace)

    def __repr__(self) -> str:
        state = "running" if self.running else "ended"
        if self._error is not None:
            state = f"ended with {type(self._error).__name__}"
        runs = f"{self._steps} run{'s' * (self._steps != 1)}"
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
        place = place_of_thread(self._thread())
        warnings.warn(
            f"the runner {self.name} was stopped and goes on, "
            f"{'in its graph' if place is None else f'at {place}'}; this waits for its end "
            "(stop(timeout=...) does not wait for ever)",
            RuntimeWarning,
            stacklevel=4,
        )
        self._ended.wait()

    # --- for those that run it ---

    def end_at(self, moment: float) -> None:
        """Let it end at this time (of ``time.monotonic``) at the latest."""
        self._timer = timers.call(max(moment - monotonic(), 0.0), self._expire)

    def _expire(self) -> None:
        with self._lock:
            self._late = True
            cancel = self._cancel
        cancel(deadline.LATE)

    def begin(
        self, start: Callable[[], object], cancel: Callable[[str], object],
        thread: Callable[[], int],
    ) -> bool:  # fmt: skip
        """Begin another run, unless it was stopped.

        Args:
            start: begins it.
            cancel: ends it early, for a reason.
            thread: tells which thread is at work for it, 0 for none.

        Raises:
            DeadlineError: its time is over.
        """
        if RunEvent.listeners:  # without the lock: a listener may want to stop it
            self._run = RunEvent(name=self.name, thread=-self._number, runner=self.name, step=0)
            events.begin(self._run)
        with self._lock:
            if self._stopped:
                return False
            if self._late:
                raise deadline.too_late()
            self._cancel, self._thread = cancel, thread
            start()
            return True

    def count(self) -> None:
        """Another run has come to its end."""
        self._steps += 1
        self.end_run()

    def end_run(self, error: str = "") -> None:
        """The run that goes on ends, with an error if one is given."""
        run, self._run = self._run, None
        if run is not None:
            run.error = error
            events.end(run)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        self.end_run(_STOPPED if error is None else events.describe(error))
        if isinstance(error, QueueClosedError) or (
            self._stopped and isinstance(error, CancelledError | SystemExit)  # of the program
        ):
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
        error.add_note(f"  in the runner {self.name}, after {self._steps} runs")
        self._error, self._trace = error, error.__traceback__
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
        if self._error is not None and self._is_unseen():
            lines = traceback.format_exception(self._error)
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


@final
class _Steps:
    """Runs a traced function for a runner, step after step, without a thread of its own."""

    __slots__ = ("_args", "_device", "_function", "_kwargs", "_runner")

    def __init__(
        self,
        runner: Runner,
        function: TracedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._runner = runner
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._device = current_device()

    def next(self) -> None:
        """Begin the next one."""
        function, runner = self._function, self._runner
        with device(self._device):
            call = function._signature.parse(self._args, self._kwargs)
            entry, captured = function._find(call)
        leaves = [leaf.value for leaf in call.leaves]

        def done(result: Callable[[], Sequence[Any]]) -> None:
            try:
                entry.finish(result(), leaves, call.values)
                runner.count()
                self.next()
            except BaseException as error:
                hide_frames(error)
                runner.end(error)

        step = entry.executable.detached(done, runner.name)
        inputs = entry.raw_inputs(leaves, captured)
        if not runner.begin(lambda: step.begin(inputs), step.cancel, lambda: step.thread):
            runner.end()


def _call_in_thread(
    runner: Runner, call: Callable[[], object], where: Any, end: float | None
) -> None:
    """Call a plain function for a runner, again and again, in this thread, until a time."""
    interruptible.holder = holder = Interruptible()
    brake = interpreter.Brake(lambda: deadline.broken_off(_STOPPED))
    step_of.runner = runner.name
    ident = threading.get_ident()

    def cancel(_: str) -> None:
        brake.pull()  # so that nothing is begun after what it waits for
        holder.stop()

    late = nullcontext() if end is None else deadline.ends_at(end)
    try:
        with device(where), late, brake, deadline.ends_when(lambda: brake.pulled):
            while runner.begin(_nothing, cancel, lambda: ident):
                call()
                runner.count()
                if end is not None and monotonic() >= end:
                    raise deadline.too_late()
    except StopIteration as error:  # of an iterator that it reads
        runner.end_run(events.describe(error))
        runner.end()
    except BaseException as error:
        hide_frames(error)
        runner.end(error)
    else:
        runner.end()


def spawn(
    fn: Callable[..., Any], /, *args: Any, name: str | None = None, closes: Any = (), **kwargs: Any
) -> Runner:
    """Run a function again and again in the background: what TensorFlow calls a queue runner.

    A traced function holds no thread while it waits for queues; the threads that there are are
    shared by all runners. Any other function gets a thread of its own. What a run returns is
    dropped: the results are in queues and variables.

    The runner ends when a queue that it needs is closed, when a function that is not traced raises
    ``StopIteration`` (as ``next`` does), when it is stopped (what it waits for is cancelled then),
    or with an error, which `Runner.join` and `Runner.stop` raise; if neither does at once, it is
    printed. As a context manager it is stopped at the end of the block.

    Args:
        fn: the function.
        args: its arguments.
        name: of the runner, in messages and lists of threads; by default that of the function,
            with a number.
        closes: what it closes when it ends, so that no reader waits for more: queues, barriers, or
            anything that has ``close``. What several runners name is closed by the last of them
            that goes on; one that is spawned after all others have ended finds it closed
            (``docs/queues.md``: how to hold it open). If one ends with an error, it closes a queue
            at once, and cancels what waits to get in.
        kwargs: keyword arguments of the function.

    Raises:
        TraceError: in a traced function, ``fn`` is no function, or what tracing ``fn`` raises.

    >>> numbers, squares = ef.Queue(2, ef.tensor(0)), ef.Queue(2, ef.tensor(0))
    >>> @ef.trace
    ... def square():
    ...     x = numbers.dequeue()
    ...     squares.enqueue(x * x)
    >>> with ef.spawn(square):
    ...     numbers.enqueue_many([1, 2, 3])
    ...     squares.dequeue_many(3)
    Tensor([1, 4, 9], i64[3]@cpu:0)

    >>> lines = iter([1.0, 2.0, 3.0])
    >>> with ef.spawn(lambda: numbers.enqueue(int(next(lines))), closes=numbers):
    ...     numbers.dequeue_up_to(10)
    Tensor([1, 2, 3], i64[3]@cpu:0)
    """
    if tracer_of(interpreter.current()) is not None:
        raise TraceError(
            "spawn: within a traced function", hint="spawn runners outside, where they are started"
        )
    if not callable(fn):
        raise TraceError("spawn: this is no function", given=repr(fn))
    runner = Runner(fn, name, Closing(closes))
    ending.before(runner, Runner.at_exit)
    end = deadline.moment() if deadline.active() else None
    function: Any = fn
    if isinstance(fn, BoundFunction):
        args, function = (fn.__self__, *args), fn.__func__
    if isinstance(function, TracedFunction):
        if end is not None:
            runner.end_at(end)
        try:
            with interpreter.use(interpreter.BASE):
                _Steps(runner, function, args, kwargs).next()
        except BaseException:
            runner.abandon()
            raise
        return runner
    thread = threading.Thread(
        target=_call_in_thread,
        args=(runner, functools.partial(fn, *args, **kwargs), current_device(), end),
        name=f"eagerflow-{runner.name}",
        daemon=True,
    )
    ending.start(thread)
    return runner
