"""The rendezvous of one step: values and their waiting receivers, by key.

Whichever comes first waits for the other: a value as an entry of a table, a receiver as a callback.
No thread waits. Neither knows the other, or which of them came first.

A *dead* token says that the value will never exist, as it lies on a branch that was not taken.

Ctrl-C may come after any call in the main thread. So a callback is held by a variable before it
leaves its table, and `Rendezvous.abort` calls it if it was not called by then.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

from eagerflow.errors import RendezvousError
from eagerflow.runtime.rendezvous.credits import CREDIT, CREDIT_BYTES, Credits, Sent, nbytes_of
from eagerflow.runtime.rendezvous.keys import Key, KeySet, Route
from eagerflow.runtime.rendezvous.transport import IN_PROCESS, Transport

#: called with the value, whether it is dead, and None; or with an error in place of a value
Done = Callable[[Any, bool, Exception | None], object]


def twice(key: Key, what: str) -> RendezvousError:
    """The error of a value that is sent or received twice."""
    return RendezvousError(
        f"a value is {what} twice", given=str(key), expected=f"each key to be {what} once"
    )


class Left(NamedTuple):
    """An entry left when a step ended.

    Attributes:
        key: the key of the value.
        what: ``"value"`` if it was never received, ``"receiver"`` if it was never sent.
    """

    key: Key
    what: str


class _Put(NamedTuple):
    """A value without a receiver yet.

    Attributes:
        value: the value.
        dead: whether there is none.
        route: the route on which it takes credit; None if it takes none.
        taken: called when it has a receiver.
    """

    value: Any
    dead: bool
    route: Route | None
    taken: Sent | None


@final
class _Receiver:
    """A receiver that waits for a value. Calling it withdraws it."""

    __slots__ = ("_rendezvous", "done", "key")

    def __init__(self, rendezvous: Rendezvous, key: Key, done: Done) -> None:
        self._rendezvous = rendezvous
        self.key = key
        self.done = done

    def __call__(self) -> bool:
        return self._rendezvous._withdraw(self)


def _nothing() -> bool:
    """The withdrawal of a receiver that did not wait."""
    return False


@final
class Rendezvous:
    """The meeting place of the values of one step and their receivers, for any thread.

    Callbacks are called without a lock, by the thread that brings the awaited value, and their
    errors are raised there. Each is called once, unless Ctrl-C comes in the middle of it or right
    before: then `abort` calls it with its error, perhaps a second time. Only for the caller of
    `send` or `receive` that got the interrupt may a callback never come.

    Args:
        step: the number of the step.
        routes: the route of each edge, by its name.
        executable: the number of the executable that runs the step here, for events.
        transport: brings values to their destination.
        credit: number of values of one route that may lie here before their senders wait.
        credit_bytes: bytes of these from which on the next one waits.

    Attributes:
        step: the same.
        routes: the same.
        executable: the same.

    >>> from eagerflow.runtime.rendezvous.keys import Key, Route
    >>> from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
    >>> rendezvous = Rendezvous(12, {"y -> cpu:1": Route("cpu:0", "cpu:1")})
    >>> key = Key(12, "y -> cpu:1")
    >>> withdraw = rendezvous.receive(key, lambda value, dead, error: print(value, dead, error))
    >>> rendezvous.send(key, 5.0)
    5.0 False None
    >>> rendezvous.end()
    []
    """

    takes_at_once: ClassVar = False
    __slots__ = ("_answered", "_credits", "_due", "_error", "_lock", "_open", "_others_know",
                 "_receivers", "_transport", "_values", "executable", "routes", "step")  # fmt: skip

    def __init__(
        self, step: int, routes: Mapping[str, Route], executable: int = 0, *,
        transport: Transport = IN_PROCESS, credit: int = CREDIT, credit_bytes: int = CREDIT_BYTES,
    ) -> None:  # fmt: skip
        self.executable = executable
        self.step = step
        self.routes = routes
        self._transport = transport
        self._lock = threading.RLock()  # reentrant: a finaliser may withdraw at any point
        self._values: dict[Key, _Put] = {}
        self._receivers: dict[Key, _Receiver] = {}
        self._answered = KeySet()
        self._credits = Credits(credit, credit_bytes)
        self._open = True
        self._error: Exception | None = None
        self._others_know = False  # whether the other ends know of the error
        self._due: deque[Callable[[Exception], object]] = deque()  # callbacks for `abort` to call
        transport.begin(self)

    # --- senders and receivers ---

    def send(
        self, key: Key, value: Any = None, *, dead: bool = False, sent: Sent | None = None
    ) -> None:
        """Send a value to the receiver of ``key``, which may come later.

        Args:
            key: the key of the value.
            value: a raw array or a number, not to be changed any more; None if it is dead.
            dead: whether there is no value.
            sent: called once, with None as soon as the sender may go on (later if it is far ahead
                of its receiver), or with the error of the step. Nothing that a receiver needs may
                wait for this call, except later iterations of the loop.

        Raises:
            RendezvousError: the value was sent before, or the step has no such edge.
            Exception: the error of `abort`, or a RendezvousError after `end`, if there is no
                ``sent`` to be called with it.
        """
        if self._open:
            self._transport.send(self, self._route(key), key, value, dead, sent)
        elif sent is None:
            raise self._failure()
        else:
            sent(self._failure())

    def receive(self, key: Key, done: Done) -> Callable[[], bool]:
        """Receive a value.

        Args:
            key: the key of the value.
            done: called once with the value, whether it is dead, and None; after `abort` or `end`
                with the error in place of a value. At once if a value or an error is there.

        Returns:
            A function that withdraws the receiver: afterwards ``done`` is not called any more, and
            the value can be received again. It returns whether the receiver still waited.

        Raises:
            RendezvousError: the value was received before, or the step has no such edge.
        """
        put: _Put | None = None
        receiver: _Receiver | None = None
        sent: list[Sent] = []
        try:
            with self._lock:
                if self._open:
                    put = self._values.get(key)
                    if put is None:
                        receiver = self._keep_receiver(key, done)
                    else:
                        self._answered.add(key)
                        if put[3] is not None:
                            sent += (put[3],)
                        del self._values[key]
                        if put[2] is not None:
                            self._credits.give(put[2], key, sent)
            if receiver is not None:
                self._transport.wanted(self, self.routes[key[1]], key)
                return receiver
            if put is None:
                done(None, False, self._failure())
            else:
                self._tell(done, put[0], put[1], sent)
        except KeyboardInterrupt:
            self._due += sent
            raise
        return _nothing

    def put(
        self, key: Key, value: Any, dead: bool, sent: Sent | None, route: Route | None = None
    ) -> None:
        """Take a value that its transport has brought.

        Args:
            key: the key of the value.
            value: the value; None if it is dead.
            dead: whether there is none.
            sent: called once, as `send` says.
            route: the route on which the value takes credit. If None, it takes none, and ``sent``
                is called when there is a receiver.

        Raises:
            RendezvousError: the value was put there before.
        """
        done: Done | None = None
        waits = False
        try:
            with self._lock:
                if self._open:
                    receiver = self._receivers.get(key)
                    if receiver is None:
                        waits = not self._keep_value(key, value, dead, sent, route)
                    else:
                        self._answered.add(key)
                        done = receiver.done
                        del self._receivers[key]
            if done is not None:
                self._tell(done, value, dead, () if sent is None else (sent,))
            elif sent is not None and not waits:
                sent(None if self._open else self._failure())
        except KeyboardInterrupt:
            if done is not None:
                self._due += (partial(done, None, False),)
            raise

    def _tell(self, done: Done, value: Any, dead: bool, sent: Iterable[Sent]) -> None:
        """Call a receiver, and the senders that can go on."""
        try:
            done(value, dead, None)
        finally:
            for one in sent:
                one(None)

    # --- the tables; the lock is held ---

    def _keep_receiver(self, key: Key, done: Done) -> _Receiver:
        if key in self._receivers or key in self._answered:
            raise twice(key, "received")
        self._route(key)
        receiver = _Receiver(self, key, done)
        self._receivers[key] = receiver
        return receiver

    def _keep_value(
        self, key: Key, value: Any, dead: bool, sent: Sent | None, route: Route | None
    ) -> bool:
        """Store a value for a later receiver; whether its sender can go on."""
        if key in self._values or key in self._answered:
            raise twice(key, "sent")
        goes_on = route is not None and self._credits.take(route, key, nbytes_of(value), sent)
        self._values[key] = _Put(value, dead, route, sent if route is None else None)
        return goes_on

    def _withdraw(self, receiver: _Receiver) -> bool:
        with self._lock:
            waits = self._receivers.get(receiver.key) is receiver
            if waits:
                del self._receivers[receiver.key]
        return waits

    def wanted(self) -> list[Key]:
        """The keys of the values that receivers wait for."""
        with self._lock:
            return list(self._receivers)

    @property
    def error(self) -> Exception | None:
        """The error with which the step was aborted."""
        return self._error

    # --- the end ---

    def abort(self, error: Exception) -> None:
        """End the step here and at all other ends.

        All waiting callbacks are called with ``error``, as are later ones; values are let go.
        Of several errors the first counts.
        """
        try:
            self._stop(error)
        finally:
            if self._error is not None and not self._others_know:
                self._transport.abort(self, self._error)
                self._others_know = True

    def fail(self, error: Exception) -> None:
        """As `abort`, for a transport, when another end has aborted the step."""
        with self._lock:
            self._others_know |= self._open
        self._stop(error)

    def end(self) -> list[Left]:
        """End the step here, and let go of all that it holds.

        Callbacks that still wait are called with a RendezvousError.

        Returns:
            The entries left; none where each value was received, or the step was aborted.
        """
        with self._lock:
            left = [Left(key, "value") for key in self._values]
            left += [Left(key, "receiver") for key in self._receivers]
        try:
            self._stop(None)
        finally:
            self._transport.end(self)
        return left

    def _stop(self, error: Exception | None) -> None:
        """Empty the tables, and call all waiting callbacks."""
        with self._lock:
            due: list[Callable[[Exception], object]] = [
                partial(receiver.done, None, False) for receiver in self._receivers.values()
            ]
            due += [put.taken for put in self._values.values() if put.taken is not None]
            due += self._credits.waiting()
            credits = Credits(self._credits.credit, self._credits.credit_bytes)
            if self._open:
                self._error = error
            # no calls from here on, so Ctrl-C comes before or after all of it
            self._open = False
            self._due += due
            self._credits = credits
            self._receivers = {}
            self._values = {}
        if self._due:
            self._call_due(self._failure())

    def _call_due(self, error: Exception) -> None:
        late: BaseException | None = None
        while self._due:
            call: Callable[[Exception], object] | None = None
            try:
                with self._lock:
                    if self._due:
                        call = self._due[0]
                        del self._due[0]
                if call is not None:
                    call(error)
            except KeyboardInterrupt as interrupt:  # raised after the other callbacks, which wait
                late = interrupt
                if call is not None:
                    with suppress(Exception):
                        call(error)
            except Exception as raised:
                late = late or raised
        if late is not None:
            raise late

    # --- errors ---

    def _failure(self) -> Exception:
        """The error for calls after the end."""
        if self._error is not None:
            return self._error
        return RendezvousError(
            f"step {self.step} is over: nothing can be sent or received any more"
        )

    def _route(self, key: Key) -> Route:
        """The route of an edge.

        Raises:
            RendezvousError: the edge, or the key, is not of this step.
        """
        route = self.routes.get(key[1])
        if route is None or key[0] != self.step:
            raise RendezvousError(
                "a value of another step, or along an edge that the step does not have",
                given=str(key),
                expected=f"step {self.step} and one of the edges {sorted(self.routes)}",
            )
        return route
