"""Traced functions with native kernels, against the same functions without, torch and jax.

Run: ``python -m tests.bench.compiled``. Each contender compares its result with one that NumPy has
computed in float64 before it is timed. After the times follows the peak memory of each.
"""

from __future__ import annotations

from tests.bench.harness import Contender, Contest, arguments, first_alone, installed, run
from tests.bench.memory import report

_DATA = """
import numpy as np
rng = np.random.default_rng(0)
x, y = (rng.uniform(0.1, 2, {shape}).astype("f4") for _ in range(2))
def close(values, exact, tolerance=1e-3):
    for a, b in zip(values, exact, strict=True):
        a = np.asarray(a, dtype="f8")
        assert np.allclose(a, b, rtol=tolerance, atol=1e-4), np.abs(a - b).max()
"""
_OURS = """
import eagerflow as ef
ef.config(kernels="{kernels}")
F = ef.nn.functional
x, y = ef.tensor(x), ef.tensor(y)
{code}
f = ef.trace(compile="{compile}")(work)
f(x, y)
f.wait()
for _ in range(40):
    f(x, y)
close([np.asarray(z) for z in f(x, y)], exact())
"""
_JAX = """
import jax, jax.numpy as jnp
x, y = jnp.asarray(x), jnp.asarray(y)
{code}
f = jax.jit(work)
close(f(x, y), exact())
def call():
    for z in f(x, y): z.block_until_ready()
"""
_TORCH = """
import torch
import torch.nn.functional as F
torch.set_num_threads({threads})
x, y = torch.from_numpy(x), torch.from_numpy(y)
{code}
close([z.detach().numpy() for z in work(x, y)], exact())
"""

_CHEAP = """
def chain(x, y):
    v = x
    for _ in range(10):
        v = v * 0.5 + y
    return v
"""
_MIXED = """
def chain(x, y):
    v = {xp}.exp({xp}.tanh(x * y + x) * y) + x
    v = ((1 / v) * x - y) ** 2 + y
    z = {xp}.sqrt(v) * x
    v = 1 / (1 + {xp}.exp(-z)) + x
    return {xp}.abs(-({xp}.maximum(v * y, x) - y))
"""
_EXACT_CHAIN = """
expected = [chain(x.astype("f8"), y.astype("f8"))]
def exact(): return expected
"""


def chain(name: str, shape: tuple[int, ...], code: str, threads: int) -> Contest:
    """Twenty elementwise ops."""
    data = _DATA.format(shape=shape) + code.replace("{xp}", "np") + _EXACT_CHAIN
    work = "def work(x, y): return (chain(x, y),)\n"

    def of(xp: str) -> str:
        return code.replace("{xp}", xp) + work

    return _contest(name, data, of("ef"), of("jnp"), of("torch"), threads)


#: a scalar weighted by y, its derivative by x, and the same by finite sums in NumPy
_GRADIENTS = {
    "softmax": (
        "F.softmax(x)", "jax.nn.softmax(x)", "F.softmax(x, 1)",
        "e = np.exp(a - a.max(1, keepdims=True)); s = e / e.sum(1, keepdims=True)\n"
        "    return [(b * s).sum(), s * (b - (b * s).sum(1, keepdims=True))]",
    ),
    "layer norm": (
        "F.layer_norm(x, [x.shape[1]])",
        "(x - x.mean(1, keepdims=True)) * jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-5)",
        "F.layer_norm(x, [x.shape[1]])",
        "s = 1 / np.sqrt(a.var(1, keepdims=True) + 1e-5); z = (a - a.mean(1, keepdims=True)) * s\n"
        "    g = b - b.mean(1, keepdims=True) - z * (b * z).mean(1, keepdims=True)\n"
        "    return [(b * z).sum(), g * s]",
    ),
    "GELU by tanh": (
        "F.gelu(x, approximate='tanh')", "jax.nn.gelu(x)", "F.gelu(x, approximate='tanh')",
        "c, k = (2 / np.pi) ** 0.5, 0.044715; t = np.tanh(c * (a + k * a**3))\n"
        "    d = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * c * (1 + 3 * k * a * a)\n"
        "    return [(b * 0.5 * a * (1 + t)).sum(), b * d]",
    ),
}  # fmt: skip


def gradient(name: str, shape: tuple[int, int], threads: int) -> Contest:
    """A function with its derivative."""
    ours, of_jax, of_torch, exact = _GRADIENTS[name]
    data = _DATA.format(shape=shape)
    data += f"a, b = x.astype('f8'), y.astype('f8')\ndef exact():\n    {exact}\n"
    return _contest(
        f"{name} with gradient, {shape[0]} x {shape[1]} f32", data,
        f"def work(x, y): return ef.value_and_grad(lambda x: ef.sum(y * {ours}))(x)\n",
        f"def work(x, y): return jax.value_and_grad(lambda x: (y * {of_jax}).sum())(x)\n",
        "def work(x, y):\n    x = x.detach().requires_grad_()\n"
        f"    loss = (y * {of_torch}).sum()\n    loss.backward()\n    return loss, x.grad\n",
        threads,
    )  # fmt: skip


