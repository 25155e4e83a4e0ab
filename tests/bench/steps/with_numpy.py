"""Training steps by NumPy by hand, as formulas and in place: no buffer or result is made twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.steps.data import BETAS, CNN_BATCH, EPS, RATE, cnn_task, mlp_task

Array = np.ndarray[Any, Any]


class Adam:
    """Adam over arrays, with buffers for gradients."""

    def __init__(self, weights: list[Array]) -> None:
        self.weights = weights
        self.gradients, self.rests, self.means, self.squares = (
            [np.zeros_like(w) for w in weights] for _ in range(4)
        )
        self.count = 0

    def update(self) -> None:
        self.count += 1
        root = (1 - BETAS[1] ** self.count) ** 0.5
        rate = np.float32(RATE / (1 - BETAS[0] ** self.count) * root)
        eps = np.float32(EPS * root)
        keep1, keep2 = map(np.float32, BETAS)
        take1, take2 = (np.float32(1 - b) for b in BETAS)
        for w, g, t, m, v in zip(
            self.weights, self.gradients, self.rests, self.means, self.squares, strict=True
        ):
            np.multiply(g, g, out=t)
            t *= take2
            v *= keep2
            v += t
            g *= take1
            m *= keep1
            m += g
            np.sqrt(v, out=t)
            t += eps
            np.divide(m, t, out=t)
            t *= rate
            w -= t


def cross_entropy(z: Array, labels: Array, rows: Array) -> Any:
    """The mean loss; ``z`` becomes its gradient."""
    z -= z.max(axis=1, keepdims=True)
    picked = z[rows, labels]
    np.exp(z, out=z)
    total = z.sum(axis=1)
    loss = (np.log(total) - picked).mean()
    z /= total[:, None]
    z[rows, labels] -= 1
    z *= np.float32(1 / len(rows))
    return loss


def formulas(batch: int, hidden: int) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10, written as formulas."""
    task = mlp_task(batch, hidden)
    weights, iterations, rows = task.weights, task.iterations(np.array), np.arange(batch)
    means, squares = [[np.zeros_like(w) for w in weights] for _ in range(2)]
    (beta1, beta2), count = BETAS, 0

    def step() -> Any:
        nonlocal count
        x, labels = next(iterations)
        w1, b1, w2, b2, w3, b3 = weights
        h1 = np.maximum(x @ w1.T + b1, 0)
        h2 = np.maximum(h1 @ w2.T + b2, 0)
        z = h2 @ w3.T + b3
        z = z - z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) - z[rows, labels])
        d3 = e / total
        d3[rows, labels] -= 1
        d3 /= batch
        d2 = (d3 @ w3) * (h2 > 0)
        d1 = (d2 @ w2) * (h1 > 0)
        gradients = (
            d1.T @ x, d1.sum(axis=0), d2.T @ h1, d2.sum(axis=0), d3.T @ h2, d3.sum(axis=0)
        )  # fmt: skip
        count += 1
        rate = RATE / (1 - beta1**count)
        for i, g in enumerate(gradients):
            means[i] = beta1 * means[i] + (1 - beta1) * g
            squares[i] = beta2 * squares[i] + (1 - beta2) * g**2
            root = np.sqrt(squares[i] / (1 - beta2**count))
            weights[i] = weights[i] - rate * means[i] / (root + EPS)
        return loss

    return step


