"""Random draws in programs: the tickets are those of eager code, reserved at the start."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import op as op_module
from eagerflow.core.op import define, get_op
from eagerflow.graph import Graph
from eagerflow.resources.generator import GeneratorState
from eagerflow.runtime import Executable, replay
from eagerflow.types import TensorType
from eagerflow_kernels import table
from tests.runtime.graphs import Traced, same

TWO = """graph f(%x: f32[n]) {
  %a = next_key() {resource=@g, device=device("cpu:0")} : u64[2]
  %b = next_key() {resource=@h, device=device("cpu:0")} : u64[2]
  %y = call() {body=graph inner() {
    %c = next_key() {resource=@g, device=device("cpu:0")} : u64[2] return %c }} : u64[2]
  %d = exp(%x) : f32[n]
  return %a, %b, %y }"""


def program(seed: int, ticket: int) -> tuple[Executable, GeneratorState, GeneratorState]:
    g, h = GeneratorState(seed), GeneratorState(1)
    g.set(seed, ticket)
    return Executable(Graph.parse(TWO, {"g": g, "h": h})), g, h


def draw(p: Executable) -> list[list[int]]:
    return [key.tolist() for key in p(ef.ones(1)._data)]


def test_tickets_are_reserved_at_the_start() -> None:
    p, g, h = program(5, 7)
    assert p.text.count("= reserve_0(2)") == 1  # two tickets of the one generator at once
    assert draw(p) == [[5, 7], [1, 0], [5, 8]]
    assert g.get() == (5, 9)
    assert h.get() == (1, 1)
    assert draw(p) == [[5, 9], [1, 1], [5, 10]]


def test_tickets_wrap() -> None:
    p, g, _ = program(2**64 - 1, 2**64 - 1)
    assert draw(p) == [[2**64 - 1, 2**64 - 1], [1, 0], [2**64 - 1, 0]]
    assert g.get() == (2**64 - 1, 1)


def test_draws_are_those_of_eager_code() -> None:
    def f(x: Any) -> Any:
        a = ef.random.normal(x.shape, generator=generator)
        b = ef.random.randint((3,), 0, 10, generator=generator)
        return a + x, b, ef.random.permutation(5, generator=generator)

    generator = ef.random.Generator(11)
    traced = Traced(f, ("float32", ("n",)))
    x = ef.ones(4)
    for how in (traced, lambda x: replay(traced.graph, traced.inputs([x]))):
        generator._state.set(11)
        want = [*f(x), *f(x)]
        generator._state.set(11)
        for a, b in zip([*how(x), *how(x)], want, strict=True):
            assert same(a, b)


@pytest.fixture
def fence() -> Any:
    """An op with the effect of a fence that draws without the graph's knowledge."""

    def infer(x: TensorType, *, state: GeneratorState) -> TensorType:
        return x

    @table.portable("test_fence")
    def kernel(xp: Any, x: Any, *, state: GeneratorState) -> Any:
        state.reserve()
        return x

    define("test_fence", infer=infer, nondifferentiable=True, effect="fence", precision="exact")
    yield get_op("test_fence")
    table.remove("test_fence")
    del op_module._ops["test_fence"]  # the registry has no public way to forget an op


def test_with_a_fence_each_draw_takes_its_own_ticket(fence: Any) -> None:
    g = GeneratorState(3)
    key = '() {resource=@g, device=device("cpu:0")} : u64[2]'
    graph = Graph.parse(
        f"""graph f(%x: f32[]) {{
          %a = next_key{key}
          %y = test_fence(%x) {{state=@g}} : f32[]
          %b = next_key{key}
          return %a, %b }}""",
        {"g": g},
    )
    p = Executable(graph)
    assert draw(p) == [[3, 0], [3, 2]]


def test_threads_share_no_ticket() -> None:
    p, g, _ = program(0, 0)
    seen: list[list[int]] = []

    def work() -> None:
        for _ in range(200):
            a, _, b = draw(p)
            assert b[1] == a[1] + 1
            seen.extend([a, b])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ticket for _, ticket in seen) == list(range(1200))
    assert g.get() == (0, 1200)
