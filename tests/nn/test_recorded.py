"""Layers against PyTorch: outputs, gradients and buffers of a table of settings.

The values were recorded by ``python -m tests.nn.record_layers``; `test_live` compares with PyTorch
itself where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import nn
from tests.each import check_each, in_groups, names_of
from tests.nn.settings import (
    Setting,
    cotangent_of,
    inputs_of,
    mask_of,
    rows,
    state_of,
    unpack,
)

Arrays = dict[str, np.ndarray[Any, Any]]
RECORDED = unpack()

#: errors relative to the largest number of an array; arrays are sums of some hundred products
TOLERANCES = {ef.float64: 1e-13, ef.float32: 1e-5}
#: layers without variables, which have no dtype to choose
PLAIN = ("Pool", "Flatten")


def recorded(setting: Setting) -> Arrays:
    start = f"{setting.name}/"
    return {k.removeprefix(start): v for k, v in RECORDED.items() if k.startswith(start)}


def layer_of(setting: Setting, dtype: Any) -> nn.Module:
    options = dict(setting.options)
    if not any(word in setting.layer for word in PLAIN):
        options["dtype"] = dtype
    layer: nn.Module = getattr(nn, setting.layer)(*setting.args, **options)
    layer.train(setting.training)
    state = state_of(setting, {path: v.shape for path, v in layer.state.items()})
    layer.load_state(
        {k: v.astype(np.int64 if v.dtype.kind == "i" else dtype.name) for k, v in state.items()}
    )
    return layer


def options_of(setting: Setting, dtype: Any) -> dict[str, Any]:
    """The keyword arguments of the layer's call."""
    mask = mask_of(setting) if setting.mask else None
    if mask is None:
        return {"is_causal": True} if setting.mask == "causal" else {}
    mask = mask[:, None, None, :] if setting.mask == "padding" else mask
    of = "memory_mask" if "Decoder" in setting.layer else "mask"
    return {of: ef.tensor(mask, dtype=None if mask.dtype == bool else dtype)}


def run(setting: Setting, dtype: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Arrays:
    """Outputs, gradients and buffers by name, as of `torch_layers.run`."""
    layer = layer_of(setting, dtype)
    whole = setting.indices is not None
    inputs = [ef.tensor(x, dtype=ef.int64 if whole else dtype) for x in inputs_of(setting)]
    weights = ef.tensor(cotangent_of(setting, RECORDED[f"{setting.name}/out"].shape), dtype=dtype)

    @wrap
    def step(inputs: Any, weights: Any, options: Any) -> Any:
        with ef.GradientTape() as tape:
            for x in [] if whole else inputs:
                tape.watch(x)
            out = layer(*inputs, **options)
            loss = (out * weights).sum()
        sources = {f"input {i}": x for i, x in enumerate([] if whole else inputs)}
        gradients = tape.gradient(loss, sources | layer.parameters)
        return {"out": out} | {name: dense(x) for name, x in gradients.items()}

    arrays = step(inputs, weights, options_of(setting, dtype))
    arrays |= {f"after {path}": v for path, v in layer.buffers.items()}
    return {name: x.numpy() for name, x in arrays.items()}


def dense(gradient: Any) -> Any:
    return ef.asarray(gradient.to_dense() if hasattr(gradient, "to_dense") else gradient)


def assert_close(arrays: Arrays, expected: Arrays, tolerance: float) -> None:
    assert arrays.keys() == expected.keys()
    for name, x in expected.items():
        assert arrays[name].shape == x.shape, name
        scale = max(abs(x).max(initial=0.0), 1.0)
        np.testing.assert_allclose(arrays[name], x, rtol=0, atol=tolerance * scale, err_msg=name)


GROUPS = in_groups(rows())


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("settings", GROUPS, ids=names_of)
def test_recorded(settings: list[Setting], dtype: Any) -> None:
    check_each(((setting, dtype) for setting in settings), _is_as_recorded)


def _is_as_recorded(setting: Setting, dtype: Any) -> None:
    assert_close(run(setting, dtype), recorded(setting), TOLERANCES[dtype])


@pytest.mark.parametrize("settings", GROUPS, ids=names_of)
def test_traced_is_bit_for_bit_the_same(settings: list[Setting]) -> None:
    check_each(settings, _traced_is_eager)


def _traced_is_eager(setting: Setting) -> None:
    eager, traced = run(setting, ef.float32), run(setting, ef.float32, ef.trace)
    for name, x in eager.items():
        np.testing.assert_array_equal(traced[name], x, err_msg=name)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("setting", rows(), ids=str)
def test_live(setting: Setting) -> None:
    pytest.importorskip("torch")
    from tests.nn import torch_layers

    assert_close(run(setting, ef.float64), torch_layers.run(setting), TOLERANCES[ef.float64])


def test_nothing_is_recorded_that_is_not_in_the_table() -> None:
    assert {k.partition("/")[0] for k in RECORDED} == {s.name for s in rows()}
