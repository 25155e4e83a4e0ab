"""Parameters of draws: shapes, dtypes, devices, gradients, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

X = ef.ones(2)

# --- parameters -------------------------------------------------------------------------------


def test_shape_broadcasts_with_the_parameters() -> None:
    loc = ef.tensor([0.0, 100.0])
    assert ef.random.normal((3, 2), loc=loc).shape == (3, 2)
    assert ef.random.normal(loc=loc, scale=ef.ones((4, 1))).shape == (4, 2)
    assert ef.random.uniform(5).shape == (5,)
    assert ef.random.exponential([2, 3]).shape == (2, 3)
    with pytest.raises(errors.ShapeError):
        ef.random.normal((3,), loc=loc)


def test_dtype_follows_the_parameters() -> None:
    assert ef.random.normal().dtype == "float32"
    assert ef.random.normal(loc=ef.tensor([1.0], dtype="float64")).dtype == "float64"
    assert ef.random.normal(loc=ef.tensor([1])).dtype == "float32"
    assert ef.random.normal(loc=ef.tensor([1.0], dtype="float64"), dtype="float32").dtype == (
        "float32"
    )
    assert ef.random.normal((2,), dtype="bfloat16").dtype == "bfloat16"


def test_scale_and_loc_are_applied_to_the_same_draw() -> None:
    plain_draw = ef.random.Generator(1).normal((5,))
    moved = ef.random.Generator(1).normal((5,), loc=2.0, scale=3.0)
    np.testing.assert_allclose(moved.numpy(), 2.0 + 3.0 * plain_draw.numpy(), rtol=1e-6)


def test_draws_are_made_on_the_device() -> None:
    with ef.config(cpu_devices=2):
        there = ef.random.Generator(1).normal((3,), device="cpu:1")
        assert there.device == "cpu:1"
        loc = ef.zeros(3, device="cpu:1")
        assert ef.random.normal(loc=loc).device == "cpu:1"
        with ef.device("cpu:1"):
            assert ef.random.randint((2,), 0, 5).device == "cpu:1"
        here = ef.random.Generator(1).normal((3,))
        np.testing.assert_array_equal(there.numpy(), here.numpy())
    nowhere = ef.random.uniform((3,), device="null:0")
    assert str(nowhere) == "f32[3]@null:0"


def test_gradients_flow_to_the_parameters() -> None:
    z = ef.random.Generator(1).normal((5,)).numpy()
    u = ef.random.Generator(1).uniform((5,)).numpy()

    def normal(loc, scale):
        return ef.random.Generator(1).normal((5,), loc=loc, scale=scale).sum()

    def uniform(low, high):
        return ef.random.Generator(1).uniform((5,), low=low, high=high).sum()

    loc, scale = ef.tensor(1.0), ef.tensor(2.0)
    d_loc, d_scale = ef.grad(normal, argnums=(0, 1))(loc, scale)
    assert d_loc.item() == pytest.approx(5.0)
    assert d_scale.item() == pytest.approx(float(z.sum()), rel=1e-5)
    d_low, d_high = ef.grad(uniform, argnums=(0, 1))(loc, scale)
    assert d_low.item() == pytest.approx(float((1 - u).sum()), rel=1e-5)
    assert d_high.item() == pytest.approx(float(u.sum()), rel=1e-5)


WRONG = [
    (lambda: ef.random.normal((2,), dtype="int32"), errors.DTypeError, "not a real floating"),
    (lambda: ef.random.normal((2,), scale=-1.0), errors.TensorValueError, "scale is negative"),
    (lambda: ef.random.normal((-2,)), errors.ShapeError, "cannot be negative"),
    (lambda: ef.random.normal(2.5), errors.DTypeError, "integer"),
    (lambda: ef.random.normal((2,), generator=7), errors.DTypeError, "Generator"),
    (lambda: ef.random.normal((2,), device="cpu:99"), errors.DeviceError, "no device"),
    (lambda: ef.random.bits((2,), dtype="int32"), errors.DTypeError, "uint32 or uint64"),
    (lambda: ef.random.randint((2,), 5, 5), errors.TensorValueError, "less than"),
    (lambda: ef.random.randint((2,), 0, 300, dtype="int8"), errors.TensorValueError, "fit"),
    (lambda: ef.random.randint((2,), 0, 3, dtype="float32"), errors.DTypeError, "integer dtype"),
    (lambda: ef.random.randint((2,), 0, 2.5), errors.DTypeError, "integer"),
    (
        lambda: ef.random.randint((2,), ef.tensor([0, 4]), ef.tensor([2, 4])),
        errors.TensorValueError,
        "low must be less than high",
    ),
    (lambda: ef.random.bernoulli((2,), 1.5), errors.TensorValueError, "not a probability"),
    (lambda: ef.random.categorical((2,), 1.0), errors.AxisError, "axis"),
    (lambda: ef.random.bernoulli(p=ef.tensor([2.0, -1.0])), errors.TensorValueError, "not a prob"),
    (
        lambda: ef.random.bernoulli((2,), ef.tensor(float("nan"), dtype="bfloat16")),
        errors.TensorValueError,
        "not a probability",
    ),
    (
        lambda: ef.random.categorical((2,), ef.tensor([float("nan"), 1.0])),
        errors.TensorValueError,
        "logits are NaN",
    ),
    (
        lambda: ef.random.categorical((2,), ef.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])),
        errors.TensorValueError,
        "-inf",
    ),
    (lambda: ef.random.uniform(low=1, high=0), errors.TensorValueError, "greater than high"),
    (lambda: ef.random.uniform(low=ef.ones(2) * 2), errors.TensorValueError, "greater than high"),
    (
        lambda: ef.random.uniform(low=ef.ones(2), high=ef.tensor([2.0, 0.5])),
        errors.TensorValueError,
        "greater than high",
    ),
    *[
        (
            lambda draw=draw: draw((2,), scale=ef.tensor([1.0, -1.0])),
            errors.TensorValueError,
            "scale is negative",
        )
        for draw in (
            ef.random.normal,
            ef.random.truncated_normal,
            ef.random.exponential,
            ef.random.gumbel,
        )
    ],
    (lambda: ef.random.permutation(2.5), errors.DTypeError, "no axes"),
    (lambda: ef.random.permutation(-1), errors.ShapeError, "negative"),
    (
        lambda: ef.random.truncated_normal(lower=2.0, upper=1.0),
        errors.TensorValueError,
        "nothing between",
    ),
    (
        lambda: ef.random.truncated_normal(lower=50.0, upper=60.0),
        errors.TensorValueError,
        "nothing between",
    ),
    (lambda: ef.random.seed(-1), errors.TensorValueError, "seed"),
    (lambda: ef.random.Generator(2**64), errors.TensorValueError, "seed"),
    (lambda: ef.random.Generator(1.5), errors.TensorValueError, "seed"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_wrong_arguments_are_named(call, kind, words) -> None:
    with pytest.raises(kind, check=says(words)):
        call()


@pytest.mark.parametrize("state", [{}, {"seed": 1}, {"seed": 1, "ticket": -1}, 7])
def test_a_wrong_state_is_refused_and_changes_nothing(state) -> None:
    generator = ef.random.Generator(1)
    with pytest.raises(errors.TensorValueError):
        generator.state = state
    assert generator.state == {"seed": 1, "ticket": 0}


def test_parameters_at_the_edge_are_taken() -> None:
    assert ef.random.uniform((2,), low=1.0, high=ef.ones(2)).tolist() == [1.0, 1.0]
    assert ef.random.normal((2,), scale=ef.zeros(2)).tolist() == [0.0, 0.0]
    assert ef.random.bernoulli((2,), ef.tensor([0.0, 1.0])).tolist() == [False, True]
    assert ef.random.categorical((), ef.tensor([0.0, math.inf])).item() == 1
    assert ef.random.categorical((), ef.zeros((0, 3))).shape == (0,)
    assert ef.random.normal((2,), scale=ef.ones(2, device="null:0")).shape == (2,)


@pytest.mark.parametrize(
    ("drawn", "by_name"),
    [
        (lambda g: g.uniform((3,), 0.5, 1.5), lambda g: g.uniform((3,), low=0.5, high=1.5)),
        (lambda g: g.normal((3,), 2.0, 0.1), lambda g: g.normal((3,), loc=2.0, scale=0.1)),
        (lambda g: g.gumbel((3,), 2.0, 0.1), lambda g: g.gumbel((3,), loc=2.0, scale=0.1)),
        (lambda g: g.exponential((3,), 2.0), lambda g: g.exponential((3,), scale=2.0)),
        (lambda g: g.poisson((3,), 2.0), lambda g: g.poisson((3,), rate=2.0)),
        (lambda g: g.beta((3,), 2.0, 3.0), lambda g: g.beta((3,), a=2.0, b=3.0)),
        (lambda g: g.uniform_like(X, 2.0, 3.0), lambda g: g.uniform_like(X, low=2.0, high=3.0)),
        (lambda g: g.normal_like(X, 2.0, 3.0), lambda g: g.normal_like(X, loc=2.0, scale=3.0)),
    ],
)
def test_parameters_follow_the_shape_by_position(drawn, by_name) -> None:
    for run in (lambda f: f, ef.trace):
        a, b = (run(f)(ef.random.Generator(3)) for f in (drawn, by_name))
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("uniform(0.0, 1.0, (3,))", "this is uniform\\(\\(3,\\), 0.0, 1.0\\)"),
        ("uniform(0, 1, 5)", "this is uniform\\(\\(5,\\), 0, 1\\)"),
        ("uniform(X, 2.0)", "this is uniform\\(\\(\\), f32\\[2\\]@cpu:0, 2.0\\)"),
        ("normal([0, 5], 1)", "this is normal\\(\\(\\), \\[0, 5\\], 1\\)"),
        ("normal(3, 4)", "a shape alone is one tuple: normal\\(\\(3, 4\\)\\)"),
        ("normal(3, 4, 5, 6)", "a shape alone is one tuple: normal\\(\\(3, 4, 5, 6\\)\\)"),
        ("gumbel(3, 4)", "this is gumbel"),
        ("exponential(2, 5)", "this is exponential\\(\\(5,\\), 2\\)"),
        ("poisson(5, 10)", "this is poisson\\(\\(10,\\), 5\\)"),
        ("beta(2, 5, 10)", "this is beta\\(\\(10,\\), 2, 5\\)"),
        ("gamma(2, 3)", "this is gamma\\(\\(3,\\), 2\\)"),
        ("randint(0, 10, (5,))", "this is randint\\(\\(5,\\), 0, 10\\)"),
        ("randint(0, 2, 10)", "this is randint\\(\\(10,\\), 0, 2\\)"),
        ("randint(10, (3,))", "this is randint\\(\\(3,\\), low, 10\\)"),
        ("randint((0, 1), (2, 3), (5, 2))", "the shape comes first"),
    ],
)
def test_the_order_of_numpy_is_refused(wrong: str, hint: str) -> None:
    for owner in (ef.random, ef.random.Generator(1)):
        with pytest.raises(errors.ShapeError, check=says("the shape comes first")) as caught:
            eval(f"owner.{wrong}", {"owner": owner, "X": X})
        assert re.search(hint, caught.value.hint or caught.value.wrong)


def test_sizes_alone_and_names_take_any_shape() -> None:
    assert ef.random.uniform(5, low=2.0, high=3.0).shape == (5,)
    assert ef.random.normal([2, 3], scale=(1.0, 2.0, 3.0)).shape == (2, 3)
    assert ef.random.poisson(4).shape == (4,)


def test_randint_tells_of_a_bound_that_is_a_tuple() -> None:
    with pytest.raises(ValueError, check=says("the shape comes first")):
        ef.random.randint((5,), low=0, high=(5,))
