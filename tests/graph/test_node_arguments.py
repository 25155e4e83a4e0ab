"""Operands, attributes and resources that an op does not take: `verify` and `run` name them."""

from __future__ import annotations

import contextlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import EagerflowError, GraphError
from eagerflow.graph import Graph
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.value_types import Reference
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


@pytest.mark.parametrize(
    ("op", "attributes", "wrong"),
    [
        ("sum", 'axis="a", keepdims=False', "&y: sum cannot have these attributes: axis='a'"),
        ("sum", "axis=1.5, keepdims=False", "&y: sum cannot have these attributes: axis=1.5"),
        ("cast", 'dtype="f99"', "&y: cast cannot have these attributes: dtype='f99'"),
        ("expand_dims", 'axis=(1, "q")', "&y: expand_dims cannot have these attributes"),
        ("einsum", "subscripts=5", "&y: einsum cannot have these attributes: subscripts=5"),
        ("while_loop", "cond=3, body=4", "while_loop has no subgraph 'cond'"),
    ],
)
@pytest.mark.parametrize("check", [verify, lambda g: g.run(["y"], {"x": [1.0] * 4})])
def test_wrong_values(op: str, attributes: str, wrong: str, check) -> None:
    with pytest.raises(GraphError) as caught:
        check(_graph(op, attributes))
    assert caught.value.wrong.startswith(wrong)
    assert "_total_type" not in str(caught.value)


@pytest.mark.parametrize(
    ("node", "wrong", "expected"),
    [
        ("queue_size()", "the resource of queue_size is no queue", "queue, not variable"),
        ("next_key()", "the resource of next_key is no generator", "generator, not variable"),
        ("py_call(%x)", "the resource of py_call is no pyfunction", "pyfunction, not variable"),
    ],
)
@pytest.mark.parametrize("check", [verify, lambda g: g.run(["&y"], {"x": [1.0] * 4})])
def test_a_resource_of_another_kind(node: str, wrong: str, expected: str, check) -> None:
    text = f"graph (%x: f32[4]) {{ %y = {node} {{resource=@v}} : i64[] return %y }}"
    with pytest.raises(GraphError) as caught:
        check(Graph.parse(text, {"v": ef.Variable(1.0).resource}))
    assert caught.value.wrong == f"&y: {wrong}"
    assert caught.value.expected == expected


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


VARIABLE, QUEUE = ef.Variable(ef.ones((2, 3))), ef.Queue(9, ef.tensor(1.0))
#: with many kinds of attributes: axes, shapes, dtypes, keys, subscripts, subgraphs, names
PROGRAMS = {
    "reduce": lambda x: ef.sum(x, axis=0),
    "reshape": lambda x: ef.expand_dims(x.reshape((6,)), axis=0),
    "cast": lambda x: x.astype(ef.int32),
    "take": lambda x: ef.take(x, ef.tensor([0, 1]), axis=1),
    "getitem": lambda x: x[0, 1:],
    "concat": lambda x: ef.concat([x, ef.stack([x, x])[0]], axis=0),
    "pad": lambda x: ef.pad(x, ((1, 0), (0, 2))),
    "sort": lambda x: ef.cumulative_sum(ef.sort(x), axis=1),
    "make": lambda x: ef.arange(5) + ef.zeros(5) + x.sum(),
    "draw": lambda x: ef.random.normal((3,)) + x.sum(),
    "one_hot": lambda x: ef.one_hot(x.astype(ef.int64), 4),
    "einsum": lambda x: ef.einsum("ij,kj->ik", x, x),
    "fft": ef.fft.fft,
    "split": lambda x: ef.split(x, 3, axis=1),
    "convolve": lambda x: ef.nn.functional.conv1d(x[None], ef.ones((1, 2, 2))),
    "while_loop": lambda x: ef.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, (x,)),
    "scan": lambda x: ef.scan(lambda c, e: (c + e, c), x[0], x),
    "cond": lambda x: ef.cond(x.sum() > 0, lambda: x, lambda: x * 2),
    "call": lambda x: ef.call(lambda v: v * 2, x),
    "move": lambda x: x.to("cpu:1"),
    "variable": lambda x: VARIABLE.assign_add(x) * VARIABLE,
    "queue": lambda x: QUEUE.size() + x.sum(),
    "call_python": lambda x: ef.py_call(lambda v: v * 2, "f32[2,3]", x),
}
JUNK = ["abc", 3, -1, (1, "q"), None, 7.5, (99,), (), True, float("nan"), 10**30, (10**30,), b"x",
        [1], slice(1, "a"), object(), Graph("g"), (Graph("g"),), ef.Variable(1.0).resource,
        ef.Queue(1, ef.tensor(1.0)).resource,
        ef.tensor([1.0, 2.0]), ef.int32, ef.hardware.as_device("cpu:0"),
        Reference("device", "gpu:7"), (None, None), ((1, 2), (3,))]  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_value_of_an_attribute_is_taken_or_refused_in_words(name: str) -> None:
    x = ef.ones((2, 3))
    with ef.config(cpu_devices=2):
        traced = ef.trace(PROGRAMS[name]).graph(x)
        places = [
            (i, attribute)
            for i, node in enumerate(all_nodes(traced.nodes))
            for attribute in node.attrs
            if node.op != "constant"
        ]
        assert places
        for (i, attribute), junk in itertools.product(places, JUNK):
            graph = Graph.parse(str(traced), traced.resources)
            next(itertools.islice(all_nodes(graph.nodes), i, None)).attrs[attribute] = junk
            with contextlib.suppress(EagerflowError):
                verify(graph)
            with contextlib.suppress(EagerflowError):
                graph.run(graph.outputs, dict.fromkeys(graph.inputs, x))
