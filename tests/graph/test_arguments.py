"""Operands and attributes that an op does not take, or lacks: `verify` and `run` say which."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph
from eagerflow.graph.verify import verify

SUM = "axis=(0,), keepdims=False"
WRONG = {
    "unknown": ("sum", "axs=(0,)", "&y: sum has no attribute 'axs'", "axis, keepdims"),
    "another": ("sum", f"{SUM}, x=1", "&y: sum has no attribute 'x'", "axis, keepdims"),
    "missing": ("sum", "axis=(0,)", "&y: sum needs the attribute 'keepdims'", "axis, keepdims"),
    "none": ("exp", "base=2", "&y: exp has no attribute 'base'", "no attribute"),
    "of the kernel": ("flip", "axes=(0,)", "&y: flip has no attribute 'axes'", "axis"),
}


def _graph(op: str, attributes: str) -> Graph:
    return Graph.parse(
        f"graph f(%x: f32[4]) {{ %y = {op}(%x) {{{attributes}}} : f32[] return %y }}"
    )


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("check", [verify, lambda g: g.run(g.outputs, {"x": [1.0] * 4})])
def test_wrong_attributes(name: str, check) -> None:
    op, attributes, wrong, expected = WRONG[name]
    with pytest.raises(GraphError) as caught:
        check(_graph(op, attributes))
    assert caught.value.wrong == wrong
    assert expected in (caught.value.expected or "")
    assert f"> %y = {op}(%x) {{{attributes}}} : f32[]" in str(caught.value)  # the line of the text


COUNTS = {
    "ufunc": ("exp(%x, %x)", "exp takes 1 operand, and has 2"),
    "ufunc of two": ("add(%x)", "add takes 2 operands, and has 1"),
    "function": ("where(%x)", "where takes 3 operands, and has 1"),
    "derivative tells": ("relu(%x, %x)", "relu takes 1 operand, and has 2"),
    "no rule of its own": ("nextafter(%x)", "nextafter takes 2 operands, and has 1"),
    "any but none": ("concat() {axis=0}", "concat takes at least 1 operand, and has 0"),
    "and an attribute": ("sum() {axis=1}", "sum takes 1 operand, and has 0"),
    "at least": ("getitem() {key=()}", "getitem takes at least 1 operand, and has 0"),
    "constant": ("constant(%x) {value=1}", "constant takes no operands, and has 1"),
    "number": ("python_add(%x)", "python_add takes 2 operands, and has 1"),
    "item": ("python_item()", "python_item takes 1 operand, and has 0"),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("check", [verify, lambda g: g.run(["y"], {"x": [1.0] * 4})])
def test_wrong_numbers_of_operands(name: str, check) -> None:
    node, wrong = COUNTS[name]
    graph = Graph.parse(f"graph f(%x: f32[4]) {{ %y = {node} : f32[4] return %y }}")
    with pytest.raises(GraphError) as caught:
        check(graph)
    assert caught.value.wrong == f"&y: {wrong}"
    assert f"> %y = {node} : f32[4]" in str(caught.value)


def test_the_number_of_outputs_of_a_number() -> None:
    graph = Graph.parse("graph (%k: int) { %y.0, %y.1 = python_tensor(%k) : f32[], f32[] return }")
    with pytest.raises(GraphError, match="python_tensor has one output"):
        verify(graph)


@pytest.mark.parametrize("attributes", ['axis="a", keepdims=False', "axis=1.5, keepdims=False"])
def test_wrong_values(attributes: str) -> None:
    with pytest.raises(GraphError) as caught:
        verify(_graph("sum", attributes))
    assert "_total_type" not in str(caught.value)


def _printed() -> str:
    def f(x, n):
        y = ef.flip(ef.sum(x * n, axis=0, keepdims=True), axis=0)
        y = ef.cond(y.sum() > 0, lambda: ef.softmax(y), lambda: ef.concat([y, y])[:1])
        return ef.while_loop(lambda v: v.sum() < 3.0, lambda v: ef.cumulative_sum(v) + 1.0, y)

    return str(ef.trace(f).graph(ef.ones(4), 2.0))


TEXT = _printed()
NAMES = [m.span(1) for m in re.finditer(r"[{,] ?([a-z_]+)=", TEXT)]


@given(st.sampled_from(NAMES), st.sampled_from(["x", "axis", "dtype", "resource", "foo", "body"]))
def test_names_that_are_changed(span: tuple[int, int], name: str) -> None:
    start, end = span
    for check in (verify, lambda g: g.run(g.outputs, {"x": ef.ones(4), "n": 2.0})):
        try:
            check(Graph.parse(TEXT[:start] + name + TEXT[end:]))
        except GraphError as error:
            assert "unexpected keyword" not in str(error)  # noqa: PT017 - none is right as well
