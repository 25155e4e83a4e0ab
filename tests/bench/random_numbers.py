"""Random numbers and assignments against NumPy and PyTorch.

Run: ``python -m tests.bench.random_numbers`` in an environment with the ``bench`` extra.
"""

from __future__ import annotations

from tests.bench.harness import Contender, Contest, arguments, installed, run

OURS = "import eagerflow as ef\ng = ef.random.Generator(1)"
NUMPY = "import numpy as np\ng = np.random.default_rng(1)"
TORCH = "import torch\ntorch.set_num_threads(2)\ntorch.manual_seed(1)"


def draw(
    name: str, ours: str, numpy: str, torch: str, budget: dict[str, float] | None = None
) -> Contest:
    """The contest of a draw by eagerflow, NumPy and PyTorch."""
    return Contest(
        name,
        [
            Contender("eagerflow", OURS, ours),
            Contender("numpy", NUMPY, numpy),
            Contender("torch", TORCH, torch, "torch"),
        ],
        budget or {},
    )


def assignment(shape: object) -> Contest:
    """The contest of ``v += x`` in place."""
    return Contest(
        f"v += x, {shape} f32",
        [
            Contender(
                "eagerflow",
                f"import eagerflow as ef\nv = ef.Variable(ef.zeros({shape}))\nx = ef.ones({shape})",
                "v.assign_add(x)",
            ),
            Contender(
                "numpy",
                f"import numpy as np\nv = np.zeros({shape}, 'f4')\nx = np.ones({shape}, 'f4')",
                "np.add(v, x, out=v)",
            ),
            Contender(
                "torch",
                f"{TORCH}\nv = torch.zeros({shape})\nx = torch.ones({shape})",
                "v.add_(x)",
                "torch",
            ),
        ],
    )


CONTESTS = [
    draw(
        "uniform, 1e6 f32", "g.uniform((10**6,))", "g.random(10**6, dtype='f4')",
        "torch.rand(10**6)", {"numpy": 1.5},
    ),
    draw(
        "normal, 1e6 f32", "g.normal((10**6,))", "g.standard_normal(10**6, dtype='f4')",
        "torch.randn(10**6)", {"numpy": 1.0},
    ),
    draw(
        "integers, 1e6 i64", "g.randint((10**6,), 0, 10)", "g.integers(0, 10, 10**6)",
        "torch.randint(0, 10, (10**6,))",
    ),
    draw(
        "permutation of 1e5", "g.permutation(10**5)", "g.permutation(10**5)",
        "torch.randperm(10**5)",
    ),
    draw("uniform, 4 f32", "g.uniform((4,))", "g.random(4, dtype='f4')", "torch.rand(4)"),
    assignment((4, 4)),
    assignment((1000, 1000)),
]  # fmt: skip

if __name__ == "__main__":
    options = arguments("Random numbers and variables").parse_args()
    run("Random numbers and variables", installed(CONTESTS, options), options)
