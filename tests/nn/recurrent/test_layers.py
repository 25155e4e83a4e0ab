"""Recurrent layers, beyond the table of values."""

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
from eagerflow.core import tree
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.nn import functional as F
from tests.messages import says

LAYERS = ["RNN", "LSTM", "GRU"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    ef.random.seed(0)


def make(name: str, *args: Any, **options: Any) -> Any:
    options.setdefault("generator", ef.random.Generator(0))
    return getattr(nn, name)(*args, **options)


def same(a: Any, b: Any) -> None:
    pairs = zip(tree.leaves(a), tree.leaves(b), strict=True)
    for x, y in pairs:
        np.testing.assert_array_equal(x.numpy(), y.numpy())


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3, 2), (4, 0, 2), (0, 0, 2), (0, 2)])
@pytest.mark.parametrize("name", LAYERS)
def test_nothing(name: str, shape: tuple[int, ...]) -> None:
    """Without steps the state stays; without sequences the outputs are empty."""
    layer = make(name, 2, 5, num_layers=2, bidirectional=True)
    x = ef.zeros(shape)
    start = [ef.random.normal((4, *shape[1:-1], 5)) for _ in range(1 + (name == "LSTM"))]
    hx = tuple(start) if len(start) == 2 else start[0]
    gradients_of = ef.value_and_grad(
        lambda x: sum(y.sum() for y in tree.leaves(layer(x, hx))), wrt=layer.trainable
    )
    for run in (lambda f: f, ef.trace):
        out, state = run(layer)(x, hx)
        assert out.shape == (*shape[:-1], 10)
        if not shape[0]:
            same(state, hx)
        _, gradients = run(gradients_of)(x)
        assert not any(g.numpy().any() for g in gradients.values())


@pytest.mark.parametrize("name", LAYERS)
def test_a_length_of_zero_keeps_the_state(name: str) -> None:
    layer = make(name, 2, 3, bidirectional=True)
    x = ef.random.normal((4, 2, 2))
    out, state = layer(x, lengths=[0, 4])
    assert not out[:, 0].numpy().any()
    assert not any(part[:, 0].numpy().any() for part in tree.leaves(state))


@given(
    name=st.sampled_from(LAYERS),
    time=st.integers(0, 6),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    both=st.booleans(),
)
def test_lengths_are_each_sequence_alone(
    name: str, time: int, lengths: list[int], both: bool
) -> None:
    lengths = [min(n, time) for n in lengths]
    layer = make(name, 2, 3, num_layers=2, bidirectional=both, dtype=ef.float64)
    x = ef.random.Generator(1).normal((time, len(lengths), 2), dtype=ef.float64)
    out, state = layer(x, lengths=lengths)
    for i, n in enumerate(lengths):
        alone, end = layer(x[:n, i])
        np.testing.assert_allclose(out[:n, i].numpy(), alone.numpy(), atol=1e-14)
        assert not out[n:, i].numpy().any()
        for part, expected in zip(tree.leaves(state), tree.leaves(end), strict=True):
            np.testing.assert_allclose(part[:, i].numpy(), expected.numpy(), atol=1e-14)


@pytest.mark.parametrize("name", LAYERS)
def test_nothing_of_the_padding_counts(name: str) -> None:
    """The results are independent of the padding, even of NaN."""
    layer = make(name, 2, 3, bidirectional=True, num_layers=2)
    x = ef.random.normal((4, 3, 2))
    lengths = ef.tensor([2, 4, 1])
    inside = (ef.arange(4)[:, None] < lengths)[..., None]

    def loss(x: ef.Tensor) -> ef.Tensor:
        return sum((y**2).sum() for y in tree.leaves(layer(x, lengths=lengths)))

    both = ef.value_and_grad(loss, wrt=layer.trainable)
    value, gradients = both(ef.where(inside, x, math.nan))
    expected, wanted = both(ef.where(inside, x, 0))
    same((value, gradients), (expected, wanted))
    assert not (ef.grad(loss)(x) * ~inside).numpy().any()


