"""Kernels of convolution and of its two transposes: windows as columns, and products of matrices.

An array ``[n, channels, *sizes]`` is viewed as ``[n, groups, channels/groups, *sizes]``. Its
windows are copied into a matrix of *columns*, one for each position of the kernel, which BLAS
multiplies. The columns are made for a *block* at a time, which is a few samples, or some rows of
one sample, so that the memory does not grow with the batch or the picture.

There are two layouts of columns. *Planes* keeps the order of ``x``: a contiguous run of a copy is a
row of the result, and no result needs to be transposed. *Channels last* copies all channels of a
row of the kernel in one run, and the samples of a block share one product, which is
up to three times as fast where there are more channels than pixels (measured: 32 channels of 8x8
pixels 0.9 against 1.6 ms; 3 channels of 64x64 pixels 8.8 against 2.4 ms).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

from eagerflow_kernels.table import Array, portable

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

#: bytes of the columns of one block; 1 to 8 MB were equally fast, 32 MB took 1.5 times as long, as
#: the columns leave the cache before the product reads them
_BLOCK = 4 << 20


@final
class Windows(NamedTuple):
    """The geometry of a window that slides over the axes after the channels, for each axis.

    Attributes:
        sizes: of the axes.
        kernel: sizes of the window.
        stride: from one position to the next.
        padding: number of elements added before and after.
        dilation: from one element of the window to the next.
        positions: number of positions.
    """

    sizes: Sizes
    kernel: Sizes
    stride: Sizes
    padding: Pairs
    dilation: Sizes
    positions: Sizes

    def axes(self) -> Iterator[tuple[int, int, int, tuple[int, int], int, int]]:
        """The numbers of each axis, in the order of the attributes."""
        return zip(*self, strict=True)


def slide(
    sizes: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    ceil: bool = False,
) -> Windows:
    """A window with its positions; with ``ceil`` the last one may extend beyond the padding.

    Raises:
        ValueError: there is no position.
    """
    counts = []
    for n, k, s, (before, after), d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        rest = n + before + after - d * (k - 1) - 1
        count = min(-(-rest // s) + 1, -(-(n + before) // s)) if ceil else rest // s + 1
        if count < 1 or k < 1:
            raise ValueError("the kernel is larger than the padded input")
        counts.append(count)
    return Windows(sizes, kernel, stride, padding, dilation, tuple(counts))


def _check(holds: bool) -> None:
    """Refuse shapes that do not fit; the type rule words the error for users."""
    if not holds:
        raise ValueError("the shapes do not fit")


def _channels_last(channels: int, windows: Windows) -> bool:
    """Whether channels last copies longer runs; planes copy nothing for windows of one element."""
    kernel = windows.kernel
    return math.prod(kernel) > 1 and channels * kernel[-1] >= windows.positions[-1]


def _room(xp: Any, shape: Sizes, dtype: Any, last: bool) -> Array:
    """Zeros ``[n, groups, channels, *sizes]``, if ``last`` with channels innermost in memory."""
    if not last:
        return xp.zeros(shape, dtype)
    n, groups, channels, *sizes = shape
    axes = (1, 0, len(shape) - 1, *range(2, len(shape) - 1))
    return xp.zeros((groups, n, *sizes, channels), dtype).transpose(axes)


def _inside(padding: Pairs, sizes: Sizes) -> tuple[Any, ...]:
    """The index of the elements that are not padding."""
    return (
        ...,
        *(slice(before, before + n) for (before, _), n in zip(padding, sizes, strict=True)),
    )


def _padded(xp: Any, x: Array, padding: Pairs, last: bool) -> Array:
    if not last and not any(map(any, padding)):
        return x
    sizes = x.shape[3:]
    whole = tuple(n + sum(pair) for n, pair in zip(sizes, padding, strict=True))
    room = _room(xp, (*x.shape[:3], *whole), x.dtype, last)
    room[_inside(padding, sizes)] = x
    return room


def _view(xp: Any, x: Array, windows: Windows) -> Array:
    """The view ``[n, groups, channels, *kernel, *positions]`` of a padded ``x``."""
    lead, steps = x.strides[:3], x.strides[3:]
    strides = (
        *lead,
        *(d * step for d, step in zip(windows.dilation, steps, strict=True)),
        *(s * step for s, step in zip(windows.stride, steps, strict=True)),
    )
    shape = (*x.shape[:3], *windows.kernel, *windows.positions)
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def _matrix(windows: Array, last: bool) -> Array:
    """The columns of windows: ``[n, groups, channels*kernel, positions]``.

    If ``last``, ``[groups, n*positions, kernel*channels]``.
    """
    n, groups, channels, *rest = windows.shape
    half = len(rest) // 2
    size, count = math.prod(rest[:half]), math.prod(rest[half:])
    if not last:
        return windows.reshape(n, groups, channels * size, count)
    ndim = windows.ndim
    order = (1, 0, *range(3 + half, ndim), *range(3, 3 + half), 2)
    return windows.transpose(order).reshape(groups, n * count, size * channels)


def _grouped(w: Array, groups: int, last: bool) -> Array:
    """The weights as matrices ``[groups, outputs, channels*kernel]``.

    If ``last``, ``[groups, kernel*channels, outputs]``.
    """
    rows = _split(w, groups)
    width = math.prod(w.shape[1:])
    if not last:
        return rows.reshape(groups, rows.shape[1], width)
    moved = rows.transpose(0, *range(3, rows.ndim), 2, 1)
    return moved.reshape(groups, width, rows.shape[1])


def _split(x: Array, groups: int, axis: int = 0) -> Array:
    """``x`` with an axis split into two, of which the first is the axis of groups."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    return x.reshape(*before, groups, x.shape[axis] // groups, *after)


