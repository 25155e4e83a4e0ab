"""Cases of pooling, with odd settings, against loops over the windows."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.ops.case import FLOATING, INEXACT, REAL, OpCase, Sample
from tests.ops.cases.convolution import each, unbatched
from tests.ops.cases.linalg import ONE, shaped, wide


def windows(sizes, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The places, and the window of each: per axis the elements read, padding included."""
    axes = len(sizes)
    kernel = each(kernel_size, axes)
    stride = kernel if stride is None else each(stride, axes)
    lines = []
    for n, k, s, p, d in zip(sizes, kernel, stride, each(padding, axes), each(dilation, axes),
                             strict=True):  # fmt: skip
        free = n + 2 * p - d * (k - 1) - 1
        count = (math.ceil if ceil_mode else math.floor)(free / s) + 1
        if (count - 1) * s >= n + p:
            count -= 1  # a window that begins beyond the end
        lines.append([[i * s - p + t * d for t in range(k)] for i in range(count)])
    shape = tuple(len(line) for line in lines)
    return shape, {
        place: [line[i] for line, i in zip(lines, place, strict=True)]
        for place in np.ndindex(*shape)
    }


def shares(sizes, output_size):
    """The places and windows of adaptive pooling."""
    places = [n if m is None else m for n, m in zip(sizes, each(output_size, len(sizes))
              if not isinstance(output_size, tuple) else output_size, strict=True)]  # fmt: skip
    axes_by_place = {}
    for place in np.ndindex(*places):
        axes_by_place[place] = [
            range(math.floor(i * n / m), math.ceil((i + 1) * n / m))
            for i, n, m in zip(place, sizes, places, strict=True)
        ]
    return tuple(places), axes_by_place


def reduced(x, shape, axes_by_place, function):
    """``function(values, indices, axes)`` applied to each window of each plane."""
    results = None
    sizes = x.shape[2:]
    for i, c in np.ndindex(*x.shape[:2]):
        for place, axes in axes_by_place.items():
            inside = [
                at for at in itertools.product(*axes)
                if all(0 <= a < n for a, n in zip(at, sizes, strict=True))
            ]  # fmt: skip
            values = [x[(i, c, *at)] for at in inside]
            result = function(values, [np.ravel_multi_index(at, sizes) for at in inside], axes)
            if results is None:
                results = np.zeros((*x.shape[:2], *shape), np.asarray(result).dtype)
            results[(i, c, *place)] = result
    return np.zeros((*x.shape[:2], *shape), x.dtype) if results is None else results


def first_largest(values, indices, axes):
    best = 0
    for k, value in enumerate(values):
        if value > values[best] or (np.isnan(value) and not np.isnan(values[best])):
            best = k
    return best


def largest(x, shape, axes_by_place, return_indices=False):
    out = reduced(x, shape, axes_by_place, lambda v, i, a: v[first_largest(v, i, a)])
    if not return_indices:
        return out
    where = reduced(x, shape, axes_by_place, lambda v, i, a: np.int64(i[first_largest(v, i, a)]))
    return out, where.astype(np.int64)


def max_pool(x, kernel_size, return_indices=False, **settings):
    shape, axes_by_place = windows(x.shape[2:], kernel_size, **settings)
    return largest(x, shape, axes_by_place, return_indices)


def adaptive_max_pool(x, output_size, return_indices=False):
    return largest(x, *shares(x.shape[2:], output_size), return_indices)


def avg_pool(x, kernel_size, count_include_pad=True, divisor_override=None, padding=0, **settings):
    x = wide(x)
    sizes = x.shape[2:]
    pads = each(padding, len(sizes))

    def mean(values, indices, axes):
        count = len(values)
        if count_include_pad:
            count = math.prod(
                sum(a < n + p for a in axis) for axis, n, p in zip(axes, sizes, pads, strict=True)
            )
        return sum(values) / (divisor_override or count)

    return reduced(x, *windows(sizes, kernel_size, padding=padding, **settings), mean)


def adaptive_avg_pool(x, output_size):
    x = wide(x)
    return reduced(
        x,
        *shares(x.shape[2:], output_size),
        lambda values, indices, axes: sum(values) / len(values),
    )


def apart(*shape):
    """Makes distinct values, so that no maximum is ambiguous to numeric derivatives."""

    def make(s: Sample):
        size = int(np.prod(shape))
        values = s.rng.permutation(size).reshape(shape) / max(size, 1) * 6 - 3
        if s.dtype.startswith(("int", "uint")):
            values = np.floor(np.abs(values) * 10)
        return (values.astype(s.array(shape=()).dtype),)

    return make


def more(make, *args):
    """Makes the arrays of ``make``, followed by further arguments."""
    return lambda s: (*make(s), *args)


