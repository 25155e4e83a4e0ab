"""The printer and the parser: printed graphs are read back."""

from __future__ import annotations

import contextlib
import enum
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError, GraphSyntaxError
from eagerflow.graph import Graph, NumberType, Reference
from eagerflow.graph.text.parser import parse_graph
from eagerflow.graph.text.printer import Printer
from eagerflow.types import DTYPES
from tests.graph.graphs import LEAVES, RESOURCES, TENSORS, attributes, graphs

HEAD = "graph f(%x: f32[2]) { "


def _attribute(text: str, **kwargs: Any) -> Any:
    graph = parse_graph(f"graph () {{ &n: op() {{a={text}}} return }}", **kwargs)
    return graph.nodes[0].attrs["a"]


def _print(graph: Graph) -> tuple[str, dict[str, Any]]:
    printer = Printer(strict=True)
    return "\n".join(printer.graph(graph)), printer.arrays


@given(graphs(depth=2))
def test_text_reads_back(graph: Graph) -> None:
    text, arrays = _print(graph)
    again = parse_graph(text, RESOURCES, arrays)
    assert _print(again)[0] == text
    assert [(n.op, n.name, n.scope, n.device, n.because) for n in again.nodes] == [
        (n.op, n.name, n.scope, n.device, n.because) for n in graph.nodes
    ]
    assert [(v.name, str(v.spec)) for v in again.values()] == [
        (v.name, str(v.spec)) for v in graph.values()
    ]
    # without the objects that the text only names, it still reads back
    assert str(Graph.parse(text)) == text


