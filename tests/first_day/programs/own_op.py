"""An own differentiable op: softplus with a temperature, own kernel and own gradient."""

import numpy as np

import eagerflow as ef
from eagerflow.extending import INEXACT, bind, define, elementwise, portable

# --- 1. as torch.autograd.Function: forward and backward of framework ops ---------------


@ef.custom_vjp
def soft_threshold(x, t):
    return ef.sign(x) * ef.maximum(ef.abs(x) - t, 0)


def soft_threshold_fwd(x, t):
    return soft_threshold(x, t), (x, t)


def soft_threshold_bwd(saved, g):
    x, t = saved
    active = ef.abs(x) > t
    return ef.where(active, g, 0), -ef.where(active, g * ef.sign(x), 0).sum()


soft_threshold.defvjp(soft_threshold_fwd, soft_threshold_bwd)

x = ef.random.normal((6,), dtype=ef.float64)
t = ef.tensor(0.3, dtype=ef.float64)
ef.check_grads(soft_threshold, (x, t))
print("custom_vjp", ef.grad(lambda a: soft_threshold(a, t).sum())(x))


# --- 2. as torch.library.custom_op: an op with a kernel in NumPy -------------------------
CALLS = []


@portable("wave")
def kernel(xp, x, *, k):
    CALLS.append(x.shape)
    return xp.sin(k * x) * x


def wave_vjp(g, out, x, *, k):
    return g * (ef.sin(k * x) + k * x * ef.cos(k * x))


wave_op = define("wave", infer=elementwise(INEXACT), saved="inputs", vjp=(wave_vjp,))


def wave(x, k):
    return bind(wave_op, x, k=float(k))


class Layer(ef.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.fc = ef.nn.Linear(4, 3)
        self.k = k

    def forward(self, x):
        return wave(self.fc(x), self.k)


# eager
z = ef.random.normal((5, 4))
assert ef.allclose(wave(z, 2.0), ef.sin(2.0 * z) * z, atol=1e-6)
# gradient, numerically
zd = ef.random.normal((3, 4), dtype=ef.float64)
ef.check_grads(lambda a: wave(a, 1.5), (zd,))
# traced: same bits, one trace, any size
f = ef.trace(lambda a, k: wave(a, k) + 1)
assert (f(z, 2.0) == wave(z, 2.0) + 1).all()
for n in (5, 6, 7):
    f(ef.ones((n, 4)), 2.0 + n)
print(f.explain())
print(f.graph(z, 2.0))
# shapes without data
print(wave(ef.zeros((1000, 1000), device="null:0"), 1.0))
# vmap
rows = ef.vmap(lambda r: wave(r, 2.0))(z)
assert (rows == wave(z, 2.0)).all()
per_sample = ef.vmap(ef.grad(lambda r: wave(r, 2.0).sum()))(z)
assert ef.allclose(per_sample, ef.grad(lambda a: wave(a, 2.0).sum())(z), atol=1e-6)
# second order
h = ef.grad(ef.grad(lambda a: wave(a, 2.0)))(ef.tensor(0.4))
print("second derivative", h, 4 * np.cos(0.8) - 4 * 0.4 * np.sin(0.8))
# in a module, trained
ef.random.seed(0)
net = ef.nn.Sequential(Layer(1.0), ef.nn.Linear(3, 1))
y = (z**2).sum(axis=1, keepdims=True)
opt = ef.optim.Adam(net.trainable, lr=0.05)
loss = lambda: ((net(z) - y) ** 2).mean()


def step():
    e, g = ef.value_and_grad(loss, wrt=net.trainable)()
    opt.update(g)
    return e


fast = ef.trace(step)
first, losses = step(), [fast() for _ in range(150)]
print("loss", first.item(), losses[-1].item(), "kernel calls", len(CALLS))
assert losses[-1] < 0.2 * first
# wrong uses
for bad in (lambda: wave("a", 1.0), lambda: wave(z), lambda: wave(z, z)):
    try:
        bad()
    except Exception as e:
        print(type(e).__name__, e)
