"""Slow nodes and stragglers: nodes and devices that take longer than others for the same ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import eagerflow as ef
from eagerflow.watching.diagnosing.slowness import slow_node, straggler
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.node_costs import NodeCost, NodeCosts
from eagerflow.watching.observed_steps import Observed

_OPS = ("exp", "sin", "tanh", "log")
_DEVICES = 3


@pytest.fixture
def index() -> Iterator[NodeIndex]:
    """A graph of the same few ops on each of several devices."""
    with ef.config(cpu_devices=_DEVICES):
        lines = []
        for device in range(_DEVICES):
            before = f"x{device}"
            lines.append(f"%{before} = transfer(%x) {{device=device(\"cpu:{device}\")}} : "
                         f"f32[1000]@cpu:{device}")  # fmt: skip
            for op in _OPS:
                lines.append(f"%{op}{device} = {op}(%{before}) : f32[1000]@cpu:{device}")
                before = f"{op}{device}"
        text = f"graph f(%x: f32[1000]@cpu:0) {{ {' '.join(lines)} return %log0 }}"
        yield NodeIndex(ef.Graph.parse(text))


def observed(
    index: NodeIndex, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[str, str], float]
) -> Observed:  # fmt: skip
    """An observation with the seconds of each node given by a function of op and device."""
    took = {
        i: seconds(n.op, str(n.device)) for i, n in enumerate(index.nodes) if n.op in _OPS
    }  # fmt: skip
    whole = sum(took.values())
    rows = [
        NodeCost(i, index.nodes[i].name, "", s, s, s / whole, 1.0, 9, 0.0) for i, s in took.items()
    ]
    monkeypatch.setattr(NodeCosts, "table", lambda self: rows)
    monkeypatch.setattr(NodeCosts, "least", lambda self: took)
    monkeypatch.setattr(NodeCosts, "steps", property(lambda self: 9))
    return Observed(1, index, NodeCosts(index))


def test_what_takes_its_time_is_well(index: NodeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that is slower than others on all devices is just a dear op."""
    known = observed(index, monkeypatch, lambda op, device: 5e-3 if op == "tanh" else 1e-4)
    assert slow_node(known) is None
    assert straggler(known) is None


def test_one_slow_node(index: NodeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    known = observed(index, monkeypatch, lambda op, device: (
        0.05 if (op, device) == ("sin", "cpu:1") else 1e-4
    ))  # fmt: skip
    slow = slow_node(known)
    assert slow is not None
    assert index.nodes[slow.number].name == "sin1"
    assert slow.seconds == 0.05
    assert slow.factor > 100
    assert straggler(known) is None


def test_a_device_that_is_slower_at_all(index: NodeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    known = observed(index, monkeypatch, lambda op, device: 4e-4 if device == "cpu:2" else 1e-4)
    slow = straggler(known)
    assert slow is not None
    assert (slow.name, round(slow.factor, 3), round(slow.share, 3)) == ("cpu:2", 4.0, 0.667)
    assert slow_node(known) is None


def test_what_steps_wait_is_no_work(index: NodeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps that mostly wait, a large part of the remaining time is no slowness."""
    late = observed(index, monkeypatch, lambda op, device: 4e-4 if device == "cpu:2" else 1e-4)
    assert straggler(late, 0.5) is not None
    assert straggler(late, 0.3) is None
    one = observed(index, monkeypatch, lambda op, device: (
        0.05 if (op, device) == ("sin", "cpu:1") else 1e-4
    ))  # fmt: skip
    assert slow_node(one, 0.5) is not None
    assert slow_node(one, 0.2) is None


def test_a_short_node_may_have_waited_for_the_lock(
    index: NodeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few steps were observed, a node that takes less than the time for which threads keep
    the lock is not slow."""
    for seconds in (5e-3, 0.05):

        def took(op: str, device: str, most: float = seconds) -> float:
            return most if (op, device) == ("sin", "cpu:1") else 1e-4

        known = observed(index, monkeypatch, took)
        assert slow_node(known) is not None
        monkeypatch.setattr(NodeCosts, "steps", property(lambda self: 4))
        assert (slow_node(known) is not None) == (seconds > 0.01)


def test_what_a_call_takes_is_not_slow(index: NodeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ops that take next to no time one is always the slowest."""
    for least, is_slow in ((2e-6, False), (2e-5, True)):

        def took(op: str, device: str, each: float = least) -> float:
            return (20 if (op, device) == ("sin", "cpu:1") else 1) * each

        assert (slow_node(observed(index, monkeypatch, took)) is not None) == is_slow


def test_an_op_without_others_of_its_kind_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops of different kinds are compared by rough estimates, so the limit is higher."""
    names = " ".join(
        f"%{op} = {op}(%{before}) : f32[1000]"
        for before, op in zip(("x", *_OPS), (*_OPS, "cos"), strict=False)
    )
    index = NodeIndex(ef.Graph.parse(f"graph f(%x: f32[1000]) {{ {names} return %cos }}"))
    monkeypatch.setitem(globals(), "_OPS", (*_OPS, "cos"))
    for times, is_slow in ((25, False), (200, True)):

        def took(op: str, device: str, most: int = times) -> float:
            return 1e-4 * (most if op == "sin" else 1)

        assert (slow_node(observed(index, monkeypatch, took)) is not None) == is_slow


def test_nothing_is_said_before_some_steps(
    index: NodeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = observed(index, monkeypatch, lambda op, device: 4e-4 if device == "cpu:2" else 1e-4)
    monkeypatch.setattr(NodeCosts, "steps", property(lambda self: 2))
    assert straggler(known) is None
    assert slow_node(known) is None
