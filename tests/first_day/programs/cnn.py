"""CNN on digits: augmentation, early stopping, checkpoint, exact resume in a second process.

cnn.py full    trains without interruption
cnn.py first   trains, saves after 3 epochs, stops
cnn.py resume  resumes and trains on
"""

import hashlib
import os
import sys

import numpy as np
from sklearn.datasets import load_digits

import eagerflow as ef

MODE = sys.argv[1]
PATH = "saved"
EPOCHS, PATIENCE, BATCH, STOP_AFTER = 8, 3, 64, 3

digits = load_digits()
X = (digits.images / 16).astype(np.float32)[:, None]
Y = digits.target.astype(np.int64)
order = np.random.default_rng(0).permutation(len(X))
X, Y = X[order], Y[order]
x_train, y_train, x_val, y_val = X[:1400], Y[:1400], ef.tensor(X[1400:]), ef.tensor(Y[1400:])


class CNN(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = ef.nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = ef.nn.BatchNorm(16)
        self.conv2 = ef.nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = ef.nn.BatchNorm(32)
        self.pool = ef.nn.MaxPool2d(2)
        self.drop = ef.nn.Dropout(0.2)
        self.fc = ef.nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = self.pool(ef.nn.functional.relu(self.bn1(self.conv1(x))))
        x = self.pool(ef.nn.functional.relu(self.bn2(self.conv2(x))))
        return self.fc(self.drop(x.reshape(x.shape[0], -1)))


def augment(x):
    """Shifts each batch by at most a pixel, and adds noise."""
    dy, dx = ef.random.randint((2,), -1, 2)
    x = x[:, :, (ef.arange(8) - dy) % 8]
    x = x[:, :, :, (ef.arange(8) - dx) % 8]
    return x + 0.05 * ef.random.normal(x.shape)


ef.random.seed(1)
model = CNN()
optimizer = ef.optim.Adam(model.trainable, lr=2e-3)
data = ef.data.Dataset.from_tensors((x_train, y_train)).shuffle(seed=0).batch(BATCH)


def loss_of(x, y):
    return ef.nn.functional.cross_entropy(model(augment(x)), y)


@ef.trace
def train_step(x, y):
    loss, grads = ef.value_and_grad(loss_of, wrt=model.trainable)(x, y)
    optimizer.update(grads)
    return loss


@ef.trace
def evaluate(x, y):
    logits = model(x)
    accuracy = (logits.argmax(axis=1) == y).astype(ef.float32).mean()
    return ef.nn.functional.cross_entropy(logits, y), accuracy


def fingerprint():
    h = hashlib.sha256()
    for name, value in sorted(model.state.items()):
        h.update(name.encode() + np.asarray(value).tobytes())
    return h.hexdigest()[:16]


it = iter(data)
objects = {"model": model, "optimizer": optimizer, "rng": ef.random.default_generator(), "data": it}
start, best, bad = 0, float("inf"), 0
if MODE == "resume":
    state = ef.checkpoint.load(PATH, like=objects | {"epoch": 0, "best": 0.0, "bad": 0})
    start, best, bad = state["epoch"], state["best"], state["bad"]
    print("resumed at epoch", start)

for epoch in range(start, EPOCHS):
    model.train()
    it = objects["data"] = iter(data)
    losses = [train_step(x, y).item() for x, y in it]
    model.eval()
    val, acc = evaluate(x_val, y_val)
    print(
        f"epoch {epoch} train {np.mean(losses):.4f} val {val:.4f} accuracy {acc:.3f}",
        fingerprint(),
    )
    if val.item() < best:
        best, bad = val.item(), 0
    else:
        bad += 1
        if bad >= PATIENCE:
            print("early stop")
            break
    if epoch + 1 == STOP_AFTER and MODE == "first":
        ef.checkpoint.save(PATH, objects | {"epoch": epoch + 1, "best": best, "bad": bad})
        print("saved", os.listdir(PATH) if os.path.isdir(PATH) else os.path.getsize(PATH))
        sys.exit()
assert acc > 0.93
print("final", fingerprint())
