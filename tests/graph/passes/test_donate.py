"""`donate` lets nodes write into buffers without further readers, and into no others."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import cse, donate, optimise
from eagerflow.graph.verify import verify
from tests.graph.passes.evaluate import assert_same, changed, run, unchanged

T = "f32[128,128]@cpu:0"
HEAD = f"graph (%x: {T}, %b: f32[128]@cpu:0, %n: f32[n,128]@cpu:0) {{ %e = exp(%x) : {T}"


def test_a_chain() -> None:
    report = changed(
        donate,
        f"{HEAD} %s = sin(%e) : {T} %a = add(%s, %b) : {T} %d = multiply(%a, %a) : {T}"
        " return %d }",
        f"""{HEAD} %s = sin(%e) : {T} into %e
            %a = add(%s, %b) : {T} into %s
            %d = multiply(%a, %a) : {T} into %a
            return %d }}""",
    )
    assert report.changes[0].text == "%s goes into the buffer of %e"


def test_the_first_input_that_may_go() -> None:
    changed(
        donate,
        f"{HEAD} %s = sin(%x) : {T} %a = add(%x, %s) : {T} return %a, %e }}",
        f"{HEAD} %s = sin(%x) : {T} %a = add(%x, %s) : {T} into %s return %a, %e }}",
    )
    # the orders of axes of %x and %y may differ, and then the order of the sum is unknown
    unchanged(
        donate,
        f"graph (%x: {T}, %y: {T}) {{ %e = exp(%x) : {T} %a = add(%e, %y) : {T} return %a }}",
    )
    changed(
        donate,
        f"{HEAD} %s = matmul(%x, %x) : {T} %a = add(%b, %s) : {T} return %a, %e }}",
        f"{HEAD} %s = matmul(%x, %x) : {T} %a = add(%b, %s) : {T} into %s return %a, %e }}",
    )


def test_a_view_that_is_dead_does_not_hold_the_buffer() -> None:
    view = f"%p = permute_dims(%e) {{axes=(1, 0)}} : {T} %m = matmul(%p, %p) : {T}"
    changed(
        donate,
        f"{HEAD} {view} %s = sin(%e) : {T} return %s, %m }}",
        f"{HEAD} {view} %s = sin(%e) : {T} into %e return %s, %m }}",
    )


@pytest.mark.parametrize(
    "nodes",
    [
        f"%s = sin(%x) : {T} return %s, %e",  # an input of the graph
        f"%s = sin(%e) : {T} return %s, %e",  # returned
        f"%s = sin(%e) : {T} %c = cos(%e) : {T} return %s, %e",
        f"%s = sin(%e) : {T} %m = matmul(%e, %e) : {T} return %s, %m",  # used later
        f"%p = permute_dims(%e) {{axes=(1, 0)}} : {T} %s = sin(%e) : {T} return %s, %p",  # a view
        f"%p = permute_dims(%e) {{axes=(1, 0)}} : {T} %s = add(%e, %p) : {T} return %s",
        f"%p = permute_dims(%x) {{axes=(1, 0)}} : {T} %s = sin(%p) : {T} return %s",
        f"%p = real(%e) : {T} %s = sin(%e) : {T} return %s, %p",  # perhaps a view
        f"%a = assign(%e) {{resource=@w}} : {T} %s = sin(%e) : {T} return %s",  # kept by @w
        f"%r = read() {{resource=@w}} : {T} %s = sin(%r) : {T} return %s",
        f"%a = call(%e) {{body=graph (%a: {T}) {{ return %a }}}} : {T}"
        f" %s = sin(%e) : {T} return %s",
        f"&u: unknown(%e) %s = sin(%e) : {T} return %s",
        "%s = less(%e, %e) : bool[128,128]@cpu:0 return %s",  # another dtype
        f"%s = clip(%e, %b, %b) : {T} return %s",  # no ufunc
        f"%s = matmul(%e, %e) : {T} return %s",
        "%v = exp(%b) : f32[128]@cpu:0 %s = sin(%v) : f32[128]@cpu:0 return %s, %e",  # small
        "%v = exp(%n) : f32[n,128]@cpu:0 %s = sin(%v) : f32[n,128]@cpu:0 return %s, %e",
        "%v = cast(%x) {dtype=bf16} : bf16[128,128]@cpu:0"
        " %s = sin(%v) : bf16[128,128]@cpu:0 return %s, %e",  # by way of float32
        "%v = exp(%b) : f32[128]@cpu:0 %s = add(%v, %x) : f32[128,128]@cpu:0 return %s, %e",
    ],
)
def test_a_buffer_of_its_own(nodes: str) -> None:
    unchanged(donate, f"{HEAD} {nodes} }}")


def test_what_lies_like_a_variable() -> None:
    read = f"%r = read() {{resource=@w}} : {T}"
    changed(
        donate,
        f"{HEAD} {read} %a = add(%e, %b) : {T} %m = matmul(%e, %e) : {T}"
        f" %s = subtract(%m, %r) : {T} return %s }}",
        f"{HEAD} {read} %a = add(%e, %b) : {T} %m = matmul(%e, %e) : {T}"
        f" %s = subtract(%m, %r) : {T} into %m return %s }}",
    )


@pytest.mark.parametrize("lies", [True, False])
def test_a_gradient_that_is_a_transposed_view(lies: bool) -> None:
    """The gradient lies in rows if its prototype is the transpose of an array that lies in rows."""
    made = "permute_dims(%r) {axes=(1, 0)}" if lies else "read() {resource=@w}"
    text = (
        f"{HEAD} %r = read() {{resource=@w}} : {T} %p = {made} : {T}"
        f" %m = matmul_like(%x, %x, %p) : {T} %g = permute_dims(%m) {{axes=(1, 0)}} : {T}"
        f" %s = subtract(%g, %r) : {T}"
    )
    if lies:
        changed(donate, f"{text} return %s }}", f"{text} into %g return %s }}")
    else:
        unchanged(donate, f"{text} return %s }}")


def test_a_view_goes_only_once() -> None:
    view = f"permute_dims(%e) {{axes=(1, 0)}} : {T}"
    unchanged(donate, f"{HEAD} %g = {view} %h = {view} %s = sin(%g) : {T} return %s, %h }}")


@pytest.mark.parametrize("device", ["null:0", "worker:1/gpu:0"])
def test_only_on_cpus(device: str) -> None:
    kind = f"f32[256,256]@{device}"
    unchanged(
        donate, f"graph (%x: {kind}) {{ %e = exp(%x) : {kind} %s = sin(%e) : {kind} return %s }}"
    )


def test_bodies() -> None:
    body = f"graph (%x: {T}) {{{{ %e = exp(%x) : {T} %s = sin(%e) : {T}{{}} return %s }}}}"
    text = f"graph (%x: {T}) {{{{ %c = call(%x) {{{{body={{}}}}}} : {T} return %c }}}}".replace(
        "}}}}}}", "}}}}"
    )
    changed(donate, text.format(body.format("")), text.format(body.format(" into %e")))


def test_passes_forget_it_and_it_is_decided_anew() -> None:
    graph = Graph.parse(f"{HEAD} %s = sin(%e) : {T} into %e %f = exp(%x) : {T} return %s, %f }}")
    merged, _ = cse(graph)
    assert [n.reuses for n in merged.nodes] == [None, None]
    verify(merged)
    assert donate(merged)[0] is merged
    wrong = Graph.parse(f"{HEAD} %s = sin(%e) : {T} into %e return %e, %s }}")
    result, report = donate(wrong)
    assert [c.text for c in report.changes] == ["%s goes into a buffer of its own"]
    assert result.nodes[1].reuses is None


def test_results_and_inputs_are_untouched() -> None:
    text = (
        f"{HEAD} %s = sin(%e) : {T} %a = add(%s, %b) : {T} %d = subtract(%a, %s) : {T} return %d }}"
    )
    graph = Graph.parse(text.replace(", %n: f32[n,128]@cpu:0", ""))
    inputs = [ef.random.normal((128, 128)), ef.random.normal((128,))]
    before = [x.numpy().copy() for x in inputs]
    result, _ = optimise(graph)
    assert [n.reuses for n in result.nodes] == [None, 0, None, 0]
    assert_same(run(graph, inputs), run(result, inputs))
    assert all((a == x.numpy()).all() for a, x in zip(before, inputs, strict=True))
