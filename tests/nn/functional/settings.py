"""A table of functions with their settings, and the numbers that they are compared on.

`record.py` runs it with PyTorch, `test_recorded.py` with eagerflow. Arguments and cotangents are
made by integer arithmetic, so that nothing but results needs to be recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.nn.settings import numbers

TARGET = Path(__file__).parent.parent / "data" / "functional.npz"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """A function with the arguments of one call.

    Attributes:
        name: the name of the setting.
        function: the name of the function.
        args: its positional arguments; arrays of floats have gradients.
        options: its keyword arguments, under eagerflow's names.
        running: the positions of arguments that are variables, and assigned.
        constant: the positions of further arguments that have no gradients.
    """

    name: str
    function: str
    args: Sequence[Any]
    options: dict[str, Any] = field(default_factory=dict)
    running: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def differentiable(self) -> tuple[int, ...]:
        """The positions of the arguments with gradients."""
        return tuple(
            i
            for i, x in enumerate(self.args)
            if isinstance(x, np.ndarray)
            and x.dtype.kind == "f"
            and i not in self.running + self.constant
        )


def cotangent_of(setting: Setting, shape: Shape) -> np.ndarray[Any, Any]:
    return numbers(f"{setting.name} cotangent", shape)


def _row(function: str, label: str, *args: Any, running: Any = (), **options: Any) -> Setting:
    return Setting(f"{function} {label}".strip(), function, args, options, running)


def _x(name: str, *shape: int, scale: float = 3.0) -> np.ndarray[Any, Any]:
    return scale * numbers(name, shape)


def _positive(name: str, *shape: int) -> np.ndarray[Any, Any]:
    return 0.5 + 0.45 * numbers(name, shape)


def _labels(name: str, count: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.floor(_positive(name, *shape) * count).astype(np.int64)


#: the places where derivatives jump, and places far from these
KINKS = np.array([-1e4, -20.5, -6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 20.5, 1e4])
_HUGE = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, 0.5]])
_MASKED = np.array([[-math.inf, 1.0, 2.0], [0.0, -math.inf, -math.inf]])

ACTIVATIONS = [
    *(_row(name, "", KINKS) for name in (
        "relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "hardshrink",
        "softshrink", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
        "tanh", "tanhshrink", "sigmoid", "logsigmoid")),
    _row("leaky_relu", "slope", KINKS, negative_slope=0.2),
    _row("hardtanh", "limits", KINKS, min_val=-0.5, max_val=3.0),
    _row("threshold", "", KINKS, 0.5, -2.0),
    _row("hardshrink", "lambd", KINKS, lambd=1.0),
    _row("softshrink", "lambd", KINKS, lambd=1.0),
    _row("elu", "alpha", KINKS, alpha=0.3),
    _row("celu", "alpha", KINKS, alpha=0.3),
    _row("gelu", "tanh", KINKS, approximate="tanh"),
    _row("gelu", "near", _x("gelu", 40, scale=6.0)),
    _row("gelu", "near tanh", _x("gelu", 40, scale=6.0), approximate="tanh"),
    _row("softplus", "beta", KINKS, beta=2.0, threshold=4.0),
    _row("prelu", "one", _x("prelu", 2, 3, 4), np.array([0.25])),
    _row("prelu", "channels", _x("prelu", 2, 3, 4), np.array([0.25, 0.5, -0.5])),
    _row("glu", "", _x("glu", 2, 6)),
    _row("glu", "axis", _x("glu", 2, 4, 3), axis=1),
    *(_row(name, label, x, axis=axis)
      for name in ("softmax", "log_softmax", "softmin")
      for label, x, axis in (("last", _x("soft", 3, 4), -1), ("first", _x("soft", 3, 4), 0),
                             ("huge", _HUGE, 1), ("of one", _x("soft", 3, 1), 1),
                             ("empty", _x("soft", 0, 4), 1))),
    _row("softmax", "masked", _MASKED, axis=1),
    _row("normalize", "", np.array([[3.0, 4.0], [0.0, 0.0], [-1e-3, 1e-3]])),
    _row("normalize", "cubes", _x("normalize", 3, 4), p=3.0, axis=0),
]  # fmt: skip

_IGNORED = np.array([0, -100, 2, 1, -100])
_WEIGHT = np.array([0.5, 2.0, 1.0])
_LOSSES = ("mean", "sum", "none")


def _classes() -> list[Setting]:
    name, x, y = "cross_entropy", _x("entropy", 5, 3), _labels("entropy", 3, 5)
    wide, places = _x("entropy", 2, 3, 2, 4), _labels("entropy", 3, 2, 2, 4)
    soft = _positive("soft", 5, 3)
    all_ = {"weight": _WEIGHT, "ignore_index": 1, "label_smoothing": 0.2}
    ignored = np.full(5, -100)
    rows = [
        _row(name, "one", x[0], y[0]),
        _row(name, "places", wide, places),
        _row(name, "places, all", wide, places, **all_),
        _row(name, "huge", _HUGE, np.array([1, 2, 0])),
        _row(name, "masked", _MASKED, np.array([1, 0])),
        _row(name, "all ignored", x, ignored),
        _row(name, "all ignored, sum", x, ignored, reduction="sum"),
        _row(name, "all ignored, smooth", x, ignored, label_smoothing=0.1),
        _row(name, "empty", _x("none", 0, 3), np.zeros(0, np.int64)),
        _row(name, "empty sum", _x("none", 0, 3), np.zeros(0, np.int64), reduction="sum"),
        _row(name, "soft weight smooth", x, soft, weight=_WEIGHT, label_smoothing=0.3),
        _row(name, "soft places", wide, _positive("soft", 2, 3, 2, 4), weight=_WEIGHT),
        _row("nll_loss", "places", wide, places, weight=_WEIGHT, ignore_index=0),
    ]
    for r in _LOSSES:
        rows += [
            _row(name, r, x, y, reduction=r),
            _row(name, f"{r}, ignored", x, _IGNORED, reduction=r),
            _row(name, f"{r}, weight", x, y, weight=_WEIGHT, reduction=r),
            _row(name, f"{r}, all", x, y, **all_, reduction=r),
            _row(name, f"{r}, smooth ignored", x, _IGNORED, label_smoothing=0.3, reduction=r),
            _row(name, f"{r}, soft", x, soft, reduction=r),
            _row("nll_loss", r, x, _IGNORED, weight=_WEIGHT, reduction=r),
        ]
    return rows


_EDGES = np.array([0.0, 1.0, 0.0, 1.0, 0.25, 1e-30])
_GOALS = np.array([0.0, 1.0, 1.0, 0.0, 0.75, 1.0])


def _numbers() -> list[Setting]:
    x, t = _x("number", 4, 3), _x("target", 4, 3)
    logs, p = -_positive("logs", 4, 3) * 3, _positive("p", 4, 3)
    pairs = {
        "mse_loss": [(x, t, {})],
        "l1_loss": [(x, x.round(), {})],
        "smooth_l1_loss": [(x, t, {}), (x, t, {"beta": 2.5}), (x, t, {"beta": 0.0})],
        "huber_loss": [(x, t, {}), (x, t, {"delta": 2.5})],
        "kl_div": [(logs, p, {}), (logs, logs[::-1].copy(), {"log_target": True})],
        "binary_cross_entropy_with_logits": [
            (x, p, {}), (x, p, {"weight": p, "pos_weight": np.array([0.5, 2.0, 3.0])}),
            (np.array([1e4, -1e4, 1e4, 0.0]), np.array([1.0, 0.0, 0.0, 1.0]), {}),
        ],
        "binary_cross_entropy": [(p, t / 6 + 0.5, {"weight": x})],
    }  # fmt: skip
    name = "binary_cross_entropy"
    edges = [Setting(f"{name} edges {r}", name, (_EDGES, _GOALS), {"reduction": r}, constant=(1,))
             for r in _LOSSES]  # fmt: skip
    return edges + [
        _row(name, f"{i} {r}", a, b, reduction=r, **more)
        for name, given in pairs.items()
        for i, (a, b, more) in enumerate(given)
        for r in (*_LOSSES, *(["batchmean"] if name == "kl_div" else []))
    ]


def _vectors() -> list[Setting]:
    a, b, c = (_x(n, 4, 3) for n in "abc")
    b[0] = a[0]
    zero = a * np.array([[0.0], [1.0], [1.0], [1.0]])
    sign = np.array([1, -1, 1, -1])
    return [
        _row("cosine_similarity", "", a, b),
        _row("cosine_similarity", "zero", zero, c),
        _row("cosine_similarity", "broadcast", a, c[:1], axis=0),
        _row("pairwise_distance", "", a, b),
        _row("pairwise_distance", "kept", a, c, p=1.0, keepdims=True),
        _row("cosine_embedding_loss", "", a, c, sign),
        _row("cosine_embedding_loss", "margin", a, c, sign, margin=0.3, reduction="none"),
        _row("margin_ranking_loss", "", a[:, 0], c[:, 0], sign),
        _row("margin_ranking_loss", "margin", a[:, 0], c[:, 0], sign, margin=2.0, reduction="sum"),
        _row("triplet_margin_loss", "", a, b, c),
        _row("triplet_margin_loss", "swap", a, c, b, margin=3.0, swap=True, reduction="none"),
    ]


def _normalisations() -> list[Setting]:
    x, w, b = _x("norm", 3, 4, 5), _positive("weight", 4), _x("bias", 4)
    mean, var = _x("mean", 4), _positive("var", 4)
    layer = (_positive("weight", 4, 5), _x("bias", 4, 5))
    return [
        _row("layer_norm", "", x, (5,)),
        _row("layer_norm", "axes", x, (4, 5), *layer, eps=0.1),
        _row("layer_norm", "offset", 1e3 + x, (5,)),
        _row("layer_norm", "of one", x[..., :1], (1,)),
        _row("layer_norm", "empty", x[:0], (5,)),
        _row("rms_norm", "", x, (5,), eps=1e-5),
        _row("rms_norm", "weight", x, (4, 5), layer[0], eps=0.1),
        _row("batch_norm", "training", x, mean, var, w, b, training=True, running=(1, 2)),
        _row("batch_norm", "momentum", x, mean, var, training=True, momentum=0.7, eps=0.1,
             running=(1, 2)),
        _row("batch_norm", "two", x[:2, :, 0], mean, var, w, b, training=True, running=(1, 2)),
        _row("batch_norm", "no running", x, None, None, w, b, training=True),
        _row("batch_norm", "eval", x, mean, var, w, b, running=(1, 2)),
        _row("batch_norm", "eval of one", x[:1, :, 0], mean, var, w, b, running=(1, 2)),
        _row("batch_norm", "eval empty", x[:0], mean, var, w, b, running=(1, 2)),
        _row("instance_norm", "", x),
        _row("instance_norm", "running", x, mean, var, w, b, running=(1, 2)),
        _row("instance_norm", "eval", x, mean, var, w, b, use_input_stats=False, running=(1, 2)),
        _row("group_norm", "", x, 2),
        _row("group_norm", "affine", x, 4, w, b, eps=0.1),
        _row("group_norm", "empty", x[:0], 2, w, b),
        _row("local_response_norm", "", x, 3),
        _row("local_response_norm", "even", x, 2, alpha=0.5, beta=0.5, k=2.0),
    ]  # fmt: skip


def _others() -> list[Setting]:
    q, k, v = _x("q", 2, 3, 5, 4), _x("k", 2, 3, 7, 4), _x("v", 2, 3, 7, 2)
    name, table = "scaled_dot_product_attention", _x("table", 6, 3)
    mask = numbers("mask", (5, 7)) > 0
    nothing = mask.copy()
    nothing[1] = False
    rows = np.array([[0, 5, 2], [2, 2, 1]])
    return [
        _row(name, "", q, k, v),
        _row(name, "causal", q, k, v, is_causal=True),
        _row(name, "causal, more queries", k, q, v[:, :, :5], is_causal=True),
        _row(name, "scale", q, k, v, scale=0.1),
        _row(name, "bool", q, k, v, mask),
        _row(name, "nothing to see", q, k, v, nothing),
        _row(name, "added", q, k, v, _x("added", 2, 1, 5, 7)),
        _row(name, "huge", q * 1e3, k, v),
        _row(name, "no keys", q, k[:, :, :0], v[:, :, :0]),
        _row("linear", "", _x("x", 2, 4, 3), _x("w", 5, 3), _x("b", 5)),
        _row("linear", "no bias", _x("x", 3), _x("w", 5, 3)),
        _row("linear", "empty", _x("x", 0, 3), _x("w", 5, 3), _x("b", 5)),
        _row("embedding", "", rows, table),
        _row("embedding", "padding", rows, table, padding_idx=2),
        _row("embedding", "padding from the end", rows, table, padding_idx=-4),
        _row("embedding", "empty", rows[:0], table),
        _row("one_hot", "", rows, 6),
        _row("pad", "", _x("pad", 2, 3), (1, 2)),
        _row("pad", "both", _x("pad", 2, 3), (1, 0, 0, 2), value=7.0),
        *(_row("pad", mode, _x("pad", 1, 2, 3, 4), (1, 2, 0, 1), mode=mode)
          for mode in ("reflect", "replicate", "circular")),
    ]  # fmt: skip


def rows() -> list[Setting]:
    """The table."""
    return [
        *ACTIVATIONS, *_classes(), *_numbers(), *_vectors(), *_normalisations(), *_others()
    ]  # fmt: skip
