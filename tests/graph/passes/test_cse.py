"""`cse` merges nodes that are equal in all relevant properties, and no others."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import cse
from eagerflow.types import TensorType
from tests.graph.passes.evaluate import changed, unchanged


def test_a_chain() -> None:
    report = changed(
        cse,
        """graph (%x: f32[n]) {
            %a = exp(%x) : f32[n]
            %b = exp(%x) : f32[n] in "layer" # line 2
            %c = sin(%a) : f32[n]
            %d = sin(%b) : f32[n]
            %e = add(%c, %d) : f32[n]
            return %e, %b }""",
        """graph (%x: f32[n]) {
            %a = exp(%x) : f32[n]
            %c = sin(%a) : f32[n]
            %e = add(%c, %c) : f32[n]
            return %e, %a }""",
    )
    assert [str(c) for c in report.changes] == ["merged %b into %a  # line 2", "merged %d into %c"]


def test_several_outputs() -> None:
    split = "split(%x) {sizes=(1, 3), axis=0} : f32[1], f32[3]"
    changed(
        cse,
        f"graph (%x: f32[4]) {{ %a.0, %a.1 = {split} %b.0, %b.1 = {split} return %b.1, %a.1 }}",
        f"graph (%x: f32[4]) {{ %a.0, %a.1 = {split} return %a.1, %a.1 }}",
    )


def _pair(first: str, second: str) -> str:
    return f"""graph (%x: f32[n,m], %y: f32[n,m]) {{
        %w = assign(%x) {{resource=@w}} : f32[n,m]
        %a = {first}
        %b = {second}
        return %a, %b }}"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("add(%x, %y) : f32[n,m]", "add(%y, %x) : f32[n,m]"),  # of two NaNs, another one
        ("exp(%x) : f32[n,m]", "portable_exp(%x) : f32[n,m]"),  # other last bits
        ("constant() {value=1} : int", "constant() {value=1.0} : float"),
        ("constant() {value=0.0} : float", "constant() {value=-0.0} : float"),
        ("constant() {value=tensor(f32[1], (0.0,))} : f32[1]",
         "constant() {value=tensor(f32[1], (-0.0,))} : f32[1]"),
        ("constant() {value=tensor(f32[1], (1.0,))} : f32[1]@cpu:0",
         "constant() {value=tensor(f32[1], (1.0,))} : f32[1]@null:0"),
        ("constant() {value=tensor(f32[1], (1.0,))} : f32[1]",
         "constant() {value=tensor(f64[1], (1.0,))} : f64[1]"),
        ("exp(%x) : f32[n,m]", 'exp(%x) : f32[n,m] on "cpu:1"'),
        ("exp(%x) : f32[n,m]", "exp(%x) : f32[n,m] after &w"),
        ("sum(%x) {axis=(0,), keepdims=False} : f32[m]",
         "sum(%x) {axis=(0,), keepdims=True} : f32[1,m]"),
        ("broadcast_to(%x) {shape=(2,n,m)} : f32[2,n,m]",
         "broadcast_to(%x) {shape=(n,n,m)} : f32[n,n,m]"),
        ("nonzero(%x) : i64[k]", "nonzero(%x) : i64[l]"),  # two names of one size
        ("read() {resource=@w} : f32[]", "read() {resource=@w} : f32[]"),
        ("next_key() {resource=@g} : u64[2]", "next_key() {resource=@g} : u64[2]"),
        ("assign(%x) {resource=@w} : f32[n,m]", "assign(%x) {resource=@w} : f32[n,m]"),
        ("no_such_op(%x) : f32[n,m]", "no_such_op(%x) : f32[n,m]"),
    ],
)  # fmt: skip
def test_not_the_same(first: str, second: str) -> None:
    unchanged(cse, _pair(first, second))


@pytest.mark.parametrize(
    "node",
    [
        "constant() {value=nan} : float",
        "constant() {value=complex(0.0, -0.0)} : complex",
        "constant() {value=tensor(f32[2], (nan, -0.0))} : f32[2]",
        "exp(%x) : f32[n,m] after &w",
        "sum(%x) {axis=(0,), keepdims=False} : f32[m]",
        "reshape(%x) {shape=(n*m,)} : f32[n*m]",
        "expand_dims(%x) {axis=(0,)} : f32[1,n,m]",
        "python_size() {size=n//2} : int",
    ],
)
def test_the_same(node: str) -> None:
    text = _pair(node, node)
    changed(cse, text, "\n".join(line for line in text.split("\n") if "%b =" not in line).replace(
        "return %a, %b", "return %a, %a"))  # fmt: skip


def test_sizes_are_compared_by_what_they_are() -> None:
    changed(
        cse,
        """graph (%x: f32[n,2]) {
            %a = reshape(%x) {shape=(n + n,)} : f32[2*n]
            %b = reshape(%x) {shape=(2*n,)} : f32[n + n]
            return %a, %b }""",
        """graph (%x: f32[n,2]) {
            %a = reshape(%x) {shape=(2*n,)} : f32[2*n]
            return %a, %a }""",
    )


def test_large_constants_are_the_same_only_if_they_share_memory() -> None:
    graph = Graph()
    one, two = ef.zeros((600, 600)), ef.zeros((600, 600))
    kind = TensorType(ef.float32, (600, 600))
    for value in (one, two, ef.asarray(one)):
        (made,) = graph.add_node("constant", (), (kind,), {"value": value}).outputs
        graph.outputs.append(made)
    result, _ = cse(graph)
    assert [v.name for v in result.outputs] == ["constant", "constant_1", "constant"]


def test_constants_that_lie_otherwise_in_memory_are_not_the_same() -> None:
    graph = Graph()
    rows = ef.ones((3, 2))
    for value in (rows, ef.permute_dims(ef.ones((2, 3)), (1, 0))):
        kind = TensorType(ef.float32, (3, 2))
        graph.outputs += graph.add_node("constant", (), (kind,), {"value": value}).outputs
    assert cse(graph)[0] is graph


def test_who_waited_for_a_merged_node() -> None:
    changed(
        cse,
        """graph (%x: f32[]) {
            %w = assign(%x) {resource=@w} : f32[]
            %a = exp(%x) : f32[] after &w
            %b = exp(%x) : f32[] after &w
            %c = assign(%x) {resource=@w} : f32[] after &b
            return %a, %b }""",
        """graph (%x: f32[]) {
            %w = assign(%x) {resource=@w} : f32[]
            %a = exp(%x) : f32[] after &w
            %c = assign(%x) {resource=@w} : f32[] after &w
            return %a, %a }""",
    )


def test_calls_of_one_body() -> None:
    body = Graph.parse("graph b(%a: f32[]) { %e = exp(%a) : f32[] %f = exp(%a) : f32[] return %f }")
    graph = Graph()
    x = graph.add_input(TensorType(ef.float32, ()))
    for _ in range(2):
        node = graph.add_node("call", (x,), (x.type,), {"body": body})
        graph.outputs += node.outputs
    result, report = cse(graph)
    assert len(result.nodes) == 1
    assert len(result.nodes[0].attrs["body"].nodes) == 1
    assert [c.text for c in report.changes] == [
        "in &call: merged %f into %e",
        "merged %call_1 into %call",
    ]
    assert len(body.nodes) == 2
