"""The ends of a step over a network, and what may be left at them: nothing."""

from __future__ import annotations

from eagerflow.errors import CancelledError
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.fakes.transport import FakeNetwork
from tests.runtime.rendezvous.receivers import EDGE, ROUTES, Note

ENDS = ("cpu:0", "cpu:1", "cpu:2")
ALL_ROUTES = {
    f"{name} of {i} -> {j}": Route(i, j) for i in ENDS for j in ENDS for name in "xy"
}  # fmt: skip


def pair(network: FakeNetwork) -> tuple[Rendezvous, Rendezvous]:
    """The two ends of a step."""
    here, there = network.station("cpu:0"), network.station("cpu:1")
    return Rendezvous(12, ROUTES, transport=here), Rendezvous(12, ROUTES, transport=there)


def end(network: FakeNetwork, *steps: Rendezvous) -> None:
    """End a step, and check that nothing is left and no credit is lost."""
    for step in steps:
        assert step.end() == []
    network.run()
    assert network.held == 0
    for source, one in tuple(network.stations.items()):
        for destination in tuple(one.channels):
            assert credit_of(network, source, destination) == network.credit


def credit_of(network: FakeNetwork, source: str, destination: str) -> int:
    """Number of values that can be sent without a receiver."""
    number = 1000 + len(network.fates)  # a step number not used before
    routes, note = {EDGE: Route(source, destination)}, Note()
    ends = [
        Rendezvous(number, routes, transport=network.station(name))
        for name in (source, destination)
    ]
    for i in range(network.credit + 2):
        ends[0].send(Key(number, EDGE, (("while_loop", i),)), i, sent=note.sent)
    for _ in range(200):
        network.step()
    gone = len(note)
    ends[0].abort(CancelledError("enough"))
    network.run()
    for one in ends:
        one.end()
    network.run()
    assert network.held == 0
    return gone
