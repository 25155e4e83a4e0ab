"""Numbers that Python reads from a value: no gradient flows back through them."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.autodiff import looks
from eagerflow.errors import GradientError, GradientWarning
from tests.autodiff.lines import line_of

X = ef.tensor([1.0, 2.0])
Y = ef.tensor([3.0, 4.0])
# each result is a tensor that depends on x by way of Python only
LOST: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: ef.tensor(np.sin(x.numpy())).sum(),
    "item": lambda x: ef.tensor(x.sum().item() ** 2),
    "float": lambda x: ef.tensor([float(v) for v in x]).sum(),
    "tolist": lambda x: ef.tensor(x.tolist()).sum(),
    "further on": lambda x: ef.tensor(math.sin((x * x).sum())) * 2 + 1,
}
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f: ef.grad(f)(X),
    "value_and_grad": lambda f: ef.value_and_grad(f)(X),
    "argnums": lambda f: ef.grad(lambda x, y: f(x), argnums=(0, 1))(X, Y),
    "vjp": lambda f: ef.vjp(f, X),
    "linearize": lambda f: ef.linearize(f, X),
    "jacrev": lambda f: ef.jacrev(f)(X),
    "jvp": lambda f: ef.jvp(f, (X,), (X,)),
    "jacfwd": lambda f: ef.jacfwd(f)(X),
    "hessian": lambda f: ef.hessian(f)(X),
}


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_said", {})


@pytest.mark.parametrize("way", LOST)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_result_that_comes_from_numbers_alone_is_refused(transform: str, way: str) -> None:
    with pytest.raises(GradientError, match=r"through a number or an array of NumPy") as caught:
        TRANSFORMS[transform](LOST[way])
    assert line_of(caught.value).startswith(f'"{way}": ')
    assert "ef.stop_gradient(x)" in str(caught.value.hint)


def test_variables() -> None:
    w = ef.Variable(X)
    with pytest.raises(GradientError, match="no gradient flows into the variable") as caught:
        ef.grad(lambda: ef.tensor(w.numpy()).sum(), wrt=[w])()
    assert "w.numpy()" in line_of(caught.value)


@pytest.mark.parametrize("make", [float, math.sqrt, np.float32])
def test_a_function_that_returns_a_number_is_told_where_it_came_from(make: Any) -> None:
    def f(x: Any) -> Any:
        print(x.sum().item())
        number = make((x * x).sum().item())
        return number + 1

    with pytest.raises(GradientError, match="the result is not a tensor") as caught:
        ef.value_and_grad(f)(X)
    assert line_of(caught.value) == "number = make((x * x).sum().item())"


def test_another_library_is_refused_the_memory() -> None:
    with pytest.raises(GradientError, match="another library would take this tensor out") as caught:
        ef.grad(lambda x: ef.from_dlpack(np.from_dlpack(x)).sum())(X)
    assert "np.from_dlpack(x)" in line_of(caught.value)


def test_looking_is_free(caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    """Printing, logging and reading values on the way changes no gradient and gives no warning."""

    def f(x: Any, scale: Any) -> Any:
        y = x * x
        loss = y.sum() + 0 * scale
        print(x, f"{loss:.2f}", loss.item(), float(y[0]), y.numpy(), y.tolist())
        logging.getLogger("here").warning("loss %s", loss)
        assert loss.item() > 0
        return loss if float(loss) > 0 else -loss

    np.testing.assert_array_equal(ef.grad(f, argnums=(0, 1))(X, ef.tensor(2.0))[0].numpy(), [2, 4])


def test_showing_what_is_not_used_is_no_look() -> None:
    def f(x: Any, unused: Any) -> Any:
        print(f"{unused} {unused!r} {unused.sum():.1f}")
        return x.sum()

    np.testing.assert_array_equal(ef.grad(f, argnums=1)(X, Y).numpy(), [0, 0])


def test_conditions_are_no_looks() -> None:
    def f(x: Any) -> Any:
        return x.sum() if (x > 5).any() else ef.tensor(0.0)

    np.testing.assert_array_equal(ef.grad(f)(X).numpy(), [0, 0])


def test_a_stopped_gradient_says_that_it_is_meant() -> None:
    gradient = ef.grad(lambda x: ef.tensor(ef.stop_gradient(x).sum().item()))(X)
    np.testing.assert_array_equal(gradient.numpy(), [0, 0])
    _, tangent = ef.jvp(lambda x: ef.tensor(ef.stop_gradient(x).numpy()), (X,), (X,))
    np.testing.assert_array_equal(tangent.numpy(), [0, 0])


def test_one_source_of_several_warns_once_at_the_line() -> None:
    def f(x: Any, y: Any) -> Any:
        factor = float((y * 2).sum())
        return (x * factor).sum()

    step = ef.grad(f, argnums=(0, 1))
    with pytest.warns(GradientWarning, match="no gradient flows into argument 1") as caught:
        _, gradient = step(X, Y)
    np.testing.assert_array_equal(gradient.numpy(), [0, 0])
    (one,) = caught
    assert one.filename == __file__
    assert "factor = float((y * 2).sum())" in str(one.message)
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("default")
        step(X, Y)
        step(X, Y)
    assert len(again) == 1


SECOND: dict[str, Callable[..., Any]] = {
    "hessian": lambda f: ef.hessian(f)(X),
    "hvp": lambda f: ef.hvp(f, (X,), (X,))[0],
    "jvp": lambda f: ef.jvp(ef.grad(f), (X,), (X,))[1],
    "grad": lambda f: ef.grad(lambda x: (ef.grad(f)(x) * Y).sum())(X),
    "jacrev": lambda f: ef.jacrev(ef.grad(f))(X),
    "jacfwd": lambda f: ef.jacfwd(ef.grad(f))(X),
    "vjp": lambda f: ef.vjp(ef.grad(f), X)[1](X)[0],
}


@pytest.mark.parametrize("transform", SECOND)
def test_a_slope_that_is_constant_has_a_derivative_of_zero(transform: str) -> None:
    """The printed value may be the reason, or not: hence a warning and no error."""

    def f(x: Any) -> Any:
        print(x.sum().item())
        return (3 * x).sum()

    with pytest.warns(GradientWarning, match="no gradient flows into"):
        second = SECOND[transform](f)
    assert not np.any(second.numpy())


def test_the_gradient_of_a_tape_is_missing_and_a_warning_says_why() -> None:
    with ef.GradientTape() as tape:
        tape.watch(X)
        y = ef.tensor(X.numpy()).sum()
    with pytest.warns(GradientWarning, match="GradientTape.gradient: no gradient flows into"):
        assert tape.gradient(y, X) is None


def test_a_number_beside_a_tensor_is_a_constant() -> None:
    """As in PyTorch and in JAX: the purpose of the number is unknown."""
    gradient = ef.grad(lambda x: (x * x.sum().item()).sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), [3, 3])
