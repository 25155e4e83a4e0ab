"""What vjp rules append to graphs, beside their values, which the table of cases tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eagerflow as ef

#: losses whose cotangents depend on ``x``, and the ops that bring these into the shape of ``x``
LOSSES: dict[str, tuple[Callable[[ef.Tensor], ef.Tensor], list[str]]] = {
    "all axes": (lambda x: x.sum() ** 2, ["broadcast_to"]),
    "one axis": (lambda x: (x.sum(axis=1) ** 2).sum(), ["reshape", "broadcast_to"]),
    "kept axes": (lambda x: (x.sum(keepdims=True) ** 2).sum(), ["broadcast_to"]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_cotangent_without_axes_is_spread_at_once(name: str) -> None:
    loss, ops = LOSSES[name]
    graph = ef.trace(ef.grad(loss)).graph(ef.ones((2, 3)))
    spreading = [node.op for node in graph.nodes if node.op in ("reshape", "broadcast_to")]
    assert spreading == ops
