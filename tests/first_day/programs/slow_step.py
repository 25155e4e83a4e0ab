"""A deliberately slow training step: what is slow in it, and how much faster it can be."""

import time

import numpy as np

import eagerflow as ef

ef.config(threads=1)  # the machine is busy
ef.random.seed(0)
rng = np.random.default_rng(0)
N, D, H, T = 64, 32, 64, 24
data = ef.tensor(rng.normal(size=(N, T, D)), dtype=ef.float32)
labels = ef.tensor(rng.integers(0, 4, size=N))


class Slow(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = ef.nn.Linear(D, H)
        self.score = ef.nn.Linear(H, H)
        self.out = ef.nn.Linear(H, 4)

    def forward(self, x):
        # slow 1: one time step after the other
        hidden = ef.stack([ef.tanh(self.inp(x[:, t])) for t in range(x.shape[1])], axis=1)
        # slow 2: pairwise distances with a large temporary [N, T, T, H]
        with ef.name_scope("pairs"):
            s = self.score(hidden)
            d = ((s[:, :, None, :] - s[:, None, :, :]) ** 2).sum(axis=-1)
            weights = ef.nn.functional.softmax(-d, axis=-1)
        # slow 3: an explicit inverse that is not needed
        with ef.name_scope("whiten"):
            cov = ef.eye(H) + hidden[:, 0].T @ hidden[:, 0] / N
            whitened = (weights @ hidden) @ ef.linalg.inv(cov)
        return self.out(whitened.mean(axis=1))


class Fast(Slow):
    def forward(self, x):
        hidden = ef.tanh(self.inp(x))
        with ef.name_scope("pairs"):
            s = self.score(hidden)
            n2 = (s**2).sum(axis=-1)
            d = n2[:, :, None] + n2[:, None, :] - 2 * s @ s.mT
            weights = ef.nn.functional.softmax(-d, axis=-1)
        with ef.name_scope("whiten"):
            cov = ef.eye(H) + hidden[:, 0].T @ hidden[:, 0] / N
            whitened = ef.linalg.solve(cov, (weights @ hidden).mean(axis=1).T).T
        return self.out(whitened)


def make_step(cls):
    ef.random.seed(1)
    model = cls()
    optimiser = ef.optim.Adam(model.trainable, lr=1e-3)

    def step(x, y):
        loss, gradients = ef.value_and_grad(
            lambda: ef.nn.functional.cross_entropy(model(x), y), wrt=model.trainable
        )()
        optimiser.update(gradients)
        return loss

    return step


def measure(name, step, n=3):
    step(data, labels)
    times = []
    for _ in range(n):
        start = time.process_time()
        loss = step(data, labels)
        times.append(time.process_time() - start)
    print(
        f"{name}: {1000 * np.median(times):.1f} ms of processor time per step,",
        f"loss {float(loss):.5f}",
    )
    return np.median(times), float(loss)


slow, fast = make_step(Slow), make_step(Fast)
slow_traced, fast_traced = ef.trace(slow), ef.trace(fast)
graphs = [f.graph(data, labels) for f in (slow_traced, fast_traced)]
for graph in graphs:
    ops = {}
    for node in graph.nodes:
        ops[node.op] = ops.get(node.op, 0) + 1
    print(len(graph.nodes), "nodes", sorted(ops.items(), key=lambda kv: -kv[1])[:6])
for f in (slow_traced, fast_traced):
    print(f.explain("costs"))
t_slow, l_slow = measure("slow eager", slow)

with ef.profile() as profile:
    slow(data, labels)
print(profile)
profile.save("trace.json")

t_fast, l_fast = measure("fast eager", fast)
with ef.profile() as profile:
    fast(data, labels)
print(profile)

measure("slow traced", slow_traced)
measure("fast traced", fast_traced)
assert np.isclose(l_slow, l_fast, rtol=1e-3)
assert t_fast < t_slow

print(slow_traced.explain())
