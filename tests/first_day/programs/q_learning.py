"""DQN on CartPole, environment in NumPy, replay buffer, target network, traced update."""

import copy
import math

import numpy as np

import eagerflow as ef

ef.random.seed(1)
rng = np.random.default_rng(1)


class CartPole:
    gravity, masscart, masspole, length, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def reset(self):
        self.state = rng.uniform(-0.05, 0.05, size=4)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, xd, th, thd = self.state
        f = self.force if action == 1 else -self.force
        total = self.masscart + self.masspole
        ml = self.masspole * self.length
        temp = (f + ml * thd**2 * math.sin(th)) / total
        tha = (self.gravity * math.sin(th) - math.cos(th) * temp) / (
            self.length * (4 / 3 - self.masspole * math.cos(th) ** 2 / total)
        )
        xa = temp - ml * tha * math.cos(th) / total
        self.state = np.array(
            [x + self.tau * xd, xd + self.tau * xa, th + self.tau * thd, thd + self.tau * tha]
        )
        self.t += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180
        return self.state.astype(np.float32), 1.0, fell, self.t >= 200


class Replay:
    def __init__(self, capacity):
        self.s = np.zeros((capacity, 4), np.float32)
        self.a = np.zeros(capacity, np.int64)
        self.r = np.zeros(capacity, np.float32)
        self.s2 = np.zeros((capacity, 4), np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.n, self.capacity = 0, capacity

    def add(self, s, a, r, s2, done):
        i = self.n % self.capacity
        self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i] = s, a, r, s2, done
        self.n += 1

    def sample(self, k):
        i = rng.integers(0, min(self.n, self.capacity), size=k)
        return [ef.tensor(z[i]) for z in (self.s, self.a, self.r, self.s2, self.done)]


class QNet(ef.nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = ef.nn.Sequential(
            ef.nn.Linear(4, hidden),
            ef.nn.functional.relu,
            ef.nn.Linear(hidden, hidden),
            ef.nn.functional.relu,
            ef.nn.Linear(hidden, 2),
        )

    def forward(self, x):
        return self.body(x)


q = QNet()
target = copy.deepcopy(q)
optimiser = ef.optim.Adam(q.trainable, lr=1e-3)
gamma = 0.99


@ef.trace
def act(s):
    return ef.argmax(q(s[None])[0])


@ef.trace
def update(s, a, r, s2, done):
    best = q(s2).argmax(axis=1)
    future = ef.take_along_axis(target(s2), best[:, None], axis=1)[:, 0]
    goal = ef.stop_gradient(r + gamma * (1 - done) * future)

    def loss():
        chosen = ef.take_along_axis(q(s), a[:, None], axis=1)[:, 0]
        return ef.nn.functional.smooth_l1_loss(chosen, goal)

    error, gradients = ef.value_and_grad(loss, wrt=q.trainable)()
    gradients, _ = ef.optim.clip_by_global_norm(gradients, 10.0)
    optimiser.update(gradients)
    return error


def sync(tau=1.0):
    for mine, theirs in zip(target.parameters.values(), q.parameters.values(), strict=True):
        mine.assign((1 - tau) * mine + tau * theirs)


env, memory = CartPole(), Replay(10_000)
returns, steps = [], 0
for episode in range(220):
    s, total = env.reset(), 0.0
    while True:
        epsilon = max(0.02, 1.0 - steps / 3000)
        a = int(rng.integers(2)) if rng.random() < epsilon else int(act(s))
        s2, r, fell, over = env.step(a)
        memory.add(s, a, r, s2, fell)
        s, total, steps = s2, total + r, steps + 1
        if memory.n >= 500 and steps % 2 == 0:
            error = update(*memory.sample(64))
        if steps % 200 == 0:
            sync()
        if fell or over:
            break
    returns.append(total)
    if episode % 20 == 19:
        print(
            f"{episode + 1:4d} episodes, {steps} steps: return {np.mean(returns[-20:]):.1f},",
            f"epsilon {epsilon:.2f}",
        )
    if np.mean(returns[-20:]) > 150:
        break
print(
    "best mean of 20:", max(np.mean(returns[i : i + 20]) for i in range(max(1, len(returns) - 19)))
)
print(update.explain())
# the parameters of the target differ from the online ones between syncs
difference = sum(
    float(ef.abs(m - t).sum())
    for m, t in zip(q.parameters.values(), target.parameters.values(), strict=True)
)
print("distance to target", difference)
assert np.mean(returns[-20:]) > 100
