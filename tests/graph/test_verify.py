"""`verify` accepts sound graphs and reports the fault of all others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph, NumberType
from eagerflow.graph.edit import copy_node
from eagerflow.graph.lowering import lower
from eagerflow.graph.verify import verify
from eagerflow.types import TensorType
from tests.graph.graphs import small

F32 = TensorType(ef.float32, (2, 3))

SOUND = {
    "nothing": "graph () { return }",
    "ops": """graph (%x: f32[2,3], %y: f32[3]) {
        %add = add(%x, %y) : f32[2,3]
        %sum = sum(%add) {axis=(1,), keepdims=False} : f32[2]
        %s.0, %s.1 = split(%sum) {sizes=(1, 1), axis=0} : f32[1], f32[1]
        return %add, %s.1 }""",
    "symbolic sizes": """graph (%x: f32[n,3], %y: f32[m,3], %w: f32[3,4]) {
        %add = add(%x, %y) : f32[broadcast(m,n),3]
        %matmul = matmul(%x, %w) : f32[n,4]
        %concat = concat(%x, %y) {axis=0} : f32[m+n,3]
        %r = reshape(%matmul) {shape=(4*n,)} : f32[4*n]
        return %add, %concat, %r }""",
    "a size that depends on data": """graph (%x: f32[n]) {
        %i = nonzero(%x) : i64[k]
        %t = take(%x, %i) {axis=0} : f32[k]
        return %t }""",
    "control edges": """graph (%x: f32[]) {
        %a = exp(%x) : f32[]
        %b = exp(%x) : f32[] after &a
        return %b }""",
    "buffers": """graph (%x: f32[n]) {
        %a = exp(%x) : f32[n]
        %b = add(%x, %a) : f32[n] into %a
        %c = exp(%b) : f32[n] into %b
        return %c, %x }""",
    "constants": """graph () {
        %c = constant() {value=tensor(f32[2], (1.0, 2.0))} : f32[2]@cpu:0
        %k = constant() {value=3} : int
        %big = constant() {value=tensor(f32[9,9], $a0)} : f32[9,9]
        return %c, %k, %big }""",
    "numbers": """graph (%k: int, %r: float, %z: complex, %x: f32[n]) {
        %a = python_add(%k, %k) : int
        %b = python_mul(%a, %r) : float
        %c = python_pow(%k, %k) : float
        %d = python_truediv(%k, %k) : float
        %e = python_abs(%z) : float
        %f = python_neg(%b) : float
        %g = python_int(%r) : int
        %h = python_size() {size=2*n} : int
        %t = python_tensor(%b) {dtype=f32} : f32[]
        %m = multiply(%x, %t) : f32[n]
        return %m, %c, %d, %e, %f, %g, %h }""",
    "a call": """graph (%x: f32[2*n,3]) {
        %call = call(%x) {body=graph f(%y: f32[m,3]) {
            %e = exp(%y) : f32[m,3]
            %r = reshape(%e) {shape=(3*m,)} : f32[3*m]
            return %r }} : f32[6*n]
        return %call }""",
    "cond": """graph (%p: bool[], %x: f32[n]) {
        %c = cond(%p, %x) {branches=(graph (%a: f32[n]) { return %a },
                                     graph (%a: f32[n]) {
            %e = full() {shape=(n,), fill_value=0.0, dtype=f32, device=device("cpu:0")}
                : f32[n]@cpu:0
            return %e })} : f32[n]
        return %c }""",
    "switch": """graph (%i: i32[], %x: f32[]) {
        %c = switch(%i, %x) {branches=(graph (%a: f32[]) { return %a },)} : f32[]
        return %c }""",
    "while_loop": """graph (%i: i64[], %x: f32[n]) {
        %w.0, %w.1 = while_loop(%i, %x) {
            cond=graph (%i: i64[], %x: f32[n]) { %l = less(%i, %i) : bool[] return %l },
            body=graph (%i: i64[], %x: f32[n]) { %s = add(%i, %i) : i64[] return %s, %x }
        } : i64[], f32[n]
        return %w.1 }""",
    "scan": """graph (%c: f32[4], %xs: f32[n,4]) {
        %s.0, %s.1 = scan(%c, %xs) {carry=1, length=n, body=graph (%c: f32[4], %x: f32[4]) {
            %a = add(%c, %x) : f32[4]
            %m = sum(%a) {axis=(0,), keepdims=False} : f32[]
            return %a, %m }} : f32[4], f32[n]
        return %s.0, %s.1 }""",
}


@pytest.mark.parametrize("name", SOUND)
def test_sound(name: str) -> None:
    verify(small(SOUND[name]))


WRONG = {
    "dtype": ("ops", "%add = add(%x, %y) : f32[2,3]", "%add = add(%x, %y) : f64[2,3]",
              "types of &add are not those of its rule.*expected: f32\\[2,3\\]"),
    "shape": ("ops", "f32[2]\n", "f32[3]\n", "types of &sum"),
    "count": ("ops", "%s.0, %s.1 = split(%sum) {sizes=(1, 1), axis=0} : f32[1], f32[1]",
              "%s.0, %s.1 = split(%sum) {sizes=(2,), axis=0} : f32[1], f32[1]",
              "types of &s .*expected: f32\\[2\\]"),
    "rule": ("ops", "%y: f32[3]", "%y: f32[4]", "add: shapes cannot be broadcast.*> %add = add"),
    "attribute": ("ops", "axis=(1,)", "axis=(7,)", "sum: axis 7 is out of range|sum"),
    "op": ("ops", "= add(", "= adds(", "there is no op named 'adds'"),
    "symbolic": ("symbolic sizes", "f32[m+n,3]", "f32[n,3]", "types of &concat.*f32\\[m\\+n,3\\]"),
    "symbolic reshape": ("symbolic sizes", ": f32[4*n]", ": f32[5*n]", "types of &r "),
    "unknown size": ("symbolic sizes", "shape=(4*n,)", "shape=(4*q,)", r"sizes \['q'\] occur in"),
    "taken": ("buffers", "exp(%b) : f32[n] into %b", "add(%b, %a) : f32[n]",
              "%a is used after its buffer was taken"),
    "taken and returned": ("buffers", "return %c", "return %b", "%b is returned after its buffer"),
    "not made here": ("buffers", "into %a", "into %x", "%x does not belong to this graph"),
    "another type": ("buffers", "exp(%b) : f32[n] into %b", "isnan(%b) : bool[n] into %b",
                     "buffer of %b has another type"),
    "constant": ("constants", "f32[2]@cpu:0", "f32[3]@cpu:0", "types of &c"),
    "number constant": ("constants", ": int", ": float", "types of &k"),
    "no constant": ("constants", "value=3", 'value="3"', "a tensor or a number"),
    "number": ("numbers", "python_add(%k, %k) : int", "python_add(%k, %r) : int", "types of &a"),
    "number of numbers": ("numbers", "python_abs(%z)", "python_abs(%z, %z)",
                          "python_abs takes 1 operand, and has 2"),
    "int power": ("numbers", "python_pow(%k, %k)", "python_pow(%z, %k)", "types of &c"),
    "size": ("numbers", "size=2*n", "size=0.5", "is not a size"),
    "tensor of number": ("numbers", "%t = python_tensor(%b) {dtype=f32} : f32[]",
                         "%t = python_tensor(%b) {dtype=f32} : f32[1]", "without axes"),
    "tensor op of numbers": ("numbers", "multiply(%x, %t)", "multiply(%x, %b)",
                             "multiply takes tensors"),
    "operands": ("a call", "%x: f32[2*n,3]", "%x: f32[2*n,4]", "takes other operands"),
    "number of operands": ("a call", "call(%x)", "call(%x, %x)", "takes other operands"),
    "result": ("a call", ": f32[6*n]\n", ": f32[5*n]\n", "types of &call.*f32\\[6\\*n\\]"),
    "inside": ("a call", "%e = exp(%y) : f32[m,3]", "%e = exp(%y) : f32[m,4]", "types of &e"),
    "body": ("a call", "body=", "boby=", "call needs the attribute 'body'"),
    "branches": ("cond", "{ return %a },", "{ return },", "branches 0 and 1"),
    "one branch": ("cond", "branches=(", "branches=(graph () { return },", "has 3 branches"),
    "no branches": ("switch", "branches=", "branch=", "has no attribute 'branch'"),
    "predicate": ("cond", "%p: bool[]", "%p: f32[]", "chosen by a bool"),
    "index": ("switch", "%i: i32[]", "%i: bool[]", "chosen by a signed integer"),
    "condition": ("while_loop", "%l = less(%i, %i) : bool[] return %l", "return %i",
                  "condition of a loop"),
    "iteration": ("while_loop", "return %s, %x", "return %s, %i", "an iteration of the loop"),
    "scan length": ("scan", "length=n", "length=5", "first axis of size 5"),
    "scan carry": ("scan", "return %a, %m", "return %m, %a", "an iteration of the scan"),
    "scan attributes": ("scan", "carry=1, ", "", "needs the attribute 'carry'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    base, old, new, message = WRONG[name]
    assert old in SOUND[base]
    with pytest.raises(GraphError, match=f"(?s){message}"):
        verify(small(SOUND[base].replace(old, new)))


def _chain(count: int = 6) -> Graph:
    graph = Graph("chain")
    value = graph.add_input(F32)
    for _ in range(count):
        (value,) = graph.add_node("exp", (value,), (F32,)).outputs
    graph.outputs = [value]
    return graph


def _swap(graph: Graph) -> None:
    graph.nodes[2], graph.nodes[3] = graph.nodes[3], graph.nodes[2]


def _drop(graph: Graph) -> None:
    del graph.nodes[-1]


def _rename(graph: Graph) -> None:
    graph.nodes[3].name = "exp"


def _rename_input(graph: Graph) -> None:
    graph.inputs[0].label = "exp"


def _steal(graph: Graph) -> None:
    graph.nodes[3].outputs = graph.nodes[2].outputs


def _wait(graph: Graph) -> None:
    graph.nodes[3].control_inputs = (graph.nodes[4],)


def _reuse(graph: Graph) -> None:
    graph.nodes[3].reuses = 1


def _shift(graph: Graph) -> None:
    graph.inputs[0].index = 1


def _resource(graph: Graph) -> None:
    body = Graph.parse("graph () { &r: print() {r=@w} return }", {"w": object()})
    graph.resources["w"] = object()
    graph.add_node("call", (), (), {"body": body})


def test_a_subgraph_may_have_other_names_for_resources() -> None:
    first, second = ef.Variable(1.0).resource, ef.Variable(2.0).resource
    body = Graph.parse("graph () { %r = read() {resource=@w} : f32[] return %r }", {"w": second})
    graph = Graph.parse("graph () { %r = read() {resource=@w} : f32[] return %r }", {"w": first})
    graph.resources["w_1"] = second
    graph.add_node("call", (), (body.outputs[0].type,), {"body": body})
    verify(graph)
    assert "read() {resource=@w_1}" in str(graph)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_swap, "%exp_2 is used and not defined above"),
        (_drop, "%exp_5 is returned and not defined"),
        (_rename, "two values or nodes are called 'exp'"),
        (_rename_input, "two values or nodes are called 'exp'"),
        (_steal, "%exp_2 is not output 0 of &exp_3"),
        (_reuse, "&exp_3 reuses the buffer of an input that it does not have"),
        (_wait, "&exp_3 comes before &exp_4, which it waits for"),
        (_shift, "%x is an input, and not the 0th of this graph"),
        (_resource, "@w means two objects"),
    ],
)
def test_damaged(damage: Callable[[Graph], None], message: str) -> None:
    graph = _chain()
    verify(graph)
    damage(graph)
    with pytest.raises(GraphError, match=message):
        verify(graph)


def test_the_message_shows_the_nodes_around() -> None:
    graph = _chain()
    _swap(graph)
    with pytest.raises(GraphError) as raised:
        verify(graph)
    assert str(raised.value).split("\n")[:7] == [
        "%exp_2 is used and not defined above",
        "  got: chain",
        "      %exp = exp(%x) : f32[2,3]",
        "      %exp_1 = exp(%exp) : f32[2,3]",
        "    > %exp_3 = exp(%exp_2) : f32[2,3]",
        "      %exp_2 = exp(%exp_1) : f32[2,3]",
        "      %exp_4 = exp(%exp_3) : f32[2,3]",
    ]


def test_the_source_of_the_node_is_that_of_the_error() -> None:
    source = ef.source.capture()
    graph = _chain(1)
    graph.nodes[0].op, graph.nodes[0].source = "nope", source
    with pytest.raises(GraphError, match=r"(?s)there is no op named 'nope'.*at: .*test_verify.py"):
        verify(graph)


def test_rules_that_ask_for_a_size_are_tried_with_one() -> None:
    text = """graph (%x: f32[n,3]) {
      %max = max(%x) {axis=(0,), keepdims=False} : f32[3]
      return %max
    }"""
    verify(small(text))
    with pytest.raises(GraphError, match="types of &max are not those of its rule"):
        verify(small(text.replace(": f32[3]", ": f32[n]")))


def test_a_size_of_another_trace_is_seen() -> None:
    graph = Graph()
    kinds = [TensorType(ef.float32, (ef.Dim("n", owner), 2)) for owner in (1, 2)]
    x = graph.add_input(kinds[0])
    graph.add_node("reshape", (x,), (TensorType(ef.float32, (2 * ef.Dim("n", 1),)),),
                   {"shape": (2 * ef.Dim("n", 1),)})  # fmt: skip
    verify(graph)
    graph.add_node("exp", (x,), (kinds[1],))
    with pytest.raises(GraphError, match="types of &exp"):
        verify(graph)
    graph.nodes[1].outputs[0].type = kinds[0]
    graph.nodes[0].attrs["shape"] = (2 * ef.Dim("n", 2),)
    with pytest.raises(GraphError, match=r"the sizes \['n'\] occur in no type above"):
        verify(graph)


def test_numbers_promote_like_python() -> None:
    kinds = {int: 2, float: 0.5, complex: 1j}
    for a, b in itertools.product(kinds, repeat=2):
        result = type(kinds[a] * kinds[b])
        graph = Graph()
        x, y = graph.add_input(NumberType(a)), graph.add_input(NumberType(b))
        graph.add_node("python_mul", (x, y), (NumberType(result),))
        verify(graph)


# --- devices ----------------------------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


MIXED = {
    "transfers": """graph (%x: f32[n]@cpu:0) {
        %y = transfer(%x) {device=device("cpu:1"), source=device("cpu:0")} : f32[n]@cpu:1
        %z = exp(%y) : f32[n]@cpu:1
        return %z }""",
    "calls": """graph (%x: f32[n]@cpu:0, %y: f32[n]@cpu:1) {
        %c.0, %c.1 = call(%x, %y) {body=graph (%a: f32[n]@cpu:0, %b: f32[n]@cpu:1) {
            %e = exp(%b) : f32[n]@cpu:1
            return %a, %e }} : f32[n]@cpu:0, f32[n]@cpu:1
        %s = sin(%c.1) : f32[n]@cpu:1
        return %c.0, %s }""",
    "branches": """graph (%p: bool[]@cpu:1, %x: f32[n]@cpu:0, %y: f32[n]@cpu:1) {
        %c = cond(%p, %x, %y) {branches=(graph (%a: f32[n]@cpu:0, %b: f32[n]@cpu:1) {
            return %a }, graph (%a: f32[n]@cpu:0, %b: f32[n]@cpu:1) {
            %t = transfer(%b) {device=device("cpu:0"), source=device("cpu:1")} : f32[n]@cpu:0
            return %t })} : f32[n]@cpu:0
        return %c }""",
    "loops": """graph (%x: f32[n]@cpu:0, %y: f32[n]@cpu:1) {
        %w.0, %w.1 = while_loop(%x, %y) {cond=graph (%a: f32[n]@cpu:0, %b: f32[n]@cpu:1) {
            %s = sum(%b) {axis=(0,), keepdims=False} : f32[]@cpu:1
            %p = isfinite(%s) : bool[]@cpu:1
            return %p }, body=graph (%a: f32[n]@cpu:0, %b: f32[n]@cpu:1) {
            %e = exp(%b) : f32[n]@cpu:1
            return %a, %e }} : f32[n]@cpu:0, f32[n]@cpu:1
        return %w.0, %w.1 }""",
    "numbers": """graph (%x: f32[]@cpu:1, %k: int) {
        %i = python_item(%x) : float
        %s = python_mul(%i, %k) : float
        %t = python_tensor(%s) : f32[]@cpu:0
        return %t }""",
    "devices that are not known": """graph (%x: f32[n], %y: f32[n]@cpu:1) {
        %z = add(%x, %y) : f32[n]
        return %z }""",
}


@pytest.mark.parametrize("name", MIXED)
def test_operands_of_several_devices(name: str, two: None) -> None:
    graph = Graph.parse(MIXED[name])
    verify(graph)
    assert str(Graph.parse(str(graph))) == str(graph)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("transfers", 'source=device("cpu:0")', 'source=device("cpu:1")', "operand %x on cpu:0"),
        (
            "transfers", "exp(%y)", "add(%x, %y)",
            r"(?s)of &z are on different devices: %x on cpu:0, and %y on cpu:1, by &y"
            r".*expected: all on one device.*hint: .*\.to\('cpu:0"
        ),
        ("transfers", "} : f32[n]@cpu:1", "} : f32[n]@cpu:0", "the devices of &y"),
        ("transfers", "%z = exp(%y) : f32[n]@cpu:1", "%z = exp(%y) : f32[n]@cpu:0",
         r"&z is on cpu:0, and its operand %y on cpu:1, by &y"),
        ("calls", "call(%x, %y)", "call(%y, %x)",
         r"(?s)takes operands on other devices: number 0 is on cpu:1, not on cpu:0.*\.to\('cpu:0'"),
        ("calls", "exp(%b) : f32[n]@cpu:1", "add(%a, %b) : f32[n]@cpu:1", "&e are on dif"),
        ("calls", ": f32[n]@cpu:0, f32[n]@cpu:1\n        %s", ": f32[n]@cpu:1, f32[n]@cpu:1\n  %s",
         "the devices of &c"),
        ("branches", "return %t }", "return %b }",
         r"(?s)results on different devices: number 0 is on cpu:1, not on cpu:0.*\.to\('cpu:0'"),
        ("loops", "return %a, %e }", "return %e, %a }",
         "the loop changes the device of its carry: number 0 is on cpu:1, not on cpu:0"),
        ("numbers", "%x: f32[]@cpu:1, %k: int", "%x: f32[]@cpu:1, %k: int, %y: f32[]@cpu:1", None),
    ],
)  # fmt: skip
def test_operands_elsewhere_are_refused(
    name: str, old: str, new: str, message: str | None, two: None
) -> None:
    assert old in MIXED[name]
    graph = Graph.parse(MIXED[name].replace(old, new))
    if message is None:
        verify(graph)
    else:
        with pytest.raises(GraphError, match=message):
            verify(graph)


def test_a_node_with_subgraphs_is_on_no_device(two: None) -> None:
    """The devices of its outputs follow from the subgraphs, by whatever the node is made."""
    said = ": f32[n]@cpu:0, f32[n]@cpu:1\n        %s"
    graph = Graph.parse(MIXED["calls"].replace(said, ': f32[n], f32[n] on "cpu:0"\n        %s'))
    call = graph.nodes[0]
    made = Graph()
    operands = [made.add_input(v.type, v.name, v.device) for v in graph.inputs]
    nodes = [
        call,
        made.add_node("call", operands, [v.type for v in call.outputs], call.attrs),
        copy_node(made, call, operands),
        lower(graph, whole=lambda node: True).nodes[0],
    ]
    assert nodes[-1].op == "exp"  # calls are inlined
    for node in nodes[:-1]:
        assert node.device is None
        assert [str(v.device) for v in node.outputs] == ["cpu:0", "cpu:1"]
    assert " on " not in str(graph)
    verify(graph)


def test_both_lines_are_named(two: None) -> None:
    graph = Graph.parse(
        """graph (%x: f32[]@cpu:0) {
        %a = exp(%x) : f32[]@cpu:0 # model.py:1: a = ef.exp(x)
        %z = zeros() {shape=(), dtype=f32, device=device("cpu:1")} : f32[]@cpu:1 # model.py:2: z =
        %n = negative(%z) : f32[]@cpu:1 # model.py:3: n = -z
        %s = add(%a, %n) : f32[]@cpu:0 # model.py:4: s = a + n
        return %s }"""
    )
    with pytest.raises(GraphError) as caught:
        verify(graph)
    said = str(caught.value)
    assert "%a on cpu:0, by the input %x, and %n on cpu:1, by model.py:2: z =" in said
    assert "hint: move one of them by a transfer: x.to('cpu:0')" in said


def test_state_is_where_its_resource_is(two: None) -> None:
    v = ef.Variable(1.0, device="cpu:1").resource
    read = Graph.parse("graph () { %r = read() {resource=@v} : f32[] return %r }", {"v": v})
    assert read.outputs[0].device == "cpu:1"
    verify(read)
    text = "graph (%x: f32[]@cpu:0) { %a = assign(%x) {resource=@v} : f32[] return %a }"
    with pytest.raises(GraphError, match="assign: the variable is on cpu:1, the value is not"):
        verify(Graph.parse(text, {"v": v}))
