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


def pair_of(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x * 2, y


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

# arguments converted to arrays
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
ef.spawn(step, x, runs=1)

# other parts of a training script
net.linear = ef.nn.Linear(3, 2)
net.train(), net.eval(), net.freeze().unfreeze()
assert_type(net.state["linear.weight"], ef.Variable)
net.load_state({name: value.numpy() for name, value in net.state.items()})
layers: list[ef.nn.Module] = [ef.nn.Linear(2, 2), ef.nn.Dropout(0.1)]
model = ef.nn.Sequential(*layers, ef.nn.functional.relu, lambda y: y * 2)
assert_type(ef.nn.functional.cross_entropy(model(x), ef.tensor([0, 1])), Tensor)
dataset = (
    ef.data.Dataset.from_tensors((x, ef.tensor([1]))).shuffle(10, seed=0).batch(2).map(pair_of)
)
for images, labels in dataset:
    step(images) + labels
assert_type(ef.vmap(squares, in_axes=(0, None))(x, x), Tensor)
assert_type(ef.vmap(ef.grad(squares))(x, x), Tensor)
normal = ef.distributions.Normal(ef.zeros(2), 1.0)
assert_type(normal.log_prob(normal.sample((3,))).mean(), Tensor)
assert_type(ef.distributions.kl(normal, normal), Tensor)
low, high = x.min(1), x.max(1, keepdims=True)
assert_type(low + high, Tensor)
x[0, 1] = 3.0
x[1:] += 1
x[x > 0] = ef.zeros(3)
assert_type(float(x.sum()) + x.size, float)
counts: dict[str, int] = {name: v.size for name, v in net.parameters.items()}
net.linear.weight.assign(net.linear.weight - 0.1)
queue = ef.Queue(10, x)
for element in queue:
    step(element)
with ef.GradientTape() as tape:
    tape.watch(x)
    loss = step(x).sum()
tape.gradient(loss, [x])
with ef.config(check_nan=True), ef.device("cpu:0"), ef.name_scope("block"):
    step(x)
with ef.profile() as profile:
    step(x)
print(profile, step.explain(), len(step.traces))
step.place({"*": "cpu:0"})
ef.checkpoint.save("path", {"net": net, "optimiser": optimiser})
optimiser.lr = 0.5 * optimiser.lr
optimiser2 = ef.optim.AdamW(net.parameters, lr=ef.optim.CosineSchedule(0.1, steps=100))
clipped, norm = ef.optim.clip_by_global_norm(gradients, 1.0)
optimiser2.update(clipped)
out, state = ef.nn.LSTM(3, 4)(x[None])
assert_type(out, Tensor)
assert_type(ef.cond(x.sum() > 0, lambda: x, lambda: -x), Any)
if x.sum() > 0 and x.shape[0] == 2:
    print(f"{x.mean():.3f}", x.tolist(), x.item())
