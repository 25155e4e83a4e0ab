"""Each rule of `simplify`, on graphs of a node or two, and nodes that it must leave alone."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes.simplify import is_number, refines, simplify
from eagerflow.graph.verify import verify
from tests.graph.passes.evaluate import changed, unchanged

#: %x has the layout of a result of exp, %i and %b likewise; %u may be any view
HEAD = """graph (%u: f32[n,3], %j: i64[n,3], %d: bool[n,3], %z: c64[n,3], %o: f32[m,3],
        %k: int, %r: float, %q: complex) {{
    %x = exp(%u) : f32[n,3]
    %y = sin(%o) : f32[m,3]
    %i = negative(%j) : i64[n,3]
    %b = equal(%u, %u) : bool[n,3]
    %c = negative(%z) : c64[n,3]
    %one = constant() {{value=tensor(f32[], (1.0,))}} : f32[]
    %zero = constant() {{value=tensor(f32[], (0.0,))}} : f32[]
    %minus = constant() {{value=tensor(f32[1,3], (-0.0, -0.0, -0.0))}} : f32[1,3]
    %i0 = constant() {{value=tensor(i64[], (0,))}} : i64[]
    %i1 = constant() {{value=tensor(i64[], (1,))}} : i64[]
    %bits = constant() {{value=tensor(i64[], (-1,))}} : i64[]
    %yes = constant() {{value=tensor(bool[], (True,))}} : bool[]
    %no = constant() {{value=tensor(bool[], (False,))}} : bool[]
    %c1 = constant() {{value=tensor(c64[], (complex(1.0, 0.0),))}} : c64[]
    %k0 = constant() {{value=0}} : int
    %k1 = constant() {{value=1}} : int
    %f0 = constant() {{value=0.0}} : float
    {}
    return %t }}"""


def _becomes(node: str, value: str) -> None:
    """Check that ``%t`` is simplified to ``value``."""
    graph = Graph.parse(HEAD.format(node))
    verify(graph)
    result, report = simplify(graph)
    assert [v.name for v in result.outputs] == [value.lstrip("%")], str(report)
    verify(result)
    assert simplify(result)[0] is result


def _stays(node: str) -> None:
    verify(Graph.parse(HEAD.format(node)))
    unchanged(simplify, HEAD.format(node))


F, J, B = " : f32[n,3]", " : i64[n,3]", " : bool[n,3]"


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ("multiply(%x, %one)" + F, "%x"), ("multiply(%one, %x)" + F, "%x"),
        ("multiply(%i, %i1)" + J, "%i"), ("divide(%x, %one)" + F, "%x"),
        ("subtract(%x, %zero)" + F, "%x"), ("subtract(%i, %i0)" + J, "%i"),
        ("add(%x, %minus)" + F, "%x"), ("add(%minus, %x)" + F, "%x"),
        ("add(%i, %i0)" + J, "%i"), ("add(%no, %b)" + B, "%b"),
        ("pow(%i, %i1)" + J, "%i"), ("floor_divide(%i, %i1)" + J, "%i"),
        ("bitwise_or(%i, %i0)" + J, "%i"), ("bitwise_xor(%i0, %i)" + J, "%i"),
        ("bitwise_left_shift(%i, %i0)" + J, "%i"), ("bitwise_right_shift(%i, %i0)" + J, "%i"),
        ("bitwise_and(%i, %bits)" + J, "%i"), ("bitwise_and(%yes, %b)" + B, "%b"),
        ("bitwise_and(%i, %i)" + J, "%i"), ("bitwise_or(%b, %b)" + B, "%b"),
        ("logical_and(%b, %yes)" + B, "%b"), ("logical_or(%no, %b)" + B, "%b"),
        ("logical_xor(%b, %no)" + B, "%b"), ("logical_or(%b, %b)" + B, "%b"),
        ("maximum(%x, %x)" + F, "%x"), ("minimum(%i, %i)" + J, "%i"),
        ("where(%yes, %x, %one)" + F, "%x"), ("where(%no, %zero, %x)" + F, "%x"),
        ("where(%yes, %x, %x)" + F, "%x"),
        ("positive(%u)" + F, "%u"), ("identity(%u)" + F, "%u"), ("stop_gradient(%u)" + F, "%u"),
        ("reshape(%u) {shape=(n, 3)}" + F, "%u"), ("reshape(%u) {shape=(-1, 3)}" + F, "%u"),
        ("broadcast_to(%u) {shape=(n, 3)}" + F, "%u"),
        ("sum_to(%u) {shape=(n, 3)}" + F, "%u"),
        ("permute_dims(%u) {axes=(0, 1)}" + F, "%u"),
        ("python_mul(%r, %k1) : float", "%r"), ("python_mul(%k1, %k) : int", "%k"),
        ("python_truediv(%r, %k1) : float", "%r"), ("python_floordiv(%k, %k1) : int", "%k"),
        ("python_pow(%k, %k1) : int", "%k"), ("python_add(%k, %k0) : int", "%k"),
        ("python_sub(%r, %f0) : float", "%r"), ("python_pos(%q) : complex", "%q"),
        ("python_int(%k) : int", "%k"), ("python_float(%r) : float", "%r"),
        ("python_complex(%q) : complex", "%q"),
    ],
)  # fmt: skip
def test_one_node(node: str, value: str) -> None:
    _becomes(f"%t = {node}", value)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("negative(%x)" + F, "negative(%s)" + F, "%x"),
        ("conj(%c) : c64[n,3]", "conj(%s) : c64[n,3]", "%c"),
        ("bitwise_invert(%i)" + J, "bitwise_invert(%s)" + J, "%i"),
        ("logical_not(%b)" + B, "logical_not(%s)" + B, "%b"),
        ("abs(%u)" + F, "abs(%s)" + F, "%s"), ("floor(%u)" + F, "floor(%s)" + F, "%s"),
        ("trunc(%u)" + F, "trunc(%s)" + F, "%s"), ("round(%u)" + F, "round(%s)" + F, "%s"),
        ("permute_dims(%u) {axes=(1, 0)} : f32[3,n]", "permute_dims(%s) {axes=(1, 0)}" + F, "%u"),
        ("expand_dims(%u) {axis=(1,)} : f32[n,1,3]", "reshape(%s) {shape=(n, 3)}" + F, "%u"),
        ("reshape(%u) {shape=(n, 1, 3)} : f32[n,1,3]", "reshape(%s) {shape=(n, 3)}" + F, "%u"),
        ("broadcast_to(%one) {shape=(n, 3)}" + F, "multiply(%x, %s)" + F, "%x"),
        ("python_neg(%r) : float", "python_neg(%s) : float", "%r"),
        ("python_abs(%q) : float", "python_abs(%s) : float", "%s"),
    ],
)  # fmt: skip
def test_two_nodes(first: str, second: str, value: str) -> None:
    _becomes(f"%s = {first} %t = {second}", value)


@pytest.mark.parametrize(
    "node",
    [
        "add(%x, %zero)" + F,  # 0.0 for -0.0
        "subtract(%x, %minus)" + F,
        "multiply(%c, %c1) : c64[n,3]",  # (inf + 1j) * (1 + 0j) has a NaN
        "divide(%c, %c1) : c64[n,3]",
        "pow(%x, %one)" + F,  # a library may be off by a bit
        "floor_divide(%x, %one)" + F,
        "multiply(%x, %zero)" + F,  # inf * 0 is NaN
        "subtract(%x, %x)" + F,
        "divide(%x, %x)" + F,
        "multiply(%u, %one)" + F,  # perhaps a view, in whose order later sums add
        "multiply(%x, %y) : f32[broadcast(m,n),3]",
        "where(%yes, %x, %y) : f32[broadcast(m,n),3]",
        "copy(%x)" + F,
        "reshape(%u) {shape=(n, 3), copy=False}" + F,
        "reshape(%u) {shape=(3, n)} : f32[3,n]",
        "python_add(%r, %f0) : float",
        "python_mul(%q, %k1) : complex",
        "python_truediv(%k, %k1) : float",
        "python_mul(%k, %k0) : int",
        "python_float(%k) : float",
    ],
)
def test_one_node_stays(node: str) -> None:
    _stays(f"%t = {node}")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("negative(%x)" + F, "negative(%s) : f32[n,3] after &e"),
        ("reshape(%u) {shape=(3*n,)} : f32[3*n]", "reshape(%s) {shape=(3, n)} : f32[3,n]"),
        ("negative(%u)" + F, "negative(%s)" + F),
    ],
)
def test_two_nodes_stay(first: str, second: str) -> None:
    _stays(f"%e = assign(%u) {{resource=@w}} : f32[n,3] %s = {first} %t = {second}")


def test_views_become_one() -> None:
    changed(
        simplify,
        """graph (%x: f32[n,2,3], %v: f32[n]) {
            %a = permute_dims(%x) {axes=(1, 2, 0)} : f32[2,3,n]
            %b = permute_dims(%a) {axes=(1, 0, 2)} : f32[3,2,n]
            %e = reshape(%v) {shape=(n, 1)} : f32[n,1]
            %f = expand_dims(%e) {axis=(0,)} : f32[1,n,1]
            %g = reshape(%f) {shape=(1, 1, n)} : f32[1,1,n]
            return %b, %g }""",
        """graph (%x: f32[n,2,3], %v: f32[n]) {
            %a = permute_dims(%x) {axes=(1, 2, 0)} : f32[2,3,n]
            %b = permute_dims(%x) {axes=(2, 1, 0)} : f32[3,2,n]
            %e = reshape(%v) {shape=(n, 1)} : f32[n,1]
            %f = expand_dims(%e) {axis=(0,)} : f32[1,n,1]
            %g = reshape(%v) {shape=(1, 1, n)} : f32[1,1,n]
            return %b, %g }""",
    )


def test_what_may_fail_at_run_time_stays() -> None:
    unchanged(
        simplify,
        """graph (%x: f32[n]) {
            %a = reshape(%x) {shape=(m, 2)} : f32[m,2]
            %b = reshape(%a) {shape=(2*m,)} : f32[2*m]
            return %b }""",
    )


def test_what_lies_in_rows() -> None:
    changed(
        simplify,
        """graph (%x: f32[n,4], %y: f32[4,6]) {
            %m = matmul(%x, %y) : f32[n,6]
            %c = copy(%m) : f32[n,6]
            %r = reshape(%c) {shape=(6*n,)} : f32[6*n]
            %s = reshape(%r) {shape=(3*n, 2)} : f32[3*n,2]
            %l = concat(%s) {axis=0} : f32[3*n,2]
            return %l }""",
        """graph (%x: f32[n,4], %y: f32[4,6]) {
            %m = matmul(%x, %y) : f32[n,6]
            %r = reshape(%m) {shape=(6*n,)} : f32[6*n]
            %s = reshape(%m) {shape=(3*n, 2)} : f32[3*n,2]
            return %s }""",
    )


def test_numbers_without_axes_have_no_order() -> None:
    changed(
        simplify,
        """graph (%x: f32[]) {
            %c = constant() {value=tensor(f32[], (1.0,))} : f32[]
            %m = multiply(%x, %c) : f32[]
            return %m }""",
        """graph (%x: f32[]) {
            %c = constant() {value=tensor(f32[], (1.0,))} : f32[]
            return %x }""",
    )


def test_a_long_chain_is_one_pass() -> None:
    lines = [f"%a{i + 1} = negative(%a{i}) : f32[]" for i in range(10)]
    result, report = simplify(
        Graph.parse("graph (%a0: f32[]) {" + "\n".join(lines) + "return %a10 }")
    )
    assert result.outputs == result.inputs
    assert report.changes[0].text == "%a2 = negative is %a0"


def test_subgraphs() -> None:
    body = "graph (%a: f32[]) {{ {} return {} }}"
    changed(
        simplify,
        "graph (%x: f32[], %p: bool[]) { %c = cond(%p, %x) {branches=("
        + body.format("%i = identity(%a) : f32[]", "%i") + ", " + body.format("", "%a")
        + ")} : f32[] return %c }",
        "graph (%x: f32[], %p: bool[]) { %c = cond(%p, %x) {branches=("
        + body.format("", "%a") + ", " + body.format("", "%a") + ")} : f32[] return %c }",
    )  # fmt: skip


def test_refines() -> None:
    n, m = ef.Dim("n"), ef.Dim("m")
    assert refines((n, 2, 3, m), (n, 6, m))
    assert refines((1, n), (n,))
    assert refines((n, 1, 1), (n,))
    assert refines((1,), ())
    assert not refines((n * 2,), (n, 2))
    assert not refines((m,), (n,))


def test_is_number() -> None:
    assert is_number(0, 0)
    assert is_number(0.0, 0)
    assert is_number(False, 0)
    assert is_number(1 + 0j, 1)
    assert not is_number(-0.0, 0)
    assert not is_number(complex(0.0, -0.0), 0)
    assert not is_number(None, 0)
    assert not is_number(float("nan"), 1)
