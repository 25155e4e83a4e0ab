"""`ef.show`: the text of a value, and the richer outputs for notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.formatting import seconds_text
from eagerflow.views.view import bars, bars_svg
from eagerflow.watching import shared
from eagerflow.watching.node_costs import NodeCost
from eagerflow.watching.status_sentence import largest_part


@ef.trace
def double(x):
    return ef.exp(x) * 2


class Net(ef.nn.Module):
    def __init__(self):
        self.layer = ef.nn.Linear(3, 4)

    def forward(self, x):
        return self.layer(x)

    @ef.trace
    def step(self, x):
        return self(x)


def negated(x):
    return -x


def test_a_function_before_and_after_its_first_call() -> None:
    f = ef.trace(lambda x: ef.exp(x) * 2, name="double")
    assert ef.show(f).text == ("traced function double: no traces\n  call it to get a graph")
    f(ef.ones(2))
    view = ef.show(f)
    assert "1. double(x: f32[2]@cpu:0): the first call" in view.text
    assert "2 nodes: exp, multiply" in view.text
    assert set(view._repr_mimebundle_()) == {"text/plain", "text/html", "image/svg+xml"}
    ElementTree.fromstring(view.svg)


def test_a_function_that_is_watched_has_times() -> None:
    f = ef.trace(lambda x: ef.exp(x) * 2, name="watched")
    f(ef.ones(2))
    with ef.dashboard() as look:
        for _ in range(5):
            f(ef.ones(2))
        assert look.sentence
        assert "5 steps: " in ef.show(f).text
    assert not shared.is_open


def test_a_method_is_shown_as_its_function() -> None:
    net = Net()
    net.step(ef.ones((1, 3)))
    assert "traced function step: 1 trace" in ef.show(net.step).text


def test_a_graph() -> None:
    view = ef.show(double.graph(ef.ones(2)))
    assert view.text.split("\n")[1:] == ["  takes %x: f32[2]@cpu:0", "  gives f32[2]@cpu:0"]


def test_a_graph_on_two_devices_says_how_many_nodes_are_where() -> None:
    with ef.config(cpu_devices=2):
        graph = ef.trace(lambda x: ef.exp(x.to("cpu:1"))).graph(ef.ones(2))
        assert "on cpu:1" in ef.show(graph).text or "cpu:0" in ef.show(graph).text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ef.tensor([1.0, np.nan, np.inf]), "f32[3]@cpu:0: 1 to 1, mean 1, 1 NaN, 1 infinite"),
        (ef.tensor([1, 2, 3, 6]), "i64[4]@cpu:0: 1 to 6, mean 3"),
        (ef.zeros((0, 2)), "f32[0,2]@cpu:0: 0 elements"),
        (ef.Variable(ef.ones(2)), "f32[2]@cpu:0: 1 to 1, mean 1"),
    ],
)
def test_arrays(value, text) -> None:
    assert ef.show(value).text.split("\n")[0] == text


def test_the_bars_of_a_tensor_are_its_histogram() -> None:
    view = ef.show(ef.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 1.0]))
    assert view.text.split("\n")[1] == "█" + "▁" * 14 + "▄"


def test_queues_and_their_like() -> None:
    queue = ef.Queue(5, ef.tensor(0), name="letters")
    queue.enqueue_many([1, 2])
    assert "2 of 5" in ef.show(queue).text
    assert "progress" in ef.show(queue).html
    for other in (ef.Accumulator("f32[]"), ef.Mutex()):
        assert ef.show(other).text
        assert "<table>" in ef.show(other).html
    assert "0 ready" in ef.show(ef.Barrier(("f32[2]",))).text


def test_a_dataset_has_a_line_for_each_stage() -> None:
    data = ef.data.Dataset.from_tensors(np.arange(10)).shuffle(seed=0).batch(3).prefetch(2)
    assert ef.show(data).text.split("\n") == [
        "Dataset.from_tensors(i64[10])", "  .shuffle(seed=0)", "  .batch(3)", "  .prefetch(2)"
    ]  # fmt: skip


def test_models_and_profiles_show_their_tables() -> None:
    assert "16 parameters (64 B), all trainable" in ef.show(Net()).text
    with ef.profile() as p:
        ef.exp(ef.ones(3))
    assert ef.show(p).text == repr(p)


def test_a_model_names_its_variables_with_nan() -> None:
    net = ef.nn.Sequential(*[ef.nn.Linear(2, 2) for _ in range(7)])
    assert "NaN" not in ef.show(net).text
    net.layers[0].weight.assign([[1.0, np.nan], [np.inf, np.nan]])
    assert ef.show(net).text.split("\n")[-1] == "layers.0.weight: 2 NaN, 1 infinite"
    assert "layers.0.weight: 2 NaN" in ef.show(net).html
    for layer in net.layers:
        layer.weight.assign(ef.full((2, 2), np.nan))
    assert ef.show(net).text.split("\n")[-2:] == [
        "layers.4.weight: 4 NaN", "2 more variables with NaN or infinite elements"
    ]  # fmt: skip


def test_an_iterator_tells_how_long_its_readers_waited() -> None:
    data = ef.data.Dataset.from_tensors(np.arange(30)).map(negated, workers=1)
    iterator = iter(data)
    assert ef.show(iterator).text == repr(iterator)
    with ef.dashboard():
        for _ in range(3):
            next(iterator)
        text = ef.show(iterator).text
        assert re.search(
            r"\n  \.map\(negated, workers=1\): 3 elements, its reader waited .* %", text
        )
        assert "3 elements" in ef.show(iterator).html
    iterator.close()


@pytest.mark.parametrize("value", [3, "text", None, ef.nn.Linear, ef.Queue, object()])
def test_of_other_things_there_is_nothing_to_be_shown(value) -> None:
    with pytest.raises(TensorValueError, match="there is no view for"):
        ef.show(value)


def test_markup_in_names_is_no_markup() -> None:
    f = ef.trace(lambda x: ef.exp(x), name="<script>alert(1)</script>")
    f(ef.ones(2))
    assert "<script>" not in ef.show(f).html
    assert "<script>" not in bars_svg([1.0], "<script>")


# --- texts and numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 us"), (9.99e-6, "10 us"), (0.00094, "940 us"), (0.9996, "1.0 s"), (75.0, "75 s")],
)
def test_times(seconds, text) -> None:
    assert seconds_text(seconds) == text


def test_bars() -> None:
    assert bars([]) == ""
    assert bars([0.0, 0.0]) == "▁▁"
    assert bars([1.0, 0.5, 0.01]) == "█▄▁"


def cost(scope: str, share: float, node: str = "node") -> NodeCost:
    return NodeCost(0, node, scope, 0.0, 0.0, share, 1.0, 1, 0.0)


@pytest.mark.parametrize(
    ("costs", "part"),
    [
        ([], None),
        ([cost("", 0.9, "matmul"), cost("a", 0.1)], ("matmul", 0.9)),
        ([cost("net", 1.0, "matmul")], ("matmul", 1.0)),
        ([cost("net/a", 0.6), cost("net/b/c", 0.4)], ("a", 0.6)),
        ([cost("net/a/x", 0.97), cost("net/a/y", 0.01), cost("b", 0.02)], ("node", 0.97)),
        ([cost(str(i), 0.01) for i in range(100)], None),
        ([cost("net", 0.1)] * 10, ("net", 1.0)),
    ],
)
def test_where_most_of_a_step_goes(costs, part) -> None:
    assert largest_part(costs) == (part and (part[0], pytest.approx(part[1])))