# --- one loop in the graph ----------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_as_many_nodes_for_any_length(name: str) -> None:
    layer = make(name, 2, 3)
    gradients_of = ef.trace(ef.value_and_grad(lambda x: layer(x)[0].sum(), wrt=layer.trainable))
    graphs = [gradients_of.graph(ef.zeros((t, 4, 2))) for t in (200, 900)]
    counts = [sorted(n.op for n in graph.nodes) for graph in graphs]
    assert counts[0] == counts[1]
    assert counts[0].count("scan") == 2  # forward and backward


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
def test_lengths_and_batches_of_any_size_share_a_trace(name: str, options: dict[str, Any]) -> None:
    layer = make(name, 2, 3, **options)
    run = ef.trace(lambda x, n: layer(x, lengths=n))
    for time, batch in [(3, 2), (5, 4), (1, 1), (7, 2), (0, 3), (4, 0)]:
        x = ef.random.normal((time, batch, 2))
        n = ef.arange(batch) % (time + 1)
        same(run(x, n), layer(x, lengths=n))
    assert len(run.traces) <= 3


def test_two_hundred_lengths_train_with_two_traces() -> None:
    """The losses are those of eager training, bit for bit."""
    lengths = np.random.default_rng(0).permutation(np.arange(1, 201))

    def train(wrap: Callable[[Any], Any], lengths: Any) -> list[bytes]:
        generator = ef.random.Generator(0)
        lstm = nn.LSTM(3, 4, generator=generator)
        out = nn.Linear(4, 1, generator=generator)
        model = nn.Sequential(lstm, out)
        optimiser = ef.optim.Adam(model.trainable, lr=0.01)

        def loss_of(x: ef.Tensor) -> ef.Tensor:
            hidden, (h, _) = lstm(x)
            return ((out(hidden) - ef.cumsum(x, axis=0)[..., :1]) ** 2).mean() + (h**2).sum()

        gradients_of = ef.value_and_grad(loss_of, wrt=model.trainable)

        @wrap
        def step(x: ef.Tensor) -> ef.Tensor:
            loss, gradients = gradients_of(x)
            optimiser.update(gradients)
            return loss

        losses = [
            step(ef.random.Generator(int(n)).normal((int(n), 2, 3))).numpy().tobytes()
            for n in lengths
        ]
        assert wrap is not ef.trace or len(step.traces) <= 2
        return losses

    traced = train(ef.trace, lengths)
    assert len(set(traced)) == 200
    assert train(lambda f: f, lengths[:25]) == traced[:25]


# --- derivatives --------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, (3, 1)])
@pytest.mark.parametrize("name", [*LAYERS, "projected"])
def test_derivatives_of_order_2(name: str, lengths: Any) -> None:
    options = {"proj_size": 2} if name == "projected" else {}
    layer = make("LSTM" if options else name, 2, 3, **options, bidirectional=True, dtype=ef.float64)
    sizes = [2, 3] if options else [3] * (1 + (layer._kind == "lstm"))
    x = ef.random.normal((3, 2, 2), dtype=ef.float64)
    starts = [ef.random.normal((2, 2, size), dtype=ef.float64) for size in sizes]
    variables = layer.trainable
    values = {path: v.value for path, v in variables.items()}

    def function(x: ef.Tensor, starts: Any, w: ef.Tensor) -> ef.Tensor:
        variables["weight_hh_l0"].assign(values["weight_hh_l0"])
        hx = tuple(starts) if len(starts) == 2 else starts[0]
        out = layer(x * w, hx, lengths=lengths)
        return sum((y**2).sum() for y in tree.leaves(out))

    ef.check_grads(function, (x, starts, ef.tensor(0.7, dtype=ef.float64)), order=2)
    traced = ef.trace(lambda x, starts, w: function(x, starts, w))
    ef.check_grads(traced, (x, starts, ef.tensor(0.7, dtype=ef.float64)), order=2)


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_by_weights(name: str) -> None:
    """A Hessian times a vector, against differences of gradients."""
    layer = make(name, 2, 3, dtype=ef.float64)
    x = ef.random.normal((4, 2, 2), dtype=ef.float64)
    v = layer.weight_hh_l0
    direction = ef.random.normal(v.shape, dtype=ef.float64)

    def loss() -> ef.Tensor:
        return (layer(x)[0] ** 3).sum()

    def along() -> ef.Tensor:
        (g,) = ef.value_and_grad(loss, wrt=[v])()[1]
        return (g * direction).sum()

    for wrap in (lambda f: f, ef.trace):
        (product,) = wrap(ef.value_and_grad(along, wrt=[v]))()[1]
        start, gradients = v.value, []
        for sign in (1, -1):
            v.assign(start + sign * 1e-5 * direction)
            gradients.append(ef.value_and_grad(loss, wrt=[v])()[1][0])
        v.assign(start)
        np.testing.assert_allclose(
            product.numpy(), (gradients[0] - gradients[1]).numpy() / 2e-5, rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode(name: str) -> None:
    layer = make(name, 2, 3, dtype=ef.float64)
    x, t = (ef.random.normal((4, 2, 2), dtype=ef.float64) for _ in range(2))
    value, tangent = ef.jvp(lambda x: layer(x)[0], (x,), (t,))
    traced = ef.trace(lambda x, t: ef.jvp(lambda x: layer(x)[0], (x,), (t,)))(x, t)
    step = 1e-6
    numeric = (layer(x + step * t)[0] - layer(x - step * t)[0]) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), numeric.numpy(), atol=1e-8)
    same(value, layer(x)[0])
    np.testing.assert_allclose(traced[1].numpy(), numeric.numpy(), atol=1e-8)


