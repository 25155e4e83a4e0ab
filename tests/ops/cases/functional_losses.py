"""Cases of the losses of `nn.functional`, against formulas on Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import OpCase, Sample
from tests.ops.cases.functional_activations import WIDE
from tests.ops.cases.softmax import classes, log_softmax
from tests.ops.random import philox

_MATRICES = ("matrix", "strided")
_FULL = ("vector", "matrix", "strided")
REDUCTIONS = ("mean", "sum", "none")


def reduced(losses: Any, reduction: str, total: float | None = None) -> Any:
    """The losses as an array, their sum, or that sum divided by a total."""
    losses = np.asarray(losses)
    if reduction == "none":
        return losses
    loss_sum = math.fsum(losses.ravel())
    if reduction == "sum":
        return np.asarray(loss_sum)
    total = losses.size if total is None else total
    return np.asarray(loss_sum / total if total else math.nan)


def _each(loss: Callable[..., float]) -> Any:
    """A reference that computes a loss element by element."""

    def reference(x: Any, t: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        pairs = zip(x.ravel().tolist(), t.ravel().tolist(), strict=True)
        losses = [loss(a, b, **kwargs) for a, b in pairs]
        if reduction == "batchmean":
            return reduced(losses, "mean", x.shape[0])
        return reduced(np.reshape(losses, x.shape), reduction)

    return reference


def _pair(s: Sample) -> Any:
    """Two arrays whose differences are neither 0 nor 1."""
    x = s.array()
    size = s.array(0.1, 0.8) + s.ints(0, 3, s.shape)
    side = 2 * s.ints(0, 2, s.shape) - 1
    return x, np.asarray(x + side * size).astype(x.dtype)


def _rows(name: str, loss: Any, make: Any, **kwargs: Any) -> list[OpCase]:
    """A row for each reduction."""
    tag = "".join(f"-{v}" for v in kwargs.values())
    return [
        OpCase(f"nn.functional.{name}", make, _each(loss), dtypes=WIDE, grad=(0, 1),
               kwargs={**kwargs, "reduction": reduction}, label=reduction + tag, tolerance=4,
               layouts=_FULL)
        for reduction in REDUCTIONS
    ]  # fmt: skip


def _smooth_l1(x: float, t: float, beta: float = 1.0) -> float:
    d = abs(x - t)
    return d * d / (2 * beta) if d < beta else d - beta / 2


def _huber(x: float, t: float, delta: float = 1.0) -> float:
    d = abs(x - t)
    return d * d / 2 if d < delta else delta * (d - delta / 2)


def _kl(x: float, t: float, log_target: bool = False) -> float:
    return math.exp(t) * (t - x) if log_target else t * (math.log(t) - x)


def _bce(p: float, t: float) -> float:
    return -(t * math.log(p) + (1 - t) * math.log(1 - p))


def _bce_logits(x: float, t: float) -> float:
    return t * math.log1p(math.exp(-x)) + (1 - t) * math.log1p(math.exp(x))


def _probabilities(s: Sample) -> Any:
    return s.array(0.1, 0.9), s.array(0.1, 0.9)


def _logs(s: Sample) -> Any:
    return s.array(-3, 0), s.array(0.1, 1)


NUMBERS = [
    *_rows("mse_loss", lambda x, t: (x - t) ** 2, _pair),
    *_rows("l1_loss", lambda x, t: abs(x - t), _pair),
    *_rows("smooth_l1_loss", _smooth_l1, _pair),
    *_rows("smooth_l1_loss", _smooth_l1, _pair, beta=2.0),
    *_rows("huber_loss", _huber, _pair),
    *_rows("huber_loss", _huber, _pair, delta=2.0),
    *_rows("kl_div", _kl, _logs),
    *_rows("kl_div", _kl, lambda s: (s.array(-3, 0), s.array(-3, 0)), log_target=True),
    OpCase("nn.functional.kl_div", _logs, _each(_kl), kwargs={"reduction": "batchmean"},
           dtypes=WIDE, grad=(0, 1), layouts=_FULL, label="batchmean", tolerance=4),
    *_rows("binary_cross_entropy", _bce, _probabilities),
    *_rows("binary_cross_entropy_with_logits", _bce_logits,
           lambda s: (s.array(), s.array(0.1, 0.9))),
]  # fmt: skip


def _with_weights(x: Any, t: Any, weight: Any, reduction: str, positive: Any = 1.0) -> Any:
    part = positive * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))
    return reduced(part * (1.0 if weight is None else weight), reduction)


_LOGITS = "nn.functional.binary_cross_entropy_with_logits"

WEIGHTED = [
    OpCase("nn.functional.binary_cross_entropy",
           lambda s: (s.array(0.1, 0.9), s.array(0.1, 0.9), s.array(0.5, 2)),
           lambda x, t, w: reduced(w * np.vectorize(_bce, otypes=[float])(x, t), "mean"),
           dtypes=WIDE, grad=(0, 1, 2), layouts=_FULL, label="weight", tolerance=4),
    OpCase(_LOGITS, lambda s: (s.array(), s.array(0.1, 0.9), s.array(0.5, 2), "sum"),
           _with_weights, dtypes=WIDE, grad=(0, 1, 2), layouts=_FULL, label="weight",
           tolerance=4),
    OpCase(_LOGITS,
           lambda s: (s.array(), s.array(0.1, 0.9), None, "sum", s.array(0.5, 2, s.shape[-1:])),
           _with_weights, dtypes=WIDE, grad=(0, 1, 4), layouts=_FULL, label="positive",
           tolerance=4),
]  # fmt: skip

# --- classes ----------------------------------------------------------------------------------


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    scores: bool = True,
) -> Any:
    """Cross-entropy, sample by sample; ``scores``: x holds no logarithms of probabilities yet."""
    rows = np.moveaxis(np.asarray(x, float), min(1, x.ndim - 1), -1)
    count = rows.shape[-1]
    weights = np.ones(count) if weight is None else np.asarray(weight, float)
    given = target.dtype.kind == "f"
    samples = rows.shape[:-1]
    wanted = np.moveaxis(target, min(1, x.ndim - 1), -1) if given else target
    losses, total = np.zeros(samples), 0.0
    for place in np.ndindex(*samples):
        logs = log_softmax(rows[place].tolist()) if scores else rows[place].tolist()
        if not given and wanted[place] == ignore_index:
            continue
        one = wanted[place] if given else [float(c == wanted[place]) for c in range(count)]
        shares = [p * (1 - label_smoothing) + label_smoothing / count for p in one]
        losses[place] = -math.fsum(w * p * v for w, p, v in zip(weights, shares, logs, strict=True))
        total += 1 if given else weights[wanted[place]]
    return reduced(losses, reduction, total)


def _samples(s: Sample, ignored: int | None = None) -> Any:
    """Scores of three classes, with the class axis second, and labels."""
    shape = (s.shape[0], 3, *s.shape[1:]) if s.shape else (3,)
    return s.array(shape=shape), classes(s, 3, s.shape, ignored)


def _weighted(s: Sample, ignored: int | None = None) -> Any:
    return (*_samples(s, ignored), s.array(0.5, 2, (3,)))


def _soft(s: Sample) -> Any:
    shape = (s.shape[0], 3, *s.shape[1:]) if s.shape else (3,)
    return s.array(shape=shape), s.array(0.1, 0.9, shape=shape), s.array(0.5, 2, (3,))


def _entropy(label: str, make: Any, grad: tuple[int, ...] = (0,), **kwargs: Any) -> OpCase:
    return OpCase("nn.functional.cross_entropy", make, cross_entropy, kwargs=kwargs, dtypes=WIDE,
                  grad=grad, label=label, tolerance=4,
                  layouts=_FULL if "ignored" in label else ("0d", *_FULL))  # fmt: skip


CLASSES = [
    *(_entropy(r, _samples, reduction=r) for r in REDUCTIONS),
    *(_entropy(f"{r}-ignored", lambda s: _samples(s, 1), reduction=r, ignore_index=1)
      for r in REDUCTIONS),
    *(_entropy(f"{r}-weight", _weighted, (0, 2), reduction=r) for r in REDUCTIONS),
    *(_entropy(f"{r}-all", lambda s: _weighted(s, -100), (0, 2), reduction=r,
               label_smoothing=0.2) for r in ("sum", "none")),
    _entropy("mean-all", lambda s: _weighted(s, 1), (0,), ignore_index=7, label_smoothing=0.2),
    _entropy("smooth", _samples, label_smoothing=0.3),
    *(_entropy(f"{r}-soft", _soft, (0, 1, 2), reduction=r) for r in REDUCTIONS),
    _entropy("soft-smooth", _soft, (0, 1, 2), label_smoothing=0.3),
    *(OpCase("nn.functional.nll_loss", _weighted,
             lambda *args, **kwargs: cross_entropy(*args, **kwargs, scores=False),
             kwargs={"reduction": r, "ignore_index": 1}, dtypes=WIDE, grad=(0,),
             layouts=_MATRICES, label=r, tolerance=4) for r in ("sum", "none")),
    OpCase("nn.functional.nll_loss", _samples,
           lambda *args, **kwargs: cross_entropy(*args, **kwargs, scores=False), dtypes=WIDE,
           grad=(0,), layouts=("0d", *_FULL), tolerance=4),
]  # fmt: skip

# --- sampled classes: a function, with the same draws in each call --------------------------

SEED, COUNT, NUM = 7, 20, 6
LOG_COUNT = math.log(COUNT + 1)
DRAWN = [min(int((COUNT + 1) ** u) - 1, COUNT - 1) for u in philox.uniforms(SEED, 0, NUM, 64)]


def _sampled_softmax(
    x: Any, weight: Any, bias: Any, target: Any, num: int, remove_accidental_hits: bool = True,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    losses = []
    for row, right in zip(np.asarray(x, float), target.tolist(), strict=True):
        scores = [math.fsum((row * w).tolist()) for w in weight.astype(float)]
        scores = [s + (0.0 if bias is None else float(bias[k])) for k, s in enumerate(scores)]
        total = math.exp(scores[right])
        for k in DRAWN[:num]:
            if not (remove_accidental_hits and k == right):
                total += math.exp(scores[k]) / (num * math.log((k + 2) / (k + 1)) / LOG_COUNT)
        losses.append(math.log(total) - scores[right])
    return reduced(losses, reduction)


def _candidates(s: Sample, bias: bool = True) -> Any:
    """Arguments of sampled softmax, with some targets among the draws."""
    target = np.where(s.ints(0, 2, s.shape[:1]) > 0, DRAWN[0], s.ints(0, COUNT, s.shape[:1]))
    weight = s.array(-1, 1, (COUNT, s.shape[1]))
    return s.array(-1, 1), weight, s.array(-1, 1, (COUNT,)) if bias else None, target, NUM


SAMPLED = [
    *(OpCase("nn.functional.sampled_softmax", _candidates, _sampled_softmax, seed=SEED,
             kwargs={"reduction": r}, dtypes=WIDE, grad=(0, 1, 2), layouts=_MATRICES, label=r,
             tolerance=4) for r in REDUCTIONS),
    OpCase("nn.functional.sampled_softmax", lambda s: _candidates(s, bias=False), _sampled_softmax,
           seed=SEED, kwargs={"remove_accidental_hits": False}, dtypes=WIDE, grad=(0, 1),
           layouts=_MATRICES, label="hits", tolerance=4),
]  # fmt: skip

# --- vectors ----------------------------------------------------------------------------------


def _cosine(a: Any, b: Any, axis: int = 1) -> Any:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return (a * b).sum(axis) / np.sqrt((a * a).sum(axis) * (b * b).sum(axis))


def _cosine_loss(a: Any, b: Any, t: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    cosine = _cosine(a, b, -1)
    return reduced(np.where(t > 0, 1 - cosine, np.maximum(cosine - margin, 0)), reduction)


def _distance(a: Any, b: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Any:
    size = np.abs(np.asarray(a, float) - b + eps) ** p
    return size.sum(-1, keepdims=keepdims) ** (1 / p)


def _triplet(
    a: Any, b: Any, c: Any, margin: float = 1.0, p: float = 2.0, swap: bool = False
) -> Any:
    far = _distance(a, c, p)
    far = np.minimum(far, _distance(b, c, p)) if swap else far
    return reduced(np.maximum(_distance(a, b, p) - far + margin, 0), "mean")


def _ranking(a: Any, b: Any, t: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    return reduced(np.maximum(-t * (a - b) + margin, 0), reduction)


def _signs(s: Sample, shape: tuple[int, ...]) -> Any:
    return 2 * s.ints(0, 2, shape) - 1


def _two(s: Sample) -> Any:
    return s.array(0.2, 3), s.array(0.2, 3)


def _vectors(name: str, make: Any, reference: Any, label: str = "", **kwargs: Any) -> OpCase:
    grad = tuple(range(3 if name.startswith("triplet") else 2))
    return OpCase(f"nn.functional.{name}", make, reference, kwargs=kwargs, dtypes=WIDE, grad=grad,
                  layouts=_MATRICES, label=label, tolerance=4)  # fmt: skip


VECTORS = [
    _vectors("cosine_similarity", _two, _cosine),
    _vectors("cosine_similarity", _two, _cosine, "axis", axis=0),
    _vectors("pairwise_distance", _two, _distance),
    _vectors("pairwise_distance", _two, _distance, "kept", p=3.0, keepdims=True),
    _vectors("cosine_embedding_loss", lambda s: (*_two(s), _signs(s, s.shape[:1])), _cosine_loss),
    _vectors("cosine_embedding_loss", lambda s: (*_two(s), _signs(s, s.shape[:1])), _cosine_loss,
             "none", margin=0.3, reduction="none"),
    _vectors("margin_ranking_loss", lambda s: (*_pair(s), _signs(s, s.shape)), _ranking),
    _vectors("margin_ranking_loss", lambda s: (*_pair(s), _signs(s, s.shape)), _ranking, "none",
             margin=5.0, reduction="none"),
    _vectors("triplet_margin_loss", lambda s: (*_two(s), s.array(0.2, 3)), _triplet, margin=9.0),
    _vectors("triplet_margin_loss", lambda s: (*_two(s), s.array(0.2, 3)), _triplet, "swap",
             margin=9.0, p=3.0, swap=True),
]  # fmt: skip

CASES = NUMBERS + WEIGHTED + CLASSES + SAMPLED + VECTORS
