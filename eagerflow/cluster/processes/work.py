"""What a task server does for its clients: partitions, variables, steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.limits import Limits
from eagerflow.cluster.protocol.messages import (
    ErrorHead,
    Fetch,
    Heads,
    MakeVariable,
    Register,
    RunStep,
)
from eagerflow.cluster.protocol.partitions import read_partition
from eagerflow.cluster.protocol.values import Frame, decode_array, decode_values, encode_value
from eagerflow.errors import EagerflowError, ProtocolError, ResourceError
from eagerflow.hardware import as_device
from eagerflow.resources.containers import ResourceContainer
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.rendezvous.keys import Route
from eagerflow.runtime.rendezvous.transport import Transport
from eagerflow.runtime.scheduled.detached import DetachedStep, JobPool, Result
from eagerflow.runtime.scheduled.tier import ScheduledTier
from eagerflow.runtime.threads.workers import shared
from eagerflow.types import TensorType, as_dtype

#: tells what became of a message: session, number, results, frames, error
Did = Callable[[int, int, Heads, Sequence[Frame], ErrorHead | None], object]
_PRIVATE: Final = "default"


@final
class TaskWork:
    """What a server has, and does.

    Its methods are called by the thread that owns the sockets. ``did`` is called by any thread.

    Args:
        task: the name of the server.
        transport: between tasks.
        did: told of each message that `do` was called with, once.
        here: runs work in the thread that owns the sockets.
        limits: on messages.

    Attributes:
        places: the task of each device that a partition has named.
    """

    def __init__(
        self, task: str, transport: Transport, did: Did, here: JobPool, limits: Limits
    ) -> None:
        self.places: dict[str, str] = {}
        self._task = task
        self._transport = transport
        self._did = did
        self._here = here
        self._limits = limits
        self._partitions: dict[tuple[int, int], ScheduledTier] = {}
        self._private: dict[int, ResourceContainer] = {}
        self._shared: dict[str, ResourceContainer] = {}
        self._steps: dict[tuple[int, int], DetachedStep] = {}

    def do(self, session: int, message: Any, frames: list[Frame]) -> None:
        """Do what a message asks for."""
        if isinstance(message, RunStep):
            self._answered(session, message.number, partial(self._run, session, message, frames))
        elif isinstance(message, Register):
            work = partial(self._register, session, message, frames)
            shared.submit(partial(self._answered, session, message.number, work))
        elif isinstance(message, MakeVariable):
            self._answered(session, message.number, partial(self._make, session, message, frames))
        else:
            self._answered(session, message.number, partial(self._fetch, session, message))

    def _answered(
        self, session: int, number: int, work: Callable[[], tuple[Heads, list[Frame]] | None]
    ) -> None:
        """Tell what became of ``work``, unless it gives None: then somebody else does."""
        try:
            done = work()
        except Exception as error:
            self._did(session, number, (), (), write_error(error, self._task))
            return
        if done is not None:
            self._did(session, number, *done, None)

    def abort(self, session: int, step: int, error: ErrorHead) -> None:
        """End a step soon."""
        running = self._steps.get((session, step))
        if running is not None:
            running.cancel(read_error(error).wrong)

    def release(self, session: int, number: int) -> None:
        """Let go of a partition."""
        self._partitions.pop((session, number), None)

    def free(self, session: int) -> None:
        """Let go of all that a session had; named containers stay."""
        for key in [key for key in self._partitions if key[0] == session]:
            del self._partitions[key]
        self._private.pop(session, None)

    # --- partitions ---

    def _register(
        self, session: int, message: Register, frames: list[Frame]
    ) -> tuple[Heads, list[Frame]]:
        graph = read_partition(message, frames, partial(self._find, session), self._limits)
        for device, task in message.tasks.items():
            if self.places.setdefault(device, task) != task:
                raise ResourceError(
                    f"{device} belongs to {self.places[device]} here, and not to {task}"
                )
        routes = {edge: Route(*route) for edge, route in message.routes.items()}
        missing = {device for route in routes.values() for device in route} - {*message.tasks}
        if missing:
            raise ProtocolError("devices of no task", given=", ".join(sorted(missing)))
        tier = ScheduledTier(graph, routes=routes, transport=self._transport)
        self._partitions[session, message.partition] = tier
        return (), []

    def _run(self, session: int, message: RunStep, frames: list[Frame]) -> None:
        tier = self._partitions[session, message.partition]
        left = iter(frames)
        feeds = decode_values(message.feeds, left)
        codec.all_taken(left)
        _check_feeds(tier, feeds)
        key = session, message.step
        ended = partial(self._ended, key, message.number)
        # to hand over to another thread takes longer than light nodes do
        pool = None if tier.parallel else self._here
        step = self._steps[key] = DetachedStep(tier, ended, number=message.step, pool=pool)
        try:
            step.begin(feeds)
        except BaseException:
            del self._steps[key]
            raise

    def _ended(self, key: tuple[int, int], number: int, result: Result) -> None:
        """A step has ended; called by a thread of the pool."""
        del self._steps[key]

        def results() -> tuple[Heads, list[Frame]]:
            frames: list[Frame] = []
            return tuple([encode_value(value, frames) for value in result()]), frames

        self._answered(key[0], number, results)

    # --- state ---

    def _container(self, session: int, name: str) -> ResourceContainer:
        if name == _PRIVATE:
            return self._private.setdefault(session, ResourceContainer(name, owns=True))
        return self._shared.setdefault(name, ResourceContainer(name, owns=True))

    def _find(self, session: int, container: str, name: str) -> Any:
        known = self._private.get(session) if container == _PRIVATE else self._shared.get(container)
        return None if known is None else known.find(name)

    def _make(
        self, session: int, message: MakeVariable, frames: list[Frame]
    ) -> tuple[Heads, list[Frame]]:
        left = iter(frames)
        array = decode_array(message.value, left)
        codec.all_taken(left)
        where = as_device(message.device).lanes[as_dtype(message.value.dtype)]
        what = f"variable {TensorType(where.dtype, array.shape).on(where.device)}"
        make = partial(VariableState, array, where, message.trainable, message.name)
        container = self._container(session, message.container)
        container.join(message.name, what, make, creator=f"session {session}")
        return (), []

    def _fetch(self, session: int, message: Fetch) -> tuple[Heads, list[Frame]]:
        state = self._find(session, message.container, message.name)
        if not isinstance(state, VariableState):
            raise ResourceError(
                f"there is no variable {message.name!r} in the container {message.container!r}"
            )
        frames: list[Frame] = []
        return (encode_value(state.read(), frames),), frames


def _check_feeds(tier: ScheduledTier, feeds: Sequence[Any]) -> None:
    """Refuse values that are not of the types of the inputs."""
    inputs = tier.graph.inputs
    if len(feeds) != len(inputs):
        raise ProtocolError(
            "another number of feeds than of inputs", given=f"{len(feeds)}, not {len(inputs)}"
        )
    for value, x in zip(inputs, feeds, strict=True):
        kind = value.type
        if isinstance(kind, TensorType):
            fits = getattr(x, "dtype", None) == kind.dtype.dtype and len(x.shape) == kind.ndim
            sizes = zip(kind.shape, getattr(x, "shape", ()), strict=False)
            fits = fits and all(type(a) is not int or a == b for a, b in sizes)
        else:
            fits = type(x) in (bool, kind.kind)
        if not fits:
            raise ProtocolError(f"a feed is not of the type of %{value.name}", expected=str(kind))


def failure_of(error: BaseException) -> ErrorHead:
    """The head of what was wrong with a message."""
    known = error if isinstance(error, EagerflowError) else ProtocolError(str(error))
    return write_error(known)
