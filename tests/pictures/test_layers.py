"""Layers of nodes: a layer's ops, their derivatives, and the updates of its variables."""

from __future__ import annotations

from collections import Counter

import pytest

import eagerflow as ef
from eagerflow.watching.graph_columns import NodeIndex, decode_structure, encode_structure


def network() -> ef.nn.Module:
    return ef.nn.Sequential(ef.nn.Linear(4, 8), ef.nn.functional.relu, ef.nn.Linear(8, 2))


def index_of(optimiser_kind: type, **options: float) -> NodeIndex:
    """The nodes of a training step of a network with two layers."""
    net = network()
    optimiser = optimiser_kind(net.trainable, lr=0.1, **options)
    fit = ef.value_and_grad(lambda x: (net(x) ** 2).mean(), wrt=net.trainable)

    @ef.trace
    def step(x: ef.Tensor) -> ef.Tensor:
        loss, gradients = fit(x)
        optimiser.update(gradients)
        return loss

    x = ef.zeros((3, 4))
    step(x)
    return NodeIndex(step.graph(x))


@pytest.mark.parametrize("optimiser", [ef.optim.SGD, ef.optim.Adam])
def test_a_layer_has_derivatives_and_updates(optimiser) -> None:
    index = index_of(optimiser)
    layers = [f"Sequential/layers.{i}" for i in (0, 2)]
    of = dict(zip(map(id, index.nodes), index.layers, strict=True))
    for node in index.nodes:
        if node.op == "matmul" or node.op == "matmul_like":
            assert of[id(node)] in layers
        if node.forward is not None and id(node.forward) in of:
            assert of[id(node)] == of[id(node.forward)]
    written = Counter(of[id(n)] for n in index.nodes if n.op == "assign_sub")
    assert written == dict.fromkeys(layers, 2)


def test_moments_are_of_the_layer_and_step_counts_of_none() -> None:
    index = index_of(ef.optim.Adam)
    # two moments for each of four parameters; one step count for all
    moments = Counter(
        layer for node, layer in zip(index.nodes, index.layers, strict=True)
        if node.op == "assign_add" and node.scope
    )  # fmt: skip
    assert moments == {"Sequential/layers.0": 4, "Sequential/layers.2": 4}
    shared = [
        layer for node, layer in zip(index.nodes, index.layers, strict=True)
        if node.op in ("pow", "check_parameters")
    ]  # fmt: skip
    assert len(shared) >= 2
    assert set(shared) == {""}


def test_running_statistics_are_of_the_layer_that_keeps_them() -> None:
    mean = ef.Variable(ef.zeros(3), trainable=False)

    @ef.trace
    def step(x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope("norm"):
            y = x - mean
        with ef.name_scope("keeping"):
            mean.assign(0.9 * mean + 0.1 * x.mean(axis=0))
        return y

    x = ef.ones((2, 3))
    index = NodeIndex(step.graph(x))
    kept = {layer for node, layer in zip(index.nodes, index.layers, strict=True)
            if node.scope == "keeping"}  # fmt: skip
    assert kept == {"norm"}


def test_a_body_is_of_the_layer_around_its_loop() -> None:
    @ef.trace
    def looping(x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope("loop"):
            start = ef.tensor(0), x
            return ef.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, ef.tanh(x)), start)[1]

    index = NodeIndex(looping.graph(ef.zeros(2)))
    (tanh,) = [i for i, node in enumerate(index.nodes) if node.op == "tanh"]
    assert index.parents[tanh] >= 0
    assert index.layers[tanh].split("/")[0] == "loop"


def test_views_are_told_of_layers() -> None:
    index = index_of(ef.optim.SGD)
    head = decode_structure(encode_structure(index))
    assert [head["strings"][n] for n in head["columns"]["layer"]] == index.layers
