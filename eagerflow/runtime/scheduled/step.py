"""One step: carries out the scheduler's instructions, with values, threads and a clock.

`scheduler.py` decides which nodes can run next; the work of a node is its action (`actions.py`).

A step is run by its caller's thread, which needs no other: threads of the pool help where nodes
that are worth a thread can run at once. A thread that has run a node reports that to the scheduler,
and so learns what can run next. Ops that wait (for a queue, for another task) hold no thread: they
are started, and end by a callback.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.error_messages import note_place
from eagerflow.errors import CancelledError, relocate
from eagerflow.events import AbstractEvent, StepEvent, next_step, step_of
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import lead_of
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.resources.waiting_operations import Interruptible
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.late_values import LateValue
from eagerflow.runtime.rendezvous.rendezvous import Left, Rendezvous
from eagerflow.runtime.scheduled.actions import Action
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.scheduled.scheduler import (
    Scheduler,
    SchedulerEvent,
    SchedulerInstruction,
    SchedulerLog,
    cancel,
    failed,
    start,
)
from eagerflow.runtime.scheduled.step_values import FrameValues, StepValues
from eagerflow.runtime.threads.clock import AbstractClock, SystemClock
from eagerflow.runtime.threads.deadline import LATE, broken_off
from eagerflow.runtime.threads.workers import shared

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

SYSTEM_CLOCK: Final = SystemClock()

#: a node to run: its tag, its number, and its operands, the last first
Job = tuple[int, int, list[Any]]


@final
class ScheduledStep:
    """One run of a graph by its scheduled nodes.

    Args:
        tier: the tier with the graph.
        log: whether to keep the events and instructions of the scheduler.
        deadline: the time of ``clock`` at which the step is cancelled.
        clock: gives the time.
        helpers: number of pool threads that may help; all steps together have no more.
        checked: whether the code of regions asks between ops whether to go on.
        number: of the step, for events and at its rendezvous; 0 for a new one.
        wake: called, with the lock held, when there is work and no thread does it; such a
            step is run by calls of `serve`, and not by `run`.

    Attributes:
        log: the events and instructions of the scheduler; None if they are not kept.
        rendezvous: where sent values meet their receivers; None where nothing is sent.
        left: entries left at the rendezvous at the end of the step: none, if it was done.
    """

    def __init__(
        self, tier: ScheduledTier, *, log: bool = False, deadline: float | None = None,
        clock: AbstractClock = SYSTEM_CLOCK, helpers: int = 0,
        checked: bool = False, number: int = 0, wake: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        self._tier = tier
        self._number = number = number or next_step()  # unique, so late values reach no other step
        self.rendezvous: Rendezvous | None = None
        if tier.routes is not None:
            self.rendezvous = Rendezvous(number, tier.routes, tier.number, transport=tier.transport)
        self.left: list[Left] = []
        self._broken: Exception | None = None  # the error for the other ends of the step
        self._scheduler = Scheduler(tier.plan, log=log)
        self._deadline, self._clock = deadline, clock
        self._helpers = self._free = helpers  # threads that may still be asked for help
        self._asked = 0  # helpers that were asked and have not come yet
        self._helping = 0
        self._checked = checked or deadline is not None
        self._lock = threading.Lock()
        # not a condition, which would keep its lock if Ctrl-C came while it is entered
        self._bell = threading.Lock()
        self._bell.acquire()
        self._sleeping = False  # the thread that runs the step, until the bell rings
        self._wake = wake
        self._caller = threading.get_ident()
        self._observation, self._verifies = step_of.observation, step_of.verifies
        self._here: deque[Job] = deque()  # nodes for the thread that runs the step only
        self._light: deque[Job] = deque()
        self._heavy: deque[Job] = deque()
        here = self._here if wake is None else self._light
        self._queues = (self._light, self._heavy, here)  # as `Action.queue` counts them
        self._handle = self._scheduler.handle
        self._answers: list[SchedulerEvent] = []  # of nodes that were stopped
        self._held = StepValues(tier.frames)
        self._values = self._held.by_tag
        self._waits: dict[tuple[int, int], Callable[[], object] | None] = {}  # without a thread
        #: for waits on a device that works only while a thread waits: a piece of that work
        self._work_for: dict[tuple[int, int], Callable[[], object]] = {}
        self._stops: list[Callable[[], object]] = []  # to be called without the lock
        self._stuck: list[Node] = []  # nodes that waited when the step was stopped
        self._inside = Interruptible()  # waits within a node: for a queue, say
        self._written = Written()
        self._error: BaseException | None = None
        self._action: Action | None = None  # begun last, in case Ctrl-C comes behind it
        self._over = False  # whether `serve` has reported the end
        self._told: dict[int, float] = {}  # seconds that helpers spent on instruments
        self._ended = False

    @property
    def log(self) -> SchedulerLog | None:
        return self._scheduler.log  # type: ignore[return-value]  # the tuples of instructions

    @property
    def outcome(self) -> str:
        """``"done"``, ``"failed"`` or ``"cancelled"``; empty while the step goes on."""
        return self._scheduler.outcome

    # --- the thread that runs the step ---

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the whole step, once.

        Args:
            inputs: raw arrays and numbers.

        Raises:
            CancelledError: the step was cancelled, or its deadline passed.
            EagerflowError: the error that eager code would raise.
        """
        self._held.put(self._tier.inputs, self._tier.feed(inputs))
        token, around, frames = error_state.set(QUIET), step_of.stopped, step_of.frames
        self._caller = step_of.caller or threading.get_ident()
        self._observation, self._verifies = step_of.observation, step_of.verifies
        outside, number = self._inside.enter(self), step_of.step
        step_of.step = self._number
        if self._checked:
            step_of.stopped = self._is_stopped
        try:
            with self._lock:
                self._tell(start())
            told = step_of.told
            self._work(main=True)
            self._wait_for_helpers()
            # the maximum, not the sum: threads spent time on instruments concurrently
            step_of.told = max(step_of.told, told + max(self._told.values(), default=0.0))
            return self._result()
        except KeyboardInterrupt as error:
            self._written.may_include(self._action and self._action.writes)
            self._written.note(error)
            raise
        finally:
            late: KeyboardInterrupt | None = None
            while True:
                try:
                    self.end()
                    break
                except KeyboardInterrupt as error:  # raised once `end` is through
                    late = error
            self._inside.leave(outside)
            step_of.stopped, step_of.step = around, number
            step_of.frames = frames  # restored always: an instrument may have begun to listen
            error_state.reset(token)
            if late is not None:
                raise late

    # --- without a thread of its own ---

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step: ``wake`` is called, also if it was cancelled before."""
        self._held.put(self._tier.inputs, self._tier.feed(inputs))
        with self._lock:
            self._sleeping = True
            if self._scheduler.outcome:
                self._ring()
            else:
                self._tell(start())

    def serve(self) -> bool:
        """Run the nodes that are ready in this thread; True once, when the step has ended."""
        token, around = error_state.set(QUIET), step_of.stopped
        step_of.stopped, outside = self._is_stopped, self._inside.enter(self)
        step_of.step, step_of.verifies = self._number, self._verifies
        step_of.observation = self._observation
        try:
            while True:
                self._work(main=False)
                with self._lock:
                    if self._scheduler.outcome:
                        over, self._over = self._over, True
                        return not over
                    if not (self._light or self._heavy):
                        self._sleeping = True
                        return False
        finally:
            self._inside.leave(outside)
            step_of.stopped, step_of.observation, step_of.verifies = around, None, ""
            step_of.step, step_of.frames = 0, ()
            error_state.reset(token)

    def take_result(self) -> tuple[Any, ...]:
        """The outputs, once the step has ended; it lets go of all else."""
        try:
            return self._result()
        finally:
            self.end()

    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""
        with self._lock:
            if not self._ended:
                self._stops.append(action)
                return
        action()

    def _work(self, *, main: bool) -> None:
        """Run nodes until none is ready; in the main thread until the step has ended."""
        light, values, lock, done = self._light, self._values, self._lock, self._done
        timed = main and self._deadline is not None
        while True:
            try:
                job: Job | None = light.popleft()
            except IndexError:
                job = None
            if job is None:  # not in the handler: Ctrl-C while waiting would show IndexError, too
                job = self._next(main)
                if job is None:
                    return
            tag, node, given = job
            del job
            iteration = values[tag]
            action = self._action = iteration.actions[node]
            if timed and self._is_late():
                self._give_up(tag, node)
                continue
            if AbstractEvent.listeners and (action.begin or StepEvent.brief_alone is None):  # waits
                step_of.frames = self._held.loops(tag)
            if action.late and self._is_late_for(tag, node, action, given):
                continue
            if action.begin is not None:
                self._begin(tag, node, action, given)
                continue
            try:
                result = action.call(given)  # type: ignore[misc]  # it has one
            except BaseException as error:
                self._failed(tag, node, error)
                continue
            with lock:
                done(tag, node, iteration, action, result, given)
            del given
            result = None  # it may be large

    def _next(self, main: bool) -> Job | None:
        """The next node to run, for which the main thread waits; None if there is none."""
        while True:
            with self._lock:
                if self._scheduler.outcome or self._ended:
                    return None
                if main and self._here:
                    return self._here.popleft()
                if self._light:
                    return self._light.popleft()
                if self._heavy:
                    return self._heavy.popleft()
                work = next(iter(self._work_for.values()), None)
                if not main and (work is None or self._wake is None):
                    return None
                seconds = self._until_deadline()
                self._sleeping = work is None
            if work is not None and (seconds is None or seconds > 0):
                work()
            elif seconds is None or seconds > 0:
                self._clock.wait(self._bell, seconds)
            else:
                self.cancel(LATE)

    def _until_deadline(self) -> float | None:
        if self._deadline is None or self._scheduler.reason:
            return None
        return self._deadline - self._clock.now()

    def _ring(self) -> None:
        """Wake the thread that runs the step. The lock is held."""
        if self._sleeping:
            self._sleeping = False
            if self._wake is not None:
                self._wake()
            elif self._bell.locked():  # else the wait has timed out already
                self._bell.release()

    def _wait_for_helpers(self) -> None:
        while True:
            with self._lock:
                if not self._helping:
                    return
                self._sleeping = True
            self._bell.acquire()

    def _result(self) -> tuple[Any, ...]:
        if self._scheduler.outcome == "done":
            return self._tier.results(self._values[0].slots)
        error, self._error = self._error, None
        if error is None:
            error = broken_off(self._scheduler.reason)
            # a Recv only waits for another partition, so another waiting node is to blame
            stuck = min(self._stuck, key=lambda node: lead_of(node.op) == "receive", default=None)
            if stuck is not None:
                relocate(error, stuck.source)
                error.add_note(node_note(stuck))
        if isinstance(error, Exception):
            self._written.note(error)
            self._broken = error
        try:
            raise error
        finally:
            del error

    def end(self) -> None:
        """Let go of all that the step held, and stop its waits. May be called again."""
        with self._lock:
            self._ended = True
            self._work_for.clear()
            for queue in self._queues:
                queue.clear()
        self._wait_for_helpers()
        if not self._scheduler.outcome:  # an interrupt between two nodes
            with self._lock:
                self._stops += [stop for stop in self._waits.values() if stop is not None]
                self._waits.clear()
        self._held.clear()
        self._leave()
        while self._stops:
            with suppress(Exception):
                self._stops.pop()()

    def _leave(self) -> None:
        """Leave the rendezvous; if the step was broken off, abort it at its other ends, too."""
        meeting, broken = self.rendezvous, self._broken
        self._broken = None  # its traceback refers to the step, and to operands
        if meeting is None:
            return
        if self._scheduler.outcome != "done":
            why = broken or broken_off(self._scheduler.reason or "it was interrupted")
            with suppress(Exception):  # from a callback of another end; this one is over
                meeting.abort(why)
        self.left += meeting.end()

    # --- helpers ---

    def _help(self) -> None:
        """The job of a pool thread that helps with the step."""
        with self._lock:
            self._asked -= 1
            if self._ended:
                return
            self._helping += 1
        token = error_state.set(QUIET)
        step_of.stopped, step_of.caller = self._is_stopped, self._caller
        step_of.step, told, thread = self._number, step_of.told, threading.get_ident()
        step_of.observation, step_of.verifies = self._observation, self._verifies
        try:
            self._work(main=False)
        finally:
            step_of.stopped, step_of.caller, step_of.observation = None, 0, None
            step_of.verifies, step_of.step, step_of.frames = "", 0, ()
            error_state.reset(token)
            with self._lock:
                self._told[thread] = self._told.get(thread, 0.0) + step_of.told - told
                self._helping -= 1
                self._free += 1
                self._ring()

    def _call_help(self) -> None:
        """Ask for helpers, one per heavy node; the main thread takes one of them if it is free."""
        wanted = len(self._heavy) - (not self._here)
        while self._asked < wanted and self._free and shared.submit(self._help, self._helpers):
            self._free -= 1
            self._asked += 1

    def _is_stopped(self) -> bool:
        """Whether the step was cancelled or has failed; asked between ops."""
        return bool(self._scheduler.reason) or self._ended or self._is_late()

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock.now() >= self._deadline

    # --- answers ---

    def _done(
        self, tag: int, node: int, iteration: FrameValues, action: Action, result: Any,
        given: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Store the results of a node that ran on ``given``, and report it. The lock is held."""
        if self._ended:
            return
        slots = iteration.slots
        if action.chooses:
            slot = action.outputs[result]
            if slot >= 0:
                slots[slot] = given[-1]
            event: SchedulerEvent = ("chose", tag, node, result)
        else:
            if action.outputs:
                for slot, value in zip(action.outputs, result, strict=False):
                    slots[slot] = value
            event = ("done", tag, node)
        if action.writes is not None:
            self._written.add(action.writes)
        self._tell(event)

    def _failed(self, tag: int, node: int, error: BaseException) -> None:
        """Report a node that has raised."""
        with self._lock:
            if self._ended:
                return
            self._blame(tag, node, error)
            self._tell(failed(tag, node))
        self._inside.stop()

    def _blame(self, tag: int, node: int, error: BaseException) -> None:
        """Remember the first error, with notes about its node and its loops."""
        if not isinstance(error, Exception):  # Ctrl-C takes precedence over an error
            self._error = error
            self._tell(cancel(type(error).__name__))
            return
        if self._scheduler.reason:  # the node was stopped; its error says what it had written
            self._written.take(error)
            return
        if isinstance(error, CancelledError) and self._is_late():
            self._written.take(error)
            self._tell(cancel(LATE))
            return
        self._error = error
        with suppress(Exception):  # an error that takes no notes is raised all the same
            self._values[tag].actions[node].blame(error)
            for iteration in self._held.around(tag):
                note_place(error, iteration.iteration_note())

    def _give_up(self, tag: int, node: int) -> None:
        """Cancel the step, as its deadline has passed before a node was run."""
        with self._lock:
            self._tell(cancel(LATE))
            self._tell(failed(tag, node))

    def cancel(self, reason: str = "cancelled") -> None:
        """End the step: no further nodes are run. For any thread."""
        with self._lock:
            if not self._ended:
                self._tell(cancel(reason))
        self._inside.stop()

    def path(self, tag: int) -> tuple[tuple[str, int], ...]:
        """The frames around an iteration, its own included, each with the iteration number."""
        return self._held.path(tag) if tag else ()

    def interrupt(self) -> None:
        """End the step, as its caller is to stop."""
        self.cancel("it was interrupted")

    # --- nodes that wait without a thread ---

    def _begin(self, tag: int, node: int, action: Action, given: list[Any]) -> None:
        key = (tag, node)
        with self._lock:
            if self._scheduler.reason:  # stopped on its way here, unseen by `_stop`
                self._tell(failed(tag, node))
                return
            self._waits[key] = None
        assert action.begin is not None
        completion = Completion(self, tag, node, self._tier)
        try:
            stop = action.begin(action.node, given[::-1], completion)
        except BaseException as error:
            with self._lock:
                waited = self._waits.pop(key, key) is not key
                self._work_for.pop(key, None)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, perhaps in the middle of an answer: the step cannot go on
            if waited:
                self._failed(tag, node, error)
            return
        with self._lock:
            if key in self._waits:
                self._waits[key] = stop
            elif stop is not None and not completion.answered:  # stopped while it was begun
                self._stops.append(stop)

    def _is_late_for(self, tag: int, node: int, action: Action, given: list[Any]) -> bool:
        """Whether a node has to wait for a value that the host reads and that is not there yet."""
        for position, backend in action.late:
            value = given[-1 - position]
            if type(value) is backend.array_type and not backend.ready(value):
                break
        else:
            return False
        job = tag, node, given
        late = LateValue(lambda error: self._go_on(job))  # the node itself raises a late failure
        with self._lock:
            if self._scheduler.reason:  # stopped on its way here, unseen by `_stop`
                self._tell(failed(tag, node))
                return True
            self._waits[tag, node] = late.stop
        work = backend.when_ready(value, late.ready)
        if work is not None:
            self.bring_on(tag, node, work)
        return True

    def bring_on(self, tag: int, node: int, work: Callable[[], object]) -> None:
        """Let an idle thread call ``work`` until a node has its value."""
        with self._lock:
            if not self._ended and (tag, node) in self._waits:
                self._work_for[tag, node] = work
                self._ring()

    def _go_on(self, job: Job) -> None:
        """Queue a node whose late value is there, or has failed."""
        tag, node, _ = job
        with self._lock:
            if self._ended or self._waits.pop((tag, node), None) is None:
                return
            self._work_for.pop((tag, node), None)
            self._queues[self._values[tag].actions[node].queue].append(job)
            if self._heavy:
                self._call_help()
            if self._sleeping:
                self._ring()

    def complete(
        self, tag: int, node: int, values: tuple[Any, ...], error: BaseException | None
    ) -> bool:
        """End a waiting node with its results or an error (see `Completion`)."""
        with self._lock:
            if self._ended or (tag, node) not in self._waits:
                return False
            del self._waits[tag, node]
            self._work_for.pop((tag, node), None)
            if error is None:
                iteration = self._values[tag]
                self._done(tag, node, iteration, iteration.actions[node], values)
            else:
                self._blame(tag, node, error)
                self._tell(failed(tag, node))
        if error is not None:
            self._inside.stop()
        return True

    # --- instructions ---

    def _tell(self, event: SchedulerEvent) -> None:
        """Pass an event to the scheduler, and carry out its instructions. The lock is held."""
        values, queues, answers = self._values, self._queues, self._answers
        while True:
            for instruction in self._handle(event):
                if instruction[0] == "run":
                    tag, node = instruction[1], instruction[2]
                    iteration = values[tag]
                    action = iteration.actions[node]
                    queues[action.queue].append((tag, node, iteration.take(action.takes)))
                elif instruction[0] == "stop":
                    self._stop(instruction)
                else:
                    self._held.follow(instruction)
            if not answers:
                break
            event = answers.pop()
        if self._heavy:
            self._call_help()
        if self._sleeping:
            self._ring()

    def _stop(self, instruction: SchedulerInstruction) -> None:
        """Answer for a node that has not begun, or that waits without a thread."""
        _, tag, node = instruction
        for queue in self._queues:
            for job in tuple(queue):  # threads take nodes without the lock
                if job[0] == tag and job[1] == node:
                    with suppress(ValueError):  # a thread has just taken it, and will answer
                        queue.remove(job)
                        self._answers.append(failed(tag, node))
                    return
        if (tag, node) in self._waits:
            stop = self._waits.pop((tag, node))
            self._work_for.pop((tag, node), None)
            self._stuck.append(self._values[tag].actions[node].node)
            if stop is not None:
                self._stops.append(stop)
            self._answers.append(failed(tag, node))