def mlp(batch: int, hidden: int) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10, in place."""
    task = mlp_task(batch, hidden)
    adam, iterations, rows = Adam(task.weights), task.iterations(np.array), np.arange(batch)
    w1, b1, w2, b2, w3, b3 = task.weights
    g1, c1, g2, c2, g3, c3 = adam.gradients
    h1, h2, d1, d2 = (np.empty((batch, hidden), "f4") for _ in range(4))
    z, positive = np.empty((batch, 10), "f4"), np.empty((batch, hidden), bool)

    def step() -> Any:
        x, labels = next(iterations)
        for a, w, b, out in ((x, w1, b1, h1), (h1, w2, b2, h2)):
            np.matmul(a, w.T, out=out)
            out += b
            np.maximum(out, 0, out=out)
        np.matmul(h2, w3.T, out=z)
        np.add(z, b3, out=z)
        loss = cross_entropy(z, labels, rows)
        np.matmul(z.T, h2, out=g3)
        z.sum(axis=0, out=c3)
        layers = ((z, w3, h2, d2, h1, g2, c2), (d2, w2, h1, d1, x, g1, c1))
        for above, w, h, d, below, g, c in layers:
            np.matmul(above, w, out=d)
            np.greater(h, 0, out=positive)
            d *= positive
            np.matmul(d.T, below, out=g)
            d.sum(axis=0, out=c)
        adam.update()
        return loss

    return step


# --- convolutions -----------------------------------------------------------------------------


class Convolution:
    """A convolution 3x3 with zero padding, as one product with the patches; channels last."""

    def __init__(self, channels: int, out: int) -> None:
        self.padded = np.zeros((CNN_BATCH, 10, 10, channels), "f4")
        windows = np.lib.stride_tricks.sliding_window_view(self.padded, (3, 3), (1, 2))
        self.windows = windows.transpose(0, 1, 2, 3, 4, 5)  # n, y, x, channel, row, column
        self.patches = np.empty(self.windows.shape, "f4")
        self.rows = self.patches.reshape(-1, channels * 9)
        self.out = np.empty((CNN_BATCH * 64, out), "f4")
        self.back = np.empty_like(self.rows)
        self.sums = np.empty_like(self.padded)

    def forward(self, x: Array, w: Array, b: Array) -> Array:
        self.padded[:, 1:-1, 1:-1] = x
        self.patches[...] = self.windows
        np.matmul(self.rows, w.reshape(len(w), -1).T, out=self.out)
        self.out += b
        return np.maximum(self.out, 0, out=self.out)

    def backward(self, d: Array, w: Array, g: Array, c: Array) -> None:
        """The gradients of weight and bias from that of the result, which is changed."""
        d *= self.out > 0
        np.matmul(d.T, self.rows, out=g.reshape(len(w), -1))
        d.sum(axis=0, out=c)

    def input_gradient(self, d: Array, w: Array) -> Array:
        np.matmul(d, w.reshape(len(w), -1), out=self.back)
        back = self.back.reshape(CNN_BATCH, 8, 8, -1, 3, 3)
        self.sums[...] = 0
        for i in range(3):
            for j in range(3):
                self.sums[:, i : i + 8, j : j + 8] += back[..., i, j]
        return self.sums[:, 1:-1, 1:-1]


def cnn() -> Callable[[], Any]:
    """Steps of the small convolution net."""
    task = cnn_task()
    adam, iterations, rows = Adam(task.weights), task.iterations(np.array), np.arange(CNN_BATCH)
    w1, b1, w2, b2, w3, b3 = task.weights
    g1, c1, g2, c2, g3, c3 = adam.gradients
    first, second = Convolution(1, 16), Convolution(16, 32)
    d2 = np.empty((CNN_BATCH, 4, 2, 4, 2, 32), "f4")

    def step() -> Any:
        x, labels = next(iterations)
        h = first.forward(x.transpose(0, 2, 3, 1), w1, b1).reshape(CNN_BATCH, 8, 8, 16)
        h = second.forward(h, w2, b2).reshape(CNN_BATCH, 4, 2, 4, 2, 32)
        pooled = h.max(axis=(2, 4))
        flat = pooled.transpose(0, 3, 1, 2).reshape(CNN_BATCH, -1)
        z = flat @ w3.T
        z += b3
        loss = cross_entropy(z, labels, rows)
        np.matmul(z.T, flat, out=g3)
        z.sum(axis=0, out=c3)
        up = (z @ w3).reshape(CNN_BATCH, 32, 4, 4).transpose(0, 2, 3, 1)
        np.multiply(h == pooled[:, :, None, :, None], up[:, :, None, :, None], out=d2)
        d = d2.reshape(-1, 32)
        second.backward(d, w2, g2, c2)
        first.backward(second.input_gradient(d, w2).reshape(-1, 16), w1, g1, c1)
        adam.update()
        return loss

    return step
