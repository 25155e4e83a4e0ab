"""Recurrent layers and cells against PyTorch: outputs, last states and gradients of a table.

The values were recorded by ``python -m tests.nn.recurrent.record``; `test_live` compares with
PyTorch itself where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import nn
from tests.each import check_each, in_groups, names_of
from tests.nn.recurrent.settings import (
    HIDDEN,
    INPUTS,
    TARGET,
    Setting,
    cotangent_of,
    input_of,
    rows,
    starts_of,
    variable_of,
)
from tests.nn.settings import unpack
from tests.nn.test_recorded import Arrays, assert_close

RECORDED = unpack(TARGET)
#: relative to the largest number of an array
TOLERANCES = {ef.float64: 1e-13, ef.float32: 1e-5}


def recorded(setting: Setting) -> Arrays:
    start = f"{setting.name}/"
    return {k.removeprefix(start): v for k, v in RECORDED.items() if k.startswith(start)}


def layer_of(setting: Setting, dtype: Any) -> nn.Module:
    layer: nn.Module = getattr(nn, setting.layer)(INPUTS, HIDDEN, **setting.options, dtype=dtype)
    layer.load_state(
        {
            path: variable_of(setting, path, v.shape).astype(dtype.name)
            for path, v in layer.state.items()
        }
    )
    return layer


def run(setting: Setting, dtype: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Arrays:
    """Outputs, last states and gradients by name, as of `with_torch.run`."""
    layer = layer_of(setting, dtype)
    x = ef.tensor(input_of(setting), dtype=dtype)
    starts = [ef.tensor(s, dtype=dtype) for s in starts_of(setting)] if setting.starts else []
    names = [name for name, _ in setting.states]
    options = {} if setting.lengths is None else {"lengths": ef.tensor(setting.lengths)}
    weights = {
        name: ef.tensor(cotangent_of(setting, name, y.shape), dtype=dtype)
        for name, y in recorded(setting).items()
        if name in ("out", "h", "c")
    }

    @wrap
    def step(x: Any, starts: Any, options: Any, weights: Any) -> Any:
        with ef.GradientTape() as tape:
            for y in (x, *starts):
                tape.watch(y)
            hx = (tuple(starts) if len(starts) == 2 else starts[0]) if starts else None
            outputs = layer(x, hx, **options)
            out, state = (
                ({}, outputs) if "Cell" in setting.layer else ({"out": outputs[0]}, outputs[1])
            )
            out |= zip(names, state if isinstance(state, tuple) else (state,), strict=True)
            loss = sum((y * weights[name]).sum() for name, y in out.items())
        sources = {"x": x, **layer.parameters, **{f"start {i}": s for i, s in enumerate(starts)}}
        return out | {f"d {name}": g for name, g in tape.gradient(loss, sources).items()}

    return {name: y.numpy() for name, y in step(x, starts, options, weights).items()}


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
@pytest.mark.parametrize("setting", rows(), ids=str)
def test_live(setting: Setting) -> None:
    pytest.importorskip("torch")
    from tests.nn.recurrent import with_torch

    assert_close(run(setting, ef.float64), with_torch.run(setting), TOLERANCES[ef.float64])


def test_nothing_is_recorded_that_is_not_in_the_table() -> None:
    assert {k.partition("/")[0] for k in RECORDED} == {s.name for s in rows()}
