"""Cases of the ops that read and write by index. References go element by element.

`chosen` computes which element each place of a selection comes from, by the rules in NumPy's
manual and without NumPy's indexing.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import ALL, BYTES, FLOAT8, NUMERIC, OpCase, Sample

DTYPES = ALL + FLOAT8
MOVED = DTYPES + BYTES
MATRICES = ("matrix", "strided")
AXED = ("empty", "vector", "matrix", "strided")
SUMMED = NUMERIC  # of float8, sums are too coarse to compare


def _is_array(item):
    return isinstance(item, (np.ndarray, list, bool))


def _expanded(shape, key):
    """The key, one item per axis (masks as index arrays, no ellipsis), and the ellipsis's place."""
    items = []
    for item in key if isinstance(key, tuple) else (key,):
        if _is_array(item) and np.asarray(item).dtype == bool:
            mask = np.asarray(item)
            places = [p for p in itertools.product(*map(range, mask.shape)) if mask[p]]
            items += [np.array([p[i] for p in places], int) for i in range(mask.ndim)]
        else:
            items.append(np.asarray(item, int) if _is_array(item) else item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    rest = [slice(None)] * (len(shape) - used)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    return items[:at] + rest + items[at + 1 :], at if rest or at < len(items) else None


def chosen(shape, key):
    """An array of places: the origin of each selected element in an array of ``shape``."""
    items, _ = _expanded(shape, key)
    advanced = any(isinstance(item, np.ndarray) and item.ndim for item in items)
    scalars = (int, np.ndarray) if advanced else ()
    group = [i for i, item in enumerate(items) if scalars and isinstance(item, scalars)]
    together = bool(group) and group[-1] - group[0] + 1 == len(group)
    joined = np.broadcast_shapes(*[np.shape(items[i]) for i in group]) if group else ()
    parts = []  # size of each axis of the result, and the item that it comes from
    for i, item in enumerate(items):
        if i in group:
            if together and i == group[0]:
                parts += [("joined", d, n) for d, n in enumerate(joined)]
        elif item is None:
            parts.append(("new", None, 1))
        elif isinstance(item, slice):
            axis = sum(it is not None for it in items[:i])
            parts.append(("slice", i, len(range(shape[axis])[item])))
    if group and not together:
        parts = [("joined", d, n) for d, n in enumerate(joined)] + parts
    out = np.empty([n for _, _, n in parts], dtype=object)
    for place in itertools.product(*(range(n) for _, _, n in parts)):
        out[place] = _source(shape, items, parts, place, joined)
    return out


def _source(shape, items, parts, place, joined):
    where = {kind_at[:2]: p for kind_at, p in zip(parts, place, strict=True)}
    source, axis = [], 0
    for i, item in enumerate(items):
        if item is None:
            continue
        size = shape[axis]
        if isinstance(item, slice):
            source.append(range(size)[item][where["slice", i]])
        else:
            array = np.asarray(item)
            at = [where["joined", d] for d in range(len(joined))] if array.ndim else []
            at = at[len(at) - array.ndim :]
            index = int(
                array[tuple(p if n > 1 else 0 for p, n in zip(at, array.shape, strict=True))]
            )
            source.append(range(size)[index])
        axis += 1
    return tuple(source)


def _read(x, key):
    places = chosen(x.shape, key)
    out = np.empty(places.shape, x.dtype)
    for p in np.ndindex(*places.shape):
        out[p] = x[places[p]]
    return out


def _written(combine):
    def reference(x, key, value):
        out = x.copy()
        places = chosen(x.shape, key)
        value = np.broadcast_to(np.asarray(value), places.shape)
        for p in np.ndindex(*places.shape):
            out[places[p]] = combine(out[places[p]], value[p])
        return out

    return reference


_update = _written(lambda old, new: new)
_add = _written(lambda old, new: old + new)


def _scatter(value, key, shape):
    return _add(np.zeros(shape, value.dtype), key, value)


def _keyed(key, shape=None):
    return lambda s: (s.array(shape=shape), key)


def _valued(key, value_shape, shape=None):
    return lambda s: (s.array(shape=shape), key, s.array(shape=value_shape))


_rows = np.array([2, 0, 0])
_pairs = np.array([[0, 1], [2, 2]])
_mask = np.array([[True, False, True], [False, False, True]])
_all = slice(None)

#: label, key, shape of the tensor, shape of a value that broadcasts
KEYS = [
    ("plain", (1, slice(None, None, -1)), (2, 3), ()),
    ("steps", (slice(-1, None, -2), slice(1, 3)), (5, 4), (3, 2)),
    ("ellipsis", (..., None, 0), (2, 3, 2), (3, 1)),
    ("empty", (slice(2, 1), 0), (3, 2), (0,)),
    ("whole", (), (), ()),
    ("negative", (-1, -2), (3, 4), ()),
    ("rows", (_rows,), (3, 2), (3, 2)),
    ("columns", (_all, _pairs), (2, 3), (2, 2)),
    ("pairs", (_rows, _rows), (3, 3), (3,)),
    ("broadcast", (_rows[:, None], np.array([0, 1])), (3, 2), (3, 1)),
    ("apart", (_rows, _all, 0), (3, 2, 2), (3, 1)),
    ("beside", (_all, 1, _rows), (2, 2, 3), (2, 3)),
    ("zerod", (np.array(1), _all), (2, 3), (3,)),
    ("mask", (_mask,), (2, 3), (3,)),
    ("mask-part", (slice(0, 2), _mask), (3, 2, 3), (2, 1)),
    ("mask-mixed", (_mask, np.array([0, 1, 1])), (2, 3, 2), ()),
    ("mask-empty", (np.zeros(2, bool),), (2, 2), (0, 2)),
    ("list", ([1, -1],), (3, 2), (2, 2)),
]  # fmt: skip


def _by_key(name, reference, make, op, dtypes, **options):
    """A row for each key."""
    return [
        OpCase(name, make(key, shape, value), reference, dtypes=dtypes, ops=(op,), label=label,
               layouts=MATRICES, fixed=_fixed(name, label), **options)
        for label, key, shape, value in KEYS
    ]  # fmt: skip


def _fixed(name, label):
    """Why the tensors of a row have fixed sizes; empty if they do not."""
    scattered = name == "index_scatter"
    if scattered and label in ("mask", "mask-mixed"):
        return "the mask is as large as the shape of the result, which is written out"
    bare = label == "whole" or (scattered and label in ("plain", "negative"))
    return "tensors without axes" if bare else ""


def _summed_key(key, shape, value):
    return _valued(key, value, shape)


def _scattered_key(key, shape, value):
    return lambda s: (s.array(shape=value), key, shape)


# --- along an axis --------------------------------------------------------------------------


def _take(x, indices, *, axis=0):
    out = []
    for i in np.ravel(indices).tolist():
        out.append(np.split(x, x.shape[axis], axis)[i])
    stacked = np.concatenate(out, axis) if out else np.zeros_like(x).take([], axis)
    return stacked.reshape((*x.shape[:axis], *np.shape(indices), *x.shape[axis + 1 :]))


def _along(x, indices, axis):
    """Pairs of (place in the indices, place in x)."""
    shape = list(np.broadcast_shapes(
        tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
        tuple(1 if i == axis else n for i, n in enumerate(indices.shape)),
    ))  # fmt: skip
    shape[axis] = indices.shape[axis]
    for place in np.ndindex(*shape):
        at = tuple(p if n > 1 else 0 for p, n in zip(place, indices.shape, strict=True))
        source = [p if n > 1 else 0 for p, n in zip(place, x.shape, strict=True)]
        source[axis] = int(indices[at])
        yield place, tuple(source), shape


def _take_along(x, indices, *, axis=-1):
    axis %= x.ndim
    out = None
    for place, source, shape in _along(x, indices, axis):
        out = np.empty(shape, x.dtype) if out is None else out
        out[place] = x[source]
    return out


def _put_along(x, indices, values, axis=-1):
    out = x.copy()
    values = np.broadcast_to(np.asarray(values), indices.shape)
    for place, source, _ in _along(x, indices, axis % x.ndim):
        out[source] = values[place]
    return out


def _update_rows(x, indices, updates):
    return _update(x, (indices,), updates)


def _add_rows(x, indices, updates):
    return _add(x, (indices,), updates)


# --- conditions -----------------------------------------------------------------------------


def _where(condition, x1, x2):
    arrays = np.broadcast_arrays(condition, x1, x2)
    picked = [a if c else b for c, a, b in zip(*(a.ravel() for a in arrays), strict=True)]
    return np.array(picked, dtype=np.asarray(x1).dtype).reshape(arrays[0].shape)


def _select(conditions, choices, default=0):
    out = np.full(choices[0].shape, default, choices[0].dtype)
    for p in np.ndindex(*out.shape):
        hits = [choice[p] for condition, choice in zip(conditions, choices, strict=True)
                if condition[p]]  # fmt: skip
        out[p] = hits[0] if hits else default
    return out


def _places(x):
    return [p for p in np.ndindex(*x.shape) if x[p] != 0]


def _nonzero(x):
    return tuple(np.array([p[i] for p in _places(x)], int) for i in range(x.ndim))


def _argwhere(x):
    return np.array(_places(x), int).reshape(len(_places(x)), x.ndim)


def _flatnonzero(x):
    return np.array([i for i, v in enumerate(x.ravel().tolist()) if v != 0], int)


def _compress(condition, x, axis=None):
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return _take(x, [i for i, c in enumerate(condition.ravel().tolist()) if c], axis=axis)


def _one_hot(indices, count, dtype=None, axis=-1):
    out = np.zeros((*indices.shape, count))
    for p in np.ndindex(*indices.shape):
        if 0 <= indices[p] < count:
            out[(*p, int(indices[p]))] = 1
    return np.moveaxis(out, -1, axis)


def _bools(s: Sample, shape=None):
    return s.array(shape=shape, dtype="bool")


_no_values = "the result does not depend on values of a floating dtype"

CASES = [
    *_by_key("Tensor.__getitem__", _read, lambda key, shape, value: _keyed(key, shape), "getitem",
             DTYPES, grad=(0,), exact=True),
    *_by_key("index_update", _update, _summed_key, "index_update", DTYPES, grad=(0, 2), exact=True),
    *_by_key("index_add", _add, _summed_key, "index_add", SUMMED, grad=(0, 2)),
    *_by_key("index_scatter", _scatter, _scattered_key, "index_scatter", SUMMED, grad=(0,)),
    OpCase("Tensor.__getitem__", lambda s: (s.array(shape=(2, 3)), True), lambda x, key: x[None],
           grad=(0,), exact=True, ops=("getitem",), layouts=MATRICES, label="true"),
    OpCase("Tensor.__getitem__", lambda s: (s.array(shape=(2, 3)), (_all, np.array(False))),
           lambda x, key: x[:, :0].reshape(2, 0, 3), grad=(0,), exact=True, ops=("getitem",),
           layouts=MATRICES, label="false"),
    OpCase("index_update", lambda s: (s.array(), True, s.array()), lambda x, key, value: value,
           dtypes=MOVED, grad=(0, 2), exact=True, label="true"),
    OpCase("index_scatter", lambda s: (s.array(), True, s.shape), lambda value, key, shape: value,
           dtypes=SUMMED, grad=(0,), label="true"),
    OpCase("index_update", lambda s: (s.array(shape=(3,)), _rows, s.array(shape=(1, 1, 3))),
           lambda x, key, value: _update(x, key, value.ravel()), dtypes=MOVED, grad=(0, 2),
           exact=True, layouts=MATRICES, label="leading"),

    OpCase("take", lambda s: (s.array(), s.ints(-s.shape[0], s.shape[0], (4,))), _take,
           kwargs={"axis": 0}, dtypes=MOVED, grad=(0,), exact=True,
           layouts=("vector", *MATRICES), label="rows"),
    OpCase("take", lambda s: (s.array(), s.ints(0, 3, (2, 3), "uint8")), _take, kwargs={"axis": 1},
           dtypes=MOVED, grad=(0,), exact=True, layouts=MATRICES, label="columns"),
    OpCase("take", lambda s: (s.array(), np.array(1, "uint64")), _take, kwargs={"axis": 1},
           grad=(0,), exact=True, layouts=MATRICES, label="one"),
    OpCase("take", lambda s: (s.array(), np.array(2)), _take, kwargs={"axis": 0}, grad=(0,),
           exact=True, layouts=MATRICES, label="one row"),
    OpCase("take", lambda s: (s.array(), np.zeros(0, int)), _take, kwargs={"axis": 0}, grad=(0,),
           exact=True, layouts=AXED, label="none"),
    OpCase("take_along_axis", lambda s: (s.array(), s.ints(-3, 3, (*s.shape[:-1], 2))),
           _take_along, dtypes=MOVED, grad=(0,), exact=True, layouts=("vector", *MATRICES)),
    OpCase("take_along_axis", lambda s: (s.array(shape=(3, 1, 2)), s.ints(0, 3, (2, 4, 1))),
           _take_along, kwargs={"axis": 0}, dtypes=MOVED, grad=(0,), exact=True,
           layouts=MATRICES, label="broadcast"),
    OpCase("update_along_axis", lambda s: (s.array(), s.ints(-3, 3, (*s.shape[:-1], 2)),
           s.array(shape=(*s.shape[:-1], 2))), _put_along, dtypes=MOVED, grad=(0, 2), exact=True,
           ops=("index_update",), layouts=("vector", *MATRICES)),
    OpCase("scatter_update", lambda s: (s.array(shape=(3, 2)), _rows, s.array(shape=(3, 2))),
           _update_rows, dtypes=MOVED, grad=(0, 2), exact=True, ops=("index_update",),
           layouts=MATRICES),
    OpCase("scatter_add", lambda s: (s.array(shape=(3, 2)), _pairs, s.array(shape=(2, 2, 1))),
           _add_rows, dtypes=SUMMED, grad=(0, 2), ops=("index_add",), layouts=MATRICES),

    OpCase("where", lambda s: (_bools(s), s.array(), s.array()), _where, dtypes=MOVED,
           grad=(1, 2), exact=True, specials=True),
    OpCase("where", lambda s: (_bools(s, (3, 1)), s.array(shape=(2,)), s.array(shape=(1, 1, 1))),
           _where, dtypes=MOVED, grad=(1, 2), exact=True, layouts=MATRICES, label="broadcast"),
    OpCase("where", lambda s: (s.ints(0, 2, s.shape), s.array(), 2), _where, grad=(1,),
           exact=True, label="integers"),
    OpCase("select", lambda s: ([_bools(s), _bools(s)], [s.array(), s.array()], 1), _select,
           dtypes=NUMERIC, grad=(1,), exact=True, ops=("where",)),
    OpCase("nonzero", lambda s: (s.array(-1.5, 1.5),), _nonzero, dtypes=DTYPES,
           no_grad=_no_values, layouts=AXED, specials=True),
    OpCase("argwhere", lambda s: (s.array(-1.5, 1.5),), _argwhere, dtypes=DTYPES,
           no_grad=_no_values, ops=("nonzero",)),
    OpCase("flatnonzero", lambda s: (s.array(-1.5, 1.5),), _flatnonzero, dtypes=DTYPES,
           no_grad=_no_values, ops=("nonzero",)),
    OpCase("compress", lambda s: (_bools(s), s.array()), _compress, dtypes=MOVED, grad=(1,),
           exact=True, ops=("nonzero", "take"), layouts=AXED),
    OpCase("compress", lambda s: (np.array([True, False, True]), s.array()), _compress,
           kwargs={"axis": 1}, dtypes=MOVED, grad=(1,), exact=True, ops=("nonzero", "take"),
           layouts=MATRICES, label="axis"),
    OpCase("extract", lambda s: (_bools(s), s.array()), _compress, dtypes=MOVED, grad=(1,),
           exact=True, ops=("nonzero", "take"), layouts=AXED),
    OpCase("one_hot", lambda s: (s.array(-1, 5), 4), _one_hot, dtypes=("int8", "int64", "uint64"),
           no_grad=_no_values, ops=("equal",)),
    OpCase("one_hot", lambda s: (s.array(0, 3), 3), _one_hot, kwargs={"dtype": "int8", "axis": 0},
           dtypes=("int8", "uint8"), no_grad=_no_values, ops=("equal",), label="front"),
]  # fmt: skip
