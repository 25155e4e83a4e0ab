"""Index expressions against NumPy's, read and assigned, on the plain path and through ops."""

from __future__ import annotations

import ast
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import eagerflow as ef
from eagerflow import errors
from eagerflow.autodiff import vjp_jvp
from eagerflow.core.interpreter import AbstractInterpreter, installed
from eagerflow.core.tensor import Tensor
from tests.ops.table import rules_checked

# --- random index expressions ---------------------------------------------------------------

_slices = st.builds(
    slice,
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(-5, 5),
    st.none() | st.sampled_from([-2, -1, 1, 2, 3]),
)


@st.composite
def expressions(draw, shape):
    """A tuple of index parts that fits an array of ``shape``: all forms that NumPy knows, mixed."""
    joined = draw(npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    parts, axis = [], 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        kind = draw(st.sampled_from(["slice", "int", "array", "scalar", "mask", "mask2", "list"]))
        size = shape[axis]
        if kind == "slice" or (size == 0 and kind not in ("mask", "mask2")):
            parts.append(draw(_slices))
        elif kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "scalar":
            parts.append(np.array(draw(st.integers(-size, size - 1))))
        elif kind in ("array", "list"):
            dims = tuple(1 if draw(st.booleans()) and n else n for n in joined)
            dims = dims[draw(st.integers(0, len(dims))) :]
            dtype = draw(st.sampled_from(["int64", "int32", "int8"]))
            array = draw(npst.arrays(dtype, dims, elements=st.integers(-size, size - 1)))
            parts.append(array.tolist() if kind == "list" and dims else array)
        else:
            count = 1 if kind == "mask" else min(2, len(shape) - axis)
            parts.append(draw(npst.arrays(bool, shape[axis : axis + count])))
            axis += count - 1
        axis += 1
    for extra in draw(st.lists(st.sampled_from([None, None, True, False, np.array(True)]),
                               max_size=2)):  # fmt: skip
        parts.insert(draw(st.integers(0, len(parts))), extra)
    if draw(st.booleans()):
        # parts after an ellipsis count from the last axis
        used = sum(getattr(p, "ndim", 1) if _is_mask(p) else _consumes(p) for p in parts)
        if used == len(shape) or not any(_consumes(p) for p in parts):
            parts.insert(draw(st.integers(0, len(parts))), ...)
        else:
            parts.append(...)
    return tuple(parts)


def _is_mask(part):
    return isinstance(part, np.ndarray) and part.dtype == bool


def _consumes(part):
    return not (part is None or isinstance(part, bool) or (_is_mask(part) and part.ndim == 0))


@st.composite
def selections(draw):
    """An array, and an index expression that NumPy accepts for it."""
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    array = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    key = draw(expressions(shape))
    if len(key) == 1 and draw(st.booleans()):
        key = key[0]
    try:
        array[key]
    except IndexError:  # index arrays that do not broadcast, an axis too many
        array, key = np.arange(6.0).reshape(2, 3), (draw(_slices), [0, -1])
    return array, key


def _converted(part):
    """The index expression with tensors in place of arrays."""
    if isinstance(part, tuple):
        return tuple(_converted(p) for p in part)
    return ef.asarray(part) if isinstance(part, np.ndarray) else part


class Bystander(AbstractInterpreter):
    """An interpreter that passes ops on, so that the plain path is not taken."""

    def bind(self, op, inputs, attrs):
        return self.below.bind(op, inputs, attrs)


def _path(through_ops):
    """A context in which index expressions go through ops, or directly to the array."""
    return installed(Bystander()) if through_ops else nullcontext()


@given(selections(), st.booleans())
def test_reading_selects_what_numpy_does(selection, as_tensors) -> None:
    array, key = selection
    want = array[key]
    ours = _converted(key) if as_tensors else key
    x = ef.asarray(array)
    plain = x[ours]
    with rules_checked():
        bound = x[ours]
    for got in (plain, bound):
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)


