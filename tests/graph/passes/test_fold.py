"""`fold` computes nodes that depend on constants alone, with the same bits, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import fold
from tests.graph.passes.evaluate import assert_same, changed, run, unchanged

C = "%c = constant() {value=tensor(f32[2], (1.0, -0.0))} : f32[2]"


def test_a_chain() -> None:
    report = changed(
        fold,
        f"""graph () {{ {C}
            %a = add(%c, %c) : f32[2]
            %b = negative(%a) : f32[2] on "cpu:0" # line
            return %b }}""",
        f"""graph () {{ {C}
            %a = constant() {{value=tensor(f32[2], (2.0, -0.0))}} : f32[2]
            %b = constant() {{value=tensor(f32[2], (-2.0, 0.0))}} : f32[2] on "cpu:0" # line
            return %b }}""",
    )
    assert [str(c) for c in report.changes] == [
        "computed %a = add",
        "computed %b = negative  # line",
    ]


def test_several_outputs() -> None:
    changed(
        fold,
        f"""graph () {{ {C}
            %s.0, %s.1 = split(%c) {{sizes=(1, 1), axis=0}} : f32[1], f32[1]
            return %s.1, %s.0 }}""",
        f"""graph () {{ {C}
            %s_0 = constant() {{value=tensor(f32[1], (1.0,))}} : f32[1]
            %s_1 = constant() {{value=tensor(f32[1], (-0.0,))}} : f32[1]
            return %s_1, %s_0 }}""",
    )


@pytest.mark.parametrize(
    ("op", "args", "result"),
    [
        ("add", "%i, %f", "2.5"), ("sub", "%f, %i", "-1.5"), ("mul", "%i, %f", "1.0"),
        ("truediv", "%f, %i", "0.25"), ("pow", "%f, %i", "0.25"), ("neg", "%f", "-0.5"),
        ("abs", "%f", "0.5"), ("float", "%i", "2.0"),
    ],
)  # fmt: skip
def test_numbers(op: str, args: str, result: str) -> None:
    head = "%i = constant() {value=2} : int %f = constant() {value=0.5} : float"
    changed(
        fold,
        f"graph () {{ {head} %n = python_{op}({args}) : float return %n }}",
        f"graph () {{ {head} %n = constant() {{value={result}}} : float return %n }}",
    )


def test_numbers_become_tensors_and_sizes_numbers() -> None:
    changed(
        fold,
        """graph () {
            %s = python_size() {size=3} : int
            %t = python_tensor(%s) : f16[]
            return %t }""",
        """graph () {
            %s = constant() {value=3} : int
            %t = constant() {value=tensor(f16[], (3.0,))} : f16[]
            return %t }""",
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_is_rounded_twice() -> None:
    graph = Graph.parse(
        """graph () {
            %a = constant() {value=tensor(f32[3], (0.1, inf, nan))} : f32[3]
            %b = exp(%a) : f32[3]
            %c = subtract(%b, %b) : f32[3]
            return %b, %c }"""
    )
    assert_same(run(graph, []), run(fold(graph)[0], []))


def test_warnings_are_those_of_the_step_not_of_the_pass() -> None:
    zero = "%z = constant() {value=tensor(f32[], (0.0,))} : f32[]"
    changed(
        fold,
        f"graph () {{ {zero} %l = log(%z) : f32[] return %l }}",
        f"graph () {{ {zero} %l = constant() {{value=tensor(f32[], (-inf,))}} : f32[] return %l }}",
    )


@pytest.mark.parametrize(
    "node",
    [
        "%r = floor_divide(%k, %z) : int",  # no such op of numbers
        "%r = python_floordiv(%k, %z) : int",  # raises
        "%r = python_pow(%k, %h) : int",  # far too many digits
        "%r = python_tensor(%h) : i8[]",  # does not fit
        "%r = python_size() {size=n} : int",
        "%r = zeros() {shape=(n,), dtype=f32, device=device(\"cpu:0\")} : f32[n]@cpu:0",
        "%r = zeros() {shape=(4096,), dtype=f32, device=device(\"cpu:0\")} : f32[4096]@cpu:0",
        "%r = zeros() {shape=(2,), dtype=f32, device=device(\"null:0\")} : f32[2]@null:0",
        "%r = exp(%t) : f32[1] after &w",
        "%r = exp(%g) : f32[3]",  # an array that only the text names
        "%r = exp(%o) : f32[1]",  # on another machine
        "%r = broadcast_to(%t) {shape=(5000,)} : f32[5000]",
        "%r = nonzero(%t) : i64[k]",
        "%r = next_key() {resource=@g} : u64[2]",
    ],
)  # fmt: skip
def test_left_as_it_is(node: str) -> None:
    unchanged(
        fold,
        f"""graph (%x: f32[n]) {{
            %w = assign(%x) {{resource=@w}} : f32[n]
            %k = constant() {{value=7}} : int
            %z = constant() {{value=0}} : int
            %h = constant() {{value=123456}} : int
            %t = constant() {{value=tensor(f32[1], (1.0,))}} : f32[1]
            %g = constant() {{value=tensor(f32[3], $a1)}} : f32[3]
            %o = constant() {{value=tensor(f32[1], (1.0,))}} : f32[1]@worker:1/gpu:0
            {node}
            return %r }}""",
    )


@pytest.mark.parametrize("effect", ["assign", "next_key", "py_call"])
def test_effects_happen_in_each_run_and_not_in_the_pass(effect: str) -> None:
    """Of resources that are at hand: nothing else keeps the pass from running these nodes."""
    variable, generator, seen = ef.Variable([1.0]), ef.random.Generator(0), []
    does = {
        "assign": lambda: variable.assign(ef.zeros(1)),
        "next_key": lambda: ef.random.uniform((1,), generator=generator),
        "py_call": lambda: ef.py_call(lambda x: seen.append(x) or x, "f32[1]", ef.ones(1)),
    }
    graph = ef.trace(does[effect]).graph()
    assert effect in {node.op for node in graph.nodes}
    state = generator.state
    folded, _ = fold(graph)
    assert effect in {node.op for node in folded.nodes}
    assert (variable.numpy().tolist(), generator.state, seen) == ([1.0], state, [])


def test_large_results_are_kept_if_they_are_smaller_than_the_inputs() -> None:
    graph = Graph.parse(
        """graph () {
            %z = zeros() {shape=(9, 999), dtype=f32, device=device("cpu:0")} : f32[9,999]@cpu:0
            return %z }"""
    )
    assert fold(graph)[0] is graph
    large = run(graph, [])[0]
    graph.nodes[0].op, graph.nodes[0].attrs = "constant", {"value": large}
    kind = graph.outputs[0].type
    (moved,) = graph.add_node("permute_dims", (graph.outputs[0],),
                              (kind.like(shape=(999, 9)),), {"axes": (1, 0)}).outputs  # fmt: skip
    graph.outputs = [moved]
    result, _ = fold(graph)
    assert [n.op for n in result.nodes] == ["constant", "constant"]
    assert_same(run(graph, []), run(result, []))


def test_subgraphs_see_only_their_own_constants() -> None:
    changed(
        fold,
        f"""graph () {{ {C} %r = call(%c) {{body=graph (%a: f32[2]) {{
            %k = constant() {{value=tensor(f32[], (2.0,))}} : f32[]
            %e = multiply(%k, %k) : f32[]
            %m = multiply(%a, %e) : f32[2]
            return %m }}}} : f32[2] return %r }}""",
        f"""graph () {{ {C} %r = call(%c) {{body=graph (%a: f32[2]) {{
            %k = constant() {{value=tensor(f32[], (2.0,))}} : f32[]
            %e = constant() {{value=tensor(f32[], (4.0,))}} : f32[]
            %m = multiply(%a, %e) : f32[2]
            return %m }}}} : f32[2] return %r }}""",
    )


def test_virtual_devices_run_it_themselves() -> None:
    changed(
        fold,
        """graph () {
            %c = constant() {value=tensor(f32[1], (1.0,))} : f32[1]@cpu:0
            %t = transfer(%c) {device=device("cpu:0")} : f32[1]@cpu:0
            return %t }""",
        """graph () {
            %c = constant() {value=tensor(f32[1], (1.0,))} : f32[1]@cpu:0
            %t = constant() {value=tensor(f32[1], (1.0,))} : f32[1]@cpu:0
            return %t }""",
    )


@pytest.mark.parametrize("op", ["exp", "portable_exp"])
def test_the_kernel_is_that_of_the_op(op: str) -> None:
    x = np.linspace(0, 9, 200, dtype=np.float32)
    graph = Graph.parse(f"graph (%x: f32[200]) {{ %y = {op}(%x) : f32[200] return %y }}")
    (want,) = graph.run(["y"], {"x": x})
    values = ", ".join(map(repr, x.tolist()))
    constant = f"%x = constant() {{value=tensor(f32[200], ({values}))}} : f32[200]"
    folded = Graph.parse(f"graph () {{ {constant} %y = {op}(%x) : f32[200] return %y }}").optimise()
    assert [node.op for node in folded.nodes] == ["constant"]
    (got,) = folded.run(folded.outputs)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    if op == "portable_exp":
        assert got.numpy().tobytes() == np.exp(x).tobytes()
