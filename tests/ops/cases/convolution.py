"""Cases of convolution and its transposes, with odd settings, against sums in loops."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import INEXACT, INTEGER, OpCase
from tests.ops.cases.linalg import ONE, shaped, wide


def each(value, axes):
    """The value for each axis, as a tuple."""
    return (value,) * axes if isinstance(value, int) else tuple(value)


def terms(x_sizes, kernel, stride=1, padding=0, dilation=1):
    """Per axis the places of the result, each as the list of the elements under its taps."""
    axes = len(x_sizes)
    stride, dilation = each(stride, axes), each(dilation, axes)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pairs = [(n // 2, n - n // 2) for n in total]
    elif padding == "valid":
        pairs = [(0, 0)] * axes
    else:
        pairs = [p if isinstance(p, tuple) else (p, p) for p in each(padding, axes)]
    places = []
    for n, k, s, d, (before, after) in zip(x_sizes, kernel, stride, dilation, pairs, strict=True):
        reach = range(0, n + before + after - d * (k - 1), s)
        places.append([[start + t * d - before for t in range(k)] for start in reach])
    return places


def products(x_shape, w_shape, **settings):
    """The triples of indices (of x, of w, of the result) of which convolution sums products."""
    groups = settings.pop("groups", 1)
    n, _, *sizes = x_shape
    outputs, inner, *kernel = w_shape
    looks = terms(sizes, kernel, **settings)
    spots = list(itertools.product(*(range(len(p)) for p in looks)))
    taps = list(itertools.product(*map(range, kernel)))
    for i, o, c in itertools.product(range(n), range(outputs), range(inner)):
        channel = o // (outputs // groups) * inner + c
        for spot, tap in itertools.product(spots, taps):
            at = tuple(p[s][t] for p, s, t in zip(looks, spot, tap, strict=True))
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                yield (i, channel, *at), (o, c, *tap), (i, o, *spot)


def convolution(x, w, **settings):
    """Convolution by its definition, a sum of products."""
    x, w = floats(x), floats(w)
    geometry = {k: v for k, v in settings.items() if k != "groups"}
    places = [len(p) for p in terms(x.shape[2:], w.shape[2:], **geometry)]
    out = np.zeros((x.shape[0], w.shape[0], *places), x.dtype)
    for a, b, c in products(x.shape, w.shape, **settings):
        out[c] += x[a] * w[b]
    return out


def transpose(y, w, output_padding=0, **settings):
    """The transpose: each product's share of x is added back to the place that it was read from."""
    y, w = floats(y), floats(w)
    axes = y.ndim - 2
    stride, dilation = (each(settings.get(k, 1), axes) for k in ("stride", "dilation"))
    padding = settings.get("padding", 0)
    pairs = [p if isinstance(p, tuple) else (p, p) for p in each(padding, axes)]
    size = [
        (m - 1) * s + d * (k - 1) + 1 - sum(p) + more
        for m, s, d, k, p, more in zip(y.shape[2:], stride, dilation, w.shape[2:], pairs,
                                       each(output_padding, axes), strict=True)
    ]  # fmt: skip
    out = np.zeros((y.shape[0], w.shape[1] * settings.get("groups", 1), *size), y.dtype)
    for a, b, c in products(out.shape, w.shape, **settings):
        if all(i < n for i, n in zip(c, y.shape, strict=True)):  # the padding may hold more
            out[a] += y[c] * w[b]
    return out


def weights(x, y, kernel_size, **settings):
    """The gradient of w: each product's share is added to the weight that it was read from."""
    x, y = floats(x), floats(y)
    inner = x.shape[1] // settings.get("groups", 1)
    out = np.zeros((y.shape[1], inner, *each(kernel_size, x.ndim - 2)), x.dtype)
    for a, b, c in products(x.shape, out.shape, **settings):
        out[b] += x[a] * y[c]
    return out


def floats(x):
    return x.astype(np.float32) if x.dtype.kind in "iu" else wide(x)


def _biased(function):
    """A reference with the signature of PyTorch's functional interface, bias included."""

    def reference(x, w, bias=None, **settings):
        out = function(x, w, **settings)
        return out if bias is None else out + wide(bias).reshape(-1, *(1,) * (x.ndim - 2))

    return reference


def unbatched(function):
    return lambda x, *rest, **settings: function(x[None], *rest, **settings)[0]


#: label -> shapes of x and w, settings
SETTINGS = {
    "plain": ((2, 3, 4, 5), (2, 3, 2, 3), {}),
    "stride": ((2, 2, 6, 5), (3, 2, 2, 2), {"stride": (2, 3)}),
    "padded": ((1, 2, 3, 4), (2, 2, 3, 3), {"padding": (1, 2)}),
    "pairs": ((2, 1, 3, 3), (2, 1, 2, 2), {"padding": ((1, 0), (0, 2))}),
    "same-even": ((2, 2, 4, 3), (2, 2, 2, 4), {"padding": "same"}),
    "same-dilated": ((1, 2, 5, 4), (2, 2, 2, 3), {"padding": "same", "dilation": (3, 2)}),
    "valid": ((1, 1, 4, 4), (1, 1, 3, 2), {"padding": "valid"}),
    "all": ((2, 4, 7, 6), (6, 2, 2, 3),
            {"stride": (2, 1), "padding": (2, 1), "dilation": (2, 2), "groups": 2}),
    "depthwise": ((2, 3, 5, 4), (6, 1, 3, 3), {"padding": 1, "groups": 3}),
    "1x1": ((2, 4, 3, 3), (3, 4, 1, 1), {}),
    "1x1-stride": ((2, 4, 3, 4), (3, 4, 1, 1), {"stride": 2, "padding": 1}),
    "far-padded": ((2, 2, 3, 3), (2, 2, 2, 2), {"padding": 3}),
    "narrow": ((3, 6, 2, 2), (4, 6, 2, 2), {"padding": 1}),
    "narrow-groups": ((2, 8, 3, 2), (4, 4, 3, 2), {"padding": 1, "groups": 2}),
    "narrow-stride": ((2, 6, 5, 3), (2, 6, 3, 2), {"stride": 2, "padding": 1}),
    "1d": ((2, 3, 7), (4, 3, 3), {"stride": 2, "padding": 1}),
    "3d": ((1, 2, 3, 3, 4), (2, 2, 2, 2, 3), {"padding": 1, "stride": (1, 2, 1)}),
    "empty-batch": ((0, 2, 4, 4), (3, 2, 3, 3), {}),
    "one-place": ((1, 2, 3, 3), (2, 2, 3, 3), {}),
}  # fmt: skip