@given(selections(), st.booleans(), st.data())
def test_assigning_puts_what_numpy_does(selection, as_tensors, data) -> None:
    array, key = selection
    shape = array[key].shape
    dims = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    dims = dims[data.draw(st.integers(0, len(dims))) :]
    value = -1.0 - np.arange(float(np.prod(dims, dtype=int))).reshape(dims)
    want = array.copy()
    want[key] = np.broadcast_to(value, shape)
    if shape and data.draw(st.booleans()):
        value = value.reshape((1,) * (len(shape) - len(dims) + 1) + dims)
    ours = _converted(key) if as_tensors else key
    given_value = ef.asarray(value) if as_tensors else value
    alone, held = ef.tensor(array), ef.tensor(array)
    alias = held._data
    view = held[...]
    alone[ours] = given_value
    held[ours] = given_value
    with rules_checked():
        bound = ef.tensor(array)
        bound[ours] = given_value
        functional = ef.index_update(ef.asarray(array), ours, given_value)
    for got in (alone, held, bound, functional):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(alias, array)
    np.testing.assert_array_equal(view.numpy(), array)


@given(selections(), st.data())
def test_gradient_of_reading_scatters(selection, data) -> None:
    array, key = selection
    g = data.draw(npst.arrays(float, array[key].shape, elements=st.integers(-5, 5)))
    want = np.zeros_like(array)
    np.add.at(want, key, g)
    _, pull = vjp_jvp.vjp(lambda x: x[key], ef.asarray(array))
    (got,) = pull(ef.asarray(g))
    np.testing.assert_array_equal(np.asarray(got), want)


@given(selections(), st.data())
def test_gradient_of_assigning_follows_the_last_value(selection, data) -> None:
    array, key = selection
    shape = array[key].shape
    g = data.draw(npst.arrays(float, array.shape, elements=st.integers(-5, 5)))

    def assigned(x, v):
        x[key] = v
        return x * 1.0

    written = np.full(array.shape, -1)
    written[key] = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    want_v = np.zeros(np.prod(shape, dtype=int))
    want_v[written[written >= 0]] = g[written >= 0]
    _, pull = vjp_jvp.vjp(assigned, ef.tensor(array), ef.zeros(shape, dtype=ef.float64))
    got_x, got_v = pull(ef.asarray(g))
    np.testing.assert_array_equal(got_x.numpy(), np.where(written >= 0, 0, g))
    np.testing.assert_array_equal(got_v.numpy(), want_v.reshape(shape))


# --- the attribute --------------------------------------------------------------------------


class Recorder(AbstractInterpreter):
    """An interpreter that records the attributes of the ops bound."""

    def __init__(self) -> None:
        self.seen = []

    def bind(self, op, inputs, attrs):
        self.seen.append((op.name, len(inputs), attrs))
        return self.below.bind(op, inputs, attrs)


def _bound(x, key):
    recorder = Recorder()
    with installed(recorder):
        x[key]
    return recorder.seen


def test_the_static_part_is_hashable_and_reads_back() -> None:
    x = ef.zeros((2, 3, 4, 5))
    ((name, count, attrs),) = _bound(x, (..., 1, slice(None, None, -1), None, ef.tensor([0, 1])))
    assert (name, count) == ("getitem", 2)
    key = attrs["key"]
    assert repr(key) == "('...', 1, (None, None, -1), None, 'array')"
    assert ast.literal_eval(repr(key)) == key
    assert hash(key) == hash(ast.literal_eval(repr(key)))


def test_only_masks_have_a_size_that_depends_on_data() -> None:
    x = ef.zeros((2, 3))
    assert [name for name, _, _ in _bound(x, x > 0)] == ["mask_indices", "getitem"]
    null = x.to("null:0")
    assert null[0, 1:].shape == (2,)
    assert null[:, ef.tensor([0, 0, 1, 2]).to("null:0")].shape == (2, 4)
    with pytest.raises(errors.DataDependentError):
        null[null > 0]


