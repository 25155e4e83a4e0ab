"""Gradient accumulation: updates by the parts of a batch equal the update by the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError


def _run(parts: int, wrap: Any, updates: int = 3) -> tuple[np.ndarray[Any, Any], Any]:
    generator = ef.random.Generator(0)
    weight = ef.Variable(generator.normal((3, 1), dtype=ef.float64))
    adam = ef.optim.Adam({"weight": weight}, lr=0.1)
    optimiser: Any = adam if parts == 1 else ef.optim.GradientAccumulation(adam, parts)
    x, y = generator.normal((12, 3), dtype=ef.float64), generator.normal((12, 1), dtype=ef.float64)
    slope = ef.grad(lambda x, y: ef.mean((x @ weight - y) ** 2), wrt={"weight": weight})

    @wrap
    def step(x: Any, y: Any) -> None:
        optimiser.update(slope(x, y))

    size = 12 // parts
    for _ in range(updates):
        for i in range(0, 12, size):
            step(x[i : i + size], y[i : i + size])
    assert int(adam.count) == updates
    return weight.numpy(), optimiser


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
@pytest.mark.parametrize("parts", [2, 4])
def test_parts_lead_where_the_whole_leads(parts: int, wrap: Any) -> None:
    whole, _ = _run(1, lambda f: f)
    weight, optimiser = _run(parts, wrap)
    np.testing.assert_allclose(weight, whole, rtol=1e-12)
    assert not optimiser.state["sum.weight"].numpy().any()
    assert int(optimiser.state["calls"]) == 0


def test_a_variable_without_gradient_counts_with_zeros() -> None:
    a, b = ef.Variable([1.0]), ef.Variable([1.0])
    optimiser = ef.optim.GradientAccumulation(ef.optim.SGD([a, b], lr=1.0), steps=2)
    optimiser.update([ef.tensor([1.0]), None])
    optimiser.update([ef.tensor([1.0]), ef.tensor([1.0])])
    assert (a.numpy().item(), b.numpy().item()) == (0.0, 0.5)


def test_sparse_gradients_are_made_dense() -> None:
    table = ef.Variable(ef.zeros((4, 1)))
    optimiser = ef.optim.GradientAccumulation(ef.optim.SGD([table], lr=1.0), steps=2)
    for row in (1, 3):
        optimiser.update([ef.IndexedSlices(ef.ones((1, 1)), ef.tensor([row]), (4, 1))])
    assert table.numpy().ravel().tolist() == [0.0, -0.5, 0.0, -0.5]


def test_a_refused_gradient_changes_nothing() -> None:
    a, b = ef.Variable([1.0]), ef.Variable([1.0])
    optimiser = ef.optim.GradientAccumulation(ef.optim.SGD([a, b], lr=1.0), steps=2)
    with pytest.raises(ShapeError):
        optimiser.update([ef.tensor([1.0]), ef.tensor([1.0, 2.0])])
    assert not optimiser.state["sum.0"].numpy().any()
    assert int(optimiser.state["calls"]) == 0


def test_state_goes_through_a_checkpoint(tmp_path: Any) -> None:
    def make() -> tuple[ef.Variable, ef.optim.GradientAccumulation]:
        v = ef.Variable([1.0])
        return v, ef.optim.GradientAccumulation(ef.optim.Momentum([v], 0.1), steps=3)

    v, optimiser = make()
    optimiser.update([ef.tensor([2.0])])
    ef.checkpoint.save(tmp_path / "c", {"v": v, "optimiser": optimiser})
    w, other = make()
    ef.checkpoint.load(tmp_path / "c", like={"v": w, "optimiser": other})
    for each in (optimiser, other):
        each.update([ef.tensor([1.0])])
        each.update([ef.tensor([0.0])])
    assert v.numpy() == w.numpy() == pytest.approx([0.9])


def test_steps() -> None:
    with pytest.raises(TensorValueError, match="GradientAccumulation: steps"):
        ef.optim.GradientAccumulation(ef.optim.SGD([ef.Variable([1.0])], lr=1.0), steps=0)
