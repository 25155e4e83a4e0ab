"""Programs that checkers refuse, one a line; they are never run."""

from __future__ import annotations

import eagerflow as ef
from eagerflow import Tensor
from tests.checkers.right import Net, net, squares, step, x

step(x, x, 3)
step(x, rate="fast")
step(x, speed=0.1)
step("text")
number: int = step(x)
net(x, x)
net("text")
net.loss(x, scael=2.0)
net.loss()
Net("wide")
ef.grad(squares)(x)
ef.grad(squares)(x, x, weight="3")
ef.value_and_grad(squares)(x, x)[2]
ef.optim.Adam(net)
ef.optim.Adam(net.trainable, learning_rate=0.1)
ef.sum(x, dim=0)
x.sum(keepdim=True)
x.size(0)
x.unsqueeze(0)
ef.tensor([1.0], requires_grad=True)
ef.zeros((2,), dtype=3.5)
ef.random.normal(size=(2,))
ef.nn.Linear(2, 3, biass=False)
ef.trace(step, statics="x")
ef.vmap(squares, in_dims=0)
missing = ef.no_such_name
ef.spawn(step)
text: str = ef.trace(net)(x)
ef.exp("text")
ef.exp(None)
ef.concat([x, "text"])
ef.zeros("text")
ef.random.normal(2.5)
ef.random.randint((2,), 0, 3, dtype=1)
ef.distributions.Normal(0.0, 1.0).log_prob("text")
ef.linalg.solve(x, {"b": x})
ef.where(x, x)
ef.checkpoint.save(net)


def later(x: Tensor) -> str:
    return step(x)