def _blocks(n: int, positions: Sizes, bytes_each: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the batch and of the first axis of positions, of about `_BLOCK` bytes together.

    Args:
        n: the size of the batch.
        positions: of the kernel.
        bytes_each: of the columns of one position.
    """
    row = max(1, bytes_each * math.prod(positions[1:]))
    rows = max(1, min(positions[0], _BLOCK // row))
    step = max(1, _BLOCK // (row * positions[0])) if rows == positions[0] else 1
    for i in range(0, n, step):
        for k in range(0, positions[0], rows):
            yield slice(i, min(i + step, n)), slice(k, min(k + rows, positions[0]))


def _columns(
    xp: Any, x: Array, windows: Windows, last: bool
) -> Iterator[tuple[slice, slice, Array]]:
    """The columns of ``x`` block by block, with the samples and rows of each block."""
    each = x.dtype.itemsize * x.shape[1] * x.shape[2] * math.prod(windows.kernel)
    view: Array = None
    for samples, rows in _blocks(x.shape[0], windows.positions, each):
        if rows.start == 0:
            view = _view(xp, _padded(xp, x[samples], windows.padding, last), windows)
        part = (*(slice(None),) * (3 + len(windows.kernel)), rows)
        yield samples, rows, _matrix(view[part], last)


@portable("convolution")
def convolution(xp: Any, x: Array, w: Array, *, groups: int, **sliding: Any) -> Array:
    """The product of weights and columns, block by block."""
    n, outputs = x.shape[0], w.shape[0]
    _check(x.ndim == w.ndim and x.shape[1] == w.shape[1] * groups and outputs % groups == 0)
    windows = slide(x.shape[2:], w.shape[2:], **sliding)
    positions, last = windows.positions, _channels_last(w.shape[1], windows)
    weights = _grouped(w, groups, last)
    out = xp.empty((n, groups, outputs // groups, *positions), x.dtype)
    whole = slice(0, positions[0])
    for samples, rows, columns in _columns(xp, _split(x, groups, 1), windows, last):
        part = out[samples, :, :, rows]
        if last:
            moved = part.transpose(1, 0, *range(3, part.ndim), 2)
            moved[...] = xp.matmul(columns, weights).reshape(moved.shape)
        elif rows == whole:
            xp.matmul(weights, columns, out=part.reshape(*part.shape[:3], math.prod(positions)))
        else:
            part[...] = xp.matmul(weights, columns).reshape(part.shape)
    return out.reshape(n, outputs, *positions)


@portable("convolution_weights")
def convolution_weights(
    xp: Any, x: Array, y: Array, *, size: Sizes, groups: int, **sliding: Any
) -> Array:
    """The product of columns and cotangents, summed over the blocks."""
    outputs, channels = y.shape[1], x.shape[1] // groups
    _check(x.ndim == y.ndim and len(x) == len(y))
    _check(x.shape[1] % groups == 0 and outputs % groups == 0)
    windows = slide(x.shape[2:], size, **sliding)
    _check(windows.positions == y.shape[2:])
    last = _channels_last(channels, windows)
    width = channels * math.prod(size)
    each = outputs // groups
    out = xp.zeros((groups, width, each) if last else (groups, each, width), x.dtype)
    split = _split(y, groups, 1)
    for samples, rows, columns in _columns(xp, _split(x, groups, 1), windows, last):
        part = split[samples, :, :, rows]
        if last:
            moved = part.transpose(1, 0, *range(3, part.ndim), 2)
            flat = moved.reshape(groups, columns.shape[1], each)
            out += xp.matmul(columns.transpose(0, 2, 1), flat)
        else:
            flat = part.reshape(*part.shape[:3], columns.shape[-1])
            out += xp.sum(xp.matmul(flat, columns.transpose(0, 1, 3, 2)), axis=0)
    if last:
        moved = out.reshape(groups, *size, channels, each)
        out = moved.transpose(0, moved.ndim - 1, moved.ndim - 2, *range(1, 1 + len(size)))
    return out.reshape(outputs, channels, *size)


# --- the transpose with respect to the input --------------------------------------------------


@portable("convolution_transpose")
def convolution_transpose(
    xp: Any, y: Array, w: Array, *, size: Sizes, groups: int, **sliding: Any
) -> Array:
    """The transpose by the input: without strides a convolution, kernel reversed; else by taps."""
    kernel = w.shape[2:]
    _check(y.ndim == w.ndim and y.shape[1] == w.shape[0] and w.shape[0] % groups == 0)
    windows = slide(size, kernel, **sliding)
    _check(windows.positions == y.shape[2:] and min(size) > 0)
    around = tuple(
        (d * (k - 1) - before, d * (k - 1) - after)
        for _, k, _, (before, after), d, _ in windows.axes()
    )
    # few channels of the result and many of y: the taps are fewer products
    many = w.shape[1] * 2 >= w.shape[0] // groups
    if many and set(windows.stride) == {1} and min(map(min, around)) >= 0:
        back = (slice(None, None, -1),) * len(kernel)
        mirrored = _split(w, groups).swapaxes(1, 2)[(..., *back)]
        mirrored = mirrored.reshape(w.shape[1] * groups, w.shape[0] // groups, *kernel)
        return convolution(xp, y, mirrored, groups=groups, **{**sliding, "padding": around})
    return _by_taps(xp, _split(y, groups, 1), w, windows, groups)


def _by_taps(xp: Any, y: Array, w: Array, windows: Windows, groups: int) -> Array:
    """The transpose tap by tap: adds the product with each tap to the elements under the tap."""
    channels, size, positions = w.shape[1], windows.sizes, windows.positions
    last = _channels_last(channels, windows)
    taps = _split(w, groups)
    taps = xp.ascontiguousarray(taps.transpose(*range(3, taps.ndim), 0, 1, 2))
    whole = tuple(  # beyond the last window nothing is added
        max(before + n, (m - 1) * s + d * (k - 1) + 1)
        for n, k, s, (before, _), d, m in windows.axes()
    )
    out = xp.empty((len(y), groups, channels, *size), y.dtype)
    each = y.dtype.itemsize * groups * max(channels, y.shape[2]) * math.prod(positions)
    step = max(1, _BLOCK // max(1, each))
    for i in range(0, len(y), step):
        some = y[i : i + step]
        room = _room(xp, (len(some), groups, channels, *whole), y.dtype, last)
        flat = _flat(some, last)
        for tap in itertools.product(*map(range, windows.kernel)):
            start = [t * d for t, d in zip(tap, windows.dilation, strict=True)]
            where = tuple(
                slice(a, a + (m - 1) * s + 1, s)
                for a, m, s in zip(start, positions, windows.stride, strict=True)
            )
            room[(..., *where)] += _through(xp, flat, taps[tap], len(some), positions, last)
        out[i : i + step] = room[_inside(windows.padding, size)]
    return out.reshape(len(y), groups * channels, *size)


def _flat(y: Array, last: bool) -> Array:
    """``[n, groups, outputs, positions]`` or, if ``last``, ``[groups, n*positions, outputs]``."""
    n, groups, outputs, *positions = y.shape
    if not last:
        return y.reshape(n, groups, outputs, math.prod(positions))
    return y.transpose(1, 0, *range(3, y.ndim), 2).reshape(
        groups, n * math.prod(positions), outputs
    )


def _through(xp: Any, flat: Array, tap: Array, n: int, positions: Sizes, last: bool) -> Array:
    """The contribution of one tap ``[groups, outputs, channels]``."""
    groups, _, channels = tap.shape
    if not last:
        contribution = xp.matmul(tap.transpose(0, 2, 1), flat)
        return contribution.reshape(n, groups, channels, *positions)
    contribution = xp.matmul(flat, tap).reshape(groups, n, *positions, channels)
    return contribution.transpose(1, 0, contribution.ndim - 1, *range(2, contribution.ndim - 1))
