"""Nonlinear regression with an MLP: minibatches, validation, cosine learning rate."""

import time

import numpy as np

import eagerflow as ef

SEED, N, BATCH, EPOCHS = 0, 2000, 64, 40
rng = np.random.default_rng(SEED)


def target(x):
    return np.sin(3 * x[:, 0]) * x[:, 1] + 0.5 * x[:, 2] ** 2


X = rng.uniform(-1, 1, size=(N, 3)).astype(np.float32)
Y = (target(X) + 0.05 * rng.normal(size=N)).astype(np.float32)[:, None]
mean, std = X.mean(0), X.std(0)
X = (X - mean) / std
x_train, y_train, x_val, y_val = X[:1600], Y[:1600], X[1600:], Y[1600:]
x_val, y_val = ef.tensor(x_val), ef.tensor(y_val)


class MLP(ef.nn.Module):
    def __init__(self, n_in, hidden, n_out, p=0.0):
        super().__init__()
        self.fc1 = ef.nn.Linear(n_in, hidden)
        self.fc2 = ef.nn.Linear(hidden, hidden)
        self.fc3 = ef.nn.Linear(hidden, n_out)
        self.dropout = ef.nn.Dropout(p)

    def forward(self, x):
        x = ef.nn.functional.relu(self.fc1(x))
        x = self.dropout(x)
        x = ef.nn.functional.relu(self.fc2(x))
        return self.fc3(x)


ef.random.seed(SEED)
model = MLP(3, 64, 1, p=0.05)
print(model)
print("parameters:", sum(p.size for p in model.parameters.values()))

steps_per_epoch = len(x_train) // BATCH
schedule = ef.optim.CosineSchedule(1e-2, steps=EPOCHS * steps_per_epoch)
optimizer = ef.optim.AdamW(model.trainable, lr=schedule, weight_decay=1e-4)
criterion = ef.nn.functional.mse_loss

train_data = (
    ef.data.Dataset.from_tensors((x_train, y_train)).shuffle(seed=SEED).batch(BATCH, drop_last=True)
)


def loss_of(x, y):
    return criterion(model(x), y)


def step(x, y):
    loss, grads = ef.value_and_grad(loss_of, wrt=model.trainable)(x, y)
    optimizer.update(grads)
    return loss


@ef.trace
def validate(x, y):
    pred = model(x)
    residual = ((pred - y) ** 2).sum()
    total = ((y - y.mean()) ** 2).sum()
    return criterion(pred, y), 1 - residual / total


def run(step_fn, epochs):
    history = []
    for epoch in range(epochs):
        model.train()
        t0, losses = time.perf_counter(), []
        for x, y in train_data:
            losses.append(step_fn(x, y).item())
        model.eval()
        val_loss, r2 = validate(x_val, y_val)
        history.append((np.mean(losses), float(val_loss), float(r2)))
        if epoch % 5 == 0 or epoch == epochs - 1:
            print(
                f"epoch {epoch:3d} train {history[-1][0]:.4f} val {val_loss:.4f} r2 {r2:.3f} "
                f"lr {optimizer.lr(optimizer.count):.5f} {time.perf_counter() - t0:.2f}s"
            )
    return history


eager = run(step, 5)
h = run(ef.trace(step), EPOCHS - 5)
assert h[-1][0] < eager[0][0] * 0.2, (h[-1], eager[0])
assert h[-1][2] > 0.9
print("final lr", optimizer.lr(optimizer.count))