# --- dropout and modes --------------------------------------------------------------------------


def test_dropout_between_layers() -> None:
    """Some of the second layer's inputs are 0, and the others are scaled, anew in each call."""
    layer = make("RNN", 1, 2000, 2, "relu", dropout=0.25)
    layer.weight_ih_l1.assign(ef.eye(2000))
    for name in ("weight_hh_l0", "weight_hh_l1", "weight_ih_l0"):
        getattr(layer, name).assign(ef.zeros_like(getattr(layer, name)))
    for name in ("bias_ih_l1", "bias_hh_l0", "bias_hh_l1"):
        getattr(layer, name).assign(ef.zeros(2000))
    layer.bias_ih_l0.assign(ef.ones(2000))
    x = ef.zeros((3, 2, 1))
    out, _ = layer(x)
    values = out.numpy()
    assert set(np.unique(values)) == {0.0, np.float32(1 / (1 - 0.25))}
    assert abs((values == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(layer(x)[0].numpy(), values)
    same(layer.eval()(x)[0], ef.ones((3, 2, 2000)))


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_traced_is_eager(name: str) -> None:
    layer = make(name, 2, 3, num_layers=3, dropout=0.5, bidirectional=True)
    x = ef.random.normal((4, 2, 2))
    outputs = []
    for run in (layer, ef.trace(layer)):
        ef.random.seed(7)
        outputs.append([run(x) for _ in range(3)])
    same(*outputs)


def test_one_layer_draws_nothing() -> None:
    layer = make("GRU", 2, 3, dropout=0.5)
    x = ef.random.normal((4, 2, 2))
    same(layer(x), layer.eval()(x))


# --- variables ----------------------------------------------------------------------------------


def test_names_and_initial_values() -> None:
    layer = make("LSTM", 2, 16, 2, bidirectional=True, proj_size=3)
    assert list(layer.state)[:6] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0",
        "weight_ih_l0_reverse",
    ]  # fmt: skip
    assert {path: v.shape for path, v in layer.state.items() if "l1_reverse" in path} == {
        "weight_ih_l1_reverse": (64, 6), "weight_hh_l1_reverse": (64, 3),
        "bias_ih_l1_reverse": (64,), "bias_hh_l1_reverse": (64,), "weight_hr_l1_reverse": (3, 16),
    }  # fmt: skip
    values = np.concatenate([v.numpy().ravel() for v in layer.state.values()])
    assert np.abs(values).max() <= 0.25
    assert values.std() == pytest.approx(0.25 / math.sqrt(3), rel=0.05)
    cell = make("GRUCell", 2, 16)
    assert {path: v.shape for path, v in cell.state.items()} == {
        "weight_ih": (48, 2), "weight_hh": (48, 16), "bias_ih": (48,), "bias_hh": (48,),
    }  # fmt: skip
    assert repr(layer) == "LSTM(2, 16, num_layers=2, bidirectional=True, proj_size=3)"
    assert repr(make("RNNCell", 2, 3, bias=False)) == "RNNCell(2, 3, bias=False)"


def test_another_variable_in_the_place_of_a_weight() -> None:
    layer = make("GRU", 2, 3)
    run = ef.trace(layer)
    x = ef.random.normal((4, 2, 2))
    before = run(x)
    layer.weight_hh_l0 = ef.Variable(ef.zeros((9, 3)))
    same(run(x), layer(x))
    assert not np.array_equal(run(x)[0].numpy(), before[0].numpy())
    assert layer.state["weight_hh_l0"] is layer.weight_hh_l0


def test_frozen_layers_and_tied_variables() -> None:
    layer, other = make("RNN", 2, 3), make("RNN", 2, 3)
    assert list(layer.freeze().trainable) == []
    other.weight_ih_l0 = layer.weight_ih_l0
    pair = nn.Sequential(layer.unfreeze(), other)
    assert len(pair.state) == 7


def test_weights_move(tmp_path: Any) -> None:
    layer, copy = make("LSTM", 2, 3, 2), make("LSTM", 2, 3, 2, generator=ef.random.Generator(5))
    ef.checkpoint.save(tmp_path / "lstm", layer)
    ef.checkpoint.load(tmp_path / "lstm", like=copy)
    x = ef.random.normal((4, 2, 2))
    same(copy(x), layer(x))


def test_a_loop_of_cells_is_the_layer() -> None:
    layer, cell = make("LSTM", 2, 3), make("LSTMCell", 2, 3)
    for path, v in cell.state.items():
        v.assign(layer.state[f"{path}_l0"])

    @ef.trace
    def run(xs: ef.Tensor) -> Any:
        h = c = ef.zeros((xs.shape[1], 3))
        for x in xs:
            h, c = cell(x, (h, c))
        return h, c

    x = ef.random.normal((4, 2, 2))
    for state, expected in zip(run(x), layer(x)[1], strict=True):
        np.testing.assert_allclose(state.numpy(), expected[0].numpy(), atol=1e-6)
    assert [n.op for n in run.graph(x).nodes].count("scan") == 1


def test_a_loop_over_a_tensor_trains_as_the_unrolled_one_and_as_eager_code() -> None:
    """Equal bits, with one loop forward and one backward in the graph."""
    xs, y = ef.random.normal((9, 4, 2)), ef.random.normal((4, 3))

    def train(wrap: Callable[[Any], Any], unrolled: bool) -> tuple[list[bytes], Any]:
        cell = make("LSTMCell", 2, 3)
        optimiser = ef.optim.Adam(cell.trainable, lr=0.1)

        def loss_of(xs: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
            h = c = ef.zeros((4, 3))
            if unrolled:
                for t in range(9):
                    h, c = cell(xs[t], (h, c))
            else:
                for x in xs:
                    h, c = cell(x, (h, c))
            return ((h - y) ** 2).mean()

        gradients_of = ef.value_and_grad(loss_of, wrt=cell.trainable)

        @wrap
        def step(xs: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
            loss, gradients = gradients_of(xs, y)
            optimiser.update(gradients)
            return loss

        return [step(xs, y).numpy().tobytes() for _ in range(6)], step

    expected, _ = train(lambda f: f, False)
    assert len(set(expected)) == 6
    looped, step = train(ef.trace, False)
    unrolled, long = train(ef.trace, True)
    assert looped == unrolled == expected
    ops = [node.op for node in step.graph(xs, y).nodes]
    assert ops.count("scan") == 2
    assert len(long.graph(xs, y).nodes) > 2 * len(ops)


def test_it_learns_what_was_said_first() -> None:
    """The class of a sequence is its first element, which the state has to carry to the end."""
    ef.random.seed(0)
    lstm, out = make("LSTM", 1, 8), nn.Linear(8, 2)
    model = nn.Sequential(lstm, out)
    optimiser = ef.optim.Adam(model.trainable, lr=0.02)

    def loss_of(x: ef.Tensor, lengths: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
        _, (h, _) = lstm(x, lengths=lengths)
        return F.cross_entropy(out(h[0]), labels)

    gradients_of = ef.value_and_grad(loss_of, wrt=model.trainable)

    @ef.trace
    def step(x: ef.Tensor, lengths: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
        loss, gradients = gradients_of(x, lengths, labels)
        optimiser.update(gradients)
        return loss

    for n in range(150):
        x = ef.random.normal((6 + n % 5, 32, 1))
        lengths = ef.random.randint((32,), 3, x.shape[0] + 1)
        loss = float(step(x, lengths, (x[0, :, 0] > 0).astype(ef.int64)))
    assert loss < 0.35
    assert len(step.traces) <= 2


# --- errors -------------------------------------------------------------------------------------

X = ef.zeros((4, 3, 2))
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "size": (lambda: nn.LSTM(0, 3), TensorValueError, r"LSTM: input_size is not a size"),
    "layers": (lambda: nn.GRU(2, 3, num_layers=0), TensorValueError, "num_layers is not a size"),
    "dropout": (
        lambda: nn.RNN(2, 3, dropout=1.5), TensorValueError,
        r"RNN: dropout is not a probability\n  got: dropout=1.5\n  expected: a number from 0 to 1",
    ),
    "no number": (lambda: nn.GRU(2, 3, dropout="x"), TensorValueError, "dropout='x'"),
    "no size": (lambda: nn.LSTM(2, "x"), TensorValueError, "LSTM: hidden_size is not a size"),
    "nonlinearity": (
        lambda: nn.RNN(2, 3, nonlinearity="sin"), TensorValueError,
        r"nonlinearity has no such value\n  got: nonlinearity='sin'\n  expected: 'tanh' or 'relu'",
    ),
    "projections": (
        lambda: nn.LSTM(2, 3, proj_size=3), TensorValueError, "proj_size is not a size below",
    ),
    "cell": (
        lambda: nn.RNNCell(2, 3, nonlinearity="x"), TensorValueError,
        "RNNCell: nonlinearity has no such value",
    ),
    "input": (
        lambda: nn.LSTM(5, 3)(X), ShapeError,
        r"LSTM: the input is not a sequence of rows of 5 elements\n  got: x=f32\[4,3,2\]@cpu:0\n"
        r"  expected: \[time, batch, 5\], or \[time, 5\] of a single sequence",
    ),
    "batch first": (
        lambda: nn.LSTM(5, 3, batch_first=True)(X), ShapeError, r"expected: \[batch, time, 5\]",
    ),
    "axes": (lambda: nn.GRU(2, 3)(ef.zeros(2)), ShapeError, "not a sequence of rows"),
    "rows": (
        lambda: nn.GRUCell(5, 3)(X[0]), ShapeError,
        r"GRUCell: the last axis of the input does not have 5 elements",
    ),
    "state": (
        lambda: nn.LSTM(2, 3)(X, ef.zeros((1, 3, 3))), TensorValueError,
        r"LSTM: the state to start from has another structure\n  got: 1 tensor.*\n"
        r"  expected: a pair \(h, c\)",
    ),
    "pair": (
        lambda: nn.GRU(2, 3)(X, (ef.zeros((1, 3, 3)),) * 2), TensorValueError,
        "expected: one tensor",
    ),
    "shape of a state": (
        lambda: nn.GRU(2, 3)(X, ef.zeros((2, 3, 3))), ShapeError,
        r"GRU: the state to start from has another shape\n  got: f32\[2,3,3\]@cpu:0\n"
        r"  expected: \[1, 3, 3\]",
    ),
    "dtype of a state": (
        lambda: nn.GRU(2, 3)(X, ef.zeros((1, 3, 3), dtype=ef.float64)), DTypeError,
        r"GRU: the state to start from has another dtype",
    ),
    "lengths": (
        lambda: nn.GRU(2, 3)(X, lengths=[1, 2]), ShapeError,
        r"not one length for each sequence\n  got: lengths=i64\[2\]@cpu:0, 3 sequences",
    ),
    "lengths of floats": (
        lambda: nn.GRU(2, 3)(X, lengths=[1.0, 2.0, 3.0]), DTypeError, "lengths are not integers",
    ),
    "long": (
        lambda: nn.GRU(2, 3)(X, lengths=[1, 5, 2]), TensorValueError,
        "GRU: a sequence is longer than the input",
    ),
    "negative": (
        lambda: nn.GRU(2, 3)(X, lengths=[1, -1, 2]), TensorValueError,
        "GRU: a length is negative",
    ),
    "lengths of one": (
        lambda: nn.GRU(2, 3)(X[:, 0], lengths=[1]), ShapeError,
        "GRU: lengths= is for batches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    call, kind, text = WRONG[name]
    with pytest.raises(kind, check=says(text)):
        call()
    with pytest.raises(kind, check=says(text)):
        ef.trace(call)()


@pytest.mark.parametrize("lengths", [[1, 5, 2], [1, -1, 2]])
def test_lengths_are_looked_at_when_a_graph_runs(lengths: list[int]) -> None:
    layer = make("GRU", 2, 3)
    run = ef.trace(lambda x, n: layer(x, lengths=n))
    run(X, ef.tensor([1, 2, 3]))
    with pytest.raises(TensorValueError, match=r"GRU: a (sequence is longer|length is negative)"):
        run(X, ef.tensor(lengths))
    assert len(run.traces) == 1
