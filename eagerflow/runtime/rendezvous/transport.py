"""Transports: what brings a value from the device that sends it to the one that wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.credits import Sent
from eagerflow.runtime.rendezvous.keys import Key, Route


class StepEnd(Protocol):
    """One end of a step: a `Rendezvous`, or what takes values by itself.

    Attributes:
        step: the number of the step.
        routes: by the name of each edge, from where to where it goes.
        error: what the step was aborted with.
        takes_at_once: whether `put` has taken a value when it returns.
        executable: the number of what runs the step here, for events.
    """

    @property
    def step(self) -> int: ...
    @property
    def routes(self) -> Mapping[str, Route]: ...
    @property
    def error(self) -> Exception | None: ...
    @property
    def takes_at_once(self) -> bool: ...
    @property
    def executable(self) -> int: ...

    def put(
        self, key: Key, value: Any, dead: bool, sent: Sent | None, route: Route | None = None
    ) -> None:
        """A value has come (see `Rendezvous.put`)."""

    def wanted(self) -> list[Key]:
        """The keys of the values that it waits for."""

    def fail(self, error: Exception) -> None:
        """Another end has aborted the step."""

    def abort(self, error: Exception) -> None:
        """End the step here and at all other ends."""


class Transport(Protocol):
    """Brings values to the ends of steps at their destination, and errors to all of one step.

    Its methods may be called by any thread, and block none.
    """

    def begin(self, rendezvous: StepEnd, /) -> None:
        """A step begins here: what comes for it is put there."""

    def send(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        """Bring a value to the destination of ``route``, and call `Rendezvous.put` of that end.

        Args:
            rendezvous: of the end that sends.
            route: from where, to where.
            key: of the value.
            value: a raw array or a number, not to be changed any more; None if it is dead.
            dead: whether there is no value.
            sent: called once, when it has gone, or with the error of the step.
        """

    def wanted(self, rendezvous: StepEnd, route: Route, key: Key, /) -> None:
        """A receiver begins to wait for a value, which comes on that route."""

    def abort(self, rendezvous: StepEnd, error: Exception, /) -> None:
        """Call `Rendezvous.fail` of all other ends of the step, before what is still on its way."""

    def end(self, rendezvous: StepEnd, /) -> None:
        """The step is over here: what still comes for it is dropped."""


@final
class InProcess:
    """The transport between devices of one process: the value itself is put there, uncopied.

    All devices of a step share one rendezvous. It tells no event, as nothing moves here: who
    copies a value to another device tells of that.
    """

    __slots__ = ()

    def begin(self, rendezvous: StepEnd, /) -> None:
        pass

    def send(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        rendezvous.put(key, value, dead, sent, route)

    def wanted(self, rendezvous: StepEnd, route: Route, key: Key, /) -> None:
        pass

    def abort(self, rendezvous: StepEnd, error: Exception, /) -> None:
        pass

    def end(self, rendezvous: StepEnd, /) -> None:
        pass


IN_PROCESS: Final = InProcess()


def transfer(
    route: Route, key: Key, value: Any, executable: int, shown: Callable[[str], str]
) -> TransferEvent:  # fmt: skip
    """The event of a value that is sent to another process.

    Args:
        route: from where, to where.
        key: of the value.
        value: that is sent.
        executable: the number of what runs the step here.
        shown: what devices are called in events.
    """
    return TransferEvent(
        name=key.edge, device=shown(route.destination), origin=shown(route.source),
        nbytes=getattr(value, "nbytes", 0), step=key.step, frames=key.path, executable=executable,
    )  # fmt: skip
