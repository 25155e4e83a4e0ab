"""Layers beyond the tables of values: state, modes, initial values, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import nn
from eagerflow.errors import ShapeError, TensorIndexError, TensorValueError
from tests.messages import says

# --- errors -----------------------------------------------------------------------------------

WRONG_INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    "Linear": (
        lambda: nn.Linear(4, 2)(ef.zeros((3, 5))),
        r"Linear: the last axis of the input does not have 4 elements\n"
        r"  got: x=f32\[3,5\]@cpu:0\n  expected: \[..., 4\]",
    ),
    "Linear of images": (
        lambda: nn.Linear(4, 2)(ef.zeros((3, 2, 2))),
        r"hint: flatten images first: ef.nn.Flatten\(\)",
    ),
    "Conv1d": (
        lambda: nn.Conv1d(4, 2, 3)(ef.zeros((3, 5, 9))),
        r"Conv1d: the input does not have 4 channels\n"
        r"  got: x=f32\[3,5,9\]@cpu:0\n  expected: \[batch, 4, length\] or \[4, length\]",
    ),
    "Conv2d": (
        lambda: nn.Conv2d(3, 2, 3)(ef.zeros((1, 8, 8, 3))),
        r"expected: \[batch, 3, height, width\] or \[3, height, width\]\n"
        r"  hint: channels come before the spatial axes: ef.moveaxis\(x, -1, 1\)",
    ),
    "Conv2d of one picture": (
        lambda: nn.Conv2d(3, 2, 3)(ef.zeros((8, 8, 3))),
        r"hint: channels come before the spatial axes: ef.moveaxis\(x, -1, 0\)",
    ),
    "Conv2d of pictures without channels": (
        lambda: nn.Conv2d(1, 2, 3)(ef.zeros((8, 16, 16))),
        r"Conv2d: the input does not have 1 channel\n[^|]*"
        r"hint: an axis for the channel is missing: x\[:, None\]",
    ),
    "Conv2d of other channels": (
        lambda: nn.Conv2d(3, 2, 3)(ef.zeros((8, 16, 16))),
        "hint: 3 axes are one sample, with 8 channels",
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(3, 2, 3)(ef.zeros((8, 8))),
        "ConvTranspose2d: the input does not have 3 channels",
    ),
    "BatchNorm": (
        lambda: nn.BatchNorm(3)(ef.zeros((2, 4))),
        r"BatchNorm: the input does not have 3 channels\n.*\n  expected: \[batch, 3, ...\]",
    ),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4))(ef.zeros((2, 4))), "the last axes have other sizes"),
    "MultiHeadAttention": (
        lambda: nn.MultiHeadAttention(4, 2)(ef.zeros(4)), "has no axis of positions",
    ),
    "Flatten": (lambda: nn.Flatten(3)(ef.zeros((2, 3))), "the axes do not fit the input"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs(name: str) -> None:
    call, text = WRONG_INPUTS[name]
    with pytest.raises(ShapeError, check=says(text)) as caught:
        call()
    assert "test_layers.py" in str(caught.value)
    with pytest.raises(ShapeError, check=says(text)):
        ef.trace(call)()


WRONG_SETTINGS: dict[str, tuple[Callable[[], Any], str]] = {
    "size": (lambda: nn.Linear(0, 3), r"Linear: in_features is not a size\n  got: in_features=0"),
    "float": (lambda: nn.Linear(3, 2.0), "out_features=2.0"),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=3), "groups does not divide in_channels"),
    "kernel": (lambda: nn.Conv2d(4, 6, (3, 3, 3)), "an integer, or 2 of them"),
    "kernel size": (lambda: nn.Conv1d(4, 6, 0), "kernel_size=0"),
    "channels": (lambda: nn.GroupNorm(4, 6), "num_groups=4, num_channels=6"),
    "probability": (lambda: nn.Dropout(1.5), "Dropout: p is not a probability"),
    "padding row": (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx is not a row"),
    "shards": (lambda: nn.ShardedEmbedding(3, 2, 4), "more shards than rows"),
    "heads": (lambda: nn.MultiHeadAttention(6, 4), "num_heads does not divide embed_dim"),
    "layers": (lambda: nn.Sequential([nn.Identity()]), r"Sequential\(\*layers\)"),
    "norm": (lambda: nn.LayerNorm((3, 0)), "normalized_shape=0"),
}


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_wrong_settings(name: str) -> None:
    make, text = WRONG_SETTINGS[name]
    with pytest.raises(TensorValueError, check=says(text)):
        make()


@pytest.mark.parametrize("layer", [nn.Embedding(3, 2), nn.ShardedEmbedding(3, 2, 2)], ids=repr)
def test_rows_that_there_are_not(layer: nn.Module) -> None:
    for index in (3, -1):
        with pytest.raises(TensorIndexError, match=f"index {index} is out of range for 3 rows"):
            layer(ef.tensor([0, index]))


# --- initial values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (nn.Linear(50, 400, generator=ef.random.Generator(0)), 50),
        (nn.Conv2d(4, 200, 5, groups=2, generator=ef.random.Generator(0)), 50),
        (nn.ConvTranspose2d(200, 4, 5, groups=2, generator=ef.random.Generator(0)), 50),
    ],
    ids=["Linear", "Conv2d", "ConvTranspose2d"],
)
def test_weights_and_biases_are_drawn_from_one_range(layer: Any, fan_in: int) -> None:
    bound = 1 / math.sqrt(fan_in)
    for variable in (layer.weight, layer.bias):
        values = variable.numpy()
        assert abs(values).max() <= bound
        assert values.std() > 0.4 * bound
    assert abs(layer.weight.numpy()).max() > 0.99 * bound


def test_layers_take_a_dtype_and_a_generator() -> None:
    def make() -> list[nn.Module]:
        some: Any = {"dtype": ef.float64, "generator": ef.random.Generator(1)}
        return [
            nn.Linear(3, 2, **some), nn.Conv1d(3, 2, 3, **some),
            nn.ConvTranspose1d(3, 2, 3, **some),
            nn.Embedding(3, 2, **some), nn.ShardedEmbedding(5, 2, 2, **some),
            nn.MultiHeadAttention(4, 2, **some), nn.BatchNorm(3, dtype=ef.float64),
            nn.LayerNorm(3, dtype=ef.float64), nn.RMSNorm(3, dtype=ef.float64),
            nn.GroupNorm(1, 3, dtype=ef.float64),
        ]  # fmt: skip

    ef.random.seed(0)
    for one, other in zip(make(), make(), strict=True):
        for path, v in one.parameters.items():
            assert v.dtype is ef.float64, one
            assert (v.numpy() == other.state[path].numpy()).all()
    assert ef.random.default_generator().state["ticket"] == 0


def test_attention_starts_with_biases_of_zero() -> None:
    layer = nn.MultiHeadAttention(8, 2)
    assert all(not v.numpy().any() for k, v in layer.state.items() if k.endswith("bias"))
    bound = math.sqrt(6 / 16)
    assert abs(layer.query.weight.numpy()).max() <= bound


def test_layers_are_made_on_the_device_of_the_block() -> None:
    with ef.config(cpu_devices=2), ef.device("cpu:1"):
        for layer in (nn.BatchNorm(3), nn.Linear(3, 2), nn.MultiHeadAttention(4, 2)):
            assert {v.device.name for v in layer.state.values()} == {"cpu:1"}


# --- batch norm -------------------------------------------------------------------------------


def test_running_statistics_follow_batches_in_training_mode_alone() -> None:
    layer = nn.BatchNorm(2, momentum=0.5, dtype=ef.float64)
    x = np.random.default_rng(0).normal(3.0, 2.0, (6, 2, 4))
    layer(ef.tensor(x))
    assert layer.running_mean is not None
    assert layer.running_var is not None
    mean, variance = x.mean(axis=(0, 2)), x.var(axis=(0, 2), ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.5 * mean, rtol=1e-14)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.5 + 0.5 * variance, rtol=1e-14)
    layer.eval()
    layer(ef.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.5 * mean, rtol=1e-14)
    assert int(layer.num_batches_tracked) == 1


def test_the_mean_over_all_batches() -> None:
    layer = nn.BatchNorm(2, momentum=None, dtype=ef.float64)
    batches = np.random.default_rng(0).normal(3.0, 2.0, (5, 6, 2))
    step = ef.trace(lambda x: layer(x))
    for x in batches:
        step(ef.tensor(x))
    assert layer.running_mean is not None
    np.testing.assert_allclose(layer.running_mean.numpy(), batches.mean(axis=(0, 1)), rtol=1e-13)
    assert len(step.traces) == 1


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_mean_over_all_batches_is_as_precise_as_its_dtype(dtype: str, traced: bool) -> None:
    layer = nn.BatchNorm(1, momentum=None)
    assert layer.num_batches_tracked is not None
    assert layer.running_mean is not None
    layer.num_batches_tracked.assign(999)
    layer.running_mean.assign([2.0])
    x = ef.tensor([[1.0], [3.0]], dtype=getattr(ef, dtype))
    run = ef.trace(layer) if traced else layer
    for _ in range(100):
        run(x)
    np.testing.assert_allclose(layer.running_mean.numpy(), 2.0, rtol=1e-5)


def test_a_batch_of_one_vector_is_refused_and_leaves_all_as_it_was() -> None:
    layer = nn.BatchNorm(2)
    before = {path: v.numpy().copy() for path, v in layer.state.items()}
    for shape in ((1, 2), (1, 2, 1, 1)):
        with pytest.raises(TensorValueError, match="too few values for each mean and variance: 1"):
            layer(ef.zeros(shape))
    assert all((v.numpy() == before[path]).all() for path, v in layer.state.items())
    assert layer.eval()(ef.zeros((1, 2))).shape == (1, 2)


def test_running_statistics_are_no_parameters_and_get_no_gradient() -> None:
    layer = nn.BatchNorm(2)
    gradients = ef.value_and_grad(lambda x: layer(x).sum(), wrt=layer.trainable)(ef.ones((3, 2)))[1]
    assert list(gradients) == ["weight", "bias"]


# --- embeddings -------------------------------------------------------------------------------


@given(st.integers(1, 7), st.integers(0, 5), st.lists(st.integers(0, 6), max_size=12))
def test_shards_are_one_table(shards: int, rows: int, indices: list[int]) -> None:
    size = max(7, shards) + rows
    sharded = nn.ShardedEmbedding(size, 3, shards)
    dense = nn.Embedding(size, 3)
    table = np.zeros((size, 3), np.float32)
    for i, shard in enumerate(sharded.shards):
        table[i::shards] = shard.numpy()
    dense.weight.assign(table)
    x = ef.tensor(np.array(indices, np.int64).reshape(1, -1))
    assert (sharded(x).numpy() == dense(x).numpy()).all()
    assert sharded(x).shape == (1, len(indices), 3)


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_a_sparse_step_changes_the_rows_that_were_taken(wrap: Any) -> None:
    layer = nn.ShardedEmbedding(10, 2, 3)
    before = [shard.numpy().copy() for shard in layer.shards]
    gradient = ef.value_and_grad(lambda x: (layer(x) * 2.0).sum(), wrt=layer.trainable)

    @wrap
    def step(x: Any) -> None:
        for variable, slices in zip(layer.shards, gradient(x)[1].values(), strict=True):
            assert isinstance(slices, ef.IndexedSlices)
            variable.assign_sub(slices)

    step(ef.tensor([4, 9, 4]))
    changed = [
        row * 3 + i
        for i, (shard, old) in enumerate(zip(layer.shards, before, strict=True))
        for row in range(len(old)) if (shard.numpy()[row] != old[row]).any()
    ]  # fmt: skip
    assert sorted(changed) == [4, 9]
    # index 4 is row 1 of shard 1, and was taken twice
    np.testing.assert_allclose(layer.shards[1].numpy()[1], before[1][1] - 4.0, rtol=1e-6)


def test_the_gradient_of_an_embedding_is_sparse_and_padding_gets_none() -> None:
    layer = nn.Embedding(5, 2, padding_idx=0)
    assert layer.weight.numpy()[0].tolist() == [0.0, 0.0]
    _, gradients = ef.value_and_grad(lambda x: layer(x).sum(), wrt=layer.trainable)(
        ef.tensor([0, 3, 0])
    )
    assert isinstance(gradients["weight"], ef.IndexedSlices)
    assert gradients["weight"].numpy().tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [0, 0]]


# --- attention --------------------------------------------------------------------------------


def test_attention_takes_any_number_of_batch_axes() -> None:
    layer = nn.MultiHeadAttention(8, 2)
    x = ef.random.normal((2, 3, 5, 8))
    one = layer(x[1, 2])
    np.testing.assert_allclose(layer(x)[1, 2].numpy(), one.numpy(), atol=1e-6)


@pytest.mark.parametrize("floating", [False, True])
def test_a_mask_and_causality_together(floating: bool) -> None:
    layer = nn.MultiHeadAttention(8, 2)
    x = ef.random.normal((2, 4, 8))
    seen = ef.tensor([[True, True, False, True], [True, False, True, True]])[:, None, None, :]
    both = seen & (ef.arange(4)[:, None] >= ef.arange(4))
    mask = ef.where(seen, 0.0, -math.inf) if floating else seen
    output, expected = layer(x, mask=mask, is_causal=True), layer(x, mask=both)
    np.testing.assert_allclose(output.numpy(), expected.numpy(), atol=1e-6)


def test_attention_drops_weights_in_training_mode_alone() -> None:
    layer = nn.MultiHeadAttention(8, 2, dropout=0.9)
    x = ef.random.normal((2, 6, 8))
    assert (layer(x).numpy() != layer(x).numpy()).any()
    layer.eval()
    assert (layer(x).numpy() == layer(x).numpy()).all()


# --- other layers -----------------------------------------------------------------------------


def test_dropout_draws_anew_in_each_run_of_a_trace() -> None:
    layer = nn.Dropout(0.5)
    f = ef.trace(lambda x: layer(x))
    x = ef.ones(64)
    assert (f(x).numpy() != f(x).numpy()).any()
    ef.random.seed(1)
    eager = layer(x).numpy()
    ef.random.seed(1)
    assert (f(x).numpy() == eager).all()


def test_an_error_in_a_sequence_names_the_layer() -> None:
    inner = nn.Sequential(nn.Linear(3, 3), nn.Linear(5, 2))
    model = nn.Sequential(nn.Linear(4, 3), nn.Identity(), nn.functional.relu, inner)
    want = ["  in layers.1 of Sequential, a Linear", "  in layers.3 of Sequential, a Sequential"]
    for call in (model, ef.trace(model), model.summary):
        with pytest.raises(ShapeError, match="does not have 5 elements") as caught:
            call(ef.ones((2, 4)))
        assert caught.value.__notes__[-2:] == want
    with pytest.raises(ShapeError) as caught:
        nn.Sequential(lambda x: x @ x, nn.functional.relu)(ef.ones((2, 3)))
    assert caught.value.__notes__ == ["  in layers.0 of Sequential, a function"]


def test_sequential_is_like_a_list() -> None:
    one, other = nn.Identity(), nn.Flatten()
    model = nn.Sequential(one, abs, other)
    assert len(model) == 3
    assert model[0] is one
    assert model[-1] is other
    assert list(model) == [one, abs, other]
    assert list(model[1:]) == [abs, other]


def test_one_trace_serves_batches_of_all_sizes() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm(4), nn.functional.relu, nn.MaxPool2d(2),
        nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 16), nn.LayerNorm(16), nn.Dropout(0.1),
        nn.Linear(16, 10),
    ).eval()  # fmt: skip
    f = ef.trace(lambda x: model(x))
    for n in (4, 3, 1, 7, 0):
        x = ef.random.normal((n, 1, 8, 8))
        assert (f(x).numpy() == model(x).numpy()).all()
    assert len(f.traces) == 2


@pytest.mark.parametrize("traced", [False, True])
def test_a_recurrent_layer_in_a_sequence(traced: bool) -> None:
    """A recurrent layer gives a pair, which would be stacked if its shapes were equal."""
    gru = nn.GRU(3, 4, batch_first=True)
    x = ef.ones((2, 1, 3))

    def run(*layers: Any) -> Any:
        model = nn.Sequential(*layers)
        return (ef.trace(model) if traced else model)(x)

    wrong = r"Linear takes a tensor, and GRU gives a tuple\n.*\n  hint: .*lambda pair: pair\[0\]"
    with pytest.raises(TensorValueError, match=wrong):
        run(gru, nn.Linear(4, 2))
    with pytest.raises(TensorValueError, match="and the layer before gives a tuple"):
        run(gru, nn.Sequential(nn.Linear(4, 2)))
    assert run(gru, nn.Identity(), lambda pair: pair[0][:, -1], nn.Linear(4, 2)).shape == (2, 2)
