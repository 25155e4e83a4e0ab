"""Memory of programs: values until their last use, reuse of dead arrays, lifetime of programs."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, replay
from tests.runtime.graphs import chain


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_values_are_dropped_after_their_last_use(add_kernel: Any) -> None:
    alive: list[int] = []
    refs: list[weakref.ref[Any]] = []

    def kernel(xp: Any, x: Any) -> Any:
        alive.append(sum(ref() is not None for ref in refs))
        out = x + 1
        refs.append(weakref.ref(out))
        return out

    add_kernel("exp", kernel)
    lines = "".join(f"%y{i + 1} = exp(%y{i}) : f32[n]\n" for i in range(6))
    graph = Graph.parse(f"graph f(%y0: f32[n]) {{ {lines} return %y6 }}")
    program = Executable(graph)
    (y,) = program(ones(3))
    assert alive == [0, 1, 1, 1, 1, 1]
    assert sum(ref() is not None for ref in refs) == 1
    del y
    assert not any(ref() for ref in refs)
    alive.clear()
    refs.clear()
    (_,) = replay(graph, [ef.ones(3)])
    assert max(alive) == 1


@pytest.mark.parametrize("length", [20, 300])
def test_the_peak_is_not_above_that_of_eager_code(length: int) -> None:
    program = Executable(chain(length))
    x = ones(250_000)

    def eager() -> Any:
        y = x
        for _ in range(length):
            y = np.add(y, x)
        return y

    def peak(function: Any) -> int:
        gc.collect()
        tracemalloc.start()
        function()
        nbytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return nbytes

    assert peak(lambda: program(x, x)) <= peak(eager) + 100_000


def test_a_program_frees_its_graph() -> None:
    program = Executable(chain(3))
    program(ones(2), ones(2))
    graph = weakref.ref(program.graph)
    reference = weakref.ref(program)
    del program
    gc.collect()
    assert graph() is None
    assert reference() is None


def _reusing(text: str) -> Executable:
    graph = Graph.parse(text)
    for node in graph.nodes:
        node.reuses = 0
    return Executable(graph)


def test_dead_arrays_are_written_into() -> None:
    program = _reusing(
        """graph f(%x: f32[n]) {
          %a = exp(%x) : f32[n]
          %b = negative(%a) : f32[n]
          %c = add(%b, %x) : f32[n]
          return %c }"""
    )
    x = ones(100_000)
    tracemalloc.start()
    (y,) = program(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * x.nbytes
    np.testing.assert_allclose(y, -np.exp(x) + x, rtol=3e-7)
    assert x[0] == 1.0
    np.testing.assert_array_equal(program(ones(3))[0], y[:3])


def test_dead_arrays_by_columns_are_written_into() -> None:
    """As gradients of weights that a layer transposes."""
    program = _reusing(
        """graph f(%x: f32[n,m], %y: f32[n,m]) {
          %a = exp(%x) : f32[n,m]
          %b = multiply(%a, %y) : f32[n,m]
          %c = add(%b, %x) : f32[n,m]
          return %c }"""
    )
    x, y = (np.asfortranarray(ones(100_000).reshape(4, -1)) for _ in range(2))
    tracemalloc.start()
    (z,) = program(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * x.nbytes
    assert z.strides == x.strides
    np.testing.assert_allclose(z, np.exp(x) * y + x, rtol=3e-7)
    (rows,) = program(x, np.ascontiguousarray(y))  # which would lie by rows
    np.testing.assert_array_equal(rows, z)


@pytest.mark.parametrize(
    "text",
    [
        "%a = exp(%x) : f32[n,m] %v = permute_dims(%a) {axes=(1,0)} : f32[m,n] "
        "%b = negative(%a) : f32[n,m] return %v, %b",
        "%a = positive(%x) : f32[n,m] %b = negative(%a) : f32[n,m] return %x, %b",
        "%a = exp(%x) : f32[n,m] %b = multiply(%a, %a) : f32[n,m] return %b",
        "%c = exp(%x) : f32[n,m] %a = permute_dims(%c) {axes=(1,0)} : f32[m,n] "
        "%b = negative(%a) : f32[m,n] return %b, %c",
        "%a = exp(%x) : f32[n,m] %b = negative(%a) : f32[n,m] return %a, %b",
        "%a = exp(%x) : f32[n,m] %b = negative(%a) : f32[n,m] "
        "%c = add(%a, %b) : f32[n,m] return %c",
        "%a = exp(%x) : f32[n,m] %b = less(%a, %x) : bool[n,m] return %b",
        "%a = sum(%x) {axis=(0,), keepdims=True} : f32[1,m] %b = add(%a, %x) : f32[n,m] return %b",
    ],
    ids=[
        "a view is alive",
        "an input",
        "taken twice",
        "no owner",
        "returned",
        "read later",
        "another dtype",
        "another shape",
    ],
)
def test_arrays_that_others_see_are_not_written_into(text: str) -> None:
    """The memory is checked even if a pass marks the array as reusable."""
    text = f"graph f(%x: f32[n,m]) {{ {text} }}"
    rng = np.random.default_rng(1)
    for order in ("C", "F"):
        x = np.asarray(rng.normal(size=(3, 40_000)), np.float32, order=order)
        kept = x.copy("K")
        got = _reusing(text)(x)
        for a, b in zip(got, Executable(Graph.parse(text))(x), strict=True):
            assert np.array_equal(a, b)
            assert a.strides == b.strides
        assert np.array_equal(x, kept)


def test_a_view_is_written_into_where_it_alone_holds_the_memory() -> None:
    text = """graph f(%x: f32[n,m]) {
      %a = exp(%x) : f32[n,m]
      %v = reshape(%a) {shape=(m,n)} : f32[m,n]
      %b = negative(%v) : f32[m,n]
      return %b }"""
    graph = Graph.parse(text)
    graph.nodes[-1].reuses = 0
    program = Executable(graph)
    x = ones(200, 500)
    tracemalloc.start()
    (y,) = program(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * x.nbytes
    np.testing.assert_allclose(y, -np.exp(x).reshape(500, 200), rtol=2e-7)


def test_the_value_of_a_variable_is_not_written_into() -> None:
    """The variable holds the memory, even if a pass marks the value as reusable."""
    v = ef.Variable(ones(200, 500))
    text = 'graph f() { %r = read() {resource=@w, device=device("cpu:0")} : f32[200,500]@cpu:0 '
    text += "%b = negative(%r) : f32[200,500]@cpu:0 return %b }"
    graph = Graph.parse(text, resources={"w": v.resource})
    graph.nodes[-1].reuses = 0
    (y,) = Executable(graph)()
    assert np.array_equal(y, -ones(200, 500))
    assert np.array_equal(v.numpy(), ones(200, 500))


@pytest.mark.parametrize("orders", ["CF", "FC", "FF"])
def test_results_lie_in_memory_as_they_would(orders: str) -> None:
    text = """graph f(%x: f32[n,m], %y: f32[n,m]) {
      %a = exp(%x) : f32[n,m]
      %b = add(%a, %y) : f32[n,m]
      return %b }"""
    x, y = (np.asarray(ones(300, 400), order=order) for order in orders)
    (got,), (want,) = _reusing(text)(x, y), Executable(Graph.parse(text))(x, y)
    assert got.strides == want.strides
