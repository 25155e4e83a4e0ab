"""What a step knows, and how it answers its scheduler: whatever thread runs which node.

The scheduler (`scheduler.py`) is told what has happened, and its instructions are carried out: the
nodes that can run next are queued with their operands, those that are to stop are stopped. Ops that
wait (for a queue, for another task) hold no thread: they are started, and end by a callback.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from eagerflow.error_messages import note_place
from eagerflow.errors import CancelledError
from eagerflow.events import next_step, step_of
from eagerflow.graph.ir import Node
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
)
from eagerflow.runtime.scheduled.step_values import FrameValues, StepValues
from eagerflow.runtime.threads.clock import AbstractClock, SystemClock
from eagerflow.runtime.threads.deadline import LATE

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

SYSTEM_CLOCK: Final = SystemClock()

#: a node to run: its tag, its number, and its operands, the last first
Job = tuple[int, int, list[Any]]


class AbstractScheduledStep(ABC):
    """The state of one run of a graph by its scheduled nodes, and the answers to its scheduler.

    Which threads run the nodes is for the subclass.

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

    def path(self, tag: int) -> tuple[tuple[str, int], ...]:
        """The frames around an iteration, its own included, each with the iteration number."""
        return self._held.path(tag) if tag else ()

    # --- the threads that run the step ---

    @abstractmethod
    def _ring(self) -> None:
        """Wake the thread that runs the step. The lock is held."""

    @abstractmethod
    def _call_help(self) -> None:
        """Ask for helpers, one per heavy node. The lock is held."""

    @abstractmethod
    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""

    def _is_stopped(self) -> bool:
        """Whether the step was cancelled or has failed; asked between ops."""
        return bool(self._scheduler.reason) or self._ended or self._is_late()

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock.now() >= self._deadline

    def cancel(self, reason: str = "cancelled") -> None:
        """End the step: no further nodes are run. For any thread."""
        with self._lock:
            if not self._ended:
                self._tell(cancel(reason))
        self._inside.stop()

    def interrupt(self) -> None:
        """End the step, as its caller is to stop."""
        self.cancel("it was interrupted")

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
