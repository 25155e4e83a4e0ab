"""Interpreters, which take the ops that are bound; each thread has a chain of its own.

The chain of a thread, from the top: *transforms* in the order of nesting (tapes, traces,
forward mode), then *monitors* (timing, NaN check), then the device that executes. Each interpreter
passes an op on to the next one (`below`), changed or unchanged. In plain eager mode there are no
interpreters and no device scopes: `stack.engaged` is False, which is all that the fast path reads.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar, copy_context
from functools import wraps
from threading import get_ident
from typing import Any, Final, ParamSpec, TypeVar, final

from eagerflow.core.composites import Composite
from eagerflow.core.stack import stack
from eagerflow.hardware.device_scopes import end_since, latest, without_scope

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AbstractInterpreter(ABC):
    """An interpreter of the ops bound in its thread, installed at most once at a time.

    Attributes:
        below: the next interpreter in the chain.
        observes: whether `bind` is to bind the op below and then to call `observe`.
        looks_on: whether an op may be executed at once and only be shown to `observe`: the
            interpreter observes, and there is no interpreter below.
        traces: whether ops are recorded and not executed: values are symbolic.
    """

    below: AbstractInterpreter
    observes = False
    looks_on = False
    traces = False

    @abstractmethod
    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Apply ``op`` to tensors; returns a tensor or a tuple of tensors."""

    def observe(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any], result: Any) -> None:
        """Observe an op that was applied. ``attrs`` may not be changed."""

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Apply a composite; unless it is differentiated, its body is run."""
        with use(self):
            return composite.body(*inputs)

    def rebind(self, handle: Any, value: Any) -> None:
        """Put the value of the tensor ``value`` into ``handle`` (``x[i] = v``, ``x += v``)."""
        self.below.rebind(handle, value)

    def made(self, value: Any) -> None:
        """Take note of a tensor that was made from data without an op."""
        self.below.made(value)

    def created(self, resource: Any, value: Any) -> None:
        """Take note of a resource that was created with an initial value."""
        self.below.created(resource, value)

    def looked(self, value: Any) -> None:
        """Take note that Python reads the elements of a tensor."""
        self.below.looked(value)


class AbstractTracer(AbstractInterpreter):
    """A transform that appends nodes to a graph, for ops and for arithmetic of Python numbers.

    Attributes:
        repeats: whether it traces the body or condition of a loop.
        follows_numpy: whether the ops that are bound stand for a call of NumPy.
    """

    traces = True
    repeats = False
    follows_numpy = False

    @abstractmethod
    def owns(self, x: Any) -> bool:
        """Whether the tensor ``x`` was made in this trace, not in an enclosing one or outside."""

    @property
    @abstractmethod
    def newest(self) -> Any:
        """The node that was appended last."""

    @abstractmethod
    def item(self, x: Any) -> Any:
        """The element of a tensor without axes, as a number of the graph."""

    @abstractmethod
    def compare(self, op: str, *operands: Any) -> Any:
        """A comparison of numbers, some of which are known only when the graph runs."""


class AbstractDifferentiator(AbstractInterpreter):
    """A tape or forward mode: it is notified when ops come from derivative rules.

    A comparison in a rule selects the slope of a function, and is no dependence through which a
    derivative would have to flow.
    """

    def begin_rules(self) -> None:
        """Take note that the ops from now on come from rules."""

    def end_rules(self) -> None:
        """End a `begin_rules`; called once for each."""

    @abstractmethod
    def follows(self, x: Any) -> bool:
        """Whether a derivative flows through the value of the tensor ``x``."""

    def knows(self, x: Any) -> bool:
        """As `follows`, even while recording is paused."""
        return self.follows(x)

    def watches(self, resource: Any) -> bool:
        """Whether a derivative is taken with respect to the variable of that resource."""
        return False

    def assigned(self, resource: Any, source: Any) -> None:
        """Take note that a composite assigned a variable, in the line ``source``."""


def differentiators() -> Iterator[AbstractDifferentiator]:
    """The differentiators of this thread's chain, from the top."""
    interpreter = current()
    while interpreter is not BASE:
        if isinstance(interpreter, AbstractDifferentiator):
            yield interpreter
        interpreter = interpreter.below


