"""Per-sample gradients of a multilayer perceptron: `vmap`, a loop over the samples, the peers.

Run: ``python -m tests.bench.vmap`` in an environment with the ``bench`` extra; peers that are not
installed are left out. Before anything is timed, the gradients are compared with those of the loop.
"""

from __future__ import annotations

import numpy as np

import eagerflow as ef
from tests.bench.harness import Contender, Contest, arguments, installed, run

#: samples, inputs, hidden, classes
SIZES = ((32, 16, 32, 4), (64, 64, 128, 10), (128, 128, 256, 10))

_VALUES = """
import numpy as np
rng = np.random.default_rng(0)
samples, inputs, hidden, classes = {sizes}
sizes = ((hidden, inputs), (hidden,), (hidden, hidden), (hidden,), (classes, hidden), (classes,))
values = [rng.normal(size=s).astype("float32") / 8 for s in sizes]
data = rng.normal(size=(samples, inputs)).astype("float32")
targets = rng.normal(size=(samples, classes)).astype("float32")
"""
_LOSS = """
def loss(params, x, t):
    w1, b1, w2, b2, w3, b3 = params
    y = xp.tanh(w1 @ x + b1)
    y = xp.tanh(w2 @ y + b2)
    return ((w3 @ y + b3 - t) ** 2).sum()
"""
_OURS = f"""
import eagerflow as ef
xp = ef
params = tuple(map(ef.tensor, values))
x, t = ef.tensor(data), ef.tensor(targets)
{_LOSS}
gradients = ef.vmap(ef.grad(loss), in_axes=(None, 0, 0))
traced = ef.trace(gradients)
one = ef.trace(ef.grad(loss))
"""
_TORCH = f"""
import torch
xp = torch
params = tuple(map(torch.tensor, values))
x, t = torch.tensor(data), torch.tensor(targets)
{_LOSS}
gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
"""
_JAX = f"""
import jax
import jax.numpy as xp
params = tuple(map(xp.asarray, values))
x, t = xp.asarray(data), xp.asarray(targets)
{_LOSS}
gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
"""
#: name: setup, timed statement, and the library that both need
WAYS = {
    "ef.vmap, eager": (_OURS, "gradients(params, x, t)", ""),
    "ef.vmap, traced": (_OURS, "traced(params, x, t)", ""),
    "a loop, traced": (_OURS, "[one(params, x[i], t[i]) for i in range(samples)]", ""),
    "torch.func.vmap": (_TORCH, "gradients(params, x, t)", "torch"),
    "jax.vmap, jit": (_JAX, "jax.block_until_ready(gradients(params, x, t))", "jax"),
}


def contests(every: tuple[tuple[int, ...], ...]) -> list[Contest]:
    """The table; eagerflow first."""
    return [
        Contest(
            "{} samples, {} to {} to {}".format(*sizes),
            [
                Contender(name, _VALUES.format(sizes=sizes) + setup, statement, needs)
                for name, (setup, statement, needs) in WAYS.items()
            ],
            {},
        )
        for sizes in every
    ]


def check(sizes: tuple[int, ...]) -> None:
    """Compare the gradients with those of the loop."""
    names: dict[str, object] = {}
    exec(_VALUES.format(sizes=sizes) + _OURS, names)
    got = eval("gradients(params, x, t)", names)
    traced = eval("traced(params, x, t)", names)
    loop = eval("[one(params, x[i], t[i]) for i in range(samples)]", names)
    for i, (a, b) in enumerate(zip(got, traced, strict=True)):
        want = ef.stack([row[i] for row in loop]).numpy()
        np.testing.assert_allclose(a.numpy(), want, rtol=2e-4, atol=1e-5)
        np.testing.assert_allclose(b.numpy(), want, rtol=2e-4, atol=1e-5)


def main() -> None:
    """Compare, measure, print tables."""
    options = arguments("Per-sample gradients").parse_args()
    every = SIZES[:1] if options.smallest else SIZES
    check(every[0])
    run("Per-sample gradients", installed(contests(every), options), options)


if __name__ == "__main__":
    main()
