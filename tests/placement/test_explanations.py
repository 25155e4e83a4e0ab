"""The crossings in `f.explain("placement")` are the values that the cut sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph.lowering import lower
from eagerflow.placement.cut import cut

X = ef.ones((4, 2))


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


def _halves(x: Any) -> Any:
    while ef.sum(x) > 1:
        with ef.device("cpu:1"):
            half = x * 0.5
        with ef.device("cpu:0"):
            x = half - 0.01
    return x


def _chooses(x: Any) -> Any:
    if ef.sum(x) > 1:
        with ef.device("cpu:1"):
            x = x * 0.5
        with ef.device("cpu:2"):
            x = ef.exp(x).to("cpu:0")
    return x


def _chooses_in_a_loop(x: Any) -> Any:
    while ef.sum(x) > 1:
        if ef.max(x) > 2:
            with ef.device("cpu:1"):
                x = (x * 0.5).to("cpu:0")
        else:
            x = x - 0.5
    return x


def test_what_a_scope_says_is_the_reason() -> None:
    variable = ef.Variable(ef.ones(2), device="cpu:3")

    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            doubled = x * 2.0
        with ef.colocate(variable):
            total = ef.sum(doubled)
        return total * ef.ones(2, device="cpu:3")

    traced = ef.trace(f)
    traced(X)
    graph = traced.graph(X)
    reasons = {node.op: node.reason for node in graph.nodes[:-1]}
    assert reasons["multiply"] == "scope cpu:1"
    assert reasons["sum"] == "colocation on cpu:3"
    assert graph.nodes[-1].reason.startswith("where its operands are: %sum on cpu:3")

    def loss(x: Any) -> Any:
        with ef.device("cpu:1"):
            return ef.sum(ef.exp(x))

    slope = ef.trace(ef.grad(loss))
    slope(X)
    (derivative,) = [
        n for n in slope.graph(X).nodes if n.forward is not None and n.op == "multiply"
    ]
    assert derivative.reason == "scope cpu:1, as for the op whose derivative it is part of"


def _loops_elsewhere(x: Any) -> Any:
    with ef.device("cpu:1"):
        x = x + 0
        while ef.sum(x) > 1:
            x = x * 0.5
    return x.to("cpu:0")


def _decides_elsewhere(x: Any) -> Any:
    with ef.device("cpu:1"):
        large = ef.sum(x) > 1
    return ef.cond(large, lambda: x * 2, lambda: x - 1)


def _counts(x: Any) -> Any:
    with ef.device("cpu:1"):
        for _ in range(3):
            x = ef.sin(x)
    return x


@pytest.mark.parametrize(
    ("f", "count"),
    [(_halves, 1), (_chooses, 2), (_chooses_in_a_loop, 2), (_loops_elsewhere, 0),
     (_decides_elsewhere, 1), (_counts, 0)],
)  # fmt: skip
def test_predicates_cross_where_the_cut_sends_them(f: Any, count: int) -> None:
    g = ef.trace(f)
    assert np.array_equal(g(X).numpy(), f(X).numpy())
    told = g.explain("placement")
    targets = sorted(c.target for c in told.crossings if str(c.value.type) == "bool[]")
    sends = [sent for sent, _ in cut(lower(g.graph(X))).pairs.values()]
    truths = [
        sent.attrs["to"].name for sent in sends if [str(v.type) for v in sent.inputs] == ["bool[]"]
    ]
    assert targets == sorted(truths)
    assert len(targets) == count


def test_the_predicate_of_a_loop_crosses_in_each_iteration() -> None:
    f = ef.trace(_halves)
    f(X)
    told = f.explain("placement")
    (row,) = [c for c in told.crossings if str(c.value.type) == "bool[]"]
    assert (row.bytes, row.when) == (1, "in each iteration of &while_loop")


def test_one_byte_is_one_byte_and_reasons_name_what_is_listed() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        return (x > 0).to("cpu:1").any()

    f(ef.ones(()))
    text = str(f.explain("placement"))
    assert "1 byte crosses:\n" in text
    assert "1 bytes" not in text
    assert "where its operands are: %greater moved to cpu:1, by " in text
    assert "%transfer" not in text