def is_followed(x: Any, within: AbstractInterpreter | None = None) -> bool:
    """Whether a differentiator of this thread's chain follows the value of the tensor ``x``.

    Args:
        x: the tensor.
        within: the interpreter at which the search ends; by default the bottom of the chain.
    """
    interpreter = current()  # called by rules for each cotangent: a generator costs too much
    while interpreter is not BASE and interpreter is not within:
        if isinstance(interpreter, AbstractDifferentiator) and interpreter.follows(x):
            return True
        interpreter = interpreter.below
    return False


def is_differentiated() -> bool:
    """Whether there is a differentiator in this thread's chain."""
    return next(differentiators(), None) is not None


@final
class applying_rules:
    """Notify all differentiators of this thread's chain that rules run within the block.

    A rule runs on the device of the op that it belongs to, whatever scope is open.
    """

    __slots__ = ("_scope", "_told")

    def __enter__(self) -> None:
        self._told = [*differentiators()]
        self._scope = without_scope() if stack.scoped else None
        for one in self._told:
            one.begin_rules()

    def __exit__(self, *raised: object) -> None:
        if self._scope is not None:
            self._scope.end()
        for one in self._told:
            one.end_rules()


def tracer_among(interpreter: AbstractInterpreter) -> AbstractTracer | None:
    """The first trace from ``interpreter`` downwards, or None."""
    while interpreter is not BASE:
        if isinstance(interpreter, AbstractTracer):
            return interpreter
        interpreter = interpreter.below
    return None


def is_traced() -> bool:
    """Whether an op that is bound now in this thread becomes part of a graph.

    >>> from eagerflow.extending import is_traced
    >>> is_traced(), ef.trace(lambda: 1 if is_traced() else 0)()
    (False, 1)
    """
    if not stack.installed:
        return False
    interpreter = current()
    while interpreter is not BASE and not interpreter.traces:
        interpreter = interpreter.below
    return interpreter.traces


@final
class _Base(AbstractInterpreter):
    """The base of every chain: the monitors of the thread or the process, then the device."""

    looks_on = True

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        if stack.monitored:
            return (_monitor.get() or _PROCESS).bind(op, inputs, attrs)
        return stack.execute(op, inputs, attrs)

    def rebind(self, handle: Any, value: Any) -> None:
        handle._data = value._data
        handle._lane = value._lane
        handle._mark = value._mark

    def made(self, value: Any) -> None:
        """Ignored."""

    def created(self, resource: Any, value: Any) -> None:
        """Ignored."""

    def looked(self, value: Any) -> None:
        """Ignored."""


@final
class _Process(AbstractInterpreter):
    """The link from the monitors of a thread to the current monitors of the process."""

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        monitor = stack.monitor
        if monitor is not None:
            return monitor.bind(op, inputs, attrs)
        return stack.execute(op, inputs, attrs)


@final
class _Device(AbstractInterpreter):
    """The end of the chain, below all monitors: execution."""

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        return stack.execute(op, inputs, attrs)


BASE: Final = _Base()
_PROCESS: Final = _Process()
_DEVICE: Final = _Device()
_current: ContextVar[AbstractInterpreter] = ContextVar("interpreter", default=BASE)
_monitor: ContextVar[AbstractInterpreter | None] = ContextVar("monitor", default=None)
current: Final = _current.get


