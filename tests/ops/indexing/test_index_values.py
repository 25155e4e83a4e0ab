"""Index expressions: their error messages, the values accepted, and the devices of the values."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.ops.indexing.test_getitem import _path


@pytest.mark.parametrize("through_ops", [False, True], ids=["plain", "ops"])
def test_messages_speak_of_the_index(through_ops) -> None:
    x = ef.zeros((3, 4))
    with _path(through_ops), pytest.raises(errors.TensorIndexError) as caught:
        x[[5]]
    assert str(caught.value).startswith("index 5 is out of range for axis 0 with size 3\n  got: x=")
    assert "take" not in str(caught.value).partition("at:")[0]
    with _path(through_ops), pytest.raises(errors.TensorIndexError) as caught:
        x[[0, 7]] = 1.0
    assert str(caught.value).startswith("index 7 is out of range for axis 0 with size 3")
    with _path(through_ops), pytest.raises(errors.ShapeError) as caught:
        x[0] = ef.ones((2, 4))
    words = str(caught.value).partition("at:")[0]
    assert "got: x=f32[3,4]@cpu:0, value=f32[2,4]@cpu:0" in words
    assert "index_update" not in words
    assert "unique" not in words


@pytest.mark.parametrize("index", [2**63, 2**64 - 1])
@pytest.mark.parametrize("wrap", [lambda i: i, lambda i: (i,), lambda i: (slice(None), i)])
def test_indices_of_uint64_do_not_wrap(index, wrap) -> None:
    x = ef.zeros((3, 3))
    key = wrap(ef.tensor([index], dtype="uint64"))
    for act in (lambda: x[key], lambda: x.__setitem__(key, 1.0), lambda: ef.index_add(x, key, 1.0)):
        with pytest.raises(errors.TensorIndexError, match=f"index {index} is out of range"):
            act()
    np.testing.assert_array_equal(x.numpy(), 0)
    x[ef.tensor([2], dtype="uint64")] = 1.0
    assert x[ef.tensor([2, 1], dtype="uint64")].tolist() == [[1.0] * 3, [0.0] * 3]


def test_a_greater_kind_does_not_go_into_a_tensor_by_any_way() -> None:
    x = ef.zeros((3, 2), dtype="int64")
    for act in (
        lambda: ef.index_update(x, 0, 1.5),
        lambda: ef.index_add(x, 0, 1.5),
        lambda: ef.scatter_update(x, [0], 1.5),
        lambda: ef.scatter_add(x, [0], [[1.5, 1.5]]),
        lambda: ef.update_along_axis(x, [[0]], np.float32(1.5), axis=0),
    ):
        with pytest.raises(errors.DTypeError, match="do not fit into i64"):
            act()


def test_host_values_go_to_the_device_of_the_tensor() -> None:
    with ef.config(cpu_devices=2):
        x = ef.zeros((3, 2), device="cpu:1")
        x[0] = np.ones(())
        x[1] = np.float32(2)
        x[[2]] = np.array([3.0, 4.0])
        assert x.device == "cpu:1"
        assert x.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]
