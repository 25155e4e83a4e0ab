"""Softmax and related ops, beyond the table: portable kernels, labels, float16, huge sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import AxisError, DTypeError, TensorIndexError, TensorValueError
from eagerflow_kernels import table as kernels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 5)) * 4
LABELS = np.array([[0, 1, 2, 2, 1], [2, -1, 0, 0, 0], [1, 1, -1, 2, 0], [0, 2, 1, 1, -1]])

CLASSES = [
    {"axis": 1, "ignore_index": -1, "reduction": reduction} for reduction in ("mean", "sum", "none")
]

CALLS = [
    ("relu", (X,), {}),
    ("elu", (X,), {"alpha": 0.7}),
    ("softplus", (X * 200,), {}),
    *(("silu", (X,), {"order": order}) for order in (0, 1)),
    *(
        ("gelu", (X,), {"approximate": way, "order": order})
        for way in ("none", "tanh")
        for order in (0, 1)
    ),
    *((name, (X,), {"axis": axis}) for name in ("softmax", "log_softmax") for axis in (0, 1, 2)),
    *((name, (X[:0],), {"axis": 1}) for name in ("softmax", "log_softmax")),
    *(("softmax_cross_entropy", (X, LABELS), attrs) for attrs in CLASSES),
    *(
        ("softmax_cross_entropy", (X, LABELS, np.asarray(2.0 if attrs["reduction"] != "none"
                                                         else X[:, 0])), attrs)
        for attrs in CLASSES
    ),
    ("standardize", (X,), {"axis": (0, 2), "eps": 1e-5, "least": 2}),
    ("check_labels", (LABELS,), {"num_classes": 3, "ignore_index": -1, "of": "classes"}),
    ("where", (X > 0, X, 2 * X), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "attrs"), CALLS, ids=lambda v: str(v)[:30])
def test_portable_kernel(name: str, args: Any, attrs: dict[str, Any]) -> None:
    """The portable kernel gives the results of the CPU's kernel."""
    dtypes = tuple(a.dtype.name for a in args)
    portable = kernels.find(name, "none", dtypes, np)
    special = kernels.find(name, "cpu", dtypes, np)
    assert portable is not None
    assert special is not None
    got, want = portable(*args, **attrs), special(*args, **attrs)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_portable_loss_of_a_wrong_label_is_nan(reduction: str) -> None:
    """Kernels for accelerators do not wait for labels in order to check them."""
    kernel = kernels.find("softmax_cross_entropy", "none", ("float64", "int64"), np)
    assert kernel is not None
    attrs = {"axis": 1, "ignore_index": -1, "reduction": reduction}
    loss = kernel(X[:, :, 0], np.array([0, -2, -1, 3]), **attrs)
    np.testing.assert_array_equal(
        np.isnan(loss), [False, True, False, True] if reduction == "none" else True
    )
    g = np.ones(4 if reduction == "none" else ())
    gradient = kernel(X[:, :, 0], np.array([0, -2, -1, 3]), g, **attrs)
    np.testing.assert_array_equal(np.isnan(gradient).any(axis=1), [False, True, False, True])
    np.testing.assert_array_equal(gradient[2], 0)


def test_sums_of_float16_are_made_in_float32() -> None:
    x = np.zeros(5000, np.float16)
    np.testing.assert_array_equal(
        ef.softmax(ef.tensor(x)).numpy(), np.full(5000, np.float16(1 / 5000))
    )
    loss = ef.softmax_cross_entropy(ef.tensor(x), ef.tensor(7))
    assert float(loss) == np.float16(math.log(5000))
    out, mean, var = ef.standardize(ef.tensor(np.full((3, 70000), 2.0, np.float16)), axis=1)
    assert (mean == 2).all()
    assert (var == 0).all()
    assert (out == 0).all()


def test_relu_lets_nan_through_and_has_no_slope_at_0() -> None:
    x = ef.tensor([math.nan, 0.0, -0.0, -1.0, 1.0])
    np.testing.assert_array_equal(ef.relu(x).numpy(), [math.nan, 0, 0, 0, 1])
    gradient = ef.grad(lambda x: ef.relu(x).sum())(x)
    np.testing.assert_array_equal(gradient.numpy(), [1, 0, 0, 0, 1])


def test_relu_keeps_integers() -> None:
    assert ef.relu(ef.tensor([-1, 2])).dtype is ef.int64


def test_arguments_are_checked() -> None:
    x = ef.tensor(X[0])
    with pytest.raises(AxisError, match="softmax: axis 2 is out of range"):
        ef.softmax(x, axis=2)
    with pytest.raises(AxisError, match="log_softmax: axis 0 is out of range"):
        ef.log_softmax(ef.tensor(1.0), axis=0)
    with pytest.raises(TensorValueError, match="gelu: 'erf' is not a way to approximate"):
        ef.gelu(x, approximate="erf")
    with pytest.raises(DTypeError, match="the labels must be integers"):
        ef.softmax_cross_entropy(x, ef.ones(3))
    with pytest.raises(TensorValueError, match="'average' is not a reduction"):
        ef.softmax_cross_entropy(x, ef.tensor([0, 1, 2]), reduction="average")
    with pytest.raises(TensorIndexError, match="label 9 is out of range for 5 classes"):
        ef.softmax_cross_entropy(x, ef.tensor([0, 9, 2]))
    with pytest.raises(TensorValueError, match="too few values for each mean and variance: 3"):
        ef.standardize(x, axis=0, least=4)
    with pytest.raises(DTypeError, match="check_labels: no rule for f32"):
        ef.check_labels(ef.ones(3), 4)