@final
class use:
    """Make ``interpreter``, unchanged, the top of this thread's chain within the block."""

    __slots__ = ("_interpreter", "_token")

    def __init__(self, interpreter: AbstractInterpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        self._token = _current.set(self._interpreter)

    def __exit__(self, *raised: object) -> None:
        _current.reset(self._token)


def _unlink(top: ContextVar[Any], interpreter: AbstractInterpreter) -> None:
    """Remove ``interpreter`` from this thread's chain, wherever it is in the chain.

    Blocks need not end in the order of nesting: two generators may each hold a block open.
    """
    above = top.get()
    if above is interpreter:
        top.set(None if interpreter.below is _PROCESS else interpreter.below)
        return
    while above is not None and above not in (BASE, _PROCESS):
        if above.below is interpreter:
            above.below = interpreter.below
            above.looks_on = above.observes and above.below is BASE
            return
        above = above.below


@final
class installed:
    """Put a transform on top of this thread's chain for the length of the block."""

    __slots__ = ("_interpreter",)

    def __init__(self, interpreter: AbstractInterpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        interpreter = self._interpreter
        interpreter.below = below = current()
        interpreter.looks_on = interpreter.observes and below is BASE
        try:
            stack.hold(interpreter)  # first, so that all interpreters of a chain are in the table
            _current.set(interpreter)
        except BaseException:  # Ctrl-C, or the end of Python's stack: the block is not entered
            self.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._leave()
        except BaseException:  # Ctrl-C while the block is left
            self._leave()
            raise

    def _leave(self) -> None:
        _unlink(_current, self._interpreter)
        stack.release(self._interpreter)
        self._interpreter.below = BASE  # keeps no other interpreter alive


def isolated(call: Callable[[], _T]) -> _T:
    """Run ``call()`` and restore the chain of this thread, however the call ends.

    It holds for a Ctrl-C at the begin or end of a block in the call, too. Context variables that
    the call sets are restored.
    """
    before = {*stack.transforms}
    try:
        return copy_context().run(call)
    except BaseException:
        own = [one for one, thread in [*stack.transforms.items()] if thread == get_ident()]
        stack.release(*[one for one in own if one not in before])
        raise


def unwinds(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function to restore the chain and the scopes of its thread if Ctrl-C ends it.

    ``with`` blocks do so themselves, unless Ctrl-C comes while a block begins or ends. Errors are
    left to the blocks: a generator that is suspended in a block continues in it.
    """

    @wraps(function)
    def unwinding(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        top, scope, before = current(), latest(), {*stack.transforms}
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not isinstance(error, Exception):
                _unwind(top, before)
                end_since(scope)
            raise

    return unwinding


def _unwind(top: AbstractInterpreter, before: Collection[AbstractInterpreter]) -> None:
    """Remove what this thread has installed since; restore ``top`` if it is still installed."""
    me = get_ident()
    for one in [one for one, thread in [*stack.transforms.items()] if thread == me]:
        if one not in before:
            _unlink(_current, one)
            stack.release(one)
    if top is BASE or top in stack.transforms:
        _current.set(top)


@final
class monitored:
    """Put a monitor below the transforms of this thread for the length of the block."""

    __slots__ = ("_interpreter",)

    def __init__(self, interpreter: AbstractInterpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        self._interpreter.below = _monitor.get() or _PROCESS
        try:
            stack.hold_monitor(self._interpreter)
            _monitor.set(self._interpreter)
        except BaseException:  # Ctrl-C, or the end of Python's stack: the block is not entered
            self.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._leave()
        except BaseException:  # Ctrl-C while the block is left
            self._leave()
            raise

    def _leave(self) -> None:
        _unlink(_monitor, self._interpreter)
        stack.release_monitor(self._interpreter)


@final
class Brake(AbstractInterpreter):
    """Cancellation of a thread's ops by another thread: from `pull` on each op raises.

    It is a monitor for the length of a block, and costs ops nothing before `pull`. Running graphs
    do not see it; they ask their step (see `eagerflow.events.step_of`).

    Args:
        failure: makes the error.

    Attributes:
        pulled: whether the thread is to end its work.
    """

    def __init__(self, failure: Callable[[], Exception]) -> None:
        self.pulled = False
        self._failure = failure
        self._lock = threading.Lock()
        self._on = False

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        if self.pulled:
            raise self._failure()
        return self.below.bind(op, inputs, attrs)

    def pull(self) -> None:
        """Let the ops of the thread raise, until its block ends. Any thread may call it."""
        with self._lock:
            self.pulled = True
            if self._on:  # from now on ops check for monitors
                stack.hold_monitor(self)

    def __enter__(self) -> Brake:
        self.below = _monitor.get() or _PROCESS
        _monitor.set(self)
        with self._lock:
            self._on = True
        return self

    def __exit__(self, *raised: object) -> None:
        _unlink(_monitor, self)
        with self._lock:
            self._on = False
            stack.release_monitor(self)


def monitors() -> Iterator[AbstractInterpreter]:
    """The monitors that see the ops of this thread, from the top."""
    monitor = _monitor.get() or stack.monitor
    while monitor is not None and monitor is not _DEVICE:
        if monitor is _PROCESS:
            monitor = stack.monitor
        else:
            if type(monitor) is not Brake:
                yield monitor
            monitor = monitor.below


def set_process_monitors(monitors: Sequence[AbstractInterpreter]) -> None:
    """Replace the monitors of all threads; the first is on top."""
    below: AbstractInterpreter = _DEVICE
    for monitor in reversed(monitors):
        monitor.below = below
        below = monitor
    stack.monitor = below if monitors else None
    if monitors:
        stack.hold_monitor(_PROCESS)
    else:
        stack.release_monitor(_PROCESS)
