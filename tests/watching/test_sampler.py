"""Samples of where threads are, taken of threads that tests hold at known places."""

from __future__ import annotations

from eagerflow.events import WaitEvent
from eagerflow.running_node import RunningNode, node_at, nodes_of_threads, places_of_threads
from eagerflow.watching.sampler import Sampler
from tests.watching.held_loop import held_loop


def sampler(at: dict[int, RunningNode], long: bool = True) -> Sampler:
    return Sampler(
        lambda: at, lambda: {t: (n.node, 0) for t, n in at.items()},
        lambda place: next(n for n in at.values() if n.node == place[0]), lambda number: long,
    )  # fmt: skip


def test_a_long_node_keeps_when_it_was_seen_first() -> None:
    at = {7: RunningNode(None, 1, "f", "matmul", (("loop", 3),))}
    seen = sampler(at)
    (first,) = seen.sample(1.0, [], [])
    (second,) = seen.sample(2.0, [], [])
    assert (first.doing, first.node, first.frames) == ("works", "matmul", (("loop", 3),))
    assert (first.since, second.since) == (1.0, 1.0)
    at[7] = RunningNode(None, 1, "f", "exp")
    (third,) = seen.sample(3.0, [], [])
    assert (third.node, third.since) == ("exp", 3.0)


def test_a_place_in_a_kernel_has_its_progress() -> None:
    at = {7: RunningNode(None, 1, "f", "tanh", progress=0.25)}
    (place,) = sampler(at).sample(1.0, [], [])
    assert (place.node, place.progress) == ("tanh", 0.25)


def test_short_steps_have_no_place() -> None:
    at = {7: RunningNode(None, 1, "f", "matmul")}
    assert sampler(at, long=False).sample(1.0, [], []) == []


def test_a_wait_is_a_place_also_of_short_steps_and_eager_code() -> None:
    wait = WaitEvent(name="batches", operation="dequeue", thread=7, start=0.5)
    (place,) = sampler({}, long=False).sample(1.0, [wait], [])
    assert (place.doing, place.queue, place.since) == ("waits", "batches", 0.5)


def test_who_waits_is_not_also_at_work() -> None:
    wait = WaitEvent(name="batches", thread=7, executable=1, node="dequeue")
    at = {7: RunningNode(None, 1, "f", "dequeue")}
    assert [p.doing for p in sampler(at).sample(1.0, [wait], [])] == ["waits"]


def test_of_real_threads() -> None:
    """A thread is held within a node, in the second iteration of a loop."""
    with held_loop(1) as thread:
        at = nodes_of_threads()[thread.ident]
        assert at.node.startswith("py_call")
        assert [iteration for _, iteration in at.frames] == [1]
        glance = places_of_threads()[thread.ident]
        assert node_at(glance).node == at.node
        seen = Sampler(nodes_of_threads, places_of_threads, node_at, lambda number: True)
        seen.glance(1.0)
        assert [(t, n) for _, t, _, n in seen.take_trail()] == [(thread.ident, at.node)]
        assert seen.take_trail() == []
