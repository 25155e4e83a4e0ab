"""Convolution, pooling and resizing against PyTorch, with random settings.

Values and gradients of first and second order in float64; each library refuses what the other does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from eagerflow.nn import functional as F

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # PyTorch's warning of a copy
]

Case = tuple[str, list[np.ndarray], dict[str, Any]]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def ours(name: str, arrays: list[np.ndarray], settings: dict[str, Any], ways: list[np.ndarray]):
    """The value, and the gradients of first and second order along random directions."""

    def value(*xs: ef.Tensor) -> ef.Tensor:
        return getattr(F, name)(*xs, **settings)

    def slope(*xs: ef.Tensor) -> ef.Tensor:
        out, pull = ef.vjp(value, *xs)
        gradients = pull(ef.cos(out))  # a cotangent that depends on the result
        return sum((g * w).sum() for g, w in zip(_tuple(gradients), ways, strict=True))

    tensors = [ef.tensor(a) for a in arrays]
    first = ef.grad(lambda *xs: ef.sin(value(*xs)).sum(), argnums=tuple(range(len(tensors))))
    second = ef.grad(slope, argnums=tuple(range(len(tensors))))
    results = [value(*tensors), *_tuple(first(*tensors)), *_tuple(second(*tensors))]
    return [x.numpy() for x in results]


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def theirs(torch, case: Case, ways: list[np.ndarray]):
    name, arrays, settings = case
    xs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(torch.nn.functional, name)(*xs, **settings)
    first = torch.autograd.grad(torch.sin(out).sum(), xs, retain_graph=True)
    pulled = torch.autograd.grad(out, xs, torch.cos(out), create_graph=True)
    slope = sum((g * torch.tensor(w)).sum() for g, w in zip(pulled, ways, strict=True))
    second = torch.autograd.grad(slope, xs, allow_unused=True)
    zeros = [torch.zeros_like(x) if g is None else g for g, x in zip(second, xs, strict=True)]
    return [x.detach().numpy() for x in (out, *first, *zeros)]


def compare(torch, case: Case, rng: np.random.Generator) -> bool:
    """Whether both libraries accept the case; if so, the results are compared."""
    name, arrays, settings = case
    ways = [rng.normal(size=a.shape) for a in arrays]
    try:
        want = theirs(torch, case, ways)
    except RuntimeError:
        with pytest.raises(EagerflowError):
            getattr(F, name)(*map(ef.tensor, arrays), **settings)
        return False
    got = ours(name, arrays, settings, ways)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, case
        scale = max(1.0, float(np.abs(w).max(initial=0)))
        np.testing.assert_allclose(g / scale, w / scale, atol=1e-10, err_msg=str(settings))
    return True


def _some(rng: np.random.Generator, axes: int, low: int, high: int) -> Any:
    """A random number for all axes, or one number per axis."""
    if rng.random() < 0.5:
        return int(rng.integers(low, high))
    return tuple(int(n) for n in rng.integers(low, high, axes))


def convolution(rng: np.random.Generator) -> Case:
    axes = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 2, 3]))
    inner, each = (int(n) for n in rng.integers(1, 4, 2))
    sizes, kernel = rng.integers(2, 9, axes), rng.integers(1, 5, axes)
    x = rng.normal(size=(rng.integers(1, 4), inner * groups, *sizes))
    w = rng.normal(size=(each * groups, inner, *kernel))
    settings = {
        "stride": _some(rng, axes, 1, 4),
        "padding": _some(rng, axes, 0, 4),
        "dilation": _some(rng, axes, 1, 4),
        "groups": groups,
    }
    if rng.random() < 0.25:
        settings.update(padding=str(rng.choice(["same", "valid"])))
        settings["stride"] = 1 if settings["padding"] == "same" else settings["stride"]
    return f"conv{axes}d", [x, w, rng.normal(size=each * groups)], settings


def transposed(rng: np.random.Generator) -> Case:
    axes = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 2, 3]))
    inner, each = (int(n) for n in rng.integers(1, 4, 2))
    sizes, kernel = rng.integers(1, 6, axes), rng.integers(1, 5, axes)
    x = rng.normal(size=(rng.integers(1, 4), inner * groups, *sizes))
    w = rng.normal(size=(inner * groups, each, *kernel))
    settings = {
        "stride": _some(rng, axes, 1, 4),
        "padding": _some(rng, axes, 0, 3),
        "output_padding": _some(rng, axes, 0, 3),
        "dilation": _some(rng, axes, 1, 4),
        "groups": groups,
    }
    return f"conv_transpose{axes}d", [x, w, rng.normal(size=each * groups)], settings


def pooling(rng: np.random.Generator) -> Case:
    axes = int(rng.integers(1, 4))
    least = 3 if axes == 3 else 1  # PyTorch's avg_pool3d wants the window to fit without padding
    x = rng.normal(size=(rng.integers(1, 4), 2, *rng.integers(least, 9, axes)))
    if rng.random() < 0.3:
        x = np.round(x)  # with ties
    settings = {
        "kernel_size": _some(rng, axes, 1, 4),
        "padding": _some(rng, axes, 0, 2),
        "ceil_mode": bool(rng.random() < 0.5),
    }
    if rng.random() < 0.7:
        settings["stride"] = _some(rng, axes, 1, 4)
    if rng.random() < 0.5:
        if settings["padding"] == 0:  # PyTorch crashes where a window sees padding alone
            settings["dilation"] = _some(rng, axes, 1, 4)
        return f"max_pool{axes}d", [x], settings
    settings["count_include_pad"] = bool(rng.random() < 0.5)
    if axes > 1 and rng.random() < 0.3:
        settings["divisor_override"] = 5
    return f"avg_pool{axes}d", [x], settings


def adaptive(rng: np.random.Generator) -> Case:
    axes = int(rng.integers(1, 4))
    x = rng.normal(size=(rng.integers(1, 4), 2, *rng.integers(1, 9, axes)))
    kind = rng.choice(["avg", "max"])
    return f"adaptive_{kind}_pool{axes}d", [x], {"output_size": _some(rng, axes, 1, 7)}


def resizing(rng: np.random.Generator) -> Case:
    axes = int(rng.integers(1, 3))
    x = rng.normal(size=(rng.integers(1, 3), 2, *rng.integers(1, 9, axes)))
    mode = str(rng.choice(["nearest", "nearest-exact", "area", ("linear", "bilinear")[axes - 1]]))
    settings: dict[str, Any] = {"mode": mode}
    if rng.random() < 0.5:
        settings["size"] = _some(rng, axes, 1, 12)
    else:
        settings["scale_factor"] = float(rng.choice([0.5, 0.75, 1.5, 2.0, 2.5, 3.0]))
    if mode.endswith("linear"):
        settings["align_corners"] = bool(rng.random() < 0.5)
    return "interpolate", [x], settings


KINDS: dict[str, Callable[[np.random.Generator], Case]] = {
    "convolution": convolution,
    "transposed": transposed,
    "pooling": pooling,
    "adaptive": adaptive,
    "resizing": resizing,
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_settings(torch, kind: str) -> None:
    accepted = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        accepted += compare(torch, KINDS[kind](rng), rng)
    assert accepted > 40


@pytest.mark.parametrize("name", ["max_pool2d", "adaptive_max_pool2d", "max_pool3d"])
def test_indices(torch, name: str) -> None:
    x = np.round(
        np.random.default_rng(0).normal(size=(2, 3, 7, 6, 5)[: 5 if "3d" in name else 4]), 1
    )
    values, indices = getattr(F, name)(ef.tensor(x), 3, return_indices=True)
    want, places = getattr(torch.nn.functional, name)(torch.tensor(x), 3, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), want.numpy())
    np.testing.assert_array_equal(indices.numpy(), places.numpy())


def test_pixels(torch) -> None:
    x = np.arange(96.0).reshape(2, 12, 2, 2)
    want = torch.nn.functional.pixel_shuffle(torch.tensor(x), 2).numpy()
    np.testing.assert_array_equal(F.pixel_shuffle(ef.tensor(x), 2).numpy(), want)
    np.testing.assert_array_equal(F.pixel_unshuffle(ef.tensor(want), 2).numpy(), x)
