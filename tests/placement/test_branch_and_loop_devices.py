"""Placed loops carry values, and keep lists for their gradients, where their bodies make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.verify import verify

X = ef.full((4, 2), 0.3)


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


def grows(x: Any) -> Any:
    with ef.name_scope("loop"):
        while ef.sum(x) < 100:
            x = ef.exp(x) * x + x
    return x


def slope(f: Any) -> Any:
    return ef.grad(lambda x: ef.sum(f(x)))


def crossings(f: Any) -> list[tuple[str, str, str]]:
    return [(str(c.value.type), c.target, c.when) for c in f.explain("placement").crossings]


def each_time(f: Any) -> list[str]:
    """The types of the values that cross in each iteration."""
    return [kind for kind, _, when in crossings(f) if when.startswith("in each")]


def placed(f: Any, rules: Any, *args: Any) -> Any:
    """A placed function, which is checked to give the same result on the same device."""
    traced = ef.trace(f)
    want = traced(*args)
    traced.place(rules)
    got = traced(*args)
    assert got.device == want.device
    assert got.numpy().tobytes() == want.numpy().tobytes()
    verify(traced.graph(*args))
    return traced


# --- carried values -------------------------------------------------------------------------------


def test_a_loop_that_is_placed_as_a_whole_moves_once() -> None:
    f = placed(grows, {"loop": "cpu:1"}, X)
    assert [one for one in crossings(f) if not one[2].startswith("once")] == [
        ("f32[4,2]", "cpu:1", ""), ("f32[4,2]", "cpu:0", ""),
    ]  # fmt: skip
    assert each_time(f) == []


def test_values_that_iterations_hand_on_to_each_other() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("loop"):
            return ef.while_loop(
                lambda a, b, c: ef.sum(a) < 10, lambda a, b, c: (b, c, ef.exp(a)), (x, x, x)
            )[0]

    g = placed(f, {"loop": "cpu:1"}, X)
    assert each_time(g) == []
    g.place({"loop/exp": "cpu:1"})  # the predicate stays
    assert g(X).numpy().tobytes() == f(X).numpy().tobytes()
    assert sorted(each_time(g)) == ["bool[]", "f32[4,2]"]


def test_where_the_program_moves_what_it_carries_it_stays() -> None:
    def f(x: Any) -> Any:
        while ef.sum(x) < 10:
            x = ef.exp(x).to("cpu:2").to("cpu:0")
        return x

    g = placed(f, {"exp": "cpu:1"}, X)
    (loop,) = [n for n in g.graph(X).nodes if n.op == "while_loop"]
    assert "cpu:1" not in {str(v.device) for v in loop.attrs["body"].inputs}


def test_loops_in_loops() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("loop"):
            while ef.sum(x) < 30:
                y = x
                while ef.max(y) < 1:
                    y = y * 1.5
                x = x + y
        return x

    assert each_time(placed(f, {"loop": "cpu:1"}, X)) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse: bool) -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("loop"):
            last, all_of_them = ef.scan(
                lambda c, row: (c + ef.exp(row), row), x[0], x, reverse=reverse
            )
        return last + ef.sum(all_of_them)

    g = placed(f, {"loop": "cpu:1"}, X)
    assert "f32[4,2]" not in each_time(g)
    placed(slope(f), {"**/loop": "cpu:1"}, X)


def test_branches_take_what_is_elsewhere_only_if_they_need_it() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("first"):
            y = ef.exp(x)
        if ef.sum(x) > 100:
            return y * 2
        return x

    g = placed(f, {"first": "cpu:1"}, X)
    kinds = {one[2] for one in crossings(g) if one[0] == "f32[4,2]" and one[1] == "cpu:0"}
    assert kinds == {"in a branch of &cond"}


# --- lists ----------------------------------------------------------------------------------------


def lists(f: Any, *args: Any) -> set[str]:
    """The devices of the lists in a graph."""
    graph = f.graph(*args)
    values = [v for g in (graph, *inner_graphs(graph.nodes)) for v in g.values()]
    return {str(v.device) for v in values if str(v.type) == "list[]"}


def test_what_branches_make_stays_there() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            y = ef.exp(x) if ef.sum(x) > 0 else ef.sin(x)
            z = y * y
        return ef.sum(z)

    for g in (f, ef.grad(f)):
        traced = placed(g, {"a": "cpu:1"}, X)
        assert crossings(traced) == [("f32[4,2]", "cpu:1", ""), ("f32[4,2]", "cpu:0", "")]


def test_what_one_branch_makes_elsewhere_comes_back() -> None:
    def f(x: Any) -> Any:
        if ef.sum(x) > 0:
            with ef.name_scope("a"):
                x = ef.exp(x)
        return x * 2.0

    for x in (X, -X):
        traced = placed(f, {"a": "cpu:1"}, x)
        assert [kind for kind, target, _ in crossings(traced) if target == "cpu:0"] == ["f32[4,2]"]


def test_what_a_loop_keeps_for_its_gradient_stays_with_it() -> None:
    f = placed(slope(grows), {"loop": "cpu:1"}, X)
    assert lists(f, X) == {"cpu:1"}
    assert each_time(f) == []
    why = {n.reason for n in f.graph(X).nodes if n.op == "list_new"}
    assert why == {"with the elements of the list"}


def test_under_a_tape_as_well() -> None:
    f = ef.trace(grows).place({"loop": "cpu:1"})
    assert slope(f)(X).numpy().tobytes() == slope(grows)(X).numpy().tobytes()
    (entry,) = f._lookup.cache.entries()
    derivative = entry._derivative
    values = [v for g in (derivative.forward, derivative.backward) for v in g.values()]
    assert {str(v.device) for v in values if str(v.type) == "list[]"} == {"cpu:1"}


def test_a_loop_over_two_devices_keeps_two_lists() -> None:
    def f(x: Any) -> Any:
        while ef.sum(x) < 100:
            with ef.name_scope("a"):
                y = ef.exp(x)
            with ef.device("cpu:2"):
                z = ef.sinh(y)
            x = x + z.to("cpu:0") * y
        return x

    placed(slope(f), {"**/a": "cpu:1"}, X)
    placed(slope(slope(f)), {"**/a": "cpu:1"}, X)


def test_a_list_that_holds_what_several_devices_make_stays() -> None:
    def f(x: Any) -> Any:
        array = ef.TensorArray(2, X[0])
        with ef.name_scope("a"):
            array = array.write(0, ef.exp(x[0]))
        with ef.name_scope("b"):
            array = array.write(1, ef.sin(x[1]))
        return array.stack()

    assert lists(placed(f, {"a/exp": "cpu:1"}, X), X) == {"cpu:0"}
    assert lists(placed(f, {"a/exp": "cpu:1", "b/sin": "cpu:1"}, X), X) == {"cpu:1"}


def test_a_list_that_is_returned_stays() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            return ef.TensorArray(1, X).write(0, ef.exp(x))

    f.place({"a": "cpu:1"})
    assert f(X).stack().device == "cpu:0"
    np.testing.assert_array_equal(f(X).stack().numpy()[0], ef.exp(X).numpy())
