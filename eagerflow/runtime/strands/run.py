"""A run of strands: which strand goes on next, and waits for results that no strand brings.

Such results come from a waiting op, such as one of a queue; from a heavy region, which another
thread may run while strands of other devices go on; and from a device that is still making a
value. The strand gives up control; a callback from any thread ends the wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Protocol, final

from eagerflow.errors import CancelledError, SchedulerError, relocate
from eagerflow.events import step_of
from eagerflow.graph.ir import Node
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware import Backend, Device, as_device, to_host
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.resources.waiting_operations import interruptible
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.late_values import LateValue, Then
from eagerflow.runtime.rendezvous.credits import nbytes_of
from eagerflow.runtime.strands.edges import Strand
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.workers import shared


class RunsGraph(Protocol):
    """A tier that runs a graph.

    Attributes:
        number: of the executable, for events.
        graph: the graph.
    """

    @property
    def number(self) -> int: ...
    @property
    def graph(self) -> Any: ...


#: starts an op that waits, as in `eagerflow.runtime.scheduled.actions.asynchronous`
Begin = Callable[..., Callable[[], object] | None]
#: gives for a node the function that runs it while it need not wait, as ``at_once`` there
AtOnce = Mapping[str, Callable[[Node], Callable[[Sequence[Any]], Any] | None]]


@final
class Awaited:
    """A result that a strand waits for, and any thread may bring: `done` or `failed`, once.

    Attributes:
        tier: the tier that the node belongs to.
        node: the node.
        over: whether the result, or an error, is there.
        waiting: the strand that waits for it.
        stop: called when its result is no longer wanted.
        work: a piece of the work that a device does for it only while a thread waits.
        nbytes: the bytes of the value that it brings, as credit counts them.
    """

    __slots__ = ("_error", "_run", "_values", "nbytes", "node", "over", "stop", "tier", "waiting",
                 "work")  # fmt: skip

    def __init__(self, run: StrandRun, node: Node, nbytes: int = 0) -> None:
        self.tier = run.tier
        self.nbytes = nbytes
        self.work: Callable[[], object] | None = None
        self.node = node
        self.over = False
        self.waiting: Strand | None = None
        self.stop: Callable[[], object] | None = None
        self._run = run
        self._values: tuple[Any, ...] = ()
        self._error: BaseException | None = None

    def done(self, *values: Any) -> None:
        """End the wait with results: raw arrays and numbers."""
        self._end(values, None)

    def failed(self, error: BaseException) -> bool:
        """End the wait with an error; whether this was the first answer, in a step under way."""
        return self._end((), error)

    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""
        self._run.at_end.append(action)

    def _end(self, values: tuple[Any, ...], error: BaseException | None) -> bool:
        run = self._run
        with run.lock:
            if self.over or run.ended:
                return False
            self._values, self._error = values, error
            self.over = True
            run.pending.pop(self, None)
            run.arrived.append(self)
            run.ring()
        return True

    def take(self) -> tuple[Any, ...]:
        """The results; to be called once.

        Raises:
            EagerflowError: the node has failed.
        """
        values, self._values = self._values, ()
        error, self._error = self._error, None
        if error is None:
            return values
        try:
            raise error
        finally:
            del error


#: the wait for a heavy region, the region, its operands, its writes, and the loops around it
_Heavy = tuple[Awaited, Callable[..., Any], list[Any], Written | None, Any]


@final
class StrandRun:
    """One step, run in its caller's thread, with help of others for heavy regions.

    Args:
        tier: the tier with the graph.
        helpers: number of pool threads that may help.
        written: records what the step has written.

    Attributes:
        tier: the same.
        ready: the strands that can go on.
        arrived: waits that have ended, and whose strands are to go on.
        written: the same.
        writing: the writes of the region that was begun last in the thread of the step.
        at_end: functions to be called when the step ends.
        pending: waits for values that devices are still making.
        lock: guards all state that other threads touch.
        ended: whether answers are no longer wanted.
    """

    def __init__(self, tier: RunsGraph, helpers: int, written: Written) -> None:
        self.tier = tier
        self.ready: deque[Strand] = deque()
        self.arrived: deque[Awaited] = deque()
        self.written = written
        self.writing: Written | None = None
        self.at_end: list[Callable[[], object]] = []
        self.pending: dict[Awaited, None] = {}
        self.lock = threading.Lock()
        self.ended = False
        self._waits: dict[Awaited, None] = {}  # results that strands wait for now
        self._heavy: deque[_Heavy] = deque()
        self._free = helpers  # threads that may still be asked for help
        self._helping = 0
        self._bell = threading.Lock()
        self._bell.acquire()
        self._sleeping = False
        self._interrupted = False
        self._limit = helpers

    # --- for the code of strands ---

    def begin(self, start: Begin, node: Node, given: list[Any], begun: Any = None) -> Awaited:
        """Begin an op that may have to wait, or continue with the attempt that has ``begun``."""
        awaited = Awaited(self, node)
        stop = start(node, given, awaited, *([] if begun is None else [begun]))
        if not awaited.over:
            awaited.stop = stop
        return awaited

    def apart(
        self, region: Callable[..., Any], node: Node, given: list[Any],
        writes: Written | None = None,
    ) -> Awaited:  # fmt: skip
        """Run a heavy region, with these ``writes``, while other strands go on."""
        awaited = Awaited(self, node)
        with self.lock:
            self._heavy.append((awaited, region, given, writes, step_of.frames))
        return awaited

    def late(self, node: Node, value: Any, backend: Backend) -> Awaited:
        """Wait for a value that the host reads for a node, until it is there or has failed."""
        awaited = Awaited(self, node)
        if type(value) is not backend.array_type or backend.ready(value):
            awaited.over = True
        else:
            self._call_when_ready(awaited, value, backend, lambda error: awaited.done())
        return awaited

    def read(self, node: Node, value: Any, device: Device) -> Awaited:
        """Bring a value of a device to the memory of the host, as soon as it is there."""
        return self._moved(node, value, partial(to_host, value, device), device)

    def moved(self, node: Node, value: Any, move: Callable[[], Any]) -> Awaited:
        """Move the value of a Send, as soon as it is there."""
        return self._moved(node, value, move, as_device(node.device))

    def _moved(
        self, node: Node, value: Any, move: Callable[[], Any], device: Device
    ) -> Awaited:  # fmt: skip
        """Move a value as soon as it is there, in the thread that is notified of that."""
        awaited = Awaited(self, node, nbytes_of(value))

        def ready(error: Exception | None) -> None:
            if error is None:
                try:
                    awaited.done(move())
                    return
                except BaseException as failure:  # without an answer its strand waits for ever
                    awaited.failed(failure)
                    return
            awaited.failed(error)

        if type(value) is device.backend.array_type:
            self._call_when_ready(awaited, value, device.backend, ready)
        else:  # it is in the memory of the host
            ready(None)
        return awaited

    def _call_when_ready(
        self, awaited: Awaited, value: Any, backend: Backend, then: Then
    ) -> None:  # fmt: skip
        late = LateValue(then)
        awaited.stop = late.stop
        self.pending[awaited] = None
        awaited.work = backend.when_ready(value, late.ready)

    # --- the thread that runs the step ---

    def run(self, strands: Sequence[Strand]) -> list[tuple[Any, ...]]:
        """Run strands to their end; returns the outputs of each, in order.

        Raises:
            CancelledError: the thread is to stop.
            SchedulerError: the strands wait for each other.
        """
        ready, arrived, ended = self.ready, self.arrived, dict[Strand, tuple[Any, ...]]()
        ready += strands
        while True:
            while arrived:
                awaited = arrived.popleft()
                self._waits.pop(awaited, None)
                if awaited.waiting is not None:
                    ready.append(awaited.waiting)
            if self._interrupted or step_of.stopped is not None:
                self._check()
            if ready:
                strand = ready.popleft()
                try:
                    awaits = next(strand)
                except StopIteration as end:
                    ended[strand] = end.value
                    continue
                awaits.waiting = strand
                if type(awaits) is Awaited:
                    self._waits[awaits] = None
            elif self._heavy:
                self._call_help()
                self._run_heavy()
            elif self._waits:
                work = next((one.work for one in self._waits if one.work is not None), None)
                (self._sleep if work is None else work)()
            else:
                break
        if len(ended) < len(strands):
            raise SchedulerError(
                "deadlock: partitions wait for each other or for a value that is never sent"
            )
        return [ended[strand] for strand in strands]

    def _check(self) -> None:
        """Raise if the step is to end.

        Raises:
            CancelledError: the step is to end.
        """
        if self._interrupted or (step_of.stopped is not None and step_of.stopped()):
            error = CancelledError("the step was cancelled")
            stuck = next(iter(self._waits), None)
            if stuck is not None:
                relocate(error, stuck.node.source)
                error.add_note(node_note(stuck.node))
            raise error

    def _sleep(self) -> None:
        """Wait until a result has arrived, or the step is to end."""
        end = deadline.moment() if deadline.active() else None
        holder = interruptible.holder
        with self.lock:
            if self.arrived:
                return
            self._sleeping = True
        try:
            if holder is not None:
                holder.watch(self)
            left = -1.0 if end is None else min(end - monotonic(), threading.TIMEOUT_MAX)
            if end is None or left > 0:
                self._bell.acquire(timeout=left)
        finally:
            if holder is not None:
                holder.watch(None)
            with self.lock:
                self._sleeping = False

    def ring(self) -> None:
        """Wake the thread that runs the step. The lock is held."""
        if self._sleeping:
            self._sleeping = False
            if self._bell.locked():  # else the wait has timed out already
                self._bell.release()

    def interrupt(self) -> None:
        """End the step, as the thread that waits is to stop."""
        with self.lock:
            self._interrupted = True
            self.ring()

    def end(self) -> None:
        """Let go of all that the step holds, and stop its waits. Ctrl-C is raised after that."""
        late: KeyboardInterrupt | None = None
        while True:
            try:
                self._end()
                break
            except KeyboardInterrupt as error:
                late = error
        if late is not None:
            raise late

    def _end(self) -> None:
        with self.lock:
            self.ended = True
            self._heavy.clear()
            self.at_end += [one.stop for one in self.pending if one.stop is not None]
            self.pending.clear()
        while self._helping:
            with self.lock:
                self._sleeping = bool(self._helping)
            if self._sleeping:
                self._bell.acquire()
        self.at_end += [one.stop for one in self._waits if one.stop is not None]
        self._waits.clear()
        self.arrived.clear()
        while self.at_end:
            with suppress(Exception):
                self.at_end.pop()()

    # --- heavy regions ---

    def _call_help(self) -> None:
        """Ask for a helper for each heavy region but the one that this thread runs."""
        caller = step_of.caller or threading.get_ident()
        known = step_of.step, caller, step_of.runner, step_of.observation, step_of.verifies
        for _ in range(min(len(self._heavy) - 1, self._free)):
            self._count(1)
            if not shared.submit(lambda: self._help(*known), self._limit):
                self._count(-1)
                return

    def _count(self, change: int) -> None:
        """Change the number of helping threads."""
        with self.lock:
            self._helping += change
            self._free -= change
            self.ring()

    def _help(self, step: int, caller: int, runner: str, observation: Any, verifies: str) -> None:
        """The job of a pool thread that helps with the step."""
        token = error_state.set(QUIET)
        step_of.stopped, step_of.step, step_of.caller = (lambda: self.ended), step, caller
        step_of.runner, step_of.observation = runner, observation
        step_of.verifies = verifies
        try:
            self._run_heavy()
        finally:
            step_of.stopped, step_of.step, step_of.caller, step_of.frames = None, 0, 0, ()
            step_of.runner, step_of.observation, step_of.verifies = "", None, ""
            error_state.reset(token)
            self._count(-1)

    def _run_heavy(self) -> None:
        """Run the oldest waiting heavy region, if any is left."""
        with self.lock:
            if not self._heavy:
                return
            awaited, region, given, writes, step_of.frames = self._heavy.popleft()
        try:
            values = region(given)
        except BaseException as error:  # the strand raises it
            awaited.failed(error)
            if not isinstance(error, Exception):
                self.written.may_include(writes)
        else:
            if writes is not None:  # noted here, as the strand may never go on
                with self.lock:
                    self.written.add(writes)
            awaited.done(*values)
