"""What vjp rules append to graphs, beside their values, which the table of cases tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eagerflow as ef

LOSSES: dict[str, tuple[Callable[[ef.Tensor], ef.Tensor], list[str]]] = {
    "all axes": (lambda x: x.sum(), ["broadcast_to"]),
    "one axis of two": (lambda x: x.sum(axis=1).sum(), ["broadcast_to", "reshape", "broadcast_to"]),
    "kept axes": (lambda x: x.sum(keepdims=True).reshape(()), ["reshape", "broadcast_to"]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_cotangent_without_axes_is_spread_at_once(name: str) -> None:
    loss, ops = LOSSES[name]
    x = ef.ones((2, 3))
    graph = ef.trace(ef.grad(loss)).graph_for(x)
    repeated = [node.op for node in graph.nodes if node.op in ("reshape", "broadcast_to")]
    assert repeated[-len(ops) :] == ops
    assert ef.grad(loss)(x).tolist() == [[1.0] * 3] * 2
