"""LSTM: sums of sines of different lengths, next value prediction and classification by masking."""

import numpy as np

import eagerflow as ef

rng = np.random.default_rng(0)
HIDDEN, CLASSES, T, N = 32, 3, 40, 384


def make(n):
    """Padded sine sequences of variable length; the class is the frequency."""
    lengths = rng.integers(15, T + 1, size=n)
    label = rng.integers(0, CLASSES, size=n)
    phase = rng.uniform(0, 6.28, size=(n, 1))
    t = np.arange(T)[None]
    x = np.sin(phase + t * (0.3 + 0.3 * label[:, None])) + 0.2 * rng.normal(size=(n, T))
    x = x * (t < lengths[:, None])
    return (
        ef.tensor(x[..., None].astype(np.float32)),
        ef.tensor(lengths.astype(np.int64)),
        ef.tensor(label),
    )


class Classifier(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = ef.nn.LSTM(1, HIDDEN, num_layers=1, batch_first=True)
        self.head = ef.nn.Linear(HIDDEN, CLASSES)
        self.next = ef.nn.Linear(HIDDEN, 1)

    def forward(self, x, lengths):
        h, _state = self.lstm(x)
        mask = (ef.arange(x.shape[1])[None, :] < lengths[:, None]).astype(ef.float32)
        mean = (h * mask[:, :, None]).sum(axis=1) / lengths[:, None]
        return self.head(mean), self.next(h)[:, :, 0], mask


ef.random.seed(0)
model = Classifier()
optimizer = ef.optim.Adam(model.trainable, lr=1e-2)


def loss_of(x, lengths, label):
    logits, pred, mask = model(x, lengths)
    ce = ef.nn.functional.cross_entropy(logits, label)
    m = mask[:, 1:]
    mse = (((pred[:, :-1] - x[:, 1:, 0]) ** 2) * m).sum() / m.sum()
    return ce + 0.5 * mse


def train_step(x, lengths, label):
    loss, grads = ef.value_and_grad(loss_of, wrt=model.trainable)(x, lengths, label)
    grads, norm = ef.optim.clip_by_global_norm(grads, 1.0)
    optimizer.update(grads)
    return loss, norm


@ef.trace
def accuracy(x, lengths, label):
    logits, _, _ = model(x, lengths)
    return (logits.argmax(axis=-1) == label).astype(ef.float32).mean()


train, test = make(N), make(128)
traced = ef.trace(train_step)

# eager and traced steps agree bit for bit
x, lengths, label = (a[:32] for a in train)
saved = {k: v.numpy().copy() for k, v in model.state.items()}
a = train_step(x, lengths, label)
after = {k: v.numpy().copy() for k, v in model.state.items()}
model.load_state(saved)
optimizer = ef.optim.Adam(model.trainable, lr=1e-2)
b = traced(x, lengths, label)
assert all((after[k] == v.numpy()).all() for k, v in model.state.items()), "eager != traced"

for epoch in range(12):
    losses, norms = [], []
    for i in range(0, N, 32):
        loss, norm = traced(*(a[i : i + 32] for a in train))
        losses.append(float(loss)), norms.append(float(norm))
    print(
        f"epoch {epoch} loss {np.mean(losses):.4f} norm {np.mean(norms):.3f}",
        f"accuracy {accuracy(*test):.3f}",
    )
assert accuracy(*test) > 0.9

# padding must not matter: garbage behind the end gives the same logits
x, lengths, label = test
garbage = ef.where(ef.arange(T)[None, :, None] < lengths[:, None, None], x, 99.0)
d = ef.abs(model(x, lengths)[0] - model(garbage, lengths)[0]).max()
print("difference by padding", d.item())
assert d < 1e-5


# free running: feed predictions back, one step at a time
@ef.trace
def generate(start, n):
    state = None
    y, out = start, []
    for _ in range(n):
        h, state = model.lstm(y, state)
        y = model.next(h)
        out.append(y[:, 0, 0])
    return ef.stack(out, axis=1)


print("generated", ef.round(generate(x[:2, :1], 8), 2))
print(traced.explain())
