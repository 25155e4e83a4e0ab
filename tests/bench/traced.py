"""Calls of traced functions: against the same ops eagerly, and against torch and jax.

Run: ``python -m tests.bench.traced`` in an environment with the ``bench`` extra; peers that are
not installed are left out.
"""

from __future__ import annotations

from tests.bench.harness import Contender, Contest, arguments, installed, run

CHAIN = """
def chain(a, b):
    for _ in range({ops} // 2):
        a = a * b
        a = a + b
    return a
"""
STEP = """
def loss_of(xp):
    def loss(w, x, y):
        h = xp.tanh(x @ w)
        return ((h - y) * (h - y)).sum()
    return loss
"""
OURS = "import numpy as np, eagerflow as ef\n"
ARRAYS = "a = ef.tensor(np.full({shape}, 0.5, 'f4'))\nb = ef.tensor(np.full({shape}, 0.9, 'f4'))\n"
TRACED = OURS + ARRAYS + CHAIN + "f = ef.trace(chain)\nf(a, b)\n"
EAGER = OURS + ARRAYS + CHAIN
JAX = (
    "import jax, jax.numpy as jnp\na = jnp.full({shape}, 0.5, 'float32')\n"
    "b = jnp.full({shape}, 0.9, 'float32')\n" + CHAIN + "f = jax.jit(chain)\nf(a, b)\n"
)
TORCH = (
    "import torch\ntorch.set_num_threads(2)\na = torch.full({shape}, 0.5)\n"
    "b = torch.full({shape}, 0.9)\n" + CHAIN
)


def chain(name: str, shape: tuple[int, ...], ops: int, budget: dict[str, float]) -> Contest:
    """``ops`` multiplications and additions of arrays of one shape."""
    text = {"shape": shape, "ops": ops}
    contenders = [
        Contender("traced", TRACED.format(**text), "f(a, b)"),
        Contender("eager", EAGER.format(**text), "chain(a, b)"),
        Contender("jax.jit", JAX.format(**text), "f(a, b).block_until_ready()", "jax"),
        Contender("torch eager", TORCH.format(**text), "chain(a, b)", "torch"),
    ]
    return Contest(name, contenders, budget)


GRADIENT = (
    OURS + STEP + "w, x, y = [ef.random.normal(s) for s in (({k}, {k}), (32, {k}), (32, {k}))]\n"
    "loss = loss_of(ef)\n"
)
CONTESTS = [
    Contest(
        "own overhead: call of a traced function of two ops, 4x4",
        [
            Contender("traced", TRACED.format(shape=(4, 4), ops=2), "f(a, b)"),
            Contender("its two kernels", "import numpy as np\na = np.full((4, 4), 0.5, 'f4')\n"
                      "b = np.full((4, 4), 0.9, 'f4')", "np.add(np.multiply(a, b), b)"),
        ],
    ),
    chain("20 ops, 4x4 f32", (4, 4), 20, {"eager": 1.0}),
    chain("100 ops, 4x4 f32", (4, 4), 100, {"eager": 1.0}),
    chain("20 ops, 1e5 f32", (100_000,), 20, {"eager": 1.0}),
    chain("20 ops, 1e6 f32", (1_000_000,), 20, {"eager": 1.0}),
    Contest(
        "gradient of a layer, 32x128, traced whole",
        [
            Contender("traced", GRADIENT.replace("{k}", "128") + "g = ef.trace(ef.grad(loss))\n"
                      "g(w, x, y)", "g(w, x, y)"),
            Contender("eager", GRADIENT.replace("{k}", "128") + "g = ef.grad(loss)", "g(w, x, y)"),
            Contender("traced loss, eager grad", GRADIENT.replace("{k}", "128")
                      + "g = ef.grad(ef.trace(loss))\ng(w, x, y)", "g(w, x, y)"),
        ],
        {"eager": 1.0},
    ),
]  # fmt: skip

if __name__ == "__main__":
    options = arguments("Calls of traced functions").parse_args()
    run("Calls of traced functions", installed(CONTESTS, options), options)