def same(a: Any, b: Any) -> bool:
    """Whether two attributes are equal, bit for bit and of one type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, ef.Tensor):
        x, y = a.numpy(), b.numpy()
        return a.type == b.type and x.tobytes() == y.tobytes()
    if isinstance(a, ef.Dim):
        return a.terms == b.terms
    return bool(a is b or a == b)


@given(st.one_of(LEAVES, attributes(0)))
def test_values_of_attributes_read_back(value: Any) -> None:
    printer = Printer(strict=True)
    owner = Graph()
    owner.resources = dict(RESOURCES)
    printer.enter(owner)
    text = printer.literal(value, "")
    assert same(_attribute(text, resources=RESOURCES, arrays=printer.arrays), value)


@given(TENSORS)
def test_arrays_keep_every_bit(tensor: ef.Tensor) -> None:
    printer = Printer()
    text = printer.literal(tensor, "")
    again = _attribute(text, arrays=printer.arrays)
    assert again.numpy().tobytes() == tensor.numpy().tobytes()
    assert again.type == tensor.type
    bits = {name: memoryview(t.numpy().tobytes()) for name, t in printer.arrays.items()}
    assert _attribute(text, arrays=bits).numpy().tobytes() == tensor.numpy().tobytes()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (math.inf, "inf"),
        (1 - 2j, "complex(1.0, -2.0)"),
        ("a\n\"b'é", '"a\\n\\"b\'é"'),
        ("\u2028\x7f", '"\\u2028\\u007f"'),
        ("é→", '"é→"'),
        ((), "()"),
        ((1,), "(1,)"),
        ([1, (2, None)], "(1, (2, None))"),
        (slice(None, -1, 2), "slice(None, -1, 2)"),
        (..., "..."),
        (ef.float32, "f32"),
        (ef.int8, "i8"),
        (ef.bool, "bool"),
        (ef.hardware.as_device("cpu:0"), 'device("cpu:0")'),
        (ef.Dim("n") // 2, "n//2"),
        ((ef.Dim("n") + 1) // 2, "(n+1)//2"),
        (4 * ef.Dim("n") - 1, "4*n-1"),
        (ef.tensor([0.1, 2.0]), "tensor(f32[2], (0.1, 2.0))"),
        (ef.tensor([[True]]), "tensor(bool[1,1], (True,))"),
        (ef.tensor(1 + 2j), "tensor(c64[], (complex(1.0, 2.0),))"),
        (ef.zeros(0), "tensor(f32[0], ())"),
        (ef.tensor([0.1], dtype="bfloat16"), "tensor(bf16[1], (0.100098,))"),
        (ef.zeros((17,), dtype="uint8"), "tensor(u8[17], $a"),
        (ef.zeros(3, device="null:0"), "tensor(f32[3], $null)"),
        (np.float64(0.5), "0.5"),
        (np.int32(3), "3"),
        (np.bool_(True), "True"),
        (enum.IntEnum("Kind", "A").A, "1"),
    ],
)
def test_literals(value: Any, text: str) -> None:
    literal = Printer(strict=True).literal(value, "")
    assert literal.startswith(text) if "$a" in text else literal == text
    if isinstance(value, (str, tuple, float)):
        assert same(
            _attribute(literal), type(value)(value) if type(value) is not np.float64 else 0.5
        )


def test_short_names_of_dtypes_are_ours() -> None:
    """NumPy means int64 by "i8"."""
    for dtype in DTYPES.values():
        assert _attribute(dtype.short) is dtype
        graph = Graph.parse(f"graph (%x: {dtype.short}[]) {{ return %x }}")
        assert graph.inputs[0].type.dtype is dtype


def test_layout() -> None:
    text = """
    graph  f ( %x:f32[2,n]@cpu:0 , %k : int){
      %s.0,%s.1=split(%x){sizes=(1,1,),axis=0}:f32[1,n],f32[1,n]in "a/b" # file.py:3: x  =  1
      &p: print(%s.0) {text="#", f=@w}  after &s on "cpu:0"
      %t = sin(%s.1) : f32[3] after &p  into %s.1 in "a"
      return%s.1,%k}
    """
    assert str(Graph.parse(text)) == (
        "graph f(%x: f32[2,n]@cpu:0, %k: int) {\n"
        "  %s.0, %s.1 = split(%x) {sizes=(1, 1), axis=0} : f32[1,n]@cpu:0, f32[1,n]@cpu:0 "
        'in "a/b" # file.py:3: x = 1\n'
        '  &p: print(%s.0) {text="#", f=@w} after &s\n'
        '  %t = sin(%s.1) : f32[3]@cpu:0 after &p into %s.1 in "a"\n'
        "  return %s.1, %k\n"
        "}"
    )


def test_resources_and_arrays_are_what_was_given() -> None:
    text = 'graph () { %a = read() {r=@w, b=@"queue 1", c=tensor(f32[3], $big)} : f32[3] return %a}'
    big = ef.ones(3)
    graph = parse_graph(text, RESOURCES, {"big": big})
    assert graph.resources == {"w": RESOURCES["w"], "queue 1": RESOURCES["queue 1"]}
    assert graph.nodes[0].attrs["r"] is RESOURCES["w"]
    assert graph.nodes[0].attrs["c"] is big
    bare = Graph.parse(text)
    reference = bare.resources["w"]
    assert isinstance(reference, Reference)
    assert repr(reference) == "<resource 'w', not given>"
    assert bare.nodes[0].attrs["r"] is reference
    assert str(bare) == str(Graph.parse(str(bare)))


def test_devices_that_are_not_here_are_kept_by_name() -> None:
    text = (
        "graph(%x: f32[2]@worker:1/gpu:7) {\n"
        '  %y = transfer(%x) {device=device("gpu:7")} : f32[2]@gpu:7\n'
        "  return %y\n"
        "}"
    )
    assert str(Graph.parse(text)) == text


def test_subgraphs() -> None:
    text = """graph f(%p: bool[], %x: f32[n]) {
  %cond = cond(%p, %x) {branches=(graph yes(%x: f32[n]) {
    %exp = exp(%x) : f32[n]
    return %exp
  }, graph(%x: f32[n]) {
    return %x
  })} : f32[n] # a.py:1: ef.cond(...)
  return %cond
}"""
    graph = Graph.parse(text)
    assert str(graph) == text
    (node,) = graph.nodes
    assert [(what, len(sub.nodes)) for what, sub in node.subgraphs()] == [
        ("branches[0]", 1),
        ("branches[1]", 0),
    ]


def test_objects_without_a_text() -> None:
    graph = Graph("f")
    node = graph.add_node("py_call", (), (), {"function": len})
    assert "function=<builtin_function_or_method>" in str(graph)
    with pytest.raises(GraphError, match="has no text form"):
        Printer(strict=True).literal(len, "")
    graph.resources["length"] = len
    assert "function=@length" in str(graph)
    assert repr(node) == "<node py_call: py_call>"


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "'graph'"),
        ("graf", 1, 1, "'graph'"),
        ("graph f", 1, 8, r"'\('"),
        ("graph (x", 1, 8, "an input, such as"),
        ("graph (%x f32[2])", 1, 11, "':'"),
        ("graph (%x: f33[2])", 1, 12, "a type, such as"),
        ("graph (%x: f32)", 1, 12, "a type, such as"),
        ("graph (%x: int8[2])", 1, 12, "a type, such as"),
        ("graph (%x: f32[2,-1])", 1, 18, "a size that is not negative"),
        ("graph (%x: f32[2,n**2])", 1, 18, "names and integers|is not a size"),
        ("graph (%x: f32[2] %y: f32[])", 1, 19, "',' or '\\)'"),
        ("graph (%x: f32[], %x: f32[])", 1, 19, "a name that is not taken"),
        ("graph () { %x = exp(%y) : f32[] return }", 1, 21, "a value that is defined above"),
        ("graph () {\n\n  %x = exp( : f32[] return }", 3, 13, "a value, such as %x"),
        (HEAD + "return %x", 1, 32, "',' or '}'"),
        (HEAD + "return %x } tail", 1, 35, "the end of the text"),
        (HEAD + "%y = exp(%x) return }", 1, 36, "':'"),
        (HEAD + "%x = exp(%x) : f32[2] return }", 1, 23, "a name that is not taken"),
        (HEAD + "%y.0, %y.2 = split(%x) : f32[1], f32[1] return }", 1, 23, "outputs of one node"),
        (HEAD + "%y.0, %y.1 = split(%x) : f32[1] return }", 1, 48, "2 types"),
        (HEAD + "&p: print(%x) after &q return }", 1, 43, "a node that is defined above"),
        (
            HEAD + "%y = exp(%x) : f32[] %z = exp(%y) : f32[] into %x return }",
            1,
            70,
            "an input of the node",
        ),
        (HEAD + "&p: print(%x) on cpu return }", 1, 40, "a string in double quotes"),
        (HEAD + '&p: print(%x) in "a\\q" return }', 1, 40, "a string as JSON"),
        (HEAD + "&p: print(%x) {a=} return }", 1, 40, "a literal"),
        (HEAD + "&p: print(%x) {a=1, a=2} return }", 1, 43, "a name that is not taken"),
        (HEAD + "&p: print(%x) {a=slice(1, 2)} return }", 1, 50, "','"),
        (HEAD + "&p: print(%x) {a=slice} return }", 1, 40, "a literal"),
        (HEAD + "&p: print(%x) {a=<Foo>} return }", 1, 40, "a literal"),
        (HEAD + "&p: print(%x) {a=(1 2)} return }", 1, 43, "','"),
        (HEAD + "&p: print(%x) {a=n+} return }", 1, 40, "a literal"),
        (HEAD + "&p: print(%x) {a=tensor(f32[2], (1.0,))} return }", 1, 47, "as many elements"),
        (HEAD + "&p: print(%x) {a=tensor(i8[1], (300,))} return }", 1, 47, "numbers that int8"),
        (HEAD + '&p: print(%x) {a=tensor(i8[1], ("a",))} return }', 1, 47, "numbers that int8"),
        (HEAD + "&p: print(%x) {a=tensor(int, (1,))} return }", 1, 47, "the type of a tensor"),
        (HEAD + "&p: print(%x) {a=" + "9" * 5000 + "} return }", 1, 40, "fewer digits"),
        (HEAD + "&p: print(%x) {a=" + "(" * 50 + "} return }", 1, 80, "at most 40 levels"),
        (HEAD + "&p: op(%x) {a=1} : f32[2] return %x }", 1, 40, "a node, such as"),
        (HEAD + "%y = exp(%x) : f32[2] %", 1, 46, "a node, such as"),
    ],
)
def test_errors_say_where_and_what(text: str, line: int, column: int, expected: str) -> None:
    message = f"(?s)line {line}, column {column}: unexpected .*expected: .*{expected}"
    with pytest.raises(GraphSyntaxError, match=message):
        Graph.parse(text)


def test_error_shows_the_line() -> None:
    with pytest.raises(GraphSyntaxError) as raised:
        Graph.parse("graph f(%x: f32[2]) {\n  %y = exp(%z) : f32[2]\n  return %y\n}")
    assert str(raised.value).split("\n")[:4] == [
        "line 2, column 12: unexpected '%z'",
        "  got:   %y = exp(%z) : f32[2]",
        "                  ^",
        "  expected: a value that is defined above",
    ]


@given(graphs(depth=0), st.integers(0, 300), st.sampled_from(["", "%", "(", '"', "x", "\n", "#"]))
def test_damaged_text_is_refused_or_read(graph: Graph, place: int, put: str) -> None:
    """No other exception comes out, whatever is deleted or put in."""
    text = _print(graph)[0]
    place %= len(text) + 1
    with contextlib.suppress(GraphSyntaxError):
        Graph.parse(text[:place] + put + text[place + 1 :])


# --- the representation ----------------------------------------------------------------------


def test_names_are_unique() -> None:
    graph = Graph("f")
    kind = ef.types.TensorType(ef.float32, (2,))
    x = graph.add_input(kind, "x")
    nodes = [graph.add_node("x", (x,), (kind,)) for _ in range(3)]
    many = graph.add_node("op.v2", (x,), (kind, kind))
    assert [n.name for n in nodes] == ["x_1", "x_2", "x_3"]
    assert [v.name for v in many.outputs] == ["op_v2.0", "op_v2.1"]
    assert graph.value("x_2") is nodes[1].outputs[0]
    assert graph.value("op_v2.1") is many.outputs[1]
    with pytest.raises(GraphError, match="no value %nope"):
        graph.value("nope")
    assert repr(graph) == "<graph f: 4 nodes, 1 input, 0 outputs>"
    assert repr(x) == "%x: f32[2]"


def test_number_types() -> None:
    assert NumberType(int) == NumberType(int) != NumberType(float)
    assert {NumberType(int), NumberType(int)} == {NumberType(int)}
    assert (str(NumberType(complex)), NumberType(int).shape) == ("complex", ())
