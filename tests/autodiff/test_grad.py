"""`grad` and `value_and_grad`: arguments, results and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.autodiff.lines import line_of


def cube(x):
    return (x * x * x).sum()


def summed(g):
    return lambda x: g(x).sum()


def test_orders_one_to_four() -> None:
    x = ef.tensor([1.0, 2.0])
    derivative = cube
    for want in ([3, 12], [6, 12], [6, 6], [0, 0]):
        np.testing.assert_allclose(ef.grad(derivative)(x).numpy(), want, rtol=1e-6)
        derivative = summed(ef.grad(derivative))


def test_the_function_runs_once_and_with_kwargs() -> None:
    calls = []

    def f(x, *, power):
        calls.append(power)
        return (x**power).sum()

    value, gradient = ef.value_and_grad(f)(ef.tensor([2.0, 3.0]), power=2.0)
    assert calls == [2.0]
    assert float(value) == 13.0
    np.testing.assert_array_equal(gradient.numpy(), [4, 6])


def test_argnums() -> None:
    def f(x, y, z):
        return x * y + z

    args = (2.0, 3.0, 5.0)
    assert float(ef.grad(f)(*args)) == 3.0
    assert float(ef.grad(f, argnums=1)(*args)) == 2.0
    assert float(ef.grad(f, -1)(*args)) == 1.0
    one = ef.grad(f, argnums=(1,))(*args)
    assert isinstance(one, tuple)
    assert [float(g) for g in one] == [2.0]
    assert [float(g) for g in ef.grad(f, argnums=(2, 0))(*args)] == [1.0, 3.0]


def test_trees_keep_their_structure() -> None:
    def f(tree, scale):
        return (tree["w"] * tree["b"][0]).sum() * scale + tree["b"][1]

    tree = {"w": ef.tensor([1.0, 2.0]), "b": [ef.tensor(3.0), 4.0], "nothing": None}
    gradient, scale = ef.grad(f, argnums=(0, 1))(tree, ef.tensor(2.0))
    assert set(gradient) == {"w", "b", "nothing"}
    assert gradient["nothing"] is None
    np.testing.assert_array_equal(gradient["w"].numpy(), [6, 6])
    assert [float(g) for g in gradient["b"]] == [6.0, 1.0]
    assert float(scale) == 9.0


def test_numbers_and_arrays_become_tensors() -> None:
    gradient = ef.grad(lambda x: x * x)(3.0)
    assert isinstance(gradient, ef.Tensor)
    assert gradient.dtype is ef.float32
    assert float(gradient) == 6.0
    assert ef.grad(lambda x: (x * x).sum())(np.ones(2)).dtype is ef.float64
    assert ef.grad(lambda x: x.real * 2)(1 + 2j).dtype is ef.complex64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_gradient_has_the_type_of_its_argument(dtype: str) -> None:
    x = ef.ones((2, 3), dtype=dtype)
    gradient = ef.grad(lambda x: (ef.exp(x) * x).sum().astype(ef.float32))(x)
    assert gradient.type == x.type
    np.testing.assert_allclose(gradient.astype(ef.float64).numpy(), 2 * math.e, rtol=2e-2)


def test_an_argument_that_does_not_matter_has_gradient_zero() -> None:
    x, y = ef.tensor([1.0, 2.0]), ef.tensor([[3.0]])
    gx, gy = ef.grad(lambda x, y: x.sum(), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(gx.numpy(), [1, 1])
    np.testing.assert_array_equal(gy.numpy(), [[0]])
    assert gy.type == y.type
    assert float(ef.grad(lambda x: ef.tensor(2.0))(1.0)) == 0.0


def test_the_same_tensor_twice_is_two_arguments() -> None:
    x = ef.tensor(3.0)
    assert [float(g) for g in ef.grad(lambda a, b: a * a * b, (0, 1))(x, x)] == [18.0, 9.0]


def test_equal_arrays_are_different_values() -> None:
    array = np.array([1.0, 2.0])
    a, b = ef.asarray(array), ef.asarray(array)
    np.testing.assert_array_equal(ef.grad(lambda a: (a * b).sum())(a).numpy(), [1, 2])


def test_a_constant_of_the_value_of_the_argument_is_a_constant() -> None:
    assert float(ef.grad(lambda x: x * 2.0 + 2.0 * 2.0)(2.0)) == 2.0


def test_gradients_are_handles_of_their_own() -> None:
    x, y = ef.grad(lambda x, y: x + y, (0, 1))(1.0, 2.0)
    x += 1.0
    assert (float(x), float(y)) == (2.0, 1.0)


def test_has_aux() -> None:
    def f(x):
        return (x * x).sum(), {"twice": 2 * x, "text": "a"}

    x = ef.tensor([1.0, 2.0])
    gradient, aux = ef.grad(f, has_aux=True)(x)
    np.testing.assert_array_equal(gradient.numpy(), [2, 4])
    assert aux["text"] == "a"
    (value, aux), gradient = ef.value_and_grad(f, has_aux=True)(x)
    assert float(value) == 5.0
    np.testing.assert_array_equal(aux["twice"].numpy(), [2, 4])
    with pytest.raises(GradientError, match=r"must return \(result, aux\)"):
        ef.grad(cube, has_aux=True)(x)


def test_what_is_closed_over_is_a_constant_to_this_grad_only() -> None:
    def outer(x):
        return x * ef.grad(lambda y: x * y * y)(3.0)

    assert float(ef.grad(outer)(2.0)) == 24.0  # d/dx of x * 6x


def test_the_docstring_goes_along() -> None:
    def documented(x):
        """What it does."""
        return x

    assert ef.grad(documented).__doc__ == "What it does."
    assert ef.value_and_grad(documented).__name__ == "documented"


# --- refusals -------------------------------------------------------------------------------


def test_integers() -> None:
    with pytest.raises(GradientError) as caught:
        ef.grad(lambda x: x * 2)(ef.tensor([1, 2]))
    assert caught.value.wrong == "grad: argument 0 has an integer dtype"
    assert caught.value.given == "i64[2]@cpu:0"
    assert "astype" in caught.value.hint
    assert line_of(caught.value) == "ef.grad(lambda x: x * 2)(ef.tensor([1, 2]))"
    with pytest.raises(GradientError, match=r"argument 1\['n'\] has an integer dtype"):
        ef.grad(lambda x, y: x, argnums=1)(1.0, {"n": 3})
    with pytest.raises(GradientError, match="argument 0 has dtype bool"):
        ef.value_and_grad(lambda x: x)(True)


def test_what_is_no_array() -> None:
    with pytest.raises(GradientError, match=r"argument 0\[1\] is not an array"):
        ef.grad(lambda x: x[0])([1.0, "text"])
    with pytest.raises(GradientError, match="must be a function") as caught:
        ef.grad(ef.tensor(1.0))
    assert caught.value.given == "f32[]@cpu:0"


def test_argnums_that_are_none() -> None:
    with pytest.raises(GradientError, match="no positional argument 1"):
        ef.grad(lambda x: x, argnums=1)(1.0)
    with pytest.raises(GradientError, match="names an argument twice"):
        ef.grad(lambda x, y: x, argnums=(0, -2))(1.0, 2.0)


def test_a_result_that_is_no_scalar() -> None:
    with pytest.raises(GradientError) as caught:
        ef.grad(lambda x: x * 2)(ef.tensor([1.0, 2.0]))
    assert caught.value.wrong == "grad: the result is not a scalar"
    assert caught.value.given == "f32[2]@cpu:0"
    assert "vjp" in caught.value.hint
    assert "jacobian" in caught.value.hint


def test_a_result_that_is_not_real() -> None:
    with pytest.raises(GradientError, match="the result is complex"):
        ef.grad(lambda x: x * 1j)(1.0)
    with pytest.raises(GradientError, match="the result has an integer dtype"):
        ef.grad(lambda x: ef.tensor(1))(1.0)


def test_a_result_that_is_no_tensor() -> None:
    with pytest.raises(GradientError, match="the result is not a tensor") as caught:
        ef.value_and_grad(lambda x: float(x * x))(3.0)
    assert caught.value.given == "float 9.0"
    assert ".item()" in caught.value.hint
    with pytest.raises(GradientError, match="the result is not a tensor") as caught:
        ef.grad(lambda x: (x, x))(3.0)
    assert "has_aux" in caught.value.hint
    assert caught.value.given == "a tuple of 2"


def test_errors_of_the_function_come_through() -> None:
    with pytest.raises(ef.errors.ShapeError):
        ef.grad(lambda x: (x + ef.ones(3)).sum())(ef.ones(2))
    assert float(ef.grad(lambda x: x * x)(1.0)) == 2.0  # and leave no state behind


@pytest.mark.parametrize(
    "transform", [ef.grad, ef.value_and_grad, ef.jacobian, ef.jacrev, ef.jacfwd, ef.hessian]
)
def test_a_value_in_the_place_of_positions_is_refused_at_once(transform) -> None:
    for given in (ef.ones(2), (ef.ones(2),), 0.5):
        with pytest.raises(
            ef.errors.GradientError, match="argnums must be the positions"
        ) as caught:
            transform(lambda x: x.sum(), given)
        assert f"ef.{transform.__name__}(f)(x)" in (caught.value.hint or "")


def test_a_function_without_arguments_is_differentiated_by_variables() -> None:
    v = ef.Variable(3.0)
    with pytest.raises(ef.errors.GradientError) as caught:
        ef.grad(lambda: v * v)()
    assert caught.value.hint == "by variables: ef.grad(f, wrt=net.trainable)()"
    assert ef.grad(lambda: v * v, wrt=v)().item() == 6.0
