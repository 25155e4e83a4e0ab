"""A program with types that checkers accept; it is never run."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import eagerflow as ef
from eagerflow import Tensor


@ef.trace
def step(x: Tensor, rate: float = 0.1) -> Tensor:
    return x * rate


@ef.trace(strict=True)
def pair(x: Tensor) -> tuple[Tensor, int]:
    return x, 3


class Net(ef.nn.Module):
    def __init__(self, width: int) -> None:
        self.linear = ef.nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @ef.trace
    def loss(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return self(x).sum() * scale


def squares(x: Tensor, target: Tensor, weight: float = 1.0) -> Tensor:
    return ((x - target) ** 2).sum() * weight


def of_parameters(parameters: dict[str, Tensor], x: Tensor) -> tuple[Tensor, int]:
    return (parameters["w"] @ x).sum(), 3


x = ef.tensor([[1.0, 2.0, 3.0]], dtype=ef.float32)
net = Net(3)

# arrays
assert_type(x, Tensor)
assert_type(x + 1, Tensor)
assert_type(2.0 * x @ x.T, Tensor)
assert_type(x[0, :2], Tensor)
assert_type(x.shape[0], int)
assert_type(ef.exp(x), Tensor)
assert_type(ef.sum(x, axis=1), Tensor)
assert_type(x.mean((0, 1), keepdims=True), Tensor)
assert_type(ef.linalg.inv(x), Tensor)
assert_type(ef.random.normal((2, 2), dtype="float64"), Tensor)
assert_type(net.linear.weight, ef.Variable)
assert_type(net.linear.weight * 2, Tensor)

# what is taken for an array
ef.exp(np.ones(3, dtype="float32"))
ef.exp(2), ef.exp(True), ef.exp(np.float32(2.0)), ef.exp(1j)
ef.add(x, [[1.0, 2.0], [3.0, 4.0]]), ef.exp((1, 2)), ef.exp(range(3)), ef.concat([x, [1.0]])
ef.tensor(b"bytes"), ef.tensor([b"a", b"b"])
ef.zeros([2, 3]), ef.zeros(x.shape), ef.zeros(3), ef.zeros(np.int64(3)), x.reshape(3, -1)
assert_type(ef.distributions.Normal(0.0, x).sample(5), Tensor)

# traced functions, methods and modules
assert_type(step(x), Tensor)
assert_type(step(x, rate=0.2), Tensor)
assert_type(pair(x), tuple[Tensor, int])
assert_type(net(x), Tensor)
assert_type(net.loss(x, scale=2.0), Tensor)
assert_type(Net.loss(net, x), Tensor)
assert_type(ef.trace(net)(x), Tensor)
assert_type(step.graph(x), ef.Graph)

# gradients
assert_type(ef.grad(squares)(x, x), Tensor)
assert_type(ef.grad(squares)(x, target=x, weight=2.0), Tensor)
assert_type(ef.grad(squares, (0, 1))(x, x), tuple[Any, ...])
assert_type(ef.value_and_grad(squares)(x, x), tuple[Tensor, Tensor])
ef.grad(lambda x: (x * x).sum())(x)
gradient, number = ef.grad(of_parameters, has_aux=True)({"w": x}, x)
assert_type(gradient, dict[str, Tensor])
assert_type(number, int)
value, gradients = ef.value_and_grad(squares, wrt=net.trainable)(x, target=x)
assert_type(value, Tensor)

# optimisers, runners
optimiser = ef.optim.Adam(net.trainable, lr=0.1)
optimiser.update(gradients)
ef.optim.SGD([net.linear.weight], lr=0.1)
runner = ef.spawn(step, x, rate=0.5)
ef.spawn(step, x, name="steps")
