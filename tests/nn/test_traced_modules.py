"""Modules in traced functions: scopes, names, and what makes another trace."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import eagerflow as ef
from eagerflow import nn
from eagerflow.capture.guards.guard_choice import collect


class Deep(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(4, 8)
        self.rest = [nn.Linear(8, 8), nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 1))]

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x


class Trainer:
    """An object with a model as an attribute, which a method reads."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.gradients = ef.value_and_grad(self.loss, wrt=model.trainable)

    def loss(self, x: Any) -> Any:
        return (self.model(x) ** 2).mean()

    def step(self, x: Any) -> Any:
        loss, gradients = self.gradients(x)
        for variable, gradient in zip(
            self.model.trainable.values(), gradients.values(), strict=True
        ):
            variable.assign_sub(0.1 * gradient)
        return loss


def test_scopes_are_paths() -> None:
    model = Deep().eval()
    graph = ef.trace(lambda x: model(x)).graph(ef.ones((3, 4)))
    scopes = {node.scope for node in graph.nodes if node.op == "matmul"}
    assert scopes == {
        "Deep/first", "Deep/rest.0", "Deep/rest.1/layers.1",
    }  # fmt: skip


def test_variables_are_called_by_their_paths_in_graphs() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Embedding(5, 3)
            self.layers = [nn.Linear(3, 3), nn.BatchNorm(3)]
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.table.weight
            self.scale = ef.Variable(1.0, name="temperature")
            self.shift = ef.Variable(0.0)

        def forward(self, x: ef.Tensor) -> ef.Tensor:
            x = self.table(x)
            for layer in self.layers:
                x = layer(x)
            return self.out(x) * self.scale + self.shift

    model = Tied()
    names = set(ef.trace(lambda x: model(x)).graph(ef.tensor([0, 1, 2])).resources)
    given = {"scale": "temperature"}
    assert names == {given.get(path, path) for path in model.state}
    assert model.layers[0].weight.name == "weight"  # outside of the model the name is as before


def test_scopes_are_closed_when_forward_raises() -> None:
    class Faulty(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("mine")

    faulty, good = Faulty(), nn.Linear(2, 1)

    @ef.trace
    def f(x: Any) -> Any:
        with contextlib.suppress(KeyError):
            faulty(x)
        return good(x)

    assert {n.scope for n in f.graph(ef.ones(2)).nodes if n.op == "matmul"} == {"Linear"}


def test_one_trace_serves_all_steps() -> None:
    x = ef.ones((3, 4))
    losses = []
    for traced in (False, True):
        ef.random.seed(1)
        trainer = Trainer(Deep())
        step = ef.trace(trainer.step) if traced else trainer.step
        losses.append([float(step(x)) for _ in range(5)])
        if traced:
            assert len(step.traces) == 1
    assert losses[0] == losses[1]


MODEL = Deep()


@ef.trace
def predict(x: Any) -> Any:
    return MODEL(x)


def test_another_mode_is_another_trace_with_the_reason() -> None:
    predict.clear()
    MODEL.train()
    x = ef.ones((3, 4))
    predict(x)
    MODEL.eval()
    assert (predict(x).numpy() == MODEL(x).numpy()).all()
    assert len(predict.traces) == 2
    assert "training: was True, now False" in predict.traces[-1].reason
    predict(x)
    MODEL.train()
    predict(x)
    assert len(predict.traces) == 2  # the first one is reused


def test_another_probability_of_dropout_counts() -> None:
    model = nn.Sequential(nn.Dropout(0.5))
    f = ef.trace(lambda x: model(x))
    f(ef.ones(4))
    model[0].p = 1.0
    assert f(ef.ones(4)).numpy().tolist() == [0.0] * 4
    assert len(f.traces) == 1 or "layers[0].p: was 0.5, now 1.0" in f.traces[-1].reason


def test_a_layer_that_is_replaced_is_another_trace_with_the_reason() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    f = ef.trace(lambda x: model(x))
    x = ef.ones((1, 2))
    f(x)
    model.layers[1] = nn.Linear(2, 3)
    assert f(x).shape == (1, 3)
    assert len(f.traces) == 2
    assert "layers[1] is another object" in f.traces[-1].reason


def test_a_layer_that_is_added_counts() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    f = ef.trace(lambda x: model(x))
    f(ef.ones((1, 2)))
    model.layers.append(nn.Linear(2, 5))
    assert f(ef.ones((1, 2))).shape == (1, 5)


def test_trainable_within_a_trace_follows_what_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))

    @ef.trace
    def count(x: Any) -> Any:
        gradient = ef.value_and_grad(lambda x: model(x).sum(), wrt=model.trainable)
        return sorted(gradient(x)[1])

    assert len(count(ef.ones((1, 2)))) == 4
    model[0].freeze()
    assert count(ef.ones((1, 2))) == ["layers.1.bias", "layers.1.weight"]
    model.unfreeze()
    assert len(count(ef.ones((1, 2)))) == 4


def test_modes_can_be_set_in_a_trace() -> None:
    model = nn.Sequential(nn.Dropout(0.5))

    @ef.trace
    def f(x: Any) -> Any:
        model.eval()
        return model(x)

    model.train()
    assert f(ef.ones(3)).numpy().tolist() == [1.0] * 3
    assert not model[0].training


def test_a_module_as_argument() -> None:
    f = ef.trace(lambda model, x: model(x))
    one, other = nn.Linear(2, 1), nn.Linear(2, 1)
    x = ef.ones((1, 2))
    for model in (one, other, one):
        assert (f(model, x).numpy() == model(x).numpy()).all()
    one.bias = None
    assert (f(one, x).numpy() == one(x).numpy()).all()


def test_a_traced_model_that_is_deleted_is_freed() -> None:
    model = nn.Sequential(nn.Linear(2, 1))
    f = ef.trace(model)
    f(ef.ones((1, 2)))
    dead = weakref.ref(model)
    del model, f
    gc.collect()
    assert dead() is None


def test_the_reason_of_a_large_model_is_short() -> None:
    model = nn.Sequential(*[nn.Dropout(0.1) for _ in range(30)])
    f = ef.trace(lambda x: model(x))
    f(ef.ones(2))
    model.eval()
    f(ef.ones(2))
    assert f.traces[-1].reason.endswith("; and 27 more")
    assert "frozen" not in f.traces[-1].reason


def test_what_modules_are_asked_for_costs_no_guards() -> None:
    """This package's code reads attributes by names made at run time; traces do not guard them."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def step(x: Any) -> Any:
        return ef.value_and_grad(lambda x: model(x).sum(), wrt=model.trainable)(x)

    reads = collect(step).reads
    assert not [r for r in reads if r.kind == "keys"]
    assert not [r for r in reads if r.path.key in ("in_features", "load_state", "_repr_html_")]