def test_rows_by_one_array_are_taken() -> None:
    assert [name for name, _, _ in _bound(ef.zeros((2, 3)), ef.tensor([0, 1]))] == ["take"]


# --- what can be an index -------------------------------------------------------------------


def _with_ints(key):
    """The key in a form that NumPy accepts: ints in place of tensors."""
    if isinstance(key, slice):
        return slice(int(key.start), None)
    if isinstance(key, list):
        return [int(k) if isinstance(k, Tensor) else k for k in key]
    return int(key) if isinstance(key, Tensor) else key


@pytest.mark.parametrize(
    "key",
    [
        np.int64(1),
        np.uint8(1),
        np.array(1),
        ef.tensor(1),
        [True, False, True],
        [0, 2],
        [[0], [2]],
        (0, 1),
        ([0, 2], [1, 1]),
        range(2),
        [],
        np.True_,
        np.array([2, 0], "uint64"),
        slice(ef.tensor(1), None),
        [ef.tensor(2), 0],
    ],
    ids=repr,
)
def test_indices_of_many_kinds(key) -> None:
    array = np.arange(12).reshape(3, 4)
    plain = _with_ints(key)
    x = ef.asarray(array)
    np.testing.assert_array_equal(x[key].numpy(), array[plain])
    with installed(Bystander()):
        np.testing.assert_array_equal(x[key].numpy(), array[plain])


def test_a_variable_can_be_an_index() -> None:
    x = ef.tensor([10.0, 20.0, 30.0])
    v = ef.Variable([2, 0])
    assert x[v].tolist() == [30.0, 10.0]
    assert x[(v,)].tolist() == [30.0, 10.0]
    assert ef.take(x, v).tolist() == [30.0, 10.0]


def test_a_variable_can_be_indexed() -> None:
    v = ef.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert v[1].tolist() == [3.0, 4.0]
    assert v[:, ef.tensor([1, 0])].tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert v[v > 1.5].tolist() == [2.0, 3.0, 4.0]


def test_plain_reading_shares_memory_and_scalars_do_not() -> None:
    x = ef.asarray(np.arange(6.0))
    assert np.shares_memory(x[1:3].numpy(), x.numpy())
    assert not np.shares_memory(x[1].numpy(), x.numpy())


# --- errors ---------------------------------------------------------------------------------

_INDEX = errors.TensorIndexError
_WRONG = [
    (5, _INDEX, "index 5 is out of range for axis 0 with size 3"),
    ((0, -5), _INDEX, "index -5 is out of range for axis 1 with size 4"),
    ((..., 4), _INDEX, "index 4 is out of range for axis 1 with size 4"),
    ((0, 0, 0), _INDEX, "too many indices: 3 for a tensor with 2 axes"),
    ((..., ...), _INDEX, "only one ellipsis"),
    (1.0, _INDEX, "f32 cannot be indices"),
    ("a", _INDEX, "a str cannot be an index"),
    ({}, _INDEX, "a dict cannot be an index"),
    ([0.5], _INDEX, "f32 cannot be indices"),
    ((0, [1.5]), _INDEX, "f32 cannot be indices"),
    (slice(0.5, None), _INDEX, "bounds of a slice must be integers"),
    (slice(None, None, 0), errors.TensorValueError, "step of a slice cannot be 0"),
    ([3], _INDEX, "index 3 is out of range for axis 0 with size 3"),
    ((0, [1, 9]), _INDEX, "index 9 is out of range for axis 1 with size 4"),
    (([0, 1], [0, 1, 2]), _INDEX, "do not broadcast"),
    (np.array([True, False]), _INDEX, "axis 0 has size 3, that of the mask 2"),
    ((0, np.array([True, False])), _INDEX, "axis 1 has size 4, that of the mask 2"),
    (np.ones((3, 4, 1), bool), _INDEX, "too many indices: 3 for a tensor with 2 axes"),
]  # fmt: skip


