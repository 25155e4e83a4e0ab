"""Transports, which bring a value from the device that sends it to the device of its receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.credits import Sent
from eagerflow.runtime.rendezvous.keys import Key, Route


class StepEnd(Protocol):
    """One end of a step: a `Rendezvous`, or a step that takes values itself.

    Attributes:
        step: the number of the step.
        routes: the route of each edge, by its name.
        error: the error with which the step was aborted.
        takes_at_once: whether `put` has taken a value when it returns.
        executable: the number of the executable that runs the step here, for events.
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
        """Take a value that has come (see `Rendezvous.put`)."""

    def wanted(self) -> list[Key]:
        """The keys of the values that receivers of this end wait for."""

    def fail(self, error: Exception) -> None:
        """End the step here, as another end has aborted it."""

    def abort(self, error: Exception) -> None:
        """End the step here and at all other ends."""


class Transport(Protocol):
    """Brings values to the ends of steps at their destination, and errors to all ends of a step.

    Its methods may be called by any thread, and block none.
    """

    def begin(self, rendezvous: StepEnd, /) -> None:
        """Register the end of a step that begins here; values that come for it are put there."""

    def send(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        """Bring a value to the destination of ``route``, and call `Rendezvous.put` of that end.

        Args:
            rendezvous: the end that sends.
            route: the devices of the sender and the receiver.
            key: the key of the value.
            value: a raw array or a number, not to be changed any more; None if it is dead.
            dead: whether there is no value.
            sent: called once, when the value has gone, or with the error of the step.
        """

    def wanted(self, rendezvous: StepEnd, route: Route, key: Key, /) -> None:
        """Note that a receiver begins to wait for a value, which comes on that route."""

    def abort(self, rendezvous: StepEnd, error: Exception, /) -> None:
        """Call `Rendezvous.fail` of all other ends of the step, ahead of values on their way."""

    def end(self, rendezvous: StepEnd, /) -> None:
        """Note that the step is over here: values that still come for it are dropped."""


@final
class InProcess:
    """The transport between devices of one process: the value itself is put there, uncopied.

    All devices of a step share one rendezvous. It emits no event, as nothing moves here: the code
    that copies a value to another device reports that.
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
        route: the devices of the sender and the receiver.
        key: the key of the value.
        value: the value that is sent.
        executable: the number of the executable that runs the step here.
        shown: gives the name of a device in events.
    """
    return TransferEvent(
        name=key.edge, device=shown(route.destination), origin=shown(route.source),
        nbytes=getattr(value, "nbytes", 0), step=key.step, frames=key.path, executable=executable,
    )  # fmt: skip
