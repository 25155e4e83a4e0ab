"""Refusals of optimisers, which leave everything unchanged."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import DeviceError, DTypeError, ShapeError, TensorIndexError, TensorValueError
from tests.messages import says
from tests.optim.common import CLASSES, content, make, some, two


@pytest.mark.parametrize(
    ("gradients", "error", "text"),
    [
        ({"layer.weight": ef.ones((1, 2))}, TensorValueError, r"missing: layer\.bias"),
        (
            {"layer.weight": ef.ones((1, 2)), "layer.bias": ef.ones(1), "x": ef.ones(1)},
            TensorValueError,
            "unknown: x",
        ),
        ([ef.ones((1, 2)), ef.ones(1)], TensorValueError, "structure"),
        (
            {"layer.weight": ef.ones((2, 1)), "layer.bias": ef.ones(1)},
            ShapeError,
            r"layer\.weight has another shape",
        ),
        (
            {"layer.weight": ef.ones((1, 2)), "layer.bias": ef.ones(1, dtype=ef.int32)},
            DTypeError,
            r"layer\.bias",
        ),
        (
            {"layer.weight": ef.ones((1, 2)), "layer.bias": ef.ones(1, dtype=ef.complex64)},
            DTypeError,
            r"layer\.bias",
        ),
        (
            {"layer.weight": ef.ones((1, 2)), "layer.bias": ef.ones(1, device="null:0")},
            DeviceError,
            r"layer\.bias",
        ),
        ({"layer.weight": ef.ones((1, 2)), "layer.bias": "g"}, TensorValueError, "not a tensor"),
        (
            {
                "layer.weight": ef.ones((1, 2)),
                "layer.bias": ef.IndexedSlices(ef.ones(1), ef.tensor([0]), (2,)),
            },
            ShapeError,
            r"layer\.bias",
        ),
        (
            {
                "layer.weight": ef.ones((1, 2)),
                "layer.bias": ef.IndexedSlices(ef.ones(2), ef.tensor([0, 1]), (1,)),
            },
            TensorIndexError,
            r"layer\.bias has rows that are out of range",
        ),
    ],
)
@pytest.mark.parametrize("name", CLASSES)
def test_wrong_gradients_change_nothing(
    name: str, gradients: Any, error: type[Exception], text: str
) -> None:
    variables = two()
    optimiser = make(name, variables)
    before = content(variables, optimiser)
    with pytest.raises(error, match=text):
        optimiser.update(gradients)
    assert content(variables, optimiser) == before


@pytest.mark.parametrize(
    ("gradients", "hint"),
    [
        (["layer.weight", "layer.bias"], "iterating over a dict gives its names"),
        ({"layer.weight": "layer.weight", "layer.bias": None}, "iterating over a dict gives its"),
        ([ef.ones((1, 2)), ef.ones(1)], "{name: g * scale for name, g in grads.items()}"),
        ({"layer.weight": ef.ones((1, 2))}, "None stands for a missing gradient"),
    ],
)
def test_gradients_that_lost_their_names(gradients: Any, hint: str) -> None:
    with pytest.raises(TensorValueError) as caught:
        ef.optim.SGD(two(), lr=0.1).update(gradients)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("wrong", [-1, 1, 7])
def test_rows_of_sparse_gradients_are_checked_in_each_run(name: str, wrong: int) -> None:
    variables = two()
    optimiser = make(name, variables)

    @ef.trace
    def step(rows: ef.Tensor) -> None:
        sparse = ef.IndexedSlices(ef.ones(2), rows, (1,))
        optimiser.update({"layer.weight": ef.ones((1, 2)), "layer.bias": sparse})

    step(ef.tensor([0, 0]))
    before = content(variables, optimiser)
    with pytest.raises(TensorIndexError, match=f"index {wrong} is out of range for 1 rows"):
        step(ef.tensor([0, wrong]))
    assert content(variables, optimiser) == before
    assert len(step.traces) == 1


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("lr", [-1.0, float("nan"), ef.tensor(-1.0)])
def test_a_learning_rate_is_checked_in_each_run(name: str, lr: Any) -> None:
    variables = two()
    optimiser = make(name, variables)
    step = ef.trace(lambda lr: optimiser.update(some(variables), lr=lr))
    step(0.5 if isinstance(lr, float) else ef.tensor(0.5))
    before = content(variables, optimiser)
    with pytest.raises(TensorValueError, match="update: the learning rate is negative or NaN"):
        step(lr)
    assert content(variables, optimiser) == before
    assert len(step.traces) == 1


@pytest.mark.parametrize("lr", [-1.0, float("nan"), lambda count: -0.5, ef.ones(2)])
def test_a_wrong_learning_rate_changes_nothing(lr: Any) -> None:
    variables = two()
    optimiser = ef.optim.Adam(variables)
    before = content(variables, optimiser)
    with pytest.raises((TensorValueError, ShapeError)):
        optimiser.update(some(variables), lr=lr)
    assert content(variables, optimiser) == before


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -0.1}),
        ("SGD", {"lr": "fast"}),
        ("SGD", {"momentum": -0.1}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        ("SGD", {"weight_decay": -1.0}),
        ("SGD", {"lr_scale": lambda path, v: None}),
        ("Adagrad", {"lr_decay": -1.0}),
        ("Adagrad", {"initial_accumulator_value": -1.0}),
        ("Adagrad", {"eps": -1.0}),
        ("Adadelta", {"rho": 1.0}),
        ("Adadelta", {"eps": -1.0}),
        ("RMSprop", {"alpha": -0.1}),
        ("RMSprop", {"momentum": -0.1}),
        ("Adam", {"betas": 0.9}),
        ("Adam", {"betas": (0.9, 1.0)}),
        ("Adam", {"betas": (-0.1, 0.9)}),
        ("AdamW", {"eps": -1e-8}),
    ],
)
def test_options_out_of_range(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(TensorValueError, match=name) as caught:
        make(name, [ef.Variable([1.0])], **options)
    assert caught.value.given


@pytest.mark.parametrize(
    "make_schedule",
    [
        lambda: ef.optim.StepSchedule(-0.1, 3),
        lambda: ef.optim.StepSchedule(0.1, 0),
        lambda: ef.optim.MultiStepSchedule(0.1, (3, 2)),
        lambda: ef.optim.OneCycleSchedule(0.1, 10, pct_start=2),
        lambda: ef.optim.OneCycleSchedule(0.1, 10, div_factor=0),
        lambda: ef.optim.OneCycleSchedule(0.1, 10, anneal_strategy="cosine"),
        lambda: ef.optim.WarmUp("slow", 3),
    ],
)
def test_errors_of_schedules_say_what_was_given(make_schedule: Any) -> None:
    with pytest.raises(TensorValueError, check=says(r"Schedule|WarmUp")) as caught:
        make_schedule()
    assert caught.value.given
    assert caught.value.expected


@pytest.mark.parametrize(
    ("gradients", "given"), [(ef.nn.Linear(2, 1), "a Linear"), (ef.tensor(0.5), "f32[]@cpu:0")]
)
def test_what_is_no_gradient_at_all(gradients: Any, given: str) -> None:
    with pytest.raises(TensorValueError, match="the argument is not a tree of gradients") as caught:
        make("SGD", two()).update(gradients)
    assert caught.value.given == given
    assert "ef.value_and_grad" in str(caught.value.hint)


def test_gradients_in_the_result_of_another_function() -> None:
    variables = {"a": ef.Variable([1.0]), "b": ef.Variable([2.0])}
    value_and_gradients = ef.value_and_grad(lambda: ef.sum(variables["a"] * variables["b"]),
                                            wrt=variables)()  # fmt: skip
    for given, at in (
        (value_and_gradients, 1), (ef.optim.clip_by_global_norm(value_and_gradients[1], 1.0), 0),
    ):  # fmt: skip
        with pytest.raises(TensorValueError, match="do not have the structure") as caught:
            ef.optim.SGD(variables).update(given)
        assert str(caught.value.hint).startswith(f"the gradients are [{at}] of this tuple")


def test_the_structure_of_many_variables_is_shortened() -> None:
    layers = ef.nn.Sequential(*[ef.nn.Linear(1, 1) for _ in range(20)])
    with pytest.raises(TensorValueError, match="do not have the structure") as caught:
        ef.optim.SGD(layers.trainable).update([ef.ones(1)])
    assert str(caught.value.expected).startswith("a tree like that of the 40 variables: layers.0")


def test_wrong_variables() -> None:
    v = ef.Variable([1.0])
    with pytest.raises(TensorValueError, match="a and b are the same variable"):
        ef.optim.SGD({"a": v, "b": v})
    with pytest.raises(TensorValueError, match="no variables"):
        ef.optim.SGD([])
    with pytest.raises(TensorValueError, match="1 is not a variable"):
        ef.optim.SGD([v, ef.ones(1)])
    with pytest.raises(DTypeError, match="floating"):
        ef.optim.SGD([ef.Variable([1])])