@pytest.mark.parametrize("through_ops", [False, True], ids=["plain", "ops"])
@pytest.mark.parametrize(("key", "error", "words"), _WRONG, ids=[repr(w[0]) for w in _WRONG])
def test_wrong_indices_are_explained(key, error, words, through_ops) -> None:
    x = ef.zeros((3, 4))
    for ours in (key, _converted(key)):
        for act in (
            lambda ours=ours: x[ours],
            lambda ours=ours: x.__setitem__(ours, 1),
            lambda ours=ours: ef.index_add(x, ours, 1),
        ):
            with _path(through_ops), pytest.raises(error) as caught:
                act()
            assert words in str(caught.value)
    assert isinstance(caught.value, IndexError if error is _INDEX else ValueError)
    np.testing.assert_array_equal(x.numpy(), 0)


@pytest.mark.parametrize("through_ops", [False, True], ids=["plain", "ops"])
@pytest.mark.parametrize(
    ("dtype", "value", "error", "words"),
    [
        ("float32", np.zeros(3), errors.ShapeError, "does not fit where (4,) is selected"),
        ("float32", 1j, errors.DTypeError, "c64 do not fit into f32"),
        ("float32", np.array([1j] * 4), errors.DTypeError, "c128 do not fit into f32"),
        ("int8", 300, errors.TensorValueError, "300 does not fit into int8"),
        ("int8", [1, 2, 3, 300], errors.TensorValueError, "300"),
        ("int64", 1.5, errors.DTypeError, "f32 do not fit into i64"),
        ("int64", [1.5] * 4, errors.DTypeError, "hint: convert the value first"),
        ("int8", np.ones(4), errors.DTypeError, "f64 do not fit into i8"),
        ("uint8", np.ones(4, "int8"), errors.DTypeError, "i8 do not fit into u8"),
        ("bool", 1, errors.DTypeError, "i64 do not fit into bool"),
        ("float32", "a", errors.DTypeError, "text cannot be a tensor"),
    ],
)
def test_wrong_values_are_explained(dtype, value, error, words, through_ops) -> None:
    x = ef.zeros((3, 4), dtype=dtype)
    for ours in (value, _converted(value)):
        with _path(through_ops), pytest.raises(error) as caught:
            x[0] = ours
        assert words in str(caught.value)
    np.testing.assert_array_equal(x.numpy(), 0)


# --- assigning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("int64", True, 1),
        ("bool", True, True),
        ("uint8", 255, 255),
        ("uint8", [3, 4], [3, 4]),
        ("float32", True, 1.0),
        ("complex64", 2, 2 + 0j),
        ("float32", [1, 2], [1.0, 2.0]),
        ("int8", ef.tensor([257, -1]), [1, -1]),
        ("float32", ef.tensor([2.5, -1.5], dtype="float64"), [2.5, -1.5]),
        ("int64", ef.tensor([2, 3], dtype="uint8"), [2, 3]),
        ("float64", np.array([1, 2], "uint8"), [1.0, 2.0]),
        ("bfloat16", 1.5, 1.5),
    ],
)
def test_values_are_converted(dtype, value, want) -> None:
    x, y = ef.zeros((3, 2), dtype=dtype), ef.zeros((3, 2), dtype=dtype)
    x[1] = value
    with installed(Bystander()):
        y[1] = value
    for got in (x, y):
        assert got.dtype == ef.zeros(0, dtype=dtype).dtype
        np.testing.assert_array_equal(got[1].numpy().astype(complex), np.broadcast_to(want, (2,)))


def test_assigning_writes_in_place_if_nobody_can_tell() -> None:
    x = ef.ones((100, 100)) + 0.0
    address = x.numpy().__array_interface__["data"][0]
    for i in range(10):
        x[i] = i
        x[:, ef.tensor([i])] = -1
    assert x.numpy().__array_interface__["data"][0] == address
    view = x[0]
    x[0] = 7
    assert view.numpy()[1] == -1
    assert x.numpy().__array_interface__["data"][0] != address


