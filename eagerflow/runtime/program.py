"""`Program`: a graph made ready to run, the interpreter tier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, Final, final
from weakref import WeakSet

from eagerflow import events, settings
from eagerflow.errors import CancelledError, DeadlineError
from eagerflow.events import NodeEvent
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Lane
from eagerflow.resources.mutex import this_thread
from eagerflow.runtime import deadline
from eagerflow.runtime.choice import Choice
from eagerflow.runtime.codegen import Code
from eagerflow.runtime.on_behalf import step_of
from eagerflow.runtime.quiet import QUIET, error_state
from eagerflow.runtime.region_code import RegionCode, follow_kernels
from eagerflow.runtime.waiting import mutexes_of

__all__ = ["Program"]

_serial: Final = count(1)
_lock: Final = Lock()
_programs: Final[WeakSet[Program]] = WeakSet()


@final
class Program:
    """A graph made ready to run: kernels looked up once, one call of each in a generated function.

    Called with raw arrays (what tensors hold) for the inputs that are tensors, and Python numbers
    for the others, it gives a tuple of the same. A value is dropped after its last use. Calls from
    many threads do not disturb each other.

    Parts that take at least 200 us each and do not need each other run at once, in threads, where
    that turns out to be faster (see `eagerflow.runtime.choice`). Whether there may be such parts is
    decided by the sizes of the first call.

    Args:
        graph: the graph. It must not change afterwards.
        parallel: whether parts of it may run at once.

    Attributes:
        graph: the graph.
        lanes: for each output its lane, or None for a number.
        number: tells the events of this program from those of others.

    Raises:
        GraphError: something in the graph cannot run.

    >>> from eagerflow.runtime import Program
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> (y,) = Program(graph)(ef.zeros(2).numpy())
    >>> y
    array([1., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_choice", "_code", "_mutexes", "_region", "_undecided", "graph",
                 "lanes", "number")  # fmt: skip

    def __init__(self, graph: Graph, *, parallel: bool = True) -> None:
        self.graph = graph
        self.number = next(_serial)
        self._region = RegionCode(graph, self.number, graph.name)
        self.lanes: tuple[Lane | None, ...] = self._region.lanes
        self._region.plain()  # what cannot run is refused now
        self._mutexes = mutexes_of(graph)
        self._undecided = parallel
        self._choice: Choice | None = None
        self._code: Code | None = None  # where nothing else is to be looked at
        follow_kernels(self)
        with _lock:
            _programs.add(self)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
            DeadlineError: it took longer than its `ef.deadline` allowed.
        """
        code = self._code
        if code is None or events.listening() or deadline.active():
            return self._observe(inputs)
        token = error_state.set(QUIET)
        try:
            return code.run(*inputs)
        except Exception as error:
            failed = self._region.failure(code, error)
        finally:
            error_state.reset(token)
        try:
            raise failed
        finally:
            del failed, inputs  # an exception whose frame holds them would keep them alive

    def _observe(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not events.listening():
            return self._choose(inputs)
        start = perf_counter()
        try:
            return self._choose(inputs)
        finally:
            self._region.observer.step(start)
            del inputs

    def _choose(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._undecided:
            self._choice = None
            if Choice.needed(self.graph, inputs):
                self._choice = Choice(self.graph, self.number)
            self._undecided = False
        choice = self._choice
        executor = None if choice is None else choice.pick(inputs)
        if choice is None or choice.straight:
            self._code = None if self._mutexes else self._region.plain()
            return self._straight(inputs)
        start = perf_counter()
        found = self._straight(inputs) if executor is None else executor.run(inputs)
        if not NodeEvent.listeners:
            choice.took(executor, perf_counter() - start)
        return found

    def _straight(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run all in this thread."""
        end = deadline.moment() if deadline.active() else None
        around = step_of.stopped
        held = [(mutex, mutex.holds) for mutex in self._mutexes]

        def stopped() -> bool:
            late = end is not None and monotonic() >= end
            return late or (around is not None and around())

        if end is not None:
            if stopped():
                raise deadline.too_late()
            step_of.stopped = stopped
        token = error_state.set(QUIET)
        try:
            return self._region.run(inputs)
        except DeadlineError:
            raise
        except CancelledError as error:
            if end is None or monotonic() < end:
                raise
            failed = deadline.too_late()
            for note in getattr(error, "__notes__", ()):
                failed.add_note(note)
        finally:
            error_state.reset(token)
            step_of.stopped = around
            for mutex, before in held:  # if it has failed in between
                mutex.drop_held_by(this_thread(), before)
            del inputs
        raise failed

    @property
    def text(self) -> str:
        """The generated functions."""
        choice = self._choice
        if choice is not None and choice.executor is not None:
            return choice.executor.text
        return self._region.plain().text

    def forget(self) -> None:
        """Compile anew before the next run, as kernels have changed."""
        self._region.forget()
        self._code = None

    def uses(self, op: str) -> bool:
        """Whether a kernel of that op is called."""
        return self._region.uses(op)

    def __repr__(self) -> str:
        return f"<program of {self.graph!r}>"


def _threads_may_change(old: settings.Settings, new: settings.Settings) -> None:
    """Which way to run is the faster one depends on the number of threads."""
    if old.threads != new.threads:
        with _lock:
            for program in _programs:
                program._code = None


settings.on_change(_threads_may_change)
