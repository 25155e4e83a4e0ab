"""Minimum memory of graphs, and placement on devices with less memory than that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import OutOfMemoryError, PlacementError, PlacementWarning
from eagerflow.graph.ir import Graph
from eagerflow.hardware import as_device
from eagerflow.placement.memory_need import peaks
from tests.fakes.by_hand import device_by_hand
from tests.messages import says

CPU = as_device("cpu:0")
X = ef.ones((4, 4))  # 64 bytes


@pytest.fixture
def limited() -> Iterator[str]:
    """A device with room for five such arrays, on which only the test holds memory."""
    with device_by_hand(threads=True) as made:
        device = f"{made.kind}:0"
        ef.hardware.limit_memory(5 * 64, device)
        yield device


def need(f: Any, *args: Any) -> int:
    return peaks(ef.trace(f).graph(*args), frozenset([CPU]))[CPU].bytes // 64


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: x, 1),
        (lambda x: ef.exp(x), 2),
        (lambda x: ef.sin(ef.exp(x)), 2),  # in place of the operand
        (lambda x: x @ x @ x, 3),  # a product is not in place
        (lambda x: ef.reshape(ef.permute_dims(ef.exp(x), (1, 0)), (16,)), 2),  # may be a view
        (lambda x: ef.permute_dims(ef.exp(x), (1, 0)), 2),
        (lambda x: (ef.exp(x), ef.sin(x), ef.cos(x)), 4),
        (lambda x: ef.exp(x) @ (ef.sin(x) @ ef.cos(x)), 5),
        (lambda x: ef.cond(x[0, 0] > 0, lambda: ef.exp(x) @ x @ x, lambda: x), 3),
        (lambda x: ef.while_loop(lambda y: y[0, 0] < 9, lambda y: y @ y, x), 2),
    ],
)
def test_needs(f: Any, count: int) -> None:
    assert need(f, X) == count


def test_state_and_constants_are_there_all_the_time() -> None:
    v = ef.Variable(X)
    assert need(lambda x: x @ v, X) == 3
    graph = Graph.parse("""
        graph f(%x: f32[2]@cpu:0) {
          %y = exp(%x) : f32[2]@cpu:0
          %sum = sum(%y) {axis=(0,), keepdims=False} : f32[]@cpu:0
          %c = constant() {value=tensor(f32[2], (1.0, 2.0))} : f32[2]@null:0
          %d = transfer(%c) {device=device("cpu:0"), source=device("null:0")} : f32[2]@cpu:0
          %z = multiply(%d, %sum) : f32[2]@cpu:0
          return %z
        }""")
    peak = peaks(graph, frozenset([CPU]))[CPU]
    assert (peak.bytes, peak.node) == (8 + 8 + 8 + 4, graph.nodes[1])


def test_what_moves_is_sent_early() -> None:
    graph = Graph.parse("""
        graph f(%x: f32[2]@null:0) {
          %y = exp(%x) : f32[2]@null:0
          %z = exp(%x) : f32[2]@null:0
          %a = transfer(%y) {device=device("cpu:0"), source=device("null:0")} : f32[2]@cpu:0
          %b = sum(%a) {axis=(0,), keepdims=False} : f32[]@cpu:0
          %c = transfer(%z) {device=device("cpu:0"), source=device("null:0")} : f32[2]@cpu:0
          %d = multiply(%b, %c) : f32[2]@cpu:0
          return %d
        }""")
    assert peaks(graph, frozenset([CPU]))[CPU].bytes == 8 + 8 + 4


def test_sizes_that_are_not_known_count_as_nothing() -> None:
    graph = Graph.parse("graph f(%x: f32[n]@cpu:0) { %y = exp(%x) : f32[n] return %y }")
    assert peaks(graph, frozenset([CPU]))[CPU].bytes == 0
    assert peaks(graph, frozenset()) == {}


def test_sizes_that_are_told_count() -> None:
    graph = Graph.parse("""
        graph f(%x: f32[n]@cpu:0) {
          %y = exp(%x) : f32[n]@cpu:0
          %z = concat(%x, %y) {axis=0} : f32[2*n]@cpu:0
          return %z
        }""")
    assert peaks(graph, frozenset([CPU]), {"n": 5})[CPU].bytes == 20 + 20 + 40
    assert peaks(graph, frozenset([CPU]), {"m": 5})[CPU].bytes == 0


# --- placing --------------------------------------------------------------------------------------


def chained(count: int) -> Any:
    """A function of products of which ``count`` are alive at once, beside x."""

    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            values = [x @ x]
            for _ in range(count - 1):
                values.append(values[-1] @ x)
            total = values[0]
            for value in values[1:]:
                total = total @ value
        return total

    return f


@pytest.mark.parametrize(("count", "fits"), [(2, True), (4, True), (5, False)])
def test_what_fits_runs_and_what_does_not_is_refused(count: int, fits: bool, limited: str) -> None:
    f = ef.trace(chained(count))
    want = f(X).numpy()
    if fits:
        assert np.array_equal(f.place({"a": limited})(X).numpy(), want)
        return
    with pytest.raises(PlacementError, match=r"it takes 384 bytes, of 320") as caught:
        f.place({"a": limited})
    assert "&a/matmul_4" in str(caught.value)
    with pytest.raises(OutOfMemoryError):  # without the check
        ef.trace(chained(count))(X.to(limited))


def test_soft_placement_leaves_out_what_has_no_room(limited: str) -> None:
    f = ef.trace(chained(5))
    want = f(X).numpy()
    with ef.config(soft_placement=True), pytest.warns(PlacementWarning, match="it takes 384 bytes"):
        f.place({"a": limited})
    where = [str(n.device) for n in f.graph(X).nodes if n.op == "matmul"]
    assert where.count("cpu:0") > 0 < where.count(limited)
    assert np.array_equal(f(X).numpy(), want)
    (reason,) = {n.reason for n in f.graph(X).nodes if n.op == "matmul" and n.device == "cpu:0"}
    assert reason.startswith(f"stays on cpu:0: rule 'a' asks for {limited}, but with the values")


def test_what_only_follows_stays_and_nothing_is_said(limited: str) -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            y = x @ x
        with ef.colocate(y):
            return chained(6)(y)

    g = ef.trace(f).place({"a/matmul": limited})
    g(X)
    where = [str(n.device) for n in g.graph(X).nodes if n.op == "matmul"]
    assert where == [limited, *["cpu:0"] * 11]


def test_many_nodes_without_room_end_soon(limited: str) -> None:
    ef.hardware.limit_memory(64, limited)
    f = ef.trace(lambda x: sum(x[i : i + 1] @ x for i in range(4)))
    with ef.config(soft_placement=True), pytest.warns(PlacementWarning):
        f.place({"*": limited}).graph(X)


def test_a_constant_without_room_is_told_of_as_such(limited: str) -> None:
    held = ef.ones((5, 16), device=limited)
    f = ef.trace(lambda x: x + ef.tensor([1.0, 2.0])).place({"*": limited})
    with pytest.raises(OutOfMemoryError, check=says("constant: out of memory")):
        f(ef.ones(2))
    del held
