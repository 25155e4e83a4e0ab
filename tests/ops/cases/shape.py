"""Cases of the ops that move elements: each reference computes one element of the result at a
time, from the place in the operand that it comes from.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import ALL, BYTES, FLOAT8, OpCase, Sample

DTYPES = ALL + FLOAT8
MOVED = DTYPES + BYTES
MATRICES = ("matrix", "strided")
AXED = ("empty", "vector", "matrix", "strided")


def _one(s: Sample):
    return (s.array(),)


def _with(*rest):
    """Makes an array of the layout, followed by further arguments."""
    return lambda s: (s.array(), *rest)


def _shaped(*shapes, rest=()):
    """Makes arrays of these shapes, followed by further arguments."""
    return lambda s: (*(s.array(shape=shape) for shape in shapes), *rest)


def _listed(*shapes):
    """Makes one argument, a list of arrays of these shapes."""
    return lambda s: ([s.array(shape=shape) for shape in shapes],)


_COUNT = "how many results there are is the size"


def _case(name, make, reference, **options):
    """A row: elements are moved, so every dtype is taken and results are equal bit for bit."""
    usual = {"dtypes": MOVED, "exact": True, "grad": (0,)}
    return OpCase(name, make, reference, **usual | options)


def _from(shape, source, x):
    """The array with element ``x[source(place)]`` at each place."""
    out = np.empty(shape, dtype=x.dtype)
    for place in np.ndindex(*shape):
        out[place] = x[source(place)]
    return out


def _in_order(shape, x):
    """The elements of ``x`` in order, last axis fastest, in another shape."""
    values = iter([x[place] for place in np.ndindex(*x.shape)])
    out = np.empty(shape, dtype=x.dtype)
    for place in np.ndindex(*shape):
        out[place] = next(values)
    return out


# --- shapes and axes ------------------------------------------------------------------------


def _front(x, shape):
    """`broadcast_to` a shape that has more axes and sizes where ``x`` has 1."""
    lead = len(shape) - x.ndim

    def source(place):
        return tuple(0 if n == 1 else i for i, n in zip(place[lead:], x.shape, strict=True))

    return _from(shape, source, x)


def _permute(x, axes):
    def source(place):
        back = [0] * x.ndim
        for i, axis in zip(place, axes, strict=True):
            back[axis] = i
        return tuple(back)

    return _from(tuple(x.shape[a] for a in axes), source, x)


def _reversed_axes(s: Sample):
    x = s.array()
    return x, tuple(reversed(range(x.ndim)))


def _broadcast_pair(x, y):
    shape = (3, 4)
    return [_front(x, shape), _front(y, shape)]


_SHAPES = [
    _case("reshape", _with((-1,)), lambda x, s: _in_order((x.size,), x), specials=True),
    _case("reshape", _shaped((3, 4), rest=((2, -1, 3),)), lambda x, s: _in_order((2, 2, 3), x),
           layouts=MATRICES, label="more_axes"),
    _case("reshape", _shaped((3, 4), rest=((4, 3),)), lambda x, s: _in_order(s, x),
           kwargs={"copy": True}, plain=True, layouts=MATRICES, ops=("reshape", "copy"),
           label="copy", fixed="the shape is written out"),
    _case("ravel", _one, lambda x: _in_order((x.size,), x), ops=("reshape",)),
    _case("broadcast_to", lambda s: (s.array(), (2, *s.shape)), _front),
    _case("broadcast_to", _shaped((3, 1), rest=((2, 3, 4),)), _front, layouts=MATRICES,
           label="inner"),
    _case("broadcast_to", _shaped((1, 3), rest=((0, 3),)), _front, layouts=("matrix",),
           label="to_empty"),
    _case("broadcast_arrays", _shaped((3, 1), (4,)), _broadcast_pair, grad=(0, 1),
           layouts=MATRICES, ops=("broadcast_to",)),
    _case("permute_dims", _reversed_axes, _permute),
    _case("permute_dims", _shaped((2, 3, 4), rest=((2, 0, 1),)), _permute, layouts=MATRICES,
           label="cycle"),
    _case("matrix_transpose", _shaped((2, 3, 4)), lambda x: _permute(x, (0, 2, 1)),
           layouts=MATRICES, ops=("permute_dims",)),
    _case("swapaxes", _shaped((2, 3, 4), rest=(0, -1)), lambda x, a, b: _permute(x, (2, 1, 0)),
           layouts=MATRICES, ops=("permute_dims",)),
    _case("moveaxis", _shaped((2, 3, 4), rest=(0, -1)), lambda x, a, b: _permute(x, (1, 2, 0)),
           layouts=MATRICES, ops=("permute_dims",)),
    _case("moveaxis", _shaped((2, 3, 4), rest=((0, 1), (2, 0))),
           lambda x, a, b: _permute(x, (1, 2, 0)), layouts=MATRICES, ops=("permute_dims",),
           label="several"),
    _case("squeeze", lambda s: (s.array(shape=(1, *s.shape, 1)), (0, -1)),
           lambda x, a: _from(x.shape[1:-1], lambda p: (0, *p, 0), x)),
    _case("squeeze", _shaped((1, 3, 1)), lambda x: _from((3,), lambda p: (0, *p, 0), x),
           layouts=MATRICES, label="all",
           specialises="which axes are dropped depends on the sizes"),
    _case("expand_dims", lambda s: (s.array(),), lambda x, axis: _from(
        (*x.shape, 1), lambda p: p[:-1], x), kwargs={"axis": -1}),
    _case("expand_dims", _shaped((2, 3), rest=((0, 2),)), lambda x, a: _from(
        (1, 2, 1, 3), lambda p: (p[1], p[3]), x), layouts=MATRICES, label="several"),
    _case("atleast_1d", _shaped(()), lambda x: _in_order((1,), x), layouts=("0d",),
           ops=("reshape",), fixed="a tensor without axes"),
    _case("atleast_2d", _shaped((3,)), lambda x: _in_order((1, 3), x), layouts=("vector",),
           ops=("expand_dims",)),
    _case("atleast_3d", _shaped((3, 2)), lambda x: _in_order((3, 2, 1), x), layouts=MATRICES,
           ops=("expand_dims",)),
    _case("atleast_3d", _shaped((3,), ()), lambda x, y: [
        _in_order((1, 3, 1), x), _in_order((1, 1, 1), y)], layouts=("vector",), grad=(0, 1),
           ops=("expand_dims",), label="several"),
]  # fmt: skip

# --- joining and cutting --------------------------------------------------------------------


def _concat(arrays, axis=0):
    places = [(a, i) for a in arrays for i in range(a.shape[axis])]
    shape = list(arrays[0].shape)
    shape[axis] = len(places)
    out = np.empty(shape, dtype=np.result_type(*arrays))
    for place in np.ndindex(*shape):
        a, i = places[place[axis]]
        inner = list(place)
        inner[axis] = i
        out[place] = a[tuple(inner)]
    return out


def _stack(arrays, axis=0):
    shape = list(arrays[0].shape)
    axis %= len(shape) + 1
    shape.insert(axis, len(arrays))
    out = np.empty(shape, dtype=arrays[0].dtype)
    for place in np.ndindex(*shape):
        out[place] = arrays[place[axis]][place[:axis] + place[axis + 1 :]]
    return out


def _cut(x, axis, *bounds):
    """Parts of ``x`` between consecutive bounds."""
    parts = []
    for start, stop in itertools.pairwise(bounds):
        shape = list(x.shape)
        shape[axis] = stop - start

        def source(place, start=start):
            return tuple(i + start if k == axis else i for k, i in enumerate(place))

        parts.append(_from(tuple(shape), source, x))
    return parts


_JOINS = [
    _case("concat", _listed((2, 3), (1, 3), (0, 3)), _concat, layouts=MATRICES),
    _case("concat", _listed((2, 1, 2), (2, 3, 2)), lambda xs, axis: _concat(xs, 1),
           kwargs={"axis": -2}, layouts=MATRICES, label="inner"),
    _case("concat", lambda s: ([s.array(), s.array(shape=(2, 3))],),
           lambda xs, axis: _concat([_in_order((x.size,), x) for x in xs]),
           kwargs={"axis": None}, label="flat"),
    _case("concat", lambda s: ([s.array(), s.array(dtype="bool")],),
           lambda xs: _concat([xs[0], xs[1].astype(xs[0].dtype)]), layouts=AXED,
           ops=("concat", "cast"), dtypes=DTYPES, label="promotes"),
    _case("stack", lambda s: ([s.array(), s.array(), s.array()],), _stack),
    _case("stack", lambda s: ([s.array(), s.array()],), _stack, kwargs={"axis": -1},
           label="last"),
    _case("unstack", _one, lambda x: [_from(x.shape[1:], lambda p, i=i: (i, *p), x)
                                       for i in range(x.shape[0])], layouts=AXED[1:],
           specialises=_COUNT),
    _case("unstack", _one, lambda x, axis: [_from(x.shape[:1], lambda p, i=i: (*p, i), x)
                                             for i in range(x.shape[1])],
           kwargs={"axis": -1}, layouts=MATRICES, label="last", specialises=_COUNT),
    _case("split", _shaped((4, 2), rest=(2,)), lambda x, n: _cut(x, 0, 0, 2, 4),
           layouts=MATRICES),
    _case("split", _shaped((2, 5), rest=([1, -1],)), lambda x, n, axis: _cut(x, 1, 0, 1, 4, 5),
           kwargs={"axis": 1}, layouts=MATRICES, label="indices"),
    _case("array_split", _shaped((5, 2), rest=(3,)), lambda x, n: _cut(x, 0, 0, 2, 4, 5),
           layouts=MATRICES, ops=("split",)),
    _case("hstack", _listed((2, 3), (2, 1)), lambda xs: _concat(xs, 1), layouts=MATRICES,
           ops=("concat",)),
    _case("hstack", _listed((), (3,)), lambda xs: _concat([xs[0].reshape(1), xs[1]]),
           layouts=("vector",), ops=("concat",), label="vectors"),
    _case("vstack", _listed((2, 3), (3,)), lambda xs: _concat([xs[0], xs[1].reshape(1, 3)]),
           layouts=MATRICES, ops=("concat",)),
]  # fmt: skip

# --- reversing, shifting, repeating ---------------------------------------------------------


def _flip(x, axes):
    def source(place):
        return tuple(n - 1 - i if k in axes else i
                     for k, (i, n) in enumerate(zip(place, x.shape, strict=True)))  # fmt: skip

    return _from(x.shape, source, x)


def _roll(x, *moves):
    """The elements shifted by pairs of (shift, axis)."""

    def source(place):
        back = list(place)
        for shift, axis in moves:
            back[axis] = (back[axis] - shift) % x.shape[axis]
        return tuple(back)

    return _from(x.shape, source, x)


def _repeat(x, counts, axis):
    counts = [counts] * x.shape[axis] if isinstance(counts, int) else [int(c) for c in counts]
    origin = [i for i, count in enumerate(counts) for _ in range(count)]
    shape = list(x.shape)
    shape[axis] = len(origin)

    def source(place):
        return tuple(origin[i] if k == axis else i for k, i in enumerate(place))

    return _from(tuple(shape), source, x)


def _tile(x, counts):
    x = _in_order((1,) * (len(counts) - x.ndim) + x.shape, x)
    counts = (1,) * (x.ndim - len(counts)) + tuple(counts)
    shape = tuple(c * n for c, n in zip(counts, x.shape, strict=True))
    return _from(shape, lambda p: tuple(i % n for i, n in zip(p, x.shape, strict=True)), x)


_COUNTS = np.array([2, 0, 3])

_MOVES = [
    _case("flip", _one, lambda x: _flip(x, range(x.ndim)), specials=True),
    _case("flip", _shaped((2, 3, 4)), lambda x, axis: _flip(x, (1, 2)), kwargs={"axis": (1, -1)},
           layouts=MATRICES, label="axes"),
    _case("roll", _with(2), lambda x, n: _in_order(
        x.shape, _roll(_in_order((x.size,), x), (n, 0))), ops=("roll", "reshape")),
    _case("roll", _shaped((3, 4), rest=((1, -6),)), lambda x, n, axis: _roll(x, (1, 0), (-6, 1)),
           kwargs={"axis": (0, 1)}, layouts=MATRICES, label="axes"),
    _case("roll", lambda s: (s.array(shape=(3, 4)), np.array([2, -1])),
           lambda x, n, axis: _roll(x, (2, 1), (-1, 0)), kwargs={"axis": (1, 0)}, layouts=MATRICES,
           ops=("take", "unstack"), label="tensor"),
    _case("roll", lambda s: (s.array(shape=(3, 4)), np.array(-5)),
           lambda x, n, axis: _roll(x, (-5, 0), (-5, 1)), kwargs={"axis": (0, 1)}, layouts=MATRICES,
           ops=("take",), label="one_tensor"),
    _case("rot90", _one, lambda x: _from(
        (x.shape[1], x.shape[0]), lambda p: (p[1], x.shape[1] - 1 - p[0]), x),
           layouts=MATRICES, ops=("flip", "permute_dims")),
    _case("rot90", _with(2), lambda x, k: _flip(x, (0, 1)), layouts=MATRICES, ops=("flip",),
           label="twice"),
    _case("rot90", _shaped((2, 3, 4), rest=(-1, (1, 2))), lambda x, k, axes: _from(
        (2, 4, 3), lambda p: (p[0], 2 - p[2], p[1]), x), layouts=MATRICES,
           ops=("flip", "permute_dims"), label="back"),
    _case("repeat", _with(2), lambda x, n: _repeat(_in_order((x.size,), x), n, 0)),
    _case("repeat", _with(3), lambda x, n, axis: _repeat(x, n, 1), kwargs={"axis": -1},
           layouts=MATRICES, label="axis"),
    _case("repeat", lambda s: (s.array(shape=(2, 3)), _COUNTS), lambda x, n, axis: _repeat(x, n, 1),
           kwargs={"axis": 1}, layouts=MATRICES, ops=("repeat_each",), label="each"),
    _case("repeat", lambda s: (s.array(shape=(2, 3)), np.array([2])),
           lambda x, n: _repeat(_in_order((6,), x), 2, 0), layouts=MATRICES, label="one_number"),
    _case("tile", _with((2, 1, 3)), _tile, ops=("broadcast_to", "reshape")),
    _case("tile", _with((2,)), _tile, ops=("broadcast_to", "reshape"), label="last"),
    _case("tile", _shaped((2, 3), rest=((0, 2),)), _tile, layouts=("matrix",),
           ops=("broadcast_to", "reshape"), label="none"),
]  # fmt: skip

# --- padding --------------------------------------------------------------------------------


def _pad_map(size, mode):
    """The function from an index outside of an axis to the index that is repeated there."""

    def source(i):
        if mode == "edge" or size == 1:
            return min(max(i, 0), size - 1)
        if mode == "wrap":
            return i % size
        period = 2 * size - (2 if mode == "reflect" else 0)
        i %= period
        return i if i < size else period - i - (0 if mode == "reflect" else 1)

    return source


def _padded(*row, **options):
    """A row for number dtypes only: bytes have no zero."""
    return _case(*row, dtypes=DTYPES, **options)


def _pad(x, widths, mode="constant", constant_values=0):
    if isinstance(widths, int):
        widths = (widths, widths)
    if isinstance(widths[0], int):
        widths = (widths,) * x.ndim
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    out = np.empty(shape, dtype=x.dtype)
    for place in np.ndindex(*shape):
        inner = tuple(i - a for i, (a, _) in zip(place, widths, strict=True))
        if mode != "constant":
            out[place] = x[tuple(_pad_map(n, mode)(i) for i, n in zip(inner, x.shape, strict=True))]
        elif all(0 <= i < n for i, n in zip(inner, x.shape, strict=True)):
            out[place] = x[inner]
        else:
            out[place] = constant_values
    return out


_PADS = [
    _padded("pad", _with((1, 2)), _pad, layouts=AXED, specials=True),
    _padded("pad", _shaped((2, 3), rest=(((1, 0), (0, 2)),)), _pad, kwargs={"constant_values": 1},
           layouts=MATRICES, label="value"),
    *(_padded("pad", _shaped((3, 4), rest=(((1, 2), (2, 0)), mode)), _pad, layouts=MATRICES,
             ops=("pad_with_own",), label=mode)
      for mode in ("edge", "reflect", "symmetric", "wrap")),
    *(_padded("pad", _shaped((2, 3), rest=(((5, 7), (8, 4)), mode)), _pad, layouts=("matrix",),
             ops=("pad_with_own",), label=f"{mode}_far")
      for mode in ("edge", "reflect", "symmetric", "wrap")),
    _padded("pad", _shaped((1,), rest=(2, "reflect")), _pad, layouts=("vector",),
           ops=("pad_with_own",), label="reflect_one"),
]  # fmt: skip


CASES = _SHAPES + _JOINS + _MOVES + _PADS
