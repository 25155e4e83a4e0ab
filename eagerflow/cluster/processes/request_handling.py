"""The requests that a task server handles: partitions, variables, queues, steps, eager ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import process_time
from typing import Any, Final, NamedTuple, Protocol, final

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.open_steps import OpenStep, feeds_of, results_of
from eagerflow.cluster.processes.overheard_output import Listener
from eagerflow.cluster.processes.server_grants import ServerGrants
from eagerflow.cluster.processes.session_values import SessionWork, Told
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead, Heads, NumberHead
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import (
    Eager,
    Look,
    MakeResource,
    MakeVariable,
    Register,
    RunStep,
    TaskLoad,
)
from eagerflow.cluster.protocol.partitions import read_partition
from eagerflow.cluster.protocol.recipes import read_recipe
from eagerflow.cluster.protocol.values import Frame, decode_array
from eagerflow.cluster.relaying.news import encode
from eagerflow.cluster.relaying.step_relay import StepRelay
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import EagerflowError, ProtocolError, ResourceError, TaskLost
from eagerflow.hardware import as_device, memory
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.containers import ResourceContainer
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.queue_levels import Level
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.rendezvous.keys import Route
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.scheduled.detached import DetachedStep, JobPool, Result
from eagerflow.runtime.scheduled.light_steps import LightProgram, LightStep, is_light, is_short
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.waiting_steps import WaitingStep, is_one_wait
from eagerflow.runtime.threads.deadline import broken_off
from eagerflow.runtime.threads.workers import shared
from eagerflow.types import TensorType, as_dtype

#: called with the outcome of a message: session, number, results, frames, error
Did = Callable[[int, int, Heads, Sequence[Frame], ErrorHead | None], object]
#: number of resources whose levels are sent to a client that watches
_LEVELS: Final = 100
_PRIVATE: Final = "default"
#: prefix of containers that belong to no client: those of files and of functions
_OWN: Final = "&"


@final
class _Registered(NamedTuple):
    """A registered partition.

    Attributes:
        tier: the tier that runs its steps.
        light: the program of light steps; None if its steps are not light.
        waits: whether it is one waiting op.
        pool: the pool for steps that are not light; None for a pool of the step's own.
    """

    tier: ScheduledTier
    light: LightProgram | None
    waits: bool
    pool: JobPool | None


class OwnersJobs(JobPool, Protocol):
    """A pool that can run a job at once in the thread that owns the sockets."""

    def run_here(self, job: Callable[..., object], /, *inputs: Any) -> None:
        """Run a job now, or soon if the caller is another thread."""


@final
class TaskWork:
    """The state of a task server, and the handling of requests.

    The thread that owns the sockets calls its methods. Any thread calls ``did``.

    Args:
        task: the name of the server.
        transport: the station that connects the tasks.
        did: called once for each message that `do` was called with, with the outcome.
        here: runs work in the thread that owns the sockets.
        limits: limits on messages.
        grants: the files and functions that ops may reach besides values and state.
        who: gives the description of a session's client, for messages to others.
        devices: the devices of the task.
        printed: called with the lines that functions print for a session, and the number of lines
            left out; by any thread.
    """

    def __init__(
        self, task: str, transport: Station, did: Did, here: OwnersJobs, limits: Limits,
        grants: ServerGrants, who: Callable[[int], str], devices: AnnouncedDevices,
        printed: Callable[[int, tuple[str, ...], int], object],
    ) -> None:  # fmt: skip
        self._grants = grants
        self._who = who
        self._allows = grants.allows
        self._devices = devices
        self._printed = printed
        self._task = task
        self._transport = transport
        self._did = did
        self._here = here
        self._limits = limits
        self._partitions: dict[tuple[int, int], _Registered] = {}
        self._private: dict[int, ResourceContainer] = {}
        self._shared: dict[str, ResourceContainer] = {}
        self._steps: dict[tuple[int, int], OpenStep] = {}
        self._sessions: dict[int, SessionWork] = {}
        self._listeners: dict[int, Listener] = {}
        self._relay = StepRelay(task, transport)

    def do(self, session: int, message: Any, frames: list[Frame]) -> None:
        """Handle a request."""
        kind = type(message)
        if kind is RunStep:
            self._run_in_order(session, message, frames)
            return
        work: Callable[[], tuple[Heads, list[Frame]]]
        if kind is TaskLoad:
            self._answered(session, message.number, self._load)
            return
        if kind is Look:
            self._answered(session, message.number, partial(self._look, session, message))
            return
        if kind is Register:
            work = partial(self._register, session, message, frames)
            shared.submit(partial(self._answered, session, message.number, work))
            return
        held = self._session(session)
        if kind is MakeVariable:
            work = partial(self._make, session, held, message, frames)
        elif kind is MakeResource:
            work = partial(self._make_resource, session, message, frames)
        elif kind is Eager:
            work = partial(held.run, message, frames)
        else:
            work = partial(held.fetch, message)
        held.in_order(partial(self._answered, session, message.number, work), message)

    def _session(self, session: int) -> SessionWork:
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = SessionWork(
                self._task, partial(self._find, session), self._limits,
                partial(self._drop, session), self._devices, self._allows,
            )  # fmt: skip
        return known

    def _answered(
        self, session: int, number: int, work: Callable[[], tuple[Heads, Sequence[Frame]]]
    ) -> None:
        """Report the outcome of ``work``."""
        try:
            results, frames = work()
        except Exception as error:
            self._failed(session, number, error)
            return
        self._did(session, number, results, frames, None)

    def _failed(self, session: int, number: int, error: Exception) -> None:
        """Report a failure."""
        head = error.head if isinstance(error, Told) else write_error(error, self._task)
        self._did(session, number, (), (), head)

    def abort(self, session: int, step: int, error: ErrorHead) -> None:
        """Cancel a step; a wait that has ended already gives back what it has taken."""
        known, held = self._steps.get((session, step)), self._sessions.get(session)
        if known is not None:
            known.cancel(read_error(error).wrong)
        elif error.kind == TaskLost.__name__:  # what it has sent to that task never arrives
            self._transport.fail(step, read_error(error))
        elif held is not None:
            held.give_back(step, read_error(error).wrong)

    def let_go(self, session: int, handles: Sequence[int]) -> None:
        """Free values, after all earlier requests of the session."""
        held = self._sessions.get(session)
        if held is not None:
            held.in_order(partial(held.free, handles))

    def release(self, session: int, number: int) -> None:
        """Drop a partition."""
        self._partitions.pop((session, number), None)
        self._relay.release(session, number)

    def free(self, session: int) -> None:
        """Drop all that a session had; named containers stay."""
        for key in [key for key in self._partitions if key[0] == session]:
            del self._partitions[key]
        self._private.pop(session, None)
        self._sessions.pop(session, None)
        self._listeners.pop(session, None)
        self._relay.release(session)
        self._relay.rest(session)

    # --- partitions ---

    def _register(
        self, session: int, message: Register, frames: list[Frame]
    ) -> tuple[Heads, list[Frame]]:
        find = partial(self._find, session)
        graphs = read_partition(
            message, frames, find, self._limits, self._allows, find_device=self._devices.find
        )
        routes = {edge: Route(*route) for edge, route in message.routes.items()}
        number = self._relay.register(session, message.partition)
        tier = ScheduledTier(graphs, number, routes=routes, transport=self._transport)
        light = LightProgram(tier) if is_light(tier) else None
        # handing over to another thread takes longer than light nodes do
        here = not tier.parallel and not tier.calls_python and is_short(tier.graph)
        pool = self._here if here else None
        known = _Registered(tier, light, is_one_wait(tier), pool)
        self._partitions[session, message.partition] = known
        return (), []

    def _run_in_order(self, session: int, message: RunStep, frames: list[Frame]) -> None:
        """Run a step after all earlier requests of its session."""
        held = self._sessions.get(session) or self._session(session)
        opened = self._steps[session, message.step] = OpenStep()
        if held.busy:
            held.in_order(partial(self._run, session, opened, held, message, frames))
        else:
            self._run(session, opened, held, message, frames)

    def _run(
        self, session: int, opened: OpenStep, held: SessionWork, message: RunStep,
        frames: list[Frame],
    ) -> None:  # fmt: skip
        """Begin a step; its end reports its results."""
        try:
            if message.free:
                held.free(message.free)
            self._begin(session, opened, held, message, frames)
        except BaseException as error:
            self._steps.pop((session, message.step), None)
            if not isinstance(error, Exception):
                raise
            self._failed(session, message.number, error)

    def _begin(
        self, session: int, opened: OpenStep, held: SessionWork, message: RunStep,
        frames: list[Frame],
    ) -> None:  # fmt: skip
        if opened.ended is not None:
            raise broken_off(opened.ended)
        held.check(message.stream)
        tier, light, waits, pool = self._partitions[session, message.partition]
        if message.keep and len(message.keep) != len(tier.lanes):
            raise ProtocolError("a step has another number of outputs", given=f"{message.keep}")
        given: Sequence[Any] = ()
        if message.feeds or frames or tier.graph.inputs:
            given = feeds_of(tier, held, message, frames)
        ended = partial(self._ended, session, opened, message, held, tier)
        if light is not None:
            short = LightStep(light, message.step, self._transport.at_once, ended)
            self._here.run_here(opened.begin, short, given)
            return
        if waits:
            held.may_give_back(message, opened.cancel)
            wait = WaitingStep(tier, message.step, ended)
            opened.runs(wait)
            wait.begin(given)
            return
        step = DetachedStep(tier, ended, number=message.step, pool=pool)
        step.begin(given)
        opened.runs(step)

    def _ended(
        self, session: int, opened: OpenStep, message: RunStep, held: SessionWork,
        tier: ScheduledTier, result: Result,
    ) -> None:  # fmt: skip
        """Report the results of a step; called by any thread."""
        self._steps.pop((session, message.step), None)
        try:
            results, frames = results_of(opened, message, held, tier, result)
        except Exception as error:
            self._failed(session, message.number, error)
            return
        self._did(session, message.number, results, frames, None)

    def _load(self) -> tuple[Heads, list[Frame]]:
        """Memory in bytes, processor seconds, counts of values, variables, partitions and steps."""
        sessions = list(self._sessions.values())
        values = sum(len(one.values) for one in sessions)
        own = list(self._private.values()) + list(self._shared.values())
        numbers = (
            memory("cpu:0").in_use or 0, process_time(), values, sum(map(len, own)),
            len(self._partitions), len(self._steps),
        )  # fmt: skip
        return tuple([NumberHead(number) for number in numbers]), []

    def _look(self, session: int, message: Look) -> tuple[Heads, list[Frame]]:
        if message.on:
            return encode(self._relay.look(session, self._levels(session)))
        self._relay.rest(session)
        return (), []

    def _levels(self, session: int) -> list[Level]:
        """The levels of the latest queues of a session, and of those that clients share."""
        own = self._private.get(session)
        levels: list[Level] = []
        for container in (*([] if own is None else [own]), *self._shared.values()):
            prefix = "" if container is own else f"{container.name}/"
            for name, resource in container.latest(_LEVELS - len(levels)):
                meeting = resource.ready if isinstance(resource, BarrierState) else resource
                if isinstance(meeting, AbstractMeeting):
                    levels.append(meeting.level()._replace(name=f"{prefix}{name}"))
        return levels

    # --- state ---

    def _container(self, session: int, name: str) -> ResourceContainer:
        if name.startswith(_OWN):
            raise ResourceError(f"no client has the container {name!r}")
        if name == _PRIVATE:
            return self._private.setdefault(session, ResourceContainer(name, owns=True))
        return self._shared.setdefault(name, ResourceContainer(name, owns=True))

    def _find(self, session: int, container: str, name: str) -> Any:
        if container.startswith(_OWN):
            return self._grants.find(container, name, self._listener(session).calling)
        known = self._private.get(session) if container == _PRIVATE else self._shared.get(container)
        return None if known is None else known.find(name)

    def _listener(self, session: int) -> Listener:
        """The forwarding of output of functions that are called for a session."""
        known = self._listeners.get(session)
        if known is None:
            known = self._listeners[session] = Listener(partial(self._printed, session))
        return known

    def _drop(self, session: int, name: str) -> None:
        known = self._private.get(session)
        if known is not None:
            known.remove(name)

    def _make(
        self, session: int, held: SessionWork, message: MakeVariable, frames: list[Frame]
    ) -> tuple[Heads, list[Frame]]:
        left = iter(frames)
        if isinstance(message.value, HandleHead):
            first = held.held(message.value.handle)
        else:
            data = decode_array(message.value, left)
            first = make_tensor(data, as_device("cpu:0").lanes[as_dtype(message.value.dtype)])
        codec.all_taken(left)
        where = self._devices.find(message.device).lanes[first.dtype]
        what = f"variable {TensorType(where.dtype, first.shape).on(where.device)}"
        self._join(session, message, what, partial(_variable, first, where, message))
        return (), []

    def _make_resource(
        self, session: int, message: MakeResource, frames: list[Frame]
    ) -> tuple[Heads, list[Frame]]:
        codec.all_taken(iter(frames))
        recipe = read_recipe(message)
        device = self._devices.find(message.device)
        what = f"{recipe.description} on {device}"
        self._join(session, message, what, partial(recipe.build, device, message.name))
        return (), []

    def _join(
        self, session: int, message: MakeVariable | MakeResource, what: str,
        make: Callable[[], object],
    ) -> None:  # fmt: skip
        """Have a resource in a container, with room for one more there.

        Raises:
            ResourceError: the container has a resource of that name that is something else, or
                there are too many.
        """
        container = self._container(session, message.container)
        others = [container] if message.container == _PRIVATE else list(self._shared.values())
        if container.find(message.name) is None and sum(map(len, others)) >= self._limits.resources:
            raise ResourceError(
                f"{self._task} has as many variables, queues and their like as it takes",
                expected=f"at most {self._limits.resources}",
            )
        container.join(message.name, what, make, creator=self._who(session))


def _variable(first: Tensor, where: Any, message: MakeVariable) -> VariableState:
    # a handle may keep the value, and assignments write into the array of a variable
    return VariableState(first._data.copy(), where, message.trainable, message.name)


def failure_of(error: BaseException) -> ErrorHead:
    """The error head of a failure to read a message."""
    known = error if isinstance(error, EagerflowError) else ProtocolError(str(error))
    return write_error(known)
