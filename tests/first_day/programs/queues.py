"""Producers feed a queue, a training loop consumes batches; closing, errors, fill levels."""

import threading
import time

import numpy as np

import eagerflow as ef

ef.random.seed(0)
D = 8
w_true = np.linspace(-1, 1, D).astype(np.float32)

# ------------------------------------------------------------- 1. Python threads
samples = ef.Queue(64, ("f32[8]", "f32[]"))


def produce(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.normal(size=D).astype(np.float32)
        y = np.float32(x @ w_true + 0.01 * rng.normal())
        samples.enqueue((x, y))


threads = [threading.Thread(target=produce, args=(seed, 400), daemon=True) for seed in range(3)]


def close_when_done():
    for thread in threads:
        thread.join()
    samples.close()


for thread in threads:
    thread.start()
closer = threading.Thread(target=close_when_done, daemon=True)
closer.start()

model = ef.nn.Linear(D, 1)
optimiser = ef.optim.SGD(model.trainable, lr=0.1)


@ef.trace
def train_step():
    x, y = samples.dequeue_many(32)
    loss, gradients = ef.value_and_grad(
        lambda: ((model(x)[:, 0] - y) ** 2).mean(), wrt=model.trainable
    )()
    optimiser.update(gradients)
    return loss


losses, levels = [], []
while True:
    try:
        losses.append(float(train_step()))
    except ef.errors.QueueClosedError as end:
        print("closed:", end)
        break
    levels.append(int(samples.size()))
closer.join()
print(
    "batches",
    len(losses),
    "first",
    losses[0],
    "last",
    losses[-1],
    "levels",
    min(levels),
    max(levels),
)
assert losses[-1] < 0.05 * losses[0]

# what was left in the queue (1200 = 37 * 32 + 16)
rest = samples.dequeue_up_to(32)
print("rest", rest[0].shape)

# ------------------------------------------------------------- 2. a runner in the background
numbers = ef.Queue(16, "f32[8]", name="numbers")
generator = ef.random.Generator(5)


@ef.trace
def make():
    numbers.enqueue(ef.random.normal((D,), generator=generator))


total = 0
with ef.spawn(make, closes=numbers) as runner:
    for _ in range(10):
        batch = numbers.dequeue_many(16)
        total += len(batch)
print("runner gave", total, "left in queue", numbers.size())

# ------------------------------------------------------------- 3. an error in the producer
broken = ef.Queue(8, "f32[]", name="broken")
counter = {"n": 0}


def fails():
    counter["n"] += 1
    if counter["n"] > 5:
        raise OSError("disk on fire")
    broken.enqueue(float(counter["n"]))


got = []
try:
    with ef.spawn(fails, closes=broken):
        while True:
            got.append(float(broken.dequeue()))
except Exception as error:
    print("consumer sees", type(error), error)
    print("cause", repr(error.__cause__))
print("got", got)

# ------------------------------------------------------------- 4. fill levels, who waits for whom
q = ef.Queue(4, "f32[8]", name="slowly")


def slow():
    time.sleep(0.01)
    q.enqueue(np.ones(D, np.float32))


with ef.profile() as profile, ef.spawn(slow, closes=q):
    for _ in range(20):
        q.dequeue()
print(profile)
levels = [event.depth for event in profile.events if type(event).__name__ == "LevelEvent"]
waited = {"enqueue": 0.0, "dequeue": 0.0}
for event in profile.events:
    if type(event).__name__ == "WaitEvent":
        waited[event.operation] += event.stop - event.start
print("levels", levels, "waited", waited)
assert max(levels) <= 1
assert waited["dequeue"] > 0.1 > waited["enqueue"]  # the consumer starves
print(repr(q), q.size(), q.capacity, q.closed)
