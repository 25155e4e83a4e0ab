"""Optimisers: minimisation, precision, devices and traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError
from tests.optim.common import CLASSES, content, make, two

# --- minimisation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "steps"),
    [
        ("SGD", {"lr": 2e-3}, 4000),
        ("SGD", {"lr": 5e-4, "momentum": 0.9, "dampening": 0.1}, 3000),
        ("Momentum", {"lr": 5e-4, "nesterov": True}, 3000),
        ("Adagrad", {"lr": 0.5}, 3000),
        ("Adadelta", {"eps": 1e-8}, 4000),
        ("RMSprop", {"lr": ef.optim.ExponentialSchedule(0.02, 0.997)}, 3000),
        ("RMSprop", {"lr": ef.optim.ExponentialSchedule(5e-3, 0.997), "centered": True}, 3000),
        ("Adam", {"lr": 0.05}, 3000),
        ("Adam", {"lr": 0.05, "amsgrad": True}, 3000),
        ("AdamW", {"lr": 0.05, "weight_decay": 0.0}, 3000),
    ],
)
def test_rosenbrock(name: str, options: dict[str, Any], steps: int) -> None:
    """The valley of Rosenbrock's function, whose minimum is at (1, 1)."""
    x = ef.Variable([-0.5, 0.5], dtype=ef.float64)
    optimiser = make(name, [x], **options)

    @ef.trace
    def step() -> ef.Tensor:
        loss, gradients = ef.value_and_grad(
            lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, wrt=[x]
        )()
        optimiser.update(gradients)
        return loss

    first = float(step())
    for _ in range(steps - 1):
        last = float(step())
    assert last < 1e-2 * first
    assert len(step.traces) == 1


@pytest.mark.parametrize("name", CLASSES)
def test_quadratic_of_several_variables(name: str) -> None:
    variables = [ef.Variable([2.0, -3.0]), ef.Variable(1.5)]
    optimiser = make(name, variables, lr=1.0 if name == "Adadelta" else 0.05)

    def loss() -> ef.Tensor:
        return (variables[0] ** 2).sum() + variables[1] ** 2

    gradients_of = ef.value_and_grad(loss, wrt=variables)
    first = float(loss())
    for _ in range(100):
        optimiser.update(gradients_of()[1])
    assert float(loss()) < 0.9 * first


# --- numbers -----------------------------------------------------------------------------------


def adam_by_hand(
    x: np.ndarray, gradients: list[np.ndarray], correction: Any, lr: float = 1e-3
) -> np.ndarray:
    """Adam in NumPy, in the dtype of ``x``; ``correction`` is the dtype of the bias correction."""
    m, s = np.zeros_like(x), np.zeros_like(x)
    for n, g in enumerate(gradients, start=1):
        m = m + (g - m) * x.dtype.type(0.1)
        s = s + (g * g - s) * x.dtype.type(0.001)
        c1 = correction(1) - correction(0.9) ** correction(n)
        c2 = correction(1) - correction(0.999) ** correction(n)
        x = x - x.dtype.type(lr) * (m / x.dtype.type(c1)) / (
            np.sqrt(s / x.dtype.type(c2)) + x.dtype.type(1e-8)
        )
    return x


