"""Trajectories over 100 steps, compared with what `record_trajectories` recorded of PyTorch's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from tests.optim import record_trajectories
from tests.optim.trajectories import (
    RECORDED,
    SETTINGS,
    STEPS,
    Setting,
    gradient,
    phase,
    rows,
    start,
)

#: of the largest value; float64 differs in the order of operations, float32 adds up its rounding
TOLERANCE = {"f64": 1e-12, "f32": 2e-5}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return json.loads(record_trajectories.FILE.read_text())


def make(setting: Setting, variable: ef.Variable, name: str | None = None) -> Any:
    options = dict(setting.options)
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    return getattr(ef.optim, name or setting.name)([variable], **options)


def run(setting: Setting, dtype: Any, traced: bool, name: str | None = None) -> np.ndarray:
    """The parameter after each of the recorded steps."""
    x = ef.Variable(start(), dtype=dtype)
    phases = ef.tensor(phase(), dtype=dtype)
    optimiser = make(setting, x, name)

    def step(t: float, i: ef.Tensor) -> None:
        if setting.sparse:
            some = gradient(ef, ef.take(x, i, axis=0), ef.take(phases, i, axis=0), t)
            optimiser.update([ef.IndexedSlices(some, i, x.shape)])
        else:
            optimiser.update([gradient(ef, x.value, phases, t)])

    stepped = ef.trace(step) if traced else step
    found = []
    for t in range(1, STEPS + 1):
        stepped(float(t), ef.tensor(rows(t)))
        if t in RECORDED:
            found.append(x.numpy())
    if traced:
        assert len(stepped.traces) == 1
    return np.stack(found)


def assert_near(found: np.ndarray, expected: Any, tolerance: float) -> None:
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def test_there_are_values_of_all_settings(recorded: dict[str, Any]) -> None:
    assert list(recorded) == ["torch", *map(str, SETTINGS)]
    assert record_trajectories.FILE.stat().st_size < 200_000


@pytest.mark.parametrize("dtype", [ef.float64, ef.float32], ids=lambda d: d.short)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_equal_to_pytorch(setting: Setting, dtype: Any, recorded: dict[str, Any]) -> None:
    eager = run(setting, dtype, traced=False)
    assert_near(eager, recorded[str(setting)], TOLERANCE[dtype.short])
    np.testing.assert_array_equal(run(setting, dtype, traced=True), eager)


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.name == "SGD" and "momentum" in s.options], ids=str
)
def test_momentum_is_sgd_with_momentum(setting: Setting) -> None:
    if "dampening" in setting.options:
        pytest.skip("of SGD alone")
    ours = run(setting, ef.float64, traced=False, name="Momentum")
    np.testing.assert_array_equal(ours, run(setting, ef.float64, traced=False))


@pytest.mark.peer
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_recorded_is_what_pytorch_does(setting: Setting, recorded: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    live = np.array(record_trajectories.run(torch, setting, torch.float64))
    assert_near(live, recorded[str(setting)], 1e-13)
    assert_near(run(setting, ef.float64, traced=False), live, TOLERANCE["f64"])
    single = np.array(record_trajectories.run(torch, setting, torch.float32))
    assert_near(run(setting, ef.float32, traced=False), single, TOLERANCE["f32"])
