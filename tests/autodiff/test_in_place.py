"""``x[i] = v`` and ``x += v`` under differentiation: they only give a handle a new value."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef

X = ef.tensor([1.0, 2.0, 3.0])


def by_grad(f, x):
    return ef.grad(lambda x: f(x).sum())(x).numpy()


def by_jvp(f, x):
    """Row sums of the Jacobian's transpose, by columns."""
    basis = ef.eye(x.size, dtype=x.dtype)
    return np.array([float(ef.jvp(f, (x,), (basis[i],))[1].sum()) for i in range(x.size)])


def by_tape(f, x):
    with ef.GradientTape() as tape:
        tape.watch(x)
        source = x * 1.0
        y = f(source * 1.0)
    return tape.gradient(y, source).numpy()


def by_remat(f, x):
    return by_grad(ef.remat(f), x)


WAYS = pytest.mark.parametrize("gradient", [by_grad, by_jvp, by_tape, by_remat])


@WAYS
def test_setting_an_item(gradient) -> None:
    def f(x):
        y = x * x
        y[0] = x[1] * 10
        y[1:] = 0.0
        return y

    np.testing.assert_array_equal(gradient(f, X), [0, 10, 0])


@WAYS
def test_updating_the_argument(gradient) -> None:
    def f(x):
        x += x * x
        x[2] = 5.0
        x *= 2.0
        return x

    np.testing.assert_array_equal(gradient(f, X), [6, 10, 0])
    np.testing.assert_array_equal(X.numpy(), [1, 2, 3])


@WAYS
def test_old_values_keep_their_gradients(gradient) -> None:
    def f(x):
        y = x * 2
        before = y * y
        y += 100.0
        y[0] = 0.0
        return before + y

    np.testing.assert_array_equal(gradient(f, X), [8, 18, 26])


@WAYS
def test_views_are_values(gradient) -> None:
    def f(x):
        y = x * 1.0
        part = y[:2]
        y[:2] = 0.0
        return ef.concat([y, part * 3])

    np.testing.assert_array_equal(gradient(f, X), [3, 3, 1])


@WAYS
def test_all_in_place_operators(gradient) -> None:
    def f(x):
        y = x * 1.0
        y += x
        y -= 1.0
        y *= x
        y /= 2.0
        y **= 2.0
        return y

    v = X.numpy()  # of ((2x - 1) x / 2)^2
    np.testing.assert_allclose(gradient(f, X), (2 * v - 1) * v / 2 * (4 * v - 1), rtol=1e-6)


@WAYS
def test_one_name_for_another_sees_the_update(gradient) -> None:
    def f(x):
        y = x * 3
        same = y
        same[1] = x[0]
        return y

    np.testing.assert_array_equal(gradient(f, X), [4, 0, 3])


def test_second_derivatives() -> None:
    def f(x):
        y = x * x * x
        y[0] *= y[1]
        y += x
        return y.sum()

    h = ef.hessian(f)(ef.tensor([2.0, 3.0]))
    np.testing.assert_array_equal(h.numpy(), [[12 * 27, 12 * 27], [12 * 27, 8 * 18 + 18]])
    jvp = ef.jvp(ef.grad(f), (ef.tensor([2.0, 3.0]),), (ef.tensor([1.0, 0.0]),))[1]
    np.testing.assert_array_equal(jvp.numpy(), h.numpy()[0])


def test_a_constant_that_gets_a_watched_value() -> None:
    buffer = ef.zeros(3)

    def f(x):
        buffer[1:] = x[:2]
        return (buffer * buffer).sum()

    np.testing.assert_array_equal(ef.grad(f)(X).numpy(), [2, 4, 0])


def test_gradient_is_by_the_value_that_the_source_has_now() -> None:
    x = ef.tensor([1.0, 2.0])
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = ef.asarray(x, copy=True)
        x *= 10.0
        y = (x * x).sum()
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [20, 40])
    assert tape.gradient(y, first) is None


def test_an_update_after_the_tape_makes_a_value_that_it_does_not_know() -> None:
    for update in (lambda x: x.__setitem__(0, 5.0), lambda x: x.__iadd__(1.0)):
        x = ef.tensor([1.0, 2.0])
        with ef.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = (x * x).sum()
            z = (2 * x).sum()
        update(x)
        assert tape.gradient(y, x) is None
        assert tape.gradient(z, x) is None


def test_an_update_after_the_tape_does_not_change_what_it_recorded() -> None:
    x = ef.tensor([1.0, 2.0])
    with ef.GradientTape() as tape:
        tape.watch(x)
        source = x * 1.0
        held = source * 1.0
        y = held * held
    held += 100.0
    held[0] = -7.0
    np.testing.assert_array_equal(tape.gradient(y, source).numpy(), [2, 4])
