"""Schedules, for numbers, for tensors and in traced steps, against independent formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import TensorValueError, UnknownNameError
from tests.messages import says

o = ef.optim

#: a schedule, its value after n updates, and PyTorch's schedule
CASES: dict[str, tuple[Any, Any, Any]] = {
    "step": (
        o.StepSchedule(0.5, step_size=7, gamma=0.3),
        lambda n: 0.5 * 0.3 ** (n // 7),
        lambda s, opt: s.StepLR(opt, 7, 0.3),
    ),
    "multi-step": (
        o.MultiStepSchedule(0.5, milestones=[3, 4, 20], gamma=0.2),
        lambda n: 0.5 * 0.2 ** sum(n >= k for k in (3, 4, 20)),
        lambda s, opt: s.MultiStepLR(opt, [3, 4, 20], 0.2),
    ),
    "exponential": (
        o.ExponentialSchedule(0.5, gamma=0.9),
        lambda n: 0.5 * 0.9**n,
        lambda s, opt: s.ExponentialLR(opt, 0.9),
    ),
    "polynomial": (
        o.PolynomialSchedule(0.5, steps=23, power=1.7),
        lambda n: 0.5 * (1 - min(n, 23) / 23) ** 1.7,
        lambda s, opt: s.PolynomialLR(opt, 23, 1.7),
    ),
    "linear, to another rate": (
        o.PolynomialSchedule(0.05, steps=23, final=0.5),
        lambda n: 0.05 + 0.45 * min(n, 23) / 23,
        lambda s, opt: s.LinearLR(opt, 0.1, 1.0, 23),
    ),
    "cosine": (
        o.CosineSchedule(0.5, steps=23, final=0.1),
        lambda n: 0.1 + 0.4 * math.cos(math.pi * min(n, 23) / 46) ** 2,
        None,
    ),
    "cosine over all steps": (
        o.CosineSchedule(0.5, steps=30, final=0.1),
        lambda n: 0.1 + 0.4 * math.cos(math.pi * n / 60) ** 2,
        lambda s, opt: s.CosineAnnealingLR(opt, 30, 0.1),
    ),
    "one cycle": (
        o.OneCycleSchedule(0.5, total_steps=30, pct_start=0.4),
        None,
        lambda s, opt: s.OneCycleLR(opt, 0.5, 30, pct_start=0.4, cycle_momentum=False),
    ),
    "one cycle, linear": (
        o.OneCycleSchedule(0.5, 30, 0.25, "linear", 10.0, 100.0),
        lambda n: float(np.interp(n, [0, 6.5, 29], [0.05, 0.5, 0.0005])),
        lambda s, opt: s.OneCycleLR(
            opt, 0.5, 30, pct_start=0.25, anneal_strategy="linear", cycle_momentum=False,
            div_factor=10, final_div_factor=100,
        ),
    ),
    "warm-up": (
        o.WarmUp(o.ExponentialSchedule(0.5, 0.9), steps=9),
        lambda n: 0.5 * (n + 1) / 10 if n < 9 else 0.5 * 0.9 ** (n - 9),
        None,
    ),
    "warm-up of a number": (o.WarmUp(0.5, 4), lambda n: 0.5 * min(n + 1, 5) / 5, None),
    "two rates": (
        o.ChainedSchedule([0.05, 0.5], milestones=(10,)),
        lambda n: 0.05 if n < 10 else 0.5,
        lambda s, opt: s.ConstantLR(opt, 0.1, 10),
    ),
    "cosine with restarts": (
        o.ChainedSchedule([o.CosineSchedule(0.5, steps=10)] * 3, milestones=(10, 20)),
        lambda n: 0.5 * math.cos(math.pi * (n % 10) / 20) ** 2,
        lambda s, opt: s.CosineAnnealingWarmRestarts(opt, 10),
    ),
    "chain": (
        o.ChainedSchedule([0.25, o.ExponentialSchedule(0.5, 0.9), o.StepSchedule(1.0, 2)], [5, 9]),
        lambda n: (
            0.25 if n < 5 else 0.5 * 0.9 ** (n - 5) if n < 9 else 0.1 ** ((n - 9) // 2)
        ),
        None,
    ),
}  # fmt: skip
STEPS = range(30)

each = pytest.mark.parametrize("case", CASES)


@each
def test_numbers(case: str) -> None:
    schedule, expected, _ = CASES[case]
    rates = [schedule(n) for n in STEPS]
    assert all(type(rate) is float for rate in rates)
    if expected is not None:
        np.testing.assert_allclose(rates, [expected(n) for n in STEPS], rtol=1e-12, atol=1e-15)


@each
def test_tensors(case: str) -> None:
    schedule = CASES[case][0]
    rates = schedule(ef.arange(len(STEPS)))
    assert str(rates.type) == f"f64[{len(STEPS)}]@cpu:0"
    np.testing.assert_allclose(rates.numpy(), [schedule(n) for n in STEPS], rtol=1e-12, atol=1e-15)


@each
def test_traced(case: str) -> None:
    schedule = CASES[case][0]

    @ef.trace
    def rate(count: ef.Tensor, number: int) -> tuple[ef.Tensor, ef.Tensor]:
        return schedule(count), schedule(number)

    for n in STEPS:
        of_tensor, of_number = rate(ef.tensor(n), n)
        assert float(of_tensor) == float(of_number) == float(schedule(ef.tensor(n)))
    assert len(rate.traces) == 1


@each
def test_in_an_optimiser(case: str) -> None:
    """With gradients of one, the variable decreases by the sum of the rates."""
    schedule = CASES[case][0]
    v = ef.Variable(0.0, dtype=ef.float64)
    optimiser = ef.optim.SGD([v], lr=schedule)
    step = ef.trace(lambda: optimiser.update([ef.ones((), dtype=ef.float64)]))
    for _ in STEPS:
        step()
    assert float(v) == pytest.approx(-sum(schedule(n) for n in STEPS), rel=1e-12)
    assert len(step.traces) == 1


@pytest.mark.peer
@pytest.mark.parametrize("case", [name for name, (_, _, peer) in CASES.items() if peer])
def test_like_pytorch(case: str) -> None:
    torch = pytest.importorskip("torch")
    schedule, _, peer = CASES[case]
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler = peer(torch.optim.lr_scheduler, optimiser)
    for n in STEPS:
        assert schedule(n) == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-9)
        optimiser.step()
        if n + 1 < len(STEPS):
            scheduler.step()


@given(
    steps=st.integers(1, 200),
    warm=st.integers(1, 50),
    n=st.integers(0, 300),
)
def test_rates_stay_between_their_ends(steps: int, warm: int, n: int) -> None:
    for inner in (
        o.CosineSchedule(0.7, steps, final=0.1),
        o.PolynomialSchedule(0.7, steps, final=0.1, power=2.5),
    ):
        assert 0.1 <= inner(n) <= 0.7
        assert inner(n + 1) <= inner(n)
        warmed = o.WarmUp(inner, warm)
        assert 0 < warmed(n) <= 0.7
        assert warmed(n + warm) == inner(n)


@given(steps=st.integers(1, 60), part=st.floats(0, 1))
def test_one_cycle_is_finite_and_has_its_ends(steps: int, part: float) -> None:
    for strategy in ("cos", "linear"):
        schedule = o.OneCycleSchedule(1.0, steps, part, strategy)
        rates = schedule(ef.arange(steps + 5)).numpy()
        assert ((rates >= 0) & (rates <= 1)).all()


def test_printing_and_equality() -> None:
    assert repr(o.CosineSchedule(0.5, 10)) == "CosineSchedule(lr=0.5, steps=10, final=0.0)"
    assert repr(o.WarmUp(o.ExponentialSchedule(0.5, 0.9), 3)) == (
        "WarmUp(schedule=ExponentialSchedule(lr=0.5, gamma=0.9), steps=3)"
    )
    assert o.MultiStepSchedule(0.5, [1, 2]) == o.MultiStepSchedule(0.5, (1, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: o.StepSchedule(-1.0, 3),
        lambda: o.StepSchedule(1.0, 0),
        lambda: o.StepSchedule(1.0, 3, gamma=-0.1),
        lambda: o.MultiStepSchedule(1.0, [3, 3]),
        lambda: o.MultiStepSchedule(1.0, [0, 3]),
        lambda: o.MultiStepSchedule(1.0, [1.5]),
        lambda: o.ExponentialSchedule(1.0, float("nan")),
        lambda: o.PolynomialSchedule(1.0, -4),
        lambda: o.PolynomialSchedule(1.0, 4, power=-1),
        lambda: o.CosineSchedule(1.0, 4.5),
        lambda: o.CosineSchedule("a", 4),
        lambda: o.WarmUp("a", 4),
        lambda: o.WarmUp(-1.0, 4),
        lambda: o.WarmUp(1.0, 0),
        lambda: o.OneCycleSchedule(1.0, 0),
        lambda: o.OneCycleSchedule(1.0, 4, pct_start=1.5),
        lambda: o.OneCycleSchedule(1.0, 4, anneal_strategy="sine"),
        lambda: o.OneCycleSchedule(1.0, 4, div_factor=0.0),
        lambda: o.ChainedSchedule([1.0, 2.0], []),
        lambda: o.ChainedSchedule([1.0, None], [1]),
    ],
)
def test_errors(make: Any) -> None:
    with pytest.raises(TensorValueError, check=says(r"Schedule|WarmUp")):
        make()


@pytest.mark.parametrize("traced", [False, True])
def test_the_current_rate_is_that_of_the_next_update(traced: bool) -> None:
    schedule = o.WarmUp(o.CosineSchedule(0.5, steps=4), steps=2)
    v = ef.Variable(ef.zeros((), dtype=ef.float64))
    optimiser = o.SGD([v], lr=schedule)

    def step() -> Any:
        rate = optimiser.current_lr
        optimiser.update([ef.tensor(-1.0, dtype=ef.float64)])
        return rate, optimiser.current_lr

    run = ef.trace(step) if traced else step
    for n in range(6):
        old = float(v)
        before, after = run()
        assert (float(before), float(after)) == (schedule(n), schedule(n + 1))
        assert float(v) - old == pytest.approx(schedule(n))
        assert float(optimiser.current_lr) == schedule(n + 1)


@pytest.mark.parametrize(
    "rate", [0.25, ef.tensor(0.25), ef.Variable(0.25), lambda n: 0.25 / (n + 1.0)]
)
def test_each_kind_of_rate_has_a_current_value(rate: Any) -> None:
    optimiser = o.Adam([ef.Variable(1.0)], lr=rate)
    current = ef.trace(lambda: optimiser.current_lr)
    for value in (optimiser.current_lr, current()):
        assert (float(value), str(value.dtype), value.shape) == (0.25, "float64", ())
    optimiser.lr = 0.5
    assert (float(optimiser.current_lr), float(current())) == (0.5, 0.5)


def test_a_negative_rate_has_no_current_value() -> None:
    optimiser = o.SGD([ef.Variable(1.0)], lr=lambda n: n - 1.0)
    with pytest.raises(TensorValueError, check=says("the learning rate is negative or NaN")):
        _ = optimiser.current_lr


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("warmup", "WarmUp(ef.optim.CosineSchedule("),
        ("cosineschedule", "did you mean 'CosineSchedule'?"),
        ("StepLR", "lr=ef.optim.StepSchedule("),
    ],
)
@pytest.mark.parametrize("module", [ef.optim, ef.optim.schedules], ids=["optim", "schedules"])
def test_names_of_other_frameworks(module: Any, name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=f"eagerflow.optim has no '{name}'") as caught:
        getattr(module, name)
    assert hint in str(caught.value.hint)
    assert "schedules" not in dir(ef.optim)
