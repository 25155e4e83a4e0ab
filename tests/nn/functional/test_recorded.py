"""Functions against PyTorch: results, gradients and running statistics of a table of settings.

The values were recorded by ``python -m tests.nn.functional.record``; `test_live` compares with
PyTorch itself where that is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.nn import functional as F
from tests.each import check_each, in_groups, names_of
from tests.nn.functional.settings import TARGET, Setting, cotangent_of, rows

Arrays = dict[str, np.ndarray[Any, Any]]


def _unpack() -> Arrays:
    with np.load(TARGET) as archive:
        index, values = json.loads(str(archive["index"])), archive["values"]
    arrays, start = {}, 0
    for key, shape in index.items():
        count = math.prod(shape)
        arrays[key] = values[start : start + count].reshape(shape)
        start += count
    return arrays


RECORDED = _unpack()
TOLERANCES = {ef.float64: 1e-12, ef.float32: 2e-5}
#: PyTorch rounds 1/6, alpha and the least product of probabilities to float32; among numbers near
#: 1000 the mean's last bit is visible, which depends on the order of the sum
LOOSE = {"hardsigmoid": 1e-8, "celu alpha": 1e-7, "layer_norm offset": 1e-11} | {
    f"binary_cross_entropy edges {r}": 1e-8 for r in ("mean", "sum", "none")
}

#: float32 has few digits left for differences among numbers near 1000
LOOSE_FLOAT32 = {"layer_norm offset": 2e-3}


def recorded(setting: Setting) -> Arrays:
    start = f"{setting.name}/"
    return {k.removeprefix(start): v for k, v in RECORDED.items() if k.startswith(start)}


def run(setting: Setting, dtype: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Arrays:
    """Results and gradients by name, as of `torch_functions.run`."""

    def made(i: int, x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)):
            return x
        tensor = ef.tensor(x, dtype=dtype if x.dtype.kind == "f" else None)
        return ef.Variable(tensor, trainable=False) if i in setting.running else tensor

    args = [made(i, x) for i, x in enumerate(setting.args)]
    options = {k: made(-1, v) for k, v in setting.options.items()}
    wrt = setting.differentiable
    weights = cotangent_of(setting, RECORDED[f"{setting.name}/out"].shape)

    def function(*xs: Any) -> Any:
        given = dict(zip(wrt, xs, strict=True))
        whole = [given.get(i, x) for i, x in enumerate(args)]
        return getattr(F, setting.function)(*whole, **options)

    @wrap
    def step(inputs: Any, weights: Any) -> Any:
        if not wrt:
            return {"out": function()}
        out, pull = ef.vjp(function, *inputs)
        gradients = pull(weights)
        rest = zip(wrt, gradients, inputs, strict=True)
        return {"out": out} | {f"gradient {i}": dense(g, x) for i, g, x in rest}

    with np.errstate(all="ignore"):
        arrays = step([args[i] for i in wrt], ef.tensor(weights, dtype=dtype))
    arrays |= {f"after {i}": args[i] for i in setting.running}
    return {name: x.numpy() for name, x in arrays.items()}


def dense(gradient: Any, like: Any) -> Any:
    if gradient is None:
        return ef.zeros_like(like)
    return gradient.to_dense() if isinstance(gradient, ef.IndexedSlices) else gradient


def assert_close(arrays: Arrays, expected: Arrays, tolerance: float) -> None:
    assert arrays.keys() == expected.keys()
    for name, x in expected.items():
        assert arrays[name].shape == x.shape, name
        finite = x[np.isfinite(x)]
        scale = max(abs(finite).max(initial=0.0), 1.0)
        np.testing.assert_allclose(arrays[name], x, rtol=0, atol=tolerance * scale, err_msg=name)


GROUPS = in_groups(rows())


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("settings", GROUPS, ids=names_of)
def test_recorded(settings: list[Setting], dtype: Any) -> None:
    check_each(((setting, dtype) for setting in settings), _is_as_recorded)


def _is_as_recorded(setting: Setting, dtype: Any) -> None:
    loose = LOOSE if dtype is ef.float64 else LOOSE_FLOAT32
    tolerance = max(TOLERANCES[dtype], loose.get(setting.name, 0))
    assert_close(run(setting, dtype), recorded(setting), tolerance)


@pytest.mark.parametrize("settings", GROUPS, ids=names_of)
def test_traced_is_bit_for_bit_the_same(settings: list[Setting]) -> None:
    check_each(settings, _traced_is_eager)


def _traced_is_eager(setting: Setting) -> None:
    eager, traced = run(setting, ef.float32), run(setting, ef.float32, ef.trace)
    for name, x in eager.items():
        np.testing.assert_array_equal(traced[name], x, err_msg=name)


@pytest.mark.peer
@pytest.mark.parametrize("setting", rows(), ids=str)
def test_live(setting: Setting) -> None:
    pytest.importorskip("torch")
    from tests.nn.functional import torch_functions

    assert_close(run(setting, ef.float64), torch_functions.run(setting), 1e-7)


def test_every_setting_is_recorded_and_no_other() -> None:
    assert {k.rpartition("/")[0] for k in RECORDED} == {s.name for s in rows()}
    assert len({s.name for s in rows()}) == len(rows())