def test_bias_correction_is_computed_in_float64() -> None:
    """In float32, ``1 - 0.999**n`` would add an error twenty times that of all the rest."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000).astype(np.float32) * 1e-3  # so small that changes are not rounded
    gradients = [rng.normal(size=1000).astype(np.float32) for _ in range(10)]
    exact = adam_by_hand(
        x.astype(np.float64), [g.astype(np.float64) for g in gradients], np.float64
    )
    v = ef.Variable(x)
    optimiser = ef.optim.Adam([v])
    for g in gradients:
        optimiser.update([ef.asarray(g)])

    def error(values: np.ndarray) -> float:
        return float(np.abs(values - exact).max())

    ours = error(v.numpy())
    assert ours <= 1.5 * error(adam_by_hand(x, gradients, np.float64))
    assert 20 * ours <= error(adam_by_hand(x, gradients, np.float32))


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16], ids=str)
@pytest.mark.parametrize("name", CLASSES)
def test_state_of_small_floats_is_float32(name: str, dtype: Any) -> None:
    v = ef.Variable([1.0, -2.0], dtype=dtype)
    optimiser = make(name, [v], lr=0.5)
    for _ in range(3):
        optimiser.update([ef.tensor([0.25, -0.5], dtype=dtype)])
    assert v.dtype is dtype
    assert {s.dtype for s in optimiser.state.values()} <= {ef.float32, ef.int64}
    assert bool(ef.all(ef.isfinite(v)))


def test_means_of_bfloat16_do_not_stall() -> None:
    v = ef.Variable([1.0], dtype=ef.bfloat16)
    optimiser = ef.optim.Adam([v])
    for _ in range(1000):
        optimiser.update([ef.ones(1, dtype=ef.bfloat16)])
    expected = 1 - 0.999**1000  # a thousandth is less than half a step of bfloat16
    assert float(optimiser.state["exp_avg_sq.0"][0]) == pytest.approx(expected, rel=1e-4)


def test_a_float64_learning_rate_does_not_promote() -> None:
    v = ef.Variable([1.0])
    optimiser = ef.optim.SGD([v], lr=ef.tensor(0.5, dtype=ef.float64))
    optimiser.update([ef.ones(1)])
    optimiser.update([ef.ones(1)], lr=ef.tensor(0.25))
    optimiser.update([ef.ones(1)], lr=ef.Variable(0.125))
    assert v.dtype is ef.float32
    assert float(v[0]) == 0.125


def test_complex_variables_descend() -> None:
    z = ef.Variable([1.0 + 2.0j, -1.0j])
    optimiser = ef.optim.Momentum([z], lr=0.05)
    loss_of = ef.value_and_grad(lambda: (ef.abs(z - 1) ** 2).sum(), wrt=[z])
    first, _ = loss_of()
    for _ in range(50):
        optimiser.update(loss_of()[1])
    assert float(loss_of()[0]) < 0.1 * float(first)
    with pytest.raises(DTypeError, match="two variables"):
        ef.optim.Adam([z])


@pytest.mark.parametrize("name", CLASSES)
def test_variables_on_several_devices(name: str) -> None:
    with ef.config(cpu_devices=2):
        v = [ef.Variable([1.0], device="cpu:0"), ef.Variable([1.0], device="cpu:1")]
        optimiser = make(name, v, lr=0.1)
        optimiser.update([ef.ones(1, device="cpu:0"), ef.ones(1, device="cpu:1")])
        assert float(v[0][0]) == float(v[1][0]) != 1.0
        places = {
            k: str(s.device) for k, s in optimiser.state.items() if k not in ("count", "counts")
        }
        assert all(place == f"cpu:{k[-1]}" for k, place in places.items())


# --- traces ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_a_step_is_traced_once(name: str) -> None:
    """The rate may come from a schedule, from outside, or from an attribute that changes."""
    rates = [ef.optim.CosineSchedule(0.1, steps=50), 0.1, 0.1]
    for case, rate in enumerate(rates):
        finals = []
        for traced in (False, True):
            variables = two()
            optimiser = make(name, variables, lr=rate)

            def step(
                x: ef.Tensor, lr: float, case=case, optimiser=optimiser, variables=variables
            ) -> None:
                def loss() -> ef.Tensor:
                    return ((x @ variables["layer.weight"].mT + variables["layer.bias"]) ** 2).sum()

                _, gradients = ef.value_and_grad(loss, wrt=variables)()
                optimiser.update(gradients, lr if case == 1 else None)

            run = ef.trace(step) if traced else step
            for i in range(50):
                if case == 2:
                    optimiser.lr = 0.1 / (i + 1)
                run(ef.tensor([[1.0, 0.1 * i]]), 0.1 / (i + 1))
            if traced:
                assert len(run.traces) == 1
            finals.append(content(variables, optimiser))
        assert finals[0] == finals[1]


def test_the_options_that_are_zero_cost_nothing() -> None:
    v = ef.Variable([1.0])
    optimiser = ef.optim.SGD([v], lr=0.1)
    graph = ef.trace(lambda g: optimiser.update([g])).graph(ef.ones(1)).optimise()
    assert [n.op for n in graph.nodes] == [
        "constant", "python_tensor", "check_parameters", "assign_add", "cast", "multiply",
        "assign_sub",
    ]  # fmt: skip


def test_an_update_in_adam_has_few_passes_over_the_variable() -> None:
    v = ef.Variable(ef.ones((7, 3)))
    optimiser = ef.optim.Adam([v])
    graph = ef.trace(lambda g: optimiser.update([g])).graph(ef.ones((7, 3))).optimise()
    large = [n.op for n in graph.nodes if n.outputs and n.outputs[0].type.shape == (7, 3)]
    assert len([op for op in large if op != "read"]) == 12


def test_a_schedule_counts_updates_from_zero() -> None:
    v = ef.Variable(0.0)
    optimiser = ef.optim.SGD([v], lr=lambda count: ef.where(count == 0, 1.0, 10.0))
    optimiser.update([ef.tensor(1.0)])
    assert float(v) == -1.0
    optimiser.update([ef.tensor(1.0)])
    assert float(v) == -11.0
    optimiser.update([ef.tensor(1.0)], lr=ef.optim.StepSchedule(100.0, step_size=2))
    assert float(v) == -21.0
