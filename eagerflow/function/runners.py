"""`spawn`: functions that run again and again in the background, as TensorFlow's queue runners."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, Final, final

from eagerflow import events
from eagerflow.core import interpreter
from eagerflow.errors import CancelledError, QueueClosedError, TraceError, hide_frames
from eagerflow.function.entry import Trace, leaf_values
from eagerflow.function.traced import BoundFunction, TracedFunction
from eagerflow.graph.trace import tracer_of
from eagerflow.hardware import current_device, device
from eagerflow.resources.attempts import Interruptible, interruptible
from eagerflow.runtime.detached import DetachedStep
from eagerflow.runtime.executor import Executor
from eagerflow.runtime.on_behalf import step_of

__all__ = ["Runner", "spawn"]

_serial: Final = itertools.count(1)
_executors: Final[weakref.WeakKeyDictionary[Trace, Executor]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()
_STOPPED: Final = "its runner was stopped"


@final
class Runner:
    """A function that runs again and again in the background. `spawn` makes and starts one.

    It ends when a queue is closed that it needs (a `QueueClosedError` is no error of a runner, but
    the end of its work), when it is stopped, or with an error, which `join` and `stop` raise.

    Attributes:
        name: of the runner, for people.
    """

    def __init__(self, fn: Any, name: str | None) -> None:
        base = str(getattr(fn, "name", None) or getattr(fn, "__name__", type(fn).__name__))
        self._number = next(_serial)
        self.name = name or f"{base}-{self._number}"
        self._started = 0.0
        self._lock = threading.Lock()
        self._steps = 0
        self._stopped = False
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._cancel: Callable[[], object] = _nothing

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

    def stop(self) -> None:
        """End it: what its run waits for is cancelled, and there is no other one.

        Raises:
            BaseException: the error that it had ended with before.
        """
        self.cancel()
        self.join()

    def cancel(self) -> None:
        """As `stop`, but it does not wait for the end."""
        with self._lock:
            self._stopped = True
            cancel = self._cancel
        cancel()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended.

        Args:
            timeout: how many seconds to wait at most.

        Returns:
            Whether it has ended.

        Raises:
            BaseException: the error that it ended with.
        """
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def __repr__(self) -> str:
        state = "running" if self.running else "ended"
        if self._error is not None:
            state = f"ended with {type(self._error).__name__}"
        runs = f"{self._steps} run{'s' * (self._steps != 1)}"
        return f"<runner {self.name}: {state}, {runs}>"

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.cancel()
        if kind is None:
            self.join()
        else:  # that error counts for more
            self._ended.wait()

    # --- for those that run it ---

    def begin(self, start: Callable[[], object], cancel: Callable[[], object]) -> bool:
        """Begin another run, unless it was stopped; ``cancel`` ends that early."""
        with self._lock:
            if self._stopped:
                return False
            self._cancel = cancel
            self._started = perf_counter()
            start()
            return True

    def count(self) -> None:
        """Another run has come to its end."""
        self._steps += 1
        if events.listening():
            run = events.Event(
                kind="run", name=self.name, device="", start=self._started,
                stop=perf_counter(), thread=-self._number,
            )  # fmt: skip
            events.emit(run)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        fine = isinstance(error, QueueClosedError) or (
            self._stopped and isinstance(error, CancelledError)
        )
        with self._lock:
            self._cancel = _nothing
        if error is not None and not fine:
            error.add_note(f"  in the runner {self.name}, after {self._steps} runs")
            self._error = error
            lines = traceback.format_exception(error)
            text = f"The runner {self.name} has ended with an error:\n{''.join(lines)}"
            sys.stderr.write(text)  # in one piece, as other threads may write
        self._ended.set()


def _nothing() -> None:
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
        leaves = leaf_values(call.leaves)

        def done(result: Callable[[], Sequence[Any]]) -> None:
            try:
                entry.finish(result(), leaves, call.values)
                runner.count()
                self.next()
            except BaseException as error:
                hide_frames(error)
                runner.end(error)

        step = DetachedStep(_executor_of(entry), done, runner=runner.name)
        inputs = entry.raw_inputs(leaves, captured)
        if not runner.begin(lambda: step.begin(inputs), lambda: step.cancel(_STOPPED)):
            runner.end()


def _executor_of(entry: Trace) -> Executor:
    with _lock:
        found = _executors.get(entry)
        if found is None:
            found = _executors[entry] = Executor(entry.optimised)
        return found


def _call_in_thread(runner: Runner, call: Callable[[], object], where: Any) -> None:
    """Call a plain function for a runner, again and again, in this thread."""
    interruptible.holder = holder = Interruptible()
    step_of.runner = runner.name
    try:
        with device(where):
            while runner.begin(_nothing, holder.stop):
                call()
                runner.count()
    except BaseException as error:
        hide_frames(error)
        runner.end(error)
    else:
        runner.end()


def spawn(fn: Callable[..., Any], /, *args: Any, name: str | None = None, **kwargs: Any) -> Runner:
    """Run a function again and again in the background: what TensorFlow calls a queue runner.

    A traced function holds no thread while it waits for queues; the threads that there are are
    shared by all runners. Any other function gets a thread of its own. What a run returns is
    dropped: the results are in queues and variables.

    The runner ends when a queue that it needs is closed, when it is stopped (what it waits for is
    cancelled then), or with an error, which is printed, and raised by `Runner.join` and
    `Runner.stop`. As a context manager it is stopped at the end of the block.

    Args:
        fn: the function.
        args: its arguments.
        name: of the runner, in messages and lists of threads; by default that of the function,
            with a number.
        kwargs: keyword arguments of the function.

    Raises:
        TraceError: in a traced function, or what tracing ``fn`` raises.

    >>> numbers, squares = ef.Queue(2, ef.tensor(0)), ef.Queue(2, ef.tensor(0))
    >>> @ef.trace
    ... def square():
    ...     x = numbers.dequeue()
    ...     squares.enqueue(x * x)
    >>> with ef.spawn(square):
    ...     numbers.enqueue_many([1, 2, 3])
    ...     squares.dequeue_many(3)
    Tensor([1, 4, 9], i64[3]@cpu:0)
    """
    if tracer_of(interpreter.current()) is not None:
        raise TraceError(
            "spawn: within a traced function", hint="spawn runners outside, where they are started"
        )
    runner = Runner(fn, name)
    function: Any = fn
    if isinstance(fn, BoundFunction):
        args, function = (fn.__self__, *args), fn.__func__
    if isinstance(function, TracedFunction):
        with interpreter.use(interpreter.BASE):
            _Steps(runner, function, args, kwargs).next()
        return runner
    thread = threading.Thread(
        target=_call_in_thread,
        args=(runner, functools.partial(fn, *args, **kwargs), current_device()),
        name=f"eagerflow-{runner.name}",
        daemon=True,
    )
    thread.start()
    return runner
