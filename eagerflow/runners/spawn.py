"""`spawn`: functions that run again and again in the background, as TensorFlow's queue runners.

Their ends and errors: `runners/runner.py`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any, Final, ParamSpec, final, overload

from eagerflow import events
from eagerflow.core.interpreter import BASE, use
from eagerflow.core.monitors import Brake
from eagerflow.errors import TraceError, hide_frames, hides_frames
from eagerflow.events import step_of
from eagerflow.function.bound_function import BoundFunction
from eagerflow.function.traced_function import TracedFunction
from eagerflow.hardware import DeviceScope, current_device_scope
from eagerflow.hardware.device_scopes import within
from eagerflow.resources.waiting_operations import Interruptible, interruptible
from eagerflow.runners.closing import Closing
from eagerflow.runners.first_call import FirstCall, check_repeatable
from eagerflow.runners.runner import STOPPED, Runner
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.ending import ending
from eagerflow.source import capture
from eagerflow.tracing.tracer import current_tracer

_P = ParamSpec("_P")
#: keywords by which users ask for a number of runs
_COUNTS: Final = frozenset(
    {"count", "epochs", "iterations", "n", "num_steps", "repeat", "steps", "times"}
)
#: keywords by which users ask for a number of threads
_THREADS: Final = frozenset(
    {"max_workers", "n_jobs", "num_threads", "num_workers", "threads", "workers"}
)
#: keywords by which users name the queues to close
_ENDS: Final = frozenset({"close", "output", "outputs", "queue", "queues"})
_EACH: Final = (
    "each spawn starts one runner: runners = [ef.spawn(f, closes=queue) for _ in range(2)]; "
    "the last one that ends closes the queue"
)


@final
@dataclass(slots=True, eq=False)
class _Steps:
    """Runs a traced function for a runner, step after step, without a thread of its own."""

    runner: Runner
    function: TracedFunction[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    scope: DeviceScope | None = field(default_factory=current_device_scope)

    def next(self) -> None:
        """Begin the next step, or end the runner after the last one."""
        function, runner = self.function, self.runner
        if runner.is_done:
            runner.end()
            return
        with within(self.scope):
            call = function._lookup.signature.parse(self.args, self.kwargs)
            entry, captured = function._lookup.find(call, runs=False)
        if entry.is_left:
            entry.refuse(function.name, "a step of a runner")
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
        if runner.begin(step.cancel, lambda: step.thread):
            step.begin(inputs)
        else:
            runner.end()


def _call_in_thread(
    runner: Runner, call: Callable[[], object], first: FirstCall, where: DeviceScope | None,
    end: float | None,
) -> None:  # fmt: skip
    """Call a plain function for a runner, again and again, in this thread, until ``end``."""
    interruptible.holder = holder = Interruptible()
    brake = Brake(lambda: deadline.broken_off(STOPPED))
    step_of.runner = runner.name
    ident = threading.get_ident()

    def cancel(_: str) -> None:
        brake.pull()  # so that no op begins after the wait
        holder.stop()

    late = nullcontext() if end is None else deadline.ends_at(end)
    try:
        with within(where), late, brake, deadline.ends_when(lambda: brake.pulled):
            first.begin()
            while not runner.is_done and runner.begin(cancel, lambda: ident):
                result = call()
                if not runner.steps:
                    first.end(result)
                del result
                runner.count()
                if end is not None and monotonic() >= end:
                    raise deadline.too_late()
    except StopIteration as error:  # raised by an iterator that the function reads
        runner.end_run(events.describe(error))
        runner.end()
    except BaseException as error:
        hide_frames(error)
        runner.end(error)
    else:
        runner.end()


@overload
def spawn(
    fn: Callable[..., object], /, *args: Any, name: str | None, closes: Any = (),
    runs: float | None = None, **kwargs: Any,
) -> Runner: ...  # fmt: skip


@overload
def spawn(
    fn: Callable[..., object], /, *args: Any, closes: Any, runs: float | None = None, **kwargs: Any
) -> Runner: ...


@overload
def spawn(
    fn: Callable[..., object], /, *args: Any, runs: float | None, **kwargs: Any
) -> Runner: ...


@overload
def spawn(fn: Callable[_P, object], /, *args: _P.args, **kwargs: _P.kwargs) -> Runner: ...


@hides_frames
def spawn(
    fn: Callable[..., object], /, *args: Any, name: Any = None, closes: Any = (), runs: Any = None,
    **kwargs: Any,
) -> Runner:  # fmt: skip
    """Run a function again and again in the background, as TensorFlow's queue runners do.

    A traced function holds no thread while it waits for queues; all runners share the threads of a
    pool. Any other function gets a thread of its own. Return values are dropped: results belong in
    queues and variables.

    The runner ends when a queue that it needs is closed, when a function that is not traced raises
    ``StopIteration`` (as ``next`` does), after ``runs`` runs, when it is stopped (which cancels its
    waits), or with an error, which `Runner.join` and `Runner.stop` raise; if neither does at once,
    the error is printed. As a context manager the runner is stopped at the end of the block; of
    nested blocks, in any order, the error of the runner that failed first is raised.

    Args:
        fn: the function.
        args: its arguments.
        name: the name of the runner, in messages and lists of threads; by default that of the
            function, with a number.
        closes: queues, barriers, or others with ``close``, to close at its end, so that no reader
            waits for more. Of several runners that name an object the last to end closes it, but a
            runner that ends with an error closes a queue at once, and cancels its pending puts.
        runs: the number of runs after which it ends: 1 for a function with a loop of its own. By
            default any number, with a warning if a finished loop is repeated; without for `ef.inf`.
        kwargs: keyword arguments of the function.

    Raises:
        TraceError: the call is in a traced function, or ``fn`` is not a function, or is a generator
            or coroutine function, or its tracing fails.

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
    _check_function(fn)
    _check_arguments(fn, args, kwargs)
    runner = Runner(fn, name, Closing(closes), _checked_runs(runs))
    ending.before(runner, Runner.at_exit)
    _start(runner, fn, args, kwargs, FirstCall(fn, capture(), runs is None))
    return runner


