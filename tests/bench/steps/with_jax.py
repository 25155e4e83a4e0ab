"""Training steps by JAX, each wholly under `jax.jit` with donated state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tests.bench.steps.data import BETAS, EPS, RATE, Task, cnn_task, lstm_task, mlp_task


def _adam(w: Any, g: Any, m: Any, v: Any, n: Any) -> Any:
    m = BETAS[0] * m + (1 - BETAS[0]) * g
    v = BETAS[1] * v + (1 - BETAS[1]) * g * g
    first, second = 1 - BETAS[0] ** n, 1 - BETAS[1] ** n
    return w - RATE * (m / first) / (jnp.sqrt(v / second) + EPS), m, v


def _step(logits: Callable[[Any, Any], Any], task: Task) -> Callable[[], Any]:
    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(logits(weights, x))
        return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()

    @partial(jax.jit, donate_argnums=0)
    def run(state: Any, x: Any, y: Any) -> Any:
        weights, means, squares, n = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        parts = zip(weights, gradients, means, squares, strict=True)
        made = [_adam(*part, n + 1) for part in parts]
        return (*map(list, zip(*made, strict=True)), n + 1), loss

    weights = [jnp.array(w) for w in task.weights]
    means, squares = ([jnp.zeros_like(w) for w in weights] for _ in range(2))
    state = [(weights, means, squares, jnp.float32(0))]
    iterations = task.iterations(jnp.asarray)

    def step() -> Any:
        state[0], loss = run(state[0], *next(iterations))
        jax.block_until_ready(state[0])
        return loss

    return step


def mlp(batch: int, hidden: int) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10."""

    def logits(weights: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        x = jax.nn.relu(x @ w1.T + b1)
        return jax.nn.relu(x @ w2.T + b2) @ w3.T + b3

    return _step(logits, mlp_task(batch, hidden))


def _convolved(x: Any, w: Any, b: Any) -> Any:
    out = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
    return jax.nn.relu(out + b[:, None, None])


def cnn() -> Callable[[], Any]:
    """Steps of the small convolution net."""

    def logits(weights: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        x = _convolved(_convolved(x, w1, b1), w2, b2)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return x.reshape(len(x), -1) @ w3.T + b3

    return _step(logits, cnn_task())


def lstm(time: int, batch: int, inputs: int, hidden: int) -> Callable[[], Any]:
    """Steps of an LSTM classifier by `jax.lax.scan`."""

    def logits(weights: Any, xs: Any) -> Any:
        w_ih, w_hh, b_ih, b_hh, w, b = weights

        def iteration(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((batch, hidden))
        (h, _), _ = jax.lax.scan(iteration, (zeros, zeros), xs)
        return h @ w.T + b

    return _step(logits, lstm_task(time, batch, inputs, hidden))
