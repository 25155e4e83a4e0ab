"""Tensor: value semantics, conversions, operators."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says


def test_in_place_update_is_seen_by_names_of_the_same_object_only() -> None:
    x = ef.tensor([1.0, 2.0, 3.0])
    same, view, other = x, x[:2], ef.asarray(x) + 0.0
    x += 1.0
    x[0] = 10.0
    assert same is x
    assert x.tolist() == [10.0, 3.0, 4.0]
    assert view.tolist() == [1.0, 2.0]
    assert other.tolist() == [1.0, 2.0, 3.0]


def test_in_place_update_keeps_dtype_and_shape() -> None:
    x = ef.tensor([1.0, 2.0])
    x += ef.asarray([1.0, 1.0], dtype=ef.float64)
    assert x.dtype is ef.float32
    with pytest.raises(errors.ShapeError):
        x += ef.ones((2, 2))
    with pytest.raises(errors.DTypeError):
        x += 1j
    y = ef.tensor([1, 2])
    with pytest.raises(errors.DTypeError):
        y += 0.5
    assert (x.tolist(), y.tolist()) == ([2.0, 3.0], [1, 2])


def test_tensor_copies_and_asarray_shares() -> None:
    array = np.array([1.0, 2.0], dtype=np.float32)
    copied, shared = ef.tensor(array), ef.asarray(array)
    array[0] = 9.0
    assert copied.tolist() == [1.0, 2.0]
    assert shared.tolist() == [9.0, 2.0]
    assert ef.asarray(shared) is shared


def test_eagerflow_never_writes_into_shared_memory() -> None:
    array = np.array([1.0, 2.0], dtype=np.float32)
    x = ef.asarray(array)
    x[0] = 5.0
    x += 1.0
    assert array.tolist() == [1.0, 2.0]
    assert x.tolist() == [6.0, 3.0]
    base = ef.asarray(array)
    del array
    base[1] = 7.0
    assert base.tolist() == [1.0, 7.0]


def test_numpy_is_a_read_only_view() -> None:
    x = ef.tensor([1.0, 2.0])
    view = x.numpy()
    assert np.shares_memory(view, x.numpy())
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 3.0
    x[0] = 5.0
    assert view.tolist() == [1.0, 2.0]


def test_python_conversions() -> None:
    assert float(ef.tensor(2.5)) == 2.5
    assert int(ef.tensor([7])) == 7
    assert complex(ef.tensor(1j)) == 1j
    assert bool(ef.tensor(False)) is False
    assert [10, 20, 30][ef.tensor(1)] == 20
    assert list(range(ef.tensor(3))) == [0, 1, 2]
    assert f"{ef.tensor(1.23456):.2f}" == "1.23"
    assert f"{ef.tensor([1, 2]):>8}" == "   [1 2]"
    one = ef.tensor(1)
    for wrong in (lambda: float(ef.tensor(1j)), lambda: [1][ef.tensor(0.0)], lambda: len(one)):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_a_format_for_one_number_is_not_for_many() -> None:
    with pytest.raises(errors.TensorValueError, match=r"format '\.2f' is for one number") as caught:
        f"{ef.ones(3):.2f}"
    assert caught.value.given == "f32[3]@cpu:0"

    @ef.trace
    def shown(x: ef.Tensor) -> ef.Tensor:
        ef.print(f"{x:.1f}")
        return x

    with pytest.raises(errors.TensorValueError, match=r"format '\.1f' is for one number"):
        shown(ef.ones(3))


def test_iteration_and_containment() -> None:
    x = ef.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    a, b = x
    assert (a.tolist(), b.tolist()) == ([1, 2], [3, 4])
    assert 3 in x
    assert 5 not in x
    with pytest.raises(TypeError, match="no axes"):
        iter(ef.tensor(1.0))


def test_operators_with_other_types() -> None:
    x = ef.tensor([1.0, 2.0])
    for other in (np.ones(2, np.float32), np.float32(1), 1, 1.0, True):
        for result in (x + other, other + x, x * other, other - x):
            assert isinstance(result, ef.Tensor)
            assert result.dtype is ef.float32
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"
    assert (x == "a") is False
    with pytest.raises(TypeError):
        x < object()  # noqa: B015 - the comparison is what is tested


def test_reflected_operators() -> None:
    x = ef.tensor([1.0, 2.0, 4.0])
    i = ef.tensor([1, 2, 3])
    assert (8 / x).tolist() == [8.0, 4.0, 2.0]
    assert (1 - x).tolist() == [0.0, -1.0, -3.0]
    assert (2**x).tolist() == [2.0, 4.0, 16.0]
    assert (7 // i).tolist() == [7, 3, 2]
    assert (7 % i).tolist() == [0, 1, 1]
    assert (1 << i).tolist() == [2, 4, 8]
    assert (6 & i).tolist() == [0, 2, 2]
    assert (np.ones((3, 3), np.float32) @ x).tolist() == [7.0, 7.0, 7.0]


def test_weak_numbers_keep_the_tensors_dtype() -> None:
    for dtype in (ef.float16, ef.bfloat16, ef.float32, ef.float64):
        assert (ef.ones(2, dtype=dtype) * 2.5).dtype is dtype
        assert (2 + ef.ones(2, dtype=dtype)).dtype is dtype
    assert (ef.ones(2, dtype=ef.int8) + 1).dtype is ef.int8
    assert (ef.ones(2, dtype=ef.int8) + 1.5).dtype is ef.float32
    assert (ef.ones(2, dtype=ef.float64) + 1j).dtype is ef.complex128
    assert (ef.ones(2, dtype=ef.bool) + 1).dtype is ef.int64


def test_operators_after_a_first_call_on_a_lane_are_the_same() -> None:
    """The second call takes the fast path; broadcasting and errors must not notice."""
    a, b = ef.tensor([[1.0], [2.0]]), ef.tensor([10.0, 20.0])
    for _ in range(3):
        assert (a + b).tolist() == [[11.0, 21.0], [12.0, 22.0]]
        assert (a < b).dtype is ef.bool
        assert (ef.tensor(1.0) + ef.tensor(2.0)).shape == ()
        with pytest.raises(errors.ShapeError, match="add: shapes cannot be broadcast together"):
            ef.tensor([1.0, 2.0]) + ef.tensor([1.0, 2.0, 3.0])
        with pytest.raises(errors.TensorValueError, check=says("300")):
            ef.tensor([1], dtype=ef.int8) + 300


def test_copying_and_pickling() -> None:
    x = ef.tensor([[1.0, 2.0]], dtype=ef.bfloat16)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other is not x
        assert other.type == x.type
        assert other.tolist() == x.tolist()
    y = copy.copy(x)
    y[0, 0] = 9.0
    assert x.tolist() == [[1.0, 2.0]]


def test_a_large_tensor_is_summarised_behind_its_type() -> None:
    assert repr(ef.arange(200)).startswith("Tensor([  0,   1,")
    line = "[  0,   1,   2, ..., 198, 199, 200]"
    assert repr(ef.arange(201)) == f"Tensor(i64[201]@cpu:0,\n       {line})"
    assert str(ef.arange(201)) == line.replace(",", "")
    named = repr(ef.Variable(ef.arange(201), name="w"))
    assert named == f"Variable(i64[201]@cpu:0,\n         {line}, name='w')"
    with np.printoptions(threshold=500):  # a user who has set it wants so many
        assert "..." not in repr(ef.arange(201))
        assert repr(ef.arange(501)).startswith("Tensor(i64[501]@cpu:0,\n")


def test_repr() -> None:
    assert repr(ef.tensor([1.0, 2.5])) == "Tensor([1. , 2.5], f32[2]@cpu:0)"
    assert repr(ef.zeros((0, 3))) == "Tensor(empty(0, 3), f32[0,3]@cpu:0)"
    assert repr(ef.tensor(True)) == "Tensor(True, bool[]@cpu:0)"
    assert "bf16[1]" in repr(ef.ones(1, dtype=ef.bfloat16))
    assert len(repr(ef.zeros((1000, 1000)))) < 1000


def test_a_tensor_dies_with_its_last_name() -> None:
    gc.disable()
    try:
        x = ef.tensor([1.0])
        alive = weakref.ref(x)
        y = x + 1
        del x
        assert alive() is None
        assert y.tolist() == [2.0]
    finally:
        gc.enable()


def test_attributes() -> None:
    x = ef.zeros((2, 3), dtype=ef.float64)
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((2, 3), 2, 6, 48, 8)
    assert x.T.shape == (3, 2)
    assert x.mT.shape == (3, 2)
    assert x.device is ef.devices("cpu")[0]
    assert str(x.type) == "f64[2,3]@cpu:0"


METHODS = {
    "sum": (),
    "prod": (),
    "mean": (),
    "var": (),
    "std": (),
    "max": (),
    "min": (),
    "any": (),
    "all": (),
    "argmax": (),
    "argmin": (),
    "cumsum": (),
    "cumprod": (),
    "ravel": (),
    "flatten": (),
    "squeeze": (),
    "transpose": (),
    "conj": (),
    "round": (),
    "sort": (),
    "argsort": (),
    "nonzero": (),
    "copy": (),
    "dot": (np.ones((3, 2), np.float32),),
    "clip": (0.0, 1.0),
    "take": (np.array([0, 1]),),
    "reshape": (3, 2),
    "repeat": (2,),
    "swapaxes": (0, 1),
    "astype": (np.float64,),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_numpys(name: str) -> None:
    array = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, 1.0]], dtype=np.float32)
    args = METHODS[name]
    got = getattr(ef.tensor(array), name)(*args)
    want = np.sort(array) if name == "sort" else getattr(array, name)(*args)
    if not isinstance(want, tuple):
        got, want = (got,), (want,)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-6)
        assert g.shape == np.shape(w)


def test_lists_and_tuples_are_operands() -> None:
    x = ef.tensor([1.0, 2.0])
    for result in (x * [3, 4], [3, 4] * x, x * (3.0, 4.0), (3.0, 4.0) * x):
        assert result.tolist() == [3.0, 8.0]
        assert result.dtype is ef.float32
    assert (x == [1.0, 5.0]).tolist() == [True, False]
    assert (x < [[2.0], [0.0]]).tolist() == [[True, False], [False, False]]


NUMPY_REDUCTIONS = ("sum", "mean", "max", "min", "std", "var", "prod", "any", "all", "argmax",
                    "argmin", "cumsum", "cumprod", "round")  # fmt: skip


@pytest.mark.parametrize("name", NUMPY_REDUCTIONS)
def test_numpys_reductions_take_tensors_and_variables(name: str) -> None:
    array = np.array([[0.5, -1.0], [3.0, 0.0]], dtype=np.float32)
    want = getattr(np, name)(array)
    for x in (ef.tensor(array), ef.Variable(array)):
        got = getattr(np, name)(x)
        assert isinstance(got, ef.Tensor)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    if name != "round":
        with pytest.raises(errors.TensorValueError, match="there is no out="):
            getattr(np, name)(ef.tensor(array), out=np.zeros(()))


def test_item_of_several_elements_tells_what_gives_them_all() -> None:
    with pytest.raises(errors.TensorValueError, check=says("are all of them")):
        ef.zeros(3).item()


def test_numpys_arguments_of_methods() -> None:
    array = np.array([[0.5, -1.0], [3.0, 0.26]], dtype=np.float32)
    x = ef.tensor(array)
    np.testing.assert_allclose(x.std(ddof=1).item(), array.std(ddof=1), rtol=1e-6)
    assert x.mean(dtype=ef.float64).dtype is ef.float64
    assert x.round(1).tolist() == ef.round(x, 1).tolist()
    assert round(x[1, 1], 1).item() == pytest.approx(0.3)
    assert [part.tolist() for part in divmod(ef.tensor([7, -7]), 3)] == [[2, -3], [1, 2]]
    with pytest.raises(TypeError, match=r"Tensor\.sum\(\)"):
        x.sum(dim=0)
