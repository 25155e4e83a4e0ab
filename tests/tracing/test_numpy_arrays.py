"""Stand-ins for NumPy arrays in a trace: for known arrays, and for arrays that the graph computes.

Programs with them: `tests/function/expectations/arrays.py`.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.numpy_functions import FUNCTIONS, UFUNCS
from tests.each import check_each

# --- arrays from outside ------------------------------------------------------------------------


@pytest.fixture
def array() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.shape,
        lambda a: a.dtype,
        lambda a: len(a),
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
    watched = TracedArray.of(array, "table")
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
    watched = TracedArray.of(array, "table")
    got, want = use(watched), use(plain)
    assert watched.looked
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    np.testing.assert_array_equal(array, plain)


def test_what_is_written_is_in_the_array(array) -> None:
    watched = same = TracedArray.of(array, "table")
    watched[0, 0] = 9.0
    watched += 1
    assert watched is same
    assert array[0, 0] == 10.0
    assert watched.looked


# --- arguments ----------------------------------------------------------------------------------

DTYPES = ("?", "B", "H", "I", "Q", "b", "h", "i", "q", "e", "f", "d", "F", "D")


def _elements(code: str, shift: int = 0) -> np.ndarray:
    """Elements of a dtype with the extreme ones among them, of another order for each ``shift``."""
    rng = np.random.default_rng(shift)
    dtype = np.dtype(code)
    if dtype.kind == "b":
        x = rng.integers(0, 2, 24).astype(bool)
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, 24, dtype=dtype, endpoint=True)
        x[:7] = np.array([0, 0, 1, 2, 3, info.min, info.max], dtype)
    else:
        x = (rng.normal(size=24) * 10).astype(dtype)
        x += dtype.type(1j) * x[::-1] if dtype.kind == "c" else dtype.type(0)
        x[:8] = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 2, 0.5]).astype(dtype)
    return np.roll(x, 5 * shift)


def _finite(code: str) -> np.ndarray:
    return np.nan_to_num(_elements(code), nan=1, posinf=2, neginf=3)


def _bits(x: Any) -> Any:
    if isinstance(x, list):
        return [_bits(y) for y in x]
    return type(x), x.dtype, x.shape, x.tobytes()


def _compare(function: Callable[..., Any], *arrays: Any) -> bool:
    """Whether a trace gives what NumPy gives, bit for bit; False if it refuses."""
    with np.errstate(all="ignore"):
        try:
            want = function(*arrays)
        except (TypeError, ValueError):  # NumPy itself does not compute it
            return False
        traced = ef.trace(function)
        refusal = ""
        try:
            got = [traced(*arrays), traced(*arrays)]
        except TraceError as error:
            refusal = str(error)
    if refusal:
        assert "ef.asarray(" in refusal
        return False
    assert [_bits(x) for x in got] == [_bits(want)] * 2, [x.dtype for x in arrays]
    return True


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_ufuncs_have_the_bits_of_numpy(ufunc: Any) -> None:
    taken = 0
    for codes in itertools.product(DTYPES, *["BqfdD"] * (ufunc.nin - 1)):
        arrays = [_elements(code, i) for i, code in enumerate(codes)]
        if ufunc is np.matmul:
            arrays = [_finite(codes[0]).reshape(4, 6), _finite(codes[1]).reshape(6, 4)]
        taken += _compare(lambda *xs: ufunc(*xs), *arrays)
    assert taken >= (5 if ufunc.nin == 1 else 15), taken


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a * b, lambda a, b: a / b,
    lambda a, b: b / a, lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a == b,
    lambda a, b: a < b, lambda a, b: b >= a, lambda a, b: a**b,
]  # fmt: skip


@pytest.mark.parametrize("number", [2, True, 2.0, 0.5, np.float32(3), np.int16(-2)])
def test_operators_with_numbers(number: Any) -> None:
    check_each(((code, number) for code in DTYPES), _operators_have_the_bits_of_numpy)


def _operators_have_the_bits_of_numpy(code: str, number: Any) -> None:
    taken = [_compare(lambda x, f=f: f(x, number), _elements(code)) for f in OPERATORS]
    assert sum(taken) >= 3


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "max", "min", "any", "all"]


def _layouts(code: str) -> Iterator[np.ndarray]:
    yield _finite(code)
    yield _finite(code).reshape(4, 6).T
    yield np.arange(9_000).reshape(90, 100).astype(code)
    yield np.random.default_rng(0).normal(size=(3, 40, 50)).astype(code)[::2, :, ::3]
    yield _elements(code).reshape(2, 3, 4)


@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "argmin", "cumsum", "cumprod"])
def test_reductions_have_the_bits_of_numpy(name: str) -> None:
    check_each(((name, code) for code in DTYPES), _reduces_as_numpy)


def _reduces_as_numpy(name: str, code: str) -> None:
    function = getattr(np, name)
    for x in _layouts(code):
        axes = (None, 0, -1, *([(0, 1)] if x.ndim > 1 and name in REDUCTIONS else []))
        if code not in "eFD":  # nothing is refused: one trace is enough
            assert _compare(lambda x, axes=axes: [function(x, axis=a) for a in axes], x), x.dtype
            continue
        for axis in axes:
            _compare(lambda x, axis=axis: function(x, axis=axis), x)
        if name in REDUCTIONS and code in "Bid":
            assert _compare(lambda x: getattr(x, name)(0, keepdims=True), x)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: np.reshape(x, (6, -1)),
    "method reshape": lambda x: x.reshape(2, 12),
    "ravel": lambda x: np.ravel(x.T),
    "transpose": lambda x: x.transpose(1, 0),
    "T": lambda x: x.T,
    "squeeze": lambda x: np.squeeze(x[None]),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "flip": lambda x: np.flip(x, 1),
    "index": lambda x: x[1:, ::-2],
    "row": lambda x: x[-1],
    "element": lambda x: x[1, 2],
    "newaxis": lambda x: x[:, None, ..., 0],
    "whole element": lambda x: x[0, 0, ...],
    "mask": lambda x: x[x != 1],
    "rows": lambda x: x[[3, 0, 3]],
    "clip": lambda x: np.clip(x, 1, 2),
    "clip below": lambda x: x.clip(2, None),
    "concatenate": lambda x: np.concatenate([x, np.ones((1, 6), np.int16), x[:1]]),
    "stack": lambda x: np.stack([x, x / 2], 1),
    "stack names": lambda x: np.stack((x, x), axis=-1),
    "hstack": lambda x: np.hstack([x, x]),
    "vstack": lambda x: np.vstack([x[0], x]),
    "repeat": lambda x: x.repeat(2, axis=1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "roll": lambda x: np.roll(x, 2, axis=0),
    "round": lambda x: np.round(x),
    "take": lambda x: np.take(x, [1, 0], axis=1),
    "where": lambda x: np.where(x == 1, x, 0.0),
    "where both": lambda x: np.where(x == x, x, np.float32(1)),
    "zeros_like": lambda x: np.zeros_like(x),
    "full_like": lambda x: np.full_like(x, 1),
    "copy": lambda x: x.copy(),
    "flatten": lambda x: x.flatten(),
    "astype": lambda x: x.astype(np.float64) if x.dtype.kind != "c" else x.astype("F"),
    "astype int": lambda x: (x * 0 == 0).astype(int),
    "diff": lambda x: np.diff(x, axis=1),
    "outer": lambda x: np.outer(x, x[0]),
    "dot": lambda x: x.dot(x.T),
    "dot of vectors": lambda x: np.dot(x[0], x[1]),
    "count_nonzero": lambda x: x + np.count_nonzero(x),
    "own in place": lambda x: _in_place(x + x),
}


def _in_place(own: Any) -> Any:
    own += 1
    own[0] = own[1]
    own[:, 2] *= 2
    return own


@pytest.mark.parametrize("name", SHAPES)
def test_functions_have_the_bits_of_numpy(name: str) -> None:
    refused = "".join(c for c in DTYPES if not _compare(SHAPES[name], _layout(c)))
    allowed = {"round": "?bBhHiIqQeFD", "clip": "FD", "clip below": "FD", "diff": "?"}
    allowed |= {"own in place": DTYPES}
    assert set(refused) <= set(allowed.get(name, "")), refused


def _layout(code: str) -> np.ndarray:
    return _finite(code).reshape(4, 6)


def test_all_counterparts_have_a_case() -> None:
    tested = " ".join([*SHAPES, *REDUCTIONS, "argmax argmin cumsum cumprod ones_like"])
    assert {f.__name__ for f in FUNCTIONS} - {"amax", "amin", "around"} <= set(tested.split())


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_kinds_of_arrays_that_behave_in_another_way_are_refused() -> None:
    f = ef.trace(lambda b: ef.asarray(b * b))
    with pytest.raises(TraceError, match=r"a matrix of[\s\S]*ef.asarray\(b\)"):
        f(np.matrix([[1.0, 2.0], [3.0, 4.0]]))


def test_a_memmap_is_one(tmp_path) -> None:
    array = np.memmap(tmp_path / "array", np.float32, "w+", shape=(3,))
    array[:] = [1, 2, 3]
    f = ef.trace(lambda b: (isinstance(b, np.memmap), b * 2))
    assert f(array)[0] is True
    assert f(array)[1].tolist() == [2.0, 4.0, 6.0]


@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_writes_by_functions_of_numpy_are_refused() -> None:
    array = np.arange(5.0)
    with pytest.raises(TraceError, match="others may see the memory"):
        ef.trace(lambda b: np.random.default_rng(0).shuffle(b))(array)
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_device_is_that_of_all_arrays_of_numpy() -> None:
    def f(b):
        with ef.device("cpu:1"):
            return ef.asarray(b), b * 2

    with ef.config(cpu_devices=2):
        tensor, array = ef.trace(f)(np.ones(2))
    assert str(tensor.device) == "cpu:1"
    assert array.tolist() == [2.0, 2.0]


def test_texts_show_what_the_graph_computes(capsys) -> None:
    @ef.trace
    def f(b):
        print(f"{b.mean():.2f}", b)
        ef.print(b, b[0])

    for factor in (1, 2):
        f(np.array([1.0, 2.0]) * factor)
    expected = "1.50 [1. 2.]\n[1. 2.] 1.0\n3.00 [2. 4.]\n[2. 4.] 2.0\n"
    assert capsys.readouterr().out == expected


def test_no_trace_stays_in_results() -> None:
    f = ef.trace(lambda b: {"twice": b * 2, "first": b[0], "rest": b[1:]})
    for result in (f(np.ones(2)), f(np.ones(2))):
        assert [type(x) for x in result.values()] == [np.ndarray, np.float64, np.ndarray]


def test_type_in_code_that_is_not_converted_is_told() -> None:
    names: dict[str, Any] = {"np": np}
    exec("def f(b): return b * 2 if type(b) is np.ndarray else b", names)
    with pytest.warns(ef.errors.TraceWarning, match=r"type\(\) of b .* isinstance"):
        ef.trace(names["f"])(np.ones(2))
