"""Metrics against scikit-learn, and batch by batch in traced steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.nn import metrics

labelled = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


def columns(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    predicted, labels = zip(*pairs, strict=True)
    return np.array(predicted), np.array(labels)


# --- of classes -------------------------------------------------------------------------------


@given(labelled)
def test_of_classes(pairs: list[tuple[int, int]]) -> None:
    predicted, labels = columns(pairs)
    x, y = ef.tensor(predicted), ef.tensor(labels)
    expected = sklearn_metrics.accuracy_score(labels, predicted)
    assert float(metrics.accuracy(x, y)) == pytest.approx(expected, rel=1e-14)
    matrix = metrics.confusion_matrix(x, y, 5).numpy()
    assert (matrix == sklearn_metrics.confusion_matrix(labels, predicted, labels=range(5))).all()
    for average in ("macro", "micro", "weighted"):
        expected = sklearn_metrics.f1_score(labels, predicted, average=average, zero_division=0)
        score = float(metrics.f1_score(x, y, average))
        assert score == pytest.approx(expected, rel=1e-14)
    expected = sklearn_metrics.f1_score(
        labels, predicted, average=None, labels=range(5), zero_division=0
    )
    np.testing.assert_allclose(metrics.f1_score(x, y, None, 5).numpy(), expected, rtol=1e-14)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_f1_of_two_classes(pairs: list[tuple[bool, bool]]) -> None:
    predicted, labels = columns(pairs)
    expected = sklearn_metrics.f1_score(labels, predicted, zero_division=0)
    score = metrics.f1_score(ef.tensor(predicted), ef.tensor(labels))
    assert float(score) == pytest.approx(expected, rel=1e-14)


def test_scores_stand_for_the_best_class() -> None:
    scores = ef.tensor([[[0.1, 0.9], [0.8, 0.2]]])
    assert float(metrics.accuracy(scores, ef.tensor([[1, 1]]))) == 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_top_k(seed: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.permuted(np.arange(12.0 * 6).reshape(12, 6), axis=1)
    labels = generator.integers(0, 6, 12)
    expected = sklearn_metrics.top_k_accuracy_score(labels, scores, k=k, labels=range(6))
    accuracy = metrics.top_k_accuracy(ef.tensor(scores), ef.tensor(labels), k)
    assert float(accuracy) == pytest.approx(expected, rel=1e-14)


def test_top_k_of_equal_scores_takes_the_first() -> None:
    scores = ef.zeros((2, 3))
    assert float(metrics.top_k_accuracy(scores, ef.tensor([1, 2]), 2)) == 0.5


# --- of scores --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_roc_auc_with_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = columns(pairs)
    area = float(metrics.roc_auc(ef.tensor(scores / 4), ef.tensor(labels)))
    if labels.all() or not labels.any():
        assert np.isnan(area)
    else:
        expected = sklearn_metrics.roc_auc_score(labels, scores)
        assert area == pytest.approx(expected, abs=1e-14)


def test_roc_auc_of_integers_and_of_what_is_no_number() -> None:
    labels = ef.tensor([True, False, True, False])
    assert float(metrics.roc_auc(ef.tensor([3, 1, 1, 0]), labels)) == 0.875
    assert float(metrics.roc_auc(ef.tensor([-0.0, 0.0, np.inf, -np.inf]), labels)) == 0.875
    assert np.isnan(float(metrics.roc_auc(ef.tensor([3, 1, np.nan, 0]), labels)))


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_auc(seed: int, descending: bool) -> None:
    points = np.random.default_rng(seed).random((2, 9))
    x, y = np.sort(points[0]), points[1]
    x = x[::-1].copy() if descending else x
    expected = sklearn_metrics.auc(x, y)
    assert float(metrics.auc(ef.tensor(x), ef.tensor(y))) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_perplexity(seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits, labels = generator.normal(size=(4, 5, 7)), generator.integers(0, 7, (4, 5))
    labels[0, :2] = -100
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    flat = labels.reshape(-1)
    kept = flat != -100
    loss = sklearn_metrics.log_loss(flat[kept], shares.reshape(-1, 7)[kept], labels=range(7))
    perplexity = metrics.perplexity(ef.tensor(logits), ef.tensor(labels))
    assert float(perplexity) == pytest.approx(np.exp(loss), rel=1e-12)


def test_perplexity_of_huge_logits() -> None:
    assert float(metrics.perplexity(ef.tensor([[1e6, 0.0]]), ef.tensor([0]))) == 1.0


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("label", [-1, 3, 100])
def test_perplexity_of_what_is_no_class(label: int, traced: bool) -> None:
    function = ef.trace(metrics.perplexity) if traced else metrics.perplexity
    scores, labels = ef.tensor([[0.0, 1.0, 2.0]] * 2), ef.tensor([1, label])
    with pytest.raises(TensorIndexError, match=f"label {label} is out of range for 3 classes"):
        function(scores, labels)
    running = metrics.Perplexity()
    with pytest.raises(TensorIndexError):
        running.update(scores, labels)
    assert int(running.count) == 0
    assert np.isfinite(float(metrics.perplexity(scores, labels, ignore_index=label)))


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"predictions=i64\[3\]@cpu:0, labels=i64\[2\]@cpu:0"):
        metrics.accuracy(ef.tensor([0, 1, 1]), ef.tensor([0, 1]))
    with pytest.raises(DTypeError, match=r"the predictions are not classes(.|\n)*> 0.5"):
        metrics.accuracy(ef.tensor([0.2, 0.7]), ef.tensor([0, 1]))
    for function in (metrics.top_k_accuracy, metrics.perplexity, metrics.roc_auc):
        with pytest.raises(ShapeError, match="do not fit"):
            function(ef.zeros((3, 2)), ef.tensor([0, 1]))
    with pytest.raises(ShapeError, match="not a curve"):
        metrics.auc(ef.zeros(3), ef.zeros(2))
    with pytest.raises(TensorValueError, match="average has no such value"):
        metrics.f1_score(ef.tensor([0]), ef.tensor([0]), "mean")


@pytest.mark.parametrize(("predicted", "label"), [(2, 0), (0, 2), (-1, 0), (0, -1), (-1, 2)])
def test_classes_out_of_range(predicted: int, label: int) -> None:
    with pytest.raises(TensorIndexError):
        metrics.confusion_matrix(ef.tensor([predicted]), ef.tensor([label]), 2)


def test_errors_name_the_class() -> None:
    with pytest.raises(TensorIndexError, match=r'"binary": class 2 is out(.|\n)*average="macro"'):
        metrics.f1_score(ef.tensor([0, 2]), ef.tensor([0, 1]))
    with pytest.raises(TensorIndexError, match=r"class 7 is out(.|\n)*hint: num_classes=8"):
        metrics.confusion_matrix(ef.tensor([0, 7]), ef.tensor([0, 1]), 2)
    with pytest.raises(TensorIndexError, match=r"class -1 is out(.|\n)*from -1 to 1"):
        metrics.f1_score(ef.tensor([0, -1]), ef.tensor([0, 1]), "macro", 2)


# --- any number of elements -------------------------------------------------------------------


def scores_of(n: int, *more: int) -> ef.Tensor:
    return ef.tensor(np.random.default_rng(n).normal(size=(n, *more)))


def labels_of(n: int) -> ef.Tensor:
    return ef.tensor(np.random.default_rng(n + 100).integers(0, 2, n))


FUNCTIONS: list[tuple[str, Any, Any]] = [
    ("accuracy", lambda x, y: metrics.accuracy(x, y), labels_of),
    ("accuracy of scores", lambda x, y: metrics.accuracy(x, y), lambda n: scores_of(n, 4)),
    ("matrix", lambda x, y: metrics.confusion_matrix(x, y, 2), labels_of),
    ("binary f1", lambda x, y: metrics.f1_score(x, y), labels_of),
    ("weighted f1", lambda x, y: metrics.f1_score(x, y, "weighted", 2), labels_of),
    ("perplexity", lambda x, y: metrics.perplexity(x, y), lambda n: scores_of(n, 4)),
    ("top k", lambda x, y: metrics.top_k_accuracy(x, y, 2), lambda n: scores_of(n, 4)),
    ("roc_auc", lambda x, y: metrics.roc_auc(x, y), scores_of),
    ("auc", lambda x, y: metrics.auc(x, y), scores_of),
]


IDS = [f[0] for f in FUNCTIONS]


@pytest.mark.parametrize("sizes", [(3, 5, 7, 0, 1), (1, 0, 3, 5), (0, 1, 2)])
@pytest.mark.parametrize(("function", "first"), [f[1:] for f in FUNCTIONS], ids=IDS)
def test_a_trace_serves_all_sizes(function: Any, first: Any, sizes: tuple[int, ...]) -> None:
    step = ef.trace(function)
    for n in sizes:
        x, y = first(n), labels_of(n)
        np.testing.assert_array_equal(step(x, y).numpy(), function(x, y).numpy())
    assert len(step.traces) <= 2
    with pytest.raises(ShapeError):  # no broadcasting, whether or not sizes are known
        step(first(1), labels_of(6))


@pytest.mark.parametrize(
    ("made", "first"),
    [(metrics.Accuracy, labels_of), (lambda: metrics.ConfusionMatrix(2), labels_of),
     (metrics.Perplexity, lambda n: scores_of(n, 4))],
)  # fmt: skip
def test_a_trace_of_an_accumulator_serves_all_sizes(made: Any, first: Any) -> None:
    metric, expected = made(), made()
    step = ef.trace(lambda x, y: metric.update(x, y))
    for n in (3, 5, 1, 7, 0):
        step(first(n), labels_of(n))
        expected.update(first(n), labels_of(n))
    assert len(step.traces) <= 2
    np.testing.assert_array_equal(metric.result().numpy(), expected.result().numpy())


# --- batch by batch ---------------------------------------------------------------------------


def test_accumulators_in_a_traced_step() -> None:
    generator = np.random.default_rng(0)
    parts = {
        "accuracy": metrics.Accuracy(), "mean": metrics.Mean(),
        "matrix": metrics.ConfusionMatrix(4), "perplexity": metrics.Perplexity(),
    }  # fmt: skip

    @ef.trace
    def step(logits: Any, labels: Any) -> None:
        parts["accuracy"].update(logits, labels)
        parts["mean"].update(logits)
        parts["matrix"].update(logits, labels)
        parts["perplexity"].update(logits, labels)

    for _ in range(2):  # the second run is after a reset
        batches = [(generator.normal(size=(n, 4)), generator.integers(0, 4, n)) for n in (8, 8, 3)]
        for logits, labels in batches:
            step(ef.tensor(logits), ef.tensor(labels))
        logits, labels = (np.concatenate(x) for x in zip(*batches, strict=True))
        x, y = ef.tensor(logits), ef.tensor(labels)
        expected = {
            "accuracy": metrics.accuracy(x, y), "mean": x.mean(),
            "matrix": metrics.confusion_matrix(x, y, 4), "perplexity": metrics.perplexity(x, y),
        }  # fmt: skip
        for name, metric in parts.items():
            np.testing.assert_allclose(metric.result().numpy(), expected[name].numpy(), rtol=1e-13)
        matrix = parts["matrix"]
        assert isinstance(matrix, metrics.ConfusionMatrix)
        assert float(matrix.f1_score("macro")) == float(metrics.f1_score(x, y, "macro", 4))
        for metric in parts.values():
            metric.reset()
    assert len(step.traces) == 2  # one of the full batches, one of any size


def test_nothing_yet() -> None:
    assert np.isnan(float(metrics.Accuracy().result()))
    nothing = ef.zeros(0, dtype=ef.int64)
    assert np.isnan(float(metrics.accuracy(nothing, nothing)))
    assert metrics.confusion_matrix(nothing, nothing, 2).numpy().tolist() == [[0, 0], [0, 0]]


def test_state_by_name() -> None:
    assert list(metrics.Mean().state) == ["total", "count"]
    assert not any(v.trainable for v in metrics.Accuracy().state.values())
