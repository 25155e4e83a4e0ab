"""Metrics of predictions: functions of tensors, and classes that accumulate batch by batch.

Results are float64. Predictions are either classes, in the shape of the labels, or scores, with an
additional last axis of one number per class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final, Literal, final

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError
from eagerflow.extending import matched, may_equal, module_dir, one_of, require

__all__ = [
    "Accuracy",
    "ConfusionMatrix",
    "Mean",
    "Perplexity",
    "accuracy",
    "auc",
    "confusion_matrix",
    "f1_score",
    "perplexity",
    "roc_auc",
    "top_k_accuracy",
]

Average = Literal["binary", "macro", "micro", "weighted"] | None
_AVERAGE: Final = one_of("binary", "macro", "micro", "weighted", None)


def _fitted(
    wrong: str, expected: str, more: int = 0, axes: int | None = None, **parts: ef.Tensor
) -> tuple[ef.Tensor, ef.Tensor]:
    """Two tensors, checked: the first has the shape of the second, plus ``more`` axes.

    Symbolic sizes are compared at run time: broadcasting would hide a difference.
    """
    x, y = map(ef.asarray, parts.values())
    given = ", ".join(f"{name}={v.type}" for name, v in zip(parts, (x, y), strict=True))
    sizes = x.shape[: y.ndim]
    fits = x.ndim == y.ndim + more and axes in (None, x.ndim)
    if not fits or not all(map(may_equal, sizes, y.shape)):
        raise ShapeError(wrong, given=given, expected=expected)
    return matched(x, sizes, y.shape, wrong, given), y


# --- of classes -------------------------------------------------------------------------------


def _classes(name: str, predictions: ef.Tensor, labels: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
    """Predicted and right classes, in one dtype, each as a vector."""
    predictions, labels = ef.asarray(predictions), ef.asarray(labels)
    if predictions.ndim == labels.ndim + 1:
        predictions = predictions.argmax(axis=-1)
    predictions, labels = _fitted(
        f"{name}: predictions and labels do not fit",
        "predictions of the shape of the labels, or with one more axis of scores",
        predictions=predictions,
        labels=labels,
    )
    for what, x in (("predictions", predictions), ("labels", labels)):
        if x.dtype.is_inexact:
            raise DTypeError(
                f"{name}: the {what} are not classes",
                given=f"{what}={x.type}",
                expected="integers, or for predictions scores with one axis more than the labels",
                hint="for one score per element: (scores > 0.5).astype(ef.int64)",
            )
    return predictions.astype(ef.int64).reshape(-1), labels.astype(ef.int64).reshape(-1)


def _share(part: ef.Tensor, whole: ef.Tensor) -> ef.Tensor:
    """``part / whole`` in float64; NaN if ``whole`` is 0."""
    some = whole != 0
    return ef.where(some, part.astype(ef.float64) / ef.where(some, whole, 1), math.nan)


def _mean(hits: ef.Tensor) -> ef.Tensor:
    """The share of true elements."""
    return _share(hits.astype(ef.int64).sum(), ef.ones_like(hits, dtype=ef.int64).sum())


def accuracy(predictions: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
    """The share of right predictions.

    Args:
        predictions: classes like the labels, or scores ``[..., classes]``.
        labels: integers.

    >>> ef.nn.metrics.accuracy(ef.tensor([0, 1, 2, 2]), ef.tensor([0, 1, 1, 2]))
    Tensor(0.75, f64[]@cpu:0)
    """
    predicted, right = _classes("accuracy", predictions, labels)
    return _mean(predicted == right)


def _scored(name: str, scores: ef.Tensor, labels: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
    return _fitted(
        f"{name}: scores and labels do not fit",
        "scores [..., classes] and labels [...]",
        more=1,
        scores=scores,
        labels=labels,
    )


def top_k_accuracy(scores: ef.Tensor, labels: ef.Tensor, k: int = 5) -> ef.Tensor:
    """The share of labels among the ``k`` classes with the highest scores.

    Args:
        scores: ``[..., classes]``; among equal scores the first class counts as higher.
        labels: integers, ``[...]``.
        k: number of classes; all classes if there are fewer.

    >>> scores = ef.tensor([[0.1, 0.5, 0.4], [0.8, 0.1, 0.1]])
    >>> ef.nn.metrics.top_k_accuracy(scores, ef.tensor([2, 1]), k=2)
    Tensor(1., f64[]@cpu:0)
    """
    scores, labels = _scored("top_k_accuracy", scores, labels)
    best = ef.argsort(scores, axis=-1, descending=True)[..., :k]
    return _mean((best == labels[..., None]).any(axis=-1))


def confusion_matrix(
    predictions: ef.Tensor, labels: ef.Tensor, num_classes: int | None = None
) -> ef.Tensor:
    """The confusion matrix: counts of predictions per class; rows are labels, columns predictions.

    Args:
        predictions: classes like the labels, or scores ``[..., classes]``.
        labels: integers from 0 to ``num_classes - 1``.
        num_classes: by default one more than the largest class, which depends on the data.

    Returns:
        Counts, ``int64 [num_classes, num_classes]``.

    Raises:
        TensorIndexError: a class is out of range.

    >>> ef.nn.metrics.confusion_matrix(ef.tensor([0, 1, 1]), ef.tensor([0, 0, 1]))
    Tensor([[1, 1],
            [0, 1]], i64[2,2]@cpu:0)
    """
    return _confusion("confusion_matrix", predictions, labels, num_classes)


def _confusion(
    name: str, predictions: ef.Tensor, labels: ef.Tensor, num_classes: int | None
) -> ef.Tensor:
    predicted, right = _classes(name, predictions, labels)
    if num_classes is None:
        both = ef.concat([predicted, right])
        num_classes = int(both.max()) + 1 if both.size else 0
    # an index for each pair of classes; invalid pairs get an index out of range
    valid = (predicted >= 0) & (predicted < num_classes) & (right >= 0) & (right < num_classes)
    pair = ef.where(valid, right * num_classes + predicted, num_classes**2)
    empty = ef.zeros(num_classes**2, dtype=ef.int64, device=pair.device)
    try:
        counts = ef.scatter_add(empty, pair, ef.ones_like(pair))
    except TensorIndexError:
        error = _out_of_range(name, predicted, right, num_classes)
    else:
        return counts.reshape((num_classes, num_classes))
    raise error


def _out_of_range(
    name: str, predicted: ef.Tensor, right: ef.Tensor, num_classes: int
) -> TensorIndexError:
    """The error for classes out of range."""
    both = ef.concat([predicted, right])
    low, high = int(both.min()), int(both.max())
    wrong = low if low < 0 else high
    hint = f"num_classes={high + 1}"
    if "binary" in name:
        hint = 'average="macro", "micro", "weighted" or None takes more than two classes'
    if low < 0:
        hint = "leave out elements that do not count, such as padding"
    return TensorIndexError(
        f"{name}: class {wrong} is out of range",
        given=f"classes from {low} to {high}",
        expected=f"classes from 0 to {num_classes - 1}",
        hint=hint,
    )


def f1_score(
    predictions: ef.Tensor,
    labels: ef.Tensor,
    average: Average = "binary",
    num_classes: int | None = None,
) -> ef.Tensor:
    """The harmonic mean of precision and recall (van Rijsbergen, 1979).

    Args:
        predictions: classes like the labels, or scores ``[..., classes]``.
        labels: integers.
        average: ``"binary"``: the score of class 1 of two classes; ``"macro"``: the mean over the
            classes that occur among labels or predictions; ``"weighted"``: the mean weighted by
            the frequency of labels; ``"micro"``: the score of the summed counts; None: a score
            for each class, 0 if the class does not occur.
        num_classes: by default one more than the largest class, which depends on the data.

    Raises:
        TensorIndexError: a class is out of range, or ``"binary"`` is given for more than two.

    >>> predicted, labels = ef.tensor([0, 1, 1, 1]), ef.tensor([0, 1, 0, 1])
    >>> ef.nn.metrics.f1_score(predicted, labels)
    Tensor(0.8, f64[]@cpu:0)
    """
    require("f1_score", _AVERAGE, average=average)
    if average == "binary" and num_classes is None:
        return _f1(_confusion('f1_score with average="binary"', predictions, labels, 2), average)
    return _f1(_confusion("f1_score", predictions, labels, num_classes), average)


def _f1(matrix: ef.Tensor, average: Average) -> ef.Tensor:
    right = ef.linalg.diagonal(matrix)
    either = matrix.sum(axis=0) + matrix.sum(axis=1)  # right predictions count in both
    if average == "micro":
        right, either = right.sum(), either.sum()
    scores = _share(2 * right, ef.maximum(either, 1))
    if average == "binary":
        return scores[1]
    if average == "macro":
        return _share(scores.sum(), ef.maximum((either > 0).sum(), 1))
    if average == "weighted":
        labels = matrix.sum(axis=1)
        return _share((scores * labels).sum(), labels.sum())
    return scores


# --- of scores --------------------------------------------------------------------------------


def auc(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
    """The area under a curve through points, by the trapezoidal rule.

    Args:
        x: ``[n]``, ascending or descending.
        y: ``[n]``.

    >>> ef.nn.metrics.auc(ef.tensor([0.0, 1.0, 2.0]), ef.tensor([0.0, 1.0, 1.0]))
    Tensor(1.5, f64[]@cpu:0)
    """
    x, y = _fitted("auc: the points are not a curve", "two tensors [n]", axes=1, x=x, y=y)
    x, y = x.astype(ef.float64), y.astype(ef.float64)
    return abs(((x[1:] - x[:-1]) * (y[1:] + y[:-1])).sum()) / 2


def roc_auc(scores: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
    """The area under the receiver operating characteristic (Hanley and McNeil, 1982).

    It is the probability that a positive element has a higher score than a negative one, with
    equal scores counting a half; NaN if all elements are of one kind, or if a score is NaN.

    Args:
        scores: real, ``[n]``: the higher, the more likely positive.
        labels: boolean or integers, ``[n]``; nonzero means positive.

    >>> ef.nn.metrics.roc_auc(ef.tensor([0.1, 0.4, 0.35, 0.8]), ef.tensor([0, 0, 1, 1]))
    Tensor(0.75, f64[]@cpu:0)
    """
    wrong, expected = "roc_auc: scores and labels do not fit", "scores [n] and labels [n]"
    scores, labels = _fitted(wrong, expected, axes=1, scores=scores, labels=labels)
    order = ef.argsort(scores)
    ordered, positive = scores[order], (labels != 0)[order]
    first = ef.concat([ef.ones_like(positive[:1]), ordered[1:] != ordered[:-1]])
    ones, zeros = positive.astype(ef.int64), (~positive).astype(ef.int64)
    count, others = ones.sum(), zeros.sum()
    # pairs with a lower score at the negative, and pairs without a lower score at the positive
    wins = (ones * _before(zeros, first)).sum()
    not_lost = count * others - (zeros * _before(ones, first)).sum()
    area = _share((wins + not_lost).astype(ef.float64) / 2, count * others)
    return ef.where(ef.isnan(scores).any(), math.nan, area)


def _before(counts: ef.Tensor, first: ef.Tensor) -> ef.Tensor:
    """The sum of ``counts`` before the run of each element; ``first`` marks beginnings of runs."""
    return ef.cummax(ef.where(first, ef.cumulative_sum(counts) - counts, 0))


def _surprise(
    scores: ef.Tensor, labels: ef.Tensor, ignore_index: int
) -> tuple[ef.Tensor, ef.Tensor]:
    """The sum of ``-log softmax(scores)`` at the labels, and the number of labels that count."""
    scores, labels = _scored("perplexity", scores, labels)
    losses = ef.softmax_cross_entropy(
        scores.astype(ef.float64), labels, axis=-1, ignore_index=ignore_index, reduction="sum"
    )
    return losses, (labels != ignore_index).astype(ef.int64).sum()


def perplexity(scores: ef.Tensor, labels: ef.Tensor, ignore_index: int = -100) -> ef.Tensor:
    """The exponential of the mean cross-entropy: the effective number of equally likely classes.

    Args:
        scores: ``[..., classes]``.
        labels: integers, ``[...]``.
        ignore_index: a label that does not count, such as that of padding.

    Raises:
        TensorIndexError: another label is out of range.

    >>> round(float(ef.nn.metrics.perplexity(ef.zeros((5, 8)), ef.arange(5))), 6)
    8.0
    """
    total, count = _surprise(scores, labels, ignore_index)
    return ef.exp(_share(total, count))


# --- batch by batch ---------------------------------------------------------------------------


def _counter(
    shape: tuple[int, ...] = (), dtype: ef.types.DTypeLike = None, name: str = "count"
) -> ef.Variable:
    return ef.Variable(ef.zeros(shape, dtype=dtype or ef.int64), trainable=False, name=name)


class AbstractMetric(ABC):
    """Base class of metrics that accumulate in variables; `update` works in traced steps, too."""

    @property
    def state(self) -> dict[str, ef.Variable]:
        """The variables by name."""
        return {name: v for name, v in vars(self).items() if isinstance(v, ef.Variable)}

    def reset(self) -> None:
        """Set the state back to its initial values."""
        for variable in self.state.values():
            variable.assign(ef.zeros_like(variable))

    @abstractmethod
    def result(self) -> ef.Tensor:
        """The metric over all calls of `update` since construction or the last `reset`."""


@final
class Mean(AbstractMetric):
    """The mean of numbers, such as losses.

    >>> loss = ef.nn.metrics.Mean()
    >>> loss.update(2.0)
    >>> loss.update(ef.tensor([3.0, 4.0]))
    >>> loss.result()
    Tensor(3., f64[]@cpu:0)
    """

    def __init__(self) -> None:
        self.total = _counter(dtype=ef.float64, name="total")
        self.count = _counter()

    def update(self, values: ef.Tensor | float) -> None:
        """Add numbers: a tensor of any shape, or a single number."""
        values = ef.asarray(values).astype(ef.float64)
        self.total.assign_add(values.sum())
        self.count.assign_add(ef.ones_like(values, dtype=ef.int64).sum())

    def result(self) -> ef.Tensor:
        return _share(self.total.value, self.count.value)


@final
class Accuracy(AbstractMetric):
    """The share of right predictions, batch by batch; as `accuracy`.

    >>> right = ef.nn.metrics.Accuracy()
    >>> right.update(ef.tensor([0, 1]), ef.tensor([0, 1]))
    >>> right.update(ef.tensor([0, 1]), ef.tensor([1, 1]))
    >>> right.result()
    Tensor(0.75, f64[]@cpu:0)
    """

    def __init__(self) -> None:
        self.right = _counter(name="right")
        self.count = _counter()

    def update(self, predictions: ef.Tensor, labels: ef.Tensor) -> None:
        """Add a batch; arguments are as for `accuracy`."""
        predicted, labels = _classes("accuracy", predictions, labels)
        self.right.assign_add((predicted == labels).astype(ef.int64).sum())
        self.count.assign_add(ef.ones_like(labels).sum())

    def result(self) -> ef.Tensor:
        return _share(self.right.value, self.count.value)


@final
class Perplexity(AbstractMetric):
    """The perplexity of a text, batch by batch; as `perplexity`.

    >>> text = ef.nn.metrics.Perplexity()
    >>> text.update(ef.zeros((5, 8)), ef.arange(5))
    >>> round(float(text.result()), 6)
    8.0
    """

    def __init__(self, ignore_index: int = -100) -> None:
        self.ignore_index = ignore_index
        self.total = _counter(dtype=ef.float64, name="total")
        self.count = _counter()

    def update(self, scores: ef.Tensor, labels: ef.Tensor) -> None:
        """Add a batch; arguments are as for `perplexity`."""
        total, count = _surprise(scores, labels, self.ignore_index)
        self.total.assign_add(total)
        self.count.assign_add(count)

    def result(self) -> ef.Tensor:
        return ef.exp(_share(self.total.value, self.count.value))


@final
class ConfusionMatrix(AbstractMetric):
    """The confusion matrix, batch by batch; as the function `confusion_matrix`.

    >>> matrix = ef.nn.metrics.ConfusionMatrix(2)
    >>> matrix.update(ef.tensor([0, 1, 1]), ef.tensor([0, 0, 1]))
    >>> matrix.update(ef.tensor([1]), ef.tensor([1]))
    >>> matrix.result()
    Tensor([[1, 1],
            [0, 2]], i64[2,2]@cpu:0)
    >>> matrix.f1_score()
    Tensor(0.8, f64[]@cpu:0)
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.counts = _counter((num_classes, num_classes), name="counts")

    def update(self, predictions: ef.Tensor, labels: ef.Tensor) -> None:
        """Add a batch; arguments are as for `confusion_matrix`."""
        self.counts.assign_add(confusion_matrix(predictions, labels, self.num_classes))

    def result(self) -> ef.Tensor:
        return self.counts.value

    def f1_score(self, average: Average = "binary") -> ef.Tensor:
        """The F1 score over all batches; as the function `f1_score`."""
        require("f1_score", _AVERAGE, average=average)
        return _f1(self.counts.value, average)


__dir__ = module_dir(globals())