def _check_function(fn: Any) -> None:
    """Refuse what cannot be run again and again, and all in a trace."""
    if current_tracer() is not None:
        raise TraceError(
            "spawn: within a traced function", hint="spawn runners outside, where they are started"
        )
    if not callable(fn):
        raise TraceError("spawn: the argument is not a function", given=repr(fn))
    check_repeatable(fn)


def _check_arguments(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that the function does not take, before its first run."""
    function, given = fn, args
    if isinstance(fn, BoundFunction):
        function, given = fn.__func__, (fn.__self__, *args)
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C that does not say
        return
    try:
        parameters.bind(*given, **kwargs)
    except TypeError as wrong:
        what = _unknown_keywords(parameters, kwargs) or str(wrong)
        error = TypeError(f"spawn: {getattr(fn, '__name__', 'the function')}() {what}")
        if _COUNTS.intersection(kwargs):
            error.add_note("  hint: runs=100 is the number of runs; other keywords are arguments")
        if _THREADS.intersection(kwargs):
            error.add_note(f"  hint: {_EACH}")
        if _ENDS.intersection(kwargs):
            error.add_note("  hint: closes=queue names what the runner closes at its end")
        raise error from None


def _unknown_keywords(signature: inspect.Signature, given: Iterable[str]) -> str:
    """What is wrong with keywords that a function does not take, all of them; empty if it does."""
    parameters = signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return ""
    taken = [p.name for p in parameters.values() if p.kind is not p.POSITIONAL_ONLY]
    unknown = [repr(name) for name in given if name not in taken]
    if not unknown:
        return ""
    return (
        f"got unexpected keyword arguments {', '.join(unknown)}"
        if len(unknown) > 1
        else f"got an unexpected keyword argument {unknown[0]}"
    )


def _checked_runs(runs: Any) -> float:
    """The number of runs, infinite for None."""
    if runs is None or runs == inf:
        return inf
    if type(runs) is not int or runs < 1:
        raise TraceError(f"spawn: runs={runs!r}", expected="an int of at least 1, or ef.inf")
    return runs


def _start(
    runner: Runner, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], first: FirstCall
) -> None:
    """Begin the first step of a traced function, or the thread of a plain one."""
    end = deadline.moment() if deadline.active() else None
    function, given = fn, args
    if isinstance(fn, BoundFunction):
        function, given = fn.__func__, (fn.__self__, *args)
    if isinstance(function, TracedFunction):
        if end is not None:
            runner.end_at(end)
        try:
            with use(BASE):
                _Steps(runner, function, given, kwargs).next()
        except BaseException:
            runner.abandon()
            raise
    else:
        call = functools.partial(fn, *args, **kwargs)
        thread = threading.Thread(
            target=_call_in_thread, args=(runner, call, first, current_device_scope(), end),
            name=f"eagerflow-{runner.name}", daemon=True,
        )  # fmt: skip
        ending.start(thread)
