"""Cases of resizing, against the definition of each mode, place by place."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tests.ops.case import ALL, FLOATING, INEXACT, OpCase
from tests.ops.cases.convolution import each
from tests.ops.cases.linalg import ONE, shaped, wide
from tests.ops.cases.pooling import adaptive_avg_pool, more


def shares(n, m, mode, corners, scale):
    """For each place along an axis the elements and their weights, computed in fractions."""
    lines = []
    ratio = Fraction(n, m) if scale is None else 1 / Fraction(scale)
    for i in range(m):
        if mode == "nearest":
            lines.append([(math.floor(i * ratio), 1)])
        elif mode == "nearest-exact":
            lines.append([(math.floor((i + Fraction(1, 2)) * ratio), 1)])
        else:
            at = (i + Fraction(1, 2)) * ratio - Fraction(1, 2)
            if corners:
                at = Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0)
            at = min(max(at, Fraction(0)), Fraction(n - 1))
            low = math.floor(at)
            lines.append([(low, 1 - (at - low)), (low + 1, at - low)])
    return [[(min(k, n - 1), float(weight)) for k, weight in line] for line in lines]


def resize(x, size, mode="nearest", align_corners=False, scale=None):
    """The resized array, axis by axis."""
    out = wide(x) if x.dtype.kind not in "iu" else x.astype(np.float32)
    axes = x.ndim - 2
    factors = (scale,) * axes if scale is None else each(scale, axes) if isinstance(
        scale, int) else scale if isinstance(scale, tuple) else (scale,) * axes  # fmt: skip
    for axis, (m, factor) in enumerate(zip(each(size, axes), factors, strict=True), 2):
        moved = np.moveaxis(out, axis, 0)
        lines = shares(len(moved), m, mode, align_corners, factor)
        out = np.moveaxis(np.stack([sum(moved[k] * w for k, w in line) for line in lines]), 0, axis)
    return out


def close_where_known(got, want):
    """Asserts closeness; infinite and NaN elements stay where the definition has them."""
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    axes = x.ndim - 2
    scale = None
    if size is None:
        scale = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * axes
        size = tuple(math.floor(n * s) for n, s in zip(x.shape[2:], scale, strict=True))
    if mode == "area":
        return adaptive_avg_pool(x, size)
    kind = "linear" if mode.endswith("linear") else mode
    return resize(x, size, kind, bool(align_corners), scale)


def pixel_shuffle(x, r):
    *lead, channels, height, width = x.shape
    out = np.zeros((*lead, channels // r**2, height * r, width * r), x.dtype)
    for c, i, j in np.ndindex(*out.shape[-3:]):
        source = c * r * r + i % r * r + j % r
        out[..., c, i, j] = x[..., source, i // r, j // r]
    return out


def pixel_unshuffle(x, r):
    *lead, channels, height, width = x.shape
    out = np.zeros((*lead, channels * r**2, height // r, width // r), x.dtype)
    for c, i, j in np.ndindex(*out.shape[-3:]):
        block, rest = divmod(c, r * r)
        out[..., c, i, j] = x[..., block, i * r + rest // r, j * r + rest % r]
    return out


#: label -> shape, new sizes, settings
SETTINGS = {
    "nearest": ((2, 2, 3, 4), (5, 2), {}),
    "nearest-scaled": ((1, 2, 5, 4), (3, 7), {"scale": (0.7, 1.75)}),
    "exact": ((2, 2, 3, 5), (7, 3), {"mode": "nearest-exact"}),
    "linear": ((2, 2, 3, 4), (6, 3), {"mode": "linear"}),
    "corners": ((2, 2, 3, 4), (5, 2), {"mode": "linear", "align_corners": True}),
    "to-one": ((1, 2, 3, 4), 1, {"mode": "linear", "align_corners": True}),
    "from-one": ((1, 2, 1, 1), 3, {"mode": "linear"}),
    "same": ((1, 2, 3, 4), (3, 8), {"mode": "linear"}),
    "linear-scaled": ((1, 2, 5, 4), (3, 7), {"mode": "linear", "scale": (0.7, 1.75)}),
    "1d": ((2, 3, 4), 7, {"mode": "linear"}),
    "3d": ((1, 1, 2, 3, 2), (3, 2, 4), {"mode": "linear"}),
    "twice": ((2, 2, 3, 4), (6, 12), {}),
    "long": ((1, 1, 1, 5), (1, 131), {"mode": "linear"}),
    "empty-batch": ((0, 2, 3, 3), 5, {"mode": "linear"}),
}
F = "nn.functional."

CASES = [
    *(
        OpCase("resize", more(shaped(shape), size), resize, settings,
               INEXACT if label in ("nearest", "linear") else ("float32", "float64"), (0,),
               layouts=ONE, tolerance=4, label=label)
        for label, (shape, size, settings) in SETTINGS.items()
    ),
    OpCase("resize", lambda s: (s.array(shape=(1, 2, 3, 4)), 7), resize, {"mode": "linear"},
           ("float32", "float64"), no_grad="not finite", layouts=ONE, specials=True,
           compare=close_where_known, label="specials"),
    *(
        OpCase(F + "interpolate", shaped(shape), interpolate, settings, FLOATING, (0,),
               layouts=ONE, tolerance=4, label=label, ops=(op,), specialises=why)
        for label, shape, settings, op, why in (
            ("size", (2, 2, 3, 4), {"size": (5, 6), "mode": "bilinear"}, "resize", ""),
            ("twice", (2, 2, 3, 4), {"scale_factor": 2}, "resize", ""),
            ("half", (2, 2, 5, 4), {"scale_factor": 0.5, "mode": "bilinear"}, "resize", ""),
            ("factor", (2, 2, 5, 4), {"scale_factor": (1.5, 2.0), "mode": "nearest-exact"},
             "resize", "a size times a fraction, rounded down"),
            ("linear", (2, 2, 5), {"size": 3, "mode": "linear", "align_corners": True}, "resize",
             ""),
            ("area", (2, 2, 5, 4), {"size": (3, 2), "mode": "area"}, "adaptive_avg_pool", ""),
        )
    ),
    OpCase(F + "pixel_shuffle", more(shaped((2, 8, 2, 3)), 2), pixel_shuffle, dtypes=ALL,
           grad=(0,), layouts=ONE, exact=True, ops=("reshape", "permute_dims")),
    OpCase(F + "pixel_unshuffle", more(shaped((2, 2, 4, 6)), 2), pixel_unshuffle, dtypes=ALL,
           grad=(0,), layouts=ONE, exact=True, ops=("reshape", "permute_dims")),
]  # fmt: skip
