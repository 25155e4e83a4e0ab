"""Cases of attention, dropout, tables and linear maps of `nn.functional`, against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import OpCase, Sample
from tests.ops.cases.functional_activations import WIDE
from tests.ops.cases.softmax import softmax

_MATRICES = ("matrix", "strided")
_FULL = ("vector", "matrix", "strided")


def _row(name: str, make: Any, reference: Any, label: str, grad: Any, **more: Any) -> OpCase:
    options = {"layouts": _MATRICES, "tolerance": 4, "dtypes": WIDE, **more}
    return OpCase(f"nn.functional.{name}", make, reference, label=label, grad=grad, **options)


# --- attention --------------------------------------------------------------------------------


def _attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> Any:
    """Attention, query by query; a query whose keys are all masked gets zeros."""
    batch, queries, size = q.shape
    keys = k.shape[1]
    scale = 1 / math.sqrt(size) if scale is None else scale
    out = np.zeros((batch, queries, v.shape[2]))
    for b, i in np.ndindex(batch, queries):
        scores = []
        for j in range(keys):
            score = math.fsum((q[b, i].astype(float) * k[b, j]).tolist()) * scale
            if is_causal and j > i:
                score = -math.inf
            elif mask is not None:
                m = np.broadcast_to(mask, (batch, queries, keys))[b, i, j]
                score = (score if m else -math.inf) if mask.dtype == bool else score + float(m)
            scores.append(score)
        if max(scores, default=-math.inf) > -math.inf:
            out[b, i] = softmax(scores) @ v[b].astype(float)
    return out


def _qkv(s: Sample, queries: int = 3, keys: int = 4) -> Any:
    n, e = s.shape[0], 2
    return (
        s.array(shape=(n, queries, e)),
        s.array(shape=(n, keys, e)),
        s.array(shape=(n, keys, 3)),
    )


def _mask(s: Sample) -> Any:
    """A boolean mask that hides all keys from the first query."""
    mask = s.ints(0, 2, (3, 4)).astype(bool)
    mask[:, 1] = True
    mask[0] = False
    return mask


def _added(s: Sample) -> Any:
    return np.where(_mask(s), s.array(shape=(3, 4)), -np.inf).astype(s.array().dtype)


_NAME = "scaled_dot_product_attention"

ATTENTION = [
    _row(_NAME, _qkv, _attention, "", (0, 1, 2)),
    _row(_NAME, _qkv, _attention, "causal", (0, 1, 2), kwargs={"is_causal": True}),
    _row(_NAME, lambda s: _qkv(s, 4, 2), _attention, "more-queries", (0, 1, 2),
         kwargs={"is_causal": True, "scale": 0.3}),
    _row(_NAME, lambda s: (*_qkv(s), _mask(s)), _attention, "bool", (0, 1, 2)),
    _row(_NAME, lambda s: (*_qkv(s), _added(s)), _attention, "added", (0, 1, 2)),
    _row(_NAME, lambda s: (*_qkv(s), s.array(shape=(3, 1))), _attention, "broadcast",
         (0, 1, 2, 3)),
]  # fmt: skip

# --- dropout: its draws are tested in tests/nn/functional/test_dropout.py -------------------

IDENTITIES = [
    _row("dropout", lambda s: (s.array(),), lambda x, **_: x, "eval", (0,), layouts=_FULL,
         kwargs={"training": False}),
    _row("dropout", lambda s: (s.array(),), lambda x, **_: x, "never", (0,), layouts=_FULL,
         kwargs={"p": 0.0}),
    _row("dropout", lambda s: (s.array(),), lambda x, **_: x * 0.0, "always", (0,), layouts=_FULL,
         kwargs={"p": 1.0}),
    *(_row(name, lambda s, axes=axes: (s.array(shape=(*s.shape, *(2, 3, 2)[:axes])),),
           lambda x, **_: x, "eval", (0,), kwargs={"training": False})
      for name, axes in (("dropout1d", 1), ("dropout2d", 2), ("dropout3d", 3))),
]  # fmt: skip

# --- tables and linear maps -------------------------------------------------------------------


def _embedding(rows: Any, weight: Any, padding_idx: int | None = None) -> Any:
    out = np.zeros((*rows.shape, weight.shape[1]))
    for place in np.ndindex(*rows.shape):
        out[place] = weight[rows[place]]
    return out


def _linear(x: Any, weight: Any, bias: Any = 0.0) -> Any:
    return np.einsum("...i,oi->...o", x.astype(float), weight.astype(float)) + bias


def _one_hot(rows: Any, num_classes: int) -> Any:
    return (rows[..., None] == np.arange(num_classes)).astype(np.int64)


def _pad(x: Any, pad: Any, mode: str = "constant", value: float = 0.0) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [tuple(pad[-2:])] * (len(pad) > 2)
    pairs.append(tuple(pad[:2]))
    modes = {"replicate": "edge", "circular": "wrap"}
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, pairs, mode=modes.get(mode, mode), **more)


TABLES = [
    _row("embedding", lambda s: (s.ints(0, 4, s.shape), s.array(shape=(4, 3))), _embedding, "",
         (1,), layouts=("0d", *_FULL)),
    _row("embedding", lambda s: (s.ints(0, 4, s.shape), s.array(shape=(4, 3))), _embedding,
         "padding", (), kwargs={"padding_idx": 1}, no_grad="tests/nn/functional/test_embedding.py"),
    _row("linear", lambda s: (s.array(shape=(*s.shape, 3)), s.array(shape=(2, 3))), _linear, "",
         (0, 1), layouts=("0d", *_FULL)),
    _row("linear",
         lambda s: (s.array(shape=(*s.shape, 3)), s.array(shape=(2, 3)), s.array(shape=(2,))),
         _linear, "bias", (0, 1, 2), layouts=("0d", *_FULL)),
    OpCase("nn.functional.one_hot", lambda s: (s.ints(0, 4, s.shape), 4), _one_hot,
           dtypes=("int64",), no_grad="integers"),
    _row("pad", lambda s: (s.array(), (1, 2)), _pad, "last", (0,), layouts=_FULL),
    _row("pad", lambda s: (s.array(), (1, 0, 0, 2)), _pad, "value", (0,), kwargs={"value": 2.0}),
    *(_row("pad", lambda s: (s.array(), (1, 0, 0, 1)), _pad, mode, (0,), kwargs={"mode": mode})
      for mode in ("reflect", "replicate", "circular")),
]  # fmt: skip

CASES = ATTENTION + IDENTITIES + TABLES