def cross_entropy(shape: tuple[int, int], threads: int) -> Contest:
    """The loss of class indices, with its derivative."""
    data = _DATA.format(shape=shape) + (
        "labels = (np.arange(len(x)) * 7) % x.shape[1]\n"
        "a = x.astype('f8')\n"
        "def exact():\n"
        "    e = np.exp(a - a.max(1, keepdims=True)); s = e / e.sum(1, keepdims=True)\n"
        "    rows = np.arange(len(a)); loss = -np.log(s[rows, labels]).mean()\n"
        "    s[rows, labels] -= 1\n"
        "    return [loss, s / len(a)]\n"
        "y = labels\n"
    )
    return _contest(
        f"cross-entropy with gradient, {shape[0]} x {shape[1]} f32", data,
        "def work(x, y): return ef.value_and_grad(lambda x: F.cross_entropy(x, y))(x)\n",
        "def work(x, y):\n    def loss(x):\n"
        "        p = jax.nn.log_softmax(x)\n"
        "        return -jnp.take_along_axis(p, y[:, None], 1).mean()\n"
        "    return jax.value_and_grad(loss)(x)\n",
        "def work(x, y):\n    x = x.detach().requires_grad_()\n"
        "    loss = F.cross_entropy(x, y)\n    loss.backward()\n    return loss, x.grad\n",
        threads,
    )  # fmt: skip


def _contest(name: str, data: str, ours: str, jax: str, torch: str, threads: int) -> Contest:
    def with_kernels(kernels: str, compile: str) -> str:
        text = _OURS.replace("{kernels}", kernels).replace("{compile}", compile)
        return data + text.replace("{code}", ours)

    of_torch = data + _TORCH.replace("{threads}", str(threads)).replace("{code}", torch)
    return Contest(
        name,
        [
            Contender("native", with_kernels("native", "background"), "f(x, y)", "llvmlite"),
            Contender("generated", with_kernels("portable", "off"), "f(x, y)"),
            Contender("jax.jit", data + _JAX.replace("{code}", jax), "call()", "jax"),
            Contender("torch eager", of_torch, "work(x, y)", "torch"),
            Contender("torch.compile", of_torch + "g = torch.compile(work)\ng(x, y)\n", "g(x, y)",
                      "torch"),
        ],
        {"jax.jit": 1.0, "torch.compile": 1.0},
    )  # fmt: skip


_ADAM = """
import numpy as np
rng = np.random.default_rng(0)
shapes = {shapes}
values = [rng.normal(size=s).astype("f4") for s in shapes]
slopes = [rng.normal(size=s).astype("f4") for s in shapes]
"""
_ADAM_OURS = """
import eagerflow as ef
ef.config(kernels="{kernels}")
weights = [ef.Variable(v) for v in values]
given = [ef.tensor(g) for g in slopes]
adam = ef.optim.Adam(weights, lr=1e-3)
@ef.trace(compile="{compile}")
def step(*g):
    adam.update(list(g))
step(*given)
step.wait()
for _ in range(40):
    step(*given)
"""
_ADAM_TORCH = """
import torch
torch.set_num_threads({threads})
weights = [torch.nn.Parameter(torch.from_numpy(v)) for v in values]
for w, g in zip(weights, slopes):
    w.grad = torch.from_numpy(g)
adam = torch.optim.Adam(weights, lr=1e-3, fused=True)
"""


def adam(name: str, shapes: list[tuple[int, ...]], threads: int) -> Contest:
    """The update of all parameters of a network."""
    data = _ADAM.replace("{shapes}", repr(shapes))

    def ours(kernels: str, compile: str) -> str:
        return data + _ADAM_OURS.replace("{kernels}", kernels).replace("{compile}", compile)

    return Contest(
        name,
        [
            Contender("native", ours("native", "background"), "step(*given)", "llvmlite"),
            Contender("generated", ours("portable", "off"), "step(*given)"),
            Contender("torch fused", data + _ADAM_TORCH.replace("{threads}", str(threads)),
                      "adam.step()", "torch"),
        ],
        {"torch fused": 1.0},
    )  # fmt: skip


_MLP_SHAPES = [(784, 512), (512,), (512, 1024), (1024,), (1024, 10), (10,)]


def contests(threads: int) -> list[Contest]:
    """All contests, for a number of threads."""
    sizes = [((16,), "16"), ((1000,), "1e3"), ((100_000,), "1e5"), ((1_000_000,), "1e6"),
             ((10_000_000,), "1e7")]  # fmt: skip
    return [
        *[
            chain(f"20 {what}, {text} f32", shape, code, threads)
            for what, code in (("cheap ops", _CHEAP), ("mixed ops", _MIXED))
            for shape, text in sizes
        ],
        *[gradient(name, (512, 512), threads) for name in _GRADIENTS],
        cross_entropy((512, 512), threads),
        adam("Adam, one array of 1e6 f32", [(1000, 1000)], threads),
        adam("Adam, 9e5 f32 in six arrays", _MLP_SHAPES, threads),
    ]


if __name__ == "__main__":
    name = "Traced functions with native kernels"
    options = arguments(name).parse_args()
    table = contests(options.threads)
    if options.smallest:
        table = table[::12]
    table = installed(table, options)
    run(name, table, options)
    report(first_alone(table) if options.smallest else table)
