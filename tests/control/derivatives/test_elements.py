"""Gradients of elements that loops read equal eager ones, at the cost of these elements alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from tests.control.derivatives.comparing import close, twice

# mypy: disable-error-code="no-untyped-def"


def element(xs, w):
    def body(s, i):
        return s * 0.5 + ef.tanh(xs[i] * w), i + 1

    return ef.while_loop(lambda s, i: i < 5, body, (w, 0))[0].sum()


def elements_in_an_iteration(xs, w):
    def body(s, i):
        return s + (xs[i] * xs[-i - 1] * xs[ef.stack([i, i % 2])].sum(axis=0) * w).sum(), i + 1

    return ef.while_loop(lambda s, i: i < 5, body, (w.sum(), ef.tensor(0)))[0]


def element_in_nested_loops(xs, w):
    def inner(t, j):
        return t + (xs[j] * ef.sin(t)).sum(), j + 1

    def outer(s, i):
        return ef.while_loop(lambda t, j: j < i, inner, (s, i * 0))[0] * w.sum(), i + 1

    return ef.while_loop(lambda s, i: i < 4, outer, (w.sum(), ef.tensor(0)))[0]


def element_in_a_branch(xs, w):
    def body(s, i):
        return ef.cond(i % 2 == 0, lambda: s + (xs[i] * w).sum(), lambda: s * s), i + 1

    return ef.while_loop(lambda s, i: i < 5, body, (w.sum(), ef.tensor(0)))[0]


def element_in_a_scan(xs, w):
    return ef.scan(lambda c, i: (c * xs[i], xs[i]), w, ef.tensor([3, 0, 3]))[1].sum()


def element_in_pythons_loop(xs, w):
    s = w.sum()
    for i in range(ef.tensor(4)):
        if s < 3:
            s = s + (xs[i] * xs[i]).sum() * w.sum()
    return s


ELEMENTS = (
    element, elements_in_an_iteration, element_in_nested_loops, element_in_a_branch,
    element_in_a_scan, element_in_pythons_loop,
)  # fmt: skip


def test_a_gather_in_a_branch_of_a_loop_with_symbolic_sizes() -> None:
    """Its rule names the size of the whole, which nothing in the branch tells."""

    def f(xs, w):
        def body(s, i):
            def yes():
                return s + (ef.take(xs, ef.stack([i, -i]), axis=0) * w).sum()

            return ef.cond(i % 2 == 0, yes, lambda: s * s), i + 1

        return ef.while_loop(lambda s, i: i < 5, body, (w.sum(), ef.tensor(0)))[0]

    traced = ef.trace(ef.grad(f, (0, 1)))
    w = ef.tensor([0.3, -0.2], dtype=ef.float64)
    for n in (6, 8, 7):
        xs = ef.cos(ef.arange(2.0 * n, dtype=ef.float64)).reshape(n, 2)
        close(traced(xs, w), ef.grad(f, (0, 1))(xs, w))
    assert len(traced.traces) == 2


def _inside(graph: Any) -> list[Any]:
    """The nodes of subgraphs."""
    parts = [part for node in graph.nodes for _, part in node.subgraphs()]
    return [node for part in parts for node in [*part.nodes, *_inside(part)]]


@pytest.mark.parametrize("f", ELEMENTS)
def test_elements_read_in_iterations_cost_no_more_than_themselves(f: Callable[..., Any]) -> None:
    """The gradient is dense, as eagerly, but no iteration makes one as large as the whole."""
    xs = ef.sin(ef.arange(12, dtype=ef.float64)).reshape(6, 2)
    w = ef.tensor([0.3, -0.2], dtype=ef.float64)
    by_both = ef.grad(f, (0, 1))
    for way in (ef.trace(by_both), ef.grad(ef.trace(f), (0, 1))):
        gradients = way(xs, w)
        assert all(type(g) is ef.Tensor for g in gradients)
        close(gradients, by_both(xs, w))
    close(ef.trace(twice(f))(xs, w), twice(f)(xs, w))
    graph = ef.trace(by_both).graph(xs, w)
    if f is not element_in_pythons_loop:  # whose iterations are not in the graph
        assert {"index_scatter", "segment_sum"}.isdisjoint(n.op for n in _inside(graph))
    # sizes that the graph does not know
    traced = ef.trace(by_both)
    for n in (6, 8, 7):
        longer = ef.cos(ef.arange(2.0 * n, dtype=ef.float64)).reshape(n, 2)
        close(traced(longer, w), by_both(longer, w))
    assert len(traced.traces) <= 2

    table = ef.Variable(xs)
    by_table = ef.grad(lambda w: f(table, w), wrt=table)
    assert type(ef.trace(by_table)(w)) is type(by_table(w))
    close([ef.trace(by_table)(w)], [by_table(w)])
