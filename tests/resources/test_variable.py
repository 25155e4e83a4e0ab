"""Variables: use as tensors, arguments and results of assignments, copies, gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.op import get_op
from tests.messages import says

# --- a variable is a tensor -------------------------------------------------------------------


def test_it_is_usable_wherever_a_tensor_is() -> None:
    v = ef.Variable([1.0, 4.0])
    assert (v + v).tolist() == [2.0, 8.0]
    assert (1 + v).tolist() == [2.0, 5.0]
    assert (ef.tensor([1.0, 1.0]) - v).tolist() == [0.0, -3.0]
    assert (v > 2).tolist() == [False, True]
    assert ef.sqrt(v).tolist() == [1.0, 2.0]
    assert v[1].item() == 4.0
    assert [x.item() for x in v] == [1.0, 4.0]
    assert v.sum().item() == 5.0
    assert float(v[0]) == 1.0
    assert np.asarray(v).tolist() == [1.0, 4.0]
    assert ef.stack([v, v]).shape == (2, 2)
    assert (-v @ v).item() == -17.0
    assert isinstance(v.value, ef.Tensor)


def test_it_has_the_type_of_its_value() -> None:
    v = ef.Variable(ef.ones((2, 3)), dtype="float64", trainable=False, name="w")
    assert (v.dtype, v.shape, v.ndim, v.size) == (ef.float64, (2, 3), 2, 6)
    assert (v.device, v.trainable, v.name) == ("cpu:0", False, "w")
    assert str(v.type) == "f64[2,3]@cpu:0"
    assert ef.Variable(1).dtype == "int64"
    assert ef.Variable(np.float32(1)).dtype == "float32"


def test_it_prints() -> None:
    assert repr(ef.Variable([1.0])) == "Variable([1.], f32[1]@cpu:0)"
    assert repr(ef.Variable([[1, 2], [3, 4]], name="w")) == (
        "Variable([[1, 2],\n          [3, 4]], i64[2,2]@cpu:0, name='w')"
    )
    assert str(ef.Variable([1.0, 2.0])) == "[1. 2.]"
    assert f"{ef.Variable(1.5):.2f}" == "1.50"


def test_it_is_not_hashable() -> None:
    with pytest.raises(errors.UnhashableError):
        hash(ef.Variable(1.0))


# --- assignments ------------------------------------------------------------------------------


def test_assignments_return_the_new_value() -> None:
    v = ef.Variable([1.0, 2.0])
    results = [
        v.assign([3.0, 4.0]),
        v.assign_add(1.0),
        v.assign_sub([1.0, 0.0]),
        v.scatter_update([0], [0.0]),
        v.scatter_add([-1, -1], [1.0, 1.0]),
    ]
    assert all(isinstance(r, ef.Tensor) for r in results)
    assert [r.tolist() for r in results] == [
        [3.0, 4.0], [4.0, 5.0], [3.0, 5.0], [0.0, 5.0], [0.0, 7.0],
    ]  # fmt: skip


def test_in_place_operators_keep_the_variable() -> None:
    v = w = ef.Variable([1.0, 2.0])
    v += 1
    assert v is w
    v -= ef.tensor([2.0, 2.0])
    assert v is w
    assert w.tolist() == [0.0, 1.0]


def test_values_without_a_dtype_take_the_variables() -> None:
    v = ef.Variable([0.0], dtype="float64")
    v.assign([0.1])
    assert v.item() == 0.1
    v.assign_add(1)
    assert v.item() == 1.1
    flags = ef.Variable([True, False])
    flags.assign((False, True))
    assert flags.tolist() == [False, True]


def test_assign_add_broadcasts() -> None:
    v = ef.Variable(ef.zeros((2, 3)))
    v.assign_add(ef.tensor([1.0, 2.0, 3.0]))
    v.assign_sub(ef.tensor([[1.0], [2.0]]))
    assert v.tolist() == [[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0]]


def test_slices_add_to_rows() -> None:
    v = ef.Variable(ef.zeros((4, 2)))
    slices = ef.IndexedSlices(ef.ones((3, 2)), ef.tensor([1, 3, 1]), (4, 2))
    v.assign_add(slices)
    assert v.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    v -= slices
    assert not v.numpy().any()
    v.assign(slices)
    assert v[1].tolist() == [2.0, 2.0]


def test_indices_may_have_any_shape() -> None:
    v = ef.Variable(ef.zeros((5, 2)))
    v.scatter_add([[0, 1], [1, 4]], ef.ones((2, 2, 2)))
    assert v.numpy()[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0, 1.0]
    v.scatter_update(2, [7.0, 8.0])
    assert v[2].tolist() == [7.0, 8.0]
    before = v.numpy().copy()
    v.scatter_add(ef.zeros((0,), dtype="int64"), ef.ones((0, 2)))
    np.testing.assert_array_equal(v.numpy(), before)


WRONG = [
    (lambda v: v.assign([1.0]), errors.ShapeError, r"assign: a variable keeps its shape"),
    (lambda v: v.assign(1.0), errors.ShapeError, r"expected: \(2,\)"),
    (lambda v: v.assign_add(ef.ones((3, 2))), errors.ShapeError, "keeps its shape"),
    (
        lambda v: v.assign_sub(ef.ones(3)),
        errors.ShapeError,
        "assign_sub: a variable keeps its shape",
    ),
    (lambda v: v.assign(ef.tensor([1, 2])), errors.DTypeError, "keeps its dtype"),
    (lambda v: v.assign(np.ones(2)), errors.DTypeError, r"value=f64\[2\]@cpu:0"),
    (lambda v: v.assign_add(ef.tensor(1)), errors.DTypeError, "astype"),
    (lambda v: v.assign([1j, 2.0]), errors.DTypeError, "cannot hold c64"),
    (lambda v: v.assign("ab"), errors.DTypeError, "text cannot be a tensor"),
    (lambda v: ef.Variable(1).assign(2.5), errors.DTypeError, "cannot hold f32"),
    (lambda v: ef.Variable(True).assign(1), errors.DTypeError, "cannot hold i64"),
    (lambda v: ef.Variable(True).assign_sub(True), errors.DTypeError, "no rule for bool"),
    (lambda v: ef.Variable(1, dtype="int8").assign(300), errors.TensorValueError, "fit"),
    (lambda v: ef.Variable(1, dtype="uint8").assign(300), errors.TensorValueError, "300"),
    (lambda v: ef.Variable([1], dtype="uint8").assign([-1]), errors.TensorValueError, "-1"),
    (lambda v: ef.Variable(1, dtype="uint8").assign(1.0), errors.DTypeError, "cannot hold f32"),
    (
        lambda v: ef.Variable([1.0], name="w").assign([1.0, 2.0]),
        errors.ShapeError,
        r"got: variable 'w' f32\[1\]@cpu:0, value=f32\[2\]@cpu:0",
    ),
    (
        lambda v: v.scatter_update([1, 7], [1.0, 1.0]),
        errors.TensorIndexError,
        r"scatter_update: index 7 is out of range for axis 0 with size 2\n"
        r"  got: variable f32\[2\]@cpu:0, indices=i64\[2\]@cpu:0, values=f32\[2\]@cpu:0",
    ),
    (lambda v: v.scatter_add([-9], [1.0]), errors.TensorIndexError, "scatter_add: index -9 is"),
    (lambda v: v.scatter_add([2], [1.0]), errors.TensorIndexError, "out of range"),
    (lambda v: v.scatter_update([-3], [1.0]), errors.TensorIndexError, "size 2"),
    (lambda v: v.scatter_add([0.5], [1.0]), errors.DTypeError, "integers"),
    (lambda v: v.scatter_add([True, False], [1.0, 1.0]), errors.DTypeError, "integers"),
    (lambda v: v.scatter_add([0], ef.ones((1, 2))), errors.ShapeError, "do not fit the rows"),
    (lambda v: ef.Variable(1.0).scatter_add([0], [1.0]), errors.ShapeError, "no axes"),
    (
        lambda v: v.assign_add(ef.IndexedSlices(ef.ones(1), ef.tensor([0]), (3,))),
        errors.ShapeError,
        "another shape",
    ),
    (lambda v: v.assign(ef.ones(2, device="null:0")), errors.DeviceError, "on cpu:0"),
    (lambda v: v.__imul__(2), errors.VariableError, r"v.assign\(v \* x\)"),
    (lambda v: v.__itruediv__(2), errors.VariableError, "/="),
    (lambda v: v.__setitem__(0, 1.0), errors.VariableError, "scatter_update"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_wrong_assignments_are_named_and_change_nothing(call, kind, words) -> None:
    v = ef.Variable([1.0, 2.0])
    v.assign_add(0.0)  # so that a kernel could write in place
    with pytest.raises(kind, check=says(words)):
        call(v)
    assert v.tolist() == [1.0, 2.0]


def test_a_variable_lives_on_its_device() -> None:
    with ef.config(cpu_devices=2):
        v = ef.Variable([1.0, 2.0], device="cpu:1")
        assert v.device == "cpu:1"
        assert (v * 2).device == "cpu:1"
        v.assign([3.0, 4.0])
        v.assign_add(1)
        assert v.value.device == "cpu:1"
        with pytest.raises(errors.DeviceError, match=r"\.to\('cpu:1'\)"):
            v.assign(ef.ones(2))
        with pytest.raises(errors.DeviceError, match="different devices"):
            v + ef.ones(2)
        v.assign(ef.ones(2).to("cpu:1"))
        assert ef.Variable(v.value).device == "cpu:1"


def test_a_variable_of_a_null_device_has_a_type_only() -> None:
    v = ef.Variable(ef.ones((2, 3), device="null:0"))
    assert str((v @ v.T).type) == "f32[2,2]@null:0"
    v.assign_add(ef.ones((2, 3), device="null:0"))
    assert repr(v) == "Variable(f32[2,3]@null:0)"
    with pytest.raises(errors.DeviceError, match="no values"):
        v.numpy()


def test_effects_are_declared() -> None:
    assert get_op("read").effect == "reads"
    for name in (
        "assign", "assign_add", "assign_sub", "variable_scatter_update", "variable_scatter_add",
    ):  # fmt: skip
        assert get_op(name).effect == "writes"


# --- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_another_variable(copied) -> None:
    v = ef.Variable([1.0, 2.0], dtype="bfloat16", trainable=False, name="w")
    w = copied(v)
    v += 1
    assert w.tolist() == [1.0, 2.0]
    assert (w.dtype, w.trainable, w.name) == (v.dtype, False, "w")


# --- gradients --------------------------------------------------------------------------------


def test_a_tape_watches_trainable_variables() -> None:
    v, frozen = ef.Variable([1.0, 2.0]), ef.Variable([3.0, 4.0], trainable=False)
    with ef.GradientTape() as tape:
        loss = (v * v * frozen).sum()
    got, none = tape.gradient(loss, [v, frozen])
    assert got.tolist() == [6.0, 16.0]
    assert none is None


def test_a_value_on_the_tape_outlives_an_assignment() -> None:
    v = ef.Variable([1.0, 2.0])
    v.assign_add(0.0)
    with ef.GradientTape() as tape:
        loss = (v * v).sum()
    v.assign_add(100.0)
    assert tape.gradient(loss, v).tolist() == [2.0, 4.0]


# --- weak values, devices ---------------------------------------------------------------------


def test_python_numbers_are_weak() -> None:
    v = ef.Variable(1.0, dtype="uint8")
    assert v.assign(3).item() == 3
    assert v.assign_add(True).item() == 4
    w = ef.Variable(ef.tensor([1], dtype="uint64"))
    assert w.assign_add(1).tolist() == [2]
    assert w.assign([2**64 - 1]).tolist() == [2**64 - 1]
    assert ef.Variable([1.0], dtype="bfloat16").assign_add([2]).tolist() == [3.0]
    assert ef.Variable(1j).assign_sub(1).item() == -1 + 1j
    assert v.dtype == "uint8"
    assert w.dtype == "uint64"


def test_host_values_go_to_the_device_of_the_variable() -> None:
    with ef.config(cpu_devices=2):
        v = ef.Variable(ef.ones(4, device="cpu:1"))
        for value in (np.full(4, 2, "f4"), [2.0] * 4, 2.0):
            assert v.assign(value if np.ndim(value) else [value] * 4).device == "cpu:1"
        v.assign_add(np.float32(1))
        v.scatter_update(np.array([0]), np.float32(7))
        assert v.tolist() == [7.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
def test_rows_may_be_of_any_integer_dtype(dtype) -> None:
    v = ef.Variable(ef.zeros(300))
    v.scatter_update(ef.tensor([1, 100], dtype=dtype), [1.0, 2.0])
    assert (v[1].item(), v[100].item(), v.sum().item()) == (1.0, 2.0, 3.0)
