"""An instrument that records the work of a task for the clients that watch it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Any, Final, final

from eagerflow import events
from eagerflow.cluster.protocol.message_heads import STEPS
from eagerflow.cluster.relaying.news import (
    News,
    ToldArrival,
    ToldMove,
    ToldPlace,
    ToldRegion,
    ToldSum,
)
from eagerflow.events import AbstractEvent, BriefRegion, BriefStep, TransferEvent
from eagerflow.resources.queue_levels import Level
from eagerflow.running_node import nodes_of_threads, places_of_threads
from eagerflow.runtime.generated.generated_tier import devices_of_regions
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.station import Station

#: limit of regions, and of transfers, kept between two answers
_KEPT: Final = 4096
#: limit of regions, and of transfers, in one answer; earlier transfers are added up
_TOLD: Final = 100
_PLACES: Final = 64
#: limit of arrivals in one answer: senders are several tasks, each with its own limit
_ARRIVED: Final = 400


@final
class _Looker:
    """A session that watches, with the events not sent to it yet."""

    def __init__(self) -> None:
        self.regions: deque[ToldRegion] = deque(maxlen=_TOLD)
        self.moves: deque[ToldMove] = deque()
        self.arrivals: deque[ToldArrival] = deque(maxlen=_ARRIVED)
        self.sums: dict[tuple[int, str, str], ToldSum] = {}
        self._levels: dict[str, Level] = {}

    def changed(self, levels: Sequence[Level]) -> list[Level]:
        """The levels that are others than at the last call."""
        before, self._levels = self._levels, {level.name: level for level in levels}
        return [level for level in levels if before.get(level.name) != level]

    def moved(self, move: ToldMove) -> None:
        """Add a transfer; beyond the limit, the oldest is only added to the sums."""
        self.moves.append(move)
        if len(self.moves) > _TOLD:
            partition, _, _, origin, device, start, stop, nbytes = self.moves.popleft()
            known = self.sums.get((partition, origin, device))
            count, summed, seconds = (0, 0, 0.0) if known is None else known[3:]
            self.sums[partition, origin, device] = ToldSum(
                partition, origin, device, count + 1, summed + nbytes, seconds + stop - start
            )


@final
class StepRelay:
    """Records regions and transfers in the steps of sessions that watch.

    Without such a session it is no instrument, and steps cost nothing extra. The threads that run
    steps only append to a ring; the thread that owns the sockets does the rest, for an answer.

    Args:
        task: the name of the task.
        station: the transport from and to other tasks.

    >>> from eagerflow.cluster.relaying.step_relay import StepRelay
    >>> from eagerflow.runtime.rendezvous.station import Station
    >>> relay = StepRelay("ps:0", Station("ps:0", str, print, print))
    >>> number = relay.register(session=5, partition=1)
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> relay.look(5).regions  # from now on
    []
    >>> from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
    >>> y = ScheduledTier(graph, number).run([ef.ones(2).numpy()])
    >>> [(told.partition, told.region) for told in relay.look(5).regions]
    [(1, 0)]
    >>> relay.rest(5)
    """

    kinds: Final = frozenset({TransferEvent})

    def __init__(self, task: str, station: Station) -> None:
        self._task = task
        self._station = station
        self._regions: deque[BriefRegion] = deque(maxlen=_KEPT)
        self._ended: deque[AbstractEvent] = deque(maxlen=_KEPT)
        self._arrived: deque[tuple[Key, float]] = deque(maxlen=_KEPT)
        #: as attributes, since instruments are called often: functions of C
        self.brief_region: Callable[[BriefRegion], object] = self._regions.append
        self.end: Callable[[AbstractEvent], None] = self._ended.append
        self._lookers: dict[int, _Looker] = {}
        self._numbers = count(-1, -1)  # numbers of executables are above 0
        self._partitions: dict[int, tuple[int, int]] = {}
        self._devices: dict[int, dict[int, str]] = {}

    def begin(self, event: AbstractEvent) -> None:
        """Ignored: events are of interest when they end."""

    def brief_step(self, step: BriefStep) -> None:
        """Ignored: the client knows of its steps."""

    # --- partitions, from any thread ---

    def register(self, session: int, partition: int) -> int:
        """Give a number for the executable of a partition."""
        number = next(self._numbers)
        self._partitions[number] = session, partition
        return number

    def release(self, session: int, partition: int | None = None) -> None:
        """Forget a partition, or all partitions of a session."""
        for number, known in list(self._partitions.items()):
            if known[0] == session and partition in (None, known[1]):
                del self._partitions[number]
                self._devices.pop(number, None)

    # --- sessions, from the thread that owns the sockets ---

    def look(self, session: int, levels: Sequence[Level] = ()) -> News:
        """News since the last call; at first, when recording begins, levels alone.

        Args:
            session: the session that watches.
            levels: the current levels of its queues.
        """
        if session not in self._lookers:
            self._lookers[session] = _Looker()
            events.add_instrument(self)
            self._station.arrived = self._arrives
        self._collect()
        looker = self._lookers[session]
        news = News(
            perf_counter(), list(looker.regions), list(looker.moves), list(looker.arrivals),
            list(looker.sums.values()), self._places(session), looker.changed(levels),
        )  # fmt: skip
        for told in (looker.regions, looker.moves, looker.arrivals, looker.sums):
            told.clear()
        return news

    def rest(self, session: int) -> None:
        """Stop recording for a session."""
        if self._lookers.pop(session, None) is not None and not self._lookers:
            events.remove_instrument(self)
            self._station.arrived = None
            for ring in (self._regions, self._ended, self._arrived):
                ring.clear()

    def _arrives(self, key: Key) -> None:
        self._arrived.append((key, perf_counter()))

    def _collect(self) -> None:
        for number, region, start, stop, _ in _taken(self._regions):
            session, partition = self._partitions.get(number, (0, 0))
            looker = self._lookers.get(session)
            if looker is not None:
                device = self._device(number, region)
                looker.regions.append(ToldRegion(partition, region, device, start, stop))
        for event in _taken(self._ended):
            assert isinstance(event, TransferEvent)
            session, partition = self._partitions.get(event.executable, (0, 0))
            looker = self._lookers.get(session)
            if looker is not None and not event.error and event.stop is not None:
                origin, device = self._named(event.origin), self._named(event.device)
                looker.moved(ToldMove(
                    partition, event.step % STEPS, name_of_value(event.name, event.frames), origin,
                    device, event.start, event.stop, event.nbytes,
                ))  # fmt: skip
        for key, time in _taken(self._arrived):
            looker = self._lookers.get(key.step // STEPS)
            if looker is not None:
                value = name_of_value(key.edge, key.path)
                looker.arrivals.append(ToldArrival(key.step % STEPS, value, time))

    def _device(self, number: int, region: int) -> str:
        known = self._devices.get(number)
        if known is None:
            known = self._devices[number] = devices_of_regions(number)
        return self._named(known.get(region, ""))

    def _named(self, device: str) -> str:
        """The name by which other tasks know a device."""
        return device if "/" in device or not device else f"{self._task}/{device}"

    def _places(self, session: int) -> list[ToldPlace]:
        """The nodes at which threads are that run steps of a session."""
        if not places_of_threads():
            return []
        told = []
        for thread, at in nodes_of_threads().items():
            known, partition = self._partitions.get(at.executable, (0, 0))
            if known == session:
                frame, iteration = at.frames[-1] if at.frames else ("", -1)
                told.append(
                    ToldPlace(partition, at.node, frame, iteration, at.progress, thread % (1 << 48))
                )
        return told[:_PLACES]


def name_of_value(edge: str, loops: Sequence[tuple[str, int]]) -> str:
    """The name of a value within a step.

    >>> from eagerflow.cluster.relaying.step_relay import name_of_value
    >>> name_of_value("y -> cpu:1", [("while", 3)])
    'y -> cpu:1 while:3'
    """
    return " ".join([edge, *[f"{loop}:{iteration}" for loop, iteration in loops]])


def _taken(ring: deque[Any]) -> Sequence[Any]:
    """Empty a ring, and give its items; other threads append meanwhile."""
    taken = []
    while ring:
        taken.append(ring.popleft())
    return taken
