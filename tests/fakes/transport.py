"""A simulated network that delays, reorders, duplicates and loses packets, with its own clock.

The fate of each packet is drawn from a seed, or taken from the record of another run, which is then
repeated in the same order. Nothing waits: time advances when no work is left at the present time.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, NamedTuple, final

from eagerflow.runtime.rendezvous.credits import CREDIT_BYTES, Sent
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.packets import Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.station import Station

#: the fate of a packet: the delay of each copy, in seconds
Fate = tuple[float, ...]


class Weather(NamedTuple):
    """The faults of a network.

    Attributes:
        lost: the share of packets that are lost.
        doubled: the share of packets that come twice.
        slowest: the longest delay of a packet, in seconds.
    """

    lost: float = 0.0
    doubled: float = 0.0
    slowest: float = 0.0


CALM: Final = Weather()
WORST: Final = Weather(lost=0.3, doubled=0.3, slowest=1.0)


class Arrival(NamedTuple):
    time: float
    source: str
    destination: str
    packet: Packet


@final
class FakeNetwork:
    """Stations and the packets between them.

    Args:
        seed: draws the fates of packets.
        weather: the rates of faults.
        credit: values that the stations grant.
        credit_bytes: bytes that the stations grant.
        end_of: gives the name of the station of a device; by default, each device has its own.
        fates: fates in the order in which packets are sent, used in place of the seed.
        log: whether channels keep a log.

    Attributes:
        credit: as given.
        now: the current time.
        stations: stations by name.
        fates: the fates of all packets so far.
        arrivals: all arrivals so far.
    """

    def __init__(
        self, seed: int = 0, weather: Weather = WORST, *, credit: int = 4,
        credit_bytes: int = CREDIT_BYTES,
        end_of: Callable[[str], str] = str, fates: Sequence[Fate] = (), log: bool = False,
    ) -> None:  # fmt: skip
        self.now = 0.0
        self.stations: dict[str, Station] = {}
        self.fates: list[Fate] = []
        self.arrivals: list[Arrival] = []
        self._random = random.Random(seed)
        self._weather = weather
        self.credit = credit
        self.credit_bytes = credit_bytes
        self._log = log
        self._end_of = end_of
        self._given = list(fates)
        self._flying: list[tuple[float, int, Arrival]] = []
        self._serial = count()
        self._wakes: dict[str, float] = {}
        self._rung: dict[str, None] = {}  # stations with work, in the order in which they rang
        self._bell = threading.Condition()

    @property
    def held(self) -> int:
        """Number of values and packets in the stations and on the wire, for leak checks."""
        return len(self._flying) + sum(station.held for station in self.stations.values())

    def station(self, name: str) -> Station:
        """The station of a name, made at the first call."""
        with self._bell:
            if name not in self.stations:
                self.stations[name] = Station(
                    name, self._end_of, lambda to, packet: self._put(name, to, packet),
                    lambda: self._ring(name), credit=self.credit,
                    credit_bytes=self.credit_bytes, log=self._log,
                )  # fmt: skip
            return self.stations[name]

    def of_device(self, device: str) -> Station:
        """The station that a device belongs to."""
        return self.station(self._end_of(device))

    def used(self, name: str) -> None:
        """Note that the owner of a station used its `Station.at_once`, and calls `work` next."""
        self._ring(name)

    def _ring(self, name: str) -> None:
        with self._bell:
            self._rung[name] = None
            self._bell.notify()

    def _put(self, source: str, destination: str, packet: Packet) -> None:
        weather, draw = self._weather, self._random
        if self._given:
            fate = self._given.pop(0)
        elif draw.random() < weather.lost:
            fate = ()
        else:
            copies = 1 + (draw.random() < weather.doubled)
            fate = tuple([draw.random() * weather.slowest for _ in range(copies)])
        self.fates.append(fate)
        for delay in fate:
            arrival = Arrival(self.now + delay, source, destination, packet)
            heappush(self._flying, (arrival.time, next(self._serial), arrival))

    # --- time ---

    def step(self) -> bool:
        """Do the next pending work; whether there was any."""
        with self._bell:
            name = next(iter(self._rung), None)
            if name is not None:
                del self._rung[name]
        if name is not None:
            self._work(name)
            return True
        wake = min(self._wakes.values(), default=inf)
        if self._flying and self._flying[0][0] <= wake:
            arrival = heappop(self._flying)[2]
            self.now = arrival.time
            self.arrivals.append(arrival)
            self.station(arrival.destination)
            self._work(arrival.destination, [(arrival.source, arrival.packet)])
            return True
        if wake == inf:
            return False
        self.now = wake
        for name in [name for name, time in self._wakes.items() if time == wake]:
            self._work(name)
        return True

    def _work(self, name: str, packets: Sequence[tuple[str, Packet]] = ()) -> None:
        self._wakes[name] = self.stations[name].work(self.now, packets)

    def run(self, most: int = 100_000) -> None:
        """Continue until no work is left."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError(f"the network does not come to rest; it holds {self.held}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have a thread run the network during the block, and until no work is left."""
        over = False

        def pump() -> None:
            while True:
                with self._bell:
                    if not self._rung and not self._flying and not over:
                        self._bell.wait(0.001)  # gives work a chance to come before time advances
                if not self.step() and over:
                    return

        thread = threading.Thread(target=pump, name="fake-network")
        thread.start()
        try:
            yield
        finally:
            over = True
            thread.join()


@final
class FakeTransport:
    """The transport of a step with one `Rendezvous` for all devices, over a fake network."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network

    def begin(self, rendezvous: Rendezvous, /) -> None:
        for device in self._devices(rendezvous):
            self.network.of_device(device).begin(rendezvous)

    def send(
        self, rendezvous: Rendezvous, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        self.network.of_device(route.source).send(rendezvous, route, key, value, dead, sent)

    def wanted(self, rendezvous: Rendezvous, route: Route, key: Key, /) -> None:
        self.network.of_device(route.destination).wanted(rendezvous, route, key)

    def abort(self, rendezvous: Rendezvous, error: Exception, /) -> None:
        for device in self._devices(rendezvous):
            self.network.of_device(device).abort(rendezvous, error)

    def end(self, rendezvous: Rendezvous, /) -> None:
        for device in self._devices(rendezvous):
            self.network.of_device(device).end(rendezvous)

    def _devices(self, rendezvous: Rendezvous) -> list[str]:
        return sorted({device for route in rendezvous.routes.values() for device in route})
