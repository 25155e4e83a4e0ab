"""Interpreters, which take the ops that are bound; each thread has a chain of its own.

The chain of a thread, from the top: *transforms* in the order of nesting (tapes, traces,
forward mode), then *monitors* (timing, NaN check), then the device that executes. Each interpreter
passes an op on to the next one (`below`), changed or unchanged. In plain eager mode there are no
interpreters and no device scopes: `stack.engaged` is False, which is all that the fast path reads.

What an interpreter knows of a value stands in the value's handle: `Mark`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar, copy_context
from functools import wraps
from threading import get_ident
from typing import Any, Final, ParamSpec, TypeVar, final
from weakref import ref

from eagerflow.core.composites import Composite
from eagerflow.hardware.device_scopes import all_open, end_since, latest, without_scope

_P = ParamSpec("_P")
_T = TypeVar("_T")


@final
class _Stack:
    """The flags and hooks of the fast path.

    Attributes:
        installed: whether any thread has an interpreter installed.
        scoped: whether any thread has a device scope open.
        engaged: whether ``installed`` or ``scoped``: the flag that the fast path reads.
        refusing: whether any thread refuses to move operands.
        execute: runs an op on the device of its inputs (filled by `eagerflow.core.execute`).
        resolve: finds the kernel for inputs on one lane, and remembers it (likewise).
        monitored: whether there is a monitor in any thread.
        monitor: the top of the process-wide monitors, if any.
        transforms: the transforms that are installed, each with its thread.
        monitors: the monitors that see ops; the monitors of the process are one entry.
        move: moves the inputs of an op to the device where it runs in the open device scope
            (filled by `eagerflow.core.moves_to_scopes`).
    """

    __slots__ = ("engaged", "execute", "installed", "lock", "monitor", "monitored",
                 "monitors", "move", "refusing", "resolve", "scoped", "transforms")  # fmt: skip

    def __init__(self) -> None:
        self.installed = self.scoped = self.engaged = self.refusing = False
        self.transforms: dict[AbstractInterpreter, int] = {}  # with the threads
        self.monitors: set[object] = set()
        self.monitored = False
        self.lock = threading.Lock()
        self.monitor: AbstractInterpreter | None = None
        self.execute: Callable[[Any, Sequence[Any], dict[str, Any]], Any]
        self.resolve: Callable[[Any, Sequence[Any], dict[str, Any], Any], Any]
        self.move: Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]

    @property
    def total(self) -> int:
        """The number of interpreters installed, in all threads together."""
        return len(self.monitors) + len(self.transforms)

    def hold(self, transform: AbstractInterpreter) -> None:
        """Register a transform as installed."""
        with self.lock:
            self.transforms[transform] = get_ident()
            self.installed = self.engaged = True

    def release(self, *transforms: AbstractInterpreter) -> None:
        """Unregister transforms; called again if Ctrl-C may have ended the first call."""
        with self.lock:
            for one in transforms:
                self.transforms.pop(one, None)
            self._look()

    def hold_monitor(self, monitor: object) -> None:
        """Register a monitor, or the entry for the monitors of the process."""
        with self.lock:
            self.monitors.add(monitor)
            self._look()

    def release_monitor(self, monitor: object) -> None:
        """Unregister a monitor; called again if Ctrl-C may have ended the first call."""
        with self.lock:
            self.monitors.discard(monitor)
            self._look()

    def _look(self) -> None:
        self.monitored = bool(self.monitors)
        self.installed = self.total > 0
        self.engaged = self.installed or self.scoped

    def note_scopes(self, some_open: bool) -> None:
        """Note whether any thread has a device scope open."""
        with self.lock:
            self.scoped = some_open
            self.engaged = self.installed or self.scoped


stack: Final = _Stack()
all_open.tell = stack.note_scopes


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
            return (top_monitor.get() or PROCESS).bind(op, inputs, attrs)
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
PROCESS: Final = _Process()
DEVICE: Final = _Device()
_current: ContextVar[AbstractInterpreter] = ContextVar("interpreter", default=BASE)
top_monitor: ContextVar[AbstractInterpreter | None] = ContextVar("monitor", default=None)
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


def unlink(top: ContextVar[Any], interpreter: AbstractInterpreter) -> None:
    """Remove ``interpreter`` from this thread's chain, wherever it is in the chain.

    Blocks need not end in the order of nesting: two generators may each hold a block open.
    """
    above = top.get()
    if above is interpreter:
        top.set(None if interpreter.below is PROCESS else interpreter.below)
        return
    while above is not None and above not in (BASE, PROCESS):
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
        unlink(_current, self._interpreter)
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
            unlink(_current, one)
            stack.release(one)
    if top is BASE or top in stack.transforms:
        _current.set(top)


# --- notes on values ------------------------------------------------------------------------------

#: the notes of interpreters on a value, a linked list in its handle, the innermost interpreter's
#: first: whose note, the note, the rest. They move with the value when a handle gets another value,
#: so `x[i] = v` and `x += v` are plain ops. A note refers to its owner weakly, so a value that
#: outlives its tape keeps neither the tape nor its records alive
Mark = tuple[ref[Any], Any, "Mark | None"]

_marking: Final = threading.Lock()


def find_note(mark: Mark | None, owner: ref[Any]) -> Any:
    """The last note of ``owner`` on a value, or None."""
    while mark is not None:
        if mark[0] is owner:
            return mark[1]
        mark = mark[2]
    return None


def attach_note(x: Any, owner: ref[Any], note: Any) -> None:
    """Set a note on the value of a tensor that other threads may hold.

    It replaces earlier notes of ``owner``. Notes of dead interpreters are dropped; else long-lived
    handles would accumulate them.
    """
    with _marking:
        x._mark = (owner, note, _without(x._mark, owner))


def strip_notes(x: Any, owner: ref[Any]) -> None:
    """Drop the notes of ``owner`` on the value of a tensor."""
    with _marking:
        x._mark = _without(x._mark, owner)


def _without(mark: Mark | None, owner: ref[Any]) -> Mark | None:
    """The notes without those of ``owner`` and of dead interpreters."""
    if mark is None:
        return None
    rest = _without(mark[2], owner)
    if mark[0] is owner or mark[0]() is None:
        return rest
    return mark if rest is mark[2] else (mark[0], mark[1], rest)
