"""Random functions, differentiated in all ways: they agree with each other and with numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from tests.numeric import EPS, numeric_vjp_check

#: smooth functions of one array, bounded enough to be composed
UNARY = {
    "sin": ef.sin,
    "tanh": ef.tanh,
    "exp": lambda x: ef.exp(ef.tanh(x)),
    "log": lambda x: ef.log(x * x + 1.0),
    "divide": lambda x: 1.0 / (x * x + 2.0),
    "power": lambda x: (ef.sin(x) ** 2 + 1.0) ** 1.5,
    "softmax": lambda x: ef.exp(x - ef.logsumexp(x)),
    "reversed": lambda x: x[::-1] * 2.0,
    "gather": lambda x: ef.take(x, ef.tensor([2, 0, 0]), axis=0),
    "set": lambda x: updated(x * 1.0, x[2]),
    "outer": lambda x: (ef.outer(x, ef.cos(x))).sum(axis=1),
    "cumsum": lambda x: ef.cumulative_sum(x) * 0.5,
    "remat": lambda x: ef.remat(lambda y: ef.sin(y * x))(x),
    "custom": lambda x: cubed(ef.sin(x)),
    "slope": lambda x: ef.grad(lambda y: (ef.sin(y) * y * x).sum())(x),
    "push": lambda x: ef.jvp(lambda y: y * y * ef.cos(x), (x,), (ef.sin(x),))[1],
    "pull": lambda x: ef.vjp(lambda y: ef.tanh(y) * x, x)[1](x)[0],
}

BINARY = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "matmul": lambda x, y: ef.outer(x, y) @ ef.tanh(y) * 0.3,
    "where": lambda x, y: ef.where(ef.tensor([True, False, True]), x, y),
    "hypot": lambda x, y: ef.hypot(x, y + 3.0),
}


def updated(x, value):
    """``x`` with its first element replaced, in place."""
    x[0] = ef.sin(value) * value
    x += value
    return x


@ef.custom_vjp
def cubed(x):
    return x * x * x


cubed.defvjp(lambda x: (cubed(x), x), lambda x, g: (3.0 * g * x * x,))

functions = st.recursive(
    st.sampled_from(["x", "y"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), inner),
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner),
    ),
    max_leaves=5,
)
seeds = st.integers(0, 2**32 - 1)


def compose(expression):
    """The function of two arrays that an expression describes."""

    def f(x, y):
        def value(e):
            if isinstance(e, str):
                return x if e == "x" else y
            return {**UNARY, **BINARY}[e[0]](*map(value, e[1:]))

        return value(expression)

    return f


def arrays(seed: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.5, 1.5, 3) for _ in range(count)]


def near(a, b, scale: float = 1.0) -> None:
    a, b = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(scale, np.abs(b).max(initial=1.0)))


@given(functions, seeds)
def test_both_modes_agree_with_numeric_derivatives(expression, seed: int) -> None:
    f = compose(expression)
    for eps in (EPS, EPS / 4, EPS / 16):  # a steep function takes smaller steps, a bug takes none
        try:
            rng = np.random.default_rng(seed)
            numeric_vjp_check(f, arrays(seed, 2), (0, 1), rng, order=2, eps=eps)
            return
        except AssertionError as error:
            wrong = error
    raise wrong


@given(functions, seeds)
def test_the_ways_to_a_second_derivative_agree(expression, seed: int) -> None:
    f = compose(expression)
    x, y, t, s = map(ef.tensor, arrays(seed, 4))

    def loss(x):
        return ef.sin(f(x, y)).sum()

    def along(g, t):
        return lambda x: ef.jvp(g, (x,), (t,))[1]

    slope = ef.grad(loss)
    want = (ef.hessian(loss)(x) @ t).numpy()
    near(ef.grad(lambda x: (slope(x) * t).sum())(x), want)
    near(along(slope, t)(x), want)
    near(ef.grad(along(loss, t))(x), want)
    near(ef.vjp(slope, x)[1](t)[0], want)
    near(along(along(loss, t), s)(x), (want * s.numpy()).sum())
    near(ef.jacobian(slope)(x) @ t, want)


@given(functions, seeds)
def test_the_ways_to_a_third_derivative_agree(expression, seed: int) -> None:
    f = compose(expression)
    x, y, t, s = map(ef.tensor, arrays(seed, 4))

    def loss(x):
        return ef.tanh(f(x, y)).sum()

    def push(g, t):
        return lambda x: ef.jvp(g, (x,), (t,))[1]

    def pull(g, t):
        return lambda x: (ef.grad(g)(x) * t).sum()

    want = ef.grad(pull(pull(loss, t), s))(x).numpy()
    near(ef.grad(push(pull(loss, t), s))(x), want)
    near(ef.grad(pull(push(loss, t), s))(x), want)
    near(ef.grad(push(push(loss, t), s))(x), want)
    near(push(ef.grad(pull(loss, t)), s)(x), want)
    near(push(push(ef.grad(loss), t), s)(x), want)


@given(functions, seeds)
def test_tapes_agree_with_transforms(expression, seed: int) -> None:
    f = compose(expression)
    x, y = map(ef.tensor, arrays(seed, 2))
    v = ef.Variable(x)
    with ef.GradientTape() as outer:
        outer.watch((x, y))
        with ef.GradientTape(persistent=True) as inner:
            inner.watch((x, y))
            z, w = f(x, y).sum(), f(v, y).sum()
        slope = inner.gradient(z, (x, y))
        by_variable = inner.gradient(w, v)
        near(0 * x if by_variable is None else by_variable, slope_of(f, x, y))
        total = sum(((g * g).sum() for g in slope if g is not None), ef.tensor(0.0))
    second = outer.gradient(total, x)

    def norm(x):
        gx, gy = ef.grad(lambda x, y: f(x, y).sum(), (0, 1))(x, y)
        return (gx * gx).sum() + (gy * gy).sum()

    near(0 * x if second is None else second, ef.grad(norm)(x))


def slope_of(f, x, y):
    return ef.grad(lambda x: f(x, y).sum())(x)
