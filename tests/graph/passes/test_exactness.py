"""Random graphs give the same bits before and after every pass, whatever their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import EagerflowError
from eagerflow.graph import Graph
from eagerflow.graph.passes import DEFAULT, donate, optimise, rewrite
from eagerflow.graph.passes.memory_layout import Memory, MemoryLayout, is_fresh
from eagerflow.graph.passes.rewrite import Form
from eagerflow.graph.verify import verify
from tests.exploring import examples
from tests.graph.passes.evaluate import assert_same, evaluate, run
from tests.graph.passes.random_graphs import STEPS, build, feeds

N, M = ef.Dim("n"), ef.Dim("m")
SIZES = st.sampled_from([(0, 3), (1, 1), (1, 4), (3, 3), (2, 1), (5, 5), (4, 0)])

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _results(graph: Graph, inputs: list[Any]) -> list[Any] | None:
    """The outputs of a graph; None where the sizes of this call do not fit together."""
    try:
        return run(graph, inputs)
    except EagerflowError:
        return None


@settings(max_examples=examples(150))
@given(STEPS, SIZES, st.integers(0, 9999))
def test_each_pass_keeps_all_bits(steps: Any, sizes: tuple[int, int], seed: int) -> None:
    graph = build(steps, N, M)
    verify(graph)
    text = str(graph)
    inputs = feeds(graph, {"n": sizes[0], "m": sizes[1]}, seed)
    want = _results(graph, inputs)
    for each in DEFAULT:
        result, report = each(graph)
        verify(result)
        assert str(graph) == text
        assert (result is graph) == (not report.changes)
        assert each(result)[0] is result
        if want is not None:
            assert_same(want, run(result, inputs))


@settings(max_examples=examples(150))
@given(STEPS, SIZES, st.integers(0, 9999))
@example([(91, 0, 0, 0), (20, 0, 0, 0)], (0, 3), 0)  # of a NaN, `maximum(x, x)` is another NaN
def test_all_passes_keep_all_bits(steps: Any, sizes: tuple[int, int], seed: int) -> None:
    graph = build(steps, N, M)
    inputs = feeds(graph, {"n": sizes[0], "m": sizes[1]}, seed)
    want = _results(graph, inputs)
    with ef.config(verify=True):
        result, reports = optimise(graph)
        assert optimise(result) == (result, [])
    assert bool(reports) == (result is not graph)
    if want is not None:
        assert_same(want, run(result, inputs))


@settings(max_examples=examples(200))
@given(STEPS, SIZES, st.integers(0, 9999))
def test_buffers_are_reused_safely(steps: Any, sizes: tuple[int, int], seed: int) -> None:
    graph = build(steps, *sizes)
    inputs = feeds(graph, {}, seed)
    want = _results(graph, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "LARGE", 0)
        result, _ = optimise(graph)
        assert donate(result)[0] is result
    verify(result)
    before = [x.numpy().tobytes() for x in inputs]
    if want is not None:
        kept = [(x.numpy().copy(), x) for x in want]
        assert_same(want, run(result, inputs))
        assert all(a.tobytes() == b.numpy().tobytes() for a, b in kept)
    assert [x.numpy().tobytes() for x in inputs] == before


@settings(max_examples=examples(200))
@given(STEPS, SIZES, st.integers(0, 9999))
def test_what_is_known_of_memory_is_so(steps: Any, sizes: tuple[int, int], seed: int) -> None:
    graph = build(steps, N, M)
    inputs = feeds(graph, {"n": sizes[0], "m": sizes[1]}, seed)
    try:
        values = evaluate(graph, inputs)
    except EagerflowError:
        return
    known = Memory()
    for node in graph.nodes:
        form = Form(node.op, node.inputs, node.attrs)
        known.see(form, node.outputs)
        array = values[node.outputs[0]]._data
        layout = known.layout(node.outputs[0])
        if layout == MemoryLayout.ROWS:
            assert array.flags.c_contiguous, node
        elif layout == MemoryLayout.DENSE:
            order = sorted(range(array.ndim), key=[-s for s in array.strides].__getitem__)
            assert array.size == 0 or array.transpose(order).flags.c_contiguous, node
        if is_fresh(node):
            assert not any(np.shares_memory(array, values[v]._data) for v in node.inputs), node