#: label -> shape, window, settings
WINDOWS = {
    "plain": ((2, 2, 4, 6), 2, {}),
    "rest": ((2, 2, 5, 7), (2, 3), {}),
    "overlap": ((2, 2, 5, 5), 3, {"stride": 2, "padding": 1}),
    "ceil": ((1, 2, 6, 5), (3, 2), {"stride": 2, "ceil_mode": True}),
    "ceil-beyond": ((1, 1, 3, 5), 2, {"stride": (3, 4), "padding": 1, "ceil_mode": True}),
    "ceil-larger": ((1, 2, 2, 4), 3, {"ceil_mode": True}),
    "gaps": ((1, 2, 7, 6), 2, {"stride": 3}),
    "1d": ((2, 3, 7), 3, {"stride": 2, "padding": 1}),
    "3d": ((1, 1, 3, 4, 3), 2, {"stride": 1}),
    "empty-batch": ((0, 2, 4, 4), 2, {}),
}
DILATED = {
    "dilated": ((1, 2, 7, 6), (2, 3), {"dilation": (3, 2), "stride": 1}),
    "dilated-padded": ((1, 2, 5, 6), 3, {"dilation": 2, "padding": 2, "stride": 2}),
}
AVERAGES = {
    "inside": ((1, 2, 5, 5), 3, {"stride": 2, "padding": 1, "count_include_pad": False}),
    "inside-ceil": ((1, 2, 6, 5), 3, {"stride": 2, "padding": 1, "count_include_pad": False,
                                      "ceil_mode": True}),
    "divisor": ((1, 2, 5, 5), 3, {"stride": 2, "padding": 1, "divisor_override": -2}),
}  # fmt: skip
#: label -> shape, output size
SHARES = {
    "divides": ((2, 2, 4, 6), 2),
    "rest": ((2, 2, 5, 7), (3, 2)),
    "more": ((1, 2, 3, 4), (5, 4)),
    "kept": ((1, 2, 4, 5), (None, 3)),
    "one": ((2, 3, 4, 5), 1),
    "1d": ((2, 2, 7), 3),
    "empty-batch": ((0, 2, 4, 4), 3),
}
TWO = ("float32", "float64")
MAXIMA = ("max_pool", "max_pool_indices", "plane_pick")

CASES = [
    *(
        OpCase("max_pool", more(apart(*shape), size), max_pool, settings,
               REAL if label == "overlap" else TWO, (0,), layouts=ONE, exact=True, label=label)
        for label, (shape, size, settings) in (WINDOWS | DILATED).items()
    ),
    *(
        OpCase("max_pool", more(apart(*shape), size), max_pool,
               settings | {"return_indices": True}, REAL if label == "plain" else TWO, (0,),
               layouts=ONE, exact=True, label=f"{label}-indices", ops=MAXIMA)
        for label, (shape, size, settings) in (WINDOWS | DILATED).items()
    ),
    OpCase("max_pool", more(lambda s: (s.array(shape=(2, 2, 5, 6)),), 2), max_pool,
           {"stride": 1, "padding": 1}, TWO, no_grad="not finite", layouts=ONE, exact=True,
           specials=True, label="specials"),
    *(
        OpCase("avg_pool", more(shaped(shape), size), avg_pool, settings,
               INEXACT if label == "overlap" else TWO, (0,), layouts=ONE, tolerance=4,
               label=label)
        for label, (shape, size, settings) in (WINDOWS | AVERAGES).items()
    ),
    *(
        OpCase("adaptive_avg_pool", more(shaped(shape), size), adaptive_avg_pool,
               dtypes=INEXACT if label == "rest" else TWO, grad=(0,), layouts=ONE, tolerance=4,
               label=label)
        for label, (shape, size) in SHARES.items()
    ),
    *(
        OpCase("adaptive_max_pool", more(apart(*shape), size), adaptive_max_pool,
               {"return_indices": True} if indices else {}, REAL if label == "rest" else TWO, (0,),
               layouts=ONE, exact=True, ops=("adaptive_max_indices", "plane_pick"),
               label=f"{label}{'-indices' * indices}")
        for label, (shape, size) in SHARES.items()
        for indices in (False, True)
    ),
    *(
        OpCase(f"nn.functional.{name}", more(apart(*shape), size), reference, settings, FLOATING,
               (0,), layouts=ONE, tolerance=4, ops=(op,), label=label)
        for name, label, shape, size, reference, settings, op in (
            ("max_pool1d", "", (2, 3, 7), 3, max_pool, {"stride": 2}, "max_pool"),
            ("max_pool2d", "", (2, 3, 5, 4), 2, max_pool, {"ceil_mode": True}, "max_pool"),
            ("max_pool2d", "unbatched", (3, 5, 4), 2, unbatched(max_pool), {}, "max_pool"),
            ("avg_pool1d", "", (2, 3, 7), 3, avg_pool, {"padding": 1}, "avg_pool"),
            ("avg_pool2d", "", (2, 3, 5, 4), 2, avg_pool, {"divisor_override": 3}, "avg_pool"),
            ("adaptive_avg_pool1d", "", (2, 3, 7), 3, adaptive_avg_pool, {}, "adaptive_avg_pool"),
            ("adaptive_avg_pool2d", "", (2, 3, 5, 4), (2, None), adaptive_avg_pool, {},
             "adaptive_avg_pool"),
            ("adaptive_max_pool1d", "", (2, 3, 7), 3, adaptive_max_pool, {},
             "adaptive_max_indices"),
            ("adaptive_max_pool2d", "", (2, 3, 5, 4), 3, adaptive_max_pool, {},
             "adaptive_max_indices"),
        )
    ),
]  # fmt: skip
