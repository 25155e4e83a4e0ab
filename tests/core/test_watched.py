"""Arrays that tell whether somebody looked at their elements."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.watched import WatchedArray


@pytest.fixture
def array() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.shape,
        lambda a: a.dtype,
        lambda a: a.ndim + a.size,
        lambda a: isinstance(a, np.ndarray),
        lambda a: ef.asarray(a),
        lambda a: ef.tensor(a),
        lambda a: ef.ones((2, 3)) + a,
        lambda a: a + ef.ones((2, 3)),
        lambda a: a @ ef.ones((3, 2)),
        lambda a: ef.matmul(a, ef.ones((3, 2))),
    ],
)
def test_eagerflow_and_types_are_no_look(array, use) -> None:
    watched = WatchedArray.of(array)
    use(watched)
    assert not watched.looked


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a + 1,
        lambda a: 1 - a,
        lambda a: a @ a.T,
        lambda a: a[0],
        lambda a: a[a > 2],
        lambda a: a.sum(),
        lambda a: a.tolist(),
        lambda a: a.reshape(-1),
        lambda a: np.exp(a),
        lambda a: np.sum(a, axis=0),
        lambda a: np.concatenate([a, a]),
        lambda a: np.stack((a, a)),
        lambda a: np.add.reduce(a),
        lambda a: list(a),
        lambda a: len(a),
        lambda a: a.copy(),
        lambda a: a.T,
        lambda a: a.flat[0],
        lambda a: copy.deepcopy(a),
        lambda a: pickle.loads(pickle.dumps(a)),
        lambda a: np.add(a, 1, out=a),
        lambda a: np.linalg.norm(a),
    ],
)
def test_numpy_and_python_are_a_look_with_the_same_result(array, use) -> None:
    plain = array.copy()
    watched = WatchedArray.of(array)
    got, want = use(watched), use(plain)
    assert watched.looked
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    np.testing.assert_array_equal(array, plain)


def test_what_is_written_is_in_the_array(array) -> None:
    watched = same = WatchedArray.of(array)
    watched[0, 0] = 9.0
    watched += 1
    assert watched is same
    assert array[0, 0] == 10.0
    assert watched.looked
