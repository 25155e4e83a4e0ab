"""Light steps: a partition without loops, branches and heavy parts, run by the owner of a station.

Such a partition has nothing to schedule: each region runs as soon as its operands have been
received. So a step is a few counters, without a scheduler, a rendezvous or locks. The thread that
owns the transport runs it, since handing over to another thread would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, NoReturn, final

from eagerflow.core.op import find_op
from eagerflow.errors import RendezvousError, relocate
from eagerflow.events import step_of
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import kind_of, lead_of
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware import NullArray
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.late_values import is_sent_late
from eagerflow.runtime.node_seconds import node_seconds
from eagerflow.runtime.rendezvous.credits import Sent
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.rendezvous import twice
from eagerflow.runtime.rendezvous.transport import Transport
from eagerflow.runtime.scheduled.actions import Action, asynchronous
from eagerflow.runtime.scheduled.detached import Result, failure_of
from eagerflow.runtime.scheduled.plan import RUN
from eagerflow.runtime.threads.deadline import broken_off
from eagerflow.types import TensorType

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

_SHORT_SECONDS: Final = 1e-3
#: the value assumed for symbolic sizes; where it is too small, other work of the thread waits
_UNKNOWN_SIZE: Final = 1024
#: makes a named tuple; a call of its class is two calls more
_make: Final = tuple.__new__
#: gives the form in which a Send sends a value
Moved = Callable[[Any], Any]


def is_light(tier: ScheduledTier) -> bool:
    """Whether a partition can be run by light steps."""
    (frame, *loops) = tier.frames
    if loops or tier.parallel or any(kind != RUN for kind in tier.plan.frames[0].kinds):
        return False
    runs_on = all(not action.late and _runs_on(action) for action in frame.actions)
    return runs_on and not _may_take_long(tier.graph) and is_short(tier.graph)


def is_short(graph: Graph) -> bool:
    """Whether a shared thread may run a graph: by estimate it takes less than a millisecond.

    A graph with a loop is not short: nobody knows its iterations, and the thread could not be told
    to end it, as it is the one that receives the message.
    """
    if any(kind_of(node.op) == "loop" for node in all_nodes(graph.nodes)):
        return False
    seconds = node_seconds(unknown=_UNKNOWN_SIZE)
    return sum([seconds(n) for n in graph.nodes if n.op not in asynchronous]) < _SHORT_SECONDS


def _runs_on(action: Action) -> bool:
    """Whether an action waits for nothing but received values."""
    if action.begin is None:
        return action.region is not None and not action.region.mutexes
    lead = lead_of(action.node.op)
    return lead == "receive" or (lead == "send" and not is_sent_late(action.node))


def _may_take_long(graph: Graph) -> bool:
    """Whether a graph has a node of unknown duration: user code, a wait, a subgraph."""
    for node in graph.nodes:
        if lead_of(node.op) in ("send", "receive"):
            continue
        op = find_op(node.op)
        calls = op is not None and op.calls_user
        if calls or effect_of(node) == "blocks" or any(node.subgraphs()):
            return True
    return False


@final
class _Region(NamedTuple):
    """The act of a node that computes.

    Attributes:
        call: takes the values of the slots that it reads; gives a tuple for ``outputs``.
        outputs: the slots of its results.
        writes: the writes that are complete when it is done.
    """

    call: Callable[..., Any]
    outputs: Sequence[int]
    writes: Written | None


@final
class _Sending(NamedTuple):
    """The act of a node that sends.

    Attributes:
        edge: the name of the edge.
        route: the route of the edge.
        moved: gives the form in which a value is sent; None for a signal.
    """

    edge: str
    route: Route
    moved: Moved | None


@final
class LightProgram:
    """The program that light steps of a partition run.

    Args:
        tier: the tier of the partition, which `is_light`.

    Attributes:
        tier: the same.
        routes: the routes of its edges.
        frame: the slots and actions of its nodes.
        needs: number of tokens and values that each node waits for.
        targets: for each node, the nodes that wait for it.
        roots: the nodes that wait for nothing.
        receives: by edge, the node that receives.
        acts: the act of each node, with the slots that it reads; None for a receiving node, with
            the slots that it fills.
        readers: for each slot the number of nodes that read it.
    """

    __slots__ = ("acts", "frame", "needs", "readers", "receives", "roots", "routes", "targets",
                 "tier")  # fmt: skip

    def __init__(self, tier: ScheduledTier) -> None:
        self.tier = tier
        self.routes: Mapping[str, Route] = tier.routes or {}
        self.frame = tier.frames[0]
        plan = tier.plan.frames[0]
        self.readers = list(self.frame.readers)
        self.needs = list(plan.needs)
        self.targets = [targets or () for targets in plan.targets]
        self.receives: dict[str, int] = {}
        self.acts: list[tuple[Sequence[int], _Region | _Sending | None]] = []
        for i, action in enumerate(self.frame.actions):
            node = action.node
            if action.begin is None:
                assert action.call is not None  # a region has one
                region = _Region(action.call, action.outputs, action.writes)
                self.acts.append((action.takes, region))
                continue
            edge = node.attrs["edge"]
            if lead_of(node.op) == "receive":
                self.receives[edge] = i
                self.needs[i] += 1  # the value
                self.acts.append((action.outputs, None))
            else:
                sends = _Sending(edge, self.routes[edge], self._moved(node))
                self.acts.append((action.takes, sends))
        self.roots = [i for i, needs in enumerate(self.needs) if not needs]

    def _moved(self, node: Node) -> Moved | None:
        if not node.inputs:
            return None  # a signal that a node has run
        if "shape" in node.attrs:
            return lambda data: NullArray(data.dtype, data.shape)
        if isinstance(node.inputs[0].type, TensorType):
            return self.tier.sent.mover(node)
        return lambda data: data


@final
class LightStep:
    """One run of a light program.

    To the transport it is an end of the step, as a `Rendezvous` is. All its methods are called by
    the owner of the transport.

    Args:
        program: the program.
        number: of the step.
        transport: brings values from and to other partitions.
        done: called once, with a function that gives the outputs or raises the error of the step;
            ``done`` has to call that before it returns.

    Attributes:
        step: its number.
        routes: the routes of its edges.
        error: the error with which it has failed.
        executable: the number of its executable, for events.
    """

    takes_at_once: ClassVar = True
    __slots__ = ("_begun", "_done", "_left", "_missing", "_over", "_program", "_readers", "_ready",
                 "_runs", "_slots", "_transport", "_waits", "_written", "error", "executable",
                 "routes", "step")  # fmt: skip

    def __init__(
        self, program: LightProgram, number: int, transport: Transport,
        done: Callable[[Result], object],
    ) -> None:  # fmt: skip
        self.step = number
        self.routes = program.routes
        self.executable = program.tier.number
        self.error: Exception | None = None
        self._program = program
        self._transport = transport
        self._done = done
        self._readers = program.readers.copy()
        self._slots: list[Any] = [None] * len(self._readers)
        self._missing = program.needs.copy()
        self._left = len(self._missing)
        self._waits = program.receives.copy()
        self._written: list[Written] = []
        self._ready: list[int] = []
        self._runs = False
        self._begun = False
        self._over = False

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step, unless it was cancelled before.

        Args:
            inputs: raw arrays and numbers.
        """
        if self._over:
            return
        self._begun = True
        program = self._program
        for slot, value in zip(program.tier.inputs, inputs, strict=True):
            if self._readers[slot]:
                self._slots[slot] = value
        self._ready += program.roots
        self._runs = True  # so that values that came early are only taken, before nodes run
        if self.routes:
            self._transport.begin(self)
        self._run()

    def cancel(self, reason: str) -> None:
        """End the step: no further nodes are run."""
        if self._over:
            return
        error = broken_off(reason)
        stuck = self._waiting()
        if stuck is not None:
            relocate(error, stuck.node.source)
            error.add_note(node_note(stuck.node))
        self._end(error)

    # --- an end of the step ---

    def put(
        self, key: Key, value: Any, dead: bool, sent: Sent | None, route: Route | None = None
    ) -> None:
        """Take a received value.

        Raises:
            RendezvousError: the step receives no such value, or has received it already.
        """
        if not self._over:
            receiver = None if key[2] or dead else self._waits.pop(key[1], None)
            if receiver is None:
                self._refuse(key)
            program, missing = self._program, self._missing
            for slot in program.acts[receiver][0]:
                self._slots[slot] = value
            missing[receiver] -= 1
            if not missing[receiver]:
                self._left -= 1
                for target in program.targets[receiver]:
                    missing[target] -= 1
                    if not missing[target]:
                        self._ready.append(target)
                if not self._runs and (self._ready or not self._left):
                    self._run()  # else it continues by itself
        if sent is not None:
            sent(None)

    def _refuse(self, key: Key) -> NoReturn:
        if key.edge in self._program.receives and not key.path:
            raise twice(key, "sent")
        raise RendezvousError("a value of an edge that the partition does not have", given=str(key))

    def wanted(self) -> list[Key]:
        """The keys of the values that it waits for."""
        return [Key(self.step, edge) for edge in self._waits]

    def fail(self, error: Exception) -> None:
        """End the step here, as another end has aborted it."""
        if not self._over:
            stuck = self._waiting()
            if stuck is not None:
                stuck.blame(error)
            self._end(error, told=True)

    def abort(self, error: Exception) -> None:
        """End the step here and at all other ends."""
        if not self._over:
            self._end(error)

    # --- nodes ---

    def _waiting(self) -> Action | None:
        """A node that still waits for its value; None if there is none."""
        number = next(iter(self._waits.values()), None)
        return None if number is None else self._program.frame.actions[number]

    def _run(self) -> None:
        """Run the nodes that are ready, and the nodes that become ready by them."""
        program, ready = self._program, self._ready
        acts, targets, missing = program.acts, program.targets, self._missing
        token, step_of.step = error_state.set(QUIET), self.step
        self._runs, node = True, -1
        try:
            while ready and not self._over:
                node = ready.pop()
                takes, act = acts[node]
                if act is not None:
                    self._node(takes, act)
                self._left -= 1
                for target in targets[node]:
                    missing[target] -= 1
                    if not missing[target]:
                        ready.append(target)
        except Exception as error:
            program.frame.actions[node].blame(error)
            self._end(error)
            return
        finally:
            self._runs, step_of.step = False, 0
            error_state.reset(token)
        if not self._left and not self._over:
            self._end(None)

    def _node(self, takes: Sequence[int], act: _Region | _Sending) -> None:
        slots, readers, taken = self._slots, self._readers, []
        for slot in takes:
            taken.append(slots[slot])
            readers[slot] -= 1
            if not readers[slot]:  # so the last reader may write into the array
                slots[slot] = None
        if type(act) is _Region:
            call, outputs, writes = act
            for slot, value in zip(outputs, call(taken), strict=False):
                slots[slot] = value
            if writes is not None:
                self._written.append(writes)
        else:
            edge, route, moved = act
            value = None if moved is None else moved(taken[0])
            key = _make(Key, (self.step, edge, ()))
            self._transport.send(self, route, key, value, False, None)

    # --- the end ---

    def _end(self, error: Exception | None, *, told: bool = False) -> None:
        """End the step, and report its result.

        Args:
            error: why it has failed; None if it has not.
            told: whether the other ends know of the error.
        """
        self._over = True
        if self.routes and not self._begun:  # so that values that still come are dropped
            self._transport.begin(self)
        if error is not None:
            self.error = error
            written = Written()
            for one in self._written:
                written.add(one)
            written.note(error)
            if self.routes and not told:
                self._transport.abort(self, error)
        if self.routes:
            self._transport.end(self)
        slots = self._slots
        given = partial(self._program.tier.results, slots)
        self._done(given if error is None else failure_of(error))
        slots.clear()  # the traceback of an error refers to the step
