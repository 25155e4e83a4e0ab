"""A model with hidden NaNs: log of zero, 0/0 in a masked loss, the gradient of sqrt at 0."""

import time

import numpy as np

import eagerflow as ef

ef.random.seed(0)
rng = np.random.default_rng(0)
lengths = rng.integers(0, 8, size=64)  # some sequences are empty
x = ef.tensor(rng.normal(size=(64, 8, 5)), dtype=ef.float32)
mask = ef.tensor(np.arange(8)[None] < lengths[:, None])
y = ef.tensor((rng.random((64, 8)) < 0.5), dtype=ef.float32)
x[3] = x[3, :1]  # equal rows: distance 0


class Model(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = ef.nn.Linear(5, 16)
        self.fc2 = ef.nn.Linear(16, 1)
        self.fixed = set()

    def forward(self, x):
        h = ef.nn.functional.relu(self.fc1(x))
        d2 = ((h[:, 1:] - h[:, :-1]) ** 2).sum(axis=-1)
        if "sqrt" in self.fixed:
            step = ef.sqrt(d2 + 1e-8)
        else:
            step = ef.sqrt(d2)  # NaN in the gradient
        roughness = step.mean()
        logits = self.fc2(h)[..., 0] * 30
        return logits, roughness

    def loss(self, x, y, mask):
        logits, roughness = self(x)
        if "log" in self.fixed:
            each = ef.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
        else:
            p = 1 / (1 + ef.exp(-logits))
            each = -(y * ef.log(p) + (1 - y) * ef.log(1 - p))  # log of zero
        m = mask.astype(ef.float32)
        if "mask" in self.fixed:
            means = (each * m).sum(axis=1) / ef.maximum(m.sum(axis=1), 1)
        else:
            means = (each * m).sum(axis=1) / m.sum(axis=1)  # 0/0
        return means.mean() + 0.01 * roughness


model = Model()
optimiser = ef.optim.Adam(model.trainable, lr=1e-2)


def step(x, y, mask):
    loss, gradients = ef.value_and_grad(lambda: model.loss(x, y, mask), wrt=model.trainable)()
    optimiser.update(gradients)
    return loss, gradients


traced = ef.trace(step)


def gradients_only():
    return ef.value_and_grad(lambda: model.loss(x, y, mask), wrt=model.trainable)()


loss, gradients = gradients_only()
print("loss", loss, "NaN gradients:", [k for k, g in gradients.items() if ef.isnan(g).any()])
assert np.isnan(float(loss))


def hunt(name, function, *arguments):
    try:
        with ef.config(check_nan=True):
            function(*arguments)
    except ef.errors.NonFiniteError as error:
        print(f"--- {name}\n{error}\n")
        return error
    print(f"--- {name}: nothing found")
    return None


saved = {k: v.value for k, v in model.trainable.items()}
for fix in ("log", "mask", "sqrt"):
    hunt(f"eager, fixed {sorted(model.fixed)}", gradients_only)
    hunt(f"traced, fixed {sorted(model.fixed)}", traced, x, y, mask)
    model.fixed.add(fix)
assert hunt("all mended, eager", gradients_only) is None
assert hunt("all mended, traced", traced, x, y, mask) is None

for k, v in model.trainable.items():
    v.assign(saved[k])
optimiser = ef.optim.Adam(model.trainable, lr=1e-2)
losses = [float(traced(x, y, mask)[0]) for _ in range(100)]
print("losses", losses[0], losses[-1])
assert np.isfinite(losses).all()
assert losses[-1] < losses[0]
print(traced.explain())

# the same by hand: which values are infinite?
model.fixed.clear()
graph = traced.graph(x, y, mask)
suspects = [n for n in graph.nodes if n.op in ("log", "divide", "sqrt")]
for node in suspects:
    (value,) = graph.run(
        [node.name], {"x": x, "y": y, "mask": mask, "optimiser_lr": 0.01, "optimiser_eps": 1e-8}
    )
    print(node.name, node.op, "non-finite:", int((~ef.isfinite(value)).sum()))
print("end after", time.process_time(), "s of processor time, wall", time.strftime("%X"))
