"""Native kernels of networks: close to float64, with equal bits within a region and alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from eagerflow_kernels import table
from eagerflow_kernels.cpu import softmax as _softmax  # noqa: F401 - registers its kernels
from eagerflow_kernels.native.callable_ops import native_kernel, native_ufunc
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.loop_form import LoopArray
from eagerflow_kernels.native.op_rules import OPS
from eagerflow_kernels.portable import activations as _activations  # noqa: F401 - likewise
from tests.kernels.native.compiling import elements, needs_compiler, same

pytestmark = needs_compiler

Array = np.ndarray[Any, Any]

_ATTRIBUTES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("leaky_relu", {"slope": 0.01}),
    ("elu", {"alpha": 0.75}),
    ("hardtanh", {"low": -0.7, "high": 1.3}),
    ("gelu", {"approximate": "none", "order": 0}),
    ("gelu", {"approximate": "none", "order": 1}),
    ("silu", {"order": 0}),
    ("silu", {"order": 1}),
    ("gelu", {"approximate": "tanh", "order": 0}),
    ("gelu", {"approximate": "tanh", "order": 1}),
]


def _native(name: str, *dtypes: str) -> Callable[..., Any]:
    kernel = native_kernel(name, dtypes)
    assert kernel is not None
    return kernel


def _portable(name: str, *dtypes: str) -> Callable[..., Any]:
    kernel = table.find(name, "cpu", dtypes, np)
    assert kernel is not None
    return kernel


@pytest.mark.parametrize(("name", "attrs"), _ATTRIBUTES)
def test_activations(name: str, attrs: dict[str, Any]) -> None:
    x = np.concatenate([np.linspace(-30, 30, 4001), [0.0, -0.0, 1e-30, 1e4, -1e4]])
    exact = _portable(name, "float64")(x, **attrs)
    for dtype, unit in (("float32", 2**-23), ("float64", 2**-52)):
        values = _native(name, dtype)(x.astype(dtype), **attrs)
        # the inputs are rounded, too; far below 0 differences have few significant digits
        close = np.abs(values - exact) <= 32 * unit * np.maximum(np.abs(exact), 1.0)
        assert np.all(close), (dtype, x[~close][:3], values[~close][:3], exact[~close][:3])


@pytest.mark.parametrize("axis", [(1,), (0,), (0, 2), (0, 1, 2)])
def test_standardize(axis: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(3, 2, size=(4, 5, 70)).astype(np.float32)
    wide = x.astype(np.float64)
    mean, var = wide.mean(axis, keepdims=True), wide.var(axis, keepdims=True)
    exact = ((wide - mean) / np.sqrt(var + 1e-5), mean, var)
    results = _native("standardize", "float32")(x, axis=axis, eps=1e-5, least=0)
    for a, b in zip(results, exact, strict=True):
        assert a.shape == b.shape
        assert np.allclose(a, b, rtol=2e-6, atol=2e-6)
    with pytest.raises(ValueError, match="too few values"):
        _native("standardize", "float32")(x[:1, :1, :1], axis=axis, eps=1e-5, least=2000)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy(reduction: str, ignored: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 11)).astype(np.float32) * 5
    labels = rng.integers(0, 11, 30)
    g = rng.normal(size=30 if reduction == "none" else ()).astype(np.float32)
    attrs = {"axis": 1, "ignore_index": ignored, "reduction": reduction}
    kinds = ("float32", "int64")
    loss = _native("softmax_cross_entropy", *kinds)(x, labels, **attrs)
    both = _native("softmax_cross_entropy_with_gradient", *kinds, "float32")(x, labels, g, **attrs)
    slope = _native("softmax_cross_entropy", *kinds, "float32")(x, labels, g, **attrs)
    assert same(np.asarray(loss), np.asarray(both[0]))
    assert same(slope, both[1])
    portable = _portable("softmax_cross_entropy", "float64", "int64")
    wide = x.astype(np.float64)
    assert np.allclose(loss, portable(wide, labels, **attrs), rtol=1e-5, atol=1e-6)
    assert np.allclose(slope, portable(wide, labels, g.astype("f8"), **attrs), rtol=1e-4, atol=1e-6)
    with pytest.raises(IndexError, match="label 11 is out of range"):
        _native("softmax_cross_entropy", *kinds)(x, np.full(30, 11), **attrs)


def test_cross_entropy_of_scores_that_are_all_minus_infinity() -> None:
    """NaN, without a warning, as for other native kernels: it would name a line of the kernel."""
    scores = np.full((2, 3), -np.inf, np.float32)
    attrs = {"axis": 1, "ignore_index": -100, "reduction": "none"}
    kernel = _native("softmax_cross_entropy", "float32", "int64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(kernel(scores, np.array([0, 2]), **attrs)).all()


def _attributes(name: str) -> dict[str, Any]:
    whole = next((attrs for known, attrs in _ATTRIBUTES if known == name), {})
    known = (*OPS[name].takes, *OPS[name].numbers)
    return {key: value for key, value in whole.items() if key in known}


@pytest.mark.parametrize(
    "name", sorted(o.name for o in OPS.values() if not (o.along_axis or o.hands_on or o.condition))
)
def test_in_a_region_as_alone(name: str) -> None:
    """With an op before it and one after it, each op has the bits of the op alone."""
    if name == "cast":
        pytest.skip("its result has another kind")
    rng = np.random.default_rng(0)
    op, row = OPS[name], LoopArray("f32")
    inputs = [row] * op.inputs
    before = [FusedNode("multiply", (i, i)) for i in range(op.inputs)]
    made = range(op.inputs, 2 * op.inputs)
    nodes = [*before, FusedNode(name, tuple(made), _attributes(name))]
    region = NativeRegion(fuse(f"with_{name}", inputs, nodes, [2 * op.inputs]))
    arrays = [elements(rng, "f32", (333,)) for _ in range(op.inputs)]
    squares = [native_ufunc("multiply", "f32", "f32")(x, x) for x in arrays]
    attrs = _attributes(name)
    numbers = [np.float32(attrs.pop(number)) for number in op.numbers]
    alone = native_ufunc(name, *["f32"] * op.inputs, **attrs)
    assert same(region(*arrays), alone(*squares, *numbers))
