"""`share` computes a loss and its gradient, and two sums of segments, by one op: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import TensorIndexError
from eagerflow.graph import Graph
from eagerflow.graph.passes import optimise, share
from eagerflow_kernels import table
from tests.graph.passes.evaluate import assert_same, changed, run, unchanged
from tests.kernel_table import replaced_kernel
from tests.ops.tracing import traced

ATTRS = '{axis=1, ignore_index=-100, reduction="mean"}'
LOSS = f"softmax_cross_entropy(%x, %y) {ATTRS} : f32[]"
GRADIENT = f"softmax_cross_entropy(%x, %y, %one) {ATTRS} : f32[n,3]"
BOTH = f"softmax_cross_entropy_with_gradient(%x, %y, %one) {ATTRS} : f32[], f32[n,3]"
ONE = "constant() {value=tensor(f32[], (1.0,))} : f32[]"
HEAD = "graph (%x: f32[n,3], %y: i64[n], %z: f32[])"


def test_a_loss_and_its_gradient() -> None:
    report = changed(
        share,
        f"""{HEAD} {{
            %loss = {LOSS} # line 1
            %double = add(%loss, %loss) : f32[]
            %one = {ONE}
            %g = {GRADIENT}
            return %double, %g }}""",
        f"""{HEAD} {{
            %one = {ONE}
            %loss.0, %loss.1 = {BOTH} # line 1
            %double = add(%loss.0, %loss.0) : f32[]
            return %double, %loss.1 }}""",
    )
    (change,) = report.changes
    assert str(change) == "%loss and its gradient %g are computed together  # line 1"


def test_what_comes_from_above_may_be_an_input_or_known_before() -> None:
    for first, above in (("", "%z"), ("%two = add(%z, %z) : f32[]", "%two")):
        graph = Graph.parse(f"""{HEAD} {{
            {first}
            %loss = {LOSS}
            %g = {GRADIENT.replace("%one", above)}
            return %g, %loss }}""")
        result, _ = share(graph)
        assert [n.op for n in result.nodes][-1] == "softmax_cross_entropy_with_gradient"
        x, y = ef.tensor([[1.0, 2.0, 4.0]]), ef.tensor([2])
        assert_same(run(graph, [x, y, ef.tensor(0.5)]), run(result, [x, y, ef.tensor(0.5)]))


@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        (LOSS, GRADIENT.replace("%one", "%late")),  # computed from the loss
        (LOSS.replace("mean", "sum"), GRADIENT),
        (LOSS.replace("%x, %y", "%x, %w"), GRADIENT),
        (LOSS, GRADIENT.replace("%one", "%z") + " after &late"),
    ],
)
def test_others_stay_apart(loss: str, gradient: str) -> None:
    unchanged(
        share,
        f"""graph (%x: f32[n,3], %y: i64[n], %w: i64[n], %z: f32[]) {{
            %loss = {loss}
            %late = add(%loss, %z) : f32[]
            %one = {ONE}
            %g = {gradient}
            return %loss, %late, %g }}""",
    )


def test_a_loss_with_a_kernel_of_a_user_stays() -> None:
    """The op of both would compute it by another kernel."""
    key = ("softmax_cross_entropy", "cpu")
    own = table.find(*key, (), np)
    assert own is not None

    def tenfold(*arrays: Any, **attrs: Any) -> Any:
        data = own(*arrays, **attrs)
        return data if len(arrays) > 2 else data * np.float32(10)

    def value_and_slope(x: Any, y: Any) -> Any:
        return ef.value_and_grad(ef.nn.functional.cross_entropy)(x, y)

    x, y = ef.tensor([[1.0, 2.0, 4.0], [3.0, 0.5, 0.25]]), ef.tensor([2, 1])
    right = value_and_slope(x, y)
    with replaced_kernel(*key, tenfold):
        assert_same(traced(value_and_slope)(x, y), value_and_slope(x, y))
        assert value_and_slope(x, y)[0] == pytest.approx(10 * right[0].item(), rel=1e-6)
    assert_same(traced(value_and_slope)(x, y), right)


def test_in_branches() -> None:
    """A second gradient of one loss stays as it is."""

    def step(x: Any, y: Any, flag: Any) -> Any:
        def loss(x: Any) -> Any:
            return ef.softmax_cross_entropy(x, y)

        first = ef.cond(flag, ef.value_and_grad(loss), lambda x: (loss(x), x), x)
        return first, ef.value_and_grad(loss)(x), ef.grad(lambda x: 3 * loss(x))(x)

    x, y = ef.tensor([[1.0, 2.0, 4.0]]), ef.tensor([2])
    for flag in (True, False):
        args = x, y, ef.tensor(flag)
        graph = ef.trace(step).graph(*args)
        result, _ = optimise(graph)
        assert str(result).count("softmax_cross_entropy_with_gradient") == 2
        assert_same(run(graph, args), run(result, args))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 5), -1), ((7, 5), 0), ((2, 5, 3), 1), ((5,), 0), ((0, 5), 1)]
)
@pytest.mark.parametrize("ignored", [-100, 2])
def test_the_same_bits(
    shape: tuple[int, ...], axis: int, reduction: Any, dtype: str, ignored: int
) -> None:
    rng = np.random.default_rng(1)
    x = ef.tensor(rng.normal(size=shape) * 4).astype(getattr(ef, dtype))
    samples = tuple(np.delete(shape, axis))
    y = ef.tensor(rng.integers(0, shape[axis], samples))
    above = ef.tensor(rng.normal(size=samples if reduction == "none" else ())).astype(x.dtype)

    def both(x: Any, y: Any, above: Any) -> Any:
        def loss(x: Any) -> Any:
            return ef.softmax_cross_entropy(
                x, y, axis=axis, ignore_index=ignored, reduction=reduction
            )

        value, pull = ef.vjp(loss, x)
        return value, *pull(above)

    traced = ef.trace(both)
    results = traced(x, y, above)
    assert "softmax_cross_entropy_with_gradient" in str(traced.graph(x, y, above).optimise())
    assert_same(both(x, y, above), results)


def test_a_wrong_label() -> None:
    """The error is that of the loss."""
    step = ef.trace(
        lambda x, y: ef.value_and_grad(lambda x: ef.nn.functional.cross_entropy(x, y))(x)
    )
    x = ef.ones((2, 3))
    step(x, ef.tensor([0, 2]))
    with pytest.raises(TensorIndexError, match=r"^cross_entropy: label 3 is out of range"):
        step(x, ef.tensor([0, 3]))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_derivatives_of_the_op_itself(reduction: str) -> None:
    """Whoever runs an optimised graph under a tape gets what the two ops give."""
    attrs = ATTRS.replace("mean", reduction)
    kind = "f64[]" if reduction == "mean" else "f64[n]"
    head = f"graph (%x: f64[n,3], %y: i64[n], %one: {kind})"
    apart = Graph.parse(f"""{head} {{
        %loss = softmax_cross_entropy(%x, %y) {attrs} : {kind}
        %g = softmax_cross_entropy(%x, %y, %one) {attrs} : f64[n,3]
        return %loss, %g }}""")
    together, _ = share(apart)
    assert together is not apart
    rng = np.random.default_rng(2)
    x, y = ef.tensor(rng.normal(size=(4, 3))), ef.tensor([0, 2, 1, 2])
    one = ef.tensor(rng.normal(size=() if reduction == "mean" else 4))

    def total(graph: Graph) -> Any:
        def f(x: Any, one: Any) -> Any:
            loss, g = run(graph, [x, y, one])
            return ef.sum(ef.square(loss)) + ef.sum(ef.sin(g))

        return f

    ef.check_grads(total(together), (x, one), order=2)
    for a, b in zip(*(ef.grad(total(g), (0, 1))(x, one) for g in (apart, together)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


IDS = "graph (%x: f32[n,3], %w: f32[n], %ids: i64[n], %k: i64[n])"
SUMS = "segment_sum(%x, %ids) {num_segments=4} : f32[4,3]"
NUMBERS = "segment_sum(%w, %ids) {num_segments=4} : f32[4]"


def test_sums_of_segments_by_the_same_ids() -> None:
    report = changed(
        share,
        f"""{IDS} {{
            %sums = {SUMS} # line 1
            %double = add(%sums, %sums) : f32[4,3]
            %numbers = {NUMBERS}
            return %double, %numbers }}""",
        f"""{IDS} {{
            %sums.0, %sums.1 = segment_sums(%x, %w, %ids) {{num_segments=4}} : f32[4,3], f32[4] # line 1
            %double = add(%sums.0, %sums.0) : f32[4,3]
            return %double, %sums.1 }}""",  # noqa: E501 - a line of the text form
    )
    (change,) = report.changes
    assert str(change) == (
        "%sums and %numbers have the same ids and are computed together  # line 1"
    )


@pytest.mark.parametrize(
    "second",
    [
        NUMBERS.replace("%ids", "%k"),
        NUMBERS.replace("4", "5"),
        SUMS.replace("%x", "%y"),  # rows as well
        NUMBERS.replace("%w", "%late"),  # computed from the first sums
        NUMBERS + " after &late",
    ],
)
def test_other_sums_of_segments_stay_apart(second: str) -> None:
    unchanged(
        share,
        f"""{IDS} {{
            %y = add(%x, %x) : f32[n,3]
            %sums = {SUMS}
            %rows = take(%sums, %ids) {{axis=0}} : f32[n,3]
            %late = sum(%rows) {{axis=(1,), keepdims=False}} : f32[n]
            %second = {second}
            return %sums, %late, %y, %second }}""",
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
def test_means_and_sizes_of_clusters_have_the_same_bits(dtype: str) -> None:
    def clusters(x: Any, ids: Any) -> Any:
        sizes = ef.segment_sum(ef.ones(ids.shape, dtype=x.dtype), ids, 5)
        return ef.segment_sum(x, ids, 5), sizes, ef.segment_mean(x, ids, 5)

    rng = np.random.default_rng(1)
    x = ef.tensor(rng.normal(size=(90, 6)) * 9).astype(getattr(ef, dtype))
    ids = ef.tensor(rng.integers(0, 5, 90))
    graph = ef.trace(clusters).graph(x, ids)
    result, _ = optimise(graph)
    assert "segment_sums" in str(result)
    assert_same(run(graph, [x, ids]), run(result, [x, ids]))
    assert_same(traced(clusters)(x, ids), clusters(x, ids))
    with pytest.raises(TensorIndexError, match="out of range"):
        traced(clusters)(x, ids + 1)


def test_the_gradient_of_two_sums_in_one() -> None:
    text = (
        IDS
        + f""" {{
        %sums = {SUMS}
        %numbers = {NUMBERS}
        return %sums, %numbers }}"""
    )
    graph, _ = share(Graph.parse(text))
    rng = np.random.default_rng(1)
    x, w = ef.tensor(rng.normal(size=(9, 3))), ef.tensor(rng.normal(size=9))
    x, w, ids = x.astype(ef.float32), w.astype(ef.float32), ef.tensor(rng.integers(0, 4, 9))

    def loss(function: Any) -> Any:
        return lambda x, w: sum((y * y).sum() for y in function(x, w))

    def apart(x: Any, w: Any) -> Any:
        return ef.segment_sum(x, ids, 4), ef.segment_sum(w, ids, 4)

    def together(x: Any, w: Any) -> Any:
        return bind(get_op("segment_sums"), x, w, ids, num_segments=4)

    assert [node.op for node in graph.nodes] == ["segment_sums"]
    one, other = (ef.grad(loss(f), argnums=(0, 1))(x, w) for f in (apart, together))
    assert_same(one, other)


def test_sums_of_segments_with_a_kernel_of_a_user_stay() -> None:
    def sums(x: Any, ids: Any) -> Any:
        return ef.segment_sum(x, ids, 3), ef.segment_sum(x[:, 0], ids, 3)

    x, ids = ef.tensor([[1.0, 2.0], [3.0, 0.5]]), ef.tensor([2, 1])
    own = table.find("segment_sum", "cpu", (), np)
    assert own is not None
    with replaced_kernel("segment_sum", "cpu", lambda *xs, **attrs: own(*xs, **attrs) * 2):
        assert_same(traced(sums)(x, ids), sums(x, ids))
        assert sums(x, ids)[0][2].tolist() == [2.0, 4.0]
