"""Trajectories over 100 steps, against PyTorch's, which `record_trajectories` recorded."""

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

#: relative to the largest value; float64 differs in the order of operations, float32 in rounding
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

    def step(t: float, i: ef.Tensor, size: float) -> None:
        if setting.sparse:
            some = gradient(ef, ef.take(x, i, axis=0), ef.take(phases, i, axis=0), t) * size
            optimiser.update([ef.IndexedSlices(some, i, x.shape)])
        else:
            optimiser.update([gradient(ef, x.value, phases, t) * size])

    stepped = ef.trace(step) if traced else step
    trajectory = []
    for t in range(1, STEPS + 1):
        stepped(float(t), ef.tensor(rows(t)), setting.size(t))
        if t in RECORDED:
            trajectory.append(x.numpy())
    if traced:
        assert len(stepped.traces) == 1
    return np.stack(trajectory)


def assert_near(trajectory: np.ndarray, expected: Any, tolerance: float) -> None:
    scale = np.abs(expected).max()
    np.testing.assert_allclose(trajectory, expected, rtol=0, atol=tolerance * scale)


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


@pytest.mark.parametrize("traced", [False, True])
def test_the_first_gradient_of_each_variable_is_whole(traced: bool) -> None:
    """With dampening, also if a variable's first gradient comes in a later update than others'."""
    variables = [ef.Variable(np.ones(2)), ef.Variable(np.ones(2))]
    optimiser = ef.optim.SGD(variables, lr=0.1, momentum=0.9, dampening=0.25)
    patterns = [(0,), (1,), (0, 1)]
    steps = {p: ef.trace(optimiser.update) if traced else optimiser.update for p in patterns}
    wanted: list[Any] = [[np.ones(2), None], [np.ones(2), None]]  # values and buffers
    for i, present in enumerate([(0,), (1,), (0, 1), (0,), (0, 1)]):
        gradients = [np.array([i + 1.0, k - 2.0]) if k in present else None for k in range(2)]
        steps[present]([None if g is None else ef.tensor(g) for g in gradients])
        for one, g in zip(wanted, gradients, strict=True):
            if g is not None:
                one[1] = g if one[1] is None else 0.9 * one[1] + 0.75 * g
                one[0] = one[0] - 0.1 * one[1]
    for v, (value, _) in zip(variables, wanted, strict=True):
        np.testing.assert_allclose(v.numpy(), value, rtol=1e-14)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("traced", [False, True])
def test_the_correction_is_of_the_gradients_of_the_variable(name: str, traced: bool) -> None:
    """A variable whose gradient comes late starts like a single variable, as in PyTorch."""
    early, late, alone = (ef.Variable(0.0, dtype=ef.float64) for _ in range(3))
    optimiser = getattr(ef.optim, name)([early, late], lr=0.1)
    single = getattr(ef.optim, name)([alone], lr=0.1)
    one = ef.tensor(1.0, dtype=ef.float64)
    without, both = (lambda: optimiser.update([one, None])), (lambda: optimiser.update([one, one]))
    if traced:
        without, both = ef.trace(without), ef.trace(both)
    for _ in range(100):
        without()
    for _ in range(3):
        both()
        single.update([one])
        assert float(late) == float(alone) != 0.0
    assert int(optimiser.count.value) == 103
    assert optimiser.state["counts"].numpy().tolist() == [103, 3]


def test_counts_of_groups_with_other_rates() -> None:
    """Adagrad's decay counts the updates of each variable itself, whatever its group."""
    together = [ef.Variable(1.0, dtype=d) for d in (ef.float64, ef.float32, ef.float64)]
    scales = {"0": 1.0, "1": 0.5, "2": 0.5}
    optimiser = ef.optim.Adagrad(
        together, lr=0.1, lr_decay=0.5, lr_scale=lambda path, v: scales[path]
    )
    alone = [ef.Variable(v) for v in together]
    singles = [
        ef.optim.Adagrad([v], lr=0.1, lr_decay=0.5, lr_scale=scale)
        for v, scale in zip(alone, scales.values(), strict=True)
    ]
    for present in [(0,), (1, 2), (0, 1, 2), (), (2,), (0, 1, 2)]:
        given = [ef.ones_like(v) if i in present else None for i, v in enumerate(together)]
        optimiser.update(given)
        for i in present:
            singles[i].update([given[i]])
    assert [float(v) for v in together] == [float(v) for v in alone]


@pytest.mark.parametrize("betas", [(0.0, 0.99), (0.5, 0.0), (0.0, 0.0)])
def test_nothing_is_lost_beside_a_mean_that_is_not_kept(betas: tuple[float, float]) -> None:
    optimiser = ef.optim.Adam([ef.Variable([1.0])], betas=betas)
    for g in (1e3, 1e-6):
        optimiser.update([ef.tensor([g])])
    for name, beta, last in zip(("exp_avg", "exp_avg_sq"), betas, (1e-6, 1e-12), strict=True):
        if beta == 0:
            assert float(optimiser.state[f"{name}.0"][0]) == pytest.approx(last, rel=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_recorded_is_what_pytorch_does(setting: Setting, recorded: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    live = np.array(record_trajectories.run(torch, setting, torch.float64))
    assert_near(live, recorded[str(setting)], 1e-13)
    assert_near(run(setting, ef.float64, traced=False), live, TOLERANCE["f64"])
    single = np.array(record_trajectories.run(torch, setting, torch.float32))
    assert_near(run(setting, ef.float32, traced=False), single, TOLERANCE["f32"])
