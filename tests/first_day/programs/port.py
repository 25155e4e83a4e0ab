import numpy as np

import eagerflow as ef
import eagerflow.nn as nn
import eagerflow.nn.functional as F

ef.random.seed(0)


class Spirals:
    def __init__(self, n=1500, classes=3):
        rng = np.random.default_rng(0)
        t = rng.uniform(0.2, 1.0, size=n)
        label = rng.integers(0, classes, size=n)
        angle = 4 * t + 2 * np.pi * label / classes
        points = np.stack([t * np.cos(angle), t * np.sin(angle)], axis=1)
        self.x = ef.tensor(points + 0.02 * rng.normal(size=points.shape), dtype=ef.float32)
        self.y = ef.tensor(label, dtype=ef.int64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Net(nn.Module):
    def __init__(self, hidden=64, classes=3, p=0.1):
        super().__init__()
        self.fc1 = nn.Linear(2, hidden)
        self.norm = nn.BatchNorm(hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(hidden, classes)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.weight.assign(nn.init.kaiming_normal(m.weight.shape))
                m.bias.assign(nn.init.zeros(m.bias.shape))

    def forward(self, x):
        x = F.relu(self.norm(self.fc1(x)))
        x = self.drop(F.relu(self.fc2(x)))
        return self.out(x)


dataset = Spirals()
permutation = ef.random.permutation(len(dataset))
train_x, train_y = dataset[permutation[:1200]]
test_x, test_y = dataset[permutation[1200:]]
train_loader = (
    ef.data.Dataset.from_tensors((train_x, train_y)).shuffle(seed=0).batch(64, drop_last=True)
)
test_loader = ef.data.Dataset.from_tensors((test_x, test_y)).batch(100)

with ef.device("cpu:0"):
    model = Net()
print(model)
print("parameters:", sum(p.size for p in model.trainable.values()))


def criterion(logits, y):
    return F.cross_entropy(logits, y, label_smoothing=0.05)


schedule = ef.optim.CosineSchedule(1e-2, steps=20 * (1200 // 64))
optimizer = ef.optim.AdamW(model.trainable, lr=schedule, weight_decay=1e-4)


@ef.trace
def train_step(x, y):
    loss, gradients = ef.value_and_grad(lambda: criterion(model(x), y), wrt=model.trainable)()
    gradients, _ = ef.optim.clip_by_global_norm(gradients, 1.0)
    optimizer.update(gradients)
    return loss


def train_epoch():
    model.train()
    total = 0.0
    for x, y in train_loader:
        loss = train_step(x, y)
        total += loss.item() * x.shape[0]
    return total / len(train_x)


def evaluate():
    model.eval()
    correct, total = 0, 0.0
    for x, y in test_loader:
        logits = model(x)
        total += F.cross_entropy(logits, y, reduction="sum").item()
        correct += (logits.argmax(axis=1) == y).sum().item()
    return total / len(test_x), correct / len(test_x)


best = 0.0
for epoch in range(20):
    loss = train_epoch()
    test_loss, accuracy = evaluate()
    lr = float(schedule((epoch + 1) * (1200 // 64)))
    print(f"epoch {epoch:2d} lr {lr:.4f} loss {loss:.4f} test {test_loss:.4f} acc {accuracy:.3f}")
    if accuracy > best:
        best, best_result = accuracy, (test_loss, accuracy)
        ef.checkpoint.save("best", {"model": model, "optimizer": optimizer, "epoch": epoch})

checkpoint = ef.checkpoint.load("best", {"model": model, "optimizer": optimizer, "epoch": 0})
reloaded = evaluate()
print("best epoch", checkpoint["epoch"], "reloaded:", reloaded)
assert reloaded == best_result
assert best > 0.9
