"""Missing gradients, and sparse gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from tests.optim.common import CLASSES, content, make, two


@pytest.mark.parametrize("name", CLASSES)
def test_none_leaves_a_variable_as_it_is(name: str) -> None:
    variables = two()
    optimiser = make(name, variables)
    before = content(variables, optimiser)
    optimiser.update({"layer.weight": None, "layer.bias": ef.ones(1)})
    after = content(variables, optimiser)
    changed = {k for k in before if before[k] != after[k]}
    assert {"layer.bias", "count"} <= changed
    assert not any(k.endswith("weight") for k in changed)


def embedding(name: str, **options: Any) -> tuple[ef.Variable, Any]:
    table = ef.Variable(ef.reshape(ef.arange(12.0, dtype=ef.float32), (6, 2)) / 10)
    return table, make(name, [table], lr=0.1, **options)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam", "AdamW"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_sparse_gradient_changes_only_its_rows(name: str, decay: float) -> None:
    table, optimiser = embedding(name, weight_decay=decay)
    chosen = ef.tensor([4, 1, 4])

    @ef.trace
    def step(i: ef.Tensor) -> None:
        optimiser.update([ef.grad(lambda: (ef.take(table, i, axis=0) ** 2).sum(), wrt=table)()])

    before = {k: v.numpy().copy() for k, v in {"table": table, **optimiser.state}.items()}
    for _ in range(3):
        step(chosen)
    for name_of, v in {"table": table, **optimiser.state}.items():
        if name_of not in ("count", "counts"):
            same = (v.numpy() == before[name_of]).all(axis=1)
            assert same.tolist() == [True, False, True, True, False, True], name_of


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_equals_dense_where_rows_without_gradient_rest(name: str) -> None:
    tables = []
    for sparse in (True, False):
        table, optimiser = embedding(name)
        for t in range(5):
            g = ef.IndexedSlices(ef.ones((3, 2)) * 0.3, ef.tensor([t, 1, t]), (6, 2))
            optimiser.update([g if sparse else g.to_dense()])
        tables.append(table.numpy())
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6)


@pytest.mark.parametrize("name", ["Adadelta", "RMSprop", "Momentum"])
def test_others_take_a_sparse_gradient_as_the_dense_one(name: str) -> None:
    contents = []
    for sparse in (True, False):
        table, optimiser = embedding(name)
        for t in range(3):
            g = ef.IndexedSlices(ef.ones((3, 2)), ef.tensor([t, 1, t]), (6, 2))
            optimiser.update([g if sparse else g.to_dense()])
        contents.append(content({"table": table}, optimiser))
    assert contents[0] == contents[1]


@pytest.mark.parametrize("name", CLASSES)
def test_a_sparse_gradient_without_rows(name: str) -> None:
    table, optimiser = embedding(name)
    optimiser.update([ef.IndexedSlices(ef.zeros((0, 2)), ef.zeros(0, dtype=ef.int64), (6, 2))])
    assert int(optimiser.count.value) == 1
    assert bool(ef.all(ef.isfinite(table)))
