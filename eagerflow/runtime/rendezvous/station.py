"""A station: the transport of one of several ends, by a channel to each of the others.

An end is a process, or a stand-in for one. One thread, its *owner*, does all its work and calls
`work`; requests of other threads wait in an inbox. So no state machine is touched by two threads,
nor by a thread that Ctrl-C may interrupt.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, final

from eagerflow import events
from eagerflow.errors import CancelledError, RendezvousError
from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.channel import Channel
from eagerflow.runtime.rendezvous.credits import CREDIT, CREDIT_BYTES, Sent, nbytes_of
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.packets import TIMING, ChannelTiming, Message, Packet
from eagerflow.runtime.rendezvous.rendezvous import twice
from eagerflow.runtime.rendezvous.transport import StepEnd, transfer
from eagerflow.runtime.threads.reported_calls import call_and_report

#: number of finished steps that are remembered, for values that come late
_REMEMBERED: Final = 4096
#: number of ranges of forgotten steps that are remembered, for the same reason
_RANGES: Final = 64
#: makes a named tuple; a call of its class is two calls more
_make: Final = tuple.__new__


@final
class _Sending:
    """The waiting sender of a value on its way.

    Attributes:
        event: the event of the transfer.
    """

    __slots__ = ("_sent", "event")

    def __init__(self, sent: Sent | None, event: TransferEvent | None) -> None:
        self._sent = sent
        self.event = event

    def go_on(self, error: Exception | None) -> None:
        """Call the sender, once."""
        sent, self._sent = self._sent, None
        if sent is not None:
            call_and_report(partial(sent, error))


#: no sender waits, and no event is reported
_UNHEARD: Final = _Sending(None, None)


@final
class AtOnce:
    """The transport of a station for its owner alone: requests are carried out at once.

    Args:
        station: the station.
    """

    __slots__ = ("abort", "begin", "end", "send", "wanted")

    def __init__(self, station: Station) -> None:
        self.begin: Final = station._begin
        self.send: Final = station._send_at_once
        self.wanted: Final = station.wanted
        self.abort: Final = station._abort
        self.end: Final = station._end


@final
class Station:
    """One end, with a channel to each of the others.

    Args:
        name: the name of this end.
        end_of: gives the name of the end that a device belongs to.
        put: puts a packet on the wire to an end; called by the owner, blocks nothing.
        ring: wakes the owner when the inbox is not empty; called by any thread.
        credit: number of values from each other end that may lie at an end without a receiver.
        credit_bytes: bytes of these from which on there is no credit for another value.
        timing: the waiting times of the channels.
        log: whether the channels keep their events and instructions.
        shown: gives the name of a device in events.

    Attributes:
        name: the same.
        channels: by the name of the other end.
        now: the time; the owner sets it before it uses `at_once` outside of `work`.
        at_once: the same transport for the owner.
        refused: number of packets dropped as they do not fit the state of their channel.
        arrived: called with the key of each value that comes from another end; or None.
    """

    def __init__(
        self, name: str, end_of: Callable[[str], str], put: Callable[[str, Packet], object],
        ring: Callable[[], object], *, credit: int = CREDIT, timing: ChannelTiming = TIMING,
        credit_bytes: int = CREDIT_BYTES, log: bool = False, shown: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self.name = name
        self._shown = shown
        self.arrived: Callable[[Key], object] | None = None
        self.channels: dict[str, Channel] = {}
        self.refused = 0
        self._end_of = end_of
        self._ends: dict[str, str] = {}  # by device, as of `_end_of`
        self._put = put
        self._ring = ring
        self._make: Callable[[], Channel] = partial(
            Channel, credit, timing, credit_bytes=credit_bytes, log=log
        )
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.now = 0.0
        self._wakes: dict[str, float] = {}
        self._urged: set[str] = set()  # ends that have announced wanted values
        self._open: dict[int, StepEnd] = {}
        self._over: OrderedDict[int, None] = OrderedDict()
        self._forgotten: deque[range] = deque(maxlen=_RANGES)
        #: of steps that have not begun here: values, each with whether "taken" is owed; errors
        self._early: dict[int, list[tuple[str, Message, bool]]] = {}
        self._failed: OrderedDict[int, Exception] = OrderedDict()
        self._wanted: set[Key] = set()  # keys announced to the other ends
        self._sending: dict[Key, _Sending] = {}
        self.at_once: Final = AtOnce(self)

    @property
    def soonest(self) -> float:
        """When to call `work` again if nothing happens before; inf for never."""
        return min(self._wakes.values(), default=inf)

    @property
    def held(self) -> int:
        """Number of messages, callbacks and steps held, for leak checks."""
        early = sum(map(len, self._early.values()))
        channels = sum(channel.held for channel in self.channels.values())
        own = (self._sending, self._wanted, self._open, self._inbox)
        return channels + early + sum(map(len, own))

    # --- for any thread: the methods of `Transport` ---

    def begin(self, rendezvous: StepEnd, /) -> None:
        self._ask(self._begin, rendezvous)

    def send(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        self._give(partial(self._ask, self._send), rendezvous, route, key, value, dead, sent)

    def _give(
        self, send: Callable[..., object], rendezvous: StepEnd, route: Route, key: Key, value: Any,
        dead: bool, sent: Sent | None, /,
    ) -> None:  # fmt: skip
        """Bring a value to its end: here at once, elsewhere by ``send``."""
        event = None
        if TransferEvent.listeners and not dead:
            event = transfer(route, key, value, rendezvous.executable, self._shown)
            events.begin(event)
        end = self._end_of(route.destination)
        if end == self.name:
            if event is not None:
                events.end(event)
            rendezvous.put(key, value, dead, sent, route)
        else:
            message = Message("value", key.step, key, value, dead, nbytes_of(value))
            send(rendezvous, end, message, sent, event)

    def wanted(self, rendezvous: StepEnd, route: Route, key: Key, /) -> None:
        end = self._end_of(route.source)
        if end != self.name:
            self._ask(self._want, end, [key])

    def abort(self, rendezvous: StepEnd, error: Exception, /) -> None:
        self._ask(self._abort, rendezvous, error)

    def end(self, rendezvous: StepEnd, /) -> None:
        self._ask(self._end, rendezvous)

    def _ask(self, work: Callable[..., object], *arguments: Any) -> None:
        self._inbox.append((work, arguments))
        self._ring()

    def fail(self, step: int, error: Exception, /) -> None:
        """End a step here that has failed elsewhere, or drop what it has sent; for any thread."""
        self._ask(self._fail, step, error)

    # --- for the owner ---

    def forget(self, end: str) -> None:
        """Forget an end that is gone, with its values for steps that have not begun.

        Steps that are open here, and sent it something, are to be aborted by who began them.
        """
        channel = self.channels.pop(end, None)
        for key in () if channel is None else channel.keys:
            if key.step not in self._open:
                self._settle(self._sending.pop(key, _UNHEARD), CancelledError(f"{end} is gone"))
        self._wakes.pop(end, None)
        self._urged.discard(end)
        for step, early in list(self._early.items()):
            left = [one for one in early if one[0] != end]
            if left:
                self._early[step] = left
            else:
                del self._early[step]

    def forget_steps(self, steps: range) -> None:
        """Drop all values, wanted keys and errors of steps that never begin here, or have ended.

        What still comes for them is dropped as well.
        """
        self._forgotten.append(steps)
        for step in [step for step in self._early if step in steps]:
            for end, message, owes in self._early.pop(step):
                if owes and end in self.channels:
                    self._ask(self._taken, end, self.channels[end], message.nbytes)
        for step in [step for step in self._failed if step in steps]:
            del self._failed[step]
        for step in {key.step for key in self._sending if key.step in steps}:
            self._drop(step, CancelledError("the step is over"))  # on their way to an end that died
        for end in self._urged:
            for step in self.channels[end].wanted_steps.intersection(steps):
                self._handle(end, ("forget", step))

    def _is_over(self, step: int) -> bool:
        """Whether a step that is not open here never will be."""
        known = step in self._over or step in self._failed
        return known or any(step in steps for steps in self._forgotten)

    def work(self, now: float, packets: Sequence[tuple[str, Packet]] = ()) -> float:
        """Handle packets, due timers and the inbox.

        Args:
            now: the time.
            packets: the packets that have come, each with the name of the end that sent it.

        Returns:
            The time at which to call again, if nothing happens before; inf for never.
        """
        self.now = now
        for end, packet in packets:
            if self._take_at_once(end, packet):
                continue
            try:
                self._handle(end, ("arrived", packet))
            except RendezvousError:
                self.refused += 1
        if self.soonest <= now:
            for end in [end for end, wake in self._wakes.items() if wake <= now]:
                self._handle(end, ("tick",))
        while self._inbox:
            call, arguments = self._inbox.popleft()
            call(*arguments)
        return self.soonest

    def _handle(self, end: str, event: tuple[Any, ...]) -> None:
        channel = self.channels.get(end)
        if channel is None:
            channel = self.channels[end] = self._make()
        brought = []
        for instruction in channel.handle(event, self.now):
            kind, what = instruction
            if kind == "put":
                self._put(end, what)
            elif kind == "wake":
                self._wakes[end] = what
            elif kind == "sent":
                if self._sending[what.key] is not _UNHEARD:
                    self._sending[what.key].go_on(None)
            elif kind == "gone":
                if what.key is not None:
                    self._settle(self._sending.pop(what.key), None)
            else:
                brought.append(instruction)
        for kind, message in brought:  # after the rest, as a receiver may send at once
            if kind == "deliver":
                self._deliver(end, message, owes=True)
            else:
                self._bring(end, message)

    # --- the usual case ---

    def _send_at_once(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        """`send` of the owner; a value that nothing keeps waiting takes few calls."""
        end = self._ends.get(route[1])
        if end is None:
            end = self._ends[route[1]] = self._end_of(route[1])
        channel = self.channels.get(end)
        if (
            channel is not None and sent is None and key not in self._sending
            and rendezvous.error is None and not TransferEvent.listeners
        ):  # fmt: skip
            nbytes = getattr(value, "nbytes", 0)  # as `nbytes_of`
            message = _make(Message, ("value", key[0], key, value, dead, nbytes))
            packet = channel.send_at_once(message, self.now)
            if packet is not None:
                self._sending[key] = _UNHEARD
                self._wakes[end] = channel.wake
                self._put(end, packet)
                return
        self._give(self._send, rendezvous, route, key, value, dead, sent)

    def _take_at_once(self, end: str, packet: Packet) -> bool:
        """Pass on a value to a step that takes it at once; False, and nothing is done, if in vain.

        It is handed over when all else that the packet leads to is done: its step may send at once.
        """
        channel, message = self.channels.get(end), packet[2]
        rendezvous = None if message is None else self._open.get(message[1])
        if channel is None or rendezvous is None or not rendezvous.takes_at_once:
            return False
        gone = channel.take_at_once(packet, self.now)
        if gone is None:
            return False
        assert message is not None
        _, _, key, value, dead, _ = message
        assert key is not None
        self._wakes[end] = channel.wake
        for one in gone:
            sending = self._sending.pop(one[2])  # type: ignore[arg-type]  # values have keys
            if sending is not _UNHEARD:
                self._settle(sending, None)
        if self._wanted or self.arrived is not None:
            self._note_arrival(message)
        try:
            rendezvous.put(key, value, dead, None)
        except Exception as error:  # sent twice, or raised by the receiver
            call_and_report(partial(rendezvous.abort, error))
        if channel.wake <= self.now:
            self._handle(end, ("tick",))  # the other end waits for an answer
        return True

    # --- to the other ends ---

    def _send(
        self, rendezvous: StepEnd, end: str, message: Message, sent: Sent | None,
        event: TransferEvent | None,
    ) -> None:  # fmt: skip
        key = message.key
        assert key is not None
        if key in self._sending:
            call_and_report(partial(rendezvous.abort, twice(key, "sent")))
        error = rendezvous.error
        if error is None:
            heard = sent is not None or event is not None
            self._sending[key] = _Sending(sent, event) if heard else _UNHEARD
            self._handle(end, ("send", message))
        else:
            self._settle(_Sending(sent, event), error)

    def _settle(self, sending: _Sending, error: Exception | None) -> None:
        """End a sending: its value has arrived at the other end or, with an error, never will."""
        if sending is _UNHEARD:
            return
        sending.go_on(error)
        if sending.event is not None:
            if error is not None:
                sending.event.error = events.describe(error)
            events.end(sending.event)

    # --- from the other ends ---

    def _bring(self, end: str, message: Message) -> None:
        """Handle an urgent message that has come."""
        if message.kind == "value":
            self._deliver(end, message, owes=False)
        elif message.kind == "error":
            self._ask(self._fail, message.step, message.value)
        else:
            self._urged.add(end)
            for key in message.value:
                over = key.step not in self._open and self._is_over(key.step)
                self._ask(self._handle, end, ("want", key, not over))

    def _deliver(self, end: str, message: Message, owes: bool) -> None:
        """Pass a value on to its step; ``owes`` if its channel needs a "taken" for it."""
        self._note_arrival(message)
        step = message.step
        rendezvous = self._open.get(step)
        if rendezvous is not None:
            hand_over = self._give_over if rendezvous.takes_at_once else self._hand_over
            hand_over(rendezvous, end, message, owes)
        elif owes and not self._is_over(step):
            self._early.setdefault(step, []).append((end, message, owes))
        elif owes:
            self._ask(self._taken, end, self.channels[end], message.nbytes)
        if self.channels[end].exhausted:
            self._want(end, [key for one in self._open.values() for key in self._from(one, end)])

    def _note_arrival(self, message: Message) -> None:
        """Note that a value has come: it is wanted no longer."""
        assert message.key is not None
        arrived = self.arrived  # another thread may set it
        if arrived is not None and not message.dead:
            arrived(message.key)
        self._wanted.discard(message.key)

    def _give_over(self, rendezvous: StepEnd, end: str, message: Message, owes: bool) -> None:
        """Put a value into a step that takes it at once."""
        assert message.key is not None
        try:
            rendezvous.put(message.key, message.value, message.dead, None)
        except Exception as error:  # sent twice, or raised by the receiver
            call_and_report(partial(rendezvous.abort, error))
        if owes:
            self._handle(end, ("taken", message.nbytes))

    def _hand_over(self, rendezvous: StepEnd, end: str, message: Message, owes: bool) -> None:
        """Put a value into the rendezvous of its step."""
        assert message.key is not None
        channel = self.channels[end]

        def taken(error: Exception | None) -> None:
            nonlocal owes
            if owes:
                owes = False
                self._ask(self._taken, end, channel, message.nbytes)

        try:
            rendezvous.put(message.key, message.value, message.dead, taken)
        except Exception as error:  # sent twice, or raised by the receiver
            taken(error)
            call_and_report(partial(rendezvous.abort, error))

    def _taken(self, end: str, channel: Channel, nbytes: int) -> None:
        """Renew the credit of the sender of a value, unless another process is at that end now."""
        if self.channels.get(end) is channel:
            self._handle(end, ("taken", nbytes))

    def _fail(self, step: int, error: Exception) -> None:
        """End a step here that another end has aborted."""
        rendezvous = self._open.get(step)
        if rendezvous is not None:
            call_and_report(partial(rendezvous.fail, error))
        elif not self._is_over(step):
            self._failed[step] = error
            if len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)
        self._drop(step, error)

    # --- wanted values ---

    def _want(self, end: str, keys: Iterable[Key]) -> None:
        """Announce to an end which values receivers wait for, if it has no credit to send them."""
        channel = self.channels.get(end)
        if channel is not None and channel.exhausted:
            new = tuple([key for key in keys if key not in self._wanted])
            if new:
                self._wanted.update(new)
                self._ask(self._handle, end, ("urge", Message("wanted", 0, None, new)))

    def _from(self, rendezvous: StepEnd, end: str) -> list[Key]:
        """The keys that a step wants from another end."""
        routes = rendezvous.routes
        return [k for k in rendezvous.wanted() if self._end_of(routes[k.edge].source) == end]

    # --- steps ---

    def _begin(self, rendezvous: StepEnd) -> None:
        step = rendezvous.step
        self._open[step] = rendezvous
        error = self._failed.pop(step, None)
        if error is not None:
            call_and_report(partial(rendezvous.fail, error))
        hand_over = self._give_over if rendezvous.takes_at_once else self._hand_over
        for end, message, owes in self._early.pop(step, ()):
            hand_over(rendezvous, end, message, owes)

    def _end(self, rendezvous: StepEnd) -> None:
        step = rendezvous.step
        if self._open.pop(step, None) is not None:
            self._over[step] = None
            if len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)
            if self._wanted:
                self._wanted = {key for key in self._wanted if key.step != step}
            for end in self._urged:
                if step in self.channels[end].wanted_steps:
                    self._handle(end, ("forget", step))

    def _abort(self, rendezvous: StepEnd, error: Exception) -> None:
        self._drop(rendezvous.step, error)
        devices = {device for route in rendezvous.routes.values() for device in route}
        for end in sorted({self._end_of(device) for device in devices} - {self.name}):
            self._handle(end, ("urge", Message("error", rendezvous.step, None, error)))

    def _drop(self, step: int, error: Exception) -> None:
        """Let go of all messages to and from other ends for a step."""
        for end in self.channels:
            self._handle(end, ("drop", step))
        for key in [key for key in self._sending if key.step == step]:
            self._settle(self._sending.pop(key), error)
        for end, message, owes in self._early.pop(step, ()):
            if owes:
                self._ask(self._taken, end, self.channels[end], message.nbytes)
