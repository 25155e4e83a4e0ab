"""Options of single variables, and the state of optimisers."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import CheckpointError
from tests.optim.common import CLASSES, content, make, some, two

# --- options of single variables ---------------------------------------------------------------


def test_weight_decay_by_variable() -> None:
    variables = two()
    asked = []

    def decay(path: str, v: ef.Variable) -> float:
        asked.append((path, v.shape))
        return 0.5 if v.ndim > 1 else 0.0

    optimiser = ef.optim.AdamW(variables, lr=0.1, weight_decay=decay)
    assert asked == [("layer.bias", (1,)), ("layer.weight", (1, 2))]
    optimiser.update({path: ef.zeros_like(v) for path, v in variables.items()})
    np.testing.assert_allclose(variables["layer.weight"].numpy(), [[0.95, -1.9]])
    assert float(variables["layer.bias"][0]) == 0.5


@pytest.mark.parametrize("name", CLASSES)
def test_learning_rate_by_variable(name: str) -> None:
    alone = ef.Variable([1.0, -2.0])
    a, b, c = (ef.Variable([1.0, -2.0]) for _ in range(3))
    scales = {"a": 1.0, "b": 0.25, "c": 0.0}
    together = make(name, {"a": a, "b": b, "c": c}, lr=0.1, lr_scale=lambda path, v: scales[path])
    slower = make(name, [alone], lr=0.025)
    for t in range(3):
        g = ef.tensor([0.5, 1.0 + t])
        together.update({"a": g, "b": g, "c": g})
        slower.update([g])
    np.testing.assert_array_equal(b.numpy(), alone.numpy())
    np.testing.assert_array_equal(c.numpy(), [1.0, -2.0])
    assert not np.array_equal(a.numpy(), b.numpy())


# --- state -------------------------------------------------------------------------------------


@dataclass
class Pair:
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("variables", "paths"),
    [
        (lambda v: v, [""]),
        (lambda v: [v], [".0"]),
        (lambda v: {"a": {"w": v}}, [".a.w"]),
        (lambda v: {"layers.0.weight": v}, [".layers.0.weight"]),
        (lambda v: Pair([v], ef.Variable(1.0)), [".first.0", ".second"]),
    ],
)
def test_names_of_state(variables: Any, paths: list[str]) -> None:
    tree = variables(ef.Variable([1.0]))
    optimiser = ef.optim.Adam(tree)
    expected = [
        f"{accumulator}{path}" for path in paths for accumulator in ("exp_avg", "exp_avg_sq")
    ]
    assert list(optimiser.state) == [*expected, "counts", "count"]
    assert not any(v.trainable for v in optimiser.state.values())
    assert optimiser.count is optimiser.state["count"]


@pytest.mark.parametrize(
    ("make_optimiser", "accumulators"),
    [
        (lambda v: ef.optim.SGD(v), []),
        (lambda v: ef.optim.SGD(v, momentum=0.5), ["momentum_buffer"]),
        (lambda v: ef.optim.Momentum(v), ["momentum_buffer"]),
        (lambda v: ef.optim.SGD(v, momentum=0.5, dampening=0.1), ["momentum_buffer", "counts"]),
        (lambda v: ef.optim.Adagrad(v), ["sum", "counts"]),
        (lambda v: ef.optim.Adadelta(v), ["square_avg", "acc_delta"]),
        (lambda v: ef.optim.RMSprop(v), ["square_avg"]),
        (
            lambda v: ef.optim.RMSprop(v, momentum=0.5, centered=True),
            ["square_avg", "grad_avg", "momentum_buffer"],
        ),
        (
            lambda v: ef.optim.AdamW(v, amsgrad=True),
            ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "counts"],
        ),
    ],
)
def test_accumulators_have_the_names_of_pytorch(
    make_optimiser: Any, accumulators: list[str]
) -> None:
    assert list(make_optimiser(ef.Variable([1.0])).state) == [*accumulators, "count"]


@pytest.mark.parametrize("name", CLASSES)
def test_state_moves_to_another_optimiser(name: str) -> None:
    a, b = two(), two()
    first, second = make(name, a), make(name, b)
    for _ in range(3):
        first.update(some(a))
    for path, v in a.items():
        b[path].assign(v)
    second.load_state({k: v.numpy() for k, v in first.state.items()})
    first.update(some(a))
    second.update(some(b))
    assert content(a, first) == content(b, second)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    variables = two()
    optimiser = ef.optim.Adam(variables)
    optimiser.update(some(variables))
    before = content(variables, optimiser)
    with pytest.raises(CheckpointError, match=r"missing: .*exp_avg.layer.bias"):
        optimiser.load_state(ef.optim.SGD(two(), momentum=0.9).state)
    wrong = {
        **ef.optim.Adam(two()).state,
        "exp_avg_sq.layer.weight": ef.zeros(3),
        "exp_avg.layer.bias": ef.zeros(1, dtype=ef.float64),
        "count": 2.5,
    }
    with pytest.raises(CheckpointError) as caught:
        optimiser.load_state(wrong)
    for part in ("exp_avg_sq.layer.weight (f32[3]", "exp_avg.layer.bias (f64[1]", "count ("):
        assert part in str(caught.value)
    assert content(variables, optimiser) == before


def test_a_float_count_is_refused() -> None:
    optimiser = ef.optim.SGD(two())
    for count in (2.5, ef.tensor(2.0), np.float64(2)):
        with pytest.raises(CheckpointError, match=r"not fitting: count \("):
            optimiser.load_state({"count": count})
    optimiser.load_state({"count": 2})
    assert int(optimiser.count.value) == 2


def test_a_part_of_a_state() -> None:
    optimiser = ef.optim.Adam(two())
    optimiser.load_state({"count": 7, "other": 1.0}, strict=False)
    assert int(optimiser.count.value) == 7


@pytest.mark.parametrize("name", CLASSES)
def test_copies_go_their_own_way(name: str) -> None:
    for duplicate in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        variables = two()
        optimiser = make(name, variables)
        optimiser.update(some(variables))
        before = content(variables, optimiser)
        other = duplicate(optimiser)
        other.update(some(variables))
        assert int(other.count.value) == 2
        assert content(variables, optimiser) == before


def test_repr() -> None:
    v = two()
    assert repr(ef.optim.Adam(v, lr=0.1)) == (
        "Adam(2 variables of 3 elements, lr=0.1, weight_decay=0.0, betas=(0.9, 0.999), eps=1e-08, "
        "amsgrad=False)"
    )
    schedule = ef.optim.StepSchedule(0.1, 5)
    shown = repr(ef.optim.SGD(v, lr=schedule, weight_decay=lambda path, v: 0.0))
    assert "lr=StepSchedule(lr=0.1, step_size=5, gamma=0.1)" in shown