#: cases of the transpose, by label: shapes of y and w, settings
TRANSPOSED = {
    "plain": ((2, 3, 3, 2), (3, 2, 2, 3), {}),
    "stride": ((2, 3, 3, 2), (3, 2, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1}),
    "dilated": ((1, 2, 3, 3), (2, 2, 2, 2), {"stride": (1, 2), "dilation": 3, "padding": 1}),
    "groups": ((2, 4, 2, 3), (4, 3, 2, 2), {"groups": 2, "stride": 2}),
    "more-than-stride": ((1, 2, 2, 2), (2, 1, 2, 2),
                         {"dilation": 3, "padding": (1, 0), "output_padding": (2, 1)}),
    "one-channel": ((2, 4, 3, 3), (4, 1, 3, 3), {"padding": 1}),
    "1d": ((2, 3, 4), (3, 2, 4), {"stride": 2, "padding": 1}),
    "empty-batch": ((0, 2, 3, 3), (2, 2, 2, 2), {"stride": 2}),
}  # fmt: skip

#: cases of the gradient of the weights, by label: shapes of x and y, settings
WEIGHTS = {
    "plain": ((2, 3, 4, 5), (2, 2, 3, 3), {"kernel_size": (2, 3)}),
    "all": ((2, 4, 7, 6), (2, 6, 5, 4), {"kernel_size": (2, 3), "stride": (2, 1),
                                         "padding": (2, 1), "dilation": 2, "groups": 2}),
    "same": ((2, 2, 4, 3), (2, 3, 4, 3), {"kernel_size": 2, "padding": "same"}),
    "narrow": ((3, 6, 2, 2), (3, 4, 2, 2), {"kernel_size": 3, "padding": 1}),
    "1d": ((2, 3, 7), (2, 4, 4), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "empty-batch": ((0, 2, 4, 4), (0, 3, 2, 2), {"kernel_size": 3}),
}  # fmt: skip

KIND = {"grad": (0, 1), "layouts": ONE, "tolerance": 4}
F = {"dtypes": ("float32", "float64", "bfloat16"), "grad": (0, 1, 2), "layouts": ONE,
     "tolerance": 4}  # fmt: skip

CASES = [
    *(
        OpCase("convolution", shaped(x, w), convolution, settings,
               INEXACT if label in ("plain", "all") else ("float32", "float64"), label=label,
               **KIND)
        for label, (x, w, settings) in SETTINGS.items()
    ),
    OpCase("convolution", shaped((1, 2, 3, 3), (2, 2, 2, 2)), convolution, dtypes=INTEGER,
           no_grad="integers", layouts=ONE, label="integers"),
    *(
        OpCase("convolution_transpose", shaped(y, w), transpose, settings,
               INEXACT if label in ("plain", "groups") else ("float32", "float64"), label=label,
               **KIND)
        for label, (y, w, settings) in TRANSPOSED.items()
    ),
    *(
        OpCase("convolution_weights", shaped(x, y), weights, settings,
               INEXACT if label in ("plain", "all") else ("float32", "float64"), label=label,
               **KIND)
        for label, (x, y, settings) in WEIGHTS.items()
    ),
    OpCase("nn.functional.conv1d", shaped((2, 3, 5), (4, 3, 2), (4,)), _biased(convolution),
           {"stride": 2, "padding": 1}, ops=("convolution", "add", "reshape"), **F),
    OpCase("nn.functional.conv2d", shaped((2, 3, 4, 3), (4, 3, 2, 2), (4,)),
           _biased(convolution), {"padding": "same"}, ops=("convolution", "add", "reshape"), **F),
    OpCase("nn.functional.conv2d", shaped((2, 4, 3), (3, 2, 2, 2), (3,)),
           unbatched(_biased(convolution)), ops=("convolution", "squeeze"), label="unbatched", **F),
    OpCase("nn.functional.conv_transpose1d", shaped((2, 3, 3), (3, 2, 3), (2,)),
           _biased(transpose), {"stride": 2, "output_padding": 1},
           ops=("convolution_transpose", "add"), **F),
    OpCase("nn.functional.conv_transpose2d", shaped((2, 4, 2, 3), (4, 2, 2, 3), (4,)),
           _biased(transpose), {"groups": 2, "dilation": 2, "stride": (2, 1)},
           ops=("convolution_transpose", "add"), **F),
]  # fmt: skip
