"""Losses of classification: wrong labels, extreme scores, and sampled classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.nn import functional as F
from tests.ops.random import philox

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

CALLS = {
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
    "places": lambda x, y: F.cross_entropy(x[:, :, None], y[:, None], reduction="sum"),
    "weight": lambda x, y: F.cross_entropy(x, y, weight=ef.ones(3)),
    "smooth": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "nll_loss": lambda x, y: F.nll_loss(x, y),
    "gradient": lambda x, y: ef.grad(lambda x: F.cross_entropy(x, y))(x),
}


@pytest.mark.parametrize("wrong", [3, -1, -99, 2**40])
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_label_out_of_range(name: str, traced: bool, wrong: int) -> None:
    f = ef.trace(CALLS[name]) if traced else CALLS[name]
    f(ef.tensor(X), ef.tensor([0, 1, 2, -100]))  # the labels of a trace are checked in each run
    with pytest.raises(TensorIndexError, match=f"label {wrong} is out of range for 3 classes"):
        f(ef.tensor(X), ef.tensor([0, 1, wrong, -100]))


SCORES, TABLE = ef.ones((2, 3)), ef.ones((3, 3))
MISTAKES: list[tuple[Any, str, str]] = [
    (lambda y: F.cross_entropy(SCORES, y), "cross_entropy", "x=f32[2,3]@cpu:0, labels=i64["),
    (lambda y: F.cross_entropy(SCORES, y, label_smoothing=0.1), "cross_entropy", "=i64["),
    (lambda y: F.nll_loss(SCORES, y), "nll_loss", "=i64["),
    (lambda y: F.sampled_softmax(SCORES, TABLE, None, y, 2), "sampled_softmax", "=i64["),
]


@pytest.mark.parametrize("labels", [[0, 5], [0, 1, 2]], ids=str)
@pytest.mark.parametrize(("call", "name", "given"), MISTAKES)
def test_errors_name_what_was_called(call: Any, name: str, given: str, labels: list[int]) -> None:
    if name == "sampled_softmax":
        labels = [0, 5]
    with pytest.raises((TensorIndexError, ShapeError)) as caught:
        call(ef.tensor(labels))
    wrong = "label 5 is out of range for 3 classes" if 5 in labels else "the labels do not fit"
    assert caught.value.wrong == f"{name}: {wrong}"
    assert str(caught.value).startswith(caught.value.wrong)
    assert given in str(caught.value.given)


def test_so_do_those_of_a_run_of_a_trace() -> None:
    x, y = ef.tensor(X), ef.tensor([0, 1, 7, 0])
    for name, begin in (("cross_entropy", "cross_entropy: label 7"), ("weight", "label 7 is out")):
        with pytest.raises(TensorIndexError) as caught:
            ef.trace(CALLS[name])(x, y)
        assert caught.value.wrong.startswith(begin)
        assert "cross_entropy(x, y" in str(caught.value.source)


COLUMNS: dict[str, tuple[tuple[int, ...], str, str | None]] = {
    "column": ((4, 1), "int64", "take the last axis away: labels.squeeze(-1)"),
    "as many": ((2, 2), "int64", "if they are one-hot: labels.argmax(axis=1)"),
    "one-hot": ((4, 3), "int64", "if they are one-hot: labels.argmax(axis=1)"),
    "fewer": ((3,), "int64", None),
    "one": ((), "int64", None),
    "floating": ((4,), "float32", "if these are class indices: target.astype(ef.int64)"),
    "floating column": (
        (4, 1), "float64", "if these are class indices: target.squeeze(-1).astype(ef.int64)",
    ),
    "other probabilities": ((4, 2), "float32", None),
}  # fmt: skip


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_labels_are_one_for_each_sample(name: str, traced: bool) -> None:
    shape, dtype, hint = COLUMNS[name]
    f = ef.trace(F.cross_entropy) if traced else F.cross_entropy
    with pytest.raises(ShapeError, match=r"^cross_entropy: ") as caught:
        f(ef.tensor(X), ef.zeros(shape, dtype=dtype))
    assert caught.value.hint == hint
    assert caught.value.expected is not None


@pytest.mark.parametrize("call", [F.nll_loss, lambda x, y: F.cross_entropy(x, y, ef.ones(3))])
def test_so_they_are_with_weights(call: Any) -> None:
    with pytest.raises(ShapeError, match="the labels do not fit") as caught:
        call(ef.tensor(X), ef.zeros((4, 1), dtype=ef.int64))
    assert caught.value.hint == "take the last axis away: target.squeeze(-1)"


def test_arguments_have_names_in_errors() -> None:
    with pytest.raises(ShapeError, match=r"got: x=f32\[2,3\]@cpu:0, labels=i64\[3\]@cpu:0, axis"):
        ef.softmax_cross_entropy(SCORES, ef.tensor([0, 1, 2]))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint64"])
def test_labels_of_any_integer_dtype(dtype: str) -> None:
    y = np.array([0, 2, 1, 1])
    want = F.cross_entropy(ef.tensor(X), ef.tensor(y))
    got = F.cross_entropy(ef.tensor(X), ef.tensor(y.astype(dtype)))
    assert float(got) == float(want)
    weighted = F.nll_loss(ef.tensor(X), ef.tensor(y.astype(dtype)))
    assert float(weighted) == float(F.nll_loss(ef.tensor(X), ef.tensor(y)))


def test_arguments_are_checked() -> None:
    x, y = ef.tensor(X), ef.tensor([0, 1, 2, 0])
    with pytest.raises(ShapeError, match="the labels do not fit"):
        F.cross_entropy(x, y[:3])
    with pytest.raises(ShapeError, match="must have the probability of each class"):
        F.cross_entropy(x, ef.ones((4, 2)))
    with pytest.raises(ShapeError, match="no axis of classes"):
        F.cross_entropy(ef.tensor(1.0), ef.tensor(0))
    with pytest.raises(ShapeError, match="expected a weight for each class"):
        F.cross_entropy(x, y, weight=ef.ones(4))
    with pytest.raises(TensorValueError, match="'average' is not a reduction"):
        F.cross_entropy(x, y, reduction="average")
    with pytest.raises(TensorValueError, match="the smoothing is out of range"):
        F.cross_entropy(x, y, label_smoothing=1.5)
    with pytest.raises(ShapeError, match="mse_loss: input and target have different shapes"):
        F.mse_loss(ef.ones((4, 1)), ef.ones(4))
    with pytest.raises(TensorValueError, match="'average' is not a reduction"):
        F.mse_loss(x, x, reduction="average")


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 0), (2, 0, 3), (0, 0, 3), (2, 0, 0)])
def test_no_classes(shape: tuple[int, ...], traced: bool) -> None:
    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(x, y, reduction="sum")

    function = ef.value_and_grad(loss)
    labels = ef.full(shape[:1][len(shape) == 1 :] + shape[2:], -100)
    value, gradient = (ef.trace(function) if traced else function)(ef.zeros(shape), labels)
    assert float(value) == 0
    assert gradient.shape == shape
    if labels.size:
        with pytest.raises(TensorIndexError, match="none, since there are no classes"):
            loss(ef.zeros(shape), ef.zeros_like(labels))


@pytest.mark.parametrize("scale", [1e4, 1e30])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_extreme_scores(scale: float, label: int) -> None:
    x, y = ef.tensor([[scale, -scale, 0.0]]), ef.tensor([label])
    loss, gradient = ef.value_and_grad(lambda x: F.cross_entropy(x, y))(x)
    assert float(loss) == pytest.approx((0, 2 * scale, scale)[label])
    assert np.isfinite(gradient.numpy()).all()


def test_divergence_of_what_has_no_probability() -> None:
    target = ef.tensor([0.0, 1.0])
    divergence = F.kl_div(ef.log(ef.tensor([0.5, 0.5])), target, reduction="sum")
    assert float(divergence) == pytest.approx(math.log(2))


# --- sampled softmax --------------------------------------------------------------------------


def _reference(x: Any, weight: Any, bias: Any, target: Any, drawn: Any, hits: bool) -> Any:
    classes, num = len(weight), len(drawn)

    def expected(k: int) -> float:
        return num * math.log((k + 2) / (k + 1)) / math.log(classes + 1)

    losses = []
    for row, right in zip(x, target, strict=True):
        scores = (weight @ row + bias).tolist()
        shares = [math.exp(scores[k]) / expected(k) for k in drawn if not (hits and k == right)]
        total = math.fsum([math.exp(scores[right]), *shares])
        losses.append(math.log(total) - scores[right])
    return np.array(losses)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("hits", [False, True])
def test_sampled_softmax(traced: bool, hits: bool) -> None:
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(4, 5)), np.array([0, 3, 19, 0])
    weight, bias = rng.normal(size=(20, 5)), rng.normal(size=20)
    uniforms = philox.uniforms(7, 0, 12, 64)
    drawn = [min(int(21**u) - 1, 19) for u in uniforms]
    assert set(drawn) & set(target)
    table, offset = ef.Variable(weight), ef.Variable(bias)
    generator = ef.random.Generator(7)

    def step(x: Any, y: Any) -> Any:
        def loss() -> Any:
            return F.sampled_softmax(
                x, table, offset, y, 12, remove_accidental_hits=hits, reduction="sum",
                generator=generator,
            )  # fmt: skip

        return ef.value_and_grad(loss, wrt=[table, offset])()

    loss, gradients = (ef.trace(step) if traced else step)(ef.tensor(x), ef.tensor(target))
    want = _reference(x, weight, bias, target, drawn, hits)
    assert float(loss) == pytest.approx(want.sum())
    for gradient, whole in zip(gradients, (weight, bias), strict=True):
        assert isinstance(gradient, ef.IndexedSlices)
        dense, eps = gradient.to_dense().numpy(), 1e-6
        for place in [(0,), (3,), (19,), (5,)]:
            index = place if whole.ndim == 1 else (*place, 2)
            moved = []
            for sign in (1, -1):
                whole[index] += sign * eps
                moved.append(_reference(x, weight, bias, target, drawn, hits).sum())
                whole[index] -= sign * eps
            assert dense[index] == pytest.approx((moved[0] - moved[1]) / (2 * eps), abs=1e-5)


def test_sampled_softmax_tends_to_the_full_one() -> None:
    rng = np.random.default_rng(1)
    x, weight = ef.tensor(rng.normal(size=(3, 4))), ef.tensor(rng.normal(size=(10, 4)))
    target = ef.tensor([1, 0, 7])
    full = F.cross_entropy(F.linear(x, weight), target)
    sampled = F.sampled_softmax(x, weight, None, target, 200_000, generator=ef.random.Generator(1))
    # right classes are left out of the draws and count once instead
    assert float(sampled) == pytest.approx(float(full), rel=0.02)


def test_sampled_softmax_checks_its_arguments() -> None:
    x, weight = ef.ones((2, 4)), ef.ones((10, 4))
    with pytest.raises(TensorIndexError, match="label 10 is out of range for 10 classes"):
        F.sampled_softmax(x, weight, None, ef.tensor([1, 10]), 3)
    with pytest.raises(TensorValueError, match="there are no classes to draw"):
        F.sampled_softmax(x, weight, None, ef.tensor([1, 1]), 0)
    with pytest.raises(DTypeError, match="the target is not a class for each sample"):
        F.sampled_softmax(x, weight, None, ef.tensor([1.0, 1.0]), 3)


def test_error_of_a_wrong_label_tells_what_was_expected() -> None:
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(TensorIndexError, match="expected: 0 to 2; or -100, to be ignored"):
            loss(ef.ones((2, 3)), ef.tensor([0, 3]))
        with pytest.raises(ShapeError, match=r"expected: weights of shape \[3\]"):
            loss(ef.ones((2, 3)), ef.tensor([0, 1]), ef.ones(4))
        with pytest.raises(ShapeError, match=r"expected: \[C\], \[N, C\], or"):
            loss(ef.ones(()), ef.tensor(0))
