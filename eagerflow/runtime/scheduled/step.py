"""One step: which threads carry out the scheduler's instructions, and when it ends.

`scheduler.py` decides which nodes can run next; the work of a node is its action (`actions.py`);
what the step knows, and answers, is in `step_state.py`.

A step is run by its caller's thread, which needs no other: threads of the pool help where nodes
that are worth a thread can run at once. A thread that has run a node reports that to the scheduler,
and so learns what can run next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, final

from eagerflow.errors import relocate
from eagerflow.events import AbstractEvent, StepEvent, step_of
from eagerflow.graph.signatures import lead_of
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.runtime.scheduled.scheduler import start
from eagerflow.runtime.scheduled.step_state import AbstractScheduledStep, Job
from eagerflow.runtime.threads.deadline import LATE, broken_off
from eagerflow.runtime.threads.workers import shared


@final
class ScheduledStep(AbstractScheduledStep):
    """One run of a graph by its scheduled nodes: made as `AbstractScheduledStep` says."""

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

    # --- nodes, one after the other ---

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

    # --- the end ---

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
