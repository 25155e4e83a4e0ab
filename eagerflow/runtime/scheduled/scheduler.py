"""The scheduler: a state machine. Events in, instructions out; no threads, no clock, no I/O.

It decides which nodes can run next; `step.py` runs them, and `step_state.py` answers.

A step of a graph is one `Scheduler`. It takes events and returns instructions; its caller
(`eagerflow.runtime.scheduled`) has the threads, the values and the clock. So every state can be
reached in a test, and the log of a step repeats it.

Events and instructions are plain tuples (objects would cost more than the work)::

    event       ::= ("start",) | ("done", tag, node) | ("chose", tag, node, port)
                  | ("failed", tag, node) | ("cancel", reason)
    instruction ::= ("run", tag, node)                 # an answer is owed: done, chose or failed
                  | ("open", tag, parent tag, frame, iteration)
                  | ("move", tag, node, to tag, port)  # a value goes on: merge, enter, exit, next
                  | ("close", tag)                      # values of an iteration can be dropped
                  | ("stop", tag, node)                # its result is no longer wanted
                  | ("finish", outcome)                 # "done", "failed" or "cancelled"

A *tag* names one iteration of one frame: 0 is the graph itself. A *token* says that a value has
arrived, or, if it is dead, that it never will: it lies on the branch that was not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, final

from eagerflow.errors import SchedulerError
from eagerflow.machine_logs import go_through
from eagerflow.runtime.scheduled.plan import ENTER, EXIT, MERGE, RUN, SWITCH, FramePlan, Plan

SchedulerEvent = tuple[Any, ...]
SchedulerInstruction = tuple[Any, ...]
#: the history of a step: each event, and the instructions that it led to
SchedulerLog = list[tuple[SchedulerEvent, tuple[SchedulerInstruction, ...]]]

_FINISHED: Final = "finish"


def start() -> SchedulerEvent:
    """The event that a step begins."""
    return ("start",)


def done(tag: int, node: int) -> SchedulerEvent:
    """The event that a node has run; a waiting Recv or queue op is done when its value is there."""
    return ("done", tag, node)


def chose(tag: int, node: int, port: int) -> SchedulerEvent:
    """The event that a ``switch`` has run, whose value goes on by ``port``."""
    return ("chose", tag, node, port)


def failed(tag: int, node: int) -> SchedulerEvent:
    """The event that a node has raised, or ended because it was stopped."""
    return ("failed", tag, node)


def cancel(reason: str = "cancelled") -> SchedulerEvent:
    """The event that a step is no longer wanted: Ctrl-C, a deadline, a lost task."""
    return ("cancel", reason)


@final
@dataclass(slots=True, eq=False)
class _Loop:
    """One activation of a frame.

    Attributes:
        frame: the number of the frame.
        parent: the context around.
        open: the iterations that are under way, the oldest first.
        started: number of iterations started so far.
        enters: number of tokens from outside that are still to come.
        invariants: the ``enter`` nodes of which each iteration gets the token, with whether it
            is dead.
        held: the ``next`` nodes that wait for a slot among the iterations.
        exits: the ``exit`` nodes that gave a live token.
        dead: the ``exit`` nodes that got a dead token so far.
    """

    frame: int
    parent: _Context
    enters: int
    open: list[_Context] = field(default_factory=list)
    started: int = 0
    invariants: list[tuple[int, bool]] = field(default_factory=list)
    held: list[tuple[_Context, int]] = field(default_factory=list)
    exits: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)


@final
class _Context:
    """One iteration of one frame, or the graph.

    Attributes:
        tag: its name.
        plan: the plan of its frame.
        loop: the activation that it belongs to; None for the graph.
        iteration: its number.
        pending: for each node the number of tokens that it waits for.
        dead: the nodes that got a dead token.
        merged: the ``merge`` nodes that passed a live token on.
        running: the nodes that owe an answer.
        loops: the activations of frames inside, by frame.
    """

    __slots__ = ("dead", "iteration", "loop", "loops", "merged", "pending", "plan", "running",
                 "tag")  # fmt: skip

    def __init__(self, tag: int, plan: FramePlan, loop: _Loop | None, iteration: int) -> None:
        self.tag = tag
        self.plan = plan
        self.loop = loop
        self.iteration = iteration
        self.pending = list(plan.needs)
        self.dead: set[int] = set()
        self.merged: set[int] = set()
        self.running: set[int] = set()
        self.loops: dict[int, _Loop] = {}


@final
class Scheduler:
    """One step of a graph.

    Args:
        plan: the nodes of the graph.
        log: whether to keep events and instructions, for `rerun` and for messages of errors.

    Attributes:
        outcome: how the step ended; empty as long as it goes on.
        reason: why it was cancelled, or ``"failed"``.
        log: events and instructions; None if they are not kept.

    >>> from eagerflow.runtime.scheduled.plan import RUN, ScheduledNode, Plan
    >>> a, b = ScheduledNode(RUN), ScheduledNode(RUN)
    >>> a.edges.append((0, 1, 0))
    >>> step = Scheduler(Plan([a, b]))
    >>> step.handle(start()), step.handle(done(0, 0)), step.handle(done(0, 1))
    ([('run', 0, 0)], [('run', 0, 1)], [('finish', 'done')])
    """

    __slots__ = ("_busy", "_contexts", "_out", "_plan", "_tags", "_touched", "_work", "log",
                 "outcome", "reason")  # fmt: skip

    def __init__(self, plan: Plan, log: bool = False) -> None:
        self._plan = plan
        self._contexts: dict[int, _Context] = {}
        self._tags = 0
        self._busy = 0  # nodes that owe an answer, in all contexts
        self._out: list[SchedulerInstruction] = []
        self._work: list[tuple[_Context, int, bool]] = []  # nodes that have all their tokens
        self._touched: list[_Context] = []  # contexts that may have come to their end
        self.log: list[tuple[SchedulerEvent, Sequence[SchedulerInstruction]]] | None = (
            [] if log else None
        )
        self.outcome = ""
        self.reason = ""

    def handle(self, event: SchedulerEvent) -> list[SchedulerInstruction]:
        """The instructions that follow from ``event``.

        Raises:
            SchedulerError: the event cannot have happened; the message has the earlier events of
                that node. The state is unchanged.
        """
        out = self._out = []
        kind = event[0]
        if kind == "done":
            context = self._contexts.get(event[1])
            node = event[2]
            if context is None or node not in context.running:
                self._refuse(event)
            plan = context.plan
            targets = plan.targets[node]
            if plan.kinds[node] != RUN:
                self._refuse(event)
            context.running.discard(node)
            self._busy -= 1
            if self.reason:
                self._settle()
            elif targets is None:
                self._pass(context, plan.ports[node])
                self._iteration(context)
            else:
                # the fast path: most nodes have only such edges
                pending, kinds, tag, running = (
                    context.pending, plan.kinds, context.tag, context.running,
                )  # fmt: skip
                for target in targets:
                    left = pending[target] = pending[target] - 1
                    if not left:
                        if kinds[target] <= SWITCH and target not in context.dead:
                            running.add(target)
                            self._busy += 1
                            out.append(("run", tag, target))
                        else:
                            self._work.append((context, target, target in context.dead))
                if self._work or not running:
                    self._iteration(context)
        else:
            self._handle_rest(event, kind)
        if self.log is not None:
            self.log.append((event, tuple(out)))
        return out

    def _handle_rest(self, event: SchedulerEvent, kind: str) -> None:
        if kind == "chose":
            self._chose(event)
        elif kind == "failed":
            self._failed(event)
        elif kind == "start":
            if self._tags or self.outcome:
                self._refuse(event)
            root = self._open(None, -1, 0, 0)
            self._work += [(root, node, False) for node in root.plan.roots]
            self._iteration(root)
        elif kind == "cancel":
            if not self.reason and not self.outcome:
                self._stop(event[1] or "cancelled")
        else:
            self._refuse(event)

    # --- answers ---

    def _answered(self, event: SchedulerEvent) -> _Context:
        """The context of a node that has answered; the node is taken off those that owe one."""
        context = self._contexts.get(event[1])
        if context is None or event[2] not in context.running:
            self._refuse(event)
        context.running.discard(event[2])
        self._busy -= 1
        return context

    def _chose(self, event: SchedulerEvent) -> None:
        _, tag, node, port = event
        known = self._contexts.get(tag)
        if known is not None and node in known.running:
            ports = len(known.plan.ports[node])
            if known.plan.kinds[node] != SWITCH or not 0 <= port < ports:
                self._refuse(event)
        context = self._answered(event)
        if self.reason:
            self._settle()
            return
        for number, ends in enumerate(context.plan.ports[node]):
            self._deliver(context, ends, number != port)
        self._iteration(context)

    def _failed(self, event: SchedulerEvent) -> None:
        self._answered(event)
        if self.reason:
            self._settle()
        else:
            self._stop("failed")

    def _stop(self, reason: str) -> None:
        """Run no further nodes, and ask running ones to end."""
        self.reason = reason
        for context in self._contexts.values():
            self._out += [("stop", context.tag, node) for node in sorted(context.running)]
        self._settle()

    def _settle(self) -> None:
        """End a step that failed or was cancelled, once nothing is under way."""
        if not self._busy and not self.outcome:
            self._finish("failed" if self.reason == "failed" else "cancelled")

    def _finish(self, outcome: str) -> None:
        self.outcome = outcome
        self._contexts.clear()
        self._out.append((_FINISHED, outcome))

    # --- tokens ---

    def _iteration(self, context: _Context) -> None:
        """Pass all tokens on as far as they can go, then end iterations that are complete."""
        work, touched = self._work, self._touched
        touched.append(context)
        while touched:
            while work:
                context, node, dead = work.pop()
                self._fire(context, node, dead)
                if touched[-1] is not context:
                    touched.append(context)
            loop = touched.pop().loop
            if loop is not None:
                self._close(loop)
        if not self._busy and not self.outcome:
            self._finish("done")

    def _fire(self, context: _Context, node: int, dead: bool) -> None:
        """Run a node that has all its tokens, or pass them on."""
        plan = context.plan
        kind = plan.kinds[node]
        if kind <= SWITCH and not dead:
            context.running.add(node)
            self._busy += 1
            self._out.append(("run", context.tag, node))
        elif kind <= MERGE:
            self._pass(context, plan.ports[node], dead)
        elif kind == ENTER:
            self._enter(context, node, dead)
        elif kind == EXIT:
            self._exit(context, node, dead)
        elif not dead:
            self._next(context, node)

    def _pass(
        self, context: _Context, ports: Iterable[Sequence[tuple[int, int]]], dead: bool = False
    ) -> None:
        for ends in ports:
            self._deliver(context, ends, dead)

    def _deliver(self, context: _Context, ends: Sequence[tuple[int, int]], dead: bool) -> None:
        """Give a token to each of ``ends`` in ``context``."""
        kinds, pending = context.plan.kinds, context.pending
        for target, port in ends:
            if kinds[target] == MERGE:
                self._merge(context, target, port, dead)
                continue
            if dead:
                context.dead.add(target)
            pending[target] -= 1
            if not pending[target]:
                self._work.append((context, target, target in context.dead))

    def _merge(self, context: _Context, node: int, port: int, dead: bool) -> None:
        if dead:
            context.pending[node] -= 1
            if not context.pending[node] and node not in context.merged:
                self._work.append((context, node, True))
            return
        if node in context.merged:
            raise SchedulerError(
                f"two live tokens reach {self._label(context, node)}",
                expected="one of its inputs to be dead",
                hint=self._story(context.tag, node),
            )
        context.merged.add(node)
        self._out.append(("move", context.tag, node, context.tag, port))
        self._work.append((context, node, False))

    # --- loops ---

    def _open(self, loop: _Loop | None, parent: int, frame: int, iteration: int) -> _Context:
        context = _Context(self._tags, self._plan.frames[frame], loop, iteration)
        self._contexts[self._tags] = context
        self._tags += 1
        if loop is not None:
            loop.open.append(context)
            loop.started += 1
            self._out.append(("open", context.tag, parent, frame, iteration))
            for node, dead in loop.invariants:
                self._bring(loop, node, context, dead)
        return context

    def _enter(self, context: _Context, node: int, dead: bool) -> None:
        frame = context.plan.into[node]
        loop = context.loops.get(frame)
        if loop is None:
            loop = context.loops[frame] = _Loop(frame, context, self._plan.frames[frame].enters)
            self._open(loop, context.tag, frame, 0)
        loop.enters -= 1
        if context.plan.invariant[node]:
            loop.invariants.append((node, dead))
            for inside in loop.open:
                self._bring(loop, node, inside, dead)
        else:
            self._bring(loop, node, loop.open[0], dead)
        self._touched.append(loop.open[0])  # this may have been all that it waited for

    def _bring(self, loop: _Loop, node: int, context: _Context, dead: bool) -> None:
        """Pass the token of an ``enter`` into an iteration."""
        if not dead:
            self._out.append(("move", loop.parent.tag, node, context.tag, 0))
        self._pass(context, loop.parent.plan.ports[node], dead)

    def _exit(self, context: _Context, node: int, dead: bool) -> None:
        loop = context.loop
        assert loop is not None
        if dead:
            loop.dead.add(node)
            return
        loop.exits.add(node)
        self._out.append(("move", context.tag, node, loop.parent.tag, 0))
        self._pass(loop.parent, context.plan.ports[node])

    def _next(self, context: _Context, node: int) -> None:
        loop = context.loop
        assert loop is not None
        number = context.iteration + 1
        if number < loop.started:
            self._advance(context, node, loop.open[number - loop.open[0].iteration])
        elif len(loop.open) < context.plan.parallel:
            self._advance(context, node, self._open(loop, loop.parent.tag, loop.frame, number))
        else:
            loop.held.append((context, node))

    def _advance(self, context: _Context, node: int, following: _Context) -> None:
        self._out.append(("move", context.tag, node, following.tag, 0))
        self._pass(following, context.plan.ports[node])

    def _close(self, loop: _Loop) -> None:
        """End iterations in which nothing can happen any more, the oldest first."""
        while loop.open and not self._work:
            oldest = loop.open[0]
            if oldest.running or oldest.loops or loop.enters:
                return
            if loop.held:
                held, loop.held = loop.held, []
                following = self._open(loop, loop.parent.tag, loop.frame, loop.started)
                for context, node in held:
                    self._advance(context, node, following)
                self._touched.append(following)
            del loop.open[0]
            del self._contexts[oldest.tag]
            self._out.append(("close", oldest.tag))
        parent = loop.parent
        if not loop.open and parent.loops.get(loop.frame) is loop:
            plan = self._plan.frames[loop.frame]
            del parent.loops[loop.frame]
            self._touched.append(parent)
            for node in sorted(loop.dead - loop.exits):
                self._pass(parent, plan.ports[node], dead=True)

    # --- errors ---

    def _label(self, context: _Context, node: int) -> str:
        return self._plan.labels[context.plan.nodes[node]]

    def _refuse(self, event: SchedulerEvent) -> NoReturn:
        """Raise, as this event cannot follow the events before it."""
        tag, node = (event[1], event[2]) if len(event) > 2 else (0, -1)
        raise SchedulerError(
            f"the event {event} does not fit the state of the step",
            given=f"a step that {'ended: ' + self.outcome if self.outcome else 'goes on'}",
            expected="one answer of each running node",
            hint=self._story(tag, node),
        )

    def _story(self, tag: int, node: int) -> str:
        """The entries of the log about a node."""
        if self.log is None:
            return "the scheduler keeps no log; create it with log=True to see its events"
        lines = []
        for number, (event, out) in enumerate(self.log):
            if event[1:3] == (tag, node):
                lines.append(f"event {number} {event}")
            lines += [f"event {number} led to {i}" for i in out if i[1:3] == (tag, node)]
        return "; ".join(lines) or f"no event of node {node} under tag {tag}"


def rerun(plan: Plan, log: SchedulerLog) -> Scheduler:
    """A step that repeats the events of ``log``; its instructions must be the same.

    Raises:
        SchedulerError: an instruction differs.
    """
    step = Scheduler(plan, log=True)
    told = (((event,), expected) for event, expected in log)
    go_through(told, step.handle, SchedulerError)
    return step