@pytest.mark.parametrize("through_ops", [False, True], ids=["plain", "ops"])
@pytest.mark.parametrize("turned", [(), (0,), (1,), (0, 1)], ids=str)
def test_the_last_value_wins_in_row_major_order(turned, through_ops) -> None:
    places = np.array([[0, 1, 0], [2, 0, 1]])
    values = np.arange(6.0).reshape(2, 3)
    indices, value = (
        np.asfortranarray(a) if i in turned else a for i, a in enumerate((places, values))
    )
    x = ef.zeros(3, dtype=ef.float64)
    with _path(through_ops):
        x[ef.asarray(indices)] = ef.asarray(value)
    assert x.tolist() == [4.0, 5.0, 3.0]


def test_assigning_from_itself() -> None:
    x = ef.asarray(np.arange(5)) + 0
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    x[::-1] = x
    assert x.tolist() == [3, 2, 1, 0, 0]
    y = ef.tensor([2, 0, 1]) + 0
    y[y] = y
    assert y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "read",
    [
        lambda x, p: x[p : p + 2],
        lambda x, p: x[:, p:],
        lambda x, p: x.__setitem__(slice(p, p + 2), 0),
    ],
)
@pytest.mark.parametrize(
    ("around", "words"),
    [
        (ef.trace, "a slice between tensors whose values are known only when the graph runs"),
        (lambda f: lambda x, p: ef.vmap(f, in_axes=(None, 0))(x, ef.stack([p, p])),
         "the bounds of a slice must be integers"),
    ],
    ids=["trace", "vmap"],
)  # fmt: skip
def test_slices_between_tensors_name_the_window(read, around, words) -> None:
    with pytest.raises(errors.EagerflowError, match=words) as caught:
        around(read)(ef.ones((4, 4)), ef.tensor(1))
    assert "a window of k rows is x[p + ef.arange(k)]" in str(caught.value)


def test_a_window_at_a_tensor_is_that_of_a_slice() -> None:
    x = ef.reshape(ef.arange(20), (5, 4))

    @ef.trace
    def windows(x, p):
        rows, columns = x[p + ef.arange(2)], x[:, p + ef.arange(2)]
        kept = x[ef.arange(x.shape[0]) < p]
        x[p + ef.arange(2)] = 0
        return rows, columns, kept, x

    rows, columns, kept, changed = windows(x + 0, ef.tensor(1))
    assert rows.tolist() == x[1:3].tolist()
    assert columns.tolist() == x[:, 1:3].tolist()
    assert kept.tolist() == x[:1].tolist()
    assert changed[1:3].tolist() == [[0] * 4] * 2


def test_a_finished_tape_keeps_the_values_it_saw() -> None:
    x = ef.tensor([1.0, 2.0, 3.0]) + 0.0
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = (x * x).sum()
    x[0] = 100.0
    assert tape.gradient(y, x) is None  # x holds a value that y does not come from
    x = ef.tensor([1.0, 2.0, 3.0]) + 0.0
    value, pull = vjp_jvp.vjp(lambda t: t * t, x)
    x[0] = 100.0
    assert pull(ef.ones(3))[0].tolist() == [2.0, 4.0, 6.0]
    assert value.tolist() == [1.0, 4.0, 9.0]


def test_assigning_is_differentiated() -> None:
    def f(x, v):
        y = x * 2.0
        y[1] = v
        y[0] = y[0] * y[1]
        return y.sum()

    gx, gv = ef.grad(f, argnums=(0, 1))(ef.tensor([3.0, 5.0, 7.0]), ef.tensor(4.0))
    assert (gx.tolist(), gv.item()) == ([8.0, 0.0, 2.0], 7.0)
